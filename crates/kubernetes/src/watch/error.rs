//! The next step after listing or watching has failed.

use std::time::Duration;

use baton_engine::redact::parse_error;
use http::StatusCode;
use kube::core::Status;

use crate::wire::{self, WireError};

/// The next step after listing or watching has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recovery {
    /// Watch again from the last version.
    Resume,
    /// As [`Recovery::Resume`], at once: no failure was observed.
    Reconnect,
    /// The history is compacted: list again, the first time without a pause.
    RelistNow,
    /// Watching from the last version is not possible: list again after a pause.
    Relist,
    /// The collection is not served: list again after a pause.
    Unserved,
}

#[derive(Debug)]
pub(super) struct WatchError {
    pub(super) next: Recovery,
    pub(super) text: String,
    /// True if the account lacks the right.
    pub(super) is_forbidden: bool,
    /// True if the server answered with an error status.
    pub(super) is_answer: bool,
    pub(super) retry_after: Option<Duration>,
}

impl WatchError {
    fn new(next: Recovery, text: String) -> Self {
        Self {
            next,
            text,
            is_forbidden: false,
            is_answer: false,
            retry_after: None,
        }
    }

    pub(super) fn silent(limit: Duration) -> Self {
        Self::new(
            Recovery::Reconnect,
            format!("the watch was silent for {} s", limit.as_secs()),
        )
    }

    /// The version of the server is older than ours.
    pub(super) fn rewound(now: &str, ours: &str) -> Self {
        let text =
            format!("the server is at version {now}, older than {ours}, which it reported before");
        Self::new(Recovery::Relist, text)
    }

    pub(super) fn unreadable(what: &str, error: &serde_json::Error) -> Self {
        Self::new(
            Recovery::Relist,
            format!(
                "the server sent an unreadable {what}: {}",
                parse_error(error)
            ),
        )
    }

    /// A list has too many objects or pages.
    pub(super) fn endless(most: usize) -> Self {
        Self::new(
            Recovery::Relist,
            format!("the server sends a list without an end, or of more than {most} objects"),
        )
    }

    /// The error of a request that was refused.
    pub(super) fn refused(code: StatusCode, body: &[u8], retry_after: Option<Duration>) -> Self {
        let status = wire::failure(code, body);
        Self {
            retry_after,
            is_forbidden: code == StatusCode::FORBIDDEN,
            is_answer: true,
            ..Self::new(judge(code.as_u16(), &status), status.message)
        }
    }

    /// An `ERROR` event: a watch from the version is not possible, for any reason.
    pub(super) fn error_event(status: &Status) -> Self {
        let next = match judge(status.code, status) {
            Recovery::Resume => Recovery::Relist,
            next => next,
        };
        Self::new(next, status.message.clone())
    }
}

fn judge(code: u16, status: &Status) -> Recovery {
    // The version is from a future that a restored backup has undone.
    let ahead = status.details.as_ref().is_some_and(|details| {
        details
            .causes
            .iter()
            .any(|cause| cause.reason == "ResourceVersionTooLarge")
    });
    match code {
        _ if ahead => Recovery::Relist,
        410 => Recovery::RelistNow,
        404 => Recovery::Unserved,
        // A list shows when the right is granted again.
        400 | 403 | 422 => Recovery::Relist,
        _ => Recovery::Resume,
    }
}

impl From<WireError> for WatchError {
    fn from(error: WireError) -> Self {
        Self::new(Recovery::Resume, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_determines_how_the_watch_continues() {
        let too_large = concat!(
            r#"{"status":"Failure","message":"Too large resource version: 9, current: 5","reason":"Timeout","#,
            r#""details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],"#,
            r#""retryAfterSeconds":1},"code":504}"#
        );
        let table = [
            (410, "", Recovery::RelistNow),
            (404, "404 page not found", Recovery::Unserved),
            (400, "", Recovery::Relist),
            (401, "", Recovery::Resume),
            (403, "", Recovery::Relist),
            (429, "", Recovery::Resume),
            (500, "", Recovery::Resume),
            (503, "", Recovery::Resume),
            (504, "", Recovery::Resume),
            (504, too_large, Recovery::Relist),
        ];
        for (code, body, next) in table {
            let code = StatusCode::from_u16(code).unwrap();
            assert_eq!(
                WatchError::refused(code, body.as_bytes(), None).next,
                next,
                "{code} {body}"
            );
        }
    }
}
