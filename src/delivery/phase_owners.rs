//! Delegated phases as owners of objects, for the controllers of the manager and of an agent.

use std::{sync::Arc, time::Instant};

use baton_engine::{ObjectKey, conditions::Requeue, revision::Delivery};
use baton_kubernetes::target::TargetEvent;
use baton_records::phase::{PhaseKey, PhaseKind, PhaseRecord};
use baton_runtime::{controller::Reconciled, outcomes::ReconcileOutcome, source::Wake};

use super::{
    heirs::phase_heir,
    observed::Observed,
    owners::{Owners, Targets},
    strays::{OwnerServer, Strays},
};

/// The phases with objects, and those with strays.
pub(crate) struct PhaseOwners {
    pub owners: Owners<PhaseKind>,
    strays: Strays<PhaseKind>,
}

impl PhaseOwners {
    pub(crate) fn new(targets: Targets) -> Self {
        Self {
            owners: Owners::new(targets),
            strays: Strays::default(),
        }
    }

    /// Trigger: a change in a cluster wakes the phases that it affects; a stray wakes the key of
    /// its ended owner.
    pub(crate) fn on_child(
        &self,
        observed: &Observed,
        event: &TargetEvent,
        now: Instant,
    ) -> Vec<Wake<PhaseKey>> {
        let owner = |uid: &str| Some(observed.phases.by_uid(uid)?.key.clone());
        let mut wakes = self.owners.on_child(event, owner);
        let ended = |uid: &str| Some(observed.ended_phases.get(uid, &observed.phases, now)?.key);
        let targets = || self.owners.targets.all();
        wakes.extend(self.strays.on_child(event, targets, ended));
        wakes
    }

    /// Deletes the strays of all phases that had this key. Returns the result of a pass if there is
    /// no such phase now.
    pub(crate) async fn take_strays_away(
        &self,
        key: &PhaseKey,
        observed: &Observed,
        now: Instant,
        server: OwnerServer<'_, PhaseKind>,
    ) -> Reconciled {
        let stray_cluster = |uid: &str| {
            let ended = observed.ended_phases.get(uid, &observed.phases, now)?;
            Some(ended.stray_cluster(&self.owners.targets))
        };
        // An object of a backup that a site was restored from is not deleted and created again.
        let is_wanted = |uid: &str, object: &ObjectKey| {
            let ended = observed.ended_phases.get(uid, &observed.phases, now);
            ended.is_some_and(|ended| {
                let (namespace, cluster) = (&ended.key.namespace, ended.cluster.as_deref());
                let there = observed.phases.filter(|phase| {
                    !phase.deleting
                        && phase.key.namespace == *namespace
                        && phase.cluster() == cluster
                });
                let heirs = there
                    .iter()
                    .flat_map(|phase| phase_heir(phase, Delivery::Remote));
                heirs.into_iter().any(|heir| heir.wants.contains(object))
            })
        };
        let taken = self.strays.take_away(key, stray_cluster, server, is_wanted);
        if taken.await {
            (ReconcileOutcome::Gone, Requeue::OnEvent)
        } else {
            (ReconcileOutcome::Failed, Requeue::Backoff)
        }
    }

    /// The phase of a key, if it exists. The state of a deleted phase is dropped.
    pub(crate) fn phase(&self, key: &PhaseKey, observed: &Observed) -> Option<Arc<PhaseRecord>> {
        let phase = observed.phases.get(key);
        if phase.is_none() {
            self.owners.forget(key);
        }
        phase
    }
}
