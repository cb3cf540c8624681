//! For any address and any token: requests to the API server stay within its collections, a viewer
//! without an accepted token sees nothing of the cluster, and a text of an address is no markup.

use std::{convert::Infallible, sync::Arc};

use axum::body::{Body, to_bytes};
use baton_cluster::Cluster;
use http::{Request, header::AUTHORIZATION};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::{tests::dashboard_of, *};

/// The name of the cluster on the pages.
const TITLE: &str = "the-name-of-the-cluster";
/// The only token that the server accepts.
const GOOD: &str = "good";
/// The request that checks a token.
const REVIEW: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

#[test]
fn addresses_and_tokens_lead_nowhere_else() {
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
    };
    bolero::check!(name = "addresses")
        .with_iterations(200)
        .for_each(|input: &[u8]| {
            let Ok(text) = str::from_utf8(input) else {
                return;
            };
            let (path, token) = text.split_once('\n').unwrap_or((text, ""));
            let Ok(uri) = format!("/{path}").parse::<http::Uri>() else {
                return;
            };
            let runtime = runtime().unwrap();
            runtime.block_on(check(&uri, token));
        });
}

/// The paths of the requests to the API server.
type Requests = Arc<Mutex<Vec<String>>>;

/// A server without objects, which accepts one token.
fn cluster(requests: &Requests) -> Cluster {
    let requests = Arc::clone(requests);
    let answer = move |request: Request<kube::client::Body>| {
        let path = request.uri().path().to_owned();
        let is_watch = request
            .uri()
            .query()
            .is_some_and(|it| it.contains("watch=true"));
        let token = request.headers().get(AUTHORIZATION).cloned();
        requests.lock().push(path.clone());
        async move {
            if is_watch {
                std::future::pending::<()>().await;
            }
            let is_good = token.is_none_or(|it| it == format!("Bearer {GOOD}"));
            let (code, body): (u16, Value) = match (&*path, is_good) {
                (_, false) => (
                    401,
                    json!({"kind": "Status", "code": 401, "message": "Unauthorized"}),
                ),
                (REVIEW, true) => (201, json!({"status": {"userInfo": {"username": "ann"}}})),
                _ => (
                    200,
                    json!({"kind": "List", "metadata": {"resourceVersion": "1"}, "items": []}),
                ),
            };
            let body = kube::client::Body::from(body.to_string().into_bytes());
            Ok::<_, Infallible>(http::Response::builder().status(code).body(body).unwrap())
        }
    };
    let client = kube::Client::new(tower::service_fn(answer), "shop");
    let warn = Arc::new(|_: &str| {});
    Cluster::new(client, "shop".to_owned(), TITLE.to_owned(), warn)
}

async fn check(uri: &http::Uri, token: &str) {
    let requests = Requests::default();
    let (router, key) = dashboard_of(cluster(&requests), true);
    let cookie = format!("baton-8080={}", key.as_str());
    get(router, uri, ("cookie", &cookie)).await;
    for path in std::mem::take(&mut *requests.lock()) {
        // Names are letters, digits, dots and dashes; anything else is no part of a path.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/.-_:".contains(c);
        let is_api = path.starts_with("/api/")
            || path.starts_with("/apis/")
            || path == "/api"
            || path == "/apis";
        assert!(
            is_api && !path.contains("..") && !path.contains("//"),
            "{uri}: {path}"
        );
        assert!(path.chars().all(is_plain), "{uri}: {path}");
    }
    let settings = Settings {
        title: TITLE.to_owned(),
        base: String::new(),
        token_header: HeaderName::from_static("x-token"),
        has_actions: true,
    };
    let (router, _) = Dashboard::for_tokens(cluster(&requests), settings);
    let Some((status, page)) = get(router, uri, ("x-token", token)).await else {
        return;
    };
    let is_good = crate::token::Token::parse(token).is_ok_and(|it| it.secret() == GOOD);
    if !is_good && !uri.path().starts_with("/assets/") {
        assert!(status.is_client_error(), "{uri} {token:?}: {status}");
        assert!(
            requests.lock().iter().all(|path| path == REVIEW),
            "{uri} {token:?}"
        );
        assert!(!page.contains("ann"), "{uri} {token:?}");
    }
}

/// The answer to a request; `None` if the header has no such value.
async fn get(
    router: Router,
    uri: &http::Uri,
    (name, value): (&'static str, &str),
) -> Option<(StatusCode, String)> {
    let request = Request::builder()
        .uri(uri)
        .header("host", "localhost:8080")
        .header(name, value)
        .body(Body::empty());
    let response = router.oneshot(request.ok()?).await.unwrap();
    let status = response.status();
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    let page = String::from_utf8(body.to_vec()).unwrap();
    let written = uri.to_string();
    // The beginning of a tag or the end of an attribute in the address is not that of the page.
    if status != StatusCode::OK || !uri.path().starts_with("/assets/") {
        for mark in ["<script>", "<img", "onerror="] {
            assert!(!page.contains(mark), "{written}: {page}");
        }
    }
    Some((status, page))
}
