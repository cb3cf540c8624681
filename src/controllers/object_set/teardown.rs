//! The teardown of a revision: its objects are deleted first, then its finalizers removed.

use std::sync::Arc;

use baton_apis::{
    ObjectSetStatus, RemotePhaseReference,
    conditions::Reason,
    constants::{FINALIZER_CACHED, FINALIZER_METRICS},
};
use baton_engine::{
    conditions::{Requeue, report_archival, report_deletion, report_refusal},
    delegated::{name_to_make, names},
    teardown::{TeardownOutcome, reported_writes},
};
use baton_records::revision::RevisionRecord;
use baton_runtime::{controller::Reconciled, outcomes::ReconcileOutcome};
use serde::Deserialize;

use super::{ObjectSets, load::Loaded};
use crate::delivery::{
    containers::newer_wants,
    heirs::heirs_here,
    shared::{AtStep as _, Error},
    strays::{OwnerServer, StrayCluster},
};

impl ObjectSets {
    /// Deletes the objects of a revision, for archival or deletion.
    pub(super) async fn tear_down(
        &self,
        record: &Arc<RevisionRecord>,
        failures: u32,
    ) -> Result<Reconciled, Error> {
        let (status, now) = (self.status(record)?, self.shared.clock.now());
        let was_set_up = record.has_finalizer(FINALIZER_CACHED);
        let Loaded {
            account,
            mut revision,
            phases,
            refusal,
            ..
        } = self.load(record, &status).await?;
        let api = &self.shared.api;
        revision.heirs = heirs_here(&self.observed, api, record).await?;
        revision.written =
            reported_writes(&status.conditions, &status.controller_of, &status.ended);
        let newer_wants = newer_wants(&self.observed, api, record, "", &phases);
        revision.newer_wants = newer_wants.await?;
        let outcome = if !was_set_up && status.controller_of.is_empty() {
            // The revision has never written anything.
            TeardownOutcome::Done
        } else if let Some(texts) = refusal.and_then(|refusal| refusal.missing_slices)
            && !record.deleting
            && may_have_written(&status)
        {
            // The other objects to delete are unknown without the slice. If the revision itself is
            // deleted, garbage collection follows the owner references.
            let reason = Reason::PreflightError;
            let report = report_refusal(&status, &revision, reason, &texts, now);
            let outcome = ReconcileOutcome::Blocked;
            return self.report(record, &status, report, outcome).await;
        } else {
            self.executor(record, account, failures)
                .take_away(&revision, &phases, &self.observed.handed_back)
                .await
        };
        let kind = match &outcome {
            TeardownOutcome::Done => ReconcileOutcome::Unchanged,
            TeardownOutcome::Waiting(_) => ReconcileOutcome::Waiting,
            TeardownOutcome::Failed(_) => ReconcileOutcome::Failed,
        };
        let is_done = outcome == TeardownOutcome::Done;
        if is_done {
            self.release(record);
        }
        if record.deleting {
            if is_done {
                return self.retire(record).await;
            }
            let report = report_deletion(&status, outcome);
            return self.report(record, &status, report, kind).await;
        }
        let report = report_archival(&status, &revision, outcome, now);
        if !is_done || !was_set_up {
            return self.report(record, &status, report, kind).await;
        }
        // This order is safe: a crash in between leaves a revision without finalizer that is to be
        // archived, and the next pass archives it at once.
        let updated = self.without_finalizers(record, &[FINALIZER_CACHED]).await?;
        let reported = self.report(&updated, &status, report, kind).await?;
        self.take_strays_away(record, reported).await
    }

    /// Removes the finalizers of a revision that has no objects to tear down: it is archived
    /// already, or is deleted with the `orphan` policy.
    pub(super) async fn retire(&self, record: &Arc<RevisionRecord>) -> Result<Reconciled, Error> {
        self.release(record);
        if record.deleting {
            self.without_finalizers(record, &[FINALIZER_CACHED, FINALIZER_METRICS])
                .await?;
        } else {
            let record = self.without_finalizers(record, &[FINALIZER_CACHED]).await?;
            if record.is_wiped {
                return self.report_archived_again(&record).await;
            }
            self.report_series(&record, &record.status()?);
        }
        Ok((ReconcileOutcome::Unchanged, Requeue::OnEvent))
    }

    /// Writes the status of an archived revision again, after another client has removed it. Only
    /// what the store has of such a revision is known.
    async fn report_archived_again(
        &self,
        record: &Arc<RevisionRecord>,
    ) -> Result<Reconciled, Error> {
        let spec: PhasesOfSpec = record.part_of_spec()?;
        let status = ObjectSetStatus {
            remote_phases: spec.remote_phases(&record.key.name, &record.remote_phases),
            ..record.status()?
        };
        let revision = self.revision(record, &status);
        let now = self.shared.clock.now();
        let report = report_archival(&status, &revision, TeardownOutcome::Done, now);
        self.report(record, &status, report, ReconcileOutcome::Changed)
            .await
    }

    /// Deletes strays that an archived revision controls. Returns `reconciled` if none is left.
    pub(super) async fn take_strays_away(
        &self,
        record: &RevisionRecord,
        reconciled: Reconciled,
    ) -> Result<Reconciled, Error> {
        if record.deleting || record.is_abandoned {
            // Garbage collection deletes the strays of a deleted revision, unless the `orphan`
            // policy prevents this. The objects of an abandoned revision stay.
            return Ok(reconciled);
        }
        for phase in self.observed.phases.controlled_by(record) {
            if !phase.deleting {
                let api = &self.shared.api;
                let deleted = api.delete_phase(&phase.key, &phase.uid, phase.resource_version);
                deleted
                    .await
                    .at_step("deleting a phase that was created late")?;
            }
        }
        let account = record.service_account.as_deref();
        let account = self.shared.account(&record.key.namespace, account);
        let stray_cluster = |uid: &str| {
            let stray_cluster = || StrayCluster {
                target: Some(self.owners.targets.home.clone()),
                account: account.clone(),
            };
            (*uid == *record.uid).then(stray_cluster)
        };
        let server = OwnerServer {
            api: &self.shared.api,
            at: &|_| Some(record.key.clone()),
            says_ended: |live, uid| *live.uid != *uid || live.archived,
        };
        if self
            .strays
            .take_away(&record.key, stray_cluster, server, |_, _| false)
            .await
        {
            return Ok(reconciled);
        }
        Ok((ReconcileOutcome::Failed, Requeue::Backoff))
    }

    async fn without_finalizers(
        &self,
        record: &Arc<RevisionRecord>,
        finalizers: &[&str],
    ) -> Result<Arc<RevisionRecord>, Error> {
        let mut left = record.finalizers.clone();
        left.retain(|finalizer| !finalizers.contains(&finalizer.as_str()));
        if left.len() == record.finalizers.len() {
            return Ok(record.clone());
        }
        let updated = self.shared.api.set_finalizers(record, left).await;
        Ok(self.updated(updated.at_step("releasing finalizers")?))
    }

    /// Ends the watches of a revision without objects, and drops its slices from the store.
    fn release(&self, record: &RevisionRecord) {
        self.observed.drop_slices(record);
        self.owners.forget(&record.key);
    }
}

/// The phases of a spec, without their manifests.
#[derive(Default, Deserialize)]
#[serde(default)]
struct PhasesOfSpec {
    phases: Vec<PhaseOfSpec>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PhaseOfSpec {
    name: String,
    class: String,
}

impl PhasesOfSpec {
    /// The references to the delegated phases of a revision, from their UIDs. Phases are referenced
    /// in the order of the spec, as each one waits for the phases before it.
    fn remote_phases(&self, revision: &str, uids: &[String]) -> Vec<RemotePhaseReference> {
        let delegated = self.phases.iter().filter(|phase| !phase.class.is_empty());
        let reference = |(phase, uid): (&PhaseOfSpec, &String)| RemotePhaseReference {
            name: name_to_make(&names(revision, &phase.name), true).to_owned(),
            uid: uid.clone(),
        };
        delegated.zip(uids).map(reference).collect()
    }
}

/// True if a revision can have written an object. The content hash is stored by the first pass that
/// finds all slices, which is also the first pass that writes.
fn may_have_written(status: &ObjectSetStatus) -> bool {
    status.content_hash.is_some() || !status.controller_of.is_empty()
}
