use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ObjectSetProbe, ObjectSetTemplatePhase, limits, schema};

/// The content of a revision.
///
/// Everything except `lifecycleState` is immutable. To change the content, create a new revision
/// that names this one in `previous`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, CustomResource, KubeSchema)]
#[kube(
    group = "package-operator.run",
    version = "v1alpha1",
    kind = "ObjectSet",
    doc = "A revision: an immutable list of phases of objects. It rolls out phase by phase, takes objects over from \
        previous revisions, is handed over to newer ones and is archived in the end.",
    namespaced,
    status = "ObjectSetStatus",
    shortname = "objset",
    shortname = "os",
    derive = "Default",
    derive = "PartialEq",
    validation = schema::previous_of_own_kind()
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = schema::immutable("previous"),
    validation = schema::immutable("phases"),
    validation = schema::immutable("availabilityProbes"),
    validation = schema::immutable("successDelaySeconds"),
    validation = schema::immutable("serviceAccountName"),
    validation = schema::set_once("revision")
)]
pub struct ObjectSetSpec {
    /// Life cycle state of the revision. `Active` (the default): the objects are written, repaired
    /// and probed. `Paused`: nothing is written or deleted, only the status is updated. `Archived`:
    /// the objects that no newer revision took over are deleted. `Archived` is final.
    #[serde(default)]
    pub lifecycle_state: LifecycleState,
    /// Phases in the order of their rollout. Teardown goes through them in reverse order.
    /// Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phases: Option<Vec<ObjectSetTemplatePhase>>,
    /// Probes that decide when the objects are available. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::PROBES))]
    pub availability_probes: Option<Vec<ObjectSetProbe>>,
    /// Seconds for which the revision has to stay available before it counts as succeeded. Absent
    /// or zero: it succeeds as soon as it is available. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success_delay_seconds: Option<i32>,
    /// Name of a service account in the same namespace. Dry runs, writes and deletions of the
    /// objects use its rights. Absent: the default account of the manager's configuration, or the
    /// manager itself if there is none. Cluster-scoped revisions have no service account.
    /// Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = crate::schema::ACCOUNT_NAME))]
    pub service_account_name: Option<String>,
    /// All revisions that this one takes objects over from. The list has to be complete:
    /// predecessors of a predecessor are not looked up. Names that do not exist are ignored.
    /// Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<Vec<PreviousRevisionReference>>,
    /// Number of the revision. If absent, the controller sets it to one more than the highest
    /// number in `previous`, or to 1. The revision with the higher number gets an object, with any
    /// content: a rollback is a new revision with old content. Immutable once set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = crate::limits::NUMBER))]
    pub revision: Option<i64>,
}

/// The content of a revision; the spec of an `ObjectSet`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, CustomResource, JsonSchema)]
#[kube(
    group = "package-operator.run",
    version = "v1alpha1",
    kind = "ClusterObjectSet",
    doc = "The cluster-scoped variant of an ObjectSet: a revision whose objects may be in any namespace, or \
        cluster-scoped.",
    status = "ObjectSetStatus",
    shortname = "clobjset",
    shortname = "cos",
    derive = "Default",
    derive = "PartialEq",
    validation = schema::previous_of_own_kind()
)]
#[serde(transparent)]
pub struct ClusterObjectSetSpec(pub ObjectSetSpec);

/// The life cycle state of a revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum LifecycleState {
    /// Objects are written, repaired and probed.
    #[default]
    Active,
    /// Nothing is written or deleted; the status is updated.
    Paused,
    /// Objects that no newer revision took over are deleted. Final.
    Archived,
}

impl LifecycleState {
    /// The life cycle state of a phase object, which is active or paused.
    #[must_use]
    pub fn of_phase(is_paused: bool) -> Self {
        if is_paused {
            Self::Paused
        } else {
            Self::Active
        }
    }
}

/// A revision of the same kind, in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct PreviousRevisionReference {
    /// Name of the revision.
    pub name: String,
    /// Kind of the revision. If set, it has to be the kind of the referring object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub kind: Option<String>,
    /// API group of the revision. If set, it has to be `package-operator.run`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = [crate::constants::GROUP]))]
    pub group: Option<String>,
}

/// The observed state of the revision.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectSetStatus {
    /// Generation of the spec that this status was reported for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// State in one word, for people; programs should use the conditions. `Pending`: the controller
    /// has not reported yet. `Available`: all objects are written and pass their probes.
    /// `NotReady`: not all objects are written or pass their probes. `Archived`: the objects are
    /// torn down or handed over.
    #[serde(default)]
    pub phase: ObjectSetStatusPhase,
    /// Conditions of the revision. `Available`: all objects are written and pass their probes.
    /// `InTransition`: the revision does not, or no longer, control all of its objects.
    /// `Succeeded`: the revision was available once while it controlled all of its objects; never
    /// removed. `Paused` and `Archived`: as requested by `spec.lifecycleState`. `Ready`,
    /// `Reconciling`, `Stalled`: the state for general tools (kstatus). Other conditions are mapped
    /// from objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Deprecated copy of `spec.revision`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// The objects of phases with a class: `ObjectSetPhase` objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remote_phases: Vec<RemotePhaseReference>,
    /// Objects that this revision controls, in the order of phases and objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub controller_of: Vec<ControlledObjectReference>,
    /// First objects that keep the revision from being available, with the reason; at most 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting_for: Vec<WaitingForObject>,
    /// Objects that have run to their end and are deleted by their own rule, such as Jobs with
    /// `ttlSecondsAfterFinished`. They are not created again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<EndedObject>,
    /// Hash of the immutable content as first observed. Content with another hash is refused with
    /// the reason `SpecChanged`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_hash: Option<String>,
}

/// The state of a revision in one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum ObjectSetStatusPhase {
    /// Not reported yet.
    #[default]
    Pending,
    /// `Available` is true.
    Available,
    /// `Available` is not true.
    NotReady,
    /// `Archived` is true.
    Archived,
}

/// An object that a revision or phase controls.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema,
)]
pub struct ControlledObjectReference {
    /// Kind of the object.
    pub kind: String,
    /// API group of the object; the empty string for the core group.
    pub group: String,
    /// Name of the object.
    pub name: String,
    /// Always the empty string, because the object is the same in every version.
    pub version: String,
    /// Namespace of the object; absent for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// The object that stands for a phase with a class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct RemotePhaseReference {
    /// Name of the `ObjectSetPhase`.
    pub name: String,
    /// UID of the `ObjectSetPhase`.
    pub uid: String,
}

/// An object that has run to its end: a Job with `ttlSecondsAfterFinished`, or a Pod that is not
/// restarted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndedObject {
    /// API group of the object; the empty string for the core group.
    pub group: String,
    /// Kind of the object.
    pub kind: String,
    /// Name of the object.
    pub name: String,
    /// Namespace of the object; absent for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// `Complete` or `Failed`.
    pub outcome: EndedOutcome,
    /// Message of the probes that the object failed in its last state; absent if it passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl EndedObject {
    /// True if a reference names this object.
    #[must_use]
    pub fn is(&self, reference: &ControlledObjectReference) -> bool {
        (&self.group, &self.kind, &self.name, &self.namespace)
            == (
                &reference.group,
                &reference.kind,
                &reference.name,
                &reference.namespace,
            )
    }
}

/// The result of an object that has run to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum EndedOutcome {
    /// The object has completed its work.
    #[default]
    Complete,
    /// The object has failed.
    Failed,
}

/// An object because of which a revision is not available.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct WaitingForObject {
    /// Name of the phase that contains the object.
    pub phase: String,
    /// API group of the object; the empty string for the core group.
    pub group: String,
    /// Kind of the object.
    pub kind: String,
    /// Name of the object.
    pub name: String,
    /// Namespace of the object; absent for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Reason in one word: as in the condition `Available`, or `NotReported` for a delegated phase
    /// without a status.
    pub reason: String,
    /// Message of the probe or of the server. It contains the cause.
    pub message: String,
    /// Cause of failed probes, according to the object's pods or its own conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}
