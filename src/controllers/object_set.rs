//! The controller of `ObjectSet` and `ClusterObjectSet`: observe, plan, apply, report.

mod load;
mod report;
mod series;
mod teardown;
mod triggers;

use std::sync::Arc;

use baton_apis::{
    LifecycleState, ObjectSetStatus,
    conditions::{EventReason, Reason},
    constants::{FINALIZER_CACHED, FINALIZER_METRICS},
};
use baton_typed::debounce::Debounced;

use self::{
    load::{Loaded, Refusal},
    series::ObjectSetSeries,
};
use crate::delivery::{
    containers::{losses, on_container},
    delegated_phases::PhaseObjects,
    executor::{Executor, RolloutInput, outcome_label},
    heirs::revisions_given,
    observed::Observed,
    owners::{Owners, Targets},
    ran::note_ran,
    shared::{AtStep as _, Error, Shared},
    strays::Strays,
};
use baton_engine::{
    chain::{self, Numbering},
    conditions::{Requeue, report_pass, report_refusal},
    ended::by_object,
    recreate::reported,
    revision::Revision,
};
use baton_kubernetes::{account::Account, events::EventKind, target::Target};
use baton_records::{
    key::OwnKind as _,
    phase::{PhaseKey, PhaseKind},
    record::ReadError,
    revision::{RevisionKey, RevisionKind, RevisionRecord},
    siblings::CachedSiblings,
};
use baton_runtime::{
    controller::{Controller, Reconciled},
    metrics::Metrics,
    outcomes::ReconcileOutcome,
    queue::Queue,
};

/// Rolls out, archives and tears down revisions.
pub(crate) struct ObjectSets {
    shared: Shared,
    observed: Arc<Observed>,
    owners: Owners<RevisionKind>,
    strays: Strays<RevisionKind>,
    debounced: Debounced<RevisionKey>,
    series: ObjectSetSeries,
    /// The queue of delegated phases: while it is not empty, statuses are debounced for longer.
    phases: Arc<Queue<PhaseKey>>,
    /// True if collision protection is off.
    force_adoption: bool,
}

impl ObjectSets {
    pub(crate) fn new(
        shared: Shared,
        observed: Arc<Observed>,
        target: Target,
        phases: Arc<Queue<PhaseKey>>,
        metrics: &Metrics,
        force_adoption: bool,
    ) -> Self {
        Self {
            shared,
            observed,
            // The cluster of the revisions, which also contains the objects of phases without a
            // class.
            owners: Owners::new(Targets {
                home: target,
                inventory: None,
            }),
            strays: Strays::default(),
            debounced: Debounced::default(),
            series: metrics.register(ObjectSetSeries::register),
            phases,
            force_adoption,
        }
    }
}

impl Controller for ObjectSets {
    const NAME: &'static str = "objectset";

    type Key = RevisionKey;
    type Error = Error;

    fn watches(self: &Arc<Self>, queue: &Arc<Queue<RevisionKey>>) {
        let on = &self.observed;
        queue.wake_on(on.revisions.changes(), self, |this, change| {
            triggers::on_revision(&this.observed, change)
        });
        queue.wake_on(on.phases.changes(), self, |this, change| {
            triggers::on_phase(&this.observed, change)
        });
        queue.wake_on(&on.phases.extents, self, |this, kind| {
            triggers::on_phases_listed(&this.observed, *kind)
        });
        queue.wake_on(&on.children, self, |this, event| {
            let find = |uid: &str| triggers::owner(&this.observed, uid);
            this.owners.on_child(event, find)
        });
        queue.wake_on(&on.children, self, |this, event| {
            let ended = |uid: &str| triggers::ended_owner(&this.observed, uid);
            let home = || this.owners.targets.all();
            this.strays.on_child(event, home, ended)
        });
        queue.wake_on(&on.children, self, |this, event| {
            on_container(&this.observed, event)
        });
        queue.wake_on(on.slices.changes(), self, |this, change| {
            triggers::on_slice(&this.observed, change)
        });
        queue.wake_on(&on.affected_siblings, self, |this, affected| {
            triggers::on_affected(&this.observed, affected)
        });
        queue.wake_on(&on.handed_back, self, |this, uids| {
            revisions_given(&this.observed, uids)
        });
    }

    fn memory(&self, key: &RevisionKey) -> usize {
        let record = self.observed.revisions.get(key);
        record.map_or(0, |record| self.observed.weight(&record))
    }

    fn timed(&self) -> Vec<RevisionKey> {
        let records = self
            .observed
            .revisions
            .filter(|it| !it.archived)
            .into_iter();
        records.map(|record| record.key.clone()).collect()
    }

    async fn reconcile(&self, key: &RevisionKey, failures: u32) -> Result<Reconciled, Error> {
        let Some(record) = self.observed.revisions.get(key) else {
            self.forget(key);
            return Ok((ReconcileOutcome::Gone, Requeue::OnEvent));
        };
        if record.archived || (record.deleting && record.orphaning) {
            let retired = self.retire(&record).await?;
            return self.take_strays_away(&record, retired).await;
        }
        if record.deleting || record.lifecycle == LifecycleState::Archived {
            return self.tear_down(&record, failures).await;
        }
        let revisions = &self.observed.revisions;
        let number = chain::number(
            &key.name,
            &revisions.link(key).unwrap_or_default(),
            |name| revisions.link(&key.sibling(name)),
        );
        let record = match &number {
            Numbering::WaitFor(_) => return Ok((ReconcileOutcome::Waiting, Requeue::OnEvent)),
            Numbering::Given(_) | Numbering::Impossible(_) => record,
            Numbering::Computed(number) => record.with_number(*number),
        };
        let status = self.status(&record)?;
        let mut loaded = self.load(&record, &status).await?;
        if let Numbering::Impossible(text) = number {
            loaded.refuse(Reason::PreflightError, text);
        }
        if status.controller_of.is_empty() {
            // It is too late to refuse a revision that has written objects. The older revisions
            // then keep the Namespaces and definitions that they share with it.
            let (api, home) = (&self.shared.api, &self.owners.targets.home);
            let losses = losses(&self.observed, api, home, &record, &loaded.phases);
            for text in losses.await? {
                loaded.refuse(Reason::PreflightError, text);
            }
        }
        let Loaded {
            revision, phases, ..
        } = &mut loaded;
        let owner = (&*record, by_object(&status.ended));
        let read = (&*self.observed, &self.shared.api);
        let set = Some((&*record, ""));
        note_ran(&self.owners, owner, set, read, revision, phases).await?;
        loaded.revision.reported = reported(&loaded.phases, &status.controller_of);
        self.roll_out(record, &status, loaded, failures).await
    }
}

impl ObjectSets {
    /// Drops the state of a deleted revision.
    fn forget(&self, key: &RevisionKey) {
        self.owners.forget(key);
        self.strays.forget(key);
        self.series.forget(&key.namespace, &key.name);
        self.debounced.forget(key);
    }

    /// The status of a revision, with the content hash of a status that is debounced.
    fn status(&self, record: &RevisionRecord) -> Result<ObjectSetStatus, ReadError> {
        let mut status = record.status()?;
        if status.content_hash.is_none() {
            status.content_hash = self.debounced.content_hash(&record.key, &record.uid);
        }
        Ok(status)
    }

    /// Ensures that the number is set and, if the revision is about to write, both finalizers, in
    /// one request.
    ///
    /// A revision without finalizers has written nothing. It can be archived and deleted whatever
    /// it contains.
    async fn set_up(
        &self,
        record: Arc<RevisionRecord>,
        finalizers_too: bool,
    ) -> Result<Arc<RevisionRecord>, Error> {
        let mut finalizers = record.finalizers.clone();
        for finalizer in [FINALIZER_CACHED, FINALIZER_METRICS] {
            if finalizers_too && !record.has_finalizer(finalizer) {
                finalizers.push(finalizer.to_owned());
            }
        }
        let stored = self.observed.revisions.get(&record.key);
        let number = record
            .number
            .filter(|_| stored.is_none_or(|stored| stored.number != record.number));
        if finalizers.len() == record.finalizers.len() && number.is_none() {
            return Ok(record);
        }
        let updated = self.shared.api.set_up(&record, finalizers, number).await;
        Ok(self.updated(updated.at_step("setting up")?))
    }

    /// Updates the store with the answer to a write of this controller.
    fn updated(&self, record: RevisionRecord) -> Arc<RevisionRecord> {
        self.observed.revisions.updated(record.clone(), Self::NAME);
        Arc::new(record)
    }

    /// Rolls out the objects of a revision and reports.
    async fn roll_out(
        &self,
        record: Arc<RevisionRecord>,
        status: &ObjectSetStatus,
        loaded: Loaded,
        failures: u32,
    ) -> Result<Reconciled, Error> {
        let Loaded {
            account,
            mut revision,
            phases,
            probes,
            content_hash,
            refusal,
        } = loaded;
        let status = &ObjectSetStatus {
            content_hash: status.content_hash.clone().or(content_hash),
            ..status.clone()
        };
        let (Some(probes), None) = (probes, &refusal) else {
            let refusal = refusal.unwrap_or_else(|| Refusal::new(Reason::PreflightError, vec![]));
            let outcome = match refusal.reason {
                Reason::WriteError => ReconcileOutcome::Failed,
                _ => ReconcileOutcome::Blocked,
            };
            return self
                .refuse(record, status, revision, refusal, outcome)
                .await;
        };
        let executor = self.executor(&record, account.clone(), failures);
        let kinds = match executor.kinds(&phases).await {
            Ok(kinds) => kinds,
            Err(error) if !executor.is_stuck() => return Err(error.into()),
            Err(error) => {
                let refusal = Refusal::new(Reason::WriteError, vec![error.to_string()]);
                let outcome = ReconcileOutcome::Failed;
                return self
                    .refuse(record, status, revision, refusal, outcome)
                    .await;
            }
        };
        if !record.has_finalizer(FINALIZER_CACHED) {
            self.publish_missing_previous(&record);
        }
        let record = &self.set_up(record, true).await?;
        // Setting the number has increased the generation.
        revision.generation = record.generation;
        revision.disputed = self.owners.disputed(record, self.shared.clock.now());
        let siblings = CachedSiblings::of_set(record, self.observed.stores());
        let previous = record.previous.iter().map(ToString::to_string);
        let executor = self.executor(record, account, failures);
        let mut wanted = RolloutInput {
            revision: &revision,
            phases,
            probes: &probes,
            siblings: &siblings,
            controlled: &status.controller_of,
        };
        let (mut outcome, affected) = executor
            .roll_out(&mut wanted, &kinds, record.key.clone(), previous)
            .await;
        let phases = self.observed.phases.extent(PhaseKind(record.key.kind));
        if let Some(cause) = phases.failure() {
            outcome.without_reports(cause);
        }
        let kind = outcome_label(&outcome);
        let now = self.shared.clock.now();
        let report = report_pass(status, &revision, outcome, failures, now);
        let written = self.report(record, status, report, kind).await;
        // Our own status is written first, so that no client sees the older revision report the
        // loss of its objects before this one reports them.
        self.observed.affected_siblings.emit(&affected);
        written
    }

    /// Reports that no object of a revision is rolled out.
    async fn refuse(
        &self,
        record: Arc<RevisionRecord>,
        status: &ObjectSetStatus,
        revision: Revision,
        Refusal { reason, texts, .. }: Refusal,
        outcome: ReconcileOutcome,
    ) -> Result<Reconciled, Error> {
        let record = self.set_up(record, false).await?;
        let revision = Revision {
            generation: record.generation,
            ..revision
        };
        let now = self.shared.clock.now();
        let mut report = report_refusal(status, &revision, reason, &texts, now);
        if outcome == ReconcileOutcome::Failed {
            // The user has nothing to change, so the pass is retried.
            report.requeue = Requeue::Backoff;
        }
        self.report(&record, status, report, outcome).await
    }

    /// Publishes an event if a revision lists previous revisions that do not exist; once, when it
    /// begins.
    fn publish_missing_previous(&self, record: &RevisionRecord) {
        let revisions = &self.observed.revisions;
        let listed = record.previous.iter().map(|name| record.key.named(name));
        let missing = listed.filter(|key| revisions.get(key).is_none());
        let missing: Vec<_> = missing.map(|key| key.name.to_string()).collect();
        if missing.is_empty() {
            return;
        }
        let (kind, names) = (record.key.kind.kind(), missing.join(", "));
        let text =
            format!("previous: there is no {kind} {names}, so nothing is taken over from it");
        let events = &self.shared.events;
        let (key, uid) = (&record.key, &record.uid);
        events.publish(
            key,
            uid,
            EventKind::Warning,
            EventReason::PreviousNotFound,
            text,
        );
    }

    fn executor<'a>(
        &'a self,
        record: &'a RevisionRecord,
        account: Option<Account>,
        failures: u32,
    ) -> Executor<'a, RevisionKind> {
        Executor {
            shared: &self.shared,
            owners: &self.owners,
            record,
            target: self.owners.targets.home.clone(),
            account,
            failures,
            phase_objects: Some(self.phase_objects(record)),
            is_of_site: record.has_site(),
        }
    }

    fn phase_objects<'a>(&'a self, set: &'a RevisionRecord) -> PhaseObjects<'a> {
        PhaseObjects {
            set,
            phases: &self.observed.phases,
            api: &self.shared.api,
            writer: Self::NAME,
        }
    }
}
