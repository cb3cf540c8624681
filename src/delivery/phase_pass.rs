//! Rolls out and tears down the objects of a delegated phase, in the manager and in an agent.

use std::{collections::BTreeSet, slice, sync::Arc, time::Duration};

use baton_apis::{
    EndedObject, LifecycleState, ObjectSetPhaseSpec, ObjectSetPhaseStatus, ObjectSetTemplatePhase,
    conditions::Reason, constants::CLASS_AGENT,
};
use baton_engine::{
    autoscaling::leave_replicas,
    condition_list::Conditions,
    conditions::{
        Requeue, failing_since, report_phase, report_phase_unknown, requeue_refused, was_refused,
    },
    ended::by_object,
    object::Identity,
    pass::{Outcome, PassResult},
    recreate::reported,
    revision::{Delivery, Heir, Kinds, Phase, Reach, Revision, duplicates, prepare},
    stop::stop,
    teardown::{TeardownOutcome, reported_writes},
};
use baton_kubernetes::{account::Account, target::Target};
use baton_probes::Probes;
use baton_records::{
    key::OwnKind as _,
    phase::{PhaseKind, PhaseRecord},
    revision::RevisionRecord,
    siblings::CachedSiblings,
};
use baton_runtime::{controller::Reconciled, outcomes::ReconcileOutcome};

use super::{
    containers::newer_wants,
    executor::{Executor, RolloutInput, outcome_label},
    gate::SitePass,
    heirs::{heirs_by_mirror, heirs_elsewhere, heirs_here},
    observed::{AffectedSiblings, Observed},
    owners::Owners,
    phase_content::{changed_content, content_hash, left_out, misplaced_account},
    ran::note_ran,
    shared::{Error, Shared},
    site_chain::has_site,
    stopping::{Stopping, ended_early, without_pods, workloads},
};

/// The result of a pass over the objects.
pub(crate) struct PhaseOutcome {
    /// The whole new status of the phase.
    pub status: ObjectSetPhaseStatus,
    pub result: Reconciled,
    /// To be emitted once the status is stored.
    pub affected: Option<AffectedSiblings>,
}

/// A pass over the objects of a phase.
pub(crate) struct PhasePass<'a> {
    pub shared: &'a Shared,
    pub observed: &'a Observed,
    pub owners: &'a Owners<PhaseKind>,
    pub record: &'a PhaseRecord,
    /// The cluster with the objects.
    pub target: Target,
    /// The account that writes the objects; `None` for the controller's own.
    pub account: Option<Account>,
    /// The way in which the objects are delivered.
    pub delivery: Delivery,
    /// The namespaces that the objects may be in, or the whole cluster.
    pub reach: Reach,
    /// True if collision protection is off.
    pub force_adoption: bool,
    /// UID of the hub of the phase; empty if it is not known.
    pub hub: &'a str,
    /// UIDs of hubs that do not exist any more, and of their owners.
    pub lost_hubs: BTreeSet<String>,
    /// True if its revision has lost objects after it had all of them, and a newer one is paused; `None`
    /// if the revision itself is cached.
    pub has_given: Option<bool>,
    /// Its objects that had ended before it was delegated, if another process knows them.
    pub ended_before: &'a [EndedObject],
    /// Number of failed passes over the phase in a row before this one.
    pub failures: u32,
    /// Position of the phase in the queue of its site.
    pub site: SitePass,
}

/// The parsed content of a phase.
struct ParsedPhase {
    revision: Revision,
    phases: Vec<Phase>,
    problems: Vec<String>,
}

/// The observations for a pass over a phase.
struct ObservedPhase {
    spec: ObjectSetPhaseSpec,
    /// The status before the pass.
    old: ObjectSetPhaseStatus,
    /// The revision of the phase.
    set: Option<Arc<RevisionRecord>>,
    /// The error if its manifests differ from those in the first pass.
    changed: Option<String>,
    loaded: ParsedPhase,
    probes: Probes,
}

/// The decision whether any object of a phase may be delivered.
enum PhaseDecision {
    /// The phase may be delivered; its objects have these kinds.
    Accepted(Kinds),
    Refused(Refusal),
}

/// The reason that no object of a phase may be delivered.
struct Refusal {
    /// Reason of the condition.
    reason: Reason,
    text: String,
    result: Reconciled,
}

/// The result of a pass that was not refused as a whole.
struct Delivered {
    outcome: Outcome,
    /// `None` on trial.
    affected: Option<AffectedSiblings>,
    /// The time until the pods that have to stop are listed again.
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
            is_of_site: has_site(self.record),
        }
    }

    /// Rolls out the objects of the phase.
    ///
    /// # Errors
    /// When the phase cannot be read, or its kinds cannot be observed and this failure is not to be
    /// reported yet. Errors of single objects are reported in the status.
    pub(crate) async fn roll_out(&self) -> Result<PhaseOutcome, Error> {
        let mut observed = self.observe().await?;
        match self.check(&observed).await? {
            PhaseDecision::Accepted(kinds) => {
                let delivered = self.deliver(&mut observed, &kinds).await;
                Ok(self.report(&observed, delivered))
            }
            PhaseDecision::Refused(refusal) => Ok(self.report_refusal(&observed, &refusal)),
        }
    }

    /// Reads the phase and the objects that it depends on.
    async fn observe(&self) -> Result<ObservedPhase, Error> {
        let record = self.record;
        let (spec, too_large) = record.spec_unless_too_large()?;
        let mut old = record.status()?;
        let set = self.set();
        let mut loaded = self.load(set.as_deref(), &spec);
        let is_read = too_large.is_none();
        loaded.problems.extend(too_large);
        let (revision, phases) = (&mut loaded.revision, &loaded.phases);
        revision.was_refused = was_refused(&old.conditions);
        revision.failing_since = failing_since(&old.conditions);
        revision.reported = reported(phases, &old.controller_of);
        revision.disputed = self.owners.disputed(record, self.shared.clock.now());
        let recorded = self.ended_before.iter().chain(&old.ended);
        let owner = (record, by_object(recorded));
        let read = (self.observed, &self.shared.api);
        let of = set.as_deref().map(|set| (set, record.class()));
        note_ran(self.owners, owner, of, read, revision, phases).await?;
        let changed = changed_content(&spec, &old);
        if is_read {
            old.content_hash.get_or_insert_with(|| content_hash(&spec));
        }
        let probes = spec.availability_probes.as_deref().unwrap_or_default();
        let probes = self.owners.probes(record, probes);
        let probes = probes.unwrap_or_else(|error| {
            loaded.problems.push(error.to_string());
            Probes::default()
        });
        Ok(ObservedPhase {
            spec,
            old,
            set,
            changed,
            loaded,
            probes,
        })
    }

    /// Decides if any object of the phase may be delivered.
    async fn check(&self, observed: &ObservedPhase) -> Result<PhaseDecision, Error> {
        let ParsedPhase {
            phases, problems, ..
        } = &observed.loaded;
        let refusal = if let Some(text) = &observed.changed {
            Refusal {
                reason: Reason::SpecChanged,
                text: text.clone(),
                result: (ReconcileOutcome::Blocked, Requeue::OnEvent),
            }
        } else if !problems.is_empty() {
            let reason = Reason::PreflightError;
            let requeue = requeue_refused(&observed.old.conditions, reason, self.record.generation);
            Refusal {
                reason,
                text: problems.join(", "),
                result: (ReconcileOutcome::Blocked, requeue),
            }
        } else {
            let executor = self.executor();
            match executor.kinds(phases).await {
                Ok(kinds) => return Ok(PhaseDecision::Accepted(kinds)),
                Err(error) if executor.is_stuck() => Refusal {
                    reason: Reason::WriteError,
                    text: error.to_string(),
                    result: (ReconcileOutcome::Failed, Requeue::Backoff),
                },
                Err(error) => return Err(error.into()),
            }
        };
        Ok(PhaseDecision::Refused(refusal))
    }

    /// Writes the objects as far as possible; on trial, only sends dry runs.
    async fn deliver(&self, observed: &mut ObservedPhase, kinds: &Kinds) -> Delivered {
        let (record, executor) = (self.record, self.executor());
        let mut phases = std::mem::take(&mut observed.loaded.phases);
        let (revision, set) = (&observed.loaded.revision, observed.set.as_deref());
        let stopping = Stopping {
            objects: executor.objects(kinds),
            revision,
            workloads: workloads(&phases),
        };
        without_pods(&mut phases);
        let siblings =
            CachedSiblings::of_phase(record, &observed.spec, set, self.observed.stores());
        let siblings = siblings.stated(self.has_given);
        let mut wanted = RolloutInput {
            revision,
            phases,
            probes: &observed.probes,
            siblings: &siblings,
            controlled: &observed.old.controller_of,
        };
        if matches!(self.site, SitePass::Trial(_)) {
            return Delivered {
                outcome: executor.check(&mut wanted, kinds).await,
                affected: None,
                ask_again: None,
            };
        }
        let previous = observed.spec.previous.iter().flatten();
        let previous = previous.map(|previous| previous.name.clone());
        let by = record.key.revision("");
        let (mut outcome, affected) = executor.roll_out(&mut wanted, kinds, by, previous).await;
        if self.site.stop_request().is_some() && ended_early(&outcome) {
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

    /// The new status of the phase, and the time of its next pass.
    fn report(&self, observed: &ObservedPhase, delivered: Delivered) -> PhaseOutcome {
        let Delivered {
            mut outcome,
            affected,
            ask_again,
        } = delivered;
        if let SitePass::Trial(accepted) = &self.site {
            let condition = match &outcome.result {
                PassResult::Passed => {
                    return PhaseOutcome {
                        status: ObjectSetPhaseStatus::clone(accepted),
                        result: (ReconcileOutcome::Waiting, Requeue::OnEvent),
                        affected,
                    };
                }
                PassResult::Failed(_) | PassResult::Away(_) => None,
                _ => self.site.when_refused(false),
            };
            outcome.mapped = condition.into_iter().collect();
        }
        let kind = outcome_label(&outcome);
        let now = self.shared.clock.now();
        let revision = &observed.loaded.revision;
        let (status, requeue) = report_phase(&observed.old, revision, outcome, self.failures, now);
        let requeue = ask_again.map_or(requeue, Requeue::After);
        PhaseOutcome {
            status,
            result: (kind, requeue),
            affected,
        }
    }

    /// The status of a phase that is refused as a whole, with the condition about the queue of its
    /// site.
    fn report_refusal(&self, observed: &ObservedPhase, refusal: &Refusal) -> PhaseOutcome {
        let now = self.shared.clock.now();
        let mut old = observed.old.clone();
        if let Some(condition) = self.site.when_refused(!old.controller_of.is_empty()) {
            let mut conditions = Conditions::new(&old.conditions, self.record.generation, now);
            conditions.set_place(&[condition]);
            old.conditions = conditions.into_list();
            old.stopped_for = self
                .site
                .stop_request()
                .map(|demand| demand.uid.to_string());
        }
        let available = ("False", refusal.reason);
        let revision = &observed.loaded.revision;
        PhaseOutcome {
            status: report_phase_unknown(&old, revision, available, &refusal.text, now),
            result: refusal.result,
            affected: None,
        }
    }

    /// Deletes the objects of the phase; returns `None` if none is left.
    ///
    /// # Errors
    /// As [`PhasePass::roll_out`].
    pub(crate) async fn tear_down(&self) -> Result<Option<PhaseOutcome>, Error> {
        let record = self.record;
        let (mut spec, _) = record.spec_unless_too_large()?;
        let left_out = left_out(&spec, &record.status()?);
        spec.objects.extend(left_out);
        let ParsedPhase {
            mut revision,
            phases,
            ..
        } = self.load(None, &spec);
        let old = record.status()?;
        revision.written = reported_writes(&old.conditions, &old.controller_of, &old.ended);
        revision.heirs = self.heirs().await?;
        for heir in &mut revision.heirs {
            self.hub.clone_into(&mut heir.identity.hub);
        }
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
                    ended.add(record, self.account.as_ref(), now);
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
        let reason = ("False", Reason::ArchivalInProgress);
        let text = texts.join(", ");
        let now = self.shared.clock.now();
        Ok(Some(PhaseOutcome {
            status: report_phase_unknown(&old, &revision, reason, &text, now),
            result,
            affected: None,
        }))
    }

    /// The heirs of the phase's objects.
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

    /// Ends the watches of a phase without objects.
    pub(crate) fn release(&self) {
        self.owners.forget(&self.record.key);
    }

    /// The revision of the phase.
    fn set(&self) -> Option<Arc<RevisionRecord>> {
        let record = self.record;
        let set = self
            .observed
            .revisions
            .by_uid(record.controller.as_ref()?)?;
        (set.key.kind == record.key.kind.0 && set.key.namespace == record.key.namespace)
            .then_some(set)
    }

    fn load(&self, set: Option<&RevisionRecord>, spec: &ObjectSetPhaseSpec) -> ParsedPhase {
        let record = self.record;
        let revision = Revision {
            identity: Identity {
                kind: record.key.kind.kind().to_owned(),
                namespace: record.key.namespace.to_string(),
                name: record.key.name.to_string(),
                uid: record.uid.to_string(),
                is_remote: self.delivery == Delivery::Remote,
                hub: self.hub.to_owned(),
                chain: set
                    .and_then(RevisionRecord::chain_selector)
                    .unwrap_or_default(),
            },
            number: spec.revision,
            created: set.and_then(|set| set.created),
            generation: record.generation,
            lifecycle: LifecycleState::of_phase(spec.paused),
            force_adoption: self.force_adoption,
            lost_hubs: self.lost_hubs.clone(),
            is_abandoned: record.is_abandoned(),
            delivery: self.delivery,
            reach: self.reach.clone(),
            is_impersonated: self.account.is_some(),
            ..Revision::default()
        };
        // The name of a phase object begins with the name of its revision.
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
        let mut phase = ObjectSetTemplatePhase {
            name,
            objects: spec.objects.clone(),
            ..ObjectSetTemplatePhase::default()
        };
        // The revision does the same for autoscalers of its other phases.
        leave_replicas(slice::from_mut(&mut phase), &record.key.namespace);
        if let Some(demand) = self.site.stop_request() {
            stop(&mut phase.objects, &demand.stop);
        }
        let phases = prepare(&revision, vec![phase]);
        let mut problems = duplicates(&phases);
        problems.extend(misplaced_account(
            &record.key,
            spec.service_account_name.as_ref(),
        ));
        ParsedPhase {
            revision,
            phases,
            problems,
        }
    }
}
