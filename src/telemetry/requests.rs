//! What every request to an API server is counted as.
//!
//! [`Verb::of`] is a pure function of the request; [`CountRequests`] is the layer that applies it to a client.
//! The layer sits below retries, so each request that went over the wire counts once.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Method, Request, Response, StatusCode, header::CONTENT_TYPE};
use tower::{BoxError, Layer, Service};

use super::metrics::Metrics;

/// How long any request but a watch may take before it is given up.
///
/// The API server itself gives a request 60 s, so its own answer arrives first whenever there is one. What remains
/// is a connection that died without a word.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(65);

/// What a request does, as the label `verb` of `baton_api_requests_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Reads a collection.
    List,
    /// Opens a watch.
    Watch,
    /// Creates an object by `POST`.
    Create,
    /// Server-side apply that is persisted.
    Apply,
    /// Any write with `dryRun`; nothing is persisted.
    DryRun,
    /// A JSON, merge or strategic patch.
    Patch,
    /// Replaces an object by `PUT`.
    Update,
    /// Any write to a `status` subresource.
    Status,
    /// Deletes an object or a collection.
    Delete,
    /// Anything about Kubernetes Events.
    Event,
    /// Anything about Leases.
    Lease,
    /// API discovery, `OpenAPI`, version and health.
    Discovery,
}

impl Verb {
    /// Every verb, in the order of its discriminant.
    pub const ALL: [Self; 13] = [
        Self::Get,
        Self::List,
        Self::Watch,
        Self::Create,
        Self::Apply,
        Self::DryRun,
        Self::Patch,
        Self::Update,
        Self::Status,
        Self::Delete,
        Self::Event,
        Self::Lease,
        Self::Discovery,
    ];

    /// The label value.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Apply => "apply",
            Self::DryRun => "dry-run",
            Self::Patch => "patch",
            Self::Update => "update",
            Self::Status => "status",
            Self::Delete => "delete",
            Self::Event => "event",
            Self::Lease => "lease",
            Self::Discovery => "discovery",
        }
    }

    /// Whether a request of this verb changes what users stored. Events, leases and dry runs do not.
    #[must_use]
    pub const fn is_write(self) -> bool {
        match self {
            Self::Create
            | Self::Apply
            | Self::Patch
            | Self::Update
            | Self::Status
            | Self::Delete => true,
            Self::Get
            | Self::List
            | Self::Watch
            | Self::DryRun
            | Self::Event
            | Self::Lease
            | Self::Discovery => false,
        }
    }

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
struct Resource<'a> {
    group: &'a str,
    plural: &'a str,
    named: bool,
    subresource: Option<&'a str>,
}

impl<'a> Resource<'a> {
    /// Takes a path apart; `None` when it names no resource (discovery, version, health).
    fn parse(path: &'a str) -> Option<Self> {
        let mut segments = path.split('/').filter(|segment| !segment.is_empty());
        let group = match segments.next()? {
            "api" => "",
            "apis" => segments.next()?,
            _ => return None,
        };
        let _version = segments.next()?;
        let rest: Vec<&str> = segments.collect();
        // `namespaces/NAME/status` and `.../finalize` belong to the Namespace itself, any other third segment is
        // a resource inside of it.
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
}

fn classify(method: &Method, path: &str, query: &str, content_type: &str) -> Verb {
    let Some(resource) = Resource::parse(path) else {
        return Verb::Discovery;
    };
    match (resource.group, resource.plural) {
        ("" | "events.k8s.io", "events") => return Verb::Event,
        ("coordination.k8s.io", "leases") => return Verb::Lease,
        _ => {}
    }
    let parameter = |key: &str| {
        query
            .split('&')
            .find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='))
    };
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    if is_read {
        return match parameter("watch") {
            Some("true" | "1") => Verb::Watch,
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
    match *method {
        Method::POST => Verb::Create,
        Method::PATCH if content_type.starts_with("application/apply-patch") => Verb::Apply,
        Method::PATCH => Verb::Patch,
        Method::DELETE => Verb::Delete,
        _ => Verb::Update,
    }
}

/// How a request ended, as the label `code_class` of `baton_api_requests_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CodeClass {
    /// Answered with success.
    Success,
    /// Refused because of what was sent or what the server holds (not found, conflict, forbidden, throttled).
    Refused,
    /// Failed inside the server.
    Failed,
    /// No answer: the connection failed, the time ran out, or the caller gave up.
    NoAnswer,
}

impl CodeClass {
    /// Every class, in the order of its discriminant.
    pub const ALL: [Self; 4] = [Self::Success, Self::Refused, Self::Failed, Self::NoAnswer];

    /// The label value.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "2xx",
            Self::Refused => "4xx",
            Self::Failed => "5xx",
            Self::NoAnswer => "none",
        }
    }

    fn of(status: StatusCode) -> Self {
        match status.as_u16() {
            0..400 => Self::Success,
            400..500 => Self::Refused,
            _ => Self::Failed,
        }
    }
}

/// A request that took longer than the server itself would have given it.
#[derive(Debug, thiserror::Error)]
#[error("no answer from the API server within {} s", REQUEST_TIMEOUT.as_secs())]
pub struct Timeout;

/// Layer that counts requests by [`Verb`] and bounds how long any but a watch may take.
#[derive(Clone, Debug)]
pub struct CountRequests {
    metrics: Metrics,
}

impl CountRequests {
    /// Counts into `metrics`.
    #[must_use]
    pub fn new(metrics: &Metrics) -> Self {
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

/// The service made by [`CountRequests`].
#[derive(Clone, Debug)]
pub struct Counted<S> {
    inner: S,
    metrics: Metrics,
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
            // Moves the whole guard in here, not only the field that is assigned.
            let mut count = count;
            let response = if verb == Verb::Watch {
                // A watch is answered at once, but a server that starts up may hold it back for long.
                response.await.map_err(Into::into)?
            } else {
                let answered = tokio::time::timeout(REQUEST_TIMEOUT, response).await;
                answered.map_err(|_elapsed| Timeout)?.map_err(Into::into)?
            };
            count.class = CodeClass::of(response.status());
            Ok(response)
        })
    }
}

/// Counts on drop, so that a request whose caller gave up is counted too: it may have reached the server.
struct Count {
    metrics: Metrics,
    verb: Verb,
    class: CodeClass,
}

impl Drop for Count {
    fn drop(&mut self) {
        self.metrics.count_api_request(self.verb, self.class);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_classified_by_what_they_do() {
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
            GET /api/v1/namespaces/a/events => event
            GET /apis/coordination.k8s.io/v1/namespaces/a/leases/b => lease
            PUT /apis/coordination.k8s.io/v1/namespaces/a/leases/b => lease
            GET /apis/coordination.k8s.io/v1/namespaces/a/leases?watch=true => lease";
        for row in table.lines().map(str::trim).filter(|row| !row.is_empty()) {
            let (request, expected) = row.split_once(" => ").unwrap();
            let (method, uri) = request.split_once(' ').unwrap();
            let (method, content_type) = match method {
                "APPLY" => ("PATCH", "application/apply-patch+yaml"),
                "PATCH" => ("PATCH", "application/merge-patch+json"),
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

    /// Answers with the status in the request's path, and `hang` never.
    async fn answer(request: Request<()>) -> Result<Response<()>, BoxError> {
        match request.uri().path().rsplit('/').next().unwrap_or_default() {
            "hang" => std::future::pending().await,
            "fail" => Err("connection refused".into()),
            status => Ok(Response::builder().status(status).body(())?),
        }
    }

    async fn send(metrics: &Metrics, path: &str) -> Result<Response<()>, BoxError> {
        let mut service = CountRequests::new(metrics).layer(tower::service_fn(answer));
        service
            .call(Request::get(format!("/api/v1/pods/{path}")).body(())?)
            .await
    }

    #[tokio::test(start_paused = true)]
    async fn every_request_counts_once_however_it_ends() {
        let metrics = Metrics::new();
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

        let count = |class| metrics.api_requests_by_class(Verb::Get, class);
        assert_eq!(CodeClass::ALL.map(count), [2, 1, 1, 3]);
        assert_eq!(metrics.api_requests(Verb::Get), 7);
        assert_eq!(metrics.api_writes(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_may_take_as_long_as_it_likes() {
        let metrics = Metrics::new();
        let slow = |_request: Request<()>| async {
            tokio::time::sleep(REQUEST_TIMEOUT * 3).await;
            Ok::<_, BoxError>(Response::new(()))
        };
        let mut service = CountRequests::new(&metrics).layer(tower::service_fn(slow));
        service
            .call(Request::get("/api/v1/pods?watch=true").body(()).unwrap())
            .await
            .unwrap();
        assert_eq!(metrics.api_requests(Verb::Watch), 1);
    }
}
