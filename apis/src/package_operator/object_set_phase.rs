use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    ControlledObjectReference, EndedObject, ObjectSetObject, ObjectSetProbe, limits, schema,
};

/// The content of a delegated phase.
///
/// Everything except `paused` is immutable. The class is the value of the label
/// `package-operator.run/phase-class`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, CustomResource, KubeSchema)]
#[kube(
    group = "package-operator.run",
    version = "v1alpha1",
    kind = "ObjectSetPhase",
    doc = "A phase of an ObjectSet with a class: the controller of the class runs the phase. The controller of the \
        ObjectSet creates the object.",
    namespaced,
    status = "ObjectSetPhaseStatus",
    shortname = "objsetphase",
    shortname = "osp",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = schema::immutable_presence("previous"),
    validation = schema::immutable_presence("availabilityProbes"),
    validation = schema::immutable("serviceAccountName")
)]
pub struct ObjectSetPhaseSpec {
    /// If true, nothing is written or deleted; the status is updated. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// Number of the revision that the phase belongs to. Immutable.
    #[x_kube(validation = schema::immutable_value("revision"))]
    pub revision: i64,
    /// Predecessors of the revision that the phase belongs to, for information only: the numbers of
    /// revisions decide which objects are taken over. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = schema::immutable_value("previous"))]
    pub previous: Option<Vec<PreviousRevisionName>>,
    /// Probes that decide when the objects are available. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = schema::immutable_value("availabilityProbes"))]
    #[schemars(length(max = limits::PROBES))]
    pub availability_probes: Option<Vec<ObjectSetProbe>>,
    /// Objects of the phase, including those of its slices. Immutable.
    #[x_kube(validation = schema::immutable_value("objects"))]
    pub objects: Vec<ObjectSetObject>,
    /// Name of a service account in the same namespace. Dry runs, writes and deletions of the
    /// objects use its rights. Absent: the default account of the manager's configuration, or the
    /// manager itself if there is none. Cluster-scoped revisions have no service account.
    /// Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = crate::schema::ACCOUNT_NAME))]
    pub service_account_name: Option<String>,
}

/// The content of a delegated phase; the spec of an `ObjectSetPhase`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, CustomResource, JsonSchema)]
#[kube(
    group = "package-operator.run",
    version = "v1alpha1",
    kind = "ClusterObjectSetPhase",
    doc = "The cluster-scoped variant of an ObjectSetPhase: a phase of a ClusterObjectSet.",
    status = "ObjectSetPhaseStatus",
    shortname = "clobjsetphase",
    shortname = "cosp",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(transparent)]
pub struct ClusterObjectSetPhaseSpec(pub ObjectSetPhaseSpec);

/// A predecessor of the revision that a phase belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct PreviousRevisionName {
    /// Name of the revision.
    pub name: String,
}

/// The state that the controller of the class observed.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectSetPhaseStatus {
    /// Generation of the spec that this status was reported for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions of the phase. `Available`: all objects are written and pass their probes.
    /// `Paused`: as requested by `spec.paused`. `Ready`, `Reconciling`, `Stalled`: the state for
    /// general tools (kstatus). Other conditions are mapped from objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Objects that this phase controls, in the order of the objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub controller_of: Vec<ControlledObjectReference>,
    /// Objects that have run to their end and are deleted by their own rule, such as Jobs with
    /// `ttlSecondsAfterFinished`. They are not created again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<EndedObject>,
    /// Hash of the manifests as first observed. Manifests with another hash are refused with the
    /// reason `SpecChanged`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_hash: Option<String>,
    /// UID of the revision for which the workloads of this phase of a site have stopped. Reported
    /// together with the condition `baton.run/Stopped`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_for: Option<String>,
}
