//! The server: addresses, and the viewer of a request.

use std::{io, net::SocketAddr, sync::Arc};

use axum::{
    Router,
    extract::{Path, Query, Request, State},
    middleware::{Next, from_fn_with_state},
    response::{Html, IntoResponse as _, Response, sse::Sse},
    routing::get,
};
use baton_apis::url::escape;
use baton_cluster::Cluster;
use http::{
    HeaderMap, HeaderName, HeaderValue, StatusCode,
    header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, SET_COOKIE},
};
use serde::Deserialize;
use tokio::net::TcpListener;

use crate::{
    assets::ASSETS,
    events::events,
    failure::Failure,
    feed::Feeds,
    guard::{Key, cookie, is_of_other_page, is_own_host, protect},
    layout::{Layout, entrance},
    pages::{
        Page,
        applications::ApplicationPage,
        chain::ChainPage,
        clusters::ClustersPage,
        overview::{OverviewFilter, OverviewPage},
        sites::{SitesFilter, SitesPage},
    },
};

/// A dashboard for one user, on this machine.
pub struct Dashboard {
    cluster: Cluster,
    key: Key,
    port: u16,
    /// The address of the first page.
    start: String,
    feeds: Feeds,
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
            port: listener.local_addr()?.port(),
            start: namespace.map_or_else(|| "/".to_owned(), overview_of),
            cluster,
            key,
            feeds: Feeds::default(),
        };
        axum::serve(listener, dashboard.router()).await
    }

    /// The address that a browser opens first.
    #[must_use]
    pub fn address(listener: SocketAddr, key: &Key) -> String {
        format!("http://{listener}/?key={}", key.as_str())
    }

    fn router(self) -> Router {
        let this = Arc::new(self);
        Router::new()
            .route("/", get(overview))
            .route("/chains/{kind}/{namespace}/{name}", get(chain))
            .route("/applications/{namespace}/{name}", get(application))
            .route("/sites/{namespace}/{name}", get(sites))
            .route("/clusters", get(clusters))
            .route("/assets/{name}", get(asset))
            .fallback(missing)
            .layer(from_fn_with_state(Arc::clone(&this), guard))
            .with_state(this)
    }

    fn layout(&self) -> Layout<'_> {
        Layout {
            base: "",
            cluster: &self.cluster.server,
        }
    }

    fn failure(&self, failure: &Failure) -> Response {
        // A user may have rights in one namespace only.
        let way_out = (failure.status == StatusCode::FORBIDDEN).then(|| {
            (
                overview_of(&self.cluster.namespace),
                &*self.cluster.namespace,
            )
        });
        let page = self.layout().failure(failure, way_out).into_string();
        (failure.status, Html(page)).into_response()
    }

    /// Name of the cookie with the key. Cookies do not distinguish ports.
    fn cookie(&self) -> String {
        format!("baton-{}", self.port)
    }

    /// The response to an address without a page.
    fn missing(&self) -> Response {
        let failure = Failure::new(StatusCode::NOT_FOUND, "this page does not exist");
        self.failure(&failure)
    }

    /// The page at an address, or its events. `page` is `None` if the address has none.
    async fn show<P: Page>(&self, headers: &HeaderMap, page: Option<P>) -> Response {
        let Some(page) = page else {
            return self.missing();
        };
        let feed = match self.feeds.of(&self.cluster, "", page) {
            Ok(feed) => feed,
            Err(failure) => return self.failure(&failure),
        };
        let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        if text(&ACCEPT).is_some_and(|accept| accept.contains("text/event-stream")) {
            let before = text(&HeaderName::from_static("last-event-id"));
            let stream = Sse::new(events(feed, before.unwrap_or_default().to_owned()));
            // Proxies would hold the events back.
            let unbuffered = (HeaderName::from_static("x-accel-buffering"), "no");
            return ([unbuffered], stream).into_response();
        }
        match feed.first().await {
            Ok((rendered, trouble)) => {
                let page = self.layout().page(&rendered, trouble.as_deref());
                Html(page.into_string()).into_response()
            }
            Err(failure) => self.failure(&failure),
        }
    }
}

/// The address of the overview of a namespace.
fn overview_of(namespace: &str) -> String {
    format!("/?namespace={}", escape(namespace))
}

/// The key in the first address.
#[derive(Deserialize)]
struct FirstVisit {
    key: Option<String>,
}

/// Lets in browsers that have the key, under the names of this machine.
async fn guard(State(this): State<Arc<Dashboard>>, request: Request, next: Next) -> Response {
    let mut response = enter(&this, request, next).await;
    protect(response.headers_mut());
    response
}

async fn enter(this: &Dashboard, request: Request, next: Next) -> Response {
    let headers = request.headers();
    if !is_own_host(headers, this.port) {
        return refused(StatusCode::FORBIDDEN, "this dashboard is at localhost only");
    }
    if is_of_other_page(headers) {
        return refused(StatusCode::FORBIDDEN, "another page has sent this request");
    }
    let name = this.cookie();
    let visit = Query::<FirstVisit>::try_from_uri(request.uri());
    let given = visit.ok().and_then(|Query(visit)| visit.key);
    if given.is_some_and(|given| this.key.is(&given)) {
        let cookie = format!(
            "{name}={}; Path=/; HttpOnly; SameSite=Strict",
            this.key.as_str()
        );
        // After a redirect, browsers would not send the cookie if another page led here.
        let mut response = Html(entrance(&this.start).into_string()).into_response();
        if let Ok(cookie) = HeaderValue::from_str(&cookie) {
            response.headers_mut().insert(SET_COOKIE, cookie);
        }
        return response;
    }
    if cookie(headers, &name).is_some_and(|value| this.key.is(value)) {
        return next.run(request).await;
    }
    let message = "open the address that `kubectl baton dashboard` has printed";
    refused(StatusCode::UNAUTHORIZED, message)
}

/// The response to a browser that is not let in. It has nothing of the cluster.
fn refused(status: StatusCode, message: &'static str) -> Response {
    (status, message).into_response()
}

type App = State<Arc<Dashboard>>;

async fn overview(
    State(this): App,
    headers: HeaderMap,
    Query(filter): Query<OverviewFilter>,
) -> Response {
    this.show(&headers, OverviewPage::new(filter)).await
}

async fn chain(
    State(this): App,
    headers: HeaderMap,
    Path((kind, namespace, name)): Path<(String, String, String)>,
) -> Response {
    this.show(&headers, ChainPage::new(&kind, &namespace, &name))
        .await
}

async fn application(
    State(this): App,
    headers: HeaderMap,
    Path((namespace, name)): Path<(String, String)>,
) -> Response {
    this.show(&headers, ApplicationPage::new(&namespace, &name))
        .await
}

async fn sites(
    State(this): App,
    headers: HeaderMap,
    Path((namespace, name)): Path<(String, String)>,
    Query(filter): Query<SitesFilter>,
) -> Response {
    this.show(&headers, SitesPage::new(&namespace, &name, filter))
        .await
}

async fn clusters(State(this): App, headers: HeaderMap) -> Response {
    this.show(&headers, Some(ClustersPage)).await
}

async fn asset(State(this): App, Path(name): Path<String>) -> Response {
    let Some(asset) = ASSETS.iter().find(|asset| asset.name == name) else {
        return this.missing();
    };
    // The address has the version of the content.
    let headers = [
        (CONTENT_TYPE, asset.media_type),
        (CACHE_CONTROL, "max-age=31536000, immutable"),
    ];
    (headers, asset.content).into_response()
}

async fn missing(State(this): App) -> Response {
    this.missing()
}

#[cfg(test)]
mod tests;
