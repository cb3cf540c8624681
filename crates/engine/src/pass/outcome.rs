//! What a pass found out and did.

use std::{collections::BTreeSet, time::Duration};

use baton_apis::{ControlledObjectReference, RemotePhaseReference, WaitingForObject};

use super::Position;
use crate::{
    ObjectKey,
    mapping::MappedCondition,
    object_pass::{Settled, WriteResult},
    workload::fails_unseen,
};

/// Why a pass ended.
#[derive(Clone, Debug, PartialEq)]
pub enum PassResult {
    /// Every phase was written and passed its probes.
    Passed,
    /// A phase fails its probes; the failures as in the condition's message.
    ProbeFailure {
        /// Name of the phase.
        phase: String,
        /// The failures, joined.
        failures: String,
    },
    /// A delegated phase is not available, or that is unknown; as its controller reported.
    Delegated {
        /// Name of the phase.
        phase: String,
        /// `False` or `Unknown`.
        status: String,
        /// Reason, one of ours.
        reason: &'static str,
        /// Message.
        message: String,
        /// Whether its controller has not reported yet on the present generation.
        is_silent: bool,
    },
    /// Everything was written in the form in which workloads stop; what is known of that.
    Stopping(String),
    /// Something was refused before any write of its phase.
    Preflight(Vec<String>),
    /// An object belongs to somebody else; the whole message.
    Collision(String),
    /// The server refused writes whose dry runs had passed.
    WriteError(Vec<String>),
    /// Requests failed that may succeed later.
    Failed(Vec<String>),
}

/// Everything that a pass found out and did.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Why the pass ended.
    pub result: PassResult,
    /// Objects whose controller is the revision, of all phases.
    pub controller_of: Vec<ControlledObjectReference>,
    /// Whether that is every object of the spec.
    pub controls_all: bool,
    /// Objects that keep the revision from being available.
    pub waiting_for: Vec<WaitingForObject>,
    /// The phase objects that exist.
    pub remote_phases: Vec<RemotePhaseReference>,
    /// Whether the delegated phases are paused if and only if the revision is.
    pub pause_agreed: bool,
    /// Conditions of objects to copy to the revision.
    pub mapped: Vec<MappedCondition>,
    /// The writes that happened.
    pub writes: Vec<(Position, WriteResult)>,
    /// Fingerprints to remember.
    pub learned: Vec<(Position, Settled)>,
    /// Objects of other owners that collide with the revision, in the `resourceVersion` that was
    /// seen: a change of them triggers a pass.
    pub blockers: Vec<(Position, String)>,
    /// For how long the objects that [fail unseen](Outcome::failing_unseen), and no others, have done so. A pass does
    /// not know; whoever remembers earlier ones fills it in.
    pub failing_for: Duration,
}

impl Outcome {
    /// The objects that fail their probes, and of which no watch tells why: see [`fails_unseen`].
    pub fn failing_unseen(&self) -> BTreeSet<ObjectKey> {
        if !matches!(self.result, PassResult::ProbeFailure { .. }) {
            return BTreeSet::new();
        }
        let waiting = self.waiting_for.iter();
        let unseen = waiting.filter(|it| fails_unseen(&it.group, &it.kind));
        let keys = unseen.map(|it| ObjectKey {
            group: it.group.clone(),
            kind: it.kind.clone(),
            namespace: it.namespace.clone().unwrap_or_default(),
            name: it.name.clone(),
        });
        keys.collect()
    }
}
