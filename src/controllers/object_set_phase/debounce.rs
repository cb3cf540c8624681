//! Statuses of phases that the next event is likely to change.

use std::time::Duration;

use baton_apis::ObjectSetPhaseStatus;
use baton_engine::conditions::phase_only_loses_objects;
use baton_records::{phase::PhaseRecord, siblings::CachedSiblings};
use baton_typed::debounce::at_most;

use super::ObjectSetPhases;
use crate::delivery::site_chain::has_site;

impl ObjectSetPhases {
    /// The time for which a status may still be debounced; `None` if it has to be written.
    ///
    /// The revision of a phase of a site that loses its objects to the next version is archived as soon
    /// as that version is available. A user cannot act on the statuses in between.
    pub(super) fn debounce(
        &self,
        record: &PhaseRecord,
        old: &ObjectSetPhaseStatus,
        status: &ObjectSetPhaseStatus,
    ) -> Option<Duration> {
        if !has_site(record) || !phase_only_loses_objects(old, status) {
            return None;
        }
        let revision = record.controller.as_ref();
        let revision = revision.and_then(|uid| self.observed.revisions.by_uid(uid))?;
        // The objects that this phase has lost show which ones a paused revision has taken over.
        if CachedSiblings::of_set(&revision, self.observed.stores()).has_paused_newer() {
            return None;
        }
        let (key, uid) = (&record.key, &record.uid);
        let now = self.shared.clock.instant();
        self.debounced.rest(key, uid, None, at_most(true), now)
    }
}
