//! The gauges of the caches of children, under Package Operator's names.

use std::collections::BTreeSet;

use baton_engine::Gvk;
use baton_runtime::metrics::Metrics;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
};

/// Package Operator's constant id of its one cache.
const CACHE_OWNER: &str = "123-456";

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OwnerLabel {
    owner: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct KindLabels {
    owner: &'static str,
    gvk: String,
}

pub(crate) struct CacheMetrics {
    informers: Family<OwnerLabel, Gauge>,
    objects: Family<KindLabels, Gauge>,
    reported: BTreeSet<Gvk>,
}

impl CacheMetrics {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let caches = Self {
            informers: Family::default(),
            objects: Family::default(),
            reported: BTreeSet::new(),
        };
        // The registry appends `_total` to counters only: the two gauges are called that upstream.
        metrics.register(|registry| {
            registry.register(
                "package_operator_managed_cache_informers_total",
                "Kinds that are watched at the moment",
                caches.informers.clone(),
            );
            registry.register(
                "package_operator_managed_cache_objects_total",
                "Objects in the cache per kind",
                caches.objects.clone(),
            );
        });
        caches.report_informers(0);
        caches
    }

    /// Reports the kinds that are watched, with their number of objects; others have no series from now on.
    pub(crate) fn report(&mut self, kinds: &[(Gvk, usize)]) {
        self.report_informers(kinds.len());
        for gone in std::mem::take(&mut self.reported) {
            if !kinds.iter().any(|(gvk, _)| *gvk == gone) {
                self.objects.remove(&labels(&gone));
            }
        }
        for (gvk, count) in kinds {
            self.objects.get_or_create(&labels(gvk)).set(value(*count));
            self.reported.insert(gvk.clone());
        }
    }

    fn report_informers(&self, count: usize) {
        let label = OwnerLabel { owner: CACHE_OWNER };
        self.informers.get_or_create(&label).set(value(count));
    }
}

fn labels(gvk: &Gvk) -> KindLabels {
    KindLabels {
        owner: CACHE_OWNER,
        gvk: gvk.to_string(),
    }
}

fn value(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_gauges_keep_their_odd_names() {
        let metrics = Metrics::new();
        let mut caches = CacheMetrics::new(&metrics);
        let deployments = (Gvk::new("apps/v1", "Deployment"), 3);
        caches.report(&[(Gvk::new("v1", "ConfigMap"), 4), deployments.clone()]);
        assert_eq!(
            metrics.series("package_operator_managed_cache"),
            [
                r#"package_operator_managed_cache_informers_total{owner="123-456"} 2"#,
                r#"package_operator_managed_cache_objects_total{owner="123-456",gvk="/v1, Kind=ConfigMap"} 4"#,
                r#"package_operator_managed_cache_objects_total{owner="123-456",gvk="apps/v1, Kind=Deployment"} 3"#,
            ]
        );
        let text = metrics.render().unwrap();
        assert!(
            text.contains("# TYPE package_operator_managed_cache_objects_total gauge\n"),
            "{text}"
        );

        caches.report(&[deployments]);
        assert_eq!(
            metrics
                .series("package_operator_managed_cache_objects")
                .len(),
            1
        );
    }
}
