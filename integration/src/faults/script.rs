//! Which request meets which answer.

use std::sync::Arc;

use regex::Regex;
use tokio::sync::{Semaphore, watch};

use super::seen::{Seen, Verb};
use super::status::Status;
use super::stream::WatchEnd;

/// Which requests an injection is for: all of them, unless more is said.
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
    /// Requests of all kinds.
    pub fn any() -> Self {
        Self {
            verbs: Vec::new(),
            path: None,
            dry_run: None,
            skip: 0,
            times: usize::MAX,
        }
    }

    /// Requests of one kind.
    pub fn verb(verb: Verb) -> Self {
        Self::verbs(&[verb])
    }

    /// Requests of these kinds.
    pub fn verbs(verbs: &[Verb]) -> Self {
        Self {
            verbs: verbs.to_vec(),
            ..Self::any()
        }
    }

    /// Requests that change what is stored, without dry runs.
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

    /// Only those whose path matches a regular expression, in any place of it.
    pub fn path(mut self, pattern: &str) -> Self {
        self.path = Some(Regex::new(pattern).unwrap());
        self
    }

    /// Only dry runs, or only others.
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = Some(dry_run);
        self
    }

    /// Not the first few of them.
    pub fn after(mut self, skip: usize) -> Self {
        self.skip = skip;
        self
    }

    /// Only so many of them.
    pub fn times(mut self, times: usize) -> Self {
        self.times = times;
        self
    }

    fn matches(&self, seen: &Seen) -> bool {
        let Self {
            verbs,
            path,
            dry_run,
            skip: _,
            times: _,
        } = self;
        (verbs.is_empty() || verbs.contains(&seen.verb))
            && path.as_ref().is_none_or(|path| path.is_match(&seen.path))
            && dry_run.is_none_or(|dry_run| dry_run == seen.is_dry_run())
    }
}

/// What becomes of a request.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The server is not asked.
    Status(Status),
    /// The server carries it out, and the client gets this answer.
    Lost(Status),
    /// The connection ends without an answer.
    HangUp {
        /// Whether the server has carried it out before.
        carried_out: bool,
    },
    /// The connection ends after so many bytes of the real answer's body.
    CutBody(u64),
    /// The watch begins as it should, and ends in this way after so many events.
    EndWatch {
        /// Events that pass, bookmarks included.
        after: usize,
        /// What comes then.
        how: WatchEnd,
    },
    /// It waits for a gate to open, and then takes its usual course.
    Held(Gate),
}

impl Answer {
    /// 410, as from a server that has forgotten the version or the continue token that it was asked for.
    #[must_use]
    pub fn gone() -> Self {
        Self::Status(Status::gone())
    }

    /// 403, as for want of a right.
    #[must_use]
    pub fn forbidden() -> Self {
        Self::Status(Status::forbidden())
    }

    /// 404, as for a kind that is not served.
    #[must_use]
    pub fn unserved() -> Self {
        Self::Status(Status::unserved())
    }

    /// 409, as for an update of an older version.
    #[must_use]
    pub fn conflict() -> Self {
        Self::Status(Status::conflict())
    }

    /// 429, as from priority and fairness.
    #[must_use]
    pub fn too_many_requests(retry_after_seconds: u32) -> Self {
        Self::Status(Status::too_many_requests(retry_after_seconds))
    }

    /// 500.
    #[must_use]
    pub fn internal_error() -> Self {
        Self::Status(Status::internal_error())
    }

    /// 503.
    #[must_use]
    pub fn unavailable() -> Self {
        Self::Status(Status::unavailable())
    }
}

/// What holds requests back until it is opened, once and for all.
#[derive(Clone, Debug)]
pub struct Gate(Arc<Semaphore>);

impl Default for Gate {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }
}

impl Gate {
    /// Lets everything through.
    pub fn open(&self) {
        self.0.close();
    }

    pub(super) async fn pass(&self) {
        // There are no permits: it returns when the gate opens.
        let _ = self.0.acquire().await;
    }
}

/// All injections, in their order.
#[derive(Debug, Default)]
pub(super) struct Script(Vec<Entry>);

#[derive(Debug)]
struct Entry {
    on: On,
    answer: Answer,
    used: watch::Sender<usize>,
}

impl Script {
    /// Adds an injection. Returns how often it was used.
    pub(super) fn add(&mut self, on: On, answer: Answer) -> watch::Receiver<usize> {
        let used = watch::Sender::new(0);
        let count = used.subscribe();
        self.0.push(Entry { on, answer, used });
        count
    }

    /// The answer to a request, if it is to be another than the server's.
    pub(super) fn next(&mut self, seen: &Seen) -> Option<Answer> {
        for entry in &mut self.0 {
            if entry.on.times == 0 || !entry.on.matches(seen) {
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

    fn seen(uri: &str) -> Seen {
        Seen::new(&Request::get(uri).body(()).unwrap())
    }

    fn code(answer: Option<Answer>) -> u16 {
        match answer {
            Some(Answer::Status(status)) => status.code(),
            _ => 0,
        }
    }

    #[test]
    fn a_request_meets_the_first_injection_that_is_not_used_up() {
        let mut script = Script::default();
        let lists = On::verb(Verb::List).path("/pods$");
        let first = script.add(lists.clone().times(1), Answer::conflict());
        let second = script.add(lists.after(1), Answer::gone());
        let mut ask = |uri| code(script.next(&seen(uri)));
        assert_eq!(ask("/api/v1/secrets"), 0);
        assert_eq!(ask("/api/v1/pods/a"), 0);
        assert_eq!(ask("/api/v1/pods"), 409);
        // Skipped by the second one, which has not counted what the first one took.
        assert_eq!(ask("/api/v1/pods"), 0);
        assert_eq!(ask("/api/v1/namespaces/a/pods"), 410);
        assert_eq!(ask("/api/v1/pods"), 410);
        assert_eq!((*first.borrow(), *second.borrow()), (1, 2));
    }

    #[test]
    fn writes_are_no_dry_runs() {
        let mut script = Script::default();
        let _ = script.add(On::writes(), Answer::internal_error());
        let mut ask = |uri| {
            let request = Request::patch(uri).body(()).unwrap();
            code(script.next(&Seen::new(&request)))
        };
        assert_eq!(ask("/api/v1/namespaces/a/configmaps/b?dryRun=All"), 0);
        assert_eq!(ask("/api/v1/namespaces/a/configmaps/b"), 500);
    }
}
