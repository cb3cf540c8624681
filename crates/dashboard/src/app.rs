//! The server: addresses, and the viewer of a request.

use std::{io, net::SocketAddr, sync::Arc};

use axum::{
    Extension, Form, Router,
    extract::{DefaultBodyLimit, Path, Query, Request, State},
    middleware::{Next, from_fn, from_fn_with_state},
    response::{Html, IntoResponse as _, Redirect, Response, sse::Sse},
    routing::{get, post},
};
use baton_apis::url::escape;
use baton_cluster::Cluster;
use http::{
    HeaderMap, HeaderName, StatusCode,
    header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, SET_COOKIE},
};
use serde::Deserialize;
use tokio::net::TcpListener;

use crate::{
    assets::ASSETS,
    entry::{Entered, Entry, Own},
    events::events,
    failure::Failure,
    feeds::Feeds,
    guard::{Key, is_own_form, protect},
    layout::Layout,
    login::Login,
    pages::{
        Page,
        applications::ApplicationPage,
        chain::ChainPage,
        clusters::ClustersPage,
        overview::{OverviewFilter, OverviewPage},
        sites::{SitesFilter, SitesPage},
    },
    token::Token,
    viewer::Viewer,
};

/// The size of the largest form, in bytes.
const MAX_FORM: usize = 64 * 1024;

/// A dashboard.
pub struct Dashboard {
    entry: Entry,
    /// The name of the cluster.
    title: String,
    /// The path before those of all pages.
    base: String,
    feeds: Feeds,
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
    /// the future is dropped. `namespace` is that of the first page; all if it is `None`.
    ///
    /// # Errors
    /// If the system does not name the port of the listener.
    pub async fn serve(
        listener: TcpListener,
        cluster: Cluster,
        key: Key,
        namespace: Option<&str>,
    ) -> io::Result<()> {
        let dashboard = Self {
            title: cluster.server.clone(),
            base: String::new(),
            entry: Entry::Own(Own {
                port: listener.local_addr()?.port(),
                start: namespace.map_or_else(|| "/".to_owned(), |it| overview_of("", it)),
                viewer: Viewer::alone(cluster),
                key,
            }),
            feeds: Feeds::default(),
        };
        axum::serve(listener, Arc::new(dashboard).router()).await
    }

    /// The pages about a cluster for everybody who has a bearer token for it. `nobody` is the cluster
    /// with requests in nobody's name: each request gets the token of its viewer.
    #[must_use]
    pub fn for_tokens(nobody: Cluster, settings: Settings) -> (Router, Counts) {
        let Settings {
            title,
            base,
            token_header,
        } = settings;
        let dashboard = Self {
            entry: Entry::Login(Login::new(nobody, base.clone(), token_header)),
            title,
            base,
            feeds: Feeds::default(),
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
            .route("/", get(overview))
            .route("/chains/{kind}/{namespace}/{name}", get(chain))
            .route("/applications/{namespace}/{name}", get(application))
            .route("/sites/{namespace}/{name}", get(sites))
            .route("/clusters", get(clusters))
            .fallback(missing);
        if matches!(this.entry, Entry::Own(_)) {
            pages = pages.route("/assets/{name}", get(asset));
        }
        let mut router = pages.layer(from_fn_with_state(Arc::clone(&this), enter));
        if matches!(this.entry, Entry::Login(_)) {
            router = router
                .route("/assets/{name}", get(asset))
                .route("/login", get(login_page).post(log_in))
                .route("/logout", post(log_out));
        }
        if !this.base.is_empty() {
            let home = format!("{}/", this.base);
            let start = async move || Redirect::permanent(&home);
            router = Router::new()
                .route(&this.base, get(start))
                .nest(&format!("{}/", this.base), router);
        }
        router
            .layer(from_fn(protected))
            .layer(DefaultBodyLimit::max(MAX_FORM))
            .with_state(this)
    }

    fn layout<'a>(&'a self, visit: Option<&'a Visit>) -> Layout<'a> {
        Layout {
            base: &self.base,
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

    /// The page at an address, or its events. `page` is `None` if the address has none.
    async fn show<P: Page>(&self, visit: Visit, page: Option<P>) -> Response {
        let Some(page) = page else {
            return self.missing(&visit);
        };
        let open = match self.feeds.open(&visit.viewer, &self.base, page).await {
            Ok(open) => open,
            Err(failure) => return self.failure(&visit, &failure),
        };
        if let Some(before) = &visit.events_since {
            let stream = Sse::new(events(open, before.clone()));
            // Proxies would hold the events back.
            let unbuffered = (HeaderName::from_static("x-accel-buffering"), "no");
            return ([unbuffered], stream).into_response();
        }
        match open.first().await {
            Ok(shown) => {
                let trouble = shown.trouble.as_deref();
                let page = self.layout(Some(&visit)).page(&shown.rendered, trouble);
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

/// A request of a viewer.
#[derive(Clone)]
struct Visit {
    viewer: Arc<Viewer>,
    /// True if the browser can end the login.
    can_leave: bool,
    /// The name of the content that the browser has, if it wants events.
    events_since: Option<String>,
}

/// Adds the headers of all responses.
async fn protected(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    protect(response.headers_mut());
    response
}

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
        Entered::Login(why) if wants_events => {
            let why = why.map_or_else(|| "log in".to_owned(), |why| why.message);
            (StatusCode::UNAUTHORIZED, why).into_response()
        }
        Entered::Login(why) => {
            let path = uri.path_and_query().map_or("/", |it| it.as_str());
            this.login(&format!("{}{path}", this.base), why.as_ref())
        }
        Entered::Refused(response) => *response,
    }
}

type App = State<Arc<Dashboard>>;

async fn overview(
    State(this): App,
    Extension(visit): Extension<Visit>,
    Query(filter): Query<OverviewFilter>,
) -> Response {
    this.show(visit, OverviewPage::new(filter)).await
}

async fn chain(
    State(this): App,
    Extension(visit): Extension<Visit>,
    Path((kind, namespace, name)): Path<(String, String, String)>,
) -> Response {
    let page = ChainPage::new(&kind, &namespace, &name);
    this.show(visit, page).await
}

async fn application(
    State(this): App,
    Extension(visit): Extension<Visit>,
    Path((namespace, name)): Path<(String, String)>,
) -> Response {
    this.show(visit, ApplicationPage::new(&namespace, &name))
        .await
}

async fn sites(
    State(this): App,
    Extension(visit): Extension<Visit>,
    Path((namespace, name)): Path<(String, String)>,
    Query(filter): Query<SitesFilter>,
) -> Response {
    this.show(visit, SitesPage::new(&namespace, &name, filter))
        .await
}

async fn clusters(State(this): App, Extension(visit): Extension<Visit>) -> Response {
    this.show(visit, Some(ClustersPage)).await
}

async fn asset(Path(name): Path<String>) -> Response {
    let Some(asset) = ASSETS.iter().find(|asset| asset.name == name) else {
        return (StatusCode::NOT_FOUND, "this file does not exist").into_response();
    };
    // The address has the version of the content.
    let headers = [
        (CONTENT_TYPE, asset.media_type),
        (CACHE_CONTROL, "max-age=31536000, immutable"),
    ];
    (headers, asset.content).into_response()
}

async fn missing(State(this): App, Extension(visit): Extension<Visit>) -> Response {
    this.missing(&visit)
}

/// The address of the login page.
#[derive(Deserialize)]
struct LoginPage {
    next: Option<String>,
    /// Present after a login.
    done: Option<String>,
}

/// The login page. After a login, the page that was wanted.
async fn login_page(
    State(this): App,
    headers: HeaderMap,
    Query(asked): Query<LoginPage>,
) -> Response {
    let Entry::Login(login) = &this.entry else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let next = login.next(asked.next.as_deref());
    match login.enter(&headers).await {
        Entered::As { .. } => Redirect::to(&next).into_response(),
        Entered::Login(None) if asked.done.is_some() => {
            let message = "the browser has not kept the login: it keeps one over https and on localhost only, \
                           and with cookies";
            let failure = Failure::new(StatusCode::UNAUTHORIZED, message);
            this.login(&next, Some(&failure))
        }
        Entered::Login(why) => this.login(&next, why.as_ref()),
        Entered::Refused(response) => *response,
    }
}

/// The form of the login page.
#[derive(Deserialize)]
struct LoginForm {
    token: String,
    next: Option<String>,
}

async fn log_in(State(this): App, headers: HeaderMap, Form(form): Form<LoginForm>) -> Response {
    let Entry::Login(login) = &this.entry else {
        return StatusCode::NOT_FOUND.into_response();
    };
    if !is_own_form(&headers) {
        return other_page();
    }
    let next = login.next(form.next.as_deref());
    let token = Token::parse(&form.token);
    let token = token.map_err(|error| Failure::new(StatusCode::BAD_REQUEST, error.to_string()));
    let entered = match token {
        Ok(token) => login.viewer(token.clone()).await.map(|_| token),
        Err(failure) => Err(failure),
    };
    let token = match entered {
        Ok(token) => token,
        Err(failure) => return this.login(&next, Some(&failure)),
    };
    let done = format!("{}/login?done=1&next={}", this.base, escape(&next));
    with_cookies(Redirect::to(&done).into_response(), login, Some(&token))
}

async fn log_out(State(this): App, headers: HeaderMap) -> Response {
    let Entry::Login(login) = &this.entry else {
        return StatusCode::NOT_FOUND.into_response();
    };
    if !is_own_form(&headers) {
        return other_page();
    }
    let page = format!("{}/login", this.base);
    with_cookies(Redirect::to(&page).into_response(), login, None)
}

fn with_cookies(mut response: Response, login: &Login, token: Option<&Token>) -> Response {
    for cookie in login.cookies(token) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    response
}

fn other_page() -> Response {
    let message = "this form was not sent by a page of the dashboard";
    (StatusCode::FORBIDDEN, message).into_response()
}

#[cfg(test)]
mod tests;
