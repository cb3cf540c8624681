//! The gauges for the caches of children, under Package Operator's names.

use std::fmt;

use baton_apis::metrics::{CACHE_INFORMERS, CACHE_OBJECTS};
use baton_engine::Gvk;
use baton_kubernetes::target::Target;
use baton_runtime::{exposition::encode_family, metrics::Metrics};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet},
    metrics::{family::Family, gauge::Gauge},
};

/// The constant id that Package Operator gives to its only cache.
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

/// Counts the cached objects of a cluster when the metrics are read.
struct Caches<F>(F);

/// Registers the gauges for the caches of a cluster.
pub(crate) fn register(metrics: &Metrics, target: Target) {
    let caches = Caches(move || target.stats());
    metrics.register(|registry| registry.register_collector(Box::new(caches)));
}

impl<F> fmt::Debug for Caches<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Caches")
    }
}

impl<F: Fn() -> Vec<(Gvk, usize)> + Send + Sync + 'static> Collector for Caches<F> {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let kinds = (self.0)();
        let owner = CACHE_OWNER;
        let (informers, objects) = (Family::<_, Gauge>::default(), Family::<_, Gauge>::default());
        let informer_count = informers.get_or_create_owned(&OwnerLabel { owner });
        informer_count.set(value(kinds.len()));
        for (gvk, count) in kinds {
            let gvk = gvk.to_string();
            let object_count = objects.get_or_create_owned(&KindLabels { owner, gvk });
            object_count.set(value(count));
        }
        // By convention only counters end in `_total`, but Package Operator gives these names to
        // its gauges.
        encode_family(&mut encoder, &CACHE_INFORMERS, &informers)?;
        encode_family(&mut encoder, &CACHE_OBJECTS, &objects)
    }
}

fn value(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    #[test]
    fn cache_gauges_have_the_names_of_package_operator() {
        let metrics = Metrics::new();
        let deployments = (Gvk::new("apps/v1", "Deployment"), 3);
        let kinds = Arc::new(Mutex::new(vec![
            (Gvk::new("v1", "ConfigMap"), 4),
            deployments.clone(),
        ]));
        let found = Arc::clone(&kinds);
        let caches = Caches(move || found.lock().clone());
        metrics.register(|registry| registry.register_collector(Box::new(caches)));
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

        *kinds.lock() = vec![deployments];
        assert_eq!(
            metrics
                .series("package_operator_managed_cache_objects")
                .len(),
            1
        );
    }
}
