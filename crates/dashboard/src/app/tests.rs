use std::convert::Infallible;

use axum::body::{Body, to_bytes};
use baton_cluster::Cluster;
use http::{
    HeaderMap, Method,
    header::{CONTENT_SECURITY_POLICY, COOKIE, HOST, SET_COOKIE},
};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::*;

const SET: &str = "/apis/package-operator.run/v1alpha1/namespaces/shop/objectsets";

/// A server with a revision whose texts are hostile. It refuses everything in the namespace `closed`.
fn answer(path: &str, query: &str) -> Option<(u16, Value)> {
    if query.contains("watch=true") {
        return None;
    }
    if path.contains("/namespaces/closed/") {
        let message = "objectsets is forbidden: User \"eve\" cannot list resource";
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "reason": "Forbidden",
            "message": message,
        });
        return Some((403, status));
    }
    let evil = "<img src=x onerror=alert(1)>\u{202e}";
    let set = json!({
        "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSet",
        "metadata": {
            "name": "web-1", "namespace": "shop", "uid": "u1", "generation": 1,
            "annotations": {"kubernetes.io/change-cause": evil},
        },
        "spec": {"revision": 1, "phases": [{"name": evil, "objects": []}]},
        "status": {"conditions": [{
            "type": "Available", "status": "False", "reason": "ProbeFailure", "message": evil,
            "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]},
    });
    let items = if path == SET { vec![set] } else { Vec::new() };
    let list = json!({
        "kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items,
    });
    Some((200, list))
}

fn dashboard() -> (Router, Key) {
    let answer = |request: http::Request<kube::client::Body>| {
        let uri = request.uri();
        let answer = answer(uri.path(), uri.query().unwrap_or_default());
        async move {
            let (code, body) = match answer {
                Some(answer) => answer,
                // A watch without changes.
                None => std::future::pending().await,
            };
            let body = kube::client::Body::from(body.to_string().into_bytes());
            let response = http::Response::builder().status(code).body(body);
            Ok::<_, Infallible>(response.unwrap())
        }
    };
    let client = kube::Client::new(tower::service_fn(answer), "shop");
    let warn = Arc::new(|_: &str| {});
    let cluster = Cluster::new(client, "shop".to_owned(), "a recording".to_owned(), warn);
    dashboard_of(cluster, false)
}

/// A dashboard on this machine, with its key.
pub(super) fn dashboard_of(cluster: Cluster, has_actions: bool) -> (Router, Key) {
    let key = Key::random().unwrap();
    let dashboard = Dashboard {
        title: cluster.server.clone(),
        entry: Entry::Own(Own {
            key: key.clone(),
            port: 8080,
            start: "/".to_owned(),
            viewer: Viewer::alone(cluster),
        }),
        frame: Frame {
            base: String::new(),
            has_actions,
            has_reports: true,
        },
        feeds: Feeds::default(),
        threads: Arc::new(Semaphore::new(THREADS)),
    };
    (Arc::new(dashboard).router(), key)
}

async fn get(
    router: &Router,
    path: &str,
    host: &str,
    cookie: &str,
) -> (StatusCode, HeaderMap, String) {
    let request = http::Request::builder()
        .method(Method::GET)
        .uri(path)
        .header(HOST, host)
        .header(COOKIE, cookie);
    let response = router
        .clone()
        .oneshot(request.body(Body::empty()).unwrap())
        .await
        .unwrap();
    let (parts, body) = response.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    (
        parts.status,
        parts.headers,
        String::from_utf8(body.to_vec()).unwrap(),
    )
}

const HERE: &str = "localhost:8080";

#[tokio::test]
async fn only_browsers_with_the_key_are_let_in() {
    let (router, key) = dashboard();
    let own = format!("baton-8080={}", key.as_str());
    for (path, host, cookie, expected) in [
        ("/", HERE, "", 401),
        ("/", HERE, "baton-8080=x", 401),
        ("/", HERE, "baton-8081=x", 401),
        ("/assets/dashboard.js", HERE, "", 401),
        ("/?key=x", HERE, "", 401),
        ("/?key=x&key=y", HERE, "", 401),
        ("/", "evil.example:8080", &own, 403),
        ("/", HERE, &own, 200),
        ("/assets/dashboard.js", HERE, &own, 200),
        ("/assets/..%2fdashboard.js", HERE, &own, 404),
        ("/nothing", HERE, &own, 404),
        ("/chains/xx/shop/web", HERE, &own, 404),
        ("/chains/os/../web", HERE, &own, 404),
        ("/?namespace=..", HERE, &own, 404),
        ("/sites/a%2Fb/web", HERE, &own, 404),
    ] {
        let (status, headers, page) = get(&router, path, host, cookie).await;
        assert_eq!(status, expected, "{path} {host} {cookie}");
        let is_let_in = host == HERE && cookie == own;
        assert!(is_let_in || !page.contains("a recording"), "{page}");
        let policy = headers[CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(
            policy.contains("default-src 'none'") && !policy.contains("unsafe"),
            "{policy}"
        );
    }
    let (status, headers, page) = get(&router, &format!("/?key={}", key.as_str()), HERE, "").await;
    assert_eq!(status, 200);
    let cookie = headers[SET_COOKIE].to_str().unwrap();
    assert!(
        cookie.starts_with(&own)
            && cookie.contains("HttpOnly")
            && cookie.contains("SameSite=Strict")
    );
    assert!(!page.contains(key.as_str()), "{page}");
}

#[tokio::test]
async fn texts_of_the_cluster_are_no_markup() {
    let (router, key) = dashboard();
    let own = format!("baton-8080={}", key.as_str());
    let (status, _, page) = get(&router, "/chains/os/shop/web-1", HERE, &own).await;
    assert_eq!(status, 200, "{page}");
    assert!(
        page.contains("&lt;img src=x onerror=alert(1)&gt;"),
        "{page}"
    );
    assert!(
        !page.contains("<img") && !page.contains('\u{202e}'),
        "{page}"
    );
    // An address is repeated in an error.
    let (status, _, page) = get(&router, "/chains/os/shop/%3Cimg%3E", HERE, &own).await;
    assert_eq!(status, 404);
    assert!(!page.contains("<img"), "{page}");
}

#[tokio::test]
async fn a_refusal_is_shown_with_its_reason() {
    let (router, key) = dashboard();
    let own = format!("baton-8080={}", key.as_str());
    let (status, _, page) = get(&router, "/chains/os/closed/web-1", HERE, &own).await;
    assert_eq!(status, 403);
    assert!(
        page.contains("User &quot;eve&quot; cannot list resource"),
        "{page}"
    );
}

/// The events of a page begin with the content, unless the browser has it.
#[tokio::test(start_paused = true)]
async fn events_begin_where_the_page_ends() {
    use futures::StreamExt as _;
    let (router, key) = dashboard();
    let path = "/chains/os/shop/web-1";
    let (_, _, page) = get(&router, path, HERE, &format!("baton-8080={}", key.as_str())).await;
    let version = page.split_once("data-version=\"").unwrap().1;
    let version = version.split_once('"').unwrap().0;
    for (before, expected) in [("", "event: page"), (version, "event: regions")] {
        let request = http::Request::builder()
            .uri(path)
            .header(HOST, HERE)
            .header(COOKIE, format!("baton-8080={}", key.as_str()))
            .header(ACCEPT, "text/event-stream")
            .header("Last-Event-ID", before);
        let request = request.body(Body::empty()).unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        let mut events = response.into_body().into_data_stream();
        let first = events.next().await.unwrap().unwrap();
        let first = String::from_utf8(first.to_vec()).unwrap();
        assert!(first.contains(expected), "{first}");
    }
}
