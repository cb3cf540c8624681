//! What the Service that balances selects (W3).
//!
//! Pods that are made while nobody gives them labels would get no traffic. So once one Release has all the traffic, the
//! Service selects it by name: whatever replaces its pods is served. Before another Release gets traffic, the Service
//! selects by label again.

use std::collections::BTreeMap;

use baton_apis::constants::shipper::{LABEL_RELEASE, LABEL_TRAFFIC_STATUS, TRAFFIC_ENABLED};

use super::{Cluster, Weights, target_pods, total};

/// What a Service selects beside the pods of the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// The pods whose label lets them have traffic.
    Label,
    /// All pods of the Release of this name.
    Release(String),
}

impl Selector {
    /// What a Service selects, by its `spec.selector`.
    #[must_use]
    pub fn of(selector: &BTreeMap<String, String>) -> Self {
        match selector.get(LABEL_RELEASE) {
            Some(release) if !selector.contains_key(LABEL_TRAFFIC_STATUS) => {
                Self::Release(release.clone())
            }
            _ => Self::Label,
        }
    }

    /// The keys of the selector that traffic decides about: their values, or that they are not to be there.
    pub fn keys(&self) -> [(&'static str, Option<&str>); 2] {
        match self {
            Self::Label => [
                (LABEL_TRAFFIC_STATUS, Some(TRAFFIC_ENABLED)),
                (LABEL_RELEASE, None),
            ],
            Self::Release(name) => [(LABEL_TRAFFIC_STATUS, None), (LABEL_RELEASE, Some(name))],
        }
    }

    /// The whole `spec.selector`, of one from the chart. To the API server a selector is one value: whoever changes a
    /// key of it has to say all others as well.
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

/// What the Service is to select as things are.
///
/// # Guarantees
/// It changes only when all pods that are to have traffic have the label, and to the name of a Release only when no
/// others have it. So a change takes traffic from no pod that is to have it.
pub fn wanted(cluster: Cluster) -> Selector {
    let present = cluster.selector;
    let next = match (single(cluster.weights), present) {
        (Some(release), Selector::Release(selected)) if selected == release => {
            return present.clone();
        }
        (Some(release), Selector::Label) => Selector::Release(release.to_owned()),
        // From one Release to another the way is over the labels: both may have pods that are to get traffic.
        (_, Selector::Release(_)) | (None, Selector::Label) => Selector::Label,
    };
    if is_labelled(cluster, &next) {
        next
    } else {
        present.clone()
    }
}

/// The Release whose target brings the Service from what it selects to what it is to select, so that the targets of an
/// application do not all write the same.
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

/// The one Release with all the weight.
fn single(weights: &Weights) -> Option<&str> {
    let mut weighted = weights.iter().filter(|(_, weight)| **weight > 0);
    match (weighted.next(), weighted.next()) {
        (Some((release, _)), None) => Some(release),
        _ => None,
    }
}

/// Whether so many pods of each Release have the label as the weights want. More of them may have it while the Service
/// is to select by the label: they keep their traffic until others have theirs.
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
            // Nobody gives labels to pods of a Release that is not there. They get traffic by what they have.
            return true;
        };
        let wanted = target_pods(all, cluster.pods.len(), weight, total);
        enabled == wanted || enabled > wanted && *next == Selector::Label
    })
}
