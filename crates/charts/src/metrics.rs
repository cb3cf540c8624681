//! Counts the requests for charts.

use baton_apis::metrics::{CHART_LATENCY, CHART_REQUESTS};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};
use std::time::Duration;

/// Bucket bounds in seconds, up to the time limit of a request.
const SECONDS: [f64; 8] = [0.005, 0.025, 0.1, 0.25, 1.0, 2.5, 5.0, 10.0];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Labels {
    code: String,
    method: &'static str,
}

/// Counts requests. A clone counts into the same series.
#[derive(Clone, Debug)]
pub struct RequestMetrics {
    requests: Family<Labels, Counter>,
    seconds: Family<Labels, Histogram, fn() -> Histogram>,
}

impl Default for RequestMetrics {
    fn default() -> Self {
        Self {
            requests: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(SECONDS)),
        }
    }
}

impl RequestMetrics {
    /// Counts a request with the status code of its response, if there is one.
    pub fn count(&self, code: Option<u16>, duration: Duration) {
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        let labels = Labels {
            code,
            method: "get",
        };
        self.requests.get_or_create(&labels).inc();
        let seconds = duration.as_secs_f64();
        self.seconds.get_or_create(&labels).observe(seconds);
    }

    /// Registers the families.
    pub fn register(&self, registry: &mut Registry) {
        let (requests, seconds) = (self.requests.clone(), self.seconds.clone());
        registry.register(CHART_REQUESTS.name, CHART_REQUESTS.help, requests);
        registry.register(CHART_LATENCY.name, CHART_LATENCY.help, seconds);
    }
}
