//! Which pods of a Release get traffic in a cluster (section 6 of the contract).
//!
//! The Service that balances selects pods by a label. The share of a Release in the traffic is the share of its pods
//! among those with the label, so weights become numbers of pods, in integers.

pub mod endpoints;
pub mod label;
pub mod selector;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use baton_apis::{TrafficTarget, constants::shipper::LABEL_RELEASE};
use thiserror::Error;

use crate::texts::Quoted;
use endpoints::Endpoints;
use selector::Selector;

/// The weights of all Releases of an application in a cluster, by name.
pub type Weights = BTreeMap<String, u32>;

/// Why the weights are not known. Trying again helps only after a `TrafficTarget` has changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// A target does not say which Release it is for.
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
        /// Name of another one.
        second: String,
    },
}

/// The weights in a cluster, from all targets of an application.
///
/// # Errors
/// If a target has no Release, or one that another target has as well, whichever clusters they are for.
pub fn weights<'a>(
    targets: impl IntoIterator<Item = &'a TrafficTarget>,
    cluster: &str,
) -> Result<Weights, Error> {
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
    let weight = |(release, (_, target)): (&String, (&str, &TrafficTarget))| {
        let mut clusters = target.spec.clusters.iter();
        let found = clusters.find(|found| found.name == cluster)?;
        Some((release.clone(), found.weight))
    };
    Ok(owners.into_iter().filter_map(weight).collect())
}

/// A pod of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pod<'a> {
    /// Its name.
    pub name: &'a str,
    /// The Release that it belongs to.
    pub release: &'a str,
    /// Whether its label lets it have traffic.
    pub enabled: bool,
}

/// What there is of an application in a cluster.
#[derive(Clone, Copy, Debug)]
pub struct Cluster<'a> {
    /// The weights of all Releases.
    pub weights: &'a Weights,
    /// All pods of the application.
    pub pods: &'a [Pod<'a>],
    /// The addresses of the Service that balances.
    pub endpoints: &'a Endpoints,
    /// What that Service selects.
    pub selector: &'a Selector,
}

/// What is to be done and said about the traffic of a Release in a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Pods that are to get traffic, sorted.
    pub enable: Vec<String>,
    /// Pods that are to get none, sorted.
    pub disable: Vec<String>,
    /// The share of the traffic that arrives, on the scale of all weights.
    pub achieved: u32,
    /// Whether the wanted number of pods gets traffic.
    pub verdict: Verdict,
}

/// Whether the wanted number of pods gets traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does.
    Ready,
    /// Labels are to be changed.
    InProgress,
    /// Pods that are to get traffic are not ready.
    PodsNotReady {
        /// How many.
        pods: usize,
        /// How many have the label.
        enabled: usize,
    },
    /// Pods that are to get traffic are no addresses of the Service yet.
    PodsNotInEndpoints {
        /// How many.
        pods: usize,
        /// How many have the label.
        enabled: usize,
    },
    /// Pods that are to get no traffic are still addresses of the Service (W6).
    PodsDraining {
        /// How many.
        pods: usize,
    },
}

impl Verdict {
    /// Status, reason and message of the cluster's condition `Ready`.
    pub fn condition(self) -> (bool, &'static str, String) {
        let designated = "pods designated to receive traffic";
        match self {
            Self::Ready => (true, "", String::new()),
            Self::InProgress => (false, "InProgress", String::new()),
            Self::PodsNotReady { pods, enabled } => {
                let message = format!("{pods}/{enabled} {designated} are not ready");
                (false, "PodsNotReady", message)
            }
            Self::PodsNotInEndpoints { pods, enabled } => {
                let message = format!("{pods}/{enabled} {designated} are not yet in endpoints");
                (false, "PodsNotInEndpoints", message)
            }
            Self::PodsDraining { pods } => {
                let message = format!(
                    "{pods} pods no longer designated to receive traffic are still in endpoints"
                );
                (false, "PodsDraining", message)
            }
        }
    }
}

/// How many pods of a Release are to get traffic.
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

/// Decides about one Release in one cluster.
///
/// # Guarantees
/// - Only pods of the Release are named, and none that has the wanted label already.
/// - Pods are taken in the order of their names, as many as are missing or too many.
/// - A pod keeps its traffic while a pod of another Release is to have some and has none yet. So fewer pods than the
///   weights want have traffic only if pods are not ready.
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
    // While the Service selects the pods of a Release whatever their label, the label follows at once: it counts again
    // as soon as another Release gets traffic.
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

/// How many pods of other Releases are to get traffic, and get none yet.
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

/// The labels are right, and yet other pods get traffic.
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
