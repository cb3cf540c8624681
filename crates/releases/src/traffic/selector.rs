//! The selector of the Service that balances.
//!
//! Pods that are created while the controller does not run have no label and would get no traffic.
//! So once a single Release has all the traffic, the Service selects it by name, and pods that
//! replace others are served. Before another Release gets traffic, the Service selects by label
//! again.

use std::collections::BTreeMap;

use baton_apis::constants::shipper::{LABEL_RELEASE, LABEL_TRAFFIC_STATUS, TRAFFIC_ENABLED};

use super::{Cluster, Weights, target_pods, total};

/// The pods of the application that a Service selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// The pods with the label that enables traffic.
    Label,
    /// All pods of the Release with this name.
    Release(String),
}

impl Selector {
    /// Reads `spec.selector` of a Service.
    #[must_use]
    pub fn of(selector: &BTreeMap<String, String>) -> Self {
        match selector.get(LABEL_RELEASE) {
            Some(release) if !selector.contains_key(LABEL_TRAFFIC_STATUS) => {
                Self::Release(release.clone())
            }
            _ => Self::Label,
        }
    }

    /// The keys of the selector that depend on traffic, with their values; `None` if a key must be
    /// absent.
    pub fn keys(&self) -> [(&'static str, Option<&str>); 2] {
        match self {
            Self::Label => [
                (LABEL_TRAFFIC_STATUS, Some(TRAFFIC_ENABLED)),
                (LABEL_RELEASE, None),
            ],
            Self::Release(name) => [(LABEL_TRAFFIC_STATUS, None), (LABEL_RELEASE, Some(name))],
        }
    }

    /// The whole `spec.selector`, from that of the chart. The API server treats a selector as one
    /// value, so a change of one key has to include all others.
    pub fn within(&self, selector: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let mut selector = selector.clone();
        for (key, value) in self.keys() {
            match value {
                Some(value) => selector.insert(key.to_owned(), value.to_owned()),
                None => selector.remove(key),
            };
        }
        selector
    }
}

/// The wanted selector of the Service.
///
/// # Guarantees
/// The selector changes only when all pods that should have traffic have the label. It changes to
/// the name of a Release only when no other pods have the label. So a change takes traffic from no
/// pod that should have it.
pub fn wanted(cluster: Cluster) -> Selector {
    let present = cluster.selector;
    let next = match (single(cluster.weights), present) {
        (Some(release), Selector::Release(selected)) if selected == release => {
            return present.clone();
        }
        (Some(release), Selector::Label) => Selector::Release(release.to_owned()),
        // A change from one Release to another goes through labels, because both may have pods that
        // should get traffic.
        (_, Selector::Release(_)) | (None, Selector::Label) => Selector::Label,
    };
    if is_labelled(cluster, &next) {
        next
    } else {
        present.clone()
    }
}

/// The Release whose target writes the change of the selector, so that not all targets of an
/// application write the same.
pub fn in_charge<'a>(
    weights: &'a Weights,
    present: &Selector,
    wanted: &Selector,
) -> Option<&'a str> {
    let named = [wanted, present].into_iter().find_map(|selector| {
        let Selector::Release(release) = selector else {
            return None;
        };
        weights.get_key_value(release).map(|(release, _)| release)
    });
    named.or_else(|| weights.keys().next()).map(String::as_str)
}

/// The Release with weight, if there is only one.
fn single(weights: &Weights) -> Option<&str> {
    let mut weighted = weights.iter().filter(|(_, weight)| **weight > 0);
    match (weighted.next(), weighted.next()) {
        (Some((release, _)), None) => Some(release),
        _ => None,
    }
}

/// True if as many pods of each Release have the label as the weights request. While the Service is
/// about to select by label, more pods may have it: they keep their traffic until others have
/// theirs.
fn is_labelled(cluster: Cluster, next: &Selector) -> bool {
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for pod in cluster.pods {
        let (all, enabled) = counts.entry(pod.release).or_default();
        *all += 1;
        *enabled += usize::from(pod.enabled);
    }
    let total = total(cluster.weights);
    counts.into_iter().all(|(release, (all, enabled))| {
        let Some(&weight) = cluster.weights.get(release) else {
            // No controller labels pods of a Release that does not exist. They get traffic by the
            // labels that they have.
            return true;
        };
        let wanted = target_pods(all, cluster.pods.len(), weight, total);
        enabled == wanted || enabled > wanted && *next == Selector::Label
    })
}
