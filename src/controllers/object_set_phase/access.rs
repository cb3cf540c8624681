//! Decides if the namespace of a phase may deliver into its cluster (see
//! [`baton_fleet::assignments`]).

use baton_apis::{conditions::Reason, constants::FINALIZER_CACHED};
use baton_engine::{conditions::Requeue, revision::Reach};
use baton_fleet::assignments::{Decision, Subject};
use baton_records::phase::PhaseRecord;
use baton_runtime::{controller::Reconciled, outcomes::ReconcileOutcome};

use super::{ObjectSetPhases, Route};
use crate::delivery::shared::Error;

impl ObjectSetPhases {
    /// The decision on the objects of a phase. A phase that is being deleted may always delete the
    /// objects that it owns.
    pub(super) fn access(&self, record: &PhaseRecord, route: &Route<'_>) -> Decision {
        let cluster = match route {
            Route::Elsewhere | Route::Here | Route::Connecting | Route::Stray => None,
            Route::Remote(..) | Route::Unreachable(_) | Route::Agent(..) => record.cluster(),
        };
        match cluster {
            Some(cluster) if !record.key.namespace.is_empty() && !record.deleting => {
                let subject = Subject {
                    name: cluster,
                    labels: &self.inventory.labels(cluster),
                };
                self.assignments.decide(&record.key.namespace, subject)
            }
            _ => Decision::Allowed(Reach::default()),
        }
    }

    /// Reports that a phase may not be delivered, and leaves what was delivered before as it is.
    pub(super) async fn refuse(
        &self,
        record: &PhaseRecord,
        route: &Route<'_>,
        message: &str,
    ) -> Result<Reconciled, Error> {
        let text = left_as_it_is(record, message);
        let reason = ("False", Reason::PreflightError);
        let result = (ReconcileOutcome::Blocked, Requeue::OnEvent);
        let written = self.report_unknown(record, reason, &text, result).await?;
        if let Route::Agent(cluster, _) = route {
            self.freeze(record, cluster).await?;
        }
        Ok(written)
    }

    /// Reports that the assignments cannot be read, and leaves everything as it is: an agent
    /// continues with its last orders. The phase is woken once they can be read.
    pub(super) async fn undecided(
        &self,
        record: &PhaseRecord,
        message: &str,
    ) -> Result<Reconciled, Error> {
        let text = left_as_it_is(record, &format!("{message}."));
        let reason = ("Unknown", Reason::ListFailed);
        let result = (ReconcileOutcome::Waiting, Requeue::OnEvent);
        self.report_unknown(record, reason, &text, result).await
    }
}

fn left_as_it_is(record: &PhaseRecord, message: &str) -> String {
    // Without the finalizer nothing was ever delivered.
    if record.has_finalizer(FINALIZER_CACHED) {
        format!("{message} What was delivered before is left as it is.")
    } else {
        message.to_owned()
    }
}
