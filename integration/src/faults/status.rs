//! Refusals of an API server.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use serde_json::json;

use super::Answered;

/// A refusal in the format of an API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    code: StatusCode,
    /// The reason of the Status object. Without a reason the body is plain text, as when a filter
    /// of the API server refuses.
    reason: Option<&'static str>,
    message: &'static str,
    retry_after: Option<u32>,
}

impl Status {
    /// Returns 410.
    #[must_use]
    pub fn gone() -> Self {
        let message = "too old resource version: 1 (2)";
        Self::new(StatusCode::GONE, "Expired", message)
    }

    /// Returns 403, as for a missing right.
    #[must_use]
    pub fn forbidden() -> Self {
        let message = "objects is forbidden: User \"manager\" cannot list resource";
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message)
    }

    /// Returns 404, as for a kind that is not served.
    #[must_use]
    pub fn unserved() -> Self {
        Self {
            code: StatusCode::NOT_FOUND,
            reason: None,
            message: "404 page not found",
            retry_after: None,
        }
    }

    /// Returns 409.
    #[must_use]
    pub fn conflict() -> Self {
        let message = "Operation cannot be fulfilled on objects \"x\": the object has been modified; \
                       please apply your changes to the latest version and try again";
        Self::new(StatusCode::CONFLICT, "Conflict", message)
    }

    /// Returns 429, with the time to wait.
    #[must_use]
    pub fn too_many_requests(retry_after_seconds: u32) -> Self {
        Self {
            code: StatusCode::TOO_MANY_REQUESTS,
            reason: None,
            message: "Too many requests, please try again later.",
            retry_after: Some(retry_after_seconds),
        }
    }

    /// Returns 500.
    #[must_use]
    pub fn internal_error() -> Self {
        let message = "Internal error occurred: etcdserver: leader changed";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
    }

    /// Returns 503.
    #[must_use]
    pub fn unavailable() -> Self {
        let message = "apiserver is shutting down";
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "ServiceUnavailable",
            message,
        )
    }

    fn new(code: StatusCode, reason: &'static str, message: &'static str) -> Self {
        Self {
            code,
            reason: Some(reason),
            message,
            retry_after: None,
        }
    }

    pub(super) fn code(&self) -> u16 {
        self.code.as_u16()
    }

    /// Returns the Status object.
    pub(super) fn object(&self) -> serde_json::Value {
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code(),
        })
    }

    pub(super) fn answer(&self) -> Answered {
        let (kind, body) = match self.reason {
            Some(_) => ("application/json", self.object().to_string()),
            None => ("text/plain; charset=utf-8", self.message.to_owned()),
        };
        let mut answer = Response::builder().status(self.code);
        if let Some(seconds) = self.retry_after {
            answer = answer.header(header::RETRY_AFTER, seconds);
        }
        let body = Full::new(Bytes::from(body)).map_err(|never| match never {});
        let answer = answer.header(header::CONTENT_TYPE, kind);
        answer.body(UnsyncBoxBody::new(body)).unwrap()
    }
}

/// Returns an error that repeats the credentials of a request.
pub(super) fn echo(headers: &HeaderMap) -> Answered {
    let sent = headers.get(header::AUTHORIZATION);
    let sent = sent.and_then(|sent| sent.to_str().ok()).unwrap_or("none");
    let token = sent.trim_start_matches("Bearer ");
    let encoded = [sent, token].map(|text| BASE64_STANDARD.encode(text));
    let message = format!("{sent} {} {}", encoded[0], encoded[1]);
    let object = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("bad request: {message}"), "reason": "InternalError", "code": 500,
    });
    let mut answer = self::object(&object);
    *answer.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    answer
}

/// Returns the answer with an object.
pub(super) fn object(object: &serde_json::Value) -> Answered {
    let body = Full::new(Bytes::from(object.to_string())).map_err(|never| match never {});
    let answer = Response::builder().header(header::CONTENT_TYPE, "application/json");
    answer.body(UnsyncBoxBody::new(body)).unwrap()
}
