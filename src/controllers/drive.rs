//! Bringing the objects of an owner to where they belong, and taking them away: the conversation
//! between the engine and a cluster.

use std::time::Duration;

use futures::{StreamExt as _, stream};
use tracing::warn;

use super::{Context, owner::Owner};
use crate::{
    cluster::{
        blockers::Blocker,
        events::EventKind,
        phase::{PhaseKey, PhaseRecord},
        record::Record,
        revision_api::ApiError,
        target::{ObserveError, Target},
    },
    engine::{
        Answer, Request,
        delegated::{Delegation, DelegationAnswer, PhaseState},
        pass::{Outcome, Pass, Position, Snapshot, Step, Verdict},
        revision::{Desired, Kinds, Phase, Revision},
        slot::{Deed, Live, Settled},
        teardown::{Teardown, TeardownOutcome},
    },
};

/// An owner at work on its objects.
pub struct Driver<'a> {
    /// What all passes share.
    pub context: &'a Context,
    /// Who owns the objects.
    pub owner: Owner,
    /// Its uid.
    pub uid: &'a str,
    /// The cluster that the objects live in.
    pub target: Target,
    /// The revision, if it is one: it may have delegated phases.
    pub set: Option<&'a Record>,
}

impl Driver<'_> {
    /// Makes sure that changes of all objects are seen; what the server serves.
    ///
    /// # Errors
    /// When a kind cannot be observed now.
    pub async fn kinds(&self, phases: &[Phase]) -> Result<Kinds, ObserveError> {
        let gvks = phases
            .iter()
            .flat_map(Phase::own_objects)
            .filter(|object| object.violations.is_empty())
            .map(|object| object.gvk.clone())
            .collect();
        self.target.observe(&self.owner.to_string(), &gvks).await
    }

    /// Rolls the phases out as far as they go.
    pub async fn roll_out(&self, snapshot: Snapshot<'_>) -> Outcome {
        let phases = snapshot.phases;
        let mut pass = Pass::new(snapshot, |at| {
            let desired = &phases[at.phase].objects[at.object];
            self.cached(snapshot.kinds, desired)
        });
        loop {
            match pass.step() {
                Step::Send(requests) => {
                    for (at, request, answer) in self.send(phases, requests).await {
                        pass.answer(at, &request, answer);
                    }
                }
                Step::Delegate(phase, delegation) => {
                    let answer = self.delegate(&phases[phase], delegation).await;
                    pass.delegated(phase, answer);
                }
                Step::Done => break,
            }
        }
        let outcome = pass.outcome();
        if let Verdict::Failed(texts) = &outcome.verdict {
            warn!(failures = texts.join(", "), "requests failed, trying again");
        }
        outcome
    }

    /// Takes the objects away, in reverse order of the phases.
    ///
    /// # Errors
    /// When the kinds cannot be observed, and that is no standing state yet.
    pub async fn take_away(
        &self,
        revision: &Revision,
        phases: &[Phase],
    ) -> Result<TeardownOutcome, ObserveError> {
        let kinds = match self.kinds(phases).await {
            Ok(kinds) => kinds,
            Err(error) if self.context.is_stuck(&self.owner) => {
                return Ok(TeardownOutcome::Blocked(error.to_string()));
            }
            Err(error) => return Err(error),
        };
        let mut teardown = Teardown::new(revision, phases, &kinds, |at| {
            self.cached(&kinds, &phases[at.phase].objects[at.object]).0
        });
        loop {
            match teardown.step() {
                Step::Send(requests) => {
                    for (at, request, answer) in self.send(phases, requests).await {
                        teardown.answer(at, &request, answer);
                    }
                }
                Step::Delegate(phase, delegation) => {
                    let answer = self.delegate(&phases[phase], delegation).await;
                    teardown.delegated(phase, answer);
                }
                Step::Done => break,
            }
        }
        let outcome = teardown.outcome();
        if let TeardownOutcome::Failed(objects) = &outcome {
            for object in objects {
                warn!(
                    kind = object.kind,
                    name = object.name,
                    problem = object.message,
                    "not removed"
                );
            }
        }
        Ok(outcome)
    }

    /// Notes what the next pass and the watches have to know; the revisions that the pass concerns:
    /// those that objects were taken from, and perhaps those that are `previous`.
    #[must_use]
    pub fn remember(
        &self,
        phases: &[Phase],
        kinds: &Kinds,
        outcome: &Outcome,
        previous: impl Iterator<Item = String>,
    ) -> Vec<String> {
        for (at, settled) in &outcome.learned {
            let desired = &phases[at.phase].objects[at.object];
            self.target.settle(&desired.gvk, &desired.key, *settled);
        }
        let blockers = outcome.blockers.iter().map(|(at, version)| {
            let desired = &phases[at.phase].objects[at.object];
            let blocker = Blocker {
                gvk: desired.gvk.clone(),
                key: desired.key.clone(),
            };
            (blocker, version.parse().ok())
        });
        self.target
            .watch_blockers(&self.owner.to_string(), blockers);
        let unserved = phases
            .iter()
            .flat_map(Phase::own_objects)
            .any(|object| !kinds.contains_key(&object.gvk));
        self.context.note_unserved(&self.owner, unserved);
        let mut concerned = self.takeovers(phases, outcome);
        if outcome.deeds.iter().any(|(_, deed)| *deed == Deed::Created) {
            // An older revision that had left a vanished object to this one is no owner of the new
            // one, so no event of the object leads to it.
            concerned.extend(previous);
        }
        concerned
    }

    /// One event for all objects that were taken over in a pass; whom they were taken from.
    fn takeovers(&self, phases: &[Phase], outcome: &Outcome) -> Vec<String> {
        let mut names = Vec::new();
        let mut from = Vec::new();
        for (at, deed) in &outcome.deeds {
            if let Deed::TookOver(owner) = deed {
                names.push(phases[at.phase].objects[at.object].key.to_string());
                from.extend(owner.clone());
            }
        }
        from.sort_unstable();
        from.dedup();
        if names.is_empty() {
            return from;
        }
        let count = names.len();
        let whose = if from.is_empty() {
            "that nobody controlled".to_owned()
        } else {
            format!("from {}", from.join(", "))
        };
        let text = format!("Took over {count} object(s) {whose}: {}", names.join(", "));
        self.event(EventKind::Normal, "TookOver", text);
        from
    }

    /// Publishes an event about the owner.
    fn event(&self, kind: EventKind, reason: &'static str, note: String) {
        match &self.owner {
            Owner::Set(key) => self.context.event(key, self.uid, kind, reason, note),
            Owner::Phase(key) => self.context.event(key, self.uid, kind, reason, note),
        }
    }

    /// What the watches know of a wanted object. A kind that is not watched, because it is not
    /// served, has none.
    fn cached(&self, kinds: &Kinds, desired: &Desired) -> (Live, Option<Settled>) {
        if !kinds.contains_key(&desired.gvk) {
            return (Live::Uncached, None);
        }
        let stored = self
            .target
            .get(&desired.gvk, &desired.key.namespace, &desired.key.name);
        match stored {
            None => (Live::Uncached, None),
            Some(stored) => match stored.parse() {
                Ok(live) => (Live::Present(live), stored.settled),
                Err(_) => (Live::Unread, None),
            },
        }
    }

    /// Sends requests side by side.
    async fn send(
        &self,
        phases: &[Phase],
        requests: Vec<(Position, Request)>,
    ) -> Vec<(Position, Request, Answer)> {
        let width = requests.len().max(1);
        stream::iter(requests)
            .map(|(at, request)| async move {
                let desired = &phases[at.phase].objects[at.object];
                let answer = self.target.send(&desired.gvk, &desired.key, &request).await;
                (at, request, answer)
            })
            .buffer_unordered(width)
            .collect()
            .await
    }

    /// Does what is asked about the object of a delegated phase.
    async fn delegate(&self, phase: &Phase, delegation: Delegation) -> DelegationAnswer {
        let (Some(set), Some(delegated)) = (self.set, &phase.delegated) else {
            return DelegationAnswer::Refused("only revisions delegate phases".to_owned());
        };
        let key = PhaseKey::of(&set.key, &delegated.name);
        let known = self.context.phases.get(&key);
        let api = &self.context.api;
        let answer = match (delegation, known) {
            (Delegation::Get, _) => api.phase(&key).await,
            (Delegation::Create(manifest), _) => api.create_phase(&key, &manifest).await.map(Some),
            (Delegation::Pause(paused), Some(known)) => {
                api.pause_phase(&known, paused).await.map(Some)
            }
            (Delegation::Delete, Some(known)) => match api.delete_phase(&known).await {
                // Its end is an event.
                Ok(()) => {
                    let mut going = PhaseRecord::clone(&known);
                    going.deleting = true;
                    Ok(Some(going))
                }
                Err(error) => Err(error),
            },
            (Delegation::Pause(_) | Delegation::Delete, None) => {
                return DelegationAnswer::Changed;
            }
        };
        match answer {
            Ok(Some(item)) => {
                let state = state(set, &item);
                if !item.deleting {
                    self.context.phases.created(item);
                }
                if state.is_deleting || !state.is_ours {
                    return DelegationAnswer::Object(state);
                }
                self.context.enqueue(Owner::Phase(key), Duration::ZERO);
                DelegationAnswer::Object(state)
            }
            Ok(None) => DelegationAnswer::Gone,
            Err(ApiError::Changed { .. }) => DelegationAnswer::Changed,
            Err(ApiError::Refused { code, message, .. })
                if (400..500).contains(&code) && code != 429 =>
            {
                DelegationAnswer::Refused(message)
            }
            Err(error) => DelegationAnswer::Failed(error.to_string()),
        }
    }
}

/// What a revision sees of a phase object.
#[must_use]
pub fn state(set: &Record, item: &PhaseRecord) -> PhaseState {
    let status = item.status().unwrap_or_default();
    PhaseState {
        uid: item.uid.to_string(),
        generation: item.generation,
        is_ours: item.controller.as_ref() == Some(&set.uid),
        is_deleting: item.deleting,
        paused: item.is_paused().unwrap_or(false),
        conditions: status.conditions,
        controller_of: status.controller_of,
    }
}
