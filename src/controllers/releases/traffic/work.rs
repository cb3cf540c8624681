//! The traffic of a Release in one cluster.

use std::collections::BTreeMap;

use baton_releases::{
    targets::{
        TrafficOutcome,
        reasons::{Cause, Failure},
    },
    texts::Quoted,
    traffic::{Plan, Weights, plan, selector},
};
use futures::{StreamExt as _, stream};

use super::balancer::Balancer;
use crate::controllers::releases::{
    app_clusters::{cluster::AppCluster, requests::RequestError},
    pass_outcome::PassOutcome,
};

/// Number of pods of one Release that are relabelled concurrently.
const MAX_CONCURRENT: usize = 16;

/// Gives the pods of a Release their share of the traffic. The Release is given by namespace,
/// application and name; `weights` are those of all Releases of the application in the cluster.
pub(crate) async fn divide_traffic(
    cluster: &AppCluster,
    (namespace, application, release): (&str, &str, &str),
    weights: &Weights,
    done: &mut PassOutcome,
) -> TrafficOutcome {
    let balancer = Balancer::find(cluster, namespace, application).await?;
    let plan = balancer.decide(weights, |view| plan(release, view));
    shift(cluster, &balancer, &plan, done).await?;
    // Based on the pods after the change of labels.
    let (wanted, present) = balancer.decide(weights, |view| {
        (selector::wanted(view), view.selector.clone())
    });
    let is_in_charge = selector::in_charge(weights, &present, &wanted) == Some(release);
    if wanted != present && is_in_charge {
        match balancer.select(cluster, &wanted).await {
            Ok(()) => done.add(PassOutcome::Written),
            Err(RequestError::Changed) => done.add(PassOutcome::Outdated),
            Err(RequestError::Failed(message)) => {
                let message = format!(
                    "cannot change the selector of Service {}: {message}",
                    Quoted(balancer.name())
                );
                return Err(Failure::new(Cause::Write, message));
            }
        }
    }
    Ok(plan)
}

/// Writes the wanted labels of pods.
async fn shift(
    cluster: &AppCluster,
    balancer: &Balancer,
    plan: &Plan,
    done: &mut PassOutcome,
) -> Result<(), Failure> {
    let labels = [(&plan.enable, true), (&plan.disable, false)];
    let requests = labels.into_iter().flat_map(|(names, enable)| {
        let names = names.iter().cloned();
        names.map(move |name| async move {
            let answer = balancer.set_traffic(cluster, &name, enable).await;
            (name, answer)
        })
    });
    let requests: Vec<_> = requests.collect();
    let mut requests = stream::iter(requests).buffer_unordered(MAX_CONCURRENT);
    let mut failures = BTreeMap::new();
    while let Some((name, answer)) = requests.next().await {
        match answer {
            Ok(()) => done.add(PassOutcome::Written),
            Err(RequestError::Changed) => done.add(PassOutcome::Outdated),
            Err(RequestError::Failed(message)) => {
                failures.insert(name, message);
            }
        }
    }
    // Reports the failure of the first pod by name, so that the message is stable while the failure
    // lasts.
    failures
        .into_iter()
        .next()
        .map_or(Ok(()), |(name, message)| {
            let message = format!(
                "cannot change the labels of pod {}: {message}",
                Quoted(&name)
            );
            Err(Failure::new(Cause::Write, message))
        })
}
