//! The requests of the manager, as its metrics count them.

use std::collections::BTreeMap;

use baton_hack::metrics::{Metrics, is_write};
use serde::Serialize;

/// Verbs whose number of requests depends on the number of objects.
const ABOUT_OBJECTS: [&str; 6] = ["apply", "create", "delete", "dry-run", "get", "update"];

/// Verbs whose number of requests depends on the number of revisions. The others depend on neither:
/// watches, lists, discovery, and the lease, which is renewed periodically.
const ABOUT_SETS: [&str; 3] = ["event", "patch", "status"];

/// Requests by verb.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Requests(BTreeMap<String, u64>);

impl Requests {
    /// The requests sent so far; `None` if they are not counted at all, which must not look like a
    /// manager without requests.
    pub(crate) fn of(metrics: &Metrics) -> Option<Self> {
        let requests = metrics.requests_by_verb();
        (!requests.is_empty()).then_some(Self(requests))
    }

    /// The requests sent since `earlier`. Unused verbs are left out.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let difference = |(verb, now): (&String, &u64)| {
            let sent = now.saturating_sub(earlier.by(verb));
            (sent > 0).then(|| (verb.clone(), sent))
        };
        Self(self.0.iter().filter_map(difference).collect())
    }

    /// The number for one verb.
    pub(crate) fn by(&self, verb: &str) -> u64 {
        self.0.get(verb).copied().unwrap_or_default()
    }

    pub(crate) fn verbs(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The number of writes.
    pub(crate) fn writes(&self) -> u64 {
        let verbs = self.verbs().filter(|verb| is_write(verb));
        verbs.map(|verb| self.by(verb)).sum()
    }

    /// The number of requests that depends on the number of objects.
    pub(crate) fn about_objects(&self) -> u64 {
        ABOUT_OBJECTS.iter().map(|verb| self.by(verb)).sum()
    }

    /// The number of requests that depends on the number of revisions.
    pub(crate) fn about_sets(&self) -> u64 {
        ABOUT_SETS.iter().map(|verb| self.by(verb)).sum()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Requests of a manager by verb.
    pub(crate) fn requests(counts: &[(&str, u64)]) -> Requests {
        let counts = counts
            .iter()
            .map(|(verb, count)| ((*verb).to_owned(), *count));
        Requests(counts.collect())
    }

    #[test]
    fn requests_are_divided_into_those_about_objects_and_sets() {
        let requests = requests(&[("apply", 2), ("get", 4), ("lease", 9), ("status", 3)]);
        assert_eq!(requests.writes(), 5);
        assert_eq!((requests.about_objects(), requests.about_sets()), (6, 3));
        assert_eq!(
            Requests::of(&Metrics::parse("baton_reconcile_total 4\n")),
            None
        );
    }

    #[test]
    fn the_difference_omits_unchanged_counts() {
        let before = requests(&[("apply", 2), ("get", 4)]);
        let after = requests(&[("apply", 2), ("get", 6)]);
        assert_eq!(after.since(&before), requests(&[("get", 2)]));
    }

    #[test]
    fn every_write_verb_is_about_either_objects_or_sets() {
        let verbs = ABOUT_OBJECTS.iter().chain(&ABOUT_SETS);
        assert_eq!(verbs.filter(|verb| is_write(verb)).count(), 6);
        assert!(ABOUT_OBJECTS.iter().all(|verb| !ABOUT_SETS.contains(verb)));
    }
}
