//! The status of a `CapacityTarget`.

use std::collections::{BTreeMap, BTreeSet};

use baton_apis::{CapacityTarget, CapacityTargetStatus, ClusterCapacityStatus};

use super::{
    Clusters, Update, Updated,
    reasons::{Failure, Kind},
};
use crate::capacity::Plan;

/// The outcome in a cluster: the plan that was carried out, or the failure.
pub type CapacityOutcome = Result<Plan, Failure>;

/// The status of a target after a pass over all clusters. Unknown values of a cluster keep their
/// last state.
pub fn capacity(
    target: &CapacityTarget,
    outcomes: &BTreeMap<String, CapacityOutcome>,
    update: Update,
) -> Updated<CapacityTargetStatus> {
    let previous = target.status.clone().unwrap_or_default();
    let unwanted = target.spec.clusters.iter().filter(|it| it.percent == 0);
    let mut clusters =
        Clusters::new(Kind::Capacity, update).with_unwanted(unwanted.map(|it| &it.name));
    let untried = Err(Failure::untried());
    let names: BTreeSet<_> = target
        .spec
        .clusters
        .iter()
        .map(|cluster| &cluster.name)
        .collect();
    let reported = previous.clusters.iter().rev();
    let reported: BTreeMap<_, _> = reported.map(|status| (&*status.name, status)).collect();
    let statuses = names.into_iter().map(|name| {
        let status = reported.get(name.as_str()).copied();
        let mut status = status.cloned().unwrap_or_default();
        let outcome = outcomes.get(name).unwrap_or(&untried);
        let verdict = outcome.as_ref().map(|plan| plan.verdict.condition());
        let (conditions, summary) = clusters.set(name, &status.conditions, verdict);
        if let Ok(plan) = outcome {
            status.available_replicas = plan.available;
            status.achieved_percent = plan.achieved_percent;
            status.scaled_to = plan.scaled_to;
            status.sad_pods.clone_from(&plan.sad_pods);
            status.reports.clone_from(&plan.reports);
        }
        ClusterCapacityStatus {
            name: name.clone(),
            status: summary.status.to_owned(),
            message: summary.message,
            conditions,
            ..status
        }
    });
    let statuses = statuses.collect();
    let (conditions, events) = clusters.finish(&previous.conditions);
    Updated {
        status: CapacityTargetStatus {
            observed_generation: target.metadata.generation,
            clusters: statuses,
            conditions,
        },
        events,
    }
}
