//! The controller of `ObjectSetPhase` and `ClusterObjectSetPhase`.

mod access;
mod debounce;
mod immutable;
mod mirror;
mod queue;
mod triggers;

use std::sync::Arc;

use baton_apis::{
    LifecycleState, ObjectSetPhaseStatus,
    conditions::{AVAILABLE, Reason},
    constants::{ANNOTATION_ABANDON, CLASS_DEFAULT, FINALIZER_CACHED},
};
use baton_engine::{
    condition_list::find,
    conditions::{Requeue, report_phase_unknown},
    owners::lost_hubs as parse_lost_hubs,
    revision::{Delivery, Reach, Revision},
    weight::MANIFESTS,
};
use baton_fleet::{
    assignments::{Assignments, Decision},
    inventory::{ClusterLink, Contact, Inventory},
    mirror::rollout_cluster,
};
use baton_kubernetes::{events::EventKind, target::Target};
use baton_records::phase::{PhaseKey, PhaseRecord};
use baton_runtime::{
    controller::{Controller, Reconciled},
    outcomes::ReconcileOutcome,
    pace::Pace,
    queue::Queue,
};
use baton_typed::debounce::{Debounced, at_the_latest};
use jiff::Timestamp;

use crate::delivery::{
    gate::{Gated, SitePass},
    heirs::phases_given,
    lost_hubs,
    observed::{Observed, phases_of_siblings},
    owners::Targets,
    phase_owners::PhaseOwners,
    phase_pass::{PhaseOutcome, PhasePass},
    shared::{AtStep as _, Error, Shared},
    strays::OwnerServer,
};

/// Delivers delegated phases into this cluster and others, or hands them to agents.
pub(crate) struct ObjectSetPhases {
    shared: Shared,
    observed: Arc<Observed>,
    inventory: Inventory,
    /// Decides which namespaces may deliver into which clusters.
    assignments: Assignments,
    phases: PhaseOwners,
    /// The reports of agents.
    reports: Pace<PhaseKey>,
    debounced: Debounced<PhaseKey>,
    /// True if collision protection is off.
    force_adoption: bool,
}

impl ObjectSetPhases {
    pub(crate) fn new(
        shared: Shared,
        observed: Arc<Observed>,
        target: Target,
        inventory: Inventory,
        assignments: Assignments,
        force_adoption: bool,
    ) -> Self {
        Self {
            shared,
            observed,
            phases: PhaseOwners::new(Targets {
                home: target,
                inventory: Some(inventory.clone()),
            }),
            inventory,
            assignments,
            reports: Pace::default(),
            debounced: Debounced::default(),
            force_adoption,
        }
    }
}

impl Controller for ObjectSetPhases {
    const NAME: &'static str = "objectsetphase";

    type Key = PhaseKey;
    type Error = Error;

    fn watches(self: &Arc<Self>, queue: &Arc<Queue<PhaseKey>>) {
        let on = &self.observed;
        queue.wake_on(on.phases.changes(), self, |this, change| {
            let wakes = triggers::on_phase(&this.observed, change);
            triggers::at_pace(&this.reports, change, wakes, this.shared.clock.instant())
        });
        queue.wake_on(on.revisions.changes(), self, |this, change| {
            triggers::on_revision(&this.observed, change)
        });
        queue.wake_on(on.slices.changes(), self, |this, change| {
            triggers::on_slice(&this.observed, change)
        });
        queue.wake_on(&on.children, self, |this, event| {
            let now = this.shared.clock.instant();
            this.phases.on_child(&this.observed, event, now)
        });
        queue.wake_on(&on.links, self, |this, cluster| {
            triggers::on_link(&this.observed, cluster)
        });
        queue.wake_on(&on.assignments, self, |this, change| {
            let labels = |cluster: &str| this.inventory.labels(cluster);
            triggers::on_assignment(&this.observed, change, labels)
        });
        queue.wake_on(&on.affected_siblings, self, |this, affected| {
            phases_of_siblings(&this.observed, affected)
        });
        queue.wake_on(&on.handed_back, self, |this, uids| {
            phases_given(&this.observed, uids)
        });
        queue.wake_on(&on.site_terms.changes, self, |this, change| {
            triggers::on_terms(&this.observed, change)
        });
    }

    fn cluster(&self, key: &PhaseKey) -> Option<Arc<str>> {
        let record = self.observed.phases.get(key)?;
        Some(record.cluster()?.into())
    }

    fn memory(&self, key: &PhaseKey) -> usize {
        let record = self.observed.phases.get(key);
        record.map_or(0, |record| record.weight.min(MANIFESTS))
    }

    fn timed(&self) -> Vec<PhaseKey> {
        let is_phase = |record: &PhaseRecord| rollout_cluster(record).is_none();
        let records = self.observed.phases.filter(is_phase).into_iter();
        records.map(|record| record.key.clone()).collect()
    }

    async fn reconcile(&self, key: &PhaseKey, failures: u32) -> Result<Reconciled, Error> {
        let now = self.shared.clock.instant();
        let server = OwnerServer {
            api: &self.shared.api,
            at: &|_| Some(key.clone()),
            says_ended: |live, uid| *live.uid != *uid || live.deleting,
        };
        let taken = self
            .phases
            .take_strays_away(key, &self.observed, now, server);
        let gone = taken.await;
        let Some(record) = self.phases.phase(key, &self.observed) else {
            self.debounced.forget(key);
            return Ok(gone);
        };
        self.let_go_of_deleted(&record).await?;
        let route = self.route(&record);
        let reach = match self.access(&record, &route) {
            Decision::Allowed(reach) => reach,
            // The last reported status stays for the few seconds until the assignments are known.
            Decision::Unknown => return Ok((ReconcileOutcome::Waiting, Requeue::OnEvent)),
            // A phase that has begun under an earlier decision continues under that decision; no
            // new phase begins.
            Decision::Unreadable {
                before: Some(reach),
                ..
            } if record.has_finalizer(FINALIZER_CACHED) => reach,
            Decision::Unreadable { message, .. } => {
                return self.undecided(&record, &message).await;
            }
            Decision::Refused(message) => return self.refuse(&record, &route, &message).await,
        };
        if let Some(text) = immutable::changed_class(&record) {
            return self.refuse_change(&record, &text).await;
        }
        let (target, delivery) = match route {
            Route::Elsewhere => return Ok((ReconcileOutcome::Unchanged, Requeue::OnEvent)),
            // The last reported status stays for the few seconds until the connection is up or has
            // failed.
            Route::Connecting => return Ok((ReconcileOutcome::Waiting, Requeue::OnEvent)),
            Route::Unreachable(message) => {
                if self.is_taken_back(&record).await? {
                    return Ok((ReconcileOutcome::Changed, Requeue::OnEvent));
                }
                return self.unreachable(&record, &message).await;
            }
            Route::Stray => return self.collect(&record).await,
            Route::Agent(cluster, contact) => {
                return self
                    .deliver_by_agent(record.clone(), cluster, contact, reach, failures)
                    .await;
            }
            Route::Here => (self.phases.owners.targets.home.clone(), Delivery::Delegated),
            Route::Remote(cluster, target) => {
                self.withdraw(&record, cluster).await?;
                (target, Delivery::Remote)
            }
        };
        let work = PassInput {
            target,
            delivery,
            reach,
            failures,
        };
        self.work_on(record, work).await
    }
}

/// The target and the limits of a pass over a phase.
struct PassInput {
    target: Target,
    delivery: Delivery,
    reach: Reach,
    failures: u32,
}

impl ObjectSetPhases {
    /// Delivers or tears down the objects of a phase, unless the gate of its site holds the phase
    /// back.
    async fn work_on(
        &self,
        record: Arc<PhaseRecord>,
        work: PassInput,
    ) -> Result<Reconciled, Error> {
        let (record, site) = match self.gate(record).await? {
            Gated::Open(record, site) => (record, site),
            Gated::Held(result) => return Ok(result),
        };
        let named = record.service_account()?;
        let account = self.shared.account(&record.key.namespace, named.as_deref());
        let set = record.controller.as_ref();
        let set = set.and_then(|uid| self.observed.revisions.by_uid(uid));
        let lost = lost_hubs::of_phase(&record, set.as_deref()).map(parse_lost_hubs);
        let pass = |record| PhasePass {
            hub: self.observed.hub(),
            lost_hubs: lost.clone().unwrap_or_default(),
            site: site.clone(),
            account: account.clone(),
            shared: &self.shared,
            observed: &self.observed,
            owners: &self.phases.owners,
            record,
            target: work.target,
            delivery: work.delivery,
            reach: work.reach,
            force_adoption: self.force_adoption,
            has_given: None,
            ended_before: &[],
            failures: work.failures,
        };
        if record.deleting {
            return self.tear_down(&pass(&record)).await;
        }
        let record = match &site {
            // A trial writes nothing, so that the deletion of the phase has nothing to wait for.
            SitePass::Trial(_) => record,
            SitePass::None | SitePass::Begun { .. } => self.set_up(record).await?,
        };
        let outcome = pass(&record).roll_out().await?;
        let old = record.status()?;
        let written = self
            .write(&record, &old, outcome.status, outcome.result)
            .await;
        if let Some(affected) = outcome.affected {
            self.observed.affected_siblings.emit(&affected);
        }
        written
    }

    /// Deletes the objects of a phase and removes its finalizer.
    async fn tear_down(&self, pass: &PhasePass<'_>) -> Result<Reconciled, Error> {
        let record = pass.record;
        // Without the finalizer nothing was ever delivered.
        if !record.has_finalizer(FINALIZER_CACHED) {
            return Ok((ReconcileOutcome::Unchanged, Requeue::OnEvent));
        }
        let report = if record.orphaning {
            pass.release();
            None
        } else {
            pass.tear_down().await?
        };
        if let Some(PhaseOutcome { status, result, .. }) = report {
            let old = record.status()?;
            return self.write(record, &old, status, result).await;
        }
        self.release(record).await?;
        Ok((ReconcileOutcome::Changed, Requeue::OnEvent))
    }

    fn route<'a>(&self, record: &'a PhaseRecord) -> Route<'a> {
        let Some(cluster) = record.cluster() else {
            return match record.class() {
                CLASS_DEFAULT => Route::Here,
                _ if record.agent().is_some() && self.observed.origin(record).is_none() => {
                    Route::Stray
                }
                _ => Route::Elsewhere,
            };
        };
        match self.inventory.link(cluster) {
            ClusterLink::Up(target) => Route::Remote(cluster, target),
            ClusterLink::Pull(contact) => Route::Agent(cluster, contact),
            ClusterLink::Unknown => {
                Route::Unreachable(format!("There is no Cluster \"{cluster}\"."))
            }
            link if link.is_connecting() => Route::Connecting,
            ClusterLink::Down { message, since, .. } => {
                Route::Unreachable(not_connected(cluster, since, &message))
            }
        }
    }

    /// Reports that the objects of a phase cannot be reached. Removes the finalizer of a deleted
    /// phase if the deletion need not wait for the objects.
    async fn unreachable(&self, record: &PhaseRecord, message: &str) -> Result<Reconciled, Error> {
        if record.deleting {
            // Without the finalizer nothing was ever delivered.
            if !record.has_finalizer(FINALIZER_CACHED) {
                return Ok((ReconcileOutcome::Unchanged, Requeue::OnEvent));
            }
            if record.is_abandoned() || record.orphaning {
                if let Some(cluster) = record.cluster() {
                    self.withdraw(record, cluster).await?;
                }
                self.release(record).await?;
                return Ok((ReconcileOutcome::Changed, Requeue::OnEvent));
            }
        }
        let mut text = message.to_owned();
        if record.deleting {
            if !text.ends_with(['.', '?', '!']) {
                text.push('.');
            }
            text = format!(
                "{text} The deletion waits for it; to leave the objects behind, annotate this phase with \
             {ANNOTATION_ABANDON}=true."
            );
        }
        let available = ("Unknown", Reason::ClusterUnreachable);
        let result = (ReconcileOutcome::Waiting, Requeue::OnEvent);
        self.report_unknown(record, available, &text, result).await
    }

    /// Removes our finalizer.
    async fn release(&self, record: &PhaseRecord) -> Result<(), Error> {
        let mut left = record.finalizers.clone();
        left.retain(|finalizer| finalizer != FINALIZER_CACHED);
        let updated = self.shared.api.set_finalizers(record, left).await;
        let updated = updated.at_step("releasing the finalizer")?;
        self.observed.phases.updated(updated, Self::NAME);
        Ok(())
    }

    /// Ensures that the phase has the finalizer and its pinned class.
    async fn set_up(&self, record: Arc<PhaseRecord>) -> Result<Arc<PhaseRecord>, Error> {
        // The pinned class is needed only for other clusters: in this cluster owner references show
        // the owner of an object, and a phase of the class `default` is created with a finalizer.
        let needs_notes = record.cluster().is_some() && record.pinned_class().is_none();
        if record.has_finalizer(FINALIZER_CACHED) && !needs_notes {
            return Ok(record);
        }
        let class = record.class().to_owned();
        let updated = self.shared.api.set_up_phase(&record, &class).await;
        let updated = updated.at_step("setting up")?;
        self.observed.phases.updated(updated.clone(), Self::NAME);
        Ok(Arc::new(updated))
    }

    /// Reports that the state of a phase's objects is unknown, or that they may not be written.
    ///
    /// `available` is status and reason of the condition, `result` the result of the reconcile if
    /// the status does not change.
    async fn report_unknown(
        &self,
        record: &PhaseRecord,
        available: (&str, Reason),
        text: &str,
        result: Reconciled,
    ) -> Result<Reconciled, Error> {
        let old = record.status()?;
        let revision = Revision {
            generation: record.generation,
            lifecycle: LifecycleState::of_phase(record.is_paused()?),
            ..Revision::default()
        };
        let now = self.shared.clock.now();
        let status = report_phase_unknown(&old, &revision, available, text, now);
        self.write(record, &old, status, result).await
    }

    /// Writes the status if it differs from the one on the server. `result` is the result of the reconcile
    /// if it does not.
    async fn write(
        &self,
        record: &PhaseRecord,
        old: &ObjectSetPhaseStatus,
        status: ObjectSetPhaseStatus,
        (outcome, requeue): Reconciled,
    ) -> Result<Reconciled, Error> {
        if *old == status && !record.is_wiped {
            self.debounced.forget(&record.key);
            return Ok((outcome, requeue));
        }
        if !record.is_wiped
            && let Some(left) = self.debounce(record, old, &status)
        {
            return Ok((outcome, at_the_latest(requeue, left)));
        }
        self.debounced.forget(&record.key);
        let updated = self.shared.api.set_status(record, &status).await;
        let updated = updated.at_step("writing the status")?;
        // This wakes the revision.
        self.observed.phases.updated(updated, Self::NAME);
        if let Some((reason, note)) = warning(old, &status) {
            let (key, uid) = (&record.key, &record.uid);
            let events = &self.shared.events;
            events.publish(key, uid, EventKind::Warning, reason, note);
        }
        let outcome = match outcome {
            ReconcileOutcome::Unchanged => ReconcileOutcome::Changed,
            outcome => outcome,
        };
        Ok((outcome, requeue))
    }
}

/// The warning for a status change. Probes that fail are reported by the revision.
fn warning(old: &ObjectSetPhaseStatus, new: &ObjectSetPhaseStatus) -> Option<(Reason, String)> {
    let available = find(&new.conditions, AVAILABLE)?;
    let reason = Reason::of_available(&available.reason)?;
    let is_expected = matches!(
        reason,
        Reason::Available
            | Reason::ProbeFailure
            | Reason::Queued
            | Reason::Skipped
            | Reason::Stopping
    );
    let is_new =
        find(&old.conditions, AVAILABLE).is_none_or(|before| before.reason != available.reason);
    (!is_expected && is_new).then(|| (reason, available.message.clone()))
}

/// The message for a cluster that is not connected, with the time and the cause.
fn not_connected(cluster: &str, since: Timestamp, cause: &str) -> String {
    format!("Cluster \"{cluster}\" is not connected since {since:.0}: {cause}")
}

/// The way in which a phase is delivered.
enum Route<'a> {
    /// By no controller of this process: another class has a controller of its own, or none.
    Elsewhere,
    /// Into the cluster of the revision.
    Here,
    /// Into another cluster, with this name.
    Remote(&'a str, Target),
    /// Into another cluster, to which a connection is being made.
    Connecting,
    /// Into another cluster that cannot be reached; the text is the cause.
    Unreachable(String),
    /// By the agent of this cluster.
    Agent(&'a str, Contact),
    /// Not at all: the object is a mirror whose phase is not observed.
    Stray,
}
