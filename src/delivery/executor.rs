//! Executes the decisions of the engine about the objects of an owner: the conversation between the
//! engine and a cluster.

mod changes;

use std::{collections::BTreeSet, time::Duration};

use tracing::warn;

use super::{
    delegated_phases::PhaseObjects,
    failing::Failing,
    objects::Objects,
    observed::AffectedSiblings,
    owners::{Owners, user},
    pods,
    shared::Shared,
    storage_classes,
};
use baton_apis::{ControlledObjectReference, conditions::EventReason};
use baton_engine::{
    Answer, Gvk, Request,
    conditions::FAILURES_BEFORE_REPORT,
    delegated::{Delegation, DelegationAnswer},
    handover::Siblings,
    object::{is_controller, owner_references, text},
    object_pass::{AppliedFingerprints, Live},
    pass::{Outcome, Pass, PassResult, Position, Snapshot, Step},
    revision::{Desired, KindState, Kinds, Phase, Revision},
    teardown::{Teardown, TeardownOutcome},
};
use baton_kubernetes::{
    account::Account,
    blockers::{Blocker, LastObserved},
    target::{Observation, ObserveError, Target},
};
use baton_probes::Probes;
use baton_records::{
    record::{Record, RecordKind},
    revision::RevisionKey,
};
use baton_runtime::{outcomes::ReconcileOutcome, source::Source};

/// An owner with the state of its pass.
pub(crate) struct Executor<'a, K: RecordKind> {
    pub shared: &'a Shared,
    pub owners: &'a Owners<K>,
    pub record: &'a Record<K>,
    /// The cluster with the objects.
    pub target: Target,
    /// The account that writes the objects; `None` for the controller's own.
    pub account: Option<Account>,
    /// Number of failed passes over the owner in a row before this one.
    pub failures: u32,
    /// For a revision, which may have delegated phases.
    pub phase_objects: Option<PhaseObjects<'a>>,
    /// True if the owner belongs to a site: events of an expected handover are left out, as thousands
    /// of sites have them.
    pub is_of_site: bool,
}

/// The input of a roll-out, without the cluster.
pub(crate) struct RolloutInput<'a> {
    pub revision: &'a Revision,
    pub phases: Vec<Phase>,
    pub probes: &'a Probes,
    pub siblings: &'a dyn Siblings,
    /// The objects that the owner controls, by its last report.
    pub controlled: &'a [ControlledObjectReference],
}

impl RolloutInput<'_> {
    fn snapshot<'s>(&'s self, kinds: &'s Kinds) -> Snapshot<'s> {
        Snapshot {
            revision: self.revision,
            phases: &self.phases,
            probes: self.probes,
            kinds,
            siblings: self.siblings,
        }
    }
}

impl<K: RecordKind> Executor<'_, K> {
    /// Ensures that changes of all objects are observed. Returns the state of their kinds.
    async fn observe(&self, phases: &[Phase]) -> Observation {
        let gvks = phases
            .iter()
            .flat_map(Phase::own_objects)
            .filter(|object| object.violations.is_empty())
            .map(|object| object.gvk.clone())
            .collect();
        let user = self.owners.user(self.record);
        self.target.observe(&user, &gvks).await
    }

    /// True if so many passes over the owner have failed that its status has to report it.
    pub(crate) fn is_stuck(&self) -> bool {
        self.failures >= FAILURES_BEFORE_REPORT
    }

    /// The kinds that a roll-out needs. All of them are observed, except those that are away.
    ///
    /// # Errors
    /// When a kind cannot be observed. If the owner [is stuck](Executor::is_stuck), the kind counts
    /// as away. Only a missing right is an error then, and the status reports it.
    pub(crate) async fn kinds(&self, phases: &[Phase]) -> Result<Kinds, ObserveError> {
        let Observation {
            mut kinds,
            failures,
        } = self.observe(phases).await;
        for (gvk, error) in failures {
            if !self.is_stuck() || matches!(error, ObserveError::Forbidden(..)) {
                return Err(error);
            }
            kinds.insert(gvk, KindState::Away(error.to_string()));
        }
        Ok(kinds)
    }

    /// Rolls out the objects of the revision `by`, as far as possible.
    ///
    /// Returns the outcome of the engine, and the affected siblings: those from which objects were
    /// taken, and after a creation also those in `previous`.
    pub(crate) async fn roll_out(
        &self,
        wanted: &mut RolloutInput<'_>,
        kinds: &Kinds,
        by: RevisionKey,
        previous: impl Iterator<Item = String>,
    ) -> (Outcome, AffectedSiblings) {
        let missing = self.note_causes(wanted, kinds).await;
        let mut outcome = self.pass(wanted.snapshot(kinds)).await;
        let phases = &wanted.phases;
        outcome.failing_for = self.note_failing(&outcome);
        self.remember(phases, kinds, &outcome, missing);
        self.note_repairs(wanted, &mut outcome).await;
        let affected = self.affected(phases, &outcome, by, previous);
        (outcome, affected)
    }

    /// Adds to each object the reason that it may not be read, or does not become ready. Returns
    /// the missing storage classes.
    async fn note_causes(&self, wanted: &mut RolloutInput<'_>, kinds: &Kinds) -> Vec<Blocker> {
        let RolloutInput {
            revision,
            phases,
            probes,
            ..
        } = wanted;
        let (objects, clock) = (self.objects(kinds), &self.shared.clock);
        self.hide(phases, probes).await;
        let missing = storage_classes::note_missing(objects, phases, revision).await;
        let remembered = self.owners.failing(self.record);
        if let Some(mut failing) = remembered.or_else(|| Failing::reported(revision, clock)) {
            let now = clock.instant();
            pods::note_reasons(&mut failing, now, objects, phases, probes, revision).await;
            self.owners.note_failing(self.record, Some(failing));
        }
        missing
    }

    /// Records the objects that fail after a pass. Returns the time for which exactly these objects
    /// have failed.
    fn note_failing(&self, outcome: &Outcome) -> Duration {
        let now = self.shared.clock.instant();
        let objects = outcome.failing_unseen();
        let remembered = self.owners.failing(self.record);
        let failing = (!objects.is_empty()).then(|| Failing::after(remembered, objects, now));
        let since = failing.as_ref().map_or(now, |failing| failing.since);
        self.owners.note_failing(self.record, failing);
        now.duration_since(since)
    }

    /// Marks the objects that the account may not read, if a probe or a mapped condition would
    /// report their content.
    async fn hide(&self, phases: &mut [Phase], probes: &Probes) {
        let Some(account) = &self.account else { return };
        for phase in phases {
            if phase.delegated.is_some() {
                continue;
            }
            for object in &mut phase.objects {
                let Gvk { group, kind, .. } = &object.gvk;
                let is_reported = probes.concern(group, kind) || !object.mappings.is_empty();
                if is_reported && object.violations.is_empty() {
                    let hides = self.target.hides(account, &object.gvk, &object.key);
                    object.hidden = hides.await;
                }
            }
        }
    }

    /// Sends a dry run for every object that a roll-out would write, and writes nothing. Returns
    /// the outcome of the engine.
    pub(crate) async fn check(&self, wanted: &mut RolloutInput<'_>, kinds: &Kinds) -> Outcome {
        self.hide(&mut wanted.phases, wanted.probes).await;
        let snapshot = wanted.snapshot(kinds);
        let pass = Pass::check(snapshot, |at| self.cached_at(snapshot, at));
        let outcome = self.run_pass(pass, snapshot).await;
        self.remember(&wanted.phases, kinds, &outcome, Vec::new());
        outcome
    }

    /// Rolls out objects that another pass has left out. Nothing is reported.
    pub(super) async fn roll_out_alone(&self, wanted: &RolloutInput<'_>, kinds: &Kinds) {
        let outcome = self.pass(wanted.snapshot(kinds)).await;
        self.store_fingerprints(&wanted.phases, &outcome);
    }

    /// Runs a pass.
    async fn pass(&self, snapshot: Snapshot<'_>) -> Outcome {
        let pass = Pass::new(snapshot, |at| self.cached_at(snapshot, at));
        self.run_pass(pass, snapshot).await
    }

    fn cached_at(
        &self,
        snapshot: Snapshot<'_>,
        at: Position,
    ) -> (Live, Option<AppliedFingerprints>) {
        self.objects(snapshot.kinds).cached(at.of(snapshot.phases))
    }

    /// The objects of the owner, with the state of their kinds.
    pub(super) fn objects<'s>(&'s self, kinds: &'s Kinds) -> Objects<'s> {
        Objects {
            target: &self.target,
            account: self.account.as_ref(),
            kinds,
        }
    }

    /// Runs the conversation of a pass.
    async fn run_pass(&self, mut pass: Pass<'_>, snapshot: Snapshot<'_>) -> Outcome {
        let (phases, objects) = (snapshot.phases, self.objects(snapshot.kinds));
        loop {
            match pass.step() {
                Step::Send(requests) => {
                    for (at, request, answer) in objects.send(phases, requests).await {
                        pass.answer(at, &request, answer);
                    }
                }
                Step::Delegate(phase, delegation) => {
                    let answer = self.delegate(&phases[phase], delegation).await;
                    pass.answer_delegation(phase, answer);
                }
                Step::Done => break,
            }
        }
        let outcome = pass.outcome();
        if let PassResult::Failed(texts) = &outcome.result {
            warn!(failures = texts.join(", "), "requests failed, trying again");
        }
        outcome
    }

    /// Deletes the objects, in reverse order of the phases.
    ///
    /// A kind that cannot be observed blocks only its own objects. Emits the new owners of handed
    /// back objects on `handed_back`, as our own write to an object does not wake its controller.
    pub(crate) async fn take_away(
        &self,
        revision: &Revision,
        phases: &[Phase],
        handed_back: &Source<BTreeSet<String>>,
    ) -> TeardownOutcome {
        let mut given = BTreeSet::new();
        let Observation { kinds, .. } = self.observe(phases).await;
        self.note_waiting(phases, &kinds, false);
        let objects = self.objects(&kinds);
        let mut teardown = Teardown::new(revision, phases, &kinds, |at| {
            objects.cached(at.of(phases)).0
        });
        loop {
            match teardown.step() {
                Step::Send(requests) => {
                    for (at, request, answer) in objects.send(phases, requests).await {
                        given.extend(given_to(&request, &answer));
                        teardown.answer(at, &request, answer);
                    }
                }
                Step::Delegate(phase, delegation) => {
                    let answer = self.delegate(&phases[phase], delegation).await;
                    teardown.answer_delegation(phase, answer);
                }
                Step::Done => break,
            }
        }
        if !given.is_empty() {
            handed_back.emit(&given);
        }
        let kept = teardown.kept().iter();
        let kept = kept.map(|at| at.of(phases).key.to_string());
        let what = "Left {count} object(s) behind that are to be kept";
        self.publish_objects(EventReason::Kept, what, kept.collect());
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
        outcome
    }

    /// Records if the owner waits for a kind, or for the version of a kind in a manifest.
    fn note_waiting(&self, phases: &[Phase], kinds: &Kinds, refused: bool) {
        let is_missing = |object: &Desired| {
            let state = kinds.get(&object.gvk);
            !state.is_some_and(KindState::is_served_as_named)
        };
        let waits = phases.iter().flat_map(Phase::own_objects).any(is_missing);
        self.owners.note_waiting(self.record, waits || refused);
    }

    /// Records the objects that are as they are to be.
    fn store_fingerprints(&self, phases: &[Phase], outcome: &Outcome) {
        for (at, settled) in &outcome.learned {
            let desired = at.of(phases);
            self.target
                .store_fingerprints(&desired.gvk, &desired.key, *settled);
        }
    }

    /// Records the results of a pass for the next pass and for the watches.
    fn remember(&self, phases: &[Phase], kinds: &Kinds, outcome: &Outcome, missing: Vec<Blocker>) {
        self.store_fingerprints(phases, outcome);
        let blockers = outcome.blockers.iter().map(|(at, version)| {
            let Desired { gvk, key, .. } = at.of(phases);
            let (gvk, key) = (gvk.clone(), key.clone());
            let last = version
                .parse()
                .map_or(LastObserved::Exists, LastObserved::Version);
            (Blocker { gvk, key }, last)
        });
        let missing = missing
            .into_iter()
            .map(|blocker| (blocker, LastObserved::Absent));
        let user = user(&self.record.key, &self.record.uid);
        self.target.watch_blockers(&user, blockers.chain(missing));
        let refused = matches!(
            outcome.result,
            PassResult::Preflight(_) | PassResult::WriteError(_)
        );
        self.note_waiting(phases, kinds, refused);
    }

    /// Sends the request for a decision about a delegated phase.
    async fn delegate(&self, phase: &Phase, delegation: Delegation) -> DelegationAnswer {
        match (&self.phase_objects, &phase.delegated) {
            (Some(objects), Some(delegated)) => objects.carry_out(delegated, delegation).await,
            _ => DelegationAnswer::Refused("only revisions delegate phases".to_owned()),
        }
    }
}

/// The uid of the owner to which a request has handed an object back, if any.
fn given_to(request: &Request, answer: &Answer) -> Option<String> {
    match (request, answer) {
        (Request::HandOver(body), Answer::Object(_)) => {
            let mut owners = owner_references(body).iter();
            let heir = owners.find(|owner| is_controller(owner))?;
            Some(text(heir, "uid").to_owned())
        }
        _ => None,
    }
}

/// The metrics label of an outcome.
pub(crate) fn outcome_label(outcome: &Outcome) -> ReconcileOutcome {
    match outcome.result {
        PassResult::Passed if outcome.writes.is_empty() => ReconcileOutcome::Unchanged,
        PassResult::Passed => ReconcileOutcome::Changed,
        PassResult::ProbeFailure { .. }
        | PassResult::Delegated { .. }
        | PassResult::Stopping(_) => ReconcileOutcome::Waiting,
        PassResult::Preflight(_) | PassResult::Collision(_) | PassResult::WriteError(_) => {
            ReconcileOutcome::Blocked
        }
        PassResult::Failed(_) | PassResult::Away(_) => ReconcileOutcome::Failed,
    }
}
