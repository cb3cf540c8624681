//! The result of a pass, with the observations and writes of the pass.

use std::{collections::BTreeSet, time::Duration};

use baton_apis::{
    ControlledObjectReference, EndedObject, RemotePhaseReference, WaitingForObject,
    conditions::Reason,
};

use super::{Pass, Position};
use crate::{
    ObjectKey, ended,
    mapping::MappedCondition,
    object_pass::{AppliedFingerprints, WriteResult},
    texts::{MAX_CAUSE, MAX_WAITING_FOR, truncate},
    workload::fails_unseen,
};

/// The result with which a pass ended.
#[derive(Clone, Debug, PartialEq)]
pub enum PassResult {
    /// Every phase was written and passed its probes.
    Passed,
    /// A phase fails its probes.
    ProbeFailure {
        /// Name of the phase.
        phase: String,
        /// The failures, joined, as in the condition's message.
        failures: String,
    },
    /// A delegated phase is not available, or its state is unknown, according to its controller.
    Delegated {
        /// Name of the phase.
        phase: String,
        /// `False` or `Unknown`.
        status: String,
        /// Reason of the condition, one of Baton's.
        reason: Reason,
        /// Message.
        message: String,
        /// True if its controller has not reported yet for the present generation.
        is_silent: bool,
    },
    /// All workloads are written in the stopped form; the text describes their progress.
    Stopping(String),
    /// Objects were refused before any write of their phase.
    Preflight(Vec<String>),
    /// The state of objects is unknown because their kinds do not answer. The others of their phase
    /// were written.
    Away(Vec<String>),
    /// An object belongs to somebody else; the text is the whole message.
    Collision(String),
    /// The server refused writes although it had accepted their dry runs.
    WriteError(Vec<String>),
    /// Requests failed that may succeed later.
    Failed(Vec<String>),
}

/// The observations and writes of a pass.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The result with which the pass ended.
    pub result: PassResult,
    /// Objects of all phases that the revision controls.
    pub controller_of: Vec<ControlledObjectReference>,
    /// True if the revision controls every object of its spec whose state is known.
    pub controls_all: bool,
    /// Objects whose state is unknown, because their kinds do not answer.
    pub away: Vec<ControlledObjectReference>,
    /// The objects that have run to their end: see [`crate::ended`].
    pub ended: Vec<EndedObject>,
    /// Objects that keep the revision from being available.
    pub waiting_for: Vec<WaitingForObject>,
    /// The phase objects that exist.
    pub remote_phases: Vec<RemotePhaseReference>,
    /// True if each delegated phase reports the revision's state of pause.
    pub pause_agreed: bool,
    /// Conditions of objects that are copied to the revision.
    pub mapped: Vec<MappedCondition>,
    /// UID of the newer revision for which the workloads of a site's phase have stopped. The
    /// caller, which knows the queue of the site, sets it.
    pub stopped_for: Option<String>,
    /// The completed writes.
    pub writes: Vec<(Position, WriteResult)>,
    /// Fingerprints to be recorded.
    pub learned: Vec<(Position, AppliedFingerprints)>,
    /// Objects of other owners for which the revision waits, with their observed
    /// `resourceVersion`: a later change of them triggers a pass.
    pub blockers: Vec<(Position, String)>,
    /// Time for which the objects that [fail unseen](Outcome::failing_unseen) have failed, without
    /// a change of this set. A pass cannot determine it; the caller, which has the earlier passes,
    /// sets it.
    pub failing_for: Duration,
    /// Time after which a delay of [repairs](crate::disputes) ends. The caller sets it.
    pub delayed_for: Option<Duration>,
}

impl Pass<'_> {
    /// Adds an object to the list of those that are waited for, if the list has room.
    pub(super) fn wait_for(
        &mut self,
        at: Position,
        reason: Reason,
        message: &str,
    ) -> Option<&mut WaitingForObject> {
        // The status has no room for more, and there may be thousands, each with a long text.
        if self.waiting_for.len() >= MAX_WAITING_FOR {
            return None;
        }
        let waiting = self.snapshot.phases[at.phase].waiting(at.object, reason, message);
        self.waiting_for.push(waiting);
        self.waiting_for.last_mut()
    }

    /// The entries of `status.ended` for the objects of all phases that are not delegated.
    pub(super) fn ended(&mut self) -> Vec<EndedObject> {
        let mut found = Vec::new();
        for phase in 0..self.objects.len() {
            for object in 0..self.objects[phase].len() {
                let pass = &self.objects[phase][object];
                let desired = pass.desired;
                let Some((_, outcome)) = pass.ended() else {
                    found.extend(pass.recorded().cloned());
                    continue;
                };
                let failure = self.probe(Position { phase, object });
                // The content of an object that the account may not read is not reported.
                let failure = failure.filter(|_| desired.hidden.is_none());
                let message = failure.map(|it| truncate(&it.messages, MAX_CAUSE).into_owned());
                found.push(ended::entry(&desired.key, outcome, message));
            }
        }
        found
    }
}

impl Outcome {
    /// Notes that reports of delegated phases cannot be read, for this reason. A phase that is not
    /// available may have been available for a while.
    pub fn without_reports(&mut self, cause: &str) {
        if matches!(self.result, PassResult::Delegated { .. }) {
            self.result = PassResult::Away(vec![cause.to_owned()]);
        }
    }

    /// The objects that fail their probes although no watch reports the cause: see
    /// [`fails_unseen`].
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
