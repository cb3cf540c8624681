//! One request, one reply: a thin layer over [`kube::Client`] that keeps exact status codes.
//!
//! `kube::Api` converts the response of the server into typed results, and loses the status code of
//! an apply: 200 or 201, which distinguishes a merge into a foreign object from a create. Here a
//! reply stays a status code and bytes.

use std::time::Duration;

use baton_apis::conditions::MAX_MESSAGE_LENGTH;
use baton_engine::{redact::without_values, texts::shorten};
use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt as _, Collected, LengthLimitError, Limited};
use kube::{
    Client,
    client::Body,
    core::{Status, response::StatusDetails},
};
use serde::{Deserialize, de::IgnoredAny};
use tokio::time::timeout;

use crate::error::one_line;

/// Time limit of a request other than a watch, including the reading of its response. The API
/// server gives up on a write after 34 s by itself.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Media type of a list of objects without their content.
pub(crate) const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// Limit of the length of a response. The API server accepts requests of 3 MiB, and adds fields to
/// objects.
pub const LONGEST_ANSWER: usize = 16 << 20;

/// The format of the body of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaType {
    /// An object as a whole, or options of a deletion.
    Json,
    /// A patch of the fields that change; `null` removes a field.
    MergePatch,
    /// A patch by operations that are carried out one after the other.
    JsonPatch,
    /// A server-side apply; the query has to name `fieldManager`.
    Apply,
}

impl MediaType {
    /// The value of the header `Content-Type`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::MergePatch => "application/merge-patch+json",
            Self::JsonPatch => "application/json-patch+json",
            Self::Apply => "application/apply-patch+yaml",
        }
    }
}

/// The response of a server.
#[derive(Debug)]
pub struct Reply {
    /// Status code.
    pub status: StatusCode,
    /// Time after which the server accepts the next attempt.
    pub retry_after: Option<Duration>,
    /// The whole body.
    pub body: Bytes,
}

/// A request that got no complete response. It is unknown if the server carried it out.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// A name cannot be part of a URL.
    #[error("building a request for {path}: {source}")]
    Build {
        /// Path and query of the request.
        path: String,
        /// The cause of the failure.
        source: http::Error,
    },
    /// No connection, or it broke before the response began.
    #[error("no answer from the API server: {}", one_line(source))]
    Send {
        /// Error of the client.
        source: Box<kube::Error>,
    },
    /// The connection broke within the response.
    #[error("reading the API server's answer: {}", one_line(source))]
    Read {
        /// Error of the client.
        source: Box<kube::Error>,
    },
    /// The response exceeds its limit, and was not read.
    #[error("the API server's answer is longer than {} MiB", most >> 20)]
    TooLong {
        /// Limit in bytes.
        most: usize,
    },
    /// The response took too long.
    #[error("no answer from the API server within {} s", limit.as_secs())]
    Timeout {
        /// The time limit.
        limit: Duration,
    },
}

impl WireError {
    pub(crate) fn send(source: kube::Error) -> Self {
        let source = Box::new(source);
        Self::Send { source }
    }

    pub(crate) fn read(source: kube::Error) -> Self {
        let source = Box::new(source);
        Self::Read { source }
    }

    fn unread(error: Box<dyn std::error::Error + Send + Sync>, most: usize) -> Self {
        match error.downcast::<kube::Error>() {
            Ok(source) => Self::Read { source },
            Err(error) if error.is::<LengthLimitError>() => Self::TooLong { most },
            Err(error) => Self::read(kube::Error::Service(error)),
        }
    }
}

/// Sends a request and reads its whole response, with any status, within [`REQUEST_TIMEOUT`] and up
/// to [`LONGEST_ANSWER`].
///
/// # Errors
/// If there is no complete response.
pub async fn call(client: &Client, request: Request<Body>) -> Result<Reply, WireError> {
    call_within(client, request, LONGEST_ANSWER).await
}

/// As [`call`], with a response of at most `most` bytes.
pub(crate) async fn call_within(
    client: &Client,
    request: Request<Body>,
    most: usize,
) -> Result<Reply, WireError> {
    let answer = async {
        let response = client.send(request).await.map_err(WireError::send)?;
        let status = response.status();
        let retry_after = retry_after(response.headers());
        let body = collect(response.into_body(), most).await?;
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

/// Reads a response of at most `most` bytes.
pub(crate) async fn collect(body: Body, most: usize) -> Result<Bytes, WireError> {
    let whole = Limited::new(body, most).collect().await;
    whole
        .map(Collected::to_bytes)
        .map_err(|error| WireError::unread(error, most))
}

/// Builds a GET.
///
/// # Errors
/// If the path is no part of a URL.
pub fn get(path: &str, accept: &str) -> Result<Request<Body>, WireError> {
    Request::get(path)
        .header(header::ACCEPT, accept)
        .body(Body::empty())
        .map_err(|source| WireError::Build {
            path: path.to_owned(),
            source,
        })
}

/// True if a list has items. An empty list of metadata has `null` as its items.
pub(crate) fn has_items(body: &[u8]) -> Result<bool, serde_json::Error> {
    #[derive(Deserialize)]
    struct List {
        items: Option<Vec<IgnoredAny>>,
    }
    let list: List = serde_json::from_slice(body)?;
    Ok(list.items.is_some_and(|items| !items.is_empty()))
}

/// The `Retry-After` of a response. API servers send seconds, never a date.
pub fn retry_after(headers: &header::HeaderMap) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    seconds.trim().parse().ok().map(Duration::from_secs)
}

/// The `Status` in the body of a failed request, without the values that its message quotes.
/// Proxies and paths outside of every API group respond in plain text: then the `Status` is made
/// from that text.
pub fn failure(code: StatusCode, body: &[u8]) -> Status {
    let mut status = quoted_failure(code, body);
    status.message = without_values(&status.message);
    // Each object of a phase has an answer, and no condition shows more of its message.
    shorten(&mut status.message, MAX_MESSAGE_LENGTH);
    status
}

fn quoted_failure(code: StatusCode, body: &[u8]) -> Status {
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

/// Details of a `Status`, if it names an object.
pub fn subject(status: &Status) -> Option<&StatusDetails> {
    status
        .details
        .as_ref()
        .filter(|details| !details.kind.is_empty() || !details.name.is_empty())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::stream;
    use http::Response;
    use http_body_util::StreamBody;
    use hyper::body::Frame;

    use super::*;

    #[tokio::test]
    async fn an_answer_that_is_too_long_is_refused() {
        let server = |size: usize| {
            let answer = move |_| async move {
                let pieces = (0..size.div_ceil(1 << 20)).map(|_| Bytes::from(vec![b'x'; 1 << 20]));
                let frames = pieces.map(|data| Ok::<_, Infallible>(Frame::data(data)));
                Ok::<_, Infallible>(Response::new(StreamBody::new(stream::iter(frames))))
            };
            Client::new(tower::service_fn(answer), "default")
        };
        let request = || get("/api/v1/namespaces/a/configmaps/b", "application/json").unwrap();
        let reply = call(&server(3 << 20), request()).await.unwrap();
        assert_eq!(reply.body.len(), 3 << 20);
        let error = call(&server(1 << 30), request()).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "the API server's answer is longer than 16 MiB"
        );
    }

    #[test]
    fn lists_have_items_or_none() {
        for (body, expected) in [
            (
                r#"{"kind":"PartialObjectMetadataList","items":null}"#,
                false,
            ),
            (r#"{"items":[]}"#, false),
            (r#"{"items":[{"metadata":{"name":"web-1"}}]}"#, true),
        ] {
            assert_eq!(has_items(body.as_bytes()).unwrap(), expected, "{body}");
        }
        assert!(has_items(b"{").is_err());
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
        let body = concat!(
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","#,
            r#""message":"configmaps \"a\" not found","reason":"NotFound","#,
            r#""details":{"name":"a","kind":"configmaps"},"code":404}"#
        );
        let status = failure(StatusCode::NOT_FOUND, body.as_bytes());
        assert_eq!(status.reason, "NotFound");
        assert_eq!(
            subject(&status).map(|d| (d.kind.as_str(), d.name.as_str())),
            Some(("configmaps", "a"))
        );
    }
}
