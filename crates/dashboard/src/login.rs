//! The login of viewers by their bearer tokens, for a dashboard in a cluster.
//!
//! There are no sessions: the browser keeps the token in a cookie that scripts cannot read, or a proxy
//! adds it to each request. Viewers are remembered for a few minutes, as their reviews are.

use std::{
    collections::HashMap,
    sync::{Arc, Weak, atomic::AtomicUsize},
    time::Duration,
};

use baton_cluster::Cluster;
use baton_kubernetes::wire::MediaType;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use parking_lot::Mutex;
use serde_json::json;
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};

use crate::{
    failure::Failure,
    guard::cookie,
    token::{Token, TokenError, TokenId},
    viewer::Viewer,
};

/// The time for which the server's word about a token is valid.
const VALID: Duration = Duration::from_mins(10);
/// The number of viewers that are remembered.
const MAX_VIEWERS: usize = 1_000;
/// The number of tokens that are checked at the same time: anybody can send some.
const MAX_CHECKS: usize = 8;
/// The longest wait for such a check.
const TURN: Duration = Duration::from_secs(10);
/// The time for which a refused token is not checked again.
const REFUSED: Duration = Duration::from_secs(5);
/// The longest part of a token in a cookie, in bytes. Browsers keep 4,096 with the name and the
/// attributes.
const PART: usize = 3_500;
/// The number of parts of the longest token.
const PARTS: usize = 5;

/// The login of a dashboard.
pub(crate) struct Login {
    /// The cluster, with requests in nobody's name.
    nobody: Cluster,
    /// The path before those of all pages.
    base: String,
    /// The header in which a proxy sends tokens.
    header: HeaderName,
    viewers: Mutex<HashMap<TokenId, (Instant, Arc<Viewer>)>>,
    /// The number of pages of each user.
    pages: Mutex<HashMap<String, Weak<AtomicUsize>>>,
    /// Tokens that the API server has just refused.
    refused: Mutex<HashMap<TokenId, Instant>>,
    checks: Semaphore,
}

/// The place of a token in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A header that a proxy adds.
    Header,
    /// The cookie of the login page.
    Cookie,
}

impl Login {
    pub(crate) fn new(nobody: Cluster, base: String, header: HeaderName) -> Self {
        Self {
            nobody,
            base,
            header,
            viewers: Mutex::default(),
            pages: Mutex::default(),
            refused: Mutex::default(),
            checks: Semaphore::new(MAX_CHECKS),
        }
    }

    /// The token of a request; `None` if there is none.
    pub(crate) fn token(&self, headers: &HeaderMap) -> Option<(Place, Result<Token, TokenError>)> {
        if let Some(token) = Token::of_header(headers, &self.header) {
            return Some((Place::Header, token));
        }
        let parts = (0..PARTS).map_while(|part| cookie(headers, &self.cookie(part)));
        let text: String = parts.collect();
        (!text.is_empty()).then(|| (Place::Cookie, Token::parse(&text)))
    }

    /// The viewer with a token.
    ///
    /// # Errors
    /// If the API server does not accept the token, or does not answer.
    pub(crate) async fn viewer(&self, token: Token) -> Result<Arc<Viewer>, Failure> {
        let id = token.id();
        let known = |viewers: &HashMap<TokenId, (Instant, Arc<Viewer>)>| {
            let (since, viewer) = viewers.get(&id)?;
            (since.elapsed() < VALID).then(|| Arc::clone(viewer))
        };
        if let Some(viewer) = known(&self.viewers.lock()) {
            return Ok(viewer);
        }
        let is_refused = |since: &Instant| since.elapsed() < REFUSED;
        if self.refused.lock().get(&id).is_some_and(is_refused) {
            return Err(not_accepted());
        }
        let busy = |_| {
            let message = "too many logins at a time; try again";
            Failure::new(StatusCode::SERVICE_UNAVAILABLE, message)
        };
        let _check = timeout(TURN, self.checks.acquire()).await.map_err(busy)?;
        if let Some(viewer) = known(&self.viewers.lock()) {
            return Ok(viewer);
        }
        let checked = self.check(&token).await;
        if checked
            .as_ref()
            .is_err_and(|it| it.status == StatusCode::UNAUTHORIZED)
        {
            let mut refused = self.refused.lock();
            refused.retain(|_, since| is_refused(since));
            if refused.len() < MAX_VIEWERS {
                refused.insert(id, Instant::now());
            }
        }
        let name = checked?;
        let pages = name
            .as_ref()
            .map(|name| self.pages_of(name))
            .unwrap_or_default();
        let viewer = Viewer::new(&self.nobody, token, name, pages);
        let mut viewers = self.viewers.lock();
        viewers.retain(|_, (since, _)| since.elapsed() < VALID);
        if viewers.len() >= MAX_VIEWERS {
            let oldest = viewers.iter().min_by_key(|(_, (since, _))| *since);
            if let Some(id) = oldest.map(|(id, _)| *id) {
                viewers.remove(&id);
            }
        }
        viewers.insert(id, (Instant::now(), Arc::clone(&viewer)));
        Ok(viewer)
    }

    /// The number of pages that a user looks at, with any token.
    fn pages_of(&self, user: &str) -> Arc<AtomicUsize> {
        let mut users = self.pages.lock();
        users.retain(|_, pages| pages.strong_count() > 0);
        let known = users.get(user).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let pages = Arc::default();
            users.insert(user.to_owned(), Arc::downgrade(&pages));
            pages
        })
    }

    /// The name of the user of a token; `None` if the server does not report it.
    async fn check(&self, token: &Token) -> Result<Option<String>, Failure> {
        const PATH: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        let viewer = Viewer::new(&self.nobody, token.clone(), None, Arc::default());
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let body = Some((MediaType::Json, &review));
        match viewer.cluster.send(Method::POST, PATH, body).await {
            Ok(review) => {
                let name = review["status"]["userInfo"]["username"].as_str();
                Ok(name.map(str::to_owned))
            }
            Err(error) if error.is_code(401) => Err(not_accepted()),
            // A server before Kubernetes 1.28, or one that permits no reviews.
            Err(error) if error.is_code(404) || error.is_code(403) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The name of the cookie with a part of the token. Its prefix makes browsers refuse it without
    /// encryption, and without a base path also from other names of the domain.
    fn cookie(&self, part: usize) -> String {
        let prefix = if self.base.is_empty() {
            "__Host"
        } else {
            "__Secure"
        };
        format!("{prefix}-baton-{part}")
    }

    /// The cookies that keep a token; without a token, those that remove it. They end with the browser.
    /// A link from another page has to find them, so they are `Lax`; forms of other pages are refused by
    /// `guard::is_own_form`.
    pub(crate) fn cookies(&self, token: Option<&Token>) -> Vec<HeaderValue> {
        let text = token.map(Token::secret).unwrap_or_default();
        let cookies = (0..PARTS).filter_map(|part| {
            let rest = text.get(part * PART..).unwrap_or_default();
            let value = rest.get(..PART).unwrap_or(rest);
            let end = if value.is_empty() { "; Max-Age=0" } else { "" };
            let (name, base) = (self.cookie(part), &self.base);
            let cookie =
                format!("{name}={value}; Path={base}/; Secure; HttpOnly; SameSite=Lax{end}");
            let mut value = HeaderValue::from_str(&cookie).ok()?;
            value.set_sensitive(true);
            Some(value)
        });
        cookies.collect()
    }

    /// The address of a page to go to after a login: `next` if it is one of this dashboard, or else the
    /// first page. Browsers take `//` and `\` for the beginning of another server.
    pub(crate) fn next(&self, next: Option<&str>) -> String {
        let start = format!("{}/", self.base);
        let is_own = |next: &&str| {
            let rest = next.strip_prefix(&start);
            rest.is_some_and(|rest| !rest.starts_with('/'))
                && next
                    .bytes()
                    .all(|byte| byte.is_ascii_graphic() && byte != b'\\')
        };
        next.filter(is_own).map_or(start.clone(), str::to_owned)
    }
}

fn not_accepted() -> Failure {
    let message = "the API server does not accept the token; it may have expired";
    Failure::new(StatusCode::UNAUTHORIZED, message)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response, header::COOKIE};
    use kube::client::Body;

    use super::*;

    fn login(base: &str) -> Login {
        let nobody = |_: Request<Body>| async { Ok::<_, Infallible>(Response::new(Body::empty())) };
        let client = kube::Client::new(tower::service_fn(nobody), "shop");
        let warn = Arc::new(|_: &str| {});
        let nobody = Cluster::new(client, "shop".to_owned(), "a server".to_owned(), warn);
        Login::new(nobody, base.to_owned(), http::header::AUTHORIZATION)
    }

    #[tokio::test]
    async fn tokens_of_any_length_are_kept_by_the_browser() {
        let login = login("");
        for length in [1, PART, PART + 1, 16 * 1024] {
            let token = Token::parse(&"a".repeat(length)).unwrap();
            let cookies = login.cookies(Some(&token));
            let kept = cookies.iter().filter_map(|cookie| {
                let cookie = cookie.to_str().unwrap();
                assert!(cookie.len() <= 4_096);
                assert!(cookie.contains("; Path=/; Secure; HttpOnly; SameSite=Lax"));
                (!cookie.contains("Max-Age=0")).then(|| cookie.split(';').next().unwrap())
            });
            let kept = kept.collect::<Vec<_>>().join("; ");
            let headers = HeaderMap::from_iter([(COOKIE, kept.parse().unwrap())]);
            let (place, read) = login.token(&headers).unwrap();
            assert_eq!(place, Place::Cookie);
            assert_eq!(read.unwrap().id(), token.id(), "{length}");
        }
        assert!(login.token(&HeaderMap::new()).is_none());
        let ended = login.cookies(None);
        assert!(ended.iter().all(|it| it.to_str().unwrap().contains("=; ")));
    }

    #[tokio::test]
    async fn a_login_leads_to_pages_of_the_dashboard_only() {
        for (base, next, expected) in [
            ("", "/sites/a/b?q=c", "/sites/a/b?q=c"),
            ("", "/", "/"),
            ("", "", "/"),
            ("", "//evil.example/", "/"),
            ("", "/\\evil.example/", "/"),
            ("", "https://evil.example/", "/"),
            ("", "/a\r\nSet-Cookie: x", "/"),
            ("/baton", "/baton/clusters", "/baton/clusters"),
            ("/baton", "/batons/clusters", "/baton/"),
            ("/baton", "/clusters", "/baton/"),
            ("/baton", "/baton//evil.example", "/baton/"),
        ] {
            assert_eq!(login(base).next(Some(next)), expected, "{base} {next}");
        }
    }
}
