//! Names of Shipper, byte-identical.

/// API group.
pub const GROUP: &str = "shipper.booking.com";
/// `apiVersion` of its kinds.
pub const API_VERSION: &str = "shipper.booking.com/v1alpha1";
/// A second version, with a status subresource, of the kinds that have none in Shipper. It is an
/// addition to Shipper. Its name sorts as older, so that no client prefers it.
pub const STATUS_VERSION: &str = "v1alpha0";

/// Label on releases, targets, installed objects and pods: name of the application.
pub const LABEL_APP: &str = "shipper-app";
/// Label on releases, targets, installed objects and pods: name of the release.
pub const LABEL_RELEASE: &str = "shipper-release";
/// Label on releases, targets, installed objects and pods: hash of the release's environment.
pub const LABEL_RELEASE_HASH: &str = "shipper-release-hash";
/// Label on installed objects: name of the `InstallationTarget` that installed the object last.
pub const LABEL_OWNED_BY: &str = "shipper-owned-by";
/// End of the name of an anchor: a `ConfigMap` of Shipper that owns the objects of a release.
pub const ANCHOR_SUFFIX: &str = "-anchor";
/// Field manager of Shipper.
pub const FIELD_MANAGER: &str = "shipper";
/// Label on pods, and key in the selector of the Service that balances: the pod gets traffic or
/// not. Absent: [`TRAFFIC_DISABLED`].
pub const LABEL_TRAFFIC_STATUS: &str = "shipper-traffic-status";
/// Value of [`LABEL_TRAFFIC_STATUS`] of a pod with traffic.
pub const TRAFFIC_ENABLED: &str = "enabled";
/// Value of [`LABEL_TRAFFIC_STATUS`] of a pod without traffic.
pub const TRAFFIC_DISABLED: &str = "disabled";
/// Label on the Service that balances.
pub const LABEL_LB: &str = "shipper-lb";
/// The value of [`LABEL_LB`].
pub const LB_PRODUCTION: &str = "production";
/// Label on applications, copied to their releases: with `true`, [`SELECTOR_HELM_RELEASE`] is
/// removed from the selector of the Service that balances. Otherwise a chart with this key is
/// refused.
pub const LABEL_HELM_WORKAROUND: &str = "enable-helm-release-workaround";
/// Key in selectors of Services, as `helm create` writes them. It would leave other releases
/// without traffic.
pub const SELECTOR_HELM_RELEASE: &str = "release";

/// Annotation on applications: highest observed generation of a release, decimal.
pub const ANNOTATION_HIGHEST_OBSERVED_GENERATION: &str =
    "shipper.booking.com/app.highestObservedGeneration";
/// Annotation on applications: name of the chart whose version was resolved.
pub const ANNOTATION_CHART_NAME: &str = "shipper.booking.com/app.chart.name";
/// Annotation on applications: version of the chart as the user wrote it.
pub const ANNOTATION_CHART_VERSION_RAW: &str = "shipper.booking.com/app.chart.version.raw";
/// Annotation on applications: resolved version of the chart.
pub const ANNOTATION_CHART_VERSION_RESOLVED: &str =
    "shipper.booking.com/app.chart.version.resolved";
/// Annotation on releases: number by which they are ordered, decimal.
pub const ANNOTATION_RELEASE_GENERATION: &str = "shipper.booking.com/release.generation";
/// Annotation on releases: number that distinguishes releases of the same environment, decimal.
pub const ANNOTATION_RELEASE_ITERATION: &str = "shipper.booking.com/release.template.iteration";
/// Annotation on releases: names of the chosen clusters, sorted and separated by commas.
pub const ANNOTATION_RELEASE_CLUSTERS: &str = "shipper.booking.com/release.clusters";
/// Annotation on applications and releases: blocks that do not apply to them, as `namespace/name`,
/// separated by commas.
pub const ANNOTATION_BLOCK_OVERRIDE: &str = "shipper.booking.com/rollout-block.override";
/// Message about an edit of the environment of a Release.
pub const ENVIRONMENT_IS_CONSTANT: &str =
    "the Release environment must not be changed; consider editing the Application object";
/// Namespace whose blocks apply to all namespaces.
pub const NAMESPACE_GLOBAL_BLOCKS: &str = "rollout-blocks-global";
/// Finalizer on releases, removed when the pods of a deleted release are no longer needed. An
/// addition to Shipper.
pub const FINALIZER_SERVING: &str = "baton.run/serving";
/// Annotation on pods of a `ReplicaSet`: pods with a lower number are deleted before those with a higher one.
pub const ANNOTATION_POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
/// Annotation on `CapacityTargets`, as in Shipper's documentation: number of pods that the chart
/// requests.
pub const ANNOTATION_FINAL_REPLICA_COUNT: &str = "shipper.booking.com/v1/finalReplicaCount";
