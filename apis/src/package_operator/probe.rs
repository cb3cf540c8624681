use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{limits, schema};

/// Probes and the objects they apply to.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectSetProbe {
    /// Checks. An object that the selector matches has to pass all of them.
    #[schemars(length(max = limits::PROBES))]
    pub probes: Vec<Probe>,
    /// Selects the objects to check. An object that no selector matches counts as available as soon
    /// as it is written.
    pub selector: ProbeSelector,
}

/// Selects the objects to probe; both parts must match.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProbeSelector {
    /// Group and kind of the objects. The version does not matter.
    pub kind: ProbeKindSelector,
    /// Labels that the live object must have. Absent: every object of the kind is selected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub selector: Option<LabelSelector>,
}

/// A kind in any version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct ProbeKindSelector {
    /// API group without the version, such as `apps`; the empty string for the core group.
    #[schemars(length(max = limits::GROUP))]
    pub group: String,
    /// Kind, such as `Deployment`.
    #[schemars(length(max = limits::KIND))]
    pub kind: String,
}

/// A check; exactly one of the fields is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = schema::one_probe())]
pub struct Probe {
    /// Passes if the object reports a condition with a certain status. A condition with an
    /// `observedGeneration` older than the object does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<ProbeCondition>,
    /// Passes if two fields of the object exist and are equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fields_equal: Option<ProbeFieldsEqual>,
    /// Passes if a CEL expression over the object yields true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cel: Option<ProbeCel>,
}

/// Passes if the object has the condition with the status.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct ProbeCondition {
    /// Type of the condition in `.status.conditions`, such as `Available`.
    #[serde(rename = "type")]
    #[schemars(length(max = limits::CONDITION_TYPE))]
    pub type_: String,
    /// Status that the condition must have. Default: `True`.
    #[serde(default = "status_true")]
    #[schemars(length(max = limits::CONDITION_STATUS))]
    pub status: String,
}

fn status_true() -> String {
    "True".to_owned()
}

/// Passes if both paths exist and their values are deeply equal.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProbeFieldsEqual {
    /// First path, such as `.status.updatedReplicas`. Only map keys are allowed: no list indexes,
    /// and no keys that contain a dot.
    #[schemars(length(max = limits::PATH))]
    pub field_a: String,
    /// Second path, such as `.status.replicas`.
    #[schemars(length(max = limits::PATH))]
    pub field_b: String,
}

/// Passes if the rule yields true.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct ProbeCel {
    /// CEL expression that yields a boolean. The object is `self`, as in
    /// `self.status.readyReplicas >= 2`. The string, URL, regular expression and list functions of
    /// Kubernetes are available.
    #[schemars(length(max = limits::RULE))]
    pub rule: String,
    /// Message that is reported while the rule yields false.
    pub message: String,
}
