//! Objects that another manager changes, or deletes, as often as they are repaired.
//!
//! The first repairs follow each change at once. If the same field of an object was repaired many
//! times, each within a few minutes of the one before, the object is disputed: its owner reports the
//! dispute, and each further repair of the object waits twice as long as the one before.
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
    stored_time::not_in_future,
};

/// Number of repairs of a field after which its object is disputed.
const REPAIRS: usize = 20;
/// Longest time without a delay from one repair to the next.
const WINDOW: SignedDuration = SignedDuration::from_mins(5);
/// Longest delay of a repair.
const MAX_DELAY: SignedDuration = SignedDuration::from_secs(640);
/// Number of disputed objects that a message names.
const MAX_NAMED: usize = 5;
/// Number of fields of an object whose repairs are counted. Clients that apply under Baton's manager
/// name can invent fields.
const MAX_FIELDS: usize = 64;
/// Stands for the path of a field that is not known.
const UNKNOWN_FIELD: &str = "a field";

/// A part of an object that is repaired.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    /// The object itself: it was deleted.
    Whole,
    /// The field with this path.
    Field(String),
}

/// The repairs of a part of an object.
#[derive(Clone, Debug, Default)]
struct Count {
    times: usize,
    /// Names of the managers that made the last change; empty if they are not known.
    managers: String,
}

/// The repairs of an object.
#[derive(Clone, Debug)]
struct Repairs {
    counts: BTreeMap<Part, Count>,
    /// Time of the last repair.
    last: Timestamp,
}

/// The repairs of an owner's objects that are not forgotten yet.
///
/// # Guarantees
/// Objects that are no longer repaired are forgotten after the longest delay at the latest, and the
/// counted fields of an object are limited.
#[derive(Clone, Debug, Default)]
pub struct Disputes {
    objects: BTreeMap<ObjectKey, Repairs>,
    /// The objects that the owner has deleted itself to create them again.
    recreated: BTreeSet<ObjectKey>,
}

/// A disputed object. Its text is for people: object, field, other manager and way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dispute {
    key: ObjectKey,
    part: Part,
    managers: String,
}

impl Repairs {
    fn count(&mut self, drift: &Drift, now: Timestamp) {
        for (part, managers) in parts(drift) {
            if self.counts.len() >= MAX_FIELDS && !self.counts.contains_key(&part) {
                continue;
            }
            let count = self.counts.entry(part).or_default();
            count.times += 1;
            count.managers = managers;
        }
        self.last = now;
    }

    /// The part that was repaired most often.
    fn most(&self) -> Option<(&Part, &Count)> {
        self.counts.iter().max_by_key(|(_, count)| count.times)
    }

    fn delay(&self) -> SignedDuration {
        let times = self.most().map_or(0, |(_, count)| count.times);
        times
            .checked_sub(REPAIRS)
            .map_or(SignedDuration::ZERO, |more| growing(more, MAX_DELAY))
    }

    /// Time from which the object may be repaired again.
    fn until(&self) -> Timestamp {
        let until = self.last.saturating_add(self.delay());
        until.unwrap_or(Timestamp::MAX)
    }

    /// Time from which another repair is not related to these.
    fn end(&self) -> Timestamp {
        let end = self.until().saturating_add(WINDOW);
        end.unwrap_or(Timestamp::MAX)
    }

    fn dispute(&self, key: &ObjectKey) -> Option<Dispute> {
        let (part, count) = self.most()?;
        (count.times >= REPAIRS).then(|| Dispute {
            key: key.clone(),
            part: part.clone(),
            managers: count.managers.clone(),
        })
    }
}

impl Disputes {
    /// Counts the repairs of a pass. Returns the objects that are disputed now and were not before.
    pub fn note(&mut self, repaired: &[Drifted], now: Timestamp) -> Vec<Dispute> {
        for repairs in self.objects.values_mut() {
            repairs.last = not_in_future(repairs.last, now);
        }
        self.objects.retain(|_, repairs| now < repairs.end());
        let mut begun = Vec::new();
        for object in repaired {
            let key = object.key();
            let repairs = self.objects.entry(key.clone()).or_insert_with(|| Repairs {
                counts: BTreeMap::new(),
                last: now,
            });
            let was_disputed = repairs.dispute(&key).is_some();
            repairs.count(&object.drift, now);
            begun.extend(repairs.dispute(&key).filter(|_| !was_disputed));
        }
        begun
    }

    /// Records that the owner deletes an object to create it again. The deletion may take several
    /// passes.
    pub fn begin_recreation(&mut self, key: &ObjectKey) {
        self.recreated.insert(key.clone());
    }

    /// Records that an object was created, and returns true if another client had deleted it.
    /// `was_controlled` is true if the owner controlled the object by its last report; while the
    /// creation is delayed, the owner reports that the object does not exist.
    pub fn note_created(&mut self, key: &ObjectKey, was_controlled: bool) -> bool {
        let is_recreated = self.recreated.remove(key);
        !is_recreated && (was_controlled || self.objects.contains_key(key))
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

/// The repaired parts of an object, with the managers that had changed them.
fn parts(drift: &Drift) -> Vec<(Part, String)> {
    if drift.is_deleted {
        return vec![(Part::Whole, String::new())];
    }
    if drift.is_empty() {
        return vec![(Part::Field(UNKNOWN_FIELD.to_owned()), String::new())];
    }
    let fields = drift.fields.iter();
    let parts = fields.map(|it| (Part::Field(it.path.clone()), it.managers.join(", ")));
    parts.collect()
}

impl fmt::Display for Dispute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let path = match &self.part {
            Part::Field(path) => path,
            Part::Whole => {
                return write!(
                    f,
                    "{key} is deleted as soon as it is created, so its creation is delayed: stop the client that \
                     deletes it, or remove the object from the revision."
                );
            }
        };
        let managers = if self.managers.is_empty() {
            "an unknown manager"
        } else {
            &self.managers
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
            ..Drift::default()
        };
        Drifted::new(&key(name), drift)
    }

    #[test]
    fn many_repairs_of_a_field_begin_a_dispute_and_each_further_one_doubles_the_delay() {
        let mut disputes = Disputes::default();
        let mut now = at(0);
        for count in 1..REPAIRS {
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
        for count in 0..57 {
            let now = at(count);
            let repaired = match count % 3 {
                0 => repair("cm", ".data.k", "x"),
                1 => repair("cm", ".data.l", "x"),
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
        for _ in 0..REPAIRS {
            disputes.note(&[Drifted::new(&key("cm"), Drift::deleted())], at(0));
        }
        let condition = disputes.condition(at(0)).unwrap();
        assert!(disputes.note_created(&key("cm"), false));
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
    fn a_recreation_is_no_deletion_by_others() {
        let mut disputes = Disputes::default();
        assert!(!disputes.note_created(&key("cm"), false));
        assert!(disputes.note_created(&key("cm"), true));
        disputes.begin_recreation(&key("cm"));
        assert!(!disputes.note_created(&key("cm"), true));
        assert!(disputes.note_created(&key("cm"), true));
    }

    /// The names of managers, and fields outside the manifest, are chosen by clients.
    #[test]
    fn other_names_of_managers_and_fields_neither_hide_a_dispute_nor_fill_the_memory() {
        let mut disputes = Disputes::default();
        for n in 0..1000 {
            let mut repaired = repair("cm", ".data.k", &format!("m{n}"));
            repaired.drift.fields.push(Field {
                path: format!(".data.f{n}"),
                ..Field::default()
            });
            disputes.note(&[repaired], at(0));
        }
        let message = disputes.condition(at(0)).unwrap().message;
        let expected = "ConfigMap shop/cm: .data.k is changed by m999 as soon as";
        assert!(message.starts_with(expected), "{message}");
        assert_eq!(disputes.objects[&key("cm")].counts.len(), MAX_FIELDS);
    }

    #[test]
    fn the_message_names_few_objects() {
        let mut disputes = Disputes::default();
        for _ in 0..REPAIRS {
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
