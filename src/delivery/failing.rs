//! The failing objects of an owner, as far as no watch reports the cause.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use baton_engine::{
    ObjectKey,
    conditions::{FIRST_POLL, next_look},
    revision::Revision,
};
use baton_runtime::clock::Clock;
use jiff::SignedDuration;

/// The failing objects that an owner waits for, as far as no watch reports the cause.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failing {
    /// The failing objects; `None` before the first pass of this process.
    objects: Option<BTreeSet<ObjectKey>>,
    /// Start of the time in which exactly these objects have failed.
    pub since: Instant,
    /// Time of the last pod lists, and the problems found, by workload.
    pub polled: Option<(Instant, BTreeMap<ObjectKey, String>)>,
}

impl Failing {
    fn since(since: Instant) -> Self {
        Self {
            objects: None,
            since,
            polled: None,
        }
    }

    /// The state of a failure that a revision has reported before this process started, if so.
    pub(super) fn reported(revision: &Revision, clock: &Clock) -> Option<Self> {
        let now = clock.instant();
        let lasts = clock.now().duration_since(revision.failing_since?);
        let since = now.checked_sub(lasts.max(SignedDuration::ZERO).unsigned_abs());
        Some(Self::since(since.unwrap_or(now)))
    }

    /// True if pods are to be listed: the longer the failure lasts, the less often.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        let lasts = now.duration_since(self.since);
        let rested = |(at, _): &(Instant, _)| now.duration_since(*at) >= next_look(lasts) / 2;
        lasts >= FIRST_POLL && self.polled.as_ref().is_none_or(rested)
    }

    /// The state after a pass in which these objects failed. The time starts again if the set of
    /// objects has changed; the problems of pods stay until the next lists.
    pub(super) fn after(
        previous: Option<Self>,
        objects: BTreeSet<ObjectKey>,
        now: Instant,
    ) -> Self {
        let mut previous = previous.unwrap_or_else(|| Self::since(now));
        if previous.objects.is_some_and(|before| before != objects) {
            previous.since = now;
        }
        Self {
            objects: Some(objects),
            ..previous
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The pods of a new failure are listed soon, however long another object has failed before.
    #[test]
    fn a_failure_of_other_objects_restarts_the_delay() {
        let objects = |name: &str| {
            let name = name.to_owned();
            BTreeSet::from([ObjectKey {
                name,
                ..ObjectKey::default()
            }])
        };
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let first = Failing::after(None, objects("a"), at(0));
        for (seconds, expected) in [(9, false), (10, true), (1800, true)] {
            assert_eq!(first.is_due(at(seconds)), expected, "{seconds}");
        }
        let mut polled = Failing::after(Some(first), objects("a"), at(1800));
        polled.polled = Some((at(1800), BTreeMap::new()));
        assert!(!polled.is_due(at(1800 + 299)) && polled.is_due(at(1800 + 300)));
        let other = Failing::after(Some(polled.clone()), objects("b"), at(1801));
        assert_eq!((other.since, &other.polled), (at(1801), &polled.polled));
        assert!(!other.is_due(at(1810)) && other.is_due(at(1811)));

        // After a restart the reported time counts.
        let reported = Failing::since(at(0));
        let failing = Failing::after(Some(reported), objects("a"), at(600));
        assert_eq!(failing.since, at(0));
    }
}
