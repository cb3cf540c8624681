//! Lists of conditions: lookups, and updates that preserve transition times.

use std::collections::{BTreeMap, btree_map::Entry};

use baton_apis::conditions::{GENERAL, MAX_MESSAGE_LENGTH, Reason, STARTED, STOPPED};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::{
    mapping::MappedCondition,
    stored_time::not_in_future,
    texts::{self, truncate},
};

/// Returns the condition of a type.
pub fn find<'a>(list: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    list.iter().find(|condition| condition.type_ == type_)
}

/// Returns the condition of a type if it is true.
pub fn find_true<'a>(list: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    list.iter()
        .find(|condition| condition.type_ == type_ && condition.status == "True")
}

/// Returns the condition of a type that was observed at this generation, if there is one. The list
/// may contain conditions of that type of other generations before it.
pub fn find_current<'a>(
    list: &'a [Condition],
    type_: &str,
    generation: i64,
) -> Option<&'a Condition> {
    list.iter().find(|condition| {
        condition.type_ == type_ && condition.observed_generation == Some(generation)
    })
}

/// True if the condition of a type exists and is true.
pub fn is_true(list: &[Condition], type_: &str) -> bool {
    find_true(list, type_).is_some()
}

/// True if a status no longer has a condition of one of the `lasting` types that it had before.
///
/// Baton writes conditions of these types into each status from the first time on, so that another
/// client has removed it. `before` and `now` are true if the status has a condition of a type.
pub fn has_lost(
    lasting: &[&str],
    before: impl Fn(&str) -> bool,
    now: impl Fn(&str) -> bool,
) -> bool {
    lasting.iter().any(|type_| before(type_) && !now(type_))
}

/// The conditions of an object while they are being updated.
///
/// # Guarantees
/// The transition time of a condition changes only if its status changes, so a list that reports
/// the same as before is equal to the previous one.
pub struct Conditions {
    list: Vec<Condition>,
    generation: i64,
    now: Timestamp,
}

impl Conditions {
    /// Starts from the previous conditions; `generation` is the `observedGeneration` of the
    /// conditions that are set. Transition times [in the future](not_in_future) become `now`.
    #[must_use]
    pub fn new(previous: &[Condition], generation: i64, now: Timestamp) -> Self {
        let mut list = previous.to_vec();
        for condition in &mut list {
            let time = &mut condition.last_transition_time.0;
            *time = not_in_future(*time, now);
        }
        Self {
            list,
            generation,
            now,
        }
    }

    /// The `observedGeneration` of the conditions that are set.
    pub fn generation(&self) -> i64 {
        self.generation
    }

    /// Returns the condition of a type.
    pub fn get(&self, type_: &str) -> Option<&Condition> {
        find(&self.list, type_)
    }

    /// True if the condition of a type exists and is true.
    pub fn is_true(&self, type_: &str) -> bool {
        is_true(&self.list, type_)
    }

    /// Sets a condition; a message that is too long is cut.
    pub fn set(&mut self, type_: &str, status: &str, reason: Reason, message: &str) {
        self.copy(type_, status, reason.as_str(), message);
    }

    /// As [`set`](Self::set), with the reason of another condition.
    pub fn copy(&mut self, type_: &str, status: &str, reason: &str, message: &str) {
        let condition = Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: truncate(message, MAX_MESSAGE_LENGTH).into_owned(),
            observed_generation: Some(self.generation),
            last_transition_time: Time(self.now),
        };
        match self
            .list
            .iter_mut()
            .find(|condition| condition.type_ == type_)
        {
            Some(existing) if existing.status == status => {
                let last_transition_time = existing.last_transition_time.clone();
                *existing = Condition {
                    last_transition_time,
                    ..condition
                };
            }
            Some(existing) => *existing = condition,
            None => self.list.push(condition),
        }
    }

    /// Removes a condition.
    pub fn remove(&mut self, type_: &str) {
        self.list.retain(|condition| condition.type_ != type_);
    }

    /// Replaces all mapped conditions: those with a prefix in their type. Of several conditions
    /// with the same type the last one counts. Conditions that do not fit into a status are left
    /// out.
    pub fn map(&mut self, mapped: Vec<MappedCondition>) {
        let mapped: Vec<_> = texts::mapped(last_of_each(mapped)).collect();
        self.list.retain(|condition| {
            !condition.type_.contains('/')
                || mapped.iter().any(|mapped| mapped.type_ == condition.type_)
        });
        for condition in mapped {
            self.copy(
                &condition.type_,
                &condition.status,
                &condition.reason,
                &condition.message,
            );
        }
    }

    /// Sets only those of the mapped conditions that report the phase's position in the queue of its
    /// site. The position is known even if the pass ended early.
    pub fn set_place(&mut self, mapped: &[MappedCondition]) {
        let of_place = |it: &&MappedCondition| matches!(&*it.type_, STARTED | STOPPED);
        for condition in mapped.iter().filter(of_place) {
            self.copy(
                &condition.type_,
                &condition.status,
                &condition.reason,
                &condition.message,
            );
        }
    }

    /// Replaces all mapped conditions by those of another object.
    pub fn copy_mapped<'a>(&mut self, mapped: impl Iterator<Item = &'a Condition>) {
        let copy = |condition: &Condition| MappedCondition {
            type_: condition.type_.clone(),
            status: condition.status.clone(),
            reason: condition.reason.clone(),
            message: condition.message.clone(),
        };
        self.map(mapped.map(copy).collect());
    }

    /// The current conditions.
    pub fn list(&self) -> &[Condition] {
        &self.list
    }

    /// Returns the current conditions. Those for general tools come last, independent of the order
    /// in which they were set.
    pub fn into_list(mut self) -> Vec<Condition> {
        let rank = |condition: &Condition| GENERAL.iter().position(|it| *it == condition.type_);
        self.list.sort_by_key(rank);
        self.list
    }
}

/// Keeps the last condition of each type, at the position of the first one. If all of them were set
/// one after the other, the status of the condition and its transition time would change in each
/// pass.
fn last_of_each(mapped: Vec<MappedCondition>) -> Vec<MappedCondition> {
    let mut places = BTreeMap::new();
    let mut last: Vec<MappedCondition> = Vec::new();
    for condition in mapped {
        match places.entry(condition.type_.clone()) {
            Entry::Occupied(index) => last[*index.get()] = condition,
            Entry::Vacant(index) => {
                index.insert(last.len());
                last.push(condition);
            }
        }
    }
    last
}
