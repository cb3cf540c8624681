//! Phases of a revision that another controller runs: the requests about phase objects, and their
//! reports.
//!
//! Observable behaviour: `docs/contract/phases.md`.

pub mod reported;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use baton_apis::{
    ControlledObjectReference, EndedObject, RemotePhaseReference, WaitingForObject,
    conditions::{AVAILABLE, PAUSED, Reason},
    constants::GROUP,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::Value;

use crate::{
    ObjectKey,
    condition_list::find_current,
    mapping::{MappedCondition, handed_up},
    names::{is_label, is_label_value, is_subdomain, quoted},
    object::controlled_reference,
    texts::{MAX_CAUSE, shorten},
};

/// A phase that is delegated to the controller of a class.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delegated {
    /// API kind of the phase object.
    pub kind: &'static str,
    /// Namespace of the phase object, empty for the cluster scope.
    pub namespace: String,
    /// Name of the phase object.
    pub name: String,
    /// The class that the phase is delegated to.
    pub class: String,
    /// The phase object to create; null if it exists.
    pub manifest: Value,
    /// The existing phase object of that name, as the watch observed it.
    pub state: Option<PhaseState>,
}

/// The observed state of a phase object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PhaseState {
    /// `metadata.uid`.
    pub uid: String,
    /// Version of the whole object.
    pub resource_version: u64,
    /// `metadata.generation`.
    pub generation: i64,
    /// True if the revision is its controller.
    pub is_ours: bool,
    /// True if it is being deleted.
    pub is_deleting: bool,
    /// True if it is to be paused.
    pub paused: bool,
    /// The conditions that its controller reported.
    pub conditions: Vec<Condition>,
    /// The objects that it controls, as its controller reported.
    pub controller_of: Vec<ControlledObjectReference>,
    /// Its objects that have run to their end, as its controller reported.
    pub ended: Vec<EndedObject>,
}

/// A request about a phase object.
#[derive(Clone, Debug, PartialEq)]
pub enum Delegation {
    /// Read the phase object from the server.
    Get,
    /// Create the phase object.
    Create(Value),
    /// Pause the phase object (`true`), or end its pause.
    Pause(bool),
    /// Delete the phase object in the state that the decision is based on; its finalizer decides
    /// when it is gone.
    Delete {
        /// `metadata.uid` in that state.
        uid: String,
        /// Version in that state.
        resource_version: u64,
    },
}

/// The API server's answer to a request about a phase object.
#[derive(Clone, Debug, PartialEq)]
pub enum DelegationAnswer {
    /// The present state of the phase object.
    Object(PhaseState),
    /// The phase object does not exist, or no longer exists.
    Gone,
    /// The phase object is not in the state that the decision is based on; an event follows.
    Changed,
    /// The server refused the content or the right to write it; the text is for people.
    Refused(String),
    /// The request failed for a transient reason.
    Failed(String),
}

/// The report of a phase object about its phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PhaseReport<'a> {
    /// All objects are written and pass their probes.
    Passed,
    /// No report yet about the present generation of the phase object.
    Nothing,
    /// Some objects are not written or fail their probes, or their state is unknown: status, reason
    /// and message of `Available`.
    Not(&'a str, &'a str, &'a str),
}

impl PhaseState {
    /// Returns a condition if it was observed at the present generation.
    fn condition(&self, type_: &str) -> Option<&Condition> {
        find_current(&self.conditions, type_, self.generation)
    }

    /// The report of its controller about the phase.
    pub fn report(&self) -> PhaseReport<'_> {
        if self.is_deleting {
            return PhaseReport::Not("False", Reason::ProbeFailure.as_str(), "being deleted");
        }
        match self.condition(AVAILABLE) {
            None => PhaseReport::Nothing,
            Some(condition) if condition.status == "True" => PhaseReport::Passed,
            Some(condition) => {
                PhaseReport::Not(&condition.status, &condition.reason, &condition.message)
            }
        }
    }

    /// True if its controller reported that the phase is paused.
    pub fn reports_pause(&self) -> bool {
        self.condition(PAUSED)
            .is_some_and(|condition| condition.status == "True")
    }

    /// The objects of the phase that it controls, each once, as its controller reported.
    ///
    /// # Guarantees
    /// Other reported objects are left out: the controller may be in another cluster, and the status
    /// of the revision must stay small enough to be written.
    pub fn controlled<'k>(
        &self,
        wanted: impl IntoIterator<Item = WantedObject<'k>>,
    ) -> Vec<ControlledObjectReference> {
        let mut wanted = Wanted::new(wanted);
        let mut controlled = self.controller_of.clone();
        for reference in &mut controlled {
            reference.version.clear();
        }
        controlled.retain(|it| wanted.take(it));
        controlled
    }

    /// The objects of the phase that have run to their end, each once, as its controller reported.
    ///
    /// # Guarantees
    /// As for [`Self::controlled`].
    pub fn ended<'k>(
        &self,
        wanted: impl IntoIterator<Item = WantedObject<'k>>,
    ) -> Vec<EndedObject> {
        let mut wanted = Wanted::new(wanted);
        let mut ended = self.ended.clone();
        ended.retain(|it| wanted.take(&reference_to(it)));
        for message in ended.iter_mut().filter_map(|it| it.message.as_mut()) {
            shorten(message, MAX_CAUSE);
        }
        ended
    }

    /// Conditions that its controller mapped from objects.
    pub fn mapped(&self) -> Vec<MappedCondition> {
        handed_up(&self.conditions, self.generation)
    }

    /// The reason why the phase object is not gone yet, for people.
    pub fn why_waiting(&self) -> String {
        match self.condition(AVAILABLE) {
            Some(condition)
                if condition.status == "Unknown"
                    || condition.reason == Reason::ArchivalInProgress =>
            {
                condition.message.clone()
            }
            _ => "being deleted".to_owned(),
        }
    }
}

/// An object of a phase: its identity, and the namespace in its manifest.
pub type WantedObject<'k> = (&'k ObjectKey, &'k str);

/// The objects of a phase that were not reported yet.
struct Wanted {
    /// Number of the object by its references. The scope of a kind is known only in the cluster of
    /// the object: an object without a namespace in its manifest may have none.
    objects: BTreeMap<ControlledObjectReference, usize>,
    reported: BTreeSet<usize>,
}

impl Wanted {
    fn new<'k>(wanted: impl IntoIterator<Item = WantedObject<'k>>) -> Self {
        let mut objects = BTreeMap::new();
        for (number, (key, written_namespace)) in wanted.into_iter().enumerate() {
            let reference = controlled_reference(key);
            if written_namespace.is_empty() {
                let clusterwide = ControlledObjectReference {
                    namespace: None,
                    ..reference.clone()
                };
                objects.insert(clusterwide, number);
            }
            objects.insert(reference, number);
        }
        Self {
            objects,
            reported: BTreeSet::new(),
        }
    }

    /// True if a reference names an object of the phase that was not reported yet.
    fn take(&mut self, reference: &ControlledObjectReference) -> bool {
        let number = self.objects.get(reference);
        number.is_some_and(|number| self.reported.insert(*number))
    }
}

/// The reference that [`EndedObject::is`] accepts.
fn reference_to(ended: &EndedObject) -> ControlledObjectReference {
    ControlledObjectReference {
        kind: ended.kind.clone(),
        group: ended.group.clone(),
        name: ended.name.clone(),
        version: String::new(),
        namespace: ended.namespace.clone(),
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

    /// True if no server accepts the phase object, so that it was never created.
    pub fn is_impossible(&self) -> bool {
        !is_subdomain(&self.name) || !is_label_value(&self.class)
    }

    /// The reason why the phase object cannot be created.
    pub fn violation(&self) -> Option<String> {
        if !is_label_value(&self.class) {
            return Some(format!(
                "class {}: the class must be a label value: at most 63 letters, digits, '-', '_' and '.', with a \
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
    pub fn waiting(&self, phase: &str, reason: Reason, message: &str) -> WaitingForObject {
        WaitingForObject {
            phase: phase.to_owned(),
            group: GROUP.to_owned(),
            kind: self.kind.to_owned(),
            name: self.name.clone(),
            namespace: (!self.namespace.is_empty()).then(|| self.namespace.clone()),
            reason: reason.to_string(),
            message: message.to_owned(),
            cause: None,
        }
    }
}

/// Greatest length of a phase object's name: that of a DNS label.
const MAX_NAME: usize = 63;

/// True if a phase object can be created with the name.
fn is_name(name: &str) -> bool {
    is_label(name) && name.starts_with(|c: char| c.is_ascii_lowercase())
}

/// Returns the name among [`names`] with which a phase object is created. This is the first one. The
/// second one is used if the first is taken, or is too long but otherwise valid.
pub fn name_to_make(names: &[String; 2], is_free: bool) -> &str {
    let [plain, other] = names;
    let is_too_long =
        plain.len() > MAX_NAME && is_name(other) && is_subdomain(plain) && !plain.contains('.');
    if is_free && !is_too_long {
        plain
    } else {
        other
    }
}

/// The names that a phase object may have: `<revision>-<phase>`, and a shorter one with a hash.
///
/// The shorter one is used if the first is too long or taken by the phase of another revision, as
/// `a-b` and `c` give the same name as `a` and `b-c`.
pub fn names(revision: &str, phase: &str) -> [String; 2] {
    let name = format!("{revision}-{phase}");
    // A JSON list is unambiguous, unlike a text with a separator that the names may contain.
    let print = super::diff::content_fingerprint(&serde_json::json!([revision, phase]));
    let mut other = name.clone();
    // A phase may have any name; `Delegated::violation` reports those that are no object names.
    other.truncate(other.floor_char_boundary(MAX_NAME - 9));
    let other = format!(
        "{}-{:08x}",
        other.trim_end_matches('-'),
        print & 0xffff_ffff
    );
    [name, other]
}
