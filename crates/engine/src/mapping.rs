//! Conditions of objects that a revision copies into its own status.

#[cfg(test)]
mod fuzz;

use baton_apis::{
    ConditionMapping,
    conditions::{STARTED, STOPPED},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::Value;

use crate::object::text;

/// A condition to set on the revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedCondition {
    /// Type, with a prefix.
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Reason, made acceptable to the API server.
    pub reason: String,
    /// Message.
    pub message: String,
}

/// Replaces a reason that is empty or that the API server would refuse.
const NO_REASON: &str = "Unspecified";

/// Returns the mapped conditions of a live object that are current.
///
/// # Guarantees
/// The API server accepts each result: a missing or malformed reason is replaced, because it would
/// make every write of the revision's status fail.
pub fn mapped<'a>(
    mappings: &'a [ConditionMapping],
    live: &'a Value,
) -> impl Iterator<Item = MappedCondition> + 'a {
    let generation = live.pointer("/metadata/generation").and_then(Value::as_i64);
    mappings.iter().filter_map(move |mapping| {
        let condition = live
            .pointer("/status/conditions")?
            .as_array()?
            .iter()
            .find(|condition| text(condition, "type") == mapping.source_type)?;
        let observed = condition.get("observedGeneration").and_then(Value::as_i64);
        if observed.is_some() && observed != generation {
            return None;
        }
        let status = text(condition, "status");
        let reason = text(condition, "reason");
        Some(MappedCondition {
            type_: mapping.destination_type.clone(),
            status: known_status(status).to_owned(),
            reason: known_reason(reason).to_owned(),
            message: text(condition, "message").to_owned(),
        })
    })
}

/// The status of a condition in a form that API servers accept.
pub(crate) fn known_status(status: &str) -> &str {
    if matches!(status, "True" | "False") {
        status
    } else {
        "Unknown"
    }
}

/// The reason of a condition in a form that API servers accept.
pub(crate) fn known_reason(reason: &str) -> &str {
    if is_reason(reason) { reason } else { NO_REASON }
}

/// Conditions that the controller of another object has mapped, which have a prefix in their type.
/// Conditions of older generations are left out, except `Started`, which does not depend on the
/// generation.
pub fn handed_up(conditions: &[Condition], generation: i64) -> Vec<MappedCondition> {
    let current = conditions.iter().filter(|condition| {
        let is_current = condition.observed_generation == Some(generation);
        condition.type_.contains('/') && (is_current || condition.type_ == STARTED)
    });
    current
        .map(|condition| MappedCondition {
            type_: condition.type_.clone(),
            status: condition.status.clone(),
            reason: condition.reason.clone(),
            message: condition.message.clone(),
        })
        .collect()
}

/// Removes the conditions that report stopped phases, unless all phases (`phases` of them) have
/// stopped.
pub(crate) fn stopped_as_a_whole(mapped: &mut Vec<MappedCondition>, phases: usize) {
    let says_so = |it: &&MappedCondition| it.type_ == STOPPED && it.status == "True";
    if mapped.iter().filter(says_so).count() < phases {
        mapped.retain(|condition| condition.type_ != STOPPED);
    }
}

/// True for `^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$` of at most 1024 bytes.
fn is_reason(reason: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '_';
    reason.len() <= 1024
        && reason.starts_with(|c: char| c.is_ascii_alphabetic())
        && reason.ends_with(inner)
        && reason.chars().all(|c| inner(c) || c == ',' || c == ':')
}

/// True if the API server accepts a condition of this type: an optional DNS prefix and a name.
pub fn is_condition_type(type_: &str) -> bool {
    let (prefix, name) = type_
        .split_once('/')
        .map_or((None, type_), |(p, n)| (Some(p), n));
    let alphanumeric = |c: char| c.is_ascii_alphanumeric();
    let label = |label: &str| {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        label.starts_with(inner)
            && label.ends_with(inner)
            && label.chars().all(|c| inner(c) || c == '-')
    };
    type_.len() <= 316
        && prefix.is_none_or(|prefix| prefix.split('.').all(label))
        && name.starts_with(alphanumeric)
        && name.ends_with(alphanumeric)
        && name
            .chars()
            .all(|c| alphanumeric(c) || matches!(c, '-' | '_' | '.'))
}
