//! Phases of a revision that another controller runs: the requests about their objects, and the reports
//! of these.
//!
//! What clients can observe of it: `docs/contract/phases.md`.

#[cfg(test)]
mod tests;

use baton_apis::{
    ControlledObjectReference, RemotePhaseReference, WaitingForObject,
    conditions::{AVAILABLE, PAUSED, reasons},
    constants::GROUP,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::Value;

use crate::{
    condition_list::find_current,
    mapping::{MappedCondition, handed_up},
    names::{is_label, is_label_value, is_subdomain, quoted},
};

/// A phase that is handed to the controller of a class.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delegated {
    /// API kind of the phase object.
    pub kind: &'static str,
    /// Namespace of the phase object, empty for the cluster scope.
    pub namespace: String,
    /// Name of the phase object.
    pub name: String,
    /// The class that the phase is handed to.
    pub class: String,
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
    /// Version of the whole object.
    pub resource_version: u64,
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
    /// Delete it in the state that this was decided upon; its finalizer decides when it is gone.
    Delete {
        /// Its uid.
        uid: String,
        /// Its version.
        resource_version: u64,
    },
}

/// What the API server answered about a phase object.
#[derive(Clone, Debug, PartialEq)]
pub enum DelegationAnswer {
    /// It is like this now.
    Object(PhaseState),
    /// It does not exist, or no longer.
    Gone,
    /// It is not in the state that was decided upon; an event follows.
    Changed,
    /// The server refused the content or the right to write it; the text is for people.
    Refused(String),
    /// The request failed for a reason that may pass.
    Failed(String),
}

/// What a phase object reports about its phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PhaseReport<'a> {
    /// All objects are written and pass their probes.
    Passed,
    /// Nothing yet about the object as it is now.
    Nothing,
    /// They are not, or that is unknown: the status, the reason and the message of its condition.
    Not(&'a str, &'a str, &'a str),
}

impl PhaseState {
    /// A condition, if it was observed at the present generation.
    fn condition(&self, type_: &str) -> Option<&Condition> {
        find_current(&self.conditions, type_, self.generation)
    }

    /// What its controller reported about the phase.
    pub fn report(&self) -> PhaseReport<'_> {
        if self.is_deleting {
            return PhaseReport::Not("False", reasons::PROBE_FAILURE, "being deleted");
        }
        match self.condition(AVAILABLE) {
            None => PhaseReport::Nothing,
            Some(condition) if condition.status == "True" => PhaseReport::Passed,
            Some(condition) => {
                PhaseReport::Not(&condition.status, &condition.reason, &condition.message)
            }
        }
    }

    /// Whether its controller has seen that it is paused.
    pub fn reports_pause(&self) -> bool {
        self.condition(PAUSED)
            .is_some_and(|condition| condition.status == "True")
    }

    /// Conditions that its controller mapped from objects.
    pub fn mapped(&self) -> Vec<MappedCondition> {
        handed_up(&self.conditions, self.generation)
    }

    /// Why it is not gone yet, for people.
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
    pub fn reference(&self) -> Option<RemotePhaseReference> {
        let state = self.state.as_ref().filter(|state| state.is_ours)?;
        Some(RemotePhaseReference {
            name: self.name.clone(),
            uid: state.uid.clone(),
        })
    }

    /// Whether no server can hold the phase object, so that it was never made.
    pub fn is_impossible(&self) -> bool {
        !is_subdomain(&self.name) || !is_label_value(&self.class)
    }

    /// Why the phase object cannot be made.
    pub fn violation(&self) -> Option<String> {
        if !is_label_value(&self.class) {
            return Some(format!(
                "class {}: the class must be a value of a label: at most 63 letters, digits, '-', '_' and '.', with a \
                 letter or a digit at both ends.",
                quoted(&self.class)
            ));
        }
        (!is_name(&self.name)).then(|| {
            format!(
                "{} \"{}\": the name must be a DNS label of at most 63 characters that starts with a letter; shorten \
                 the name of the revision or of the phase.",
                self.kind, self.name
            )
        })
    }

    /// The entry of `status.waitingFor` for the phase object.
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

/// The longest name of a phase object: that of a DNS label.
const MOST: usize = 63;

/// Whether a phase object can be made with the name.
fn is_name(name: &str) -> bool {
    is_label(name) && name.starts_with(|c: char| c.is_ascii_lowercase())
}

/// The one of the [`names`] that a phase object is made with: the first, unless that is taken, or too long and nothing
/// else is wrong with it.
pub fn name_to_make(names: &[String; 2], is_free: bool) -> &str {
    let [plain, other] = names;
    let is_too_long =
        plain.len() > MOST && is_name(other) && is_subdomain(plain) && !plain.contains('.');
    if is_free && !is_too_long {
        plain
    } else {
        other
    }
}

/// The names that a phase object may have: `<revision>-<phase>`, and a shorter one with a hash for when that is too
/// long
/// or taken by the phase of another revision, as `a-b` and `c` give the same as `a` and `b-c`.
pub fn names(revision: &str, phase: &str) -> [String; 2] {
    let name = format!("{revision}-{phase}");
    // The separator is in neither name.
    let print = super::diff::content_fingerprint(&serde_json::json!([revision, phase]));
    let mut other = name.clone();
    // A phase may have any name; `Delegated::violation` reports those that an object cannot have.
    other.truncate(other.floor_char_boundary(MOST - 9));
    let other = format!(
        "{}-{:08x}",
        other.trim_end_matches('-'),
        print & 0xffff_ffff
    );
    [name, other]
}
