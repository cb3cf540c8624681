//! Phases of a revision that another controller runs: what to ask of their objects, and what these
//! tell (contract 6.1, 6.2 and 6.7).

#[cfg(test)]
mod tests;

use baton_apis::{
    ControlledObjectReference, RemotePhaseReference, WaitingForObject,
    conditions::{AVAILABLE, PAUSED, reasons},
    constants::GROUP,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::Value;

use super::mapping::{MappedCondition, handed_up};

/// A phase that is handed to the controller of a class.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delegated {
    /// API kind of the phase object.
    pub kind: &'static str,
    /// Namespace of the phase object, empty for the cluster scope.
    pub namespace: String,
    /// Name of the phase object.
    pub name: String,
    /// The phase object to be made; null when there is one.
    pub manifest: Value,
    /// The phase object of that name, as the watch knows it.
    pub state: Option<PhaseState>,
}

/// A phase object that exists.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PhaseState {
    /// Its uid.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// Whether the revision is its managing owner.
    pub is_ours: bool,
    /// Whether it is on its way out.
    pub is_deleting: bool,
    /// Whether it is to be paused.
    pub paused: bool,
    /// What its controller reported.
    pub conditions: Vec<Condition>,
    /// The objects it controls, as its controller reported.
    pub controller_of: Vec<ControlledObjectReference>,
}

/// What is asked about a phase object.
#[derive(Clone, Debug, PartialEq)]
pub enum Delegation {
    /// Read it from the server.
    Get,
    /// Make it.
    Create(Value),
    /// Pause it, or end its pause.
    Pause(bool),
    /// Delete it; its finalizer decides when it is gone.
    Delete,
}

/// What the API server said about a phase object.
#[derive(Clone, Debug, PartialEq)]
pub enum DelegationAnswer {
    /// It is like this now.
    Object(PhaseState),
    /// It does not exist, or no longer.
    Gone,
    /// It is in another state than the one decided upon; an event will tell.
    Changed,
    /// The server refused the content or the right to write it; the text is for people.
    Refused(String),
    /// The request failed for a reason that may pass.
    Failed(String),
}

/// What a phase object tells about its phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told<'a> {
    /// All objects are written and pass their probes.
    Passed,
    /// Nothing yet about the object as it is now.
    Nothing,
    /// They do not, or nobody knows: the status, the reason and the message of its condition.
    Not(&'a str, &'a str, &'a str),
}

impl PhaseState {
    /// A condition, if it speaks of the object as it is now.
    fn condition(&self, type_: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| {
            condition.type_ == type_ && condition.observed_generation == Some(self.generation)
        })
    }

    /// Whether its phase is done.
    #[must_use]
    pub fn told(&self) -> Told<'_> {
        if self.is_deleting {
            return Told::Not("False", reasons::PROBE_FAILURE, "being deleted");
        }
        match self.condition(AVAILABLE) {
            None => Told::Nothing,
            Some(condition) if condition.status == "True" => Told::Passed,
            Some(condition) => Told::Not(&condition.status, &condition.reason, &condition.message),
        }
    }

    /// Whether its controller has seen that it is paused.
    #[must_use]
    pub fn reports_pause(&self) -> bool {
        self.condition(PAUSED)
            .is_some_and(|condition| condition.status == "True")
    }

    /// Conditions that its controller mapped from objects.
    #[must_use]
    pub fn mapped(&self) -> Vec<MappedCondition> {
        handed_up(&self.conditions, self.generation)
    }

    /// Why it is not gone yet, for people.
    #[must_use]
    pub fn why_waiting(&self) -> String {
        match self.condition(AVAILABLE) {
            Some(condition)
                if condition.status == "Unknown"
                    || condition.reason == reasons::ARCHIVAL_IN_PROGRESS =>
            {
                condition.message.clone()
            }
            _ => "being deleted".to_owned(),
        }
    }
}

impl Delegated {
    /// The phase object's entry in `status.remotePhases`, if it exists and is the revision's own.
    #[must_use]
    pub fn reference(&self) -> Option<RemotePhaseReference> {
        let state = self.state.as_ref().filter(|state| state.is_ours)?;
        Some(RemotePhaseReference {
            name: self.name.clone(),
            uid: state.uid.clone(),
        })
    }

    /// Why the name of the phase object cannot be one (contract 6.6).
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        let is_label = self.name.len() <= 63
            && self.name.starts_with(|c: char| c.is_ascii_lowercase())
            && self.name.ends_with(|c: char| c.is_ascii_alphanumeric())
            && self
                .name
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        (!is_label).then(|| {
            format!(
                "{} \"{}\": the name must be a DNS label of at most 63 characters that starts with a letter; shorten \
                 the name of the revision or of the phase.",
                self.kind, self.name
            )
        })
    }

    /// What a person is told while the revision waits for the phase object.
    #[must_use]
    pub fn waiting(&self, phase: &str, reason: &str, message: &str) -> WaitingForObject {
        WaitingForObject {
            phase: phase.to_owned(),
            group: GROUP.to_owned(),
            kind: self.kind.to_owned(),
            name: self.name.clone(),
            namespace: (!self.namespace.is_empty()).then(|| self.namespace.clone()),
            reason: reason.to_owned(),
            message: message.to_owned(),
        }
    }
}

/// The names that a phase object may have: the one of contract 6.1, and one for when that is taken by
/// the phase of another revision, as `a-b` and `c` give the same as `a` and `b-c` (improvement 20).
#[must_use]
pub fn names(revision: &str, phase: &str) -> [String; 2] {
    let name = format!("{revision}-{phase}");
    // The separator is in neither name.
    let print = super::diff::content_fingerprint(&serde_json::json!([revision, phase]));
    let mut other = name.clone();
    // A phase may have any name; what cannot be one of an object is told by `Delegated::fault`.
    other.truncate(other.floor_char_boundary(63 - 9));
    let other = format!(
        "{}-{:08x}",
        other.trim_end_matches('-'),
        print & 0xffff_ffff
    );
    [name, other]
}
