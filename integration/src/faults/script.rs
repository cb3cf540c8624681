//! The rules that select the answers to requests.

use std::sync::Arc;

use regex::Regex;
use serde_json::Value;
use tokio::sync::{Semaphore, watch};

use super::observed::{ObservedRequest, Verb};
use super::status::Status;
use super::stream::WatchEnd;

/// The requests that an injection applies to: all requests, unless a rule restricts them.
#[derive(Clone, Debug)]
#[must_use]
pub struct On {
    verbs: Vec<Verb>,
    path: Option<Regex>,
    dry_run: Option<bool>,
    skip: usize,
    times: usize,
}

impl On {
    /// Selects all requests.
    pub fn any() -> Self {
        Self {
            verbs: Vec::new(),
            path: None,
            dry_run: None,
            skip: 0,
            times: usize::MAX,
        }
    }

    /// Selects requests of one verb.
    pub fn verb(verb: Verb) -> Self {
        Self::verbs(&[verb])
    }

    /// Selects requests of these verbs.
    pub fn verbs(verbs: &[Verb]) -> Self {
        Self {
            verbs: verbs.to_vec(),
            ..Self::any()
        }
    }

    /// Selects requests that change stored objects, without dry runs.
    pub fn writes() -> Self {
        let verbs = [
            Verb::Create,
            Verb::Update,
            Verb::Patch,
            Verb::Apply,
            Verb::Delete,
            Verb::DeleteCollection,
        ];
        Self::verbs(&verbs).dry_run(false)
    }

    /// Selects only requests whose path contains a match of a regular expression.
    pub fn path(mut self, pattern: &str) -> Self {
        self.path = Some(Regex::new(pattern).unwrap());
        self
    }

    /// Selects only dry runs, or only other requests.
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = Some(dry_run);
        self
    }

    /// Skips the first requests of the selection.
    pub fn after(mut self, skip: usize) -> Self {
        self.skip = skip;
        self
    }

    /// Limits the number of requests.
    pub fn times(mut self, times: usize) -> Self {
        self.times = times;
        self
    }

    fn matches(&self, request: &ObservedRequest) -> bool {
        let Self {
            verbs,
            path,
            dry_run,
            skip: _,
            times: _,
        } = self;
        (verbs.is_empty() || verbs.contains(&request.verb))
            && path
                .as_ref()
                .is_none_or(|path| path.is_match(&request.path))
            && dry_run.is_none_or(|dry_run| dry_run == request.is_dry_run())
    }
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The client gets this answer, and the server does not get the request.
    Status(Status),
    /// The client gets its own credentials in an error, plain and in base64.
    Echo,
    /// The client gets this object, and the server does not get the request.
    Object(Value),
    /// The client gets this answer, after the server has carried out the request.
    Lost(Status),
    /// The connection ends without an answer.
    HangUp {
        /// True if the server carries out the request first.
        carried_out: bool,
    },
    /// The real answer, whose connection ends after this number of bytes of the body.
    CutBody(u64),
    /// The real watch, which ends after some events.
    EndWatch {
        /// Number of events that pass, bookmarks included.
        after: usize,
        /// The end of the watch.
        how: WatchEnd,
    },
    /// The real answer, after the gate has opened.
    Held(Gate),
}

impl Answer {
    /// Returns 410, as a server that no longer has the requested version or continue token.
    #[must_use]
    pub fn gone() -> Self {
        Self::Status(Status::gone())
    }

    /// Returns 403, as for a missing right.
    #[must_use]
    pub fn forbidden() -> Self {
        Self::Status(Status::forbidden())
    }

    /// Returns 404, as for a kind that is not served.
    #[must_use]
    pub fn unserved() -> Self {
        Self::Status(Status::unserved())
    }

    /// Returns 409, as for an update of an older version.
    #[must_use]
    pub fn conflict() -> Self {
        Self::Status(Status::conflict())
    }

    /// Returns 429, as from priority and fairness.
    #[must_use]
    pub fn too_many_requests(retry_after_seconds: u32) -> Self {
        Self::Status(Status::too_many_requests(retry_after_seconds))
    }

    /// Returns 500.
    #[must_use]
    pub fn internal_error() -> Self {
        Self::Status(Status::internal_error())
    }

    /// Returns 503.
    #[must_use]
    pub fn unavailable() -> Self {
        Self::Status(Status::unavailable())
    }
}

/// Holds requests back until it is opened. It stays open.
#[derive(Clone, Debug)]
pub struct Gate(Arc<Semaphore>);

impl Default for Gate {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }
}

impl Gate {
    /// Opens the gate.
    pub fn open(&self) {
        self.0.close();
    }

    pub(super) async fn pass(&self) {
        // There are no permits: the call returns when the gate opens.
        let _ = self.0.acquire().await;
    }
}

/// All injections, in the order of their addition.
#[derive(Debug, Default)]
pub(super) struct Script(Vec<Entry>);

#[derive(Debug)]
struct Entry {
    on: On,
    answer: Answer,
    used: watch::Sender<usize>,
}

impl Script {
    /// Adds an injection. Returns the number of its uses.
    pub(super) fn add(&mut self, on: On, answer: Answer) -> watch::Receiver<usize> {
        let used = watch::Sender::new(0);
        let count = used.subscribe();
        self.0.push(Entry { on, answer, used });
        count
    }

    /// Returns the answer to a request, or `None` if the server is to answer it.
    pub(super) fn next(&mut self, request: &ObservedRequest) -> Option<Answer> {
        for entry in &mut self.0 {
            if entry.on.times == 0 || !entry.on.matches(request) {
                continue;
            }
            if entry.on.skip > 0 {
                entry.on.skip -= 1;
                continue;
            }
            entry.on.times -= 1;
            entry.used.send_modify(|used| *used += 1);
            return Some(entry.answer.clone());
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn request(uri: &str) -> ObservedRequest {
        ObservedRequest::new(&Request::get(uri).body(()).unwrap())
    }

    fn code(answer: Option<Answer>) -> u16 {
        match answer {
            Some(Answer::Status(status)) => status.code(),
            _ => 0,
        }
    }

    #[test]
    fn a_request_gets_the_first_injection_that_is_not_used_up() {
        let mut script = Script::default();
        let lists = On::verb(Verb::List).path("/pods$");
        let first = script.add(lists.clone().times(1), Answer::conflict());
        let second = script.add(lists.after(1), Answer::gone());
        let mut ask = |uri| code(script.next(&request(uri)));
        assert_eq!(ask("/api/v1/secrets"), 0);
        assert_eq!(ask("/api/v1/pods/a"), 0);
        assert_eq!(ask("/api/v1/pods"), 409);
        // The second injection skips this request. It has not counted the requests that the first
        // one took.
        assert_eq!(ask("/api/v1/pods"), 0);
        assert_eq!(ask("/api/v1/namespaces/a/pods"), 410);
        assert_eq!(ask("/api/v1/pods"), 410);
        assert_eq!((*first.borrow(), *second.borrow()), (1, 2));
    }

    #[test]
    fn a_dry_run_does_not_match_a_write() {
        let mut script = Script::default();
        let _ = script.add(On::writes(), Answer::internal_error());
        let mut ask = |uri| {
            let request = Request::patch(uri).body(()).unwrap();
            code(script.next(&ObservedRequest::new(&request)))
        };
        assert_eq!(ask("/api/v1/namespaces/a/configmaps/b?dryRun=All"), 0);
        assert_eq!(ask("/api/v1/namespaces/a/configmaps/b"), 500);
    }
}
