//! The server: addresses, and the viewer of a request.

mod addresses;
mod login;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    body::to_bytes,
    extract::{DefaultBodyLimit, Request, State},
    middleware::{Next, from_fn, from_fn_with_state},
    response::{Html, IntoResponse as _, Redirect, Response, sse::Sse},
    routing::{get, post},
};
use baton_apis::url::escape;
use baton_cluster::Cluster;
use baton_pages::page::{Frame, Page};
use http::{HeaderName, Method, StatusCode, header::ACCEPT};
use tokio::{
    net::TcpListener,
    runtime::Handle,
    sync::Semaphore,
    task::spawn_blocking,
    time::{error::Elapsed, timeout},
};

use crate::{
    actions::{self, Fields, Subject},
    entry::{Entered, Entry, Own},
    events::events,
    failure::Failure,
    feeds::{FIRST, Feeds},
    guard::{Key, is_own_form, protect},
    layout::Layout,
    login::Login,
    reports::Report,
    viewer::Viewer,
};

/// The size of the largest form, in bytes.
const MAX_FORM: usize = 64 * 1024;

/// The number of pages that are made at the same time, each on a thread of its own.
const THREADS: usize = 16;
/// The longest wait for such a thread.
const TURN: Duration = Duration::from_secs(20);
/// The longest time for such a page.
const LONGEST: Duration = Duration::from_mins(2);
/// The longest time in which a browser sends a form.
const SENT: Duration = Duration::from_secs(10);

/// A dashboard.
pub struct Dashboard {
    entry: Entry,
    /// The name of the cluster.
    title: String,
    frame: Frame,
    feeds: Feeds,
    threads: Arc<Semaphore>,
}

/// The settings of a dashboard in a cluster.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name of the cluster on the pages.
    pub title: String,
    /// The path before those of all pages, such as `/baton`; empty for none.
    pub base: String,
    /// The header in which a proxy sends the bearer tokens of viewers.
    pub token_header: HeaderName,
    /// True if the pages lead to changes of rollouts.
    pub has_actions: bool,
}

/// The numbers of open pages and of feeds, for metrics.
pub struct Counts(Arc<Dashboard>);

impl Counts {
    /// The number of pages that viewers have open.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.0.feeds.counts().0
    }

    /// The number of questions that are followed by watches, for one or several pages each.
    #[must_use]
    pub fn feeds(&self) -> usize {
        self.0.feeds.counts().1
    }
}

impl Dashboard {
    /// Serves pages about a cluster to browsers that have the key, on a listener of this machine, until
    /// the future is dropped. `namespace` is that of the first page; all if it is `None`. With
    /// `has_actions`, the pages lead to changes of rollouts.
    ///
    /// # Errors
    /// If the system does not name the port of the listener.
    pub async fn serve(
        listener: TcpListener,
        cluster: Cluster,
        key: Key,
        namespace: Option<&str>,
        has_actions: bool,
    ) -> io::Result<()> {
        let dashboard = Self {
            title: cluster.server.clone(),
            frame: Frame {
                base: String::new(),
                has_actions,
                has_reports: true,
            },
            entry: Entry::Own(Own {
                port: listener.local_addr()?.port(),
                start: namespace.map_or_else(|| "/".to_owned(), |it| overview_of("", it)),
                viewer: Viewer::alone(cluster),
                key,
            }),
            feeds: Feeds::default(),
            threads: Arc::new(Semaphore::new(THREADS)),
        };
        axum::serve(listener, Arc::new(dashboard).router()).await
    }

    /// The pages about a cluster for everybody who has a bearer token for it. `nobody` is the cluster
    /// with requests in nobody's name: each request gets the token of its viewer.
    pub fn for_tokens(nobody: Cluster, settings: Settings) -> (Router, Counts) {
        let Settings {
            title,
            base,
            token_header,
            has_actions,
        } = settings;
        let dashboard = Self {
            entry: Entry::Login(Box::new(Login::new(nobody, base.clone(), token_header))),
            title,
            frame: Frame {
                base,
                has_actions,
                has_reports: true,
            },
            feeds: Feeds::default(),
            threads: Arc::new(Semaphore::new(THREADS)),
        };
        let dashboard = Arc::new(dashboard);
        (Arc::clone(&dashboard).router(), Counts(dashboard))
    }

    /// The address that a browser opens first.
    #[must_use]
    pub fn address(listener: SocketAddr, key: &Key) -> String {
        format!("http://{listener}/?key={}", key.as_str())
    }

    fn router(self: Arc<Self>) -> Router {
        let this = self;
        let mut pages = Router::new()
            .route("/", get(addresses::overview))
            .route("/chains/{kind}/{namespace}/{name}", get(addresses::chain))
            .route(
                "/chains/{kind}/{namespace}/{name}/diff",
                get(addresses::diff),
            )
            .route(
                "/chains/{kind}/{namespace}/{name}/revision",
                get(addresses::revision),
            )
            .route(
                "/applications/{namespace}/{name}",
                get(addresses::application),
            )
            .route("/sites/{namespace}/{name}", get(addresses::sites))
            .route("/clusters", get(addresses::clusters))
            .fallback(addresses::missing);
        if this.frame.has_actions {
            pages = pages
                .route(
                    "/chains/{kind}/{namespace}/{name}/actions/{action}",
                    get(addresses::preview_chain).post(addresses::perform_chain),
                )
                .route(
                    "/{page}/{namespace}/{name}/actions/{action}",
                    get(addresses::preview_other).post(addresses::perform_other),
                );
        }
        if matches!(this.entry, Entry::Own(_)) {
            pages = pages.route("/assets/{name}", get(addresses::asset));
        }
        let mut router = pages.layer(from_fn_with_state(Arc::clone(&this), enter));
        if matches!(this.entry, Entry::Login(_)) {
            router = router
                .route("/assets/{name}", get(addresses::asset))
                .route("/login", get(login::login_page).post(login::log_in))
                .route("/logout", post(login::log_out));
        }
        if !this.frame.base.is_empty() {
            let home = format!("{}/", this.frame.base);
            let start = async move || Redirect::permanent(&home);
            router = Router::new()
                .route(&this.frame.base, get(start))
                .nest(&format!("{}/", this.frame.base), router);
        }
        router
            .layer(from_fn(protected))
            .layer(DefaultBodyLimit::max(MAX_FORM))
            .with_state(this)
    }

    fn layout<'a>(&'a self, visit: Option<&'a Visit>) -> Layout<'a> {
        Layout {
            base: &self.frame.base,
            cluster: &self.title,
            user: visit.and_then(|visit| visit.viewer.name()),
            can_leave: visit.is_some_and(|visit| visit.can_leave),
        }
    }

    fn failure(&self, visit: &Visit, failure: &Failure) -> Response {
        // A user may have rights in one namespace only.
        let namespace = &*visit.viewer.cluster.namespace;
        let way_out = (failure.status == StatusCode::FORBIDDEN).then_some(namespace);
        let page = self.layout(Some(visit)).failure(failure, way_out);
        (failure.status, Html(page.into_string())).into_response()
    }

    /// The response to an address without a page.
    fn missing(&self, visit: &Visit) -> Response {
        let failure = Failure::new(StatusCode::NOT_FOUND, "this page does not exist");
        self.failure(visit, &failure)
    }

    /// The login page. `next` is the address of the page to go to, and `why` the reason that a login is
    /// necessary or has failed.
    fn login(&self, next: &str, why: Option<&Failure>) -> Response {
        let page = self.layout(None).login(next, why).into_string();
        (StatusCode::UNAUTHORIZED, Html(page)).into_response()
    }

    /// A page that is made once.
    fn report(&self, visit: &Visit, report: Result<Report, Failure>) -> Response {
        match report {
            Ok(report) => {
                let page = self.layout(Some(visit)).report(&report);
                Html(page.into_string()).into_response()
            }
            Err(failure) => self.failure(visit, &failure),
        }
    }

    /// The page with the effects of a change. `subject` is `None` if the address names no object.
    async fn preview(
        &self,
        visit: &Visit,
        action: &str,
        subject: Option<Subject>,
        fields: Fields,
    ) -> Response {
        let (Some(subject), Ok(action)) = (subject, action.parse()) else {
            return self.missing(visit);
        };
        let (cluster, base) = self.subjects(visit);
        let preview =
            async move || Ok(actions::preview(&cluster, &base, action, &subject, &fields).await);
        match self.aside(visit, Some(LONGEST), preview).await {
            Ok(Ok(report)) => self.report(visit, Ok(report)),
            Ok(Err((failure, report))) => self.refused(visit, &failure, &report),
            Err(failure) => self.failure(visit, &failure),
        }
    }

    /// Makes a change, and leads to the page of its object.
    async fn perform(
        &self,
        visit: &Visit,
        action: &str,
        subject: Option<Subject>,
        fields: Fields,
    ) -> Response {
        let (Some(subject), Ok(action)) = (subject, action.parse()) else {
            return self.missing(visit);
        };
        let (cluster, base) = self.subjects(visit);
        let perform = async move || {
            let done = actions::perform(&cluster, action, &subject, &fields).await;
            let done = done.map_err(|error| {
                let report = actions::refused(&base, action, &subject, &error);
                (Failure::from(error), report)
            });
            let done = done.map(|remarks| {
                let report = || actions::done(&base, action, &subject, &remarks);
                let report = (!remarks.is_empty()).then(report);
                (subject.address(&base), report)
            });
            Ok(done)
        };
        match self.aside(visit, None, perform).await {
            Ok(Ok((address, None))) => Redirect::to(&address).into_response(),
            Ok(Ok((_, Some(report)))) => self.report(visit, Ok(report)),
            Ok(Err((failure, report))) => self.refused(visit, &failure, &report),
            Err(failure) => self.failure(visit, &failure),
        }
    }

    /// The page with the reason that a change is not possible.
    fn refused(&self, visit: &Visit, failure: &Failure, report: &Report) -> Response {
        let page = self.layout(Some(visit)).report(report);
        (failure.status, Html(page.into_string())).into_response()
    }

    /// The cluster of a viewer, and the path before those of all pages.
    fn subjects(&self, visit: &Visit) -> (Cluster, String) {
        (visit.viewer.cluster.clone(), self.frame.base.clone())
    }

    /// Does work on a thread of its own: comparisons of large objects take long. It goes on if the
    /// browser leaves, until its time is up. Changes have no limit, as they must not be cut off.
    async fn aside<T: Send + 'static>(
        &self,
        visit: &Visit,
        longest: Option<Duration>,
        work: impl AsyncFnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        // Those of a viewer first, so that one viewer takes no place of others.
        let own = Arc::clone(&visit.viewer.threads);
        let all = Arc::clone(&self.threads);
        let places = async { (own.acquire_owned().await, all.acquire_owned().await) };
        let busy = "the dashboard is busy with other pages; try again";
        let busy = |_| Failure::new(StatusCode::SERVICE_UNAVAILABLE, busy);
        let places = timeout(TURN, places).await.map_err(busy)?;
        let runtime = Handle::current();
        let done = spawn_blocking(move || {
            // They are free when the work has ended.
            let _places = places;
            let late = |_| {
                let message = "the API server takes too long for this page";
                Err(Failure::new(StatusCode::GATEWAY_TIMEOUT, message))
            };
            runtime.block_on(async {
                match longest {
                    Some(longest) => timeout(longest, work()).await.unwrap_or_else(late),
                    None => work().await,
                }
            })
        });
        done.await.unwrap_or_else(|_| {
            let message = "the page cannot be drawn";
            Err(Failure::new(StatusCode::INTERNAL_SERVER_ERROR, message))
        })
    }

    /// The page at an address, or its events. `page` is `None` if the address has none.
    async fn show<P: Page>(&self, visit: Visit, page: Option<P>) -> Response {
        let Some(page) = page else {
            return self.missing(&visit);
        };
        let open = self.feeds.open(&visit.viewer, &self.frame, page);
        let open = match timeout(FIRST, open)
            .await
            .unwrap_or_else(|late| Err(too_late(late)))
        {
            Ok(open) => open,
            // The script shows texts only.
            Err(failure) if visit.events_since.is_some() => {
                return (failure.status, failure.message).into_response();
            }
            Err(failure) => return self.failure(&visit, &failure),
        };
        if let Some(before) = &visit.events_since {
            let stream = Sse::new(events(open, before.clone()));
            // Proxies would hold the events back.
            let unbuffered = (HeaderName::from_static("x-accel-buffering"), "no");
            return ([unbuffered], stream).into_response();
        }
        let first = timeout(FIRST, open.first()).await;
        match first.unwrap_or_else(|late| Err(too_late(late))) {
            Ok(shown) => {
                let trouble = shown.trouble.as_deref();
                let page = self.layout(Some(&visit)).page(&shown, trouble);
                Html(page.into_string()).into_response()
            }
            Err(failure) => self.failure(&visit, &failure),
        }
    }
}

/// The address of the overview of a namespace.
pub(crate) fn overview_of(base: &str, namespace: &str) -> String {
    format!("{base}/?namespace={}", escape(namespace))
}

/// The failure of a page that the API server takes too long for.
fn too_late(_: Elapsed) -> Failure {
    let seconds = FIRST.as_secs();
    let message = format!("the API server has not answered within {seconds} s");
    Failure::new(StatusCode::GATEWAY_TIMEOUT, message)
}

/// A request of a viewer.
#[derive(Clone)]
struct Visit {
    viewer: Arc<Viewer>,
    /// True if the browser can end the login.
    can_leave: bool,
    /// The name of the content that the browser has, if it wants events.
    events_since: Option<String>,
}

/// Adds the headers of all responses, and refuses forms of other pages and those that take too long.
async fn protected(request: Request, next: Next) -> Response {
    let mut response = match form(request).await {
        Ok(request) => next.run(request).await,
        Err(refused) => refused,
    };
    protect(response.headers_mut());
    response
}

/// A request whose form was read, if it has one.
async fn form(request: Request) -> Result<Request, Response> {
    if request.method() != Method::POST {
        return Ok(request);
    }
    if !is_own_form(request.headers()) {
        return Err(other_page());
    }
    let (parts, body) = request.into_parts();
    match timeout(SENT, to_bytes(body, MAX_FORM)).await {
        Ok(Ok(read)) => Ok(Request::from_parts(parts, read.into())),
        Ok(Err(_)) => Err(StatusCode::PAYLOAD_TOO_LARGE.into_response()),
        Err(_) => Err(StatusCode::REQUEST_TIMEOUT.into_response()),
    }
}

/// The dashboard of a request.
type App = State<Arc<Dashboard>>;

/// Lets in viewers.
async fn enter(State(this): App, mut request: Request, next: Next) -> Response {
    let (headers, uri) = (request.headers().clone(), request.uri().clone());
    let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let wants_events = text(&ACCEPT).is_some_and(|accept| accept.contains("text/event-stream"));
    let before = text(&HeaderName::from_static("last-event-id")).unwrap_or_default();
    match this.entry.enter(&headers, &uri).await {
        Entered::As { viewer, can_leave } => {
            request.extensions_mut().insert(Visit {
                viewer,
                can_leave,
                events_since: wants_events.then(|| before.to_owned()),
            });
            next.run(request).await
        }
        Entered::Failed(failure) if wants_events => {
            (failure.status, failure.message).into_response()
        }
        Entered::Failed(failure) => {
            let page = this.layout(None).failure(&failure, None).into_string();
            (failure.status, Html(page)).into_response()
        }
        Entered::Login(why) if wants_events => {
            let why = why.map_or_else(|| "log in".to_owned(), |why| why.message);
            (StatusCode::UNAUTHORIZED, why).into_response()
        }
        Entered::Login(why) => {
            let path = uri.path_and_query().map_or("/", |it| it.as_str());
            this.login(&format!("{}{path}", this.frame.base), why.as_ref())
        }
        Entered::Refused(response) => *response,
    }
}

/// The response to a form of another page.
fn other_page() -> Response {
    let message = "this form was not sent by a page of the dashboard";
    (StatusCode::FORBIDDEN, message).into_response()
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
