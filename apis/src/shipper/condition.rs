use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::{
    reading::{null_as_default, readable_or_default},
    schema,
};

/// One aspect of the current state. Shipper's form, which unlike that of Kubernetes needs neither reason nor message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ShipperCondition {
    /// Name of the condition. A list of conditions is sorted by it.
    #[serde(rename = "type")]
    pub type_: String,
    /// Whether the condition holds: True, False or Unknown.
    #[schemars(schema_with = "schema::condition_status")]
    pub status: ConditionStatus,
    /// When `status` changed last.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "readable_or_default"
    )]
    pub last_transition_time: Option<Time>,
    /// Why the condition has its status, in one word for programs. Left out where all is well.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub reason: String,
    /// What a person should know about the state. Left out where all is well.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub message: String,
}

/// Whether something holds.
///
/// Reading is lenient: what is neither of the first two is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// Nobody can tell.
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
