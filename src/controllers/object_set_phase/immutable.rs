//! What of a phase object nobody may change: its class, and its manifests. A changed one is told, and nothing is
//! written.

use baton_apis::conditions::reasons;
use baton_engine::conditions::Requeue;
use baton_records::phase::PhaseRecord;
use baton_runtime::{controller::Reconciled, outcomes::ReconcileOutcome};

use super::ObjectSetPhases;
use crate::delivery::shared::Error;

/// Why a phase whose label names another class than the one that delivers it is left as it is.
pub(super) fn changed_class(record: &PhaseRecord) -> Option<String> {
    let class = record.pinned_class().filter(|_| !record.deleting)?;
    let labelled = record.labelled_class();
    (class != labelled).then(|| {
        format!(
            "The class is immutable: the label names \"{labelled}\", and the objects are delivered by \"{class}\". \
             Nothing is written until the label names that again."
        )
    })
}

impl ObjectSetPhases {
    /// Reports that nothing is written for a phase since somebody has changed what is immutable.
    pub(super) async fn refuse_change(
        &self,
        record: &PhaseRecord,
        message: &str,
    ) -> Result<Reconciled, Error> {
        let reason = ("False", reasons::SPEC_CHANGED);
        let result = (ReconcileOutcome::Blocked, Requeue::OnEvent);
        self.report_unknown(record, reason, message, result).await
    }
}
