//! Remembers what this process has created, so that it stops when it would create the same object again and
//! again: a program deletes or changes each new object.
//!
//! Controllers whose decision is derived from the existing objects cannot count objects that are gone.
//! The memory ends with the process. A new process begins with the attempts that are free.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher as _},
    sync::Arc,
    time::{Duration, Instant},
};

use baton_apis::constants::LABEL_CHAIN;
use baton_engine::brake;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde_json::Value;

/// The time after which a creation is forgotten, besides twice its delay. It is longer than any
/// requeue after a failure.
const MEMORY: Duration = Duration::from_mins(20);

/// Number of creations above which the outdated ones are dropped.
const MANY: usize = 1024;

/// An object that was created again and again is not created now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "created {times} times in a row, and each of them is gone or has changed: something deletes or changes it. The \
     next one is created at {until:.0}"
)]
pub struct Repeated {
    /// Number of creations.
    times: usize,
    /// Time of the next attempt, by the time of day of the last creation.
    until: Timestamp,
    /// Time until the next attempt.
    pub wait: Duration,
}

/// Identifies what is created: equal objects of one owner are the same, whatever their names and
/// numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Creation {
    key: u64,
    content: u64,
}

impl Creation {
    /// The creation of an object in a collection, which is a URL path.
    ///
    /// Revisions of a chain, and the Releases of an Application, have different contents one after the
    /// other, and only the last one counts. The objects of all other kinds count separately.
    #[must_use]
    pub fn of(collection: &str, manifest: &Value) -> Self {
        let [mut key, mut content] = [DefaultHasher::new(), DefaultHasher::new()];
        collection.hash(&mut key);
        let metadata = &manifest["metadata"];
        let owners = &metadata["ownerReferences"];
        owners.to_string().hash(&mut key);
        if owners.as_array().is_none_or(Vec::is_empty) {
            metadata["name"].to_string().hash(&mut key);
        }
        metadata["labels"][LABEL_CHAIN].to_string().hash(&mut key);
        let fields = manifest.as_object().into_iter().flatten();
        let outer = fields.filter(|(name, _)| {
            !["metadata", "spec", "status", "revision"].contains(&name.as_str())
        });
        let spec = manifest["spec"].as_object().into_iter().flatten();
        let spec = spec.filter(|(name, _)| !["revision", "previous"].contains(&name.as_str()));
        for (name, value) in outer.chain(spec) {
            (name, value.to_string()).hash(&mut content);
        }
        let [key, content] = [key.finish(), content.finish()];
        let spec = &manifest["spec"];
        let is_revision = spec["phases"].is_array() || spec["environment"].is_object();
        Self {
            key: if is_revision { key } else { key ^ content },
            content,
        }
    }
}

/// The last creations of an object.
struct Made {
    content: u64,
    times: usize,
    last: Instant,
    until: Timestamp,
}

impl Made {
    fn delay(&self) -> Duration {
        brake::delay(self.times).map_or(Duration::ZERO, SignedDuration::unsigned_abs)
    }

    fn is_outdated(&self, now: Instant) -> bool {
        let memory = self.delay() * 2 + MEMORY;
        now.duration_since(self.last) > memory
    }
}

/// The creations of this process; clones share them.
#[derive(Clone, Default)]
pub struct Creations(Arc<Mutex<HashMap<u64, Made>>>);

impl Creations {
    /// Checks that an object may be created now.
    ///
    /// # Errors
    /// While equal objects were created several times in a row, and the delay has not passed.
    pub fn check(&self, creation: Creation) -> Result<(), Repeated> {
        self.check_at(creation, Instant::now())
    }

    fn check_at(&self, creation: Creation, now: Instant) -> Result<(), Repeated> {
        let all = self.0.lock();
        let made = all.get(&creation.key);
        let made = made.filter(|made| made.content == creation.content && !made.is_outdated(now));
        let Some(made) = made else {
            return Ok(());
        };
        let wait = made.delay().saturating_sub(now.duration_since(made.last));
        if wait.is_zero() {
            return Ok(());
        }
        Err(Repeated {
            times: made.times,
            until: made.until,
            wait,
        })
    }

    /// Remembers that an object was created.
    pub fn made(&self, creation: Creation) {
        self.made_at(creation, Instant::now(), Timestamp::now());
    }

    fn made_at(&self, creation: Creation, now: Instant, time: Timestamp) {
        let mut all = self.0.lock();
        if all.len() >= MANY && all.len() == all.capacity() {
            all.retain(|_, made| !made.is_outdated(now));
        }
        let before = all.get(&creation.key);
        let before = before.filter(|it| it.content == creation.content && !it.is_outdated(now));
        let mut made = Made {
            content: creation.content,
            times: before.map_or(1, |before| before.times + 1),
            last: now,
            until: time,
        };
        let delay = SignedDuration::try_from(made.delay()).unwrap_or_default();
        made.until = time.checked_add(delay).unwrap_or(time);
        all.insert(creation.key, made);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn revision(name: &str, number: i64, uid: &str, slice: &str) -> Creation {
        Creation::of(
            "/objectsets",
            &json!({
                "kind": "ObjectSet",
                "metadata": {"name": name, "ownerReferences": [{"uid": uid}]},
                "spec": {"revision": number, "previous": [{"name": name}], "phases": [{"slices": [slice]}]},
            }),
        )
    }

    fn slice(name: &str, owners: &Value, data: &str) -> Creation {
        let metadata = json!({"name": name, "ownerReferences": owners});
        Creation::of(
            "/objectslices",
            &json!({"metadata": metadata, "objects": [data]}),
        )
    }

    #[test]
    fn equal_objects_of_one_owner_are_the_same() {
        let one = revision("a-1", 1, "u", "s");
        assert_eq!(one, revision("a-2", 2, "u", "s"));
        assert_ne!(one.key, revision("a-1", 1, "other", "s").key);
        let other = revision("a-1", 1, "u", "other");
        assert_eq!(one.key, other.key, "a revision of the same chain");
        assert_ne!(one.content, other.content);

        let owned = json!([{"uid": "u"}]);
        let one = slice("a", &owned, "x");
        assert_eq!(one, slice("a-1", &owned, "x"));
        assert_ne!(one.key, slice("a", &owned, "y").key);
        let free = slice("a", &json!([]), "x");
        assert_ne!(
            free.key,
            slice("b", &json!([]), "x").key,
            "no owner: by name"
        );
    }

    /// A program deletes each object at once, and a pass follows each second.
    #[test]
    fn creations_in_a_row_are_delayed_more_and_more() {
        let (creations, start) = (Creations::default(), Instant::now());
        let creation = revision("a", 1, "u", "s");
        let mut at = Vec::new();
        for second in 0..3600 {
            let now = start + Duration::from_secs(second);
            if creations.check_at(creation, now).is_ok() {
                let time = Timestamp::from_second(i64::try_from(second).unwrap()).unwrap();
                creations.made_at(creation, now, time);
                at.push(second);
            }
        }
        assert_eq!(at, [0, 1, 2, 3, 4, 14, 34, 74, 154, 314, 634, 1274, 2554]);
        let now = start + Duration::from_secs(2600);
        let refused = creations.check_at(creation, now).unwrap_err();
        assert_eq!(refused.wait, Duration::from_secs(2554 + 2560 - 2600));
        let message = refused.to_string();
        assert!(message.contains("created 13 times in a row"), "{message}");
        assert!(message.ends_with("at 1970-01-01T01:25:14Z"), "{message}");
    }

    #[test]
    fn another_content_and_a_long_life_begin_anew() {
        let (creations, start) = (Creations::default(), Instant::now());
        let [one, other] = ["s", "t"].map(|slice| revision("a", 1, "u", slice));
        for _ in 0..9 {
            creations.made_at(one, start, Timestamp::UNIX_EPOCH);
        }
        assert!(creations.check_at(one, start).is_err());
        assert_eq!(creations.check_at(other, start), Ok(()));
        let later = start + Duration::from_hours(1);
        assert_eq!(creations.check_at(one, later), Ok(()));
        creations.made_at(one, later, Timestamp::UNIX_EPOCH);
        assert_eq!(
            creations.check_at(one, later),
            Ok(()),
            "the first one again"
        );
        creations.made_at(other, later, Timestamp::UNIX_EPOCH);
        assert_eq!(creations.check_at(one, later), Ok(()));
    }

    #[test]
    fn outdated_creations_are_dropped() {
        let (creations, start) = (Creations::default(), Instant::now());
        for second in 0..100_000_u32 {
            let now = start + Duration::from_secs(second.into());
            let creation = slice(&second.to_string(), &json!([]), "");
            creations.made_at(creation, now, Timestamp::UNIX_EPOCH);
        }
        assert!(creations.0.lock().len() < 8 * MANY);
    }
}
