//! Objects that another manager changes, or deletes, as often as they are repaired.
//!
//! The first repairs follow each change at once. If the same field was repaired many times against
//! the same manager, each within a few minutes of the one before, the object is disputed: the owner
//! reports it, and each further repair of the object waits twice as long as the one before.
//!
//! Observable behaviour: `docs/contract/revisions.md`, "Disputed objects".

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use baton_apis::conditions::{DISPUTED, Reason};
use jiff::{SignedDuration, Timestamp};

use crate::{
    ObjectKey,
    brake::growing,
    diff::drift::{Drift, Drifted},
    mapping::MappedCondition,
};

/// Number of repairs of a field after which its object is disputed.
const REPAIRS: usize = 10;
/// Longest time without a delay from one repair to the next.
const WINDOW: SignedDuration = SignedDuration::from_mins(5);
/// Longest delay of a repair.
const MAX_DELAY: SignedDuration = SignedDuration::from_secs(640);
/// Number of disputed objects that a message names.
const MAX_NAMED: usize = 5;

/// A field that is changed by others as soon as it is repaired.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cause {
    /// Path of the field; empty if the object is deleted.
    path: String,
    /// Names of the other managers; empty if they are not known.
    managers: String,
}

/// The repairs of an object.
#[derive(Clone, Debug)]
struct Repairs {
    /// Number of repairs of each field.
    counts: BTreeMap<Cause, usize>,
    /// Time of the last repair.
    last: Timestamp,
}

/// The repairs of an owner's objects that are not forgotten yet.
///
/// # Guarantees
/// Objects that are no longer repaired are forgotten, so the state is bounded by the number of
/// repairs in the longest delay.
#[derive(Clone, Debug, Default)]
pub struct Disputes {
    objects: BTreeMap<ObjectKey, Repairs>,
}

/// A disputed object. Its text is for people: object, field, other manager and way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dispute {
    key: ObjectKey,
    cause: Cause,
}

impl Repairs {
    fn of_most(&self) -> Option<(&Cause, usize)> {
        let counts = self.counts.iter().map(|(cause, count)| (cause, *count));
        counts.max_by_key(|(_, count)| *count)
    }

    fn delay(&self) -> SignedDuration {
        let count = self.of_most().map_or(0, |(_, count)| count);
        count
            .checked_sub(REPAIRS)
            .map_or(SignedDuration::ZERO, |more| growing(more, MAX_DELAY))
    }

    /// Time from which the object may be repaired again.
    fn until(&self) -> Timestamp {
        self.last
            .saturating_add(self.delay())
            .unwrap_or(Timestamp::MAX)
    }

    /// Time from which another repair is not related to these.
    fn end(&self) -> Timestamp {
        self.until()
            .saturating_add(WINDOW)
            .unwrap_or(Timestamp::MAX)
    }

    fn dispute(&self, key: &ObjectKey) -> Option<Dispute> {
        let (cause, count) = self.of_most()?;
        (count >= REPAIRS).then(|| Dispute {
            key: key.clone(),
            cause: cause.clone(),
        })
    }
}

impl Disputes {
    /// Counts the repairs of a pass. Returns the objects that are disputed now and were not before.
    pub fn note(&mut self, repaired: &[Drifted], now: Timestamp) -> Vec<Dispute> {
        self.objects.retain(|_, repairs| now < repairs.end());
        let mut begun = Vec::new();
        for object in repaired {
            let key = object.key();
            let repairs = self.objects.entry(key.clone()).or_insert_with(|| Repairs {
                counts: BTreeMap::new(),
                last: now,
            });
            let before = repairs.dispute(&key);
            for cause in causes(&object.drift) {
                *repairs.counts.entry(cause).or_default() += 1;
            }
            repairs.last = now;
            begun.extend(repairs.dispute(&key).filter(|_| before.is_none()));
        }
        begun
    }

    /// The objects that must not be repaired yet.
    pub fn held(&self, now: Timestamp) -> BTreeSet<ObjectKey> {
        let held = self.objects.iter();
        let held = held.filter(|(_, repairs)| now < repairs.until());
        held.map(|(key, _)| key.clone()).collect()
    }

    /// The condition about the disputed objects; `None` if there are none.
    pub fn condition(&self, now: Timestamp) -> Option<MappedCondition> {
        let objects = self.objects.iter();
        let current = objects.filter(|(_, repairs)| now < repairs.end());
        let disputes: Vec<_> = current
            .filter_map(|(key, repairs)| repairs.dispute(key))
            .collect();
        let shown = disputes.iter().take(MAX_NAMED).map(ToString::to_string);
        let mut texts: Vec<_> = shown.collect();
        if let Some(more) = disputes
            .len()
            .checked_sub(MAX_NAMED)
            .filter(|more| *more > 0)
        {
            texts.push(format!("{more} more object(s) are disputed."));
        }
        (!texts.is_empty()).then(|| MappedCondition {
            type_: DISPUTED.to_owned(),
            status: "True".to_owned(),
            reason: Reason::Disputed.to_string(),
            message: texts.join(" "),
        })
    }

    /// Time until a delay or a dispute ends, if no other repair comes before.
    pub fn next(&self, now: Timestamp) -> Option<Duration> {
        let objects = self.objects.values();
        let disputed = objects.filter(|repairs| !repairs.delay().is_zero());
        let times = disputed.flat_map(|repairs| [repairs.until(), repairs.end()]);
        let next = times.filter(|time| *time > now).min()?;
        Some(next.duration_since(now).unsigned_abs())
    }
}

fn causes(drift: &Drift) -> Vec<Cause> {
    let fields = drift.fields.iter().map(|field| Cause {
        path: field.path.clone(),
        managers: field.managers.join(", "),
    });
    let fields: Vec<_> = fields.collect();
    match &fields[..] {
        [] => vec![Cause {
            path: "a field".to_owned(),
            managers: String::new(),
        }],
        _ if drift.is_deletion() => vec![Cause {
            path: String::new(),
            managers: String::new(),
        }],
        _ => fields,
    }
}

impl fmt::Display for Dispute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            key,
            cause: Cause { path, managers },
        } = self;
        if path.is_empty() {
            return write!(
                f,
                "{key} is deleted as soon as it is created again, so its creation is delayed: stop the client that \
                 deletes it, or remove the object from the revision."
            );
        }
        let managers = if managers.is_empty() {
            "an unknown manager"
        } else {
            managers
        };
        write!(
            f,
            "{key}: {path} is changed by {managers} as soon as it is repaired, so repairs are delayed: list the field \
             in createOnlyFields, remove it from the manifest, or stop that manager."
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diff::drift::{Change, Field};

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey {
            group: String::new(),
            kind: "ConfigMap".to_owned(),
            namespace: "shop".to_owned(),
            name: name.to_owned(),
        }
    }

    fn repair(name: &str, path: &str, manager: &str) -> Drifted {
        let field = Field {
            path: path.to_owned(),
            change: Change::Set,
            managers: vec![manager.to_owned()],
            is_surplus: false,
        };
        let drift = Drift {
            fields: vec![field],
            more: 0,
        };
        Drifted::new(&key(name), drift)
    }

    #[test]
    fn the_tenth_repair_of_a_field_begins_a_dispute_and_each_further_one_doubles_the_delay() {
        let mut disputes = Disputes::default();
        let mut now = at(0);
        for count in 1..10 {
            assert_eq!(disputes.note(&[repair("cm", ".data.k", "x")], now), []);
            assert!(disputes.held(now).is_empty(), "{count}");
            assert_eq!((disputes.condition(now), disputes.next(now)), (None, None));
        }
        for (count, delay) in [10, 20, 40, 80, 160, 320, 640, 640].into_iter().enumerate() {
            let begun = disputes.note(&[repair("cm", ".data.k", "x")], now);
            assert_eq!(begun.len(), usize::from(count == 0));
            assert_eq!(disputes.held(now), BTreeSet::from([key("cm")]));
            assert_eq!(disputes.next(now), Some(Duration::from_secs(delay)));
            now += Duration::from_secs(delay);
            assert!(disputes.held(now).is_empty());
            let condition = disputes.condition(now).unwrap();
            assert_eq!(condition.reason, "Disputed");
            assert_eq!(
                condition.message,
                "ConfigMap shop/cm: .data.k is changed by x as soon as it is repaired, so repairs are delayed: list \
                 the field in createOnlyFields, remove it from the manifest, or stop that manager."
            );
        }
        // The other manager has stopped.
        assert_eq!(disputes.next(now), Some(Duration::from_mins(5)));
        now += Duration::from_mins(5);
        assert_eq!((disputes.condition(now), disputes.next(now)), (None, None));
        assert_eq!(disputes.note(&[repair("cm", ".data.k", "x")], now), []);
        assert!(disputes.held(now).is_empty());
    }

    #[test]
    fn repairs_that_are_not_related_are_no_dispute() {
        let mut disputes = Disputes::default();
        for count in 0..36 {
            let now = at(count);
            let repaired = match count % 4 {
                0 => repair("cm", ".data.k", "x"),
                1 => repair("cm", ".data.l", "x"),
                2 => repair("cm", ".data.k", "y"),
                _ => repair("other", ".data.k", "x"),
            };
            assert_eq!(disputes.note(&[repaired], now), []);
        }
        let mut disputes = Disputes::default();
        for count in 0..40 {
            let now = at(300 * count);
            assert_eq!(disputes.note(&[repair("cm", ".data.k", "x")], now), []);
            assert!(disputes.held(now).is_empty());
        }
    }

    #[test]
    fn an_object_that_is_deleted_repeatedly_is_disputed() {
        let mut disputes = Disputes::default();
        for _ in 0..10 {
            disputes.note(&[Drifted::new(&key("cm"), Drift::deleted())], at(0));
        }
        let condition = disputes.condition(at(0)).unwrap();
        assert!(
            condition
                .message
                .starts_with("ConfigMap shop/cm is deleted as soon as"),
            "{condition:?}"
        );
        assert_eq!(disputes.held(at(9)), BTreeSet::from([key("cm")]));
        assert!(disputes.held(at(10)).is_empty());
    }

    #[test]
    fn the_message_names_few_objects() {
        let mut disputes = Disputes::default();
        for _ in 0..10 {
            let repaired: Vec<_> = (0..9)
                .map(|n| repair(&format!("cm-{n}"), ".data.k", ""))
                .collect();
            disputes.note(&repaired, at(0));
        }
        let message = disputes.condition(at(0)).unwrap().message;
        assert!(message.contains("shop/cm-4: .data.k is changed by an unknown manager"));
        assert!(
            message.ends_with(" 4 more object(s) are disputed."),
            "{message}"
        );
    }
}
