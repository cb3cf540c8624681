//! The objects of Shipper's kinds, counted when the metrics are read.

use std::{
    fmt,
    sync::{Arc, Weak},
};

use baton_apis::{
    ConditionStatus, Release,
    conditions::{
        Reason,
        shipper::{BLOCKED, COMPLETE, SCHEDULED, STRATEGY_EXECUTED},
    },
    constants::shipper::{ANNOTATION_RELEASE_CLUSTERS, LABEL_APP},
    metrics::{
        APPLICATIONS, CAPACITY_TARGETS, CLUSTERS, INSTALLATION_TARGETS, RELEASE_DURATIONS,
        RELEASES, RELEASES_PER_CLUSTER, ROLLOUT_BLOCKS, TRAFFIC_TARGETS,
    },
};
use baton_fleet::inventory::{ClusterLink, Inventory};
use baton_releases::{conditions, scheduling};
use baton_runtime::{clock::Clock, exposition::encode_family};
use baton_typed::{key::Kind, store::Store};
use jiff::Timestamp;
use kube::ResourceExt as _;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet},
    metrics::{family::Family, gauge::Gauge, histogram::Histogram},
};

use super::elapsed;
use crate::controllers::releases::{Context, Stores};

/// Conditions of Releases that are counted.
const CONDITIONS: [&str; 4] = [BLOCKED, COMPLETE, SCHEDULED, STRATEGY_EXECUTED];
/// Label value for a missing condition, or one without a reason.
const NO_REASON: &str = "NoReason";
/// Bucket bounds for the time that conditions have been false, in seconds.
const AGES: [f64; 5] = [15.0, 30.0, 45.0, 60.0, 120.0];
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct NamespaceLabel {
    namespace: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct ReleaseLabels {
    namespace: String,
    shipper_app: String,
    cond_type: String,
    cond_status: String,
    cond_reason: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct ClusterLabel {
    cluster: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct ConditionLabel {
    cond_type: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ClusterLabels {
    name: String,
    schedulable: String,
    has_secret: String,
}

/// Counts the objects of Shipper's kinds when metrics are read.
pub(super) struct Objects {
    stores: Weak<Stores>,
    inventory: Inventory,
    clock: Clock,
}

impl Objects {
    /// Counts the objects in these stores.
    pub(super) fn of(context: &Context) -> Self {
        Self {
            stores: Arc::downgrade(&context.stores),
            inventory: context.inventory.clone(),
            clock: context.shared.clock.clone(),
        }
    }
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Objects")
    }
}

impl Collector for Objects {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let Some(stores) = self.stores.upgrade() else {
            return Ok(());
        };
        let namespaced = [
            (APPLICATIONS, namespaces(&stores.applications)),
            (
                INSTALLATION_TARGETS,
                namespaces(&stores.installation_targets),
            ),
            (CAPACITY_TARGETS, namespaces(&stores.capacity_targets)),
            (TRAFFIC_TARGETS, namespaces(&stores.traffic_targets)),
            (ROLLOUT_BLOCKS, namespaces(&stores.blocks.0)),
        ];
        for (family, series) in namespaced {
            encode_family(&mut encoder, &family, &series)?;
        }
        let (releases, clusters) = (stores.releases.all(), stores.clusters.all());
        let (by_condition, by_cluster, ages) = release_families(&releases, self.clock.now());
        encode_family(&mut encoder, &RELEASES, &by_condition)?;
        encode_family(&mut encoder, &RELEASES_PER_CLUSTER, &by_cluster)?;
        encode_family(&mut encoder, &RELEASE_DURATIONS, &ages)?;
        let family = Family::<ClusterLabels, Gauge>::default();
        for cluster in clusters {
            let link = self.inventory.link(&cluster.name_any());
            let lacks_secret = matches!(
                link,
                ClusterLink::Down {
                    reason: Reason::NoSecret,
                    ..
                }
            );
            let labels = ClusterLabels {
                name: cluster.name_any(),
                schedulable: (!cluster.spec.scheduler.unschedulable).to_string(),
                has_secret: (!lacks_secret).to_string(),
            };
            family.get_or_create(&labels).set(1);
        }
        encode_family(&mut encoder, &CLUSTERS, &family)
    }
}

pub(super) type ReleaseFamilies = (
    Family<ReleaseLabels, Gauge>,
    Family<ClusterLabel, Gauge>,
    Family<ConditionLabel, Histogram, fn() -> Histogram>,
);

pub(super) fn release_families(releases: &[Arc<Release>], now: Timestamp) -> ReleaseFamilies {
    let states = Family::<ReleaseLabels, Gauge>::default();
    let places = Family::<ClusterLabel, Gauge>::default();
    let ages = Family::new_with_constructor((|| Histogram::new(AGES)) as fn() -> Histogram);
    for release in releases {
        let found = release.status.as_ref();
        let list = found.map(|status| status.conditions.as_slice());
        let list = list.unwrap_or_default();
        for type_ in CONDITIONS {
            let condition = conditions::find(list, type_);
            let holds = condition.map_or(ConditionStatus::False, |it| it.status);
            let reason = condition.map(|it| it.reason.as_str());
            let reason = reason.filter(|reason| !reason.is_empty());
            let labels = ReleaseLabels {
                namespace: release.namespace().unwrap_or_default(),
                shipper_app: release.labels().get(LABEL_APP).cloned().unwrap_or_default(),
                cond_type: type_.to_owned(),
                cond_status: holds.to_string(),
                cond_reason: reason.unwrap_or(NO_REASON).to_owned(),
            };
            states.get_or_create(&labels).inc();
        }
        let clusters = release.annotations().get(ANNOTATION_RELEASE_CLUSTERS);
        for cluster in scheduling::chosen(clusters.map_or("", String::as_str)) {
            let cluster = cluster.to_owned();
            places.get_or_create(&ClusterLabel { cluster }).inc();
        }
        if conditions::is_true(list, COMPLETE) {
            continue;
        }
        let strategy = found.and_then(|status| status.strategy.as_ref());
        for condition in strategy.iter().flat_map(|strategy| &strategy.conditions) {
            let since = condition.last_transition_time.as_ref();
            if condition.status == ConditionStatus::False
                && let Some(since) = since
            {
                let cond_type = condition.type_.clone();
                let family = ages.get_or_create(&ConditionLabel { cond_type });
                family.observe(elapsed(since.0, now));
            }
        }
    }
    (states, places, ages)
}

fn namespaces<K: Kind>(store: &Store<K>) -> Family<NamespaceLabel, Gauge> {
    let family = Family::<NamespaceLabel, Gauge>::default();
    for object in store.all() {
        let namespace = object.namespace().unwrap_or_default();
        family.get_or_create(&NamespaceLabel { namespace }).inc();
    }
    family
}
