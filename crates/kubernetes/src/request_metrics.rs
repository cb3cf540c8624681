//! Counts requests to an API server by their purpose and outcome.
//!
//! [`Verb::of`] is a pure function of the request; [`CountRequests`] is the layer that applies it to a client.
//! The layer sits below retries, so each request that went over the wire counts once.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use baton_apis::metrics::API_REQUESTS;
use http::{Method, Request, Response, StatusCode, header::CONTENT_TYPE};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};
use tower::{BoxError, Layer, Service};

/// Time limit of any request but a watch.
///
/// The API server itself limits a request to 60 s, so its response arrives first. The limit applies
/// to a connection that died silently.
const RESPONSE_LIMIT: Duration = Duration::from_secs(65);

crate::label_values! {
    /// The purpose of a request, as the label `verb` of `baton_api_requests_total`.
    pub enum Verb {
        /// Reads one object.
        Get = "get",
        /// Reads a collection.
        List = "list",
        /// Opens a watch.
        Watch = "watch",
        /// Creates an object by `POST`.
        Create = "create",
        /// Server-side apply that is persisted.
        Apply = "apply",
        /// Any write with `dryRun`; nothing is persisted.
        DryRun = "dry-run",
        /// A JSON, merge or strategic patch.
        Patch = "patch",
        /// Replaces an object by `PUT`.
        Update = "update",
        /// Any write to a `status` subresource.
        Status = "status",
        /// Deletes an object or a collection.
        Delete = "delete",
        /// Publishes a Kubernetes Event, or its repetition.
        Event = "event",
        /// Reads, takes or renews a Lease.
        Lease = "lease",
        /// API discovery, `OpenAPI`, version and health.
        Discovery = "discovery",
    }
}

impl Verb {
    /// Classifies a request by its method, path, query and content type.
    #[must_use]
    pub fn of<B>(request: &Request<B>) -> Self {
        let content_type = request
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok());
        let uri = request.uri();
        classify(
            request.method(),
            uri.path(),
            uri.query().unwrap_or_default(),
            content_type.unwrap_or_default(),
        )
    }
}

/// The resource part of an API path.
struct ResourcePath<'a> {
    group: &'a str,
    plural: &'a str,
    named: bool,
    subresource: Option<&'a str>,
}

impl<'a> ResourcePath<'a> {
    /// Splits a path; `None` if it names no resource (discovery, version, health).
    fn parse(path: &'a str) -> Option<Self> {
        let mut segments = path.split('/').filter(|segment| !segment.is_empty());
        let group = match segments.next()? {
            "api" => "",
            "apis" => segments.next()?,
            _ => return None,
        };
        let _version = segments.next()?;
        let rest: Vec<&str> = segments.collect();
        // `namespaces/NAME/status` and `.../finalize` belong to the Namespace itself; any other
        // third segment is a resource in the namespace.
        let rest = match rest.as_slice() {
            ["namespaces", _, "status" | "finalize"] => rest.as_slice(),
            ["namespaces", _, inner @ ..] if !inner.is_empty() => inner,
            all => all,
        };
        let (plural, tail) = rest.split_first()?;
        Some(Self {
            group,
            plural,
            named: !tail.is_empty(),
            subresource: tail.get(1).copied(),
        })
    }

    fn is_event(&self) -> bool {
        matches!(self.group, "" | "events.k8s.io") && self.plural == "events"
    }

    fn is_lease(&self) -> bool {
        self.group == "coordination.k8s.io" && self.plural == "leases"
    }
}

fn classify(method: &Method, path: &str, query: &str, content_type: &str) -> Verb {
    let Some(resource) = ResourcePath::parse(path) else {
        return Verb::Discovery;
    };
    let parameter = |key: &str| {
        query
            .split('&')
            .find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='))
    };
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    if is_read {
        return match parameter("watch") {
            Some("true" | "1") => Verb::Watch,
            _ if resource.named && resource.is_lease() => Verb::Lease,
            _ if resource.named => Verb::Get,
            _ => Verb::List,
        };
    }
    if parameter("dryRun").is_some() {
        return Verb::DryRun;
    }
    if resource.subresource == Some("status") {
        return Verb::Status;
    }
    // Children of these kinds are applied, released by JSON patches and deleted, as those of other
    // kinds.
    match *method {
        Method::POST if resource.is_event() => Verb::Event,
        Method::POST if resource.is_lease() => Verb::Lease,
        Method::POST => Verb::Create,
        Method::PATCH if content_type.starts_with("application/apply-patch") => Verb::Apply,
        Method::PATCH
            if resource.is_event() && content_type.starts_with("application/merge-patch") =>
        {
            Verb::Event
        }
        Method::PATCH => Verb::Patch,
        Method::DELETE => Verb::Delete,
        _ if resource.is_lease() => Verb::Lease,
        _ => Verb::Update,
    }
}

crate::label_values! {
    /// The outcome of a request, as the label `code_class` of `baton_api_requests_total`.
    pub enum CodeClass {
        /// Answered with success.
        Success = "2xx",
        /// Refused because of the request or the state of the server (not found, conflict,
        /// forbidden, throttled).
        Refused = "4xx",
        /// Failed inside the server.
        Failed = "5xx",
        /// No response: the connection failed, the time ran out, or the caller gave up.
        NoAnswer = "none",
    }
}

impl CodeClass {
    fn of(status: StatusCode) -> Self {
        match status.as_u16() {
            0..400 => Self::Success,
            400..500 => Self::Refused,
            _ => Self::Failed,
        }
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    verb: &'static str,
    code_class: &'static str,
}

/// Counts requests by verb and outcome. A clone counts into the same series.
#[derive(Clone, Debug, Default)]
pub struct RequestMetrics {
    /// One counter per [`Verb`] and [`CodeClass`], looked up by discriminant on each request.
    counters: Arc<[[Counter; CodeClass::ALL.len()]; Verb::ALL.len()]>,
}

impl RequestMetrics {
    /// Registers the family `baton_api_requests_total`, with a series per verb and class.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let family = Family::<RequestLabels, Counter>::default();
        registry.register(API_REQUESTS.name, API_REQUESTS.help, family.clone());
        let counters = Verb::ALL.map(|verb| {
            CodeClass::ALL.map(|class| {
                family.get_or_create_owned(&RequestLabels {
                    verb: verb.as_str(),
                    code_class: class.as_str(),
                })
            })
        });
        Self {
            counters: Arc::new(counters),
        }
    }

    /// Counts one request.
    pub fn count(&self, verb: Verb, class: CodeClass) {
        self.counters[verb as usize][class as usize].inc();
    }

    /// Number of requests of `verb` so far, with any outcome.
    pub fn total(&self, verb: Verb) -> u64 {
        self.counters[verb as usize].iter().map(Counter::get).sum()
    }
}

/// A request took longer than the limit of the server itself.
#[derive(Debug, thiserror::Error)]
#[error("no answer from the API server within {} s", RESPONSE_LIMIT.as_secs())]
pub struct Timeout;

/// Layer that counts requests by [`Verb`], and limits the time of all but watches.
#[derive(Clone, Debug)]
pub struct CountRequests {
    metrics: RequestMetrics,
}

impl CountRequests {
    /// Creates a layer that counts into `metrics`.
    #[must_use]
    pub fn new(metrics: &RequestMetrics) -> Self {
        Self {
            metrics: metrics.clone(),
        }
    }
}

impl<S> Layer<S> for CountRequests {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Counted {
            inner,
            metrics: self.metrics.clone(),
        }
    }
}

/// The service whose requests [`CountRequests`] counts.
#[derive(Clone, Debug)]
pub struct Counted<S> {
    inner: S,
    metrics: RequestMetrics,
}

impl<S, B, R> Service<Request<B>> for Counted<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    R: 'static,
{
    type Response = Response<R>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<R>, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let verb = Verb::of(&request);
        let count = Count {
            metrics: self.metrics.clone(),
            verb,
            class: CodeClass::NoAnswer,
        };
        let response = self.inner.call(request);
        Box::pin(async move {
            // Moves the whole guard into the block, not only the field that is assigned.
            let mut count = count;
            let response = if verb == Verb::Watch {
                // A watch is answered at once, but a starting server may delay the response for
                // long.
                response.await.map_err(Into::into)?
            } else {
                let answered = tokio::time::timeout(RESPONSE_LIMIT, response).await;
                answered.map_err(|_elapsed| Timeout)?.map_err(Into::into)?
            };
            count.class = CodeClass::of(response.status());
            Ok(response)
        })
    }
}

/// Counts on drop, so that a request whose caller gave up is counted too: it may have reached the
/// server.
struct Count {
    metrics: RequestMetrics,
    verb: Verb,
    class: CodeClass,
}

impl Drop for Count {
    fn drop(&mut self) {
        self.metrics.count(self.verb, self.class);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_classified_by_their_verb() {
        let table = "
            GET /version => discovery
            GET /healthz => discovery
            GET /openapi/v3/apis/apps/v1 => discovery
            GET /api => discovery
            GET /api/v1 => discovery
            GET /apis => discovery
            GET /apis/apps => discovery
            GET /apis/apps/v1 => discovery
            GET /api/v1/configmaps?limit=500 => list
            GET /api/v1/namespaces => list
            GET /api/v1/namespaces/a => get
            GET /api/v1/namespaces/a/configmaps => list
            GET /api/v1/namespaces/a/configmaps/b => get
            GET /apis/apps/v1/namespaces/a/deployments/b/status => get
            GET /apis/package-operator.run/v1alpha1/clusterobjectsets/a => get
            GET /api/v1/configmaps?&watch=true&resourceVersion=0 => watch
            GET /api/v1/configmaps?allowWatchBookmarks=true&watch=1 => watch
            GET /api/v1/configmaps?watch=false => list
            GET /api/v1/configmaps?allowWatchBookmarks=true => list
            POST /api/v1/namespaces/a/configmaps => create
            POST /api/v1/namespaces/a/configmaps?dryRun=All => dry-run
            APPLY /api/v1/namespaces/a/configmaps/b?fieldManager=x => apply
            APPLY /api/v1/namespaces/a/configmaps/b?&dryRun=All&force=true => dry-run
            PATCH /api/v1/namespaces/a/configmaps/b => patch
            PATCH /api/v1/namespaces/a => patch
            PATCH /apis/apps/v1/namespaces/a/deployments/b/scale => patch
            PUT /api/v1/namespaces/a/configmaps/b => update
            PUT /api/v1/namespaces/a/finalize => update
            PUT /api/v1/namespaces/a/status => status
            PUT /apis/package-operator.run/v1alpha1/namespaces/a/objectsets/b/status => status
            PATCH /apis/package-operator.run/v1alpha1/clusterobjectsets/b/status => status
            DELETE /api/v1/namespaces/a/configmaps/b => delete
            DELETE /api/v1/namespaces/a/configmaps?labelSelector=a => delete
            DELETE /api/v1/namespaces/a => delete
            POST /apis/events.k8s.io/v1/namespaces/a/events => event
            PATCH /apis/events.k8s.io/v1/namespaces/a/events/b => event
            APPLY /apis/events.k8s.io/v1/namespaces/a/events/b?fieldManager=x => apply
            APPLY /api/v1/namespaces/a/events/b?fieldManager=x&dryRun=All => dry-run
            JSON-PATCH /api/v1/namespaces/a/events/b => patch
            DELETE /api/v1/namespaces/a/events/b => delete
            GET /api/v1/namespaces/a/events => list
            GET /apis/coordination.k8s.io/v1/namespaces/a/leases/b => lease
            POST /apis/coordination.k8s.io/v1/namespaces/a/leases => lease
            PUT /apis/coordination.k8s.io/v1/namespaces/a/leases/b => lease
            APPLY /apis/coordination.k8s.io/v1/namespaces/a/leases/b?fieldManager=x => apply
            APPLY /apis/coordination.k8s.io/v1/namespaces/a/leases/b?dryRun=All => dry-run
            JSON-PATCH /apis/coordination.k8s.io/v1/namespaces/a/leases/b => patch
            DELETE /apis/coordination.k8s.io/v1/namespaces/a/leases/b => delete
            GET /apis/coordination.k8s.io/v1/namespaces/a/leases?watch=true => watch";
        for row in table.lines().map(str::trim).filter(|row| !row.is_empty()) {
            let (request, expected) = row.split_once(" => ").unwrap();
            let (method, uri) = request.split_once(' ').unwrap();
            let (method, content_type) = match method {
                "APPLY" => ("PATCH", "application/apply-patch+yaml"),
                "PATCH" => ("PATCH", "application/merge-patch+json"),
                "JSON-PATCH" => ("PATCH", "application/json-patch+json"),
                other => (other, "application/json"),
            };
            let request = Request::builder()
                .method(method)
                .uri(uri)
                .header(CONTENT_TYPE, content_type);
            assert_eq!(
                Verb::of(&request.body(()).unwrap()).as_str(),
                expected,
                "{row}"
            );
        }
    }

    #[test]
    fn all_lists_every_label_in_order() {
        for (index, verb) in Verb::ALL.into_iter().enumerate() {
            assert_eq!(verb as usize, index, "{}", verb.as_str());
        }
        for (index, class) in CodeClass::ALL.into_iter().enumerate() {
            assert_eq!(class as usize, index, "{}", class.as_str());
        }
    }

    #[test]
    fn answers_fall_into_four_classes() {
        for (status, expected) in [
            (200, CodeClass::Success),
            (304, CodeClass::Success),
            (404, CodeClass::Refused),
            (409, CodeClass::Refused),
            (429, CodeClass::Refused),
            (500, CodeClass::Failed),
        ] {
            assert_eq!(
                CodeClass::of(StatusCode::from_u16(status).unwrap()),
                expected,
                "{status}"
            );
        }
    }

    /// Responds with the status in the path of the request; to `hang` never.
    async fn answer(request: Request<()>) -> Result<Response<()>, BoxError> {
        match request.uri().path().rsplit('/').next().unwrap_or_default() {
            "hang" => std::future::pending().await,
            "fail" => Err("connection refused".into()),
            status => Ok(Response::builder().status(status).body(())?),
        }
    }

    async fn send(metrics: &RequestMetrics, path: &str) -> Result<Response<()>, BoxError> {
        let mut service = CountRequests::new(metrics).layer(tower::service_fn(answer));
        service
            .call(Request::get(format!("/api/v1/pods/{path}")).body(())?)
            .await
    }

    #[tokio::test(start_paused = true)]
    async fn every_request_counts_once_however_it_ends() {
        let metrics = RequestMetrics::default();
        for status in ["200", "200", "404", "503"] {
            send(&metrics, status).await.unwrap();
        }
        send(&metrics, "fail").await.unwrap_err();
        let error = send(&metrics, "hang").await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "no answer from the API server within 65 s"
        );
        let given_up = tokio::time::timeout(Duration::from_secs(1), send(&metrics, "hang")).await;
        given_up.unwrap_err();

        let count = |class| metrics.counters[Verb::Get as usize][class as usize].get();
        assert_eq!(CodeClass::ALL.map(count), [2, 1, 1, 3]);
        assert_eq!(metrics.total(Verb::Get), 7);
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_has_no_response_timeout() {
        let metrics = RequestMetrics::default();
        let slow = |_request: Request<()>| async {
            tokio::time::sleep(RESPONSE_LIMIT * 3).await;
            Ok::<_, BoxError>(Response::new(()))
        };
        let mut service = CountRequests::new(&metrics).layer(tower::service_fn(slow));
        service
            .call(Request::get("/api/v1/pods?watch=true").body(()).unwrap())
            .await
            .unwrap();
        assert_eq!(metrics.total(Verb::Watch), 1);
    }
}
