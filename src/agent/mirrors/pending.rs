//! The statuses that are not reported to the hub yet.

use std::sync::Arc;

use baton_apis::ObjectSetPhaseStatus;
use baton_fleet::mirror;
use baton_records::phase::{PhaseKey, PhaseRecord};

use super::Mirrors;

impl Mirrors {
    /// Resolves when a phase has become pending since the last call.
    pub(crate) async fn became_pending(&self) {
        self.became_pending.notified().await;
    }

    /// The phases whose current status may not be reported yet.
    pub(crate) fn pending(&self) -> Vec<PhaseKey> {
        self.pending.lock().iter().cloned().collect()
    }

    pub(super) fn add_pending(&self, key: PhaseKey) {
        self.pending.lock().insert(key);
        self.became_pending.notify_one();
    }

    /// The mirror and the status to be written for a phase; `None` if the hub has the status.
    pub(crate) fn unreported(
        &self,
        key: &PhaseKey,
    ) -> Option<(Arc<PhaseRecord>, ObjectSetPhaseStatus)> {
        // A status recorded from here on is pending again.
        self.pending.lock().remove(key);
        if let Some(rollout) = self.unreported_rollout(key) {
            return Some(rollout);
        }
        let phase = self.observed.phases.get(key)?;
        let mirror = self.items.get(&mirror::key(&self.cluster, &phase))?;
        let status = phase.status().ok()?;
        (mirror.status().ok().as_ref() != Some(&status)).then_some((mirror, status))
    }

    /// Marks a phase as pending again after its status could not be reported.
    pub(crate) fn still_pending(&self, key: PhaseKey) {
        self.pending.lock().insert(key);
    }
}
