//! Fair queues: a lane with many items delays its own, and not those of other lanes.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
};

/// Waiting items in lanes: lanes take turns, and a lane is first in, first out, unless [`Turns::pop_by`]
/// picks another item.
#[derive(Debug)]
pub struct Turns<L, T> {
    /// The lanes with waiting items, in the order of their turns.
    order: VecDeque<L>,
    lanes: HashMap<L, VecDeque<T>>,
    len: usize,
}

impl<L, T> Default for Turns<L, T> {
    fn default() -> Self {
        Self {
            order: VecDeque::new(),
            lanes: HashMap::new(),
            len: 0,
        }
    }
}

impl<L: Clone + Eq + Hash, T> Turns<L, T> {
    /// Appends an item to a lane.
    pub fn push(&mut self, lane: L, item: T) {
        let waiting = self.lanes.entry(lane.clone()).or_default();
        if waiting.is_empty() {
            self.order.push_back(lane);
        }
        waiting.push_back(item);
        self.len += 1;
    }

    /// Removes the first item of the next lane that `may` accepts; `None` if it accepts no lane.
    pub fn pop(&mut self, may: impl Fn(&L) -> bool) -> Option<(L, T)> {
        self.pop_by(may, VecDeque::pop_front)
    }

    /// As [`Self::pop`], with `pick` in place of the removal of the first item. It must remove one item of
    /// its lane, which is not empty.
    pub fn pop_by(
        &mut self,
        may: impl Fn(&L) -> bool,
        pick: impl FnOnce(&mut VecDeque<T>) -> Option<T>,
    ) -> Option<(L, T)> {
        let at = self.order.iter().position(may)?;
        let lane = self.order.remove(at)?;
        let waiting = self.lanes.get_mut(&lane)?;
        let item = pick(waiting)?;
        self.len -= 1;
        if waiting.is_empty() {
            self.lanes.remove(&lane);
        } else {
            self.order.push_back(lane.clone());
        }
        Some((lane, item))
    }

    /// The item that [`Self::pop`] removes next if it accepts all lanes.
    pub fn next(&self) -> Option<&T> {
        self.lanes.get(self.order.front()?)?.front()
    }

    /// True if an item waits in a lane that `is_wanted` accepts.
    pub fn any(&self, is_wanted: impl Fn(&L) -> bool) -> bool {
        self.order.iter().any(is_wanted)
    }

    /// Removes all items of a lane.
    pub fn clear(&mut self, lane: &L) -> VecDeque<T> {
        let waiting = self.lanes.remove(lane).unwrap_or_default();
        self.order.retain(|other| other != lane);
        self.len -= waiting.len();
        waiting
    }

    /// Removes the last item of the longest lane.
    pub fn shed(&mut self) -> Option<T> {
        let longest = self
            .order
            .iter()
            .max_by_key(|lane| self.waiting(lane))?
            .clone();
        let waiting = self.lanes.get_mut(&longest)?;
        let item = waiting.pop_back()?;
        self.len -= 1;
        if waiting.is_empty() {
            self.clear(&longest);
        }
        Some(item)
    }

    /// Number of items in a lane.
    pub fn waiting(&self, lane: &L) -> usize {
        self.lanes.get(lane).map_or(0, VecDeque::len)
    }

    /// Number of items in all lanes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if no item waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lanes_take_turns() {
        let mut turns = Turns::default();
        for item in ["a1", "a2", "a3", "b1", "a4", "c1", "b2"] {
            turns.push(&item[..1], item);
        }
        let mut order = Vec::new();
        order.extend(turns.pop(|lane| *lane != "a"));
        turns.push("c", "c2");
        while let Some(next) = turns.pop(|_| true) {
            order.push(next);
        }
        let order: Vec<&str> = order.into_iter().map(|(_, item)| item).collect();
        assert_eq!(order, ["b1", "a1", "c1", "b2", "a2", "c2", "a3", "a4"]);
        assert!(turns.is_empty());
        turns.push("d", "d1");
        assert_eq!((turns.waiting(&"d"), turns.waiting(&"a")), (1, 0));
        for item in ["e1", "e2", "e3"] {
            turns.push("e", item);
        }
        assert_eq!(
            (turns.shed(), turns.shed(), turns.len()),
            (Some("e3"), Some("e2"), 2)
        );
        assert_eq!((turns.clear(&"e").len(), turns.len()), (1, 1));
        assert_eq!(
            (turns.shed(), turns.shed(), turns.is_empty()),
            (Some("d1"), None, true)
        );
    }

    proptest! {
        /// No lane is passed over: between two turns of a lane, each other lane that waits all the
        /// time has one.
        #[test]
        fn each_lane_waits_for_no_more_than_one_turn_of_each_other(
            steps in prop::collection::vec(prop::option::weighted(0.6, 0_u8..5), 1..200),
        ) {
            let mut turns = Turns::default();
            let mut waiting: HashMap<u8, VecDeque<usize>> = HashMap::new();
            let mut passed: HashMap<u8, Vec<u8>> = HashMap::new();
            for (number, step) in steps.into_iter().enumerate() {
                if let Some(lane) = step {
                    turns.push(lane, number);
                    waiting.entry(lane).or_default().push_back(number);
                    continue;
                }
                let Some((lane, item)) = turns.pop(|_| true) else {
                    prop_assert!(waiting.values().all(VecDeque::is_empty));
                    continue;
                };
                prop_assert_eq!(waiting.get_mut(&lane).and_then(VecDeque::pop_front), Some(item));
                passed.remove(&lane);
                for (other, _) in waiting.iter().filter(|(other, items)| **other != lane && !items.is_empty()) {
                    let before = passed.entry(*other).or_default();
                    prop_assert!(!before.contains(&lane), "{other} waits for two turns of {lane}");
                    before.push(lane);
                }
                if waiting[&lane].is_empty() {
                    // The turns of this lane are counted from 0 when it waits again.
                    passed.remove(&lane);
                }
                let len: usize = waiting.values().map(VecDeque::len).sum();
                prop_assert_eq!(turns.len(), len);
            }
        }
    }
}
