//! Lists of conditions: what is in one, and one being brought up to date.

use std::collections::{BTreeMap, btree_map::Entry};

use baton_apis::conditions::{GENERAL, MAX_MESSAGE_LENGTH, STARTED, STOPPED};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::{
    mapping::MappedCondition,
    texts::{self, cut},
};

/// The condition of a type.
pub fn find<'a>(list: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    list.iter().find(|condition| condition.type_ == type_)
}

/// The condition of a type, if it is true.
pub fn find_true<'a>(list: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    list.iter()
        .find(|condition| condition.type_ == type_ && condition.status == "True")
}

/// The condition of a type that was observed at this generation; reports on others may stand before it.
pub fn find_current<'a>(
    list: &'a [Condition],
    type_: &str,
    generation: i64,
) -> Option<&'a Condition> {
    list.iter().find(|condition| {
        condition.type_ == type_ && condition.observed_generation == Some(generation)
    })
}

/// True if the condition of a type is there and true.
pub fn is_true(list: &[Condition], type_: &str) -> bool {
    find_true(list, type_).is_some()
}

/// The conditions of an object, being brought up to date.
///
/// # Guarantees
/// The transition time of a condition moves only when its status changes, so a list that says
/// the same as before equals it.
pub struct Conditions {
    list: Vec<Condition>,
    generation: i64,
    now: Timestamp,
}

impl Conditions {
    /// Starts from the conditions as they were; `generation` is what those that are set will have
    /// observed.
    #[must_use]
    pub fn new(previous: &[Condition], generation: i64, now: Timestamp) -> Self {
        Self {
            list: previous.to_vec(),
            generation,
            now,
        }
    }

    /// What those that are set will have observed.
    pub fn generation(&self) -> i64 {
        self.generation
    }

    /// The condition of a type.
    pub fn get(&self, type_: &str) -> Option<&Condition> {
        find(&self.list, type_)
    }

    /// Whether the condition of a type is there and true.
    pub fn is_true(&self, type_: &str) -> bool {
        is_true(&self.list, type_)
    }

    /// Sets a condition; a message that is too long is cut.
    pub fn set(&mut self, type_: &str, status: &str, reason: &str, message: &str) {
        let condition = Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: cut(message, MAX_MESSAGE_LENGTH).into_owned(),
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

    /// Replaces all mapped conditions: those with a prefix in their type. Of several with the same type the last one
    /// counts. Those that do not fit into a status are left out.
    pub fn map(&mut self, mapped: Vec<MappedCondition>) {
        let mapped: Vec<_> = texts::mapped(last_of_each(mapped)).collect();
        self.list.retain(|condition| {
            !condition.type_.contains('/')
                || mapped.iter().any(|mapped| mapped.type_ == condition.type_)
        });
        for condition in mapped {
            self.set(
                &condition.type_,
                &condition.status,
                &condition.reason,
                &condition.message,
            );
        }
    }

    /// Sets those of these conditions that tell how far a phase is in the queue of its site, and none of the others:
    /// that is known however its pass ended.
    pub fn set_place(&mut self, mapped: &[MappedCondition]) {
        let of_place = |it: &&MappedCondition| matches!(&*it.type_, STARTED | STOPPED);
        for condition in mapped.iter().filter(of_place) {
            self.set(
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

    /// The conditions so far.
    pub fn list(&self) -> &[Condition] {
        &self.list
    }

    /// The conditions as they are now. Those for general tools come last, whenever they came.
    pub fn into_list(mut self) -> Vec<Condition> {
        let place = |condition: &Condition| GENERAL.iter().position(|it| *it == condition.type_);
        self.list.sort_by_key(place);
        self.list
    }
}

/// The last condition of each type, in the place of the first one. Set one after the other, they would change the
/// status of the condition back and forth, and with it its transition time, in each pass.
fn last_of_each(mapped: Vec<MappedCondition>) -> Vec<MappedCondition> {
    let mut places = BTreeMap::new();
    let mut last: Vec<MappedCondition> = Vec::new();
    for condition in mapped {
        match places.entry(condition.type_.clone()) {
            Entry::Occupied(place) => last[*place.get()] = condition,
            Entry::Vacant(place) => {
                place.insert(last.len());
                last.push(condition);
            }
        }
    }
    last
}
