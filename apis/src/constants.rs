//! Well-known names. They are byte-identical to those of Package Operator and Shipper, so that
//! either controller can take over from the other.

pub mod shipper;

/// API group of revisions, their phases and slices, and deployments.
pub const GROUP: &str = "package-operator.run";
/// The only version that is served and stored.
pub const VERSION: &str = "v1alpha1";
/// `apiVersion` of the kinds of [`GROUP`].
pub const API_VERSION: &str = "package-operator.run/v1alpha1";

/// Name of the `ValidatingWebhookConfiguration` by which API servers find the manager's webhook, and of
/// its Service. An addition to Shipper.
pub const WEBHOOK: &str = "baton-webhook";

/// API group of the kinds that neither Package Operator nor Shipper has.
pub const BATON_GROUP: &str = "baton.run";
/// `apiVersion` of the kinds of [`BATON_GROUP`].
pub const BATON_API_VERSION: &str = "baton.run/v1alpha1";

/// Field manager of every server-side apply.
pub const FIELD_MANAGER: &str = "package-operator";
/// Field managers of earlier releases; their fields are migrated to [`FIELD_MANAGER`].
pub const LEGACY_FIELD_MANAGERS: [&str; 2] = ["package-operator-manager", "remote-phase-manger"];
/// Field managers of tools that people apply with. When an object is taken over, their fields are
/// migrated to [`FIELD_MANAGER`].
pub const FORMER_FIELD_MANAGERS: [&str; 3] = ["kubectl-client-side-apply", "kubectl", "helm"];
/// Annotation on an object: further field managers to migrate, as [`FORMER_FIELD_MANAGERS`],
/// separated by commas. An addition to Package Operator.
pub const ANNOTATION_FORMER_MANAGERS: &str = "baton.run/former-managers";

/// Finalizer of a revision, removed when its objects are torn down.
pub const FINALIZER_CACHED: &str = "package-operator.run/cached";
/// Finalizer of a revision, removed when its metric series are removed.
pub const FINALIZER_METRICS: &str = "package-operator.run/metrics";
/// Finalizer set by the API server for a deletion with `propagationPolicy: Orphan`.
pub const FINALIZER_ORPHAN: &str = "orphan";

/// Label on every managed object. Watches select by it.
pub const LABEL_CACHE: &str = "package-operator.run/cache";
/// The value of [`LABEL_CACHE`].
pub const LABEL_CACHE_VALUE: &str = "True";
/// Label on `ObjectSets` of a deployment: name of the deployment.
pub const LABEL_OBJECT_DEPLOYMENT: &str = "package-operator.run/object-deployment";
/// Label on `ObjectSetPhases`: the class.
pub const LABEL_PHASE_CLASS: &str = "package-operator.run/phase-class";
/// Label that is set on objects of delegated phases, unless their manifest has it.
pub const LABEL_MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The value of [`LABEL_MANAGED_BY`].
pub const LABEL_MANAGED_BY_VALUE: &str = "boxcutter";
/// The class that the manager itself serves.
pub const CLASS_DEFAULT: &str = "default";
/// Prefix of the class of a phase that is delivered into another cluster; the name of the Cluster
/// follows. An addition to Package Operator.
pub const CLASS_CLUSTER_PREFIX: &str = "cluster.";
/// Annotation on a phase object: the class that its objects are delivered by. An addition to
/// Package Operator.
pub const ANNOTATION_PHASE_CLASS: &str = "baton.run/phase-class";
/// Annotation on a revision or a phase object: with `true`, objects that cannot be removed are left
/// behind.
///
/// They cannot be removed if the server refuses the removal or the cluster cannot be reached. An
/// addition to Package Operator.
pub const ANNOTATION_ABANDON: &str = "baton.run/abandon";
/// Annotation on a revision: effect of its deletion on objects that older revisions contain as
/// well. An addition to Package Operator.
pub const ANNOTATION_ON_DELETION: &str = "baton.run/on-deletion";
/// Value of [`ANNOTATION_ON_DELETION`]: the newest of the older revisions becomes the controller of
/// the objects, and they are not deleted.
pub const ON_DELETION_HAND_BACK: &str = "hand-back";
/// Annotation on an object: effect on the object when its revision is archived or deleted. An
/// addition to Package Operator.
pub const ANNOTATION_DELETION: &str = "baton.run/deletion";
/// Value of [`ANNOTATION_DELETION`]: the object is kept, without an owner.
pub const DELETION_KEEP: &str = "keep";
/// Annotation on the lease of the manager: a [`crate::ManagerNote`] as JSON.
pub const ANNOTATION_MANAGER: &str = "baton.run/manager";
/// The admission policies of an installation. The first one concerns all kinds, the others those of
/// Releases.
pub const POLICIES: [&str; 3] = [
    "baton-definitions",
    "baton-rollout-blocks",
    "baton-release-environment",
];
/// Annotation on one of Baton's custom resource definitions: with the value `true`, the admission
/// policy `baton-definitions` admits its deletion.
pub const ANNOTATION_ALLOW_DELETION: &str = "baton.run/allow-deletion";
/// Annotation on a custom resource definition, in its manifest or in the cluster: with the value
/// [`ALLOW_DATA_LOSS`], it is changed even if stored objects lose data. An addition to Package
/// Operator.
pub const ANNOTATION_ALLOW_DATA_LOSS: &str = "baton.run/allow-data-loss";
/// Value of [`ANNOTATION_ALLOW_DATA_LOSS`].
pub const ALLOW_DATA_LOSS: &str = "true";
/// Annotation on a deployment, an Application or a revision: hubs that do not exist any more, by the
/// UIDs of their namespaces `kube-system`, and owners of such hubs, by their UIDs. Objects in other
/// clusters are taken over from them. An addition to Package Operator.
pub const ANNOTATION_LOST_HUBS: &str = "baton.run/lost-hubs";
/// Annotation on an object that was restored from a backup: the checksum of the backup. An addition
/// to Package Operator.
pub const ANNOTATION_RESTORED_FROM: &str = "baton.run/restored-from";
/// Annotation on an event: the objects that were repaired, with the fields and the clients that had
/// changed them, as JSON. An addition to Package Operator.
pub const ANNOTATION_REPAIRS: &str = "baton.run/repairs";
/// Annotation on an object: the way to make a change that the server refuses because a field is
/// immutable. An addition to Package Operator.
pub const ANNOTATION_UPDATE: &str = "baton.run/update";
/// Value of [`ANNOTATION_UPDATE`]: the object is deleted and created again. A Job is not, if a Job
/// with its content has already run.
pub const UPDATE_RECREATE: &str = "recreate";
/// Value of [`ANNOTATION_UPDATE`]: as [`UPDATE_RECREATE`], but a Job runs again even if its content
/// has run before.
pub const UPDATE_RERUN: &str = "rerun";
/// Annotation on a revision, or on its deployment: the objects that are checked before the first
/// write. An addition to Package Operator.
pub const ANNOTATION_PREFLIGHT: &str = "baton.run/preflight";
/// Value of [`ANNOTATION_PREFLIGHT`]: the objects of all phases are checked.
pub const PREFLIGHT_ALL: &str = "All";
/// Value of [`ANNOTATION_PREFLIGHT`], and the default: each phase is checked when it is reached.
pub const PREFLIGHT_PHASE: &str = "Phase";
/// The class of a mirror: the object on the hub that stands for a phase that an agent delivers.
/// This name and the following ones are additions to Package Operator.
pub const CLASS_AGENT: &str = "agent";
/// Prefix of the namespace that an agent has on the hub; the name of the Cluster follows.
pub const NAMESPACE_CLUSTER_PREFIX: &str = "baton-cluster-";
/// Annotation on a mirror: its phase, and the facts about the revision of the phase that the agent
/// needs, as JSON.
pub const ANNOTATION_ORIGIN: &str = "baton.run/origin";
/// Finalizer on a mirror, removed when the agent has deleted the objects.
pub const FINALIZER_MIRROR: &str = "baton.run/mirror";
/// Finalizer on a rollout block that objects override. It is removed when they override the block no
/// more.
pub const FINALIZER_OVERRIDES: &str = "baton.run/overrides";
/// Name of the heartbeat object: it has no phase, and the agent writes its status to show that the
/// agent is running.
pub const HEARTBEAT: &str = "agent";
/// Annotation on the object [`HEARTBEAT`]: interval at which the agent writes its status, in
/// seconds.
pub const ANNOTATION_HEARTBEAT_SECONDS: &str = "baton.run/heartbeat-seconds";
/// Annotation on an object in the namespace of an agent: the part of the rollout of an Application
/// that the agent carries out, as JSON.
pub const ANNOTATION_ROLLOUT: &str = "baton.run/rollout";
/// Annotation of an agent's heartbeat object: identity of the agent that delivers. Other agents of
/// this name are refused.
pub const ANNOTATION_AGENT: &str = "baton.run/agent";
/// Label on revisions of Releases and of sites: the chain that they belong to, one for each
/// application or deployment and each cluster. The value is opaque.
pub const LABEL_CHAIN: &str = "baton.run/chain";
/// Label on revisions of sites: name of their `SiteDeployment`.
pub const LABEL_SITE_DEPLOYMENT: &str = "baton.run/site-deployment";
/// Label on the stored versions of a `SiteApplication`: name of the application.
pub const LABEL_SITE_APPLICATION: &str = "baton.run/site-application";
/// Label on revisions of sites: name of the site.
pub const LABEL_SITE: &str = "baton.run/site";
/// Annotation on revisions of sites and on their phases: the position in the queue of the site, as
/// JSON.
pub const ANNOTATION_SITE: &str = "baton.run/site";
/// Label on objects: the service that they belong to, for upgrades that stop some services.
pub const LABEL_SERVICE: &str = "baton.run/service";
/// Annotation on workloads that have stopped for the next version of a site.
pub const ANNOTATION_STOPPED: &str = "baton.run/stopped";
/// Label on deployments, also of sites, that obey rollout blocks; any value but `false` counts.
pub const LABEL_OBEY_ROLLOUT_BLOCKS: &str = "baton.run/obey-rollout-blocks";
/// Label on Secrets with the credentials of a chart repository.
pub const LABEL_CHART_REPOSITORY: &str = "baton.run/chart-repository";
/// Annotation on `InstallationTargets`: the slices with the installed objects.
pub const ANNOTATION_CONTENT: &str = "baton.run/content";
/// Label with the name of the package that the object comes from. Copied from revisions to their
/// objects.
pub const LABEL_PACKAGE: &str = "package-operator.run/package";
/// Label with the name of the instance of the package. Copied from revisions to their objects.
pub const LABEL_INSTANCE: &str = "package-operator.run/instance";

/// Annotation on managed objects: decimal number of the revision that wrote them last.
pub const ANNOTATION_REVISION: &str = "package-operator.run/revision";
/// Annotation on `ObjectSets`: hash of the template of their deployment.
pub const ANNOTATION_HASH: &str = "package-operator.run/hash";
/// Annotation on `ObjectSets`: digest of the metadata in the template of their deployment. An
/// addition to Package Operator.
pub const ANNOTATION_TEMPLATE_METADATA: &str = "baton.run/template-metadata";
/// Annotation on the metadata of a template: a new value causes a new revision with the same
/// content. An addition to Package Operator.
pub const ANNOTATION_RESTARTED_AT: &str = "baton.run/restartedAt";
/// Annotation of kubectl: the reason that a deployment was changed. Copied to the revision.
pub const ANNOTATION_CHANGE_CAUSE: &str = "kubernetes.io/change-cause";
/// Annotation of kubectl: the whole manifest as last applied. Not copied to revisions.
pub const ANNOTATION_LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Annotations by which other tools recognise their objects. They stay on an object that is taken
/// over, so that the tools can manage it again.
pub const ANNOTATIONS_OF_TOOLS: [&str; 7] = [
    ANNOTATION_LAST_APPLIED,
    "argocd.argoproj.io/tracking-id",
    "kapp.k14s.io/identity",
    "kapp.k14s.io/original",
    "kapp.k14s.io/original-diff-md5",
    "meta.helm.sh/release-name",
    "meta.helm.sh/release-namespace",
];
/// Annotation on `ObjectSets`: the deployment caused the pause.
pub const ANNOTATION_PAUSED_BY_PARENT: &str = "package-operator.run/paused-by-parent";
/// Annotation on an Application: if true, its rollout is paused.
pub const ANNOTATION_PAUSED: &str = "baton.run/paused";
/// Annotation on an Application: [`GIVEN_BACK_REQUESTED`] asks the manager to stop; the manager
/// answers with [`GIVEN_BACK`], and writes nothing for the Application from then on.
pub const ANNOTATION_GIVEN_BACK: &str = "baton.run/given-back";
/// The value of [`ANNOTATION_GIVEN_BACK`] that a user sets.
pub const GIVEN_BACK_REQUESTED: &str = "requested";
/// The value of [`ANNOTATION_GIVEN_BACK`] that the manager sets.
pub const GIVEN_BACK: &str = "true";
/// Annotation on managed objects in other clusters: their owners, as a JSON list.
pub const ANNOTATION_OWNERS: &str = "package-operator.run/owners";
/// Annotation on managed objects in other clusters: the hub of their controller, by the UID of its
/// namespace `kube-system`. An addition to Package Operator.
pub const ANNOTATION_HUB: &str = "baton.run/hub";
/// Annotation on managed objects in other clusters: the chain of their controller, as the label of its
/// revision. An addition to Package Operator.
pub const ANNOTATION_CHAIN: &str = LABEL_CHAIN;
/// Annotation on `ObjectSets`: image of the package they came from.
pub const ANNOTATION_PACKAGE_SOURCE_IMAGE: &str = "package-operator.run/package-source-image";

/// Key in the Secret of a Cluster: a bearer token. If it is set, [`SECRET_CA`] is the only other key
/// that is read.
pub const SECRET_TOKEN: &str = "token";
/// Key in the Secret of a Cluster: the CA of the server as PEM, for use with a token.
pub const SECRET_CA: &str = "ca.crt";
/// Key in the Secret of a Cluster: the CA of the server as PEM, for use with a client certificate.
pub const SECRET_TLS_CA: &str = "tls.ca";
/// Key in the Secret of a Cluster: a client certificate, as PEM.
pub const SECRET_TLS_CERTIFICATE: &str = "tls.crt";
/// Key in the Secret of a Cluster: the key of the client certificate, as PEM.
pub const SECRET_TLS_KEY: &str = "tls.key";
/// Annotation on the Secret of a Cluster: URL of the API server that its credentials are for. The
/// credentials are sent to no other server.
pub const ANNOTATION_SERVER: &str = "baton.run/server";
/// Annotation on the Secret of a Cluster with a client certificate: if true, the certificate of the
/// server is not verified. The value is parsed as a bool in Go.
pub const ANNOTATION_SKIP_TLS_VERIFY: &str =
    "shipper.booking.com/cluster-secret.insecure-tls-skip-verify";

/// Environment variable that disables collision protection when it has any value.
pub const ENV_FORCE_ADOPTION: &str = "PKO_FORCE_ADOPTION";
