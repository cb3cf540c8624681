use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;

use super::*;

type Objects = BTreeMap<u8, u64>;

/// A change on the server, by us or by others: an object and its version, or the version of its
/// deletion.
#[derive(Clone, Copy, Debug)]
enum Event {
    Upsert(u8, u64),
    Deleted(u8, u64),
}

/// The next event, about one of few objects.
#[derive(Clone, Debug)]
enum Step {
    Write {
        key: u8,
        is_ours: bool,
    },
    Delete(u8),
    /// The oldest answer to a write of ours arrives.
    Answer,
    /// The next event arrives, or the next part of a list.
    Watch,
    /// The watch breaks, and all objects are listed again.
    Relist,
    /// A backup is restored; no write waits for its answer.
    Restore,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = 0..4_u8;
    let step = prop_oneof![
        4 => (key.clone(), any::<bool>()).prop_map(|(key, is_ours)| Step::Write { key, is_ours }),
        2 => key.prop_map(Step::Delete),
        3 => Just(Step::Answer),
        5 => Just(Step::Watch),
        1 => Just(Step::Relist),
        1 => Just(Step::Restore),
    ];
    prop::collection::vec(step, 0..60)
}

/// The list under way: the objects that it has yet to report, and all of them.
struct List {
    left: VecDeque<(u8, u64)>,
    all: Objects,
    version: u64,
}

#[derive(Default)]
struct World {
    server: Objects,
    version: u64,
    backup: (Objects, u64),
    answers: VecDeque<(u8, u64)>,
    events: VecDeque<Event>,
    list: Option<List>,
    freshness: Freshness<u8>,
    kept: Objects,
    /// The versions of the deletions that the watch has reported since the last list.
    gone: Objects,
}

impl World {
    fn step(&mut self, step: &Step) {
        match *step {
            Step::Write { key, is_ours } => {
                self.version += 1;
                self.server.insert(key, self.version);
                self.events.push_back(Event::Upsert(key, self.version));
                if is_ours {
                    self.answers.push_back((key, self.version));
                }
            }
            Step::Delete(key) => {
                self.version += 1;
                if self.server.remove(&key).is_some() {
                    self.events.push_back(Event::Deleted(key, self.version));
                }
            }
            Step::Answer => self.answer(),
            Step::Watch if self.list.is_some() => self.go_on_listing(),
            Step::Watch => self.watch(),
            Step::Relist => self.relist(),
            Step::Restore => {
                while !self.answers.is_empty() {
                    self.answer();
                }
                let now = (self.server.clone(), self.version);
                (self.server, self.version) = std::mem::replace(&mut self.backup, now);
                // No backup is taken of a later state.
                self.backup = (self.server.clone(), self.version);
                self.relist();
            }
        }
    }

    fn answer(&mut self) {
        let Some((key, version)) = self.answers.pop_front() else {
            return;
        };
        let stored = self.kept.get(&key).copied();
        if self.freshness.written(key, stored, version) {
            self.kept.insert(key, version);
        }
        let kept = self.kept.get(&key);
        assert!(
            kept.is_some_and(|kept| *kept >= version) || self.server.get(&key) != Some(&version),
            "an own write of {key} is missing"
        );
    }

    fn watch(&mut self) {
        match self.events.pop_front() {
            Some(Event::Upsert(key, version)) => {
                let stored = self.kept.get(&key).copied();
                if self.freshness.observed(stored, version) {
                    self.kept.insert(key, version);
                }
            }
            Some(Event::Deleted(key, version)) => {
                self.freshness.reached(version);
                self.kept.remove(&key);
                self.gone.insert(key, version);
            }
            None => {}
        }
    }

    fn relist(&mut self) {
        self.freshness.list_started();
        self.events.clear();
        self.gone.clear();
        self.list = Some(List {
            left: self.server.clone().into_iter().collect(),
            all: self.server.clone(),
            version: self.version,
        });
    }

    fn go_on_listing(&mut self) {
        let Some(list) = &mut self.list else { return };
        if let Some((key, version)) = list.left.pop_front() {
            let stored = self.kept.get(&key).copied();
            if self.freshness.listed(&key, stored, version) {
                self.kept.insert(key, version);
            }
            return;
        }
        let stays = self.freshness.list_done(list.version);
        let all = &list.all;
        self.kept
            .retain(|key, version| all.contains_key(key) || stays(key, *version));
        self.list = None;
    }
}

proptest! {
    /// For any order in which lists, events and answers arrive: a deleted object does not reappear
    /// while nothing is listed, and in the end the store equals the server.
    #[test]
    fn the_store_converges_to_the_state_of_the_server(steps in steps()) {
        let mut world = World::default();
        for step in &steps {
            world.step(step);
            for (key, deleted) in &world.gone {
                let has_come_back = world.kept.get(key).is_some_and(|kept| kept < deleted);
                prop_assert!(!has_come_back, "{}", key);
            }
        }
        while !world.answers.is_empty() {
            world.answer();
        }
        while world.list.is_some() || !world.events.is_empty() {
            world.step(&Step::Watch);
        }
        prop_assert_eq!(world.kept, world.server);
    }
}
