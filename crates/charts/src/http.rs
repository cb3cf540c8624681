//! Requests with bounds on time, size and redirects.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use reqwest::{
    Client, Response, StatusCode,
    header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue, LOCATION},
    redirect::Policy,
};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use rustls_platform_verifier::BuilderVerifierExt;
use url::Url;

use crate::{Credentials, Limits, metrics::RequestMetrics};

/// Limit of the redirects that are followed.
const REDIRECTS: usize = 5;

/// A client for repositories and registries.
///
/// # Guarantees
/// Credentials are sent to the URL of the request only, and never along a redirect. No redirect
/// leads from HTTPS to HTTP.
#[derive(Clone, Debug)]
pub struct Http {
    client: Client,
    /// Time limit of a request with its redirects.
    limit: Duration,
    /// Metrics of the sent requests.
    pub metrics: RequestMetrics,
}

/// The reason that there is no response, for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No response, or an incomplete one.
    #[error("{0}")]
    Connection(String),
    /// The response is no success.
    #[error("bad response code: {} ({})", status_text(*.0), .0.as_u16())]
    Status(StatusCode),
    /// The target of a redirect requires credentials.
    #[error(
        "bad response code: {} ({}) after a redirect, along which no credentials are sent",
        status_text(*.0),
        .0.as_u16()
    )]
    Redirected(StatusCode),
    /// The response exceeds this number of bytes.
    #[error("the response has more than {0} bytes")]
    TooBig(u64),
}

impl Http {
    /// Creates a client.
    ///
    /// # Errors
    /// If TLS cannot be set up. The error is a text for people.
    pub fn new(limits: &Limits) -> Result<Self, String> {
        Client::builder()
            .tls_backend_preconfigured(tls()?)
            .connect_timeout(limits.connect)
            // `send` follows redirects: the client would send credentials along to the same host.
            .redirect(Policy::none())
            .user_agent(concat!("baton/", env!("CARGO_PKG_VERSION")))
            .build()
            .map(|client| Self {
                client,
                limit: limits.request,
                metrics: RequestMetrics::default(),
            })
            .map_err(|error| text(&error))
    }

    /// Sends a request, and returns the response if it is a success.
    pub async fn get(
        &self,
        url: &Url,
        accept: Option<&'static str>,
        authorization: Option<&Authorization>,
    ) -> Result<Response, Error> {
        let response = self.send(url, accept, authorization).await?;
        match response.status() {
            StatusCode::OK => Ok(response),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN
                if authorization.is_some() && response.url() != url =>
            {
                Err(Error::Redirected(response.status()))
            }
            status => Err(Error::Status(status)),
        }
    }

    /// Sends a request, and returns any response. Follows redirects, without the credentials.
    pub async fn send(
        &self,
        url: &Url,
        accept: Option<&'static str>,
        authorization: Option<&Authorization>,
    ) -> Result<Response, Error> {
        let started = Instant::now();
        let answer = self.follow(url, accept, authorization).await;
        let code = answer.as_ref().ok().map(|it| it.status().as_u16());
        self.metrics.count(code, started.elapsed());
        answer
    }

    async fn follow(
        &self,
        url: &Url,
        accept: Option<&'static str>,
        authorization: Option<&Authorization>,
    ) -> Result<Response, Error> {
        let deadline = Instant::now() + self.limit;
        let mut headers = HeaderMap::new();
        if let Some(accept) = accept {
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
        }
        if let Some(Authorization(value)) = authorization {
            headers.insert(AUTHORIZATION, value.clone());
        }
        let mut requested = Vec::new();
        let mut url = url.clone();
        loop {
            let request = self.client.get(url.clone()).headers(headers.clone());
            let left = deadline.saturating_duration_since(Instant::now());
            let response = request.timeout(left).send().await?;
            let Some(next) = target(&response) else {
                return Ok(response);
            };
            requested.push(url);
            if let Some(why) = refusal(&requested, &next) {
                return Err(Error::Connection(why.to_owned()));
            }
            headers.remove(AUTHORIZATION);
            url = next;
        }
    }
}

/// The target of a redirect, without the credentials in the URL of the request; `None` if the
/// response is no redirect.
fn target(response: &Response) -> Option<Url> {
    let is_redirect = matches!(
        response.status(),
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    );
    let location = response.headers().get(LOCATION)?.to_str().ok()?;
    is_redirect
        .then(|| redirected(response.url(), location))
        .flatten()
}

/// The URL that a redirect names, without a user and a password.
fn redirected(from: &Url, location: &str) -> Option<Url> {
    let mut url = from.join(location).ok()?;
    // Only a URL without a host refuses this, and it has none of them.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    Some(url)
}

impl From<reqwest::Error> for Error {
    fn from(error: reqwest::Error) -> Self {
        Self::Connection(text(&error.without_url()))
    }
}

/// The value of an `Authorization` header.
#[derive(Clone)]
pub struct Authorization(HeaderValue);

impl Authorization {
    /// The header for credentials; `None` if they cannot be part of a header.
    pub fn new(credentials: &Credentials) -> Option<Self> {
        match credentials {
            Credentials::Basic { username, password } => {
                let pair = BASE64_STANDARD.encode(format!("{username}:{password}"));
                Self::read(&format!("Basic {pair}"))
            }
            Credentials::Token(token) => Self::bearer(token),
        }
    }

    /// The header for a bearer token; `None` if it cannot be part of a header.
    pub fn bearer(token: &str) -> Option<Self> {
        Self::read(&format!("Bearer {}", token.trim()))
    }

    fn read(text: &str) -> Option<Self> {
        let mut value = HeaderValue::from_str(text).ok()?;
        value.set_sensitive(true);
        Some(Self(value))
    }
}

/// Reads the body of a response piece by piece, up to `most` bytes.
pub async fn read(
    mut response: Response,
    most: u64,
    mut piece: impl FnMut(&[u8]) -> std::io::Result<()>,
) -> Result<(), Error> {
    if response
        .content_length()
        .is_some_and(|length| length > most)
    {
        return Err(Error::TooBig(most));
    }
    let mut length = 0;
    while let Some(bytes) = response.chunk().await? {
        length += bytes.len() as u64;
        if length > most {
            return Err(Error::TooBig(most));
        }
        piece(&bytes).map_err(|error| Error::Connection(error.to_string()))?;
    }
    Ok(())
}

/// Reads the whole body of a response, up to `most` bytes.
pub async fn body(response: Response, most: u64) -> Result<Vec<u8>, Error> {
    let mut body = Vec::new();
    read(response, most, |piece| {
        body.extend_from_slice(piece);
        Ok(())
    })
    .await?;
    Ok(body)
}

/// The reason that a redirect is not followed; `None` if it is.
fn refusal(previous: &[Url], next: &Url) -> Option<&'static str> {
    let was_tls = previous.last().is_some_and(|url| url.scheme() == "https");
    if previous.len() > REDIRECTS {
        Some("too many redirects")
    } else if !matches!(next.scheme(), "http" | "https") {
        Some("a redirect leads to another scheme than HTTP")
    } else if was_tls && next.scheme() != "https" {
        Some("a redirect leads from HTTPS to HTTP")
    } else {
        None
    }
}

/// The TLS configuration. It trusts the certificates of this machine, or those of `SSL_CERT_FILE`
/// and `SSL_CERT_DIR`. If there are none, repositories without TLS can still be used.
fn tls() -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let builder = || {
        ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())
    };
    let config = match builder()?.with_platform_verifier() {
        Ok(builder) => builder.with_no_client_auth(),
        Err(error) => {
            tracing::warn!(%error, "cannot load CA certificates: charts cannot be fetched by HTTPS");
            let builder = builder()?.with_root_certificates(RootCertStore::empty());
            builder.with_no_client_auth()
        }
    };
    Ok(config)
}

/// An error with its causes: the outer ones alone report only that a request failed.
fn text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

fn status_text(status: StatusCode) -> String {
    let reason = status.canonical_reason().unwrap_or_default();
    format!("{} {reason}", status.as_u16())
        .trim_end()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_to_http_and_long_chains_of_redirects_are_refused() {
        let url = |text: &str| Url::parse(text).unwrap();
        let (tls, plain) = (url("https://a"), url("http://a"));
        let once = std::slice::from_ref;
        assert_eq!(refusal(once(&tls), &url("https://b")), None);
        assert_eq!(refusal(once(&plain), &tls), None);
        assert_eq!(refusal(once(&plain), &url("http://b")), None);
        let refused = Some("a redirect leads to another scheme than HTTP");
        assert_eq!(refusal(once(&plain), &url("file:///etc/passwd")), refused);
        let refused = Some("a redirect leads from HTTPS to HTTP");
        assert_eq!(refusal(&[plain.clone(), tls.clone()], &plain), refused);
        assert_eq!(refusal(&vec![tls.clone(); REDIRECTS], &tls), None);
        let refused = Some("too many redirects");
        assert_eq!(refusal(&vec![tls.clone(); REDIRECTS + 1], &tls), refused);
    }

    #[test]
    fn a_redirect_leads_to_a_url_without_credentials() {
        let from = Url::parse("https://user:secret@charts/a/index.yaml").unwrap();
        for (location, expected) in [
            ("/b", Some("https://charts/b")),
            ("b", Some("https://charts/a/b")),
            ("//other/b", Some("https://other/b")),
            ("https://user:secret@charts/b", Some("https://charts/b")),
            ("https://[", None),
        ] {
            let next = redirected(&from, location);
            assert_eq!(next.as_ref().map(Url::as_str), expected, "{location}");
        }
    }

    #[test]
    fn credentials_are_absent_from_debug_output() {
        let basic = Credentials::Basic {
            username: "reader".into(),
            password: "secret".into(),
        };
        let token = Credentials::Token(" token\n".into());
        for (credentials, expected) in [
            (basic, "Basic cmVhZGVyOnNlY3JldA=="),
            (token, "Bearer token"),
        ] {
            let Authorization(value) = Authorization::new(&credentials).unwrap();
            assert_eq!(value.to_str().unwrap(), expected);
            assert_eq!(format!("{value:?}"), "Sensitive");
            assert!(["Basic", "Token"].contains(&format!("{credentials:?}").as_str()));
        }
        assert!(Authorization::bearer("a\nb").is_none());
    }
}
