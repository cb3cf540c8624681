//! The capacity of a Release in one cluster.

use baton_releases::{
    capacity::{Plan, Scale, plan},
    targets::{
        CapacityOutcome,
        reasons::{Cause, Failure},
    },
};
use futures::future::join_all;

pub(crate) use super::workloads::WantedCapacity;
use super::workloads::{self, FoundWorkload};
use crate::controllers::releases::{
    app_clusters::{cluster::AppCluster, requests::RequestError},
    pass_outcome::PassOutcome,
};

/// Scales the workloads of a Release to a percentage. `scaled_to` is the percentage up to which they
/// were scaled before an autoscaler took over.
pub(crate) async fn set_capacity(
    cluster: &AppCluster,
    wanted: &WantedCapacity,
    (percent, scaled_to): (i32, i32),
    done: &mut PassOutcome,
) -> CapacityOutcome {
    let found = workloads::find(cluster, wanted).await?;
    let parts = found.iter().map(|found| found.part(scaled_to));
    let parts: Vec<_> = parts.collect();
    let plan = plan(percent, &parts);
    scale(cluster, &found, &plan, done).await?;
    Ok(plan)
}

/// Scales the workloads whose number of pods has to change.
async fn scale(
    cluster: &AppCluster,
    found: &[FoundWorkload],
    plan: &Plan,
    done: &mut PassOutcome,
) -> Result<(), Failure> {
    let requests = plan.scale.iter().map(|Scale { index, replicas }| {
        let found = &found[*index];
        async move { (found, found.scale(cluster, *replicas).await) }
    });
    let mut failure = None;
    for (found, answer) in join_all(requests).await {
        match answer {
            Ok(()) => done.add(PassOutcome::Written),
            Err(RequestError::Changed) => done.add(PassOutcome::Outdated),
            Err(RequestError::Failed(message)) => {
                let message = format!("cannot scale {}: {message}", found.title());
                failure = Some(Failure::new(Cause::Write, message));
            }
        }
    }
    failure.map_or(Ok(()), Err)
}
