use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{IntoDeserializer as _, value, value::StringDeserializer},
};

use crate::{ControlledObjectReference, ObjectSetProbe, ObjectSetTemplatePhase, limits, schema};

/// The wanted content, and the rules for its revisions.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, CustomResource, JsonSchema)]
#[kube(
    group = "package-operator.run",
    version = "v1alpha1",
    kind = "ObjectDeployment",
    doc = "A chain of revisions that are created from one template: each change of the template causes a new \
        ObjectSet, which takes over the objects of the earlier ones.",
    namespaced,
    status = "ObjectDeploymentStatus",
    shortname = "objdeploy",
    shortname = "od",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct ObjectDeploymentSpec {
    /// Selects revisions to adopt: ObjectSets that a deployment of this name created and that have
    /// no controller. Other revisions belong to the deployment that is their controller. The
    /// selector should match the labels of the template.
    #[schemars(schema_with = "schema::label_selector")]
    pub selector: LabelSelector,
    /// Template for revisions. A change creates a new revision.
    pub template: ObjectSetTemplate,
    /// Number of archived revisions that are kept for a rollback. Default: 10.
    #[serde(default = "default_revision_history_limit")]
    pub revision_history_limit: i32,
    /// If true, the deployment and its revisions are paused: nothing is written or deleted.
    /// Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// Seconds in which a new revision has to become available. After that time the condition
    /// `Progressing` is false with the reason `ProgressDeadlineExceeded`; the rollout continues.
    /// Absent: no deadline.
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

/// The wanted content, and the rules for its revisions; the spec of an `ObjectDeployment`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, CustomResource, JsonSchema)]
#[kube(
    group = "package-operator.run",
    version = "v1alpha1",
    kind = "ClusterObjectDeployment",
    doc = "The cluster-scoped variant of an ObjectDeployment: a chain of ClusterObjectSets that are created from one \
        template.",
    status = "ObjectDeploymentStatus",
    shortname = "clobjdeploy",
    shortname = "cod",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(transparent)]
pub struct ClusterObjectDeploymentSpec(pub ObjectDeploymentSpec);

/// Template for revisions.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct ObjectSetTemplate {
    /// Metadata of the revisions.
    pub metadata: ObjectSetTemplateMetadata,
    /// Content of the revisions.
    pub spec: ObjectSetTemplateSpec,
}

/// Metadata for the revisions. Only `labels` are copied to them, but a change of any field creates
/// a new revision. This can be used to force a restart with the same content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct ObjectSetTemplateMetadata {
    /// Not copied: names consist of the name of the deployment and the hash of the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Not copied: revisions are in the namespace of the deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Labels of the revisions. The selector of the deployment should match them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Not copied: the annotations of the deployment itself are copied to the revisions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Not copied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
}

/// Content of the revisions.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectSetTemplateSpec {
    /// Phases in the order of their rollout. Teardown goes through them in reverse order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phases: Option<Vec<ObjectSetTemplatePhase>>,
    /// Probes that decide when the objects are available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::PROBES))]
    pub availability_probes: Option<Vec<ObjectSetProbe>>,
    /// Seconds for which a revision has to stay available before it counts as succeeded. Absent or
    /// zero: it succeeds as soon as it is available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success_delay_seconds: Option<i32>,
    /// Name of a service account in the same namespace. Dry runs, writes and deletions of the
    /// objects use its rights. Absent: the default account of the manager's configuration, or the
    /// manager itself if there is none. Cluster-scoped revisions have no service account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = crate::schema::ACCOUNT_NAME))]
    pub service_account_name: Option<String>,
}

/// The observed state of the deployment.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectDeploymentStatus {
    /// Generation of the spec that this status was reported for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// State in one word, for people; programs should use the conditions `Ready`, `Reconciling` and
    /// `Stalled`. `Progressing`: a revision is being rolled out. `Ready`: the template is rolled
    /// out and available. `NotReady`: the template was rolled out, and is not available now.
    /// `Failed`: the rollout is refused or late, and needs a change by a user.
    #[serde(default, deserialize_with = "known_phase")]
    pub phase: ObjectDeploymentStatusPhase,
    /// Conditions of the deployment. `Available`: the newest revision, or one before it, is
    /// available. `Progressing`: a new revision is being rolled out; false with the reason
    /// `ProgressDeadlineExceeded` when it takes too long. `Paused`: the newest revision is paused.
    /// `Ready`, `Reconciling`, `Stalled`: the state for general tools (kstatus). Other conditions
    /// are mapped from objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Number of the current revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// Hash of the template; part of the name of its revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_hash: Option<String>,
    /// Number of times that the name of a new revision was already taken; part of the hash of the
    /// template. Absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// Revisions of this deployment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub controller_of: Vec<ControlledObjectReference>,
}

/// Reads an unknown phase of another manager or of a later version as if it were absent; the next
/// report replaces it.
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
    /// The template was rolled out, and is not available now.
    NotReady,
    /// The rollout is refused or late.
    Failed,
}
