//! One request, one reply: the thin layer over [`kube::Client`] that keeps exact status codes.
//!
//! `kube::Api` folds what the server said into typed results: whether an apply answered 200 or
//! 201, which is how a merge into a stranger is told from a create, is lost there. Here a reply
//! stays a status code and bytes.

use std::{error::Error as StdError, fmt::Write as _, time::Duration};

use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::BodyExt as _;
use kube::{
    Client,
    client::Body,
    core::{Status, response::StatusDetails},
};
use tokio::time::timeout;

/// How long a request other than a watch may take, the reading of its answer included. The API
/// server gives up on a write after 34 s by itself.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// What a server answered.
#[derive(Debug)]
pub(crate) struct Reply {
    /// Status code.
    pub status: StatusCode,
    /// When the server wants to be asked again.
    pub retry_after: Option<Duration>,
    /// The whole body.
    pub body: Bytes,
}

/// A request that got no whole answer. Whether the server acted upon it is unknown.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// A name cannot be part of a URL.
    #[error("building a request for {path}: {source}")]
    Build {
        /// Path and query of the request.
        path: String,
        /// What is wrong with it.
        source: http::Error,
    },
    /// No connection, or it broke before the answer began.
    #[error("no answer from the API server: {}", chain(source))]
    Send {
        /// What the client reported.
        source: Box<kube::Error>,
    },
    /// The connection broke within the answer.
    #[error("reading the API server's answer: {}", chain(source))]
    Read {
        /// What the client reported.
        source: Box<kube::Error>,
    },
    /// The time was up.
    #[error("no answer from the API server within {} s", limit.as_secs())]
    Timeout {
        /// The time it had.
        limit: Duration,
    },
}

/// Sends a request and reads its whole answer, whatever the status, within [`REQUEST_TIMEOUT`].
pub(crate) async fn call(client: &Client, request: Request<Body>) -> Result<Reply, WireError> {
    let answer = async {
        let response = client
            .send(request)
            .await
            .map_err(|source| WireError::Send {
                source: Box::new(source),
            })?;
        let status = response.status();
        let retry_after = retry_after(response.headers());
        let body = response
            .into_body()
            .collect()
            .await
            .map_err(|source| WireError::Read {
                source: Box::new(source),
            })?
            .to_bytes();
        Ok(Reply {
            status,
            retry_after,
            body,
        })
    };
    timeout(REQUEST_TIMEOUT, answer)
        .await
        .unwrap_or(Err(WireError::Timeout {
            limit: REQUEST_TIMEOUT,
        }))
}

/// Builds a GET.
pub(crate) fn get(path: &str, accept: &str) -> Result<Request<Body>, WireError> {
    Request::get(path)
        .header(header::ACCEPT, accept)
        .body(Body::empty())
        .map_err(|source| WireError::Build {
            path: path.to_owned(),
            source,
        })
}

/// The `Retry-After` of an answer. API servers send seconds, never a date.
pub(crate) fn retry_after(headers: &header::HeaderMap) -> Option<Duration> {
    let seconds = headers
        .get(header::RETRY_AFTER)?
        .to_str()
        .ok()?
        .trim()
        .parse()
        .ok()?;
    Some(Duration::from_secs(seconds))
}

/// The `Status` in the body of a failed request; made up from the body's text when there is none,
/// as proxies and paths outside of every API group answer in plain text.
pub(crate) fn failure(code: StatusCode, body: &[u8]) -> Status {
    if let Ok(status) = serde_json::from_slice::<Status>(body)
        && (!status.message.is_empty() || !status.reason.is_empty() || status.code != 0)
    {
        return status;
    }
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    let mut message = if text.is_empty() {
        code.to_string()
    } else {
        text.chars().take(500).collect()
    };
    if !message.contains(code.as_str()) {
        message = format!("{code}: {message}");
    }
    Status::failure(&message, "").with_code(code.as_u16())
}

/// Details of a `Status`, if it names what it is about.
pub(crate) fn subject(status: &Status) -> Option<&StatusDetails> {
    status
        .details
        .as_ref()
        .filter(|details| !details.kind.is_empty() || !details.name.is_empty())
}

/// An error and its causes, in one line. HTTP clients hide the telling part (`connection refused`)
/// three causes deep.
pub(crate) fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}

/// Escapes a path segment, or the value of a query parameter.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// Why a name cannot be a segment of an API path; the rule of the API server.
///
/// A name comes from a user's manifest. `..` in a path is resolved by servers and proxies alike,
/// and would turn a request for an object into one for its namespace.
pub(crate) fn segment_problem(name: &str) -> Option<&'static str> {
    match name {
        "" => Some("must not be empty"),
        "." | ".." => Some("may not be '.' or '..'"),
        _ if name.contains(['/', '%']) => Some("may not contain '/' or '%'"),
        _ if name.chars().any(char::is_control) => Some("may not contain control characters"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_what_a_path_or_query_would_interpret() {
        assert_eq!(escape("system:node/a b%"), "system%3Anode%2Fa%20b%25");
        assert_eq!(
            escape("package-operator.run/cache=True"),
            "package-operator.run%2Fcache%3DTrue"
        );
        assert_eq!(escape("ä"), "%C3%A4");
    }

    #[test]
    fn refuses_names_that_change_the_meaning_of_a_path() {
        for bad in ["", ".", "..", "../x", "a/b", "a%2fb", "a\nb"] {
            assert!(segment_problem(bad).is_some(), "{bad:?}");
        }
        for good in ["a", "a.b", "system:node", "...", "A b"] {
            assert!(segment_problem(good).is_none(), "{good:?}");
        }
    }

    #[test]
    fn makes_a_status_of_plain_text() {
        let status = failure(StatusCode::NOT_FOUND, b"404 page not found\n");
        assert_eq!(status.message, "404 page not found");
        assert_eq!(status.code, 404);
        assert_eq!(
            failure(StatusCode::BAD_GATEWAY, b"").message,
            "502 Bad Gateway"
        );
        assert_eq!(
            failure(StatusCode::BAD_GATEWAY, b"oops").message,
            "502 Bad Gateway: oops"
        );
        assert_eq!(
            failure(StatusCode::BAD_GATEWAY, b"{}").message,
            "502 Bad Gateway: {}"
        );
    }

    #[test]
    fn keeps_the_status_that_the_server_sent() {
        let body = br#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"configmaps \"a\" not found","reason":"NotFound","details":{"name":"a","kind":"configmaps"},"code":404}"#;
        let status = failure(StatusCode::NOT_FOUND, body);
        assert_eq!(status.reason, "NotFound");
        assert_eq!(
            subject(&status).map(|d| (d.kind.as_str(), d.name.as_str())),
            Some(("configmaps", "a"))
        );
    }

    #[test]
    fn prints_causes_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("outer: inner")]
        struct Outer(#[source] Inner);
        #[derive(Debug, thiserror::Error)]
        #[error("inner")]
        struct Inner(#[source] std::fmt::Error);
        let text = chain(&Outer(Inner(std::fmt::Error)));
        assert!(text.starts_with("outer: inner: "), "{text}");
        assert_eq!(text.matches("inner").count(), 1);
    }
}
