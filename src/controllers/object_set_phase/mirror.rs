//! Phases of clusters that agents serve: the mirrors on the hub, and the statuses that the agents
//! report (see [`baton_fleet::mirror`]).

use std::sync::Arc;

use baton_apis::{
    ObjectSetPhaseStatus,
    conditions::{ARCHIVED, Reason},
    constants::{ANNOTATION_ORIGIN, FINALIZER_CACHED},
};
use baton_engine::{
    conditions::{FAILURES_BEFORE_REPORT, Requeue},
    delegated::reported::ReportedPhase,
    revision::Reach,
};
use baton_fleet::{
    inventory::Contact,
    mirror::{self, Origin},
};
use baton_records::{phase::PhaseRecord, siblings::CachedSiblings};
use baton_runtime::{
    controller::{Controller as _, ReconcileError as _, Reconciled},
    outcomes::ReconcileOutcome,
};

use super::{ObjectSetPhases, not_connected};
use crate::delivery::{
    heirs::heirs_elsewhere,
    lost_hubs,
    phase_content::{changed_content, content_hash},
    ran::ended_before,
    shared::{AtStep as _, Error},
};

/// The step in error messages about mirrors.
const MIRROR: &str = "handing a phase to its agent";

impl ObjectSetPhases {
    /// Hands a phase to the agent of its cluster, and takes over the status that the agent reports.
    ///
    /// # Errors
    /// When a request about the phase or its mirror failed.
    pub(crate) async fn deliver_by_agent(
        &self,
        record: Arc<PhaseRecord>,
        cluster: &str,
        contact: Contact,
        reach: Reach,
        failures: u32,
    ) -> Result<Reconciled, Error> {
        if record.deleting {
            return self.take_back(&record, cluster, contact).await;
        }
        let (spec, too_large) = record.spec_unless_too_large()?;
        if let Some(text) = too_large {
            let reason = ("False", Reason::PreflightError);
            let result = (ReconcileOutcome::Blocked, Requeue::OnEvent);
            return self.report_unknown(&record, reason, &text, result).await;
        }
        if let Some(text) = changed_content(&spec, &record.status()?) {
            return self.refuse_change(&record, &text).await;
        }
        if self.mirror_of(&record, cluster).is_none() && !self.has_place(cluster) {
            // The phase does not get a finalizer either, so that its deletion waits for nothing.
            return self.without_place(&record, cluster, contact).await;
        }
        if let Some(waiting) = self.out_of_turn(&record, cluster).await? {
            return Ok(waiting);
        }
        let record = self.set_up(record).await?;
        let mirror = self.apply_mirror(&record, cluster, reach).await;
        if let Err(error) = &mirror
            && (failures >= FAILURES_BEFORE_REPORT || error.refusal().is_some())
        {
            let reason = ("Unknown", Reason::ClusterUnreachable);
            let text = not_handed(cluster, &error.to_string());
            let requeue = error.retry_after().map_or(Requeue::Backoff, Requeue::After);
            let result = (ReconcileOutcome::Failed, requeue);
            return self.report_unknown(&record, reason, &text, result).await;
        }
        let reported = self
            .take_report(&record, cluster, contact, mirror.as_ref().ok())
            .await;
        mirror?;
        reported
    }

    /// Takes over the status of a phase from its agent.
    async fn take_report(
        &self,
        record: &PhaseRecord,
        cluster: &str,
        contact: Contact,
        mirror: Option<&Arc<PhaseRecord>>,
    ) -> Result<Reconciled, Error> {
        let waiting = (ReconcileOutcome::Waiting, Requeue::OnEvent);
        match contact {
            // The last reported status stays for the short time in which the agent may still
            // report.
            Contact::Expected => Ok(waiting),
            Contact::Lost { message, since } => {
                self.unreachable(record, &not_connected(cluster, since, &message))
                    .await
            }
            Contact::Reported => {
                let status = mirror.map(|mirror| mirror.status()).transpose()?;
                let mut status: ObjectSetPhaseStatus = status.unwrap_or_default();
                status.conditions.retain(|c| c.type_ != ARCHIVED);
                if status.conditions.is_empty() {
                    return Ok(waiting);
                }
                if record.deleting {
                    // The deletion has increased the generation, which the agent does not observe.
                    for condition in &mut status.conditions {
                        condition.observed_generation = Some(record.generation);
                    }
                }
                let old = record.status()?;
                let result = (ReconcileOutcome::Unchanged, Requeue::OnEvent);
                let status = self.accept(record, &old, status)?;
                self.write(record, &old, status, result).await
            }
        }
    }

    /// The acceptable parts of the status that an agent has reported for a phase: the credentials of
    /// the agent may be in other hands.
    fn accept(
        &self,
        record: &PhaseRecord,
        old: &ObjectSetPhaseStatus,
        reported: ObjectSetPhaseStatus,
    ) -> Result<ObjectSetPhaseStatus, Error> {
        if *old == reported {
            return Ok(reported);
        }
        let (spec, _) = record.spec_unless_too_large()?;
        let phase = ReportedPhase {
            spec: &spec,
            generation: record.generation,
            content_hash: &content_hash(&spec),
            accepted: old,
            now: self.shared.clock.now(),
        };
        let accepted = phase.accept(reported.clone());
        if accepted != reported && accepted != *old {
            tracing::warn!(
                phase = %record.key,
                "the agent has reported contents that the phase cannot have; they are ignored"
            );
        }
        Ok(accepted)
    }

    /// Creates or updates the mirror of a phase.
    async fn apply_mirror(
        &self,
        record: &PhaseRecord,
        cluster: &str,
        reach: Reach,
    ) -> Result<Arc<PhaseRecord>, Error> {
        let set = record.controller.as_ref();
        let set = set.and_then(|uid| self.observed.revisions.by_uid(uid));
        let before = set.as_ref().map(|set| self.observed.revisions.before(set));
        let before = before.unwrap_or_default();
        let named = record.service_account()?;
        let named = named.as_deref().or(self.shared.default_account.as_deref());
        let key = mirror::key(cluster, record);
        let cached = self.observed.phases.get(&key);
        let position = self.queue_position(record, cached.as_deref());
        let stores = self.observed.stores();
        let has_given = set
            .as_ref()
            .is_some_and(|set| CachedSiblings::of_set(set, stores).may_have_given());
        let origin = Origin::of(record, set.as_deref(), &before, reach).giving(has_given);
        let described = cached.as_deref().map(Origin::read).and_then(Result::ok);
        // The facts of the time at which the mirror was made stay.
        let (ended, hub) = if let Some(described) = described {
            (described.ended().to_vec(), described.hub().to_owned())
        } else {
            let read = (&*self.observed, &self.shared.api);
            let ended = ended_before(record, set.as_deref(), read).await?;
            (ended, self.observed.hub().to_owned())
        };
        let lost_hubs = lost_hubs::of_phase(record, set.as_deref());
        let origin = origin.acting_as(named).with_position(position);
        let origin = origin.with_ended(ended).in_hub(&hub, lost_hubs);
        let api = &self.shared.api;
        let Some(cached) = cached else {
            let manifest = mirror::manifest(&key, record, &origin)?;
            let made = api.create(&key, &manifest).await;
            let made = made.at_step(MIRROR)?;
            self.observed.phases.created(made.clone(), Self::NAME);
            return Ok(Arc::new(made));
        };
        if cached.deleting {
            return Ok(cached);
        }
        let (text, paused) = (origin.text(), record.is_paused()?);
        if cached.annotations.get(ANNOTATION_ORIGIN) == Some(&text) && cached.is_paused()? == paused
        {
            return Ok(cached);
        }
        let annotation = (ANNOTATION_ORIGIN, &*text);
        let updated = api.annotate_phase(&cached, annotation, paused).await;
        let updated = updated.at_step(MIRROR)?;
        self.observed.phases.updated(updated.clone(), Self::NAME);
        Ok(Arc::new(updated))
    }

    /// Pauses the mirror of a phase, if there is one, so that the agent writes nothing more.
    ///
    /// # Errors
    /// When the request failed.
    pub(super) async fn freeze(&self, record: &PhaseRecord, cluster: &str) -> Result<(), Error> {
        let Some(cached) = self.observed.phases.get(&mirror::key(cluster, record)) else {
            return Ok(());
        };
        if cached.deleting || cached.is_paused()? {
            return Ok(());
        }
        let updated = self.shared.api.pause_phase(&cached, true).await;
        let updated = updated.at_step(MIRROR)?;
        self.observed.phases.updated(updated, Self::NAME);
        Ok(())
    }

    /// Lets the agent delete the objects of a phase, and then releases the phase.
    async fn take_back(
        &self,
        record: &PhaseRecord,
        cluster: &str,
        contact: Contact,
    ) -> Result<Reconciled, Error> {
        if !record.has_finalizer(FINALIZER_CACHED) {
            return Ok((ReconcileOutcome::Unchanged, Requeue::OnEvent));
        }
        let is_lost = matches!(contact, Contact::Lost { .. });
        if record.orphaning || (is_lost && record.is_abandoned()) {
            self.withdraw(record, cluster).await?;
            self.release(record).await?;
            return Ok((ReconcileOutcome::Changed, Requeue::OnEvent));
        }
        let mut mirror = self.mirror_of(record, cluster);
        if mirror.is_none() {
            // The manager before this one may have created the mirror a moment ago.
            let found = self.shared.api.get(&mirror::key(cluster, record)).await;
            mirror = found.at_step(MIRROR)?.map(Arc::new);
        }
        let mirror = match mirror {
            Some(mirror) => mirror,
            None if !self.has_place(cluster) => {
                return self.without_place(record, cluster, contact).await;
            }
            // The phase is released before its mirror, so a missing mirror shows that no agent has
            // deleted the objects. The manager may have delivered them itself.
            None => self.apply_mirror(record, cluster, Reach::default()).await?,
        };
        if self.take_back_through(record, cluster, &mirror).await? {
            return Ok((ReconcileOutcome::Changed, Requeue::OnEvent));
        }
        self.take_report(record, cluster, contact, Some(&mirror))
            .await
    }

    /// Lets the agent of a cluster that is unknown or not connected delete the objects of a phase,
    /// as the agent may work nevertheless. Returns true if the objects are deleted and the phase is
    /// released.
    ///
    /// # Errors
    /// When a request about the phase or its mirror failed.
    pub(super) async fn is_taken_back(&self, record: &PhaseRecord) -> Result<bool, Error> {
        let is_left = record.orphaning || record.is_abandoned();
        let cluster = record.cluster().filter(|_| record.deleting && !is_left);
        let mirror = cluster.and_then(|cluster| self.mirror_of(record, cluster));
        match (cluster, mirror) {
            (Some(cluster), Some(mirror)) => self.take_back_through(record, cluster, &mirror).await,
            _ => Ok(false),
        }
    }

    /// Releases the deleted mirror of a phase that is to stay, once its objects are deleted, or if
    /// it is deleted with the namespace of the agent. The mirror is created again after that.
    ///
    /// # Errors
    /// When the request failed.
    pub(super) async fn let_go_of_deleted(&self, record: &PhaseRecord) -> Result<(), Error> {
        let cluster = record.cluster().filter(|_| !record.deleting);
        let mirror = cluster.and_then(|cluster| self.mirror_of(record, cluster));
        match (cluster, mirror) {
            (Some(cluster), Some(mirror))
                if is_done(&mirror) || self.is_closing(&mirror, cluster) =>
            {
                self.free(&mirror).await.map(drop)
            }
            _ => Ok(()),
        }
    }

    /// True if a mirror is deleted along with the namespace of its agent.
    fn is_closing(&self, mirror: &PhaseRecord, cluster: &str) -> bool {
        mirror.deleting && !self.has_place(cluster)
    }

    /// Lets the agent delete the objects of a phase, by the deletion of its mirror. Returns true if
    /// the objects are deleted and the phase is released.
    pub(super) async fn take_back_through(
        &self,
        record: &PhaseRecord,
        cluster: &str,
        mirror: &PhaseRecord,
    ) -> Result<bool, Error> {
        if is_done(mirror) {
            // The order matters: a phase without a mirror counts as not torn down, while a mirror
            // without a phase is garbage.
            self.release(record).await?;
            self.free(mirror).await?;
            return Ok(true);
        }
        if self.is_closing(mirror, cluster) {
            self.free(mirror).await?;
        } else if !mirror.deleting {
            match self.name_heirs(record, cluster, mirror).await? {
                Some(named) => self.delete_mirror(&named).await?,
                None => self.delete_mirror(mirror).await?,
            }
        }
        Ok(false)
    }

    /// Writes to the mirror which revisions get the objects of a phase back, before the agent
    /// deletes them. Returns the updated mirror; `None` if there are no heirs, or they are written
    /// already.
    async fn name_heirs(
        &self,
        record: &PhaseRecord,
        cluster: &str,
        mirror: &PhaseRecord,
    ) -> Result<Option<PhaseRecord>, Error> {
        let set = record.controller.as_ref();
        let set = set.and_then(|uid| self.observed.revisions.by_uid(uid));
        let heirs = set.map(|set| heirs_elsewhere(&self.observed, &set, cluster));
        let heirs = heirs.transpose()?.unwrap_or_default().into_iter();
        let heirs: Vec<_> = heirs.map(|heir| heir.identity.uid).collect();
        if heirs.is_empty() {
            return Ok(None);
        }
        let text = Origin::read(mirror)?.handing_back(heirs).text();
        if mirror.annotations.get(ANNOTATION_ORIGIN) == Some(&text) {
            return Ok(None);
        }
        let (annotation, paused) = ((ANNOTATION_ORIGIN, &*text), mirror.is_paused()?);
        let updated = self.shared.api.annotate_phase(mirror, annotation, paused);
        let updated = updated.await.at_step(MIRROR)?;
        self.observed.phases.updated(updated.clone(), Self::NAME);
        Ok(Some(updated))
    }

    /// The mirror of a phase in the store, unless it is about to disappear.
    pub(super) fn mirror_of(
        &self,
        record: &PhaseRecord,
        cluster: &str,
    ) -> Option<Arc<PhaseRecord>> {
        let mirror = self.observed.phases.get(&mirror::key(cluster, record))?;
        // A released mirror is about to disappear.
        (!mirror.deleting || !mirror.finalizers.is_empty()).then_some(mirror)
    }

    /// True if the namespace of the agent exists, so that mirrors can be created in it. The
    /// heartbeat object shows that: it is missing or being deleted when the namespace is.
    fn has_place(&self, cluster: &str) -> bool {
        let heartbeat = self.observed.phases.get(&mirror::heartbeat(cluster));
        heartbeat.is_some_and(|heartbeat| !heartbeat.deleting)
    }

    /// Reports that the namespace for the mirror of a phase does not exist.
    async fn without_place(
        &self,
        record: &PhaseRecord,
        cluster: &str,
        contact: Contact,
    ) -> Result<Reconciled, Error> {
        if matches!(contact, Contact::Expected) {
            // The namespace is about to be created or observed.
            return Ok((ReconcileOutcome::Waiting, Requeue::OnEvent));
        }
        let namespace = mirror::namespace(cluster);
        let cause = format!("namespace {namespace} does not exist, or is being deleted");
        self.unreachable(record, &not_handed(cluster, &cause)).await
    }

    /// Deletes the mirror of a phase, if there is one. The objects stay as they are: the agent
    /// drops a phase whose mirror is deleted.
    ///
    /// # Errors
    /// When a request failed.
    pub(crate) async fn withdraw(&self, record: &PhaseRecord, cluster: &str) -> Result<(), Error> {
        match self.observed.phases.get(&mirror::key(cluster, record)) {
            Some(cached) => self.discard(&cached).await,
            None => Ok(()),
        }
    }

    /// Deletes a mirror whose phase was deleted without a teardown, for example because its
    /// finalizers were removed by hand.
    ///
    /// # Errors
    /// When a request failed.
    pub(crate) async fn collect(&self, mirror: &PhaseRecord) -> Result<Reconciled, Error> {
        if mirror.deleting && mirror.finalizers.is_empty() {
            return Ok((ReconcileOutcome::Gone, Requeue::OnEvent));
        }
        let origin = match Origin::read(mirror) {
            Ok(origin) => origin,
            Err(error) => {
                tracing::warn!(mirror = %mirror.key, %error, "a mirror without a phase is ignored");
                return Ok((ReconcileOutcome::Unchanged, Requeue::OnEvent));
            }
        };
        if is_done(mirror) {
            // The manager before this one has released the phase but not the mirror.
            self.free(mirror).await?;
            return Ok((ReconcileOutcome::Changed, Requeue::OnEvent));
        }
        // The watch of phases may be behind the watch of mirrors.
        let found = self.shared.api.get(&origin.key()).await;
        let found = found.at_step(MIRROR)?;
        if found.is_some_and(|phase| *phase.uid == *origin.uid()) {
            return Ok((ReconcileOutcome::Waiting, Requeue::OnEvent));
        }
        let phase = origin.key();
        tracing::warn!(mirror = %mirror.key, %phase, "the phase is gone; its objects are left behind");
        self.discard(mirror).await?;
        Ok((ReconcileOutcome::Changed, Requeue::OnEvent))
    }

    /// Releases and deletes a mirror.
    async fn discard(&self, mirror: &PhaseRecord) -> Result<(), Error> {
        let mirror = self.free(mirror).await?;
        if !mirror.deleting {
            self.delete_mirror(&mirror).await?;
        }
        Ok(())
    }

    /// Removes the finalizers of a mirror.
    async fn free(&self, mirror: &PhaseRecord) -> Result<PhaseRecord, Error> {
        if mirror.finalizers.is_empty() {
            return Ok(mirror.clone());
        }
        let free = self.shared.api.set_finalizers(mirror, Vec::new()).await;
        let free = free.at_step(MIRROR)?;
        self.observed.phases.updated(free.clone(), Self::NAME);
        Ok(free)
    }

    async fn delete_mirror(&self, mirror: &PhaseRecord) -> Result<(), Error> {
        let api = &self.shared.api;
        let deleted = api.delete_phase(&mirror.key, &mirror.uid, mirror.resource_version);
        deleted.await.at_step(MIRROR)
    }
}

/// The message for a phase that cannot be handed to an agent, with the remedy.
fn not_handed(cluster: &str, cause: &str) -> String {
    format!(
        "The phase cannot be handed to the agent of Cluster \"{cluster}\": {cause}; run `baton cluster join {cluster} \
         --pull` to set the agent up."
    )
}

/// True if the agent has deleted all objects.
fn is_done(mirror: &PhaseRecord) -> bool {
    mirror.deleting
        && mirror
            .status()
            .is_ok_and(|status| mirror::is_archived(&status))
}
