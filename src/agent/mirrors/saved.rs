//! The mirrors that are stored on disk.

use std::sync::Arc;

use baton_apis::ObjectSetPhaseStatus;
use baton_fleet::mirror::Origin;
use baton_records::phase::PhaseRecord;
use baton_sites::gate::PhaseState;
use tracing::error;

use super::{Change, Mirrors, rollouts::is_rollout};
use crate::delivery::site_chain;

/// A mirror that is stored on disk.
#[derive(Clone, Debug)]
pub(crate) struct SavedMirror {
    /// The mirror as the hub last sent it.
    pub mirror: Arc<PhaseRecord>,
    /// The status that the agent has recorded, if the hub does not have it.
    pub noted: Option<ObjectSetPhaseStatus>,
}

impl Mirrors {
    /// All mirrors as they are stored on disk.
    pub(crate) fn saved(&self) -> Vec<SavedMirror> {
        let saved = |mirror: Arc<PhaseRecord>| SavedMirror {
            noted: self.unreported_status(&mirror),
            mirror,
        };
        let mut all: Vec<_> = self.all().into_iter().map(saved).collect();
        all.extend(self.saved_rollouts());
        all
    }

    /// The status of a mirror's phase if the hub does not have it yet.
    fn unreported_status(&self, mirror: &PhaseRecord) -> Option<ObjectSetPhaseStatus> {
        let origin = Origin::read(mirror).ok()?;
        let phase = self.observed.phases.get(&origin.key());
        let phase = phase.filter(|phase| *phase.uid == *origin.uid())?;
        let status = phase.status().ok()?;
        (mirror.status().ok().as_ref() != Some(&status)).then_some(status)
    }

    /// Restores the stored mirrors, unless the hub has sent a list since the start, and the statuses that the hub
    /// does not have.
    pub(crate) fn restore(&self, saved: Vec<SavedMirror>) {
        let is_listed = self.is_listed.lock();
        if !*is_listed {
            let objects = saved.iter().map(|saved| PhaseRecord::clone(&saved.mirror));
            let wakes = self.apply_changes(objects.map(Change::There).collect::<Vec<_>>());
            self.wake(wakes);
        }
        for SavedMirror { mirror, noted } in saved {
            match noted {
                Some(noted) if is_rollout(&mirror) => self.recall_report(&mirror, &noted),
                Some(noted) => self.recall_noted(&mirror, &noted),
                None => {}
            }
        }
    }

    /// Restores a recorded status, unless the hub has stored a newer one.
    ///
    /// A status that differs on the hub may also be older: its write was in progress when `noted` was
    /// recorded. So if `noted` contains the start of the phase, it is restored in any case.
    fn recall_noted(&self, saved: &PhaseRecord, noted: &ObjectSetPhaseStatus) {
        let cached = self.items.get(&saved.key);
        let cached = cached.filter(|cached| cached.uid == saved.uid);
        let phases = &self.observed.phases;
        let found = cached.and_then(|cached| {
            let phase = phases.get(&Origin::read(&cached).ok()?.key())?;
            Some((cached, phase))
        });
        let Some((cached, phase)) = found else { return };
        let noted_state = PhaseState::of(noted, phase.generation);
        let is_latest = noted_state.begun.is_after(site_chain::state(&phase).begun);
        if cached.status_differs(saved) && !is_latest {
            return;
        }
        match self.record_status(&phase, noted) {
            Ok(_) => self.wakes.emit(&phase.key),
            Err(error) => error!(object = %phase.key, %error, "a status cannot be restored"),
        }
    }
}
