//! The requests of the controllers of releases, under the names of Shipper's metrics.

use std::{sync::Arc, time::Duration};

use baton_apis::{
    constants::shipper,
    metrics::{REST_LATENCY, REST_REQUESTS},
};
use http::{Method, Request, Response};
use kube::{Client, client::Body};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};
use tokio::time::Instant;
use tower::service_fn;

/// Bucket bounds in seconds: most requests are answered within milliseconds, and none takes longer
/// than a minute.
const SECONDS: [f64; 9] = [0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    code: String,
    method: String,
    host: Arc<str>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct LatencyLabels {
    verb: String,
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
    /// Starts without counted requests; all are sent to `host`.
    pub(crate) fn to(host: &str) -> Self {
        Self {
            host: host.into(),
            requests: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(SECONDS)),
        }
    }

    /// Registers the families.
    pub(crate) fn register(&self, registry: &mut Registry) {
        let (requests, seconds) = (self.requests.clone(), self.seconds.clone());
        registry.register(REST_REQUESTS.name, REST_REQUESTS.help, requests);
        registry.register(REST_LATENCY.name, REST_LATENCY.help, seconds);
    }

    /// A client whose requests are counted.
    pub(crate) fn count(&self, client: Client) -> Client {
        let (calls, namespace) = (self.clone(), client.default_namespace().to_owned());
        let service = service_fn(move |request: Request<Body>| {
            let (calls, client) = (calls.clone(), client.clone());
            async move {
                let Some(gvr) = gvr(request.uri().path()) else {
                    return client.send(request).await;
                };
                let (method, started) = (request.method().clone(), Instant::now());
                let answer = client.send(request).await;
                calls.note(&method, gvr, &answer, started.elapsed());
                answer
            }
        });
        Client::new(service, namespace)
    }

    fn note<T>(
        &self,
        method: &Method,
        gvr: String,
        answer: &Result<Response<T>, kube::Error>,
        lasted: Duration,
    ) {
        let code = match answer {
            Ok(response) => response.status().as_str().to_owned(),
            Err(_) => "<error>".to_owned(),
        };
        let (verb, host) = (method.as_str(), &self.host);
        let labels = RequestLabels {
            code,
            method: verb.to_owned(),
            host: Arc::clone(host),
        };
        self.requests.get_or_create(&labels).inc();
        let labels = LatencyLabels {
            verb: verb.to_owned(),
            host: Arc::clone(host),
            gvr,
            watch: "false",
        };
        let seconds = self.seconds.get_or_create(&labels);
        seconds.observe(lasted.as_secs_f64());
    }
}

/// Group, version and plural of the kind in a path, if it is one of Shipper's.
fn gvr(path: &str) -> Option<String> {
    let path = path.strip_prefix("/apis/")?;
    let (group, rest) = path.split_once('/')?;
    let (version, rest) = rest.split_once('/')?;
    let (_namespace, rest) = rest.strip_prefix("namespaces/")?.split_once('/')?;
    let plural = rest.split('/').next()?;
    (group == shipper::GROUP).then(|| format!("{group}/{version}, Resource={plural}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_about_shippers_kinds_are_counted() {
        let releases = "shipper.booking.com/v1alpha1, Resource=releases";
        for (path, expected) in [
            (
                "/apis/shipper.booking.com/v1alpha1/namespaces/shop/releases/a/status",
                Some(releases),
            ),
            (
                "/apis/shipper.booking.com/v1alpha1/namespaces/shop/releases",
                Some(releases),
            ),
            ("/apis/apps/v1/namespaces/shop/deployments/a", None),
            ("/api/v1/namespaces/kube-system", None),
        ] {
            assert_eq!(gvr(path).as_deref(), expected, "{path}");
        }
    }
}
