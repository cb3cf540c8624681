use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{IntoDeserializer as _, value, value::StringDeserializer},
};

use crate::{ControlledObjectReference, ObjectSetProbe, ObjectSetTemplatePhase, limits, schema};

/// The wanted content and how its revisions are kept.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, CustomResource, JsonSchema)]
#[kube(
    group = "package-operator.run",
    version = "v1alpha1",
    kind = "ObjectDeployment",
    doc = "A chain of revisions made from one template: each change of the template becomes a new ObjectSet, which \
        takes over from the ones before it.",
    namespaced,
    status = "ObjectDeploymentStatus",
    shortname = "objdeploy",
    shortname = "od",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct ObjectDeploymentSpec {
    /// Labels of the deployment's revisions; it should match the labels of the template. An ObjectSet
    /// belongs to the deployment that is its controller. The selector only tells which ones that a
    /// deployment of this name made, and that nobody controls any more, are adopted.
    #[schemars(schema_with = "schema::label_selector")]
    pub selector: LabelSelector,
    /// What a revision looks like. A change makes a new revision.
    pub template: ObjectSetTemplate,
    /// How many archived revisions are kept for a rollback.
    #[serde(default = "default_revision_history_limit")]
    pub revision_history_limit: i32,
    /// Pauses the deployment and its revisions while it is true: nothing is written or deleted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// How many seconds a new revision may take to become available before the condition
    /// `Progressing` turns false with the reason `ProgressDeadlineExceeded`. The rollout goes on all
    /// the same. Absent: no deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub progress_deadline_seconds: Option<i32>,
}

impl Default for ObjectDeploymentSpec {
    fn default() -> Self {
        Self {
            selector: LabelSelector::default(),
            template: ObjectSetTemplate::default(),
            revision_history_limit: default_revision_history_limit(),
            paused: false,
            progress_deadline_seconds: None,
        }
    }
}

fn default_revision_history_limit() -> i32 {
    10
}

/// The wanted content and how its revisions are kept; the spec of an `ObjectDeployment`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, CustomResource, JsonSchema)]
#[kube(
    group = "package-operator.run",
    version = "v1alpha1",
    kind = "ClusterObjectDeployment",
    doc = "The cluster-scoped twin of an ObjectDeployment: a chain of ClusterObjectSets made from one template.",
    status = "ObjectDeploymentStatus",
    shortname = "clobjdeploy",
    shortname = "cod",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(transparent)]
pub struct ClusterObjectDeploymentSpec(pub ObjectDeploymentSpec);

/// What a revision looks like.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct ObjectSetTemplate {
    /// Metadata of the revisions.
    pub metadata: ObjectSetTemplateMetadata,
    /// Content of the revisions.
    pub spec: ObjectSetTemplateSpec,
}

/// Metadata of the revisions. Only `labels` is passed on to them, but a change of anything here makes a new
/// revision: that is how a restart with the same content is forced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct ObjectSetTemplateMetadata {
    /// Not passed on: names are made from the deployment's name and the template's hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Not passed on: revisions live in the namespace of the deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Labels of the revisions. The selector should match them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Not passed on: annotations of the deployment itself are copied to the revisions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Not passed on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
}

/// Content of the revisions.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectSetTemplateSpec {
    /// The phases, in the order they roll out; teardown goes the other way round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phases: Option<Vec<ObjectSetTemplatePhase>>,
    /// What makes the objects available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::PROBES))]
    pub availability_probes: Option<Vec<ObjectSetProbe>>,
    /// How many seconds a revision has to stay available before it counts as succeeded. Absent or
    /// zero: at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success_delay_seconds: Option<i32>,
    /// Service account of the same namespace whose rights the objects are written with: dry runs, writes and
    /// deletions. Absent: the account that the manager was given as default, else the manager itself. Cluster-scoped
    /// revisions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = crate::schema::ACCOUNT_NAME))]
    pub service_account_name: Option<String>,
}

/// What the controller observed.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectDeploymentStatus {
    /// The generation of the spec that this status was reported for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The state in one word, for people; programs should look at the conditions `Ready`, `Reconciling` and `Stalled`.
    /// `Progressing`: a revision is being rolled out. `Ready`: the template is rolled out and available. `NotReady`:
    /// it was, and is not available now. `Failed`: the rollout is refused or late, and somebody has to change
    /// something.
    #[serde(default, deserialize_with = "known_phase")]
    pub phase: ObjectDeploymentStatusPhase,
    /// The state in detail. `Available`: the newest revision, or one before it, is available.
    /// `Progressing`: a new revision is being rolled out; false with the reason
    /// `ProgressDeadlineExceeded` when it takes too long. `Paused`: the newest revision is paused.
    /// `Ready`, `Reconciling`, `Stalled`: as general tools expect them (kstatus).
    /// Others are mapped from objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Number of the current revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// Hash of the template; part of the name of the revision made from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_hash: Option<String>,
    /// How often the name of a new revision was taken already; part of the template's hash. Absent
    /// until the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// The revisions of this deployment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub controller_of: Vec<ControlledObjectReference>,
}

/// A word of another manager, or of a later version, is as good as none: the next report replaces it.
fn known_phase<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<ObjectDeploymentStatusPhase, D::Error> {
    let word = String::deserialize(deserializer)?;
    let word: StringDeserializer<value::Error> = word.into_deserializer();
    Ok(ObjectDeploymentStatusPhase::deserialize(word).unwrap_or_default())
}

/// The state of a deployment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum ObjectDeploymentStatusPhase {
    /// Not reported yet.
    #[default]
    Pending,
    /// A revision is being rolled out.
    Progressing,
    /// The template is rolled out and available.
    Ready,
    /// It was rolled out, and is not available now.
    NotReady,
    /// The rollout is refused, or late.
    Failed,
}
