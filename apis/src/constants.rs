//! Well-known names. Byte-identical to those of Package Operator and Shipper, so that
//! either controller can take over from the other.

pub mod shipper;

/// API group of revisions, their phases and slices, and deployments.
pub const GROUP: &str = "package-operator.run";
/// The one served and stored version.
pub const VERSION: &str = "v1alpha1";
/// `apiVersion` of the kinds of [`GROUP`].
pub const API_VERSION: &str = "package-operator.run/v1alpha1";

/// API group of what neither Package Operator nor Shipper has a place for.
pub const BATON_GROUP: &str = "baton.run";
/// `apiVersion` of the kinds of [`BATON_GROUP`].
pub const BATON_API_VERSION: &str = "baton.run/v1alpha1";

/// Field manager of every server-side apply.
pub const FIELD_MANAGER: &str = "package-operator";
/// Managers of earlier releases whose fields are migrated into [`FIELD_MANAGER`].
pub const LEGACY_FIELD_MANAGERS: [&str; 2] = ["package-operator-manager", "remote-phase-manger"];
/// Managers of tools that people apply with: what they own in an object becomes ours when it is taken over.
pub const FORMER_FIELD_MANAGERS: [&str; 3] = ["kubectl-client-side-apply", "kubectl", "helm"];
/// Annotation on an object: managers beside [`FORMER_FIELD_MANAGERS`], separated by commas. An addition of ours.
pub const ANNOTATION_FORMER_MANAGERS: &str = "baton.run/former-managers";

/// Finalizer that holds a revision until its objects are torn down.
pub const FINALIZER_CACHED: &str = "package-operator.run/cached";
/// Finalizer that holds a revision until its metric series are removed.
pub const FINALIZER_METRICS: &str = "package-operator.run/metrics";
/// Finalizer set by the API server for a deletion with `propagationPolicy: Orphan`.
pub const FINALIZER_ORPHAN: &str = "orphan";

/// Label on every managed object; selects what the watches see.
pub const LABEL_CACHE: &str = "package-operator.run/cache";
/// The value of [`LABEL_CACHE`].
pub const LABEL_CACHE_VALUE: &str = "True";
/// Label on `ObjectSets` made by a deployment, holding the deployment's name.
pub const LABEL_OBJECT_DEPLOYMENT: &str = "package-operator.run/object-deployment";
/// Label on `ObjectSetPhases`, holding the class.
pub const LABEL_PHASE_CLASS: &str = "package-operator.run/phase-class";
/// Label that objects of delegated phases get, unless their manifest has it.
pub const LABEL_MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The value of [`LABEL_MANAGED_BY`].
pub const LABEL_MANAGED_BY_VALUE: &str = "boxcutter";
/// The class that is served by the manager itself.
pub const CLASS_DEFAULT: &str = "default";
/// What the class of a phase that is delivered into another cluster begins with; the name of the
/// Cluster follows. An addition of ours.
pub const CLASS_CLUSTER_PREFIX: &str = "cluster.";
/// Annotation on a phase object: the class that its objects are delivered by. An addition of ours.
pub const ANNOTATION_PHASE_CLASS: &str = "baton.run/phase-class";
/// Annotation on a revision or a phase object, `true` to give up on objects that cannot be removed, because the server
/// refuses it or their cluster cannot be reached: they are left behind. An addition of ours.
pub const ANNOTATION_ABANDON: &str = "baton.run/abandon";
/// Annotation on a revision: what its deletion does to objects that older revisions want as well. An addition of ours.
pub const ANNOTATION_ON_DELETION: &str = "baton.run/on-deletion";
/// Value of [`ANNOTATION_ON_DELETION`]: they become controlled by the newest of those revisions instead of being
/// deleted.
pub const ON_DELETION_HAND_BACK: &str = "hand-back";
/// Annotation on an object: what happens to it when its revision is archived or deleted. An addition of ours.
pub const ANNOTATION_DELETION: &str = "baton.run/deletion";
/// Value of [`ANNOTATION_DELETION`]: it stays, without an owner.
pub const DELETION_KEEP: &str = "keep";
/// Annotation on an event: the objects that were repaired, the fields and who had changed them, as JSON. An addition of
/// ours.
pub const ANNOTATION_REPAIRS: &str = "baton.run/repairs";
/// Annotation on an object: how a change of it is made that the server refuses as one of an immutable field. An
/// addition of ours.
pub const ANNOTATION_UPDATE: &str = "baton.run/update";
/// Value of [`ANNOTATION_UPDATE`]: it is deleted and created anew. A Job with a content that has run already is not.
pub const UPDATE_RECREATE: &str = "recreate";
/// Value of [`ANNOTATION_UPDATE`]: as [`UPDATE_RECREATE`], and a Job runs again whatever has run before.
pub const UPDATE_RERUN: &str = "rerun";
/// Annotation on a revision, or on the deployment that makes it: how much is checked before its first write. An
/// addition of ours.
pub const ANNOTATION_PREFLIGHT: &str = "baton.run/preflight";
/// Value of [`ANNOTATION_PREFLIGHT`]: the objects of all phases.
pub const PREFLIGHT_ALL: &str = "All";
/// Value of [`ANNOTATION_PREFLIGHT`]: those of the first phase, and of each other one when it is reached, as without.
pub const PREFLIGHT_PHASE: &str = "Phase";
/// The class of what stands on the hub for a phase that an agent delivers. An addition of ours, as the
/// names that follow.
pub const CLASS_AGENT: &str = "agent";
/// What the namespace that an agent has on the hub begins with; the name of the Cluster follows.
pub const NAMESPACE_CLUSTER_PREFIX: &str = "baton-cluster-";
/// Annotation on what stands for a phase: which phase it is, and what is to be known of its revision, as JSON.
pub const ANNOTATION_ORIGIN: &str = "baton.run/origin";
/// Finalizer on what stands for a phase, until its agent has taken the objects away.
pub const FINALIZER_MIRROR: &str = "baton.run/mirror";
/// Name of the object without a phase whose status an agent writes to show that it is there.
pub const HEARTBEAT: &str = "agent";
/// Annotation on the object [`HEARTBEAT`]: how often its status is to be written, in seconds.
pub const ANNOTATION_HEARTBEAT_SECONDS: &str = "baton.run/heartbeat-seconds";
/// Label on revisions of Releases and of sites: the application, or the deployment, and the cluster whose chain they
/// belong to. The value is opaque.
pub const LABEL_CHAIN: &str = "baton.run/chain";
/// Label on revisions of sites: the `SiteDeployment` that made them.
pub const LABEL_SITE_DEPLOYMENT: &str = "baton.run/site-deployment";
/// Label on what is kept of the versions of a `SiteApplication`: its name.
pub const LABEL_SITE_APPLICATION: &str = "baton.run/site-application";
/// Label on revisions of sites: the site.
pub const LABEL_SITE: &str = "baton.run/site";
/// Annotation on revisions of sites and on their phases: their place in the queue of the site, as JSON.
pub const ANNOTATION_SITE: &str = "baton.run/site";
/// Label on objects: the service that they belong to, for upgrades that stop some services.
pub const LABEL_SERVICE: &str = "baton.run/service";
/// Annotation on workloads that have stopped for the next version of a site.
pub const ANNOTATION_STOPPED: &str = "baton.run/stopped";
/// Label on Secrets: the credentials of a chart repository.
pub const LABEL_CHART_REPOSITORY: &str = "baton.run/chart-repository";
/// Annotation on `InstallationTargets`: the slices that hold what is installed.
pub const ANNOTATION_CONTENT: &str = "baton.run/content";
/// Label of package origin, copied down to managed objects.
pub const LABEL_PACKAGE: &str = "package-operator.run/package";
/// Label of package origin, copied down to managed objects.
pub const LABEL_INSTANCE: &str = "package-operator.run/instance";

/// Annotation on managed objects: number of the revision that wrote them last, decimal.
pub const ANNOTATION_REVISION: &str = "package-operator.run/revision";
/// Annotation on `ObjectSets`: hash of the template they were made from.
pub const ANNOTATION_HASH: &str = "package-operator.run/hash";
/// Annotation on `ObjectSets`: digest of the metadata of the template they were made from. An addition of ours.
pub const ANNOTATION_TEMPLATE_METADATA: &str = "baton.run/template-metadata";
/// Annotation on a template's metadata: a new value makes a new revision of the same content. An addition of ours.
pub const ANNOTATION_RESTARTED_AT: &str = "baton.run/restartedAt";
/// Annotation of kubectl: why a deployment was changed. Carried to the revision.
pub const ANNOTATION_CHANGE_CAUSE: &str = "kubernetes.io/change-cause";
/// Annotation of kubectl: the whole manifest as applied last. Not carried to revisions.
pub const ANNOTATION_LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Annotations that tools need to work on an object again. They stay with one that is taken over.
pub const ANNOTATIONS_OF_TOOLS: [&str; 7] = [
    ANNOTATION_LAST_APPLIED,
    "argocd.argoproj.io/tracking-id",
    "kapp.k14s.io/identity",
    "kapp.k14s.io/original",
    "kapp.k14s.io/original-diff-md5",
    "meta.helm.sh/release-name",
    "meta.helm.sh/release-namespace",
];
/// Annotation on `ObjectSets`: the pause came from the deployment.
pub const ANNOTATION_PAUSED_BY_PARENT: &str = "package-operator.run/paused-by-parent";
/// Annotation on managed objects in other clusters: owners as a JSON list.
pub const ANNOTATION_OWNERS: &str = "package-operator.run/owners";
/// Annotation on `ObjectSets`: image of the package they came from.
pub const ANNOTATION_PACKAGE_SOURCE_IMAGE: &str = "package-operator.run/package-source-image";

/// Key in the Secret of a Cluster: a bearer token. Where there is one, only [`SECRET_CA`] counts besides.
pub const SECRET_TOKEN: &str = "token";
/// Key in the Secret of a Cluster: the CA of the server, as PEM, beside a token.
pub const SECRET_CA: &str = "ca.crt";
/// Key in the Secret of a Cluster: the CA of the server, as PEM, beside a client certificate.
pub const SECRET_TLS_CA: &str = "tls.ca";
/// Key in the Secret of a Cluster: a client certificate, as PEM.
pub const SECRET_TLS_CERTIFICATE: &str = "tls.crt";
/// Key in the Secret of a Cluster: the key of the client certificate, as PEM.
pub const SECRET_TLS_KEY: &str = "tls.key";
/// Annotation on the Secret of a Cluster: URL of the API server that its credentials are for. They are sent to no
/// other.
pub const ANNOTATION_SERVER: &str = "baton.run/server";
/// Annotation on the Secret of a Cluster with a client certificate: whether the server's certificate is trusted
/// unseen, as Go reads a bool.
pub const ANNOTATION_SKIP_TLS_VERIFY: &str =
    "shipper.booking.com/cluster-secret.insecure-tls-skip-verify";

/// Environment variable that disables collision protection when it has any value.
pub const ENV_FORCE_ADOPTION: &str = "PKO_FORCE_ADOPTION";
