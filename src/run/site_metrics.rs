//! The number of sites of each deployment by state, computed when the metrics are read. Only the
//! leader reports it.

use std::{
    fmt,
    sync::{Arc, Weak},
};

use baton_apis::{SiteCounts, SiteDeployment, metrics::SITES};
use baton_kubernetes::fence::Fence;
use baton_runtime::{exposition::encode_family, metrics::Metrics};
use kube::ResourceExt as _;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet},
    metrics::{family::Family, gauge::Gauge},
};

use crate::controllers::sites::Stores;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Labels {
    baton_namespace: String,
    baton_name: String,
    state: &'static str,
}

struct Sites {
    stores: Weak<Stores>,
    fence: Fence,
}

/// Registers the metric family.
pub(super) fn register(metrics: &Metrics, stores: &Arc<Stores>, fence: &Fence) {
    let sites = Sites {
        stores: Arc::downgrade(stores),
        fence: fence.clone(),
    };
    metrics.register(|registry| registry.register_collector(Box::new(sites)));
}

impl fmt::Debug for Sites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sites")
    }
}

impl Collector for Sites {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let Some(stores) = self.stores.upgrade() else {
            return Ok(());
        };
        if self.fence.check().is_err() {
            return Ok(());
        }
        encode_family(&mut encoder, &SITES, &family(&stores.deployments.all()))
    }
}

fn family(deployments: &[Arc<SiteDeployment>]) -> Family<Labels, Gauge> {
    let family = Family::<Labels, Gauge>::default();
    for deployment in deployments {
        let Some(status) = &deployment.status else {
            continue;
        };
        let SiteCounts {
            sites,
            updated,
            healthy,
            soaking,
            queued,
            offline,
            failed,
        } = status.counts;
        for (state, count) in [
            ("all", sites),
            ("updated", updated),
            ("healthy", healthy),
            ("soaking", soaking),
            ("queued", queued),
            ("offline", offline),
            ("failed", failed),
        ] {
            let labels = Labels {
                baton_namespace: deployment.namespace().unwrap_or_default(),
                baton_name: deployment.name_any(),
                state,
            };
            family.get_or_create(&labels).set(count.into());
        }
    }
    family
}

#[cfg(test)]
mod tests {
    use baton_apis::{SiteDeploymentSpec, SiteDeploymentStatus};

    use super::*;

    #[test]
    fn a_deployment_has_a_series_for_each_state() {
        let mut web = SiteDeployment::new("web", SiteDeploymentSpec::default());
        web.metadata.namespace = Some("shop".to_owned());
        web.status = Some(SiteDeploymentStatus {
            counts: SiteCounts {
                sites: 7,
                failed: 2,
                ..SiteCounts::default()
            },
            ..SiteDeploymentStatus::default()
        });
        let new = SiteDeployment::new("new", SiteDeploymentSpec::default());
        let metrics = Metrics::new();
        let family = family(&[Arc::new(web), Arc::new(new)]);
        metrics.register(|registry| registry.register("x_sites", "", family));
        let series = metrics.series("x_");
        assert_eq!(series.len(), 7);
        let labels = r#"x_sites{baton_namespace="shop",baton_name="web",state="#;
        for (state, count) in [("all", 7), ("failed", 2), ("queued", 0)] {
            assert!(
                series.contains(&format!(r#"{labels}"{state}"}} {count}"#)),
                "{series:?}"
            );
        }
    }
}
