//! The record in a Lease, and the conclusions of a candidate from it. No client and no clock.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

/// The assumed duration of a holder whose record states none.
const UNSTATED_DURATION: Duration = Duration::from_secs(15);

/// An observed record, and the time since which it has not changed.
#[derive(Debug)]
pub(super) struct Sighting {
    pub(super) spec: LeaseSpec,
    pub(super) since: Instant,
}

impl Sighting {
    /// The sighting after the record was observed as `spec`.
    pub(super) fn update(sighting: Option<Self>, spec: &LeaseSpec, now: Instant) -> Self {
        match sighting {
            // A new resourceVersion alone does not prove that the holder is running: a label may have
            // been edited.
            Some(sighting) if sighting.spec == *spec => sighting,
            _ => Self {
                spec: spec.clone(),
                since: now,
            },
        }
    }
}

/// The state of a record for a candidate.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LeaseState {
    /// The lease has no holder.
    Vacant,
    /// The candidate itself holds it.
    Mine,
    /// The holder has not renewed the lease for the duration that the record states.
    Stale,
    /// Another process holds the lease.
    Held { holder: String },
}

/// The holder of the lease. A vacant lease has no holder or, if older clients wrote it, an empty
/// one.
pub(super) fn holder(spec: &LeaseSpec) -> Option<&str> {
    spec.holder_identity
        .as_deref()
        .filter(|holder| !holder.is_empty())
}

/// Decides the state of the record for the candidate `me`.
pub(super) fn lease_state(sighting: &Sighting, me: &str, now: Instant) -> LeaseState {
    let Some(holder) = holder(&sighting.spec) else {
        return LeaseState::Vacant;
    };
    if holder == me {
        return LeaseState::Mine;
    }
    let promised = sighting
        .spec
        .lease_duration_seconds
        .and_then(|seconds| u64::try_from(seconds).ok());
    let promised = promised.map_or(UNSTATED_DURATION, Duration::from_secs);
    if now.duration_since(sighting.since) >= promised {
        LeaseState::Stale
    } else {
        LeaseState::Held {
            holder: holder.to_owned(),
        }
    }
}

/// The record with `me` as its holder. Fields that do not depend on the holder stay.
pub(super) fn claimed(
    old: Option<&LeaseSpec>,
    me: &str,
    duration: Duration,
    now: Timestamp,
) -> LeaseSpec {
    let mut spec = old.cloned().unwrap_or_default();
    if old.and_then(holder) != Some(me) {
        // A new lease counts no transition, as with client-go.
        spec.lease_transitions = Some(old.map_or(0, |old| {
            old.lease_transitions.unwrap_or(0).saturating_add(1)
        }));
        spec.acquire_time = Some(MicroTime(now));
        spec.holder_identity = Some(me.to_owned());
    }
    spec.lease_duration_seconds = Some(i32::try_from(duration.as_secs()).unwrap_or(i32::MAX));
    spec.renew_time = Some(MicroTime(now));
    spec
}

/// The record without a holder, as client-go writes it.
pub(super) fn released(old: &LeaseSpec, now: Timestamp) -> LeaseSpec {
    LeaseSpec {
        holder_identity: None,
        lease_duration_seconds: Some(1),
        acquire_time: Some(MicroTime(now)),
        renew_time: Some(MicroTime(now)),
        ..old.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: &str = "me";

    fn time(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn held(holder: &str, duration: i32) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(duration),
            acquire_time: Some(MicroTime(time(1))),
            renew_time: Some(MicroTime(time(2))),
            lease_transitions: Some(3),
            ..LeaseSpec::default()
        }
    }

    #[test]
    fn a_lease_is_vacant_after_the_duration_that_its_holder_set() {
        let other = || LeaseState::Held {
            holder: "other".to_owned(),
        };
        let unstated = LeaseSpec {
            lease_duration_seconds: None,
            ..held("other", 1)
        };
        let nobody = LeaseSpec {
            holder_identity: None,
            ..held("", 1)
        };
        for (spec, seen_for, expected) in [
            (LeaseSpec::default(), 0, LeaseState::Vacant),
            (nobody, 0, LeaseState::Vacant),
            (held("", 100), 0, LeaseState::Vacant),
            (held(ME, 15), 0, LeaseState::Mine),
            (held(ME, 15), 100, LeaseState::Mine),
            (held("other", 15), 0, other()),
            (held("other", 15), 14, other()),
            (held("other", 15), 15, LeaseState::Stale),
            (held("other", 137), 100, other()),
            (held("other", 137), 137, LeaseState::Stale),
            (unstated.clone(), 14, other()),
            (unstated, 15, LeaseState::Stale),
        ] {
            let since = Instant::now();
            let sighting = Sighting {
                spec: spec.clone(),
                since,
            };
            let now = since + Duration::from_secs(seen_for);
            assert_eq!(
                lease_state(&sighting, ME, now),
                expected,
                "{spec:?} for {seen_for} s"
            );
        }
    }

    #[test]
    fn only_a_change_of_the_record_is_a_sign_of_life() {
        let start = Instant::now();
        let later = start + Duration::from_secs(5);
        let sighting = Sighting::update(None, &held("other", 15), start);
        let sighting = Sighting::update(Some(sighting), &held("other", 15), later);
        assert_eq!(sighting.since, start);
        let renewed = LeaseSpec {
            renew_time: Some(MicroTime(time(9))),
            ..held("other", 15)
        };
        let sighting = Sighting::update(Some(sighting), &renewed, later);
        assert_eq!((sighting.since, sighting.spec), (later, renewed));
    }

    #[test]
    fn claims_have_the_format_of_client_go() {
        let duration = Duration::from_secs(15);
        let fresh = claimed(None, ME, duration, time(9));
        let first = LeaseSpec {
            holder_identity: Some(ME.to_owned()),
            lease_duration_seconds: Some(15),
            acquire_time: Some(MicroTime(time(9))),
            renew_time: Some(MicroTime(time(9))),
            lease_transitions: Some(0),
            ..LeaseSpec::default()
        };
        assert_eq!(fresh, first);

        let renewed = claimed(Some(&held(ME, 15)), ME, duration, time(9));
        let expected = LeaseSpec {
            renew_time: Some(MicroTime(time(9))),
            ..held(ME, 15)
        };
        assert_eq!(renewed, expected);

        let theirs = LeaseSpec {
            strategy: Some("OldestEmulationVersion".to_owned()),
            ..held("other", 137)
        };
        let taken = claimed(Some(&theirs), ME, duration, time(9));
        let expected = LeaseSpec {
            lease_transitions: Some(4),
            strategy: theirs.strategy,
            ..first
        };
        assert_eq!(taken, expected);
    }

    #[test]
    fn a_vacated_lease_keeps_its_count() {
        let left = released(&held(ME, 15), time(9));
        assert_eq!(holder(&left), None);
        assert_eq!(left.lease_transitions, Some(3));
        assert_eq!(left.lease_duration_seconds, Some(1));
        assert_eq!(
            claimed(Some(&left), ME, Duration::from_secs(15), time(10)).lease_transitions,
            Some(4)
        );
    }
}
