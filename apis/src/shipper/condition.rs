use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::{
    reading::{null_as_default, readable_or_default},
    schema,
};

/// An aspect of the current state. In Shipper's form, reason and message are optional, unlike in
/// conditions of Kubernetes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ShipperCondition {
    /// Type of the condition. Lists of conditions are sorted by type.
    #[serde(rename = "type")]
    pub type_: String,
    /// Status of the condition: True, False or Unknown.
    #[schemars(schema_with = "schema::condition_status")]
    pub status: ConditionStatus,
    /// Time of the last change of `status`.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "readable_or_default"
    )]
    pub last_transition_time: Option<Time>,
    /// Reason of the status, in one word for programs. Absent if there is nothing to report.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub reason: String,
    /// Explanation of the status for people. Absent if there is nothing to report.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub message: String,
}

/// The status of a condition.
///
/// Deserialization is lenient: any other text is read as `Unknown`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum ConditionStatus {
    /// The condition is true.
    True,
    /// The condition is false.
    False,
    /// The state is not known.
    #[default]
    Unknown,
}

impl From<bool> for ConditionStatus {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

impl fmt::Display for ConditionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl<'de> Deserialize<'de> for ConditionStatus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match String::deserialize(deserializer)?.as_str() {
            "True" => Self::True,
            "False" => Self::False,
            _ => Self::Unknown,
        })
    }
}
