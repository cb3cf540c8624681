//! The objects of a delegated phase: rolling them out and taking them away, wherever the phase is kept.

use std::{sync::Arc, time::Duration};

use baton_apis::{
    LifecycleState, ObjectSetPhaseSpec, ObjectSetPhaseStatus, ObjectSetTemplatePhase,
    conditions::reasons, constants::CLASS_AGENT,
};
use baton_engine::{
    condition_list::Conditions,
    conditions::{
        Requeue, failing_since, report_phase, report_phase_unknown, requeue_refused, was_refused,
    },
    object::Identity,
    pass::{Outcome, PassResult},
    recreate::reported,
    revision::{Delivery, Heir, Kinds, Phase, Reach, Revision, duplicates, prepare},
    stop::stop,
    teardown::TeardownOutcome,
};
use baton_kubernetes::{account::Account, target::Target};
use baton_probes::Probes;
use baton_records::{
    key::OwnKind as _,
    phase::{PhaseKind, PhaseRecord},
    revision::RevisionRecord,
    siblings::KnownSiblings,
};
use baton_runtime::{controller::Reconciled, outcomes::ReconcileOutcome};

use super::{
    containers::newer_wants,
    executor::{Executor, Wanted, outcome_label},
    gate::SitePass,
    heirs::{heirs_by_mirror, heirs_elsewhere, heirs_here},
    observed::{AffectedSiblings, Observed},
    owners::Owners,
    phase_content::{changed_content, content_hash, left_out, misplaced_account},
    ran::jobs_run_before,
    shared::{Error, Shared},
    stopping::{Stopping, ended_early, workloads},
};

/// The result of a pass over the objects.
pub(crate) struct PhaseOutcome {
    /// The whole status that the phase is to have.
    pub status: ObjectSetPhaseStatus,
    pub result: Reconciled,
    /// To be emitted when the status is known.
    pub affected: Option<AffectedSiblings>,
}

/// A pass over the objects of a phase.
pub(crate) struct PhasePass<'a> {
    pub shared: &'a Shared,
    pub observed: &'a Observed,
    pub owners: &'a Owners<PhaseKind>,
    pub record: &'a PhaseRecord,
    /// The cluster that the objects live in.
    pub target: Target,
    /// As whom its objects are written, if not as ourselves.
    pub account: Option<Account>,
    /// How the objects get there.
    pub delivery: Delivery,
    /// Where they may be.
    pub reach: Reach,
    /// Collision protection is off.
    pub force_adoption: bool,
    /// How many passes over the phase have failed in a row before this one.
    pub failures: u32,
    /// Its place in the queue of its site.
    pub site: SitePass,
}

/// A phase read in full.
struct Loaded {
    revision: Revision,
    phases: Vec<Phase>,
    problems: Vec<String>,
}

/// A phase as a pass observes it.
struct Seen {
    spec: ObjectSetPhaseSpec,
    /// The status before the pass.
    old: ObjectSetPhaseStatus,
    /// The revision that it belongs to.
    set: Option<Arc<RevisionRecord>>,
    /// Says that its manifests are not those that were first seen.
    changed: Option<String>,
    loaded: Loaded,
    probes: Probes,
}

/// Whether anything of a phase may be delivered.
enum Checked {
    /// The kinds of its objects are these.
    Accepted(Kinds),
    Refused(Refusal),
}

/// Says why nothing of a phase may be delivered.
struct Refusal {
    /// Reason of the condition.
    reason: &'static str,
    text: String,
    result: Reconciled,
}

/// The end of a pass that was not refused as a whole.
struct Delivered {
    outcome: Outcome,
    /// None on trial.
    affected: Option<AffectedSiblings>,
    /// Pods that have to stop are asked for again after this time.
    ask_again: Option<Duration>,
}

impl PhasePass<'_> {
    fn executor(&self) -> Executor<'_, PhaseKind> {
        Executor {
            shared: self.shared,
            owners: self.owners,
            record: self.record,
            target: self.target.clone(),
            account: self.account.clone(),
            failures: self.failures,
            phase_objects: None,
        }
    }

    /// Brings the objects of the phase to where they belong.
    ///
    /// # Errors
    /// When the phase cannot be read, or its kinds cannot be observed and that is no standing state yet.
    /// Errors of single objects are reported in the status.
    pub(crate) async fn roll_out(&self) -> Result<PhaseOutcome, Error> {
        let mut seen = self.observe().await?;
        match self.check(&seen).await? {
            Checked::Accepted(kinds) => {
                let delivered = self.deliver(&mut seen, &kinds).await;
                Ok(self.report(&seen, delivered))
            }
            Checked::Refused(refusal) => Ok(self.report_refusal(&seen, &refusal)),
        }
    }

    /// Reads the phase, and what it depends on.
    async fn observe(&self) -> Result<Seen, Error> {
        let record = self.record;
        let spec = record.spec()?;
        let mut old = record.status()?;
        let set = self.set();
        let mut loaded = self.load(set.as_deref(), &spec);
        let (revision, phases) = (&mut loaded.revision, &loaded.phases);
        revision.was_refused = was_refused(&old.conditions);
        revision.failing_since = failing_since(&old.conditions);
        revision.reported = reported(phases, &old.controller_of);
        if let Some(set) = &set {
            let (observed, api) = (self.observed, &self.shared.api);
            let ran = jobs_run_before(self.owners, record, set, observed, api, revision, phases);
            revision.ran = ran.await?;
        }
        let changed = changed_content(&spec, &old);
        old.content_hash.get_or_insert_with(|| content_hash(&spec));
        let probes = spec.availability_probes.as_deref().unwrap_or_default();
        let probes = self.owners.probes(record, probes);
        let probes = probes.unwrap_or_else(|error| {
            loaded.problems.push(error.to_string());
            Probes::default()
        });
        Ok(Seen {
            spec,
            old,
            set,
            changed,
            loaded,
            probes,
        })
    }

    /// Asks whether anything of the phase may be delivered.
    async fn check(&self, seen: &Seen) -> Result<Checked, Error> {
        let Loaded {
            phases, problems, ..
        } = &seen.loaded;
        let refusal = if let Some(text) = &seen.changed {
            Refusal {
                reason: reasons::SPEC_CHANGED,
                text: text.clone(),
                result: (ReconcileOutcome::Blocked, Requeue::OnEvent),
            }
        } else if !problems.is_empty() {
            let reason = reasons::PREFLIGHT_ERROR;
            let requeue = requeue_refused(&seen.old.conditions, reason, self.record.generation);
            Refusal {
                reason,
                text: problems.join(", "),
                result: (ReconcileOutcome::Blocked, requeue),
            }
        } else {
            let executor = self.executor();
            match executor.kinds(phases).await {
                Ok(kinds) => return Ok(Checked::Accepted(kinds)),
                Err(error) if executor.is_stuck() => Refusal {
                    reason: reasons::WRITE_ERROR,
                    text: error.to_string(),
                    result: (ReconcileOutcome::Failed, Requeue::Backoff),
                },
                Err(error) => return Err(error.into()),
            }
        };
        Ok(Checked::Refused(refusal))
    }

    /// Writes the objects as far as that goes; on trial, only asks the server about them.
    async fn deliver(&self, seen: &mut Seen, kinds: &Kinds) -> Delivered {
        let (record, executor) = (self.record, self.executor());
        let phases = std::mem::take(&mut seen.loaded.phases);
        let (revision, set) = (&seen.loaded.revision, seen.set.as_deref());
        let stopping = Stopping {
            objects: executor.objects(kinds),
            revision,
            workloads: workloads(&phases),
        };
        let siblings = KnownSiblings::of_phase(record, &seen.spec, set, self.observed.stores());
        let mut wanted = Wanted {
            revision,
            phases,
            probes: &seen.probes,
            siblings: &siblings,
        };
        if matches!(self.site, SitePass::Trial(_)) {
            return Delivered {
                outcome: executor.check(&mut wanted, kinds).await,
                affected: None,
                ask_again: None,
            };
        }
        let previous = seen.spec.previous.iter().flatten();
        let previous = previous.map(|previous| previous.name.clone());
        let by = record.key.revision("");
        let (mut outcome, affected) = executor.roll_out(&mut wanted, kinds, by, previous).await;
        if self.site.demand().is_some() && ended_early(&outcome) {
            for phase in stopping.remaining() {
                wanted.phases = vec![phase];
                executor.roll_out_alone(&wanted, kinds).await;
            }
        }
        let now = self.shared.clock.now();
        let ask_again = stopping.note_site(&self.site, &mut outcome, now).await;
        Delivered {
            outcome,
            affected: Some(affected),
            ask_again,
        }
    }

    /// The status that a phase has now, and when its next pass is due.
    fn report(&self, seen: &Seen, delivered: Delivered) -> PhaseOutcome {
        let Delivered {
            mut outcome,
            affected,
            ask_again,
        } = delivered;
        if let SitePass::Trial(accepted) = &self.site {
            let place = match &outcome.result {
                PassResult::Passed => {
                    return PhaseOutcome {
                        status: ObjectSetPhaseStatus::clone(accepted),
                        result: (ReconcileOutcome::Waiting, Requeue::OnEvent),
                        affected,
                    };
                }
                PassResult::Failed(_) => None,
                _ => self.site.when_refused(false),
            };
            outcome.mapped = place.into_iter().collect();
        }
        let kind = outcome_label(&outcome);
        let now = self.shared.clock.now();
        let revision = &seen.loaded.revision;
        let (status, requeue) = report_phase(&seen.old, revision, outcome, self.failures, now);
        let requeue = ask_again.map_or(requeue, Requeue::After);
        PhaseOutcome {
            status,
            result: (kind, requeue),
            affected,
        }
    }

    /// The status of a phase that is refused as a whole, with its place in the queue of its site.
    fn report_refusal(&self, seen: &Seen, refusal: &Refusal) -> PhaseOutcome {
        let now = self.shared.clock.now();
        let mut old = seen.old.clone();
        if let Some(place) = self.site.when_refused(!old.controller_of.is_empty()) {
            let mut conditions = Conditions::new(&old.conditions, self.record.generation, now);
            conditions.set_place(&[place]);
            old.conditions = conditions.into_list();
        }
        let available = ("False", refusal.reason);
        let revision = &seen.loaded.revision;
        PhaseOutcome {
            status: report_phase_unknown(&old, revision, available, &refusal.text, now),
            result: refusal.result,
            affected: None,
        }
    }

    /// Takes the objects of the phase away; `None` when none is left.
    ///
    /// # Errors
    /// As [`PhasePass::roll_out`].
    pub(crate) async fn tear_down(&self) -> Result<Option<PhaseOutcome>, Error> {
        let record = self.record;
        let mut spec = record.spec()?;
        let left_out = left_out(&spec, &record.status()?);
        spec.objects.extend(left_out);
        let Loaded {
            mut revision,
            phases,
            ..
        } = self.load(None, &spec);
        revision.heirs = self.heirs().await?;
        if let Some(set) = self.set() {
            let (api, class) = (&self.shared.api, record.class());
            let newer_wants = newer_wants(self.observed, api, &set, class, &phases);
            revision.newer_wants = newer_wants.await?;
        }
        let outcome = self
            .executor()
            .take_away(&revision, &phases, &self.observed.handed_back)
            .await;
        let (objects, result) = match outcome {
            TeardownOutcome::Done => {
                if self.delivery == Delivery::Remote && !record.is_abandoned() {
                    let now = self.shared.clock.instant();
                    let ended = &self.observed.ended_phases;
                    ended.note(record, self.account.as_ref(), now);
                }
                self.release();
                return Ok(None);
            }
            TeardownOutcome::Waiting(objects) => {
                (objects, (ReconcileOutcome::Waiting, Requeue::OnEvent))
            }
            TeardownOutcome::Failed(objects) => {
                (objects, (ReconcileOutcome::Failed, Requeue::Backoff))
            }
        };
        let texts: Vec<_> = objects
            .iter()
            .map(|object| {
                let namespace = object.namespace.as_deref().unwrap_or_default();
                let name = format!("{} {namespace}/{}", object.kind, object.name);
                format!("{name}: {}", object.message)
                    .trim_start()
                    .to_owned()
            })
            .collect();
        let reason = ("False", reasons::ARCHIVAL_IN_PROGRESS);
        let (old, text) = (record.status()?, texts.join(", "));
        let now = self.shared.clock.now();
        Ok(Some(PhaseOutcome {
            status: report_phase_unknown(&old, &revision, reason, &text, now),
            result,
            affected: None,
        }))
    }

    /// Who gets objects of the phase back.
    async fn heirs(&self) -> Result<Vec<Heir>, Error> {
        let record = self.record;
        if record.class() == CLASS_AGENT {
            return heirs_by_mirror(self.observed, record);
        }
        match (self.set(), record.cluster()) {
            (None, _) => Ok(Vec::new()),
            (Some(set), Some(cluster)) => heirs_elsewhere(self.observed, &set, cluster),
            (Some(set), None) => heirs_here(self.observed, &self.shared.api, &set).await,
        }
    }

    /// Ends the watches of a phase that has no objects any more.
    pub(crate) fn release(&self) {
        self.owners.forget(&self.record.key);
    }

    /// The revision that the phase belongs to.
    fn set(&self) -> Option<Arc<RevisionRecord>> {
        let record = self.record;
        let set = self
            .observed
            .revisions
            .by_uid(record.controller.as_ref()?)?;
        (set.key.kind == record.key.kind.0 && set.key.namespace == record.key.namespace)
            .then_some(set)
    }

    fn load(&self, set: Option<&RevisionRecord>, spec: &ObjectSetPhaseSpec) -> Loaded {
        let record = self.record;
        let revision = Revision {
            identity: Identity {
                kind: record.key.kind.kind().to_owned(),
                namespace: record.key.namespace.to_string(),
                name: record.key.name.to_string(),
                uid: record.uid.to_string(),
                is_remote: self.delivery == Delivery::Remote,
            },
            number: spec.revision,
            generation: record.generation,
            lifecycle: LifecycleState::of_phase(spec.paused),
            force_adoption: self.force_adoption,
            is_abandoned: record.is_abandoned(),
            delivery: self.delivery,
            reach: self.reach.clone(),
            is_impersonated: self.account.is_some(),
            ..Revision::default()
        };
        // Its name begins with that of the revision.
        let prefix = set.map(|set| format!("{}-", set.key.name));
        let name = prefix
            .and_then(|prefix| {
                record
                    .key
                    .name
                    .strip_prefix(&*prefix)
                    .map(ToOwned::to_owned)
            })
            .unwrap_or_else(|| record.key.name.to_string());
        let mut objects = spec.objects.clone();
        if let Some(demand) = self.site.demand() {
            stop(&mut objects, &demand.stop);
        }
        let phase = ObjectSetTemplatePhase {
            name,
            objects,
            ..ObjectSetTemplatePhase::default()
        };
        let phases = prepare(&revision, vec![phase]);
        let mut problems = duplicates(&phases);
        problems.extend(misplaced_account(
            &record.key,
            spec.service_account_name.as_ref(),
        ));
        Loaded {
            revision,
            phases,
            problems,
        }
    }
}
