//! The status of a `TrafficTarget`.

use std::collections::{BTreeMap, BTreeSet};

use baton_apis::{ClusterTrafficStatus, TrafficTarget, TrafficTargetStatus, conditions::Reason};

use super::{
    Clusters, Update, Updated, inoperative,
    reasons::{Failure, Kind},
};
use crate::traffic::Plan;

/// The outcome in a cluster: the plan that was carried out, or the failure.
pub type TrafficOutcome = Result<Plan, Failure>;

/// The status of a target after a pass over all clusters. Unknown values of a cluster keep their
/// last state.
pub fn traffic(
    target: &TrafficTarget,
    outcomes: &BTreeMap<String, TrafficOutcome>,
    update: Update,
) -> Updated<TrafficTargetStatus> {
    let previous = target.status.clone().unwrap_or_default();
    let unwanted = target.spec.clusters.iter().filter(|it| it.weight == 0);
    let mut clusters =
        Clusters::new(Kind::Traffic, update).with_unwanted(unwanted.map(|it| &it.name));
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
        let status = status.cloned().unwrap_or_default();
        let outcome = outcomes.get(name).unwrap_or(&untried);
        let said = outcome.as_ref().map(|plan| plan.verdict.condition());
        let verdict = said
            .as_ref()
            .map(|(ready, reason, message)| (*ready, *reason, message.as_str()));
        let (conditions, summary) = clusters.set(
            name,
            &status.conditions,
            verdict.map_err(|failure| *failure),
        );
        ClusterTrafficStatus {
            name: name.clone(),
            achieved_traffic: outcome
                .as_ref()
                .map_or(status.achieved_traffic, |plan| plan.achieved),
            status: summary.status.to_owned(),
            message: summary.message,
            conditions,
        }
    });
    let statuses = statuses.collect();
    let (conditions, events) = clusters.finish(&previous.conditions);
    Updated {
        status: TrafficTargetStatus {
            observed_generation: target.metadata.generation,
            clusters: statuses,
            conditions,
        },
        events,
    }
}

/// The status of a target whose weights are unknown. `message` is the reason. No cluster was
/// checked, so the spec counts as not observed, and a strategy does not continue.
pub fn traffic_unknown(
    target: &TrafficTarget,
    message: &str,
    update: Update,
) -> Updated<TrafficTargetStatus> {
    let previous = target.status.clone().unwrap_or_default();
    let (conditions, events) = inoperative(
        Kind::Traffic,
        &previous.conditions,
        Reason::InternalError,
        message,
        update.now,
    );
    Updated {
        status: TrafficTargetStatus {
            conditions,
            ..previous
        },
        events,
    }
}
