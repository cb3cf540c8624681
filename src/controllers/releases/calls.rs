//! The requests of the controllers of releases, under the names that Shipper's metrics have (section 9.3 of the
//! contract).

use std::sync::Arc;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};
use tokio::time::Instant;

/// Bucket bounds in seconds: most are answered within milliseconds, and none is waited for longer than a minute.
const SECONDS: [f64; 9] = [0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    code: String,
    method: &'static str,
    host: Arc<str>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct LatencyLabels {
    verb: &'static str,
    host: Arc<str>,
    gvr: String,
    watch: &'static str,
}

/// Counts requests about Shipper's kinds. A clone counts into the same series.
#[derive(Clone)]
pub(crate) struct Calls {
    host: Arc<str>,
    requests: Family<RequestLabels, Counter>,
    seconds: Family<LatencyLabels, Histogram, fn() -> Histogram>,
}

impl Calls {
    /// None yet; all go to this host.
    pub(crate) fn to(host: &str) -> Self {
        Self {
            host: host.into(),
            requests: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(SECONDS)),
        }
    }

    /// Adds the families.
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "shipper_rest_client_requests",
            "Requests about Shipper's kinds",
            self.requests.clone(),
        );
        registry.register(
            "shipper_rest_client_latency_seconds",
            "Time until requests about Shipper's kinds were answered",
            self.seconds.clone(),
        );
    }

    /// Carries a request out and counts it. `gvr` is the group, the version and the plural of the kind.
    pub(crate) async fn count<T>(
        &self,
        method: &'static str,
        gvr: String,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, kube::Error> {
        let started = Instant::now();
        let answer = request.await;
        let code = match &answer {
            Ok(_) if method == "POST" => "201".to_owned(),
            Ok(_) => "200".to_owned(),
            Err(kube::Error::Api(status)) => status.code.to_string(),
            Err(_) => "<error>".to_owned(),
        };
        let labels = RequestLabels {
            code,
            method,
            host: Arc::clone(&self.host),
        };
        self.requests.get_or_create(&labels).inc();
        let labels = LatencyLabels {
            verb: method,
            host: Arc::clone(&self.host),
            gvr,
            watch: "false",
        };
        let seconds = started.elapsed().as_secs_f64();
        self.seconds.get_or_create(&labels).observe(seconds);
        answer
    }
}
