//! Updates of conditions in the form of Shipper.

use std::fmt;

use baton_apis::{
    ConditionStatus, ShipperCondition,
    conditions::{MAX_MESSAGE_LENGTH, Reason},
};
use baton_engine::{stored_time::not_in_future, texts::truncate};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The conditions of an object, or of a cluster in it, during an update.
///
/// # Guarantees
/// - The list is sorted by type, and has each type once.
/// - The transition time of a condition moves only when its status changes, so a list without
///   changes equals the previous one.
/// - Changes are recorded in the order in which they are set, until
///   [`take_changes`](Self::take_changes) takes them.
#[derive(Clone, Debug)]
pub struct Conditions {
    list: Vec<ShipperCondition>,
    now: Timestamp,
    changes: Vec<String>,
}

impl Conditions {
    /// Starts from the previous conditions.
    #[must_use]
    pub fn new(previous: &[ShipperCondition], now: Timestamp) -> Self {
        let mut list = previous.to_vec();
        list.sort_by(|a, b| a.type_.cmp(&b.type_));
        list.dedup_by(|next, first| next.type_ == first.type_);
        Self {
            list,
            now,
            changes: Vec::new(),
        }
    }

    /// The condition of a type.
    pub fn get(&self, type_: &str) -> Option<&ShipperCondition> {
        find(&self.list, type_)
    }

    /// Sets a condition without reason and message.
    pub fn set_plain(&mut self, type_: &str, status: impl Into<ConditionStatus>) {
        self.set(type_, status, None, "");
    }

    /// Sets a condition; a message that is too long is cut.
    pub fn set(
        &mut self,
        type_: &str,
        status: impl Into<ConditionStatus>,
        reason: impl Into<Option<Reason>>,
        message: &str,
    ) {
        let mut condition = ShipperCondition {
            type_: type_.to_owned(),
            status: status.into(),
            last_transition_time: Some(Time(self.now)),
            reason: reason.into().map_or("", Reason::as_str).to_owned(),
            message: truncate(message, MAX_MESSAGE_LENGTH).into_owned(),
        };
        let index = self
            .list
            .binary_search_by(|other| other.type_.as_str().cmp(type_));
        match index {
            Ok(index) => {
                let old = &mut self.list[index];
                if let Some(time) = &old.last_transition_time
                    && old.status == condition.status
                {
                    let time = not_in_future(time.0, self.now);
                    condition.last_transition_time = Some(Time(time));
                }
                if *old != condition {
                    if content_of(old) != content_of(&condition) {
                        self.changes.push(change(Some(old), Some(&condition)));
                    }
                    *old = condition;
                }
            }
            Err(index) => {
                self.changes.push(change(None, Some(&condition)));
                self.list.insert(index, condition);
            }
        }
    }

    /// Removes a condition.
    pub fn remove(&mut self, type_: &str) {
        if let Some(index) = self.list.iter().position(|other| other.type_ == type_) {
            let old = self.list.remove(index);
            self.changes.push(change(Some(&old), None));
        }
    }

    /// The changes since the last call in the form of an event: `[<old>] -> [<new>]`, joined by
    /// commas. `None` if nothing changed.
    pub fn take_changes(&mut self) -> Option<String> {
        let changes = std::mem::take(&mut self.changes);
        (!changes.is_empty()).then(|| changes.join(", "))
    }

    /// The current conditions.
    pub fn into_list(self) -> Vec<ShipperCondition> {
        self.list
    }
}

/// The condition of a type.
pub fn find<'a>(list: &'a [ShipperCondition], type_: &str) -> Option<&'a ShipperCondition> {
    list.iter().find(|condition| condition.type_ == type_)
}

/// True if the condition of this type exists and is true.
pub fn is_true(list: &[ShipperCondition], type_: &str) -> bool {
    find(list, type_).is_some_and(|condition| condition.status == ConditionStatus::True)
}

/// A condition without its time.
fn content_of(condition: &ShipperCondition) -> (&str, ConditionStatus, &str, &str) {
    let ShipperCondition {
        type_,
        status,
        last_transition_time: _,
        reason,
        message,
    } = condition;
    (type_, *status, reason, message)
}

fn change(old: Option<&ShipperCondition>, new: Option<&ShipperCondition>) -> String {
    format!("[{}] -> [{}]", ConditionText(old), ConditionText(new))
}

/// A side of a change: the fields of the condition, separated by single spaces.
struct ConditionText<'a>(Option<&'a ShipperCondition>);

impl fmt::Display for ConditionText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(condition) = self.0 else {
            return Ok(());
        };
        let (type_, status, reason, message) = content_of(condition);
        write!(f, "{type_} {status}")?;
        for text in [reason, message] {
            if !text.is_empty() {
                write!(f, " {text}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const T0: Timestamp = Timestamp::UNIX_EPOCH;
    const T1: Timestamp = Timestamp::constant(1, 0);

    fn condition(type_: &str, status: ConditionStatus, at: Timestamp) -> ShipperCondition {
        ShipperCondition {
            type_: type_.into(),
            status,
            last_transition_time: Some(Time(at)),
            ..Default::default()
        }
    }

    #[test]
    fn the_transition_time_moves_only_with_the_status() {
        for (previous, expected) in [
            (None, T1),
            (Some(ConditionStatus::True), T0),
            (Some(ConditionStatus::False), T1),
            (Some(ConditionStatus::Unknown), T1),
        ] {
            let previous = previous.map(|status| condition("Ready", status, T0));
            let mut conditions = Conditions::new(previous.as_slice(), T1);
            conditions.set("Ready", true, Reason::Draining, "text");
            let ready = conditions.get("Ready").unwrap();
            assert_eq!(ready.last_transition_time, Some(Time(expected)));
            assert_eq!(
                (ready.reason.as_str(), ready.message.as_str()),
                ("Draining", "text")
            );
        }
    }

    #[test]
    fn a_missing_transition_time_is_set_and_is_no_change() {
        let mut previous = condition("Ready", ConditionStatus::True, T0);
        previous.last_transition_time = None;
        let mut conditions = Conditions::new(&[previous], T1);
        conditions.set_plain("Ready", true);
        assert_eq!(conditions.take_changes(), None);
        assert_eq!(
            conditions.into_list(),
            [condition("Ready", ConditionStatus::True, T1)]
        );
    }

    #[test]
    fn lists_are_sorted_and_have_each_type_once() {
        let previous = ["C", "A", "C"].map(|type_| condition(type_, ConditionStatus::True, T0));
        let mut conditions = Conditions::new(&previous, T1);
        conditions.set_plain("B", false);
        let list = conditions.into_list();
        let types: Vec<_> = list.iter().map(|found| found.type_.as_str()).collect();
        assert_eq!(types, ["A", "B", "C"]);
    }

    #[test]
    fn changes_are_reported_once_and_in_their_order() {
        let previous = ["A", "B"].map(|type_| condition(type_, ConditionStatus::False, T0));
        let mut conditions = Conditions::new(&previous, T1);
        conditions.set("B", true, Reason::ChartError, "with a text");
        conditions.set_plain("A", false);
        conditions.set("C", ConditionStatus::Unknown, None, "text");
        conditions.remove("A");
        conditions.remove("A");
        let reported =
            "[B False] -> [B True ChartError with a text], [] -> [C Unknown text], [A False] -> []";
        assert_eq!(conditions.take_changes().as_deref(), Some(reported));
        assert_eq!(conditions.take_changes(), None);
    }

    #[test]
    fn long_messages_are_cut() {
        let mut conditions = Conditions::new(&[], T0);
        conditions.set("A", false, None, &"x".repeat(2 * MAX_MESSAGE_LENGTH));
        assert!(conditions.get("A").unwrap().message.len() <= MAX_MESSAGE_LENGTH);
    }

    proptest! {
        #[test]
        fn a_condition_that_is_set_twice_is_reported_once(
            previous in any::<Vec<(u8, bool)>>(),
            set in any::<Vec<(u8, bool, bool)>>(),
        ) {
            let previous: Vec<_> = previous
                .iter()
                .map(|&(type_, holds)| condition(&type_.to_string(), holds.into(), T0))
                .collect();
            let last = |type_| set.iter().rev().find(|(other, ..)| *other == type_);
            let apply = |conditions: &mut Conditions| {
                for &(type_, ..) in &set {
                    let &(_, holds, reason) = last(type_).unwrap();
                    let reason = reason.then_some(Reason::ChartError);
                    conditions.set(&type_.to_string(), holds, reason, "");
                }
            };
            let mut conditions = Conditions::new(&previous, T1);
            apply(&mut conditions);
            let list = conditions.into_list();
            prop_assert!(list.is_sorted_by(|a, b| a.type_ < b.type_));
            let mut again = Conditions::new(&list, Timestamp::MAX);
            apply(&mut again);
            prop_assert_eq!(again.take_changes(), None);
            prop_assert_eq!(again.into_list(), list);
        }
    }
}
