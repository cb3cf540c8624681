//! What to do when listing or watching fails, and how long to wait before.

use std::{
    hash::{BuildHasher as _, Hasher as _},
    time::Duration,
};

use http::StatusCode;
use kube::core::Status;

use crate::cluster::wire::{self, WireError};

const FIRST_DELAY: Duration = Duration::from_millis(200);
const LONGEST_DELAY: Duration = Duration::from_secs(30);

/// How to go on after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Watch again from the last version.
    Resume,
    /// The history is gone: list again, the first time without a pause.
    RelistNow,
    /// Watching from the last version does not work: list again after a pause.
    Relist,
    /// The collection is gone: ask again after a pause.
    Unserved,
}

#[derive(Debug)]
pub(super) struct Fault {
    pub(super) next: Next,
    pub(super) text: String,
    pub(super) retry_after: Option<Duration>,
}

impl Fault {
    fn new(next: Next, text: String) -> Self {
        Self {
            next,
            text,
            retry_after: None,
        }
    }

    pub(super) fn broken(error: &WireError) -> Self {
        Self::new(Next::Resume, error.to_string())
    }

    pub(super) fn silent(limit: Duration) -> Self {
        Self::new(
            Next::Relist,
            format!("the watch was silent for {} s", limit.as_secs()),
        )
    }

    pub(super) fn garbled(what: &str, error: &serde_json::Error) -> Self {
        Self::new(
            Next::Relist,
            format!("the server sent an unreadable {what}: {error}"),
        )
    }

    /// A request that was answered with a failure.
    pub(super) fn refused(code: StatusCode, body: &[u8], retry_after: Option<Duration>) -> Self {
        let status = wire::failure(code, body);
        Self {
            retry_after,
            ..Self::new(judge(code.as_u16(), &status), status.message)
        }
    }

    /// An `ERROR` event: the version cannot be watched from, whatever the reason.
    pub(super) fn told(status: &Status) -> Self {
        let next = match judge(status.code, status) {
            Next::Resume => Next::Relist,
            next => next,
        };
        Self::new(next, status.message.clone())
    }
}

fn judge(code: u16, status: &Status) -> Next {
    // The version is from a future that a restored backup has undone.
    let ahead = status.details.as_ref().is_some_and(|details| {
        details
            .causes
            .iter()
            .any(|cause| cause.reason == "ResourceVersionTooLarge")
    });
    match code {
        _ if ahead => Next::Relist,
        410 => Next::RelistNow,
        404 => Next::Unserved,
        400 | 422 => Next::Relist,
        _ => Next::Resume,
    }
}

/// Pauses between attempts, doubling, with jitter so that the watches of one manager do not come
/// back in step after the API server restarts.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    pub(super) failures: u32,
}

impl Backoff {
    pub(super) fn delay(&mut self, asked: Option<Duration>) -> Duration {
        self.failures = self.failures.saturating_add(1);
        backoff_delay(self.failures, asked, permille())
    }
}

/// The pause after a number of failures in a row: between half and all of a doubling limit, and
/// not less than what the server asked for (within the same bound).
fn backoff_delay(failures: u32, asked: Option<Duration>, permille: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    let limit = (FIRST_DELAY * 2_u32.pow(doublings)).min(LONGEST_DELAY);
    let delay = (limit / 2 + limit / 2 * permille / 1000).max(FIRST_DELAY);
    delay.max(asked.unwrap_or_default().min(LONGEST_DELAY))
}

/// A number up to 1000, good enough to spread requests.
pub(crate) fn permille() -> u32 {
    let bits = std::hash::RandomState::new().build_hasher().finish();
    u32::try_from(bits % 1001).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decides_how_to_go_on() {
        let too_large = r#"{"status":"Failure","message":"Too large resource version: 9, current: 5","reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],"retryAfterSeconds":1},"code":504}"#;
        let table = [
            (410, "", Next::RelistNow),
            (404, "404 page not found", Next::Unserved),
            (400, "", Next::Relist),
            (401, "", Next::Resume),
            (403, "", Next::Resume),
            (429, "", Next::Resume),
            (500, "", Next::Resume),
            (503, "", Next::Resume),
            (504, "", Next::Resume),
            (504, too_large, Next::Relist),
        ];
        for (code, body, next) in table {
            let code = StatusCode::from_u16(code).unwrap();
            assert_eq!(
                Fault::refused(code, body.as_bytes(), None).next,
                next,
                "{code} {body}"
            );
        }
    }

    #[test]
    fn pauses_double_within_bounds() {
        let table = [
            (1, None, 0, 200),
            (1, None, 1000, 200),
            (2, None, 0, 200),
            (2, None, 1000, 400),
            (5, None, 1000, 3_200),
            (5, None, 0, 1_600),
            (60, None, 1000, 30_000),
            (60, None, 0, 15_000),
            (1, Some(3), 1000, 3_000),
            (9, Some(3), 1000, 30_000),
            (1, Some(3_600), 1000, 30_000),
        ];
        for (failures, asked, permille, millis) in table {
            let delay = backoff_delay(failures, asked.map(Duration::from_secs), permille);
            assert_eq!(
                delay,
                Duration::from_millis(millis),
                "{failures} {asked:?} {permille}"
            );
        }
        let drawn: Vec<u32> = (0..20).map(|_| permille()).collect();
        assert!(drawn.iter().all(|one| *one <= 1000));
        assert!(drawn.iter().any(|one| one != &drawn[0]), "{drawn:?}");
    }
}
