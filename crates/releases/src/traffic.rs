//! The pods of a Release that get traffic in a cluster.
//!
//! The Service that balances selects pods by a label. The share of a Release in the traffic is the
//! share of its pods among those with the label. So weights are converted to numbers of pods, in
//! integers.

pub mod endpoints;
pub mod label;
pub mod selector;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use baton_apis::{TrafficTarget, conditions::Reason, constants::shipper::LABEL_RELEASE};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::texts::Quoted;
use endpoints::Endpoints;
use selector::Selector;

/// The weights of all Releases of an application in a cluster, by name.
pub type Weights = BTreeMap<String, u32>;

/// The reason that the weights are not known. A retry helps only after a `TrafficTarget` has
/// changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// A target has no label with its Release.
    #[error(
        "TrafficTarget {} needs a {} label in order to select resources in the target clusters",
        Quoted(.target), Quoted(LABEL_RELEASE)
    )]
    NoRelease {
        /// The target, as `namespace/name`.
        target: String,
    },
    /// Several targets are for the same Release.
    #[error("multiple TrafficTargets for the same release {}: [{first} {second}]", Quoted(.release))]
    SameRelease {
        /// The Release, as `namespace/name`.
        release: String,
        /// Name of a target.
        first: String,
        /// Name of another target.
        second: String,
    },
}

/// The weights in all clusters, by the name of the cluster, from all targets of an application. The
/// first weight of a target for a cluster counts.
///
/// # Errors
/// If a target has no Release, or the same Release as another target, even if the target is for
/// other clusters.
pub fn weights<'a>(
    targets: impl IntoIterator<Item = &'a TrafficTarget>,
) -> Result<BTreeMap<String, Weights>, Error> {
    let mut owners = BTreeMap::new();
    for target in targets {
        let namespace = target.metadata.namespace.as_deref().unwrap_or_default();
        let name = target.metadata.name.as_deref().unwrap_or_default();
        let labels = target.metadata.labels.as_ref();
        let release = labels.and_then(|labels| labels.get(LABEL_RELEASE));
        let release = release.ok_or_else(|| Error::NoRelease {
            target: format!("{namespace}/{name}"),
        })?;
        if let Some((other, _)) = owners.insert(release, (name, target)) {
            return Err(Error::SameRelease {
                release: format!("{namespace}/{release}"),
                first: other.min(name).to_owned(),
                second: other.max(name).to_owned(),
            });
        }
    }
    let mut weights: BTreeMap<String, Weights> = BTreeMap::new();
    for (release, (_, target)) in owners {
        for cluster in &target.spec.clusters {
            let in_cluster = weights.entry(cluster.name.clone()).or_default();
            in_cluster.entry(release.clone()).or_insert(cluster.weight);
        }
    }
    Ok(weights)
}

/// A pod of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pod<'a> {
    /// Name of the pod.
    pub name: &'a str,
    /// Release of the pod.
    pub release: &'a str,
    /// True if the label of the pod enables traffic.
    pub enabled: bool,
}

/// The state of an application in a cluster.
#[derive(Clone, Copy, Debug)]
pub struct Cluster<'a> {
    /// The weights of all Releases.
    pub weights: &'a Weights,
    /// All pods of the application.
    pub pods: &'a [Pod<'a>],
    /// The addresses of the Service that balances.
    pub endpoints: &'a Endpoints,
    /// The selector of that Service.
    pub selector: &'a Selector,
}

/// The decision about the traffic of a Release in a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Plan {
    /// Pods that should get traffic, sorted. Not part of a report.
    #[serde(skip)]
    pub enable: Vec<String>,
    /// Pods that should get no traffic, sorted. Not part of a report.
    #[serde(skip)]
    pub disable: Vec<String>,
    /// Share of the traffic that arrives, on the scale of all weights.
    pub achieved: u32,
    /// Comparison of the pods with traffic with the wanted number.
    pub verdict: Verdict,
}

/// The comparison of the pods with traffic with the wanted number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Verdict {
    /// The wanted number of pods gets traffic.
    Ready,
    /// Labels have to change.
    InProgress,
    /// Pods that should get traffic are not ready.
    PodsNotReady {
        /// Number of these pods.
        pods: usize,
        /// Number of pods with the label.
        enabled: usize,
    },
    /// Pods that should get traffic are not among the addresses of the Service yet.
    PodsNotInEndpoints {
        /// Number of these pods.
        pods: usize,
        /// Number of pods with the label.
        enabled: usize,
    },
    /// Pods that should get no traffic are still among the addresses of the Service.
    PodsDraining {
        /// Number of these pods.
        pods: usize,
    },
}

impl Verdict {
    /// Status, reason and message of the condition `Ready` of the cluster.
    pub fn condition(self) -> (bool, Option<Reason>, String) {
        let designated = "pods designated to receive traffic";
        match self {
            Self::Ready => (true, None, String::new()),
            Self::InProgress => (false, Some(Reason::InProgress), String::new()),
            Self::PodsNotReady { pods, enabled } => {
                let message = format!("{pods}/{enabled} {designated} are not ready");
                (false, Some(Reason::PodsNotReady), message)
            }
            Self::PodsNotInEndpoints { pods, enabled } => {
                let message = format!("{pods}/{enabled} {designated} are not yet in endpoints");
                (false, Some(Reason::PodsNotInEndpoints), message)
            }
            Self::PodsDraining { pods } => {
                let message = format!(
                    "{pods} pods no longer designated to receive traffic are still in endpoints"
                );
                (false, Some(Reason::PodsDraining), message)
            }
        }
    }
}

/// The number of pods of a Release that should get traffic.
pub fn target_pods(release: usize, application: usize, weight: u32, total: u64) -> usize {
    if total == 0 {
        return 0;
    }
    let wanted = (application as u128 * u128::from(weight)).div_ceil(u128::from(total));
    usize::try_from(wanted).map_or(release, |wanted| wanted.min(release))
}

/// The share of the traffic that arrives, on the scale of all weights; halves are rounded up.
pub fn achieved_traffic(ready: usize, application: usize, total: u64) -> u32 {
    let application = application as u128;
    if application == 0 {
        return 0;
    }
    let doubled = (ready as u128)
        .saturating_mul(u128::from(total))
        .saturating_mul(2);
    let rounded = doubled.saturating_add(application) / (2 * application);
    u32::try_from(rounded).unwrap_or(u32::MAX)
}

/// Decides about a Release in a cluster.
///
/// # Guarantees
/// - Only pods of the Release are listed, and none that already has the wanted label.
/// - Pods are taken in the order of their names, only as many as are missing or in surplus.
/// - A pod keeps its traffic while a pod of another Release should have traffic and has none yet.
///   So fewer pods than wanted have traffic only if pods are not ready.
pub fn plan(release: &str, cluster: Cluster) -> Plan {
    let Cluster {
        weights,
        pods,
        endpoints,
        selector,
    } = cluster;
    let total = total(weights);
    let weight = weights.get(release).copied().unwrap_or(0);
    let own = pods.iter().filter(|pod| pod.release == release);
    let (enabled, disabled): (BTreeSet<_>, BTreeSet<_>) = {
        let names = |wanted: bool| own.clone().filter(move |pod| pod.enabled == wanted);
        (
            names(true).map(|pod| pod.name).collect(),
            names(false).map(|pod| pod.name).collect(),
        )
    };
    let ready: BTreeSet<_> = own
        .map(|pod| pod.name)
        .filter(|name| endpoints.is_ready(name))
        .collect();

    let target = target_pods(enabled.len() + disabled.len(), pods.len(), weight, total);
    let achieved = achieved_traffic(ready.len(), pods.len(), total);
    let is_ready = ready.len() == target;
    let missing = target.saturating_sub(enabled.len());
    let surplus = enabled.len().saturating_sub(target);
    // While the Service selects the pods of a Release by name, their labels follow at once, because
    // they count again as soon as another Release gets traffic.
    let follows = *selector == Selector::Release(release.to_owned()) && missing > 0;
    let take = |pods: &BTreeSet<&str>, count: usize| -> Vec<String> {
        let change = !is_ready || follows;
        let count = if change { count } else { 0 };
        pods.iter()
            .take(count)
            .map(|&name| name.to_owned())
            .collect()
    };
    let spared = if surplus > 0 {
        awaited(release, cluster)
    } else {
        0
    };
    let (enable, disable) = (
        take(&disabled, missing),
        take(&enabled, surplus.saturating_sub(spared)),
    );
    let verdict = if is_ready {
        Verdict::Ready
    } else if missing > 0 || surplus > 0 {
        Verdict::InProgress
    } else {
        why_not_ready(&enabled, &ready, endpoints)
    };
    Plan {
        enable,
        disable,
        achieved,
        verdict,
    }
}

/// The number of pods of other Releases that should get traffic and do not get it yet.
fn awaited(release: &str, cluster: Cluster) -> usize {
    let Cluster {
        weights,
        pods,
        endpoints,
        ..
    } = cluster;
    let mut others: Vec<_> = weights.iter().collect();
    others.retain(|(name, weight)| *name != release && **weight > 0);
    let awaited = others.into_iter().map(|(name, weight)| {
        let own = pods.iter().filter(|pod| pod.release == name);
        let ready = own.clone().filter(|pod| endpoints.is_ready(pod.name));
        target_pods(own.count(), pods.len(), *weight, total(weights)).saturating_sub(ready.count())
    });
    awaited.sum()
}

/// The verdict if all labels are right, but other pods than wanted get traffic.
fn why_not_ready(
    enabled: &BTreeSet<&str>,
    ready: &BTreeSet<&str>,
    endpoints: &Endpoints,
) -> Verdict {
    let not_ready = enabled
        .iter()
        .filter(|name| endpoints.is_not_ready(name))
        .count();
    let absent = enabled.difference(ready).count();
    let enabled_count = enabled.len();
    if not_ready > 0 {
        Verdict::PodsNotReady {
            pods: not_ready,
            enabled: enabled_count,
        }
    } else if absent > 0 {
        Verdict::PodsNotInEndpoints {
            pods: absent,
            enabled: enabled_count,
        }
    } else {
        Verdict::PodsDraining {
            pods: ready.difference(enabled).count(),
        }
    }
}

fn total(weights: &Weights) -> u64 {
    weights.values().map(|&weight| u64::from(weight)).sum()
}
