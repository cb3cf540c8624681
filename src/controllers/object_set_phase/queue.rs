//! Phases of sites, which have to wait for their turn.

use std::sync::Arc;

use baton_apis::ObjectSetPhaseStatus;
use baton_engine::conditions::Requeue;
use baton_fleet::mirror::{Origin, QueuePosition};
use baton_records::phase::PhaseRecord;
use baton_runtime::{
    controller::{Controller as _, Reconciled},
    outcomes::ReconcileOutcome,
};
use baton_sites::{
    gate::{ActiveRevision, PhaseStart},
    terms::Terms,
    uptime::Uptime,
};

use super::ObjectSetPhases;
use crate::delivery::{
    gate::{self, Gated, NoteBegun, Times, not_handed_yet},
    shared::{AtStep as _, Error},
    site_chain::{chain, has_site, is_named, is_refused, state},
};

impl NoteBegun for ObjectSetPhases {
    async fn report_waiting(
        &self,
        record: &PhaseRecord,
        status: ObjectSetPhaseStatus,
        held: Reconciled,
    ) -> Result<Reconciled, Error> {
        let old = record.status()?;
        self.write(record, &old, status, held).await
    }

    async fn report_begun(
        &self,
        record: Arc<PhaseRecord>,
        status: ObjectSetPhaseStatus,
    ) -> Result<Option<Arc<PhaseRecord>>, Error> {
        // Without the finalizer the deletion of the phase would not wait.
        let record = self.set_up(record).await?;
        let updated = self.shared.api.set_status(&record, &status).await;
        let updated = updated.at_step("storing that the phase has begun")?;
        self.observed.phases.updated(updated.clone(), Self::NAME);
        Ok(Some(Arc::new(updated)))
    }
}

impl ObjectSetPhases {
    /// Decides if a phase may write now. Returns the input of its pass, or the result of the
    /// reconcile if the phase has to wait.
    pub(super) async fn gate(&self, record: Arc<PhaseRecord>) -> Result<Gated, Error> {
        let cluster = record.cluster().unwrap_or_default();
        let times = Times {
            now: self.shared.clock.now(),
            uptime: self.uptime(cluster),
        };
        let ask = |record: &PhaseRecord| {
            let terms = |_: &_| self.terms(record);
            gate::ask(&self.observed, record, terms, times)
        };
        gate::pass(record, ask, self).await
    }

    /// The times since which a site can be reached. A site that is not reached now gets its whole
    /// deadline again.
    fn uptime(&self, cluster: &str) -> Uptime {
        let now = self.shared.clock.now();
        let uptime = self.inventory.uptime(cluster);
        uptime.unwrap_or_else(|| Uptime::since(now))
    }

    /// The terms for upgrades of a phase.
    fn terms(&self, record: &PhaseRecord) -> Terms {
        let entry = record
            .annotations
            .get(baton_apis::constants::ANNOTATION_SITE);
        let entry = entry.and_then(|text| serde_json::from_str(text).ok());
        let revision = record.controller.as_ref();
        let revision = revision.and_then(|uid| self.observed.revisions.by_uid(uid));
        let owner = revision.as_ref().and_then(|it| it.controller.as_deref());
        let terms = &self.observed.site_terms;
        let owner = entry.map(|entry| terms.of(&record.key.namespace, &entry, owner));
        let windows = record
            .cluster()
            .map(|cluster| self.inventory.upgrade_windows(cluster));
        Terms {
            owner: owner.unwrap_or_default(),
            site_windows: windows.unwrap_or_default().to_vec(),
        }
    }

    /// The position of a phase in the chain of its site, with its terms, for the agent; `None` if
    /// the phase has no site. `mirror` is its mirror.
    pub(super) fn queue_position(
        &self,
        record: &PhaseRecord,
        mirror: Option<&PhaseRecord>,
    ) -> Option<QueuePosition> {
        if !has_site(record) {
            return None;
        }
        let has_begun = matches!(state(record).begun, PhaseStart::Yes(_));
        let origin = mirror.and_then(|mirror| Origin::read(mirror).ok());
        match origin.and_then(|origin| origin.queue_position().cloned()) {
            // The terms do not matter any more.
            Some(reported) if has_begun => Some(reported),
            reported => {
                let is_reported = reported.map_or(has_begun, |reported| reported.has_begun());
                QueuePosition::of(record, self.terms(record), is_reported)
            }
        }
    }

    /// The first earlier revision whose phases are not all handed to the agent of a cluster.
    ///
    /// Agents rely on having everything that comes before a phase. A refused revision without
    /// phases is skipped: it may never have any.
    fn not_handed_before(&self, record: &PhaseRecord, cluster: &str) -> Option<ActiveRevision> {
        let chain = chain(&self.observed, record);
        let older = chain.into_iter();
        let mut older = older.take_while(|it| Some(&it.uid) != record.controller.as_ref());
        older.find(|member| {
            let revision = self.observed.revisions.by_uid(&member.uid);
            let phases = revision
                .as_ref()
                .map(|revision| self.observed.phases.controlled_by(revision));
            let phases = phases.unwrap_or_default();
            let is_nothing = phases.is_empty() && revision.is_some_and(|it| is_refused(&it));
            let is_handed = |name: &String| {
                let phase = phases.iter().find(|phase| is_named(phase, member, name));
                phase.is_some_and(|phase| {
                    phase.cluster() != Some(cluster) || self.mirror_of(phase, cluster).is_some()
                })
            };
            !member.is_leaving && !is_nothing && !member.entry.phases.iter().all(is_handed)
        })
    }

    /// Reports that a phase cannot be handed to an agent yet, if an earlier revision has to be
    /// handed over first.
    pub(super) async fn out_of_turn(
        &self,
        record: &PhaseRecord,
        cluster: &str,
    ) -> Result<Option<Reconciled>, Error> {
        if !has_site(record) || self.mirror_of(record, cluster).is_some() {
            return Ok(None);
        }
        let Some(before) = self.not_handed_before(record, cluster) else {
            return Ok(None);
        };
        let result = (ReconcileOutcome::Waiting, Requeue::OnEvent);
        let old = record.status()?;
        let status = not_handed_yet(record, &before, self.shared.clock.now())?;
        self.write(record, &old, status, result).await.map(Some)
    }
}
