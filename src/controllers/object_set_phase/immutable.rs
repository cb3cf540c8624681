//! The immutable fields of a phase object: its class and its manifests. A change of them is
//! reported, and nothing is written.

use baton_apis::conditions::Reason;
use baton_engine::conditions::Requeue;
use baton_records::phase::PhaseRecord;
use baton_runtime::{controller::Reconciled, outcomes::ReconcileOutcome};

use super::ObjectSetPhases;
use crate::delivery::shared::Error;

/// The reason that a phase is left as it is if its label names another class than the one that
/// delivers it.
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
    /// Reports that nothing is written for a phase because an immutable field was changed.
    pub(super) async fn refuse_change(
        &self,
        record: &PhaseRecord,
        message: &str,
    ) -> Result<Reconciled, Error> {
        let reason = ("False", Reason::SpecChanged);
        let result = (ReconcileOutcome::Blocked, Requeue::OnEvent);
        self.report_unknown(record, reason, message, result).await
    }
}
