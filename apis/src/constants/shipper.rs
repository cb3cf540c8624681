//! Names of Shipper's, byte-identical.

/// API group.
pub const GROUP: &str = "shipper.booking.com";
/// `apiVersion` of its kinds.
pub const API_VERSION: &str = "shipper.booking.com/v1alpha1";
/// A version of the kinds whose status Shipper has no subresource for, with one. It is an addition of ours, older by
/// name so that no client takes it by itself.
pub const STATUS_VERSION: &str = "v1alpha0";

/// Label on releases, targets, installed objects and pods: name of the application.
pub const LABEL_APP: &str = "shipper-app";
/// Label on releases, targets, installed objects and pods: name of the release.
pub const LABEL_RELEASE: &str = "shipper-release";
/// Label on releases, targets, installed objects and pods: hash of the release's environment.
pub const LABEL_RELEASE_HASH: &str = "shipper-release-hash";
/// Label on installed objects: name of the `InstallationTarget` that installed the object last.
pub const LABEL_OWNED_BY: &str = "shipper-owned-by";
/// Label on pods, and key in the selector of the Service that balances: whether the pod gets traffic. Absent:
/// [`TRAFFIC_DISABLED`].
pub const LABEL_TRAFFIC_STATUS: &str = "shipper-traffic-status";
/// A value of [`LABEL_TRAFFIC_STATUS`].
pub const TRAFFIC_ENABLED: &str = "enabled";
/// A value of [`LABEL_TRAFFIC_STATUS`].
pub const TRAFFIC_DISABLED: &str = "disabled";
/// Label on the Service that balances.
pub const LABEL_LB: &str = "shipper-lb";
/// The value of [`LABEL_LB`].
pub const LB_PRODUCTION: &str = "production";
/// Label on applications, carried to their releases: whether [`SELECTOR_HELM_RELEASE`] is removed from the selector of
/// the Service that balances, `true` or `false`.
pub const LABEL_HELM_WORKAROUND: &str = "enable-helm-release-workaround";
/// Key in selectors of Services, as `helm create` makes them, that would leave other releases without traffic.
pub const SELECTOR_HELM_RELEASE: &str = "release";

/// Annotation on applications: highest generation of a release that was seen, decimal.
pub const ANNOTATION_HIGHEST_OBSERVED_GENERATION: &str =
    "shipper.booking.com/app.highestObservedGeneration";
/// Annotation on applications: name of the chart whose version was resolved.
pub const ANNOTATION_CHART_NAME: &str = "shipper.booking.com/app.chart.name";
/// Annotation on applications: version of the chart as somebody wrote it.
pub const ANNOTATION_CHART_VERSION_RAW: &str = "shipper.booking.com/app.chart.version.raw";
/// Annotation on applications: the version that was found for it.
pub const ANNOTATION_CHART_VERSION_RESOLVED: &str =
    "shipper.booking.com/app.chart.version.resolved";
/// Annotation on releases: number that orders them, decimal.
pub const ANNOTATION_RELEASE_GENERATION: &str = "shipper.booking.com/release.generation";
/// Annotation on releases: number that tells releases of the same environment apart, decimal.
pub const ANNOTATION_RELEASE_ITERATION: &str = "shipper.booking.com/release.template.iteration";
/// Annotation on releases: names of the chosen clusters, sorted, with commas.
pub const ANNOTATION_RELEASE_CLUSTERS: &str = "shipper.booking.com/release.clusters";
/// Annotation on applications and releases: the blocks that do not count for them, as `namespace/name` with commas.
pub const ANNOTATION_BLOCK_OVERRIDE: &str = "shipper.booking.com/rollout-block.override";
/// Finalizer on releases, an addition of ours: a release that is deleted stays until its pods are no longer needed.
pub const FINALIZER_SERVING: &str = "baton.run/serving";
/// Annotation on pods of a `ReplicaSet`: pods with a lower number are deleted before those with a higher one.
pub const ANNOTATION_POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
/// Annotation on `CapacityTargets`, as Shipper's documentation has it: number of pods that the chart asks for.
pub const ANNOTATION_FINAL_REPLICA_COUNT: &str = "shipper.booking.com/v1/finalReplicaCount";
