//! The status of an `InstallationTarget`.

use std::collections::{BTreeMap, BTreeSet};

use baton_apis::{
    ClusterInstallationStatus, InstallationTarget, InstallationTargetStatus, conditions::Reason,
};

use super::{
    Clusters, Update, Updated, inoperative,
    reasons::{Failure, Kind},
};

/// The outcome in a cluster: the progress, or the failure.
pub type InstallationOutcome = Result<Progress, Failure>;

/// The progress in a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// All objects are installed.
    Installed,
    /// The objects are being installed. Contains the message about the missing state; may be empty.
    InProgress(String),
}

/// The status of a target whose chart was rendered, with the outcome in each cluster.
///
/// If the chart was not rendered, `outcomes` is the reason. Then nothing is sent to clusters, and
/// their part of the status stays unchanged.
pub fn installation(
    target: &InstallationTarget,
    outcomes: Result<&BTreeMap<String, InstallationOutcome>, &str>,
    update: Update,
) -> Updated<InstallationTargetStatus> {
    let previous = target.status.clone().unwrap_or_default();
    let outcomes = match outcomes {
        Ok(outcomes) => outcomes,
        Err(message) => {
            let (conditions, events) = inoperative(
                Kind::Installation,
                &previous.conditions,
                Reason::ChartError,
                message,
                update.now,
            );
            let status = InstallationTargetStatus {
                conditions,
                ..previous
            };
            return Updated { status, events };
        }
    };
    let mut clusters = Clusters::new(Kind::Installation, update);
    let untried = Err(Failure::untried());
    let names: BTreeSet<_> = target.spec.clusters.iter().collect();
    let reported = previous.clusters.iter().rev();
    let reported: BTreeMap<_, _> = reported.map(|status| (&*status.name, status)).collect();
    let statuses = names.into_iter().map(|name| {
        let status = reported.get(name.as_str()).copied();
        let status = status.cloned().unwrap_or_default();
        let outcome = outcomes.get(name).unwrap_or(&untried);
        let verdict = outcome.as_ref().map(|progress| match progress {
            Progress::Installed => (true, None, ""),
            Progress::InProgress(message) => (false, Some(Reason::InProgress), message.as_str()),
        });
        let (conditions, summary) = clusters.set(name, &status.conditions, verdict);
        ClusterInstallationStatus {
            name: name.clone(),
            status: summary.status.to_owned(),
            message: summary.message,
            conditions,
        }
    });
    let statuses = statuses.collect();
    let (conditions, events) = clusters.finish(&previous.conditions);
    Updated {
        status: InstallationTargetStatus {
            clusters: statuses,
            conditions,
        },
        events,
    }
}
