//! What holds whatever is done to `spec.targetStep`, and however long targets take: all states of a small world that
//! can be reached are looked at.
//!
//! The world is a head, the Release before it, and clusters that obey their targets at some time. A percentage and a
//! weight that nobody has obeyed yet stay what they were.

use std::collections::{HashMap, VecDeque, hash_map::Entry};

use baton_apis::RolloutStep;
use proptest::prelude::*;

use super::{fixtures::*, *};

const NOW: Timestamp = Timestamp::constant(100, 0);

/// What a target asks for, and what there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Amount {
    wanted: u8,
    present: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Side {
    capacity: Amount,
    weight: Amount,
}

impl Side {
    fn with(capacity: u8, weight: u8) -> Self {
        let settled = |amount| Amount {
            wanted: amount,
            present: amount,
        };
        Self {
            capacity: settled(capacity),
            weight: settled(weight),
        }
    }

    fn parts(self, name: &str, steps: &[RolloutStep]) -> Parts {
        let (percent, weight) = (self.capacity.wanted.into(), self.weight.wanted.into());
        let mut parts = Parts::new(name, steps, &["a"], percent, weight);
        if self.capacity.present != self.capacity.wanted {
            parts = parts.capacity_unobserved();
        }
        if self.weight.present != self.weight.wanted {
            parts = parts.lacks_traffic("a: InProgress");
        }
        parts
    }

    fn obey(&mut self, patch: &TargetPatch) {
        let cluster = &patch.body["spec"]["clusters"][0];
        let read = |field: &str| u8::try_from(cluster[field].as_u64().unwrap()).unwrap();
        match patch.kind {
            TargetKind::Capacity => self.capacity.wanted = read("percent"),
            TargetKind::Traffic => self.weight.wanted = read("weight"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct World {
    target: i32,
    achieved: Option<i32>,
    new: Side,
    old: Option<Side>,
}

impl World {
    fn start(with_old: bool) -> Self {
        Self {
            target: 0,
            achieved: None,
            new: Side::with(0, 0),
            old: with_old.then(|| Side::with(100, 100)),
        }
    }

    /// The world after a pass over the head.
    fn head(mut self, steps: &[RolloutStep]) -> Self {
        let new = self.new.parts("new", steps).at(self.target, self.achieved);
        let old = self
            .old
            .map(|old| old.parts("old", &all_in()).at(0, Some(0)));
        let previous = old.as_ref().map(Parts::member);
        let plan = plan(new.member(), Neighbours::Head { previous }, NOW).unwrap();
        self.write(&plan);
        if let Some(achieved) = plan.achieved {
            self.achieved = Some(achieved.step);
        }
        self
    }

    /// The world after a pass over the Release before it.
    fn follower(mut self, steps: &[RolloutStep]) -> Self {
        let Some(old) = self.old else {
            return self;
        };
        let new = self.new.parts("new", steps).at(self.target, self.achieved);
        let old = old.parts("old", &all_in()).at(0, Some(0));
        let neighbours = Neighbours::Follower {
            successor: new.member(),
            successor_is_head: true,
        };
        let plan = plan(old.member(), neighbours, NOW).unwrap();
        self.write(&plan);
        self
    }

    fn write(&mut self, plan: &Plan) {
        match (&plan.target, self.old.as_mut()) {
            (Some(patch), Some(old)) if patch.name == "old" => old.obey(patch),
            (Some(patch), _) => self.new.obey(patch),
            (None, _) => {}
        }
    }

    /// The worlds in which one more target is obeyed.
    fn obeyed(self) -> Vec<Self> {
        let mut worlds = vec![self; 4];
        let settle = |amount: &mut Amount| amount.present = amount.wanted;
        settle(&mut worlds[0].new.capacity);
        settle(&mut worlds[1].new.weight);
        if self.old.is_some() {
            settle(&mut worlds[2].old.as_mut().unwrap().capacity);
            settle(&mut worlds[3].old.as_mut().unwrap().weight);
        }
        worlds
    }

    /// Whether each has the capacity for the share of the traffic that it has. A step that is left before its capacity
    /// is there has what the targets ask for, or less.
    fn is_served(&self) -> bool {
        let sides = [Some(self.new), self.old];
        let weights = || {
            sides
                .iter()
                .flatten()
                .map(|side| u32::from(side.weight.present))
        };
        let total: u32 = weights().sum();
        // Weights are changed one after the other, so a share may be above that of both steps, by less than a percent.
        let serves = |side: &Side| {
            let share = u32::from(side.weight.present) * 100 / total.max(1);
            u32::from(side.capacity.present.min(side.capacity.wanted)) >= share
        };
        sides.iter().flatten().all(serves)
    }

    fn has_traffic(&self) -> bool {
        let sides = [Some(self.new), self.old];
        sides.iter().flatten().any(|side| side.weight.present > 0)
    }

    fn is_at(&self, step: &RolloutStep) -> bool {
        let side = |percent: i32, weight: u32| {
            Side::with(
                u8::try_from(percent).unwrap(),
                u8::try_from(weight).unwrap(),
            )
        };
        let new = side(step.capacity.contender, step.traffic.contender);
        let old = side(step.capacity.incumbent, step.traffic.incumbent);
        self.new == new && self.old.is_none_or(|found| found == old)
    }

    /// What becomes of the world when nobody changes the step any more.
    fn end(mut self, steps: &[RolloutStep]) -> Self {
        for _ in 0..40 {
            let before = self;
            self = self.head(steps);
            self = self.follower(steps);
            for place in 0..4 {
                self = self.obeyed()[place];
            }
            if self == before {
                break;
            }
        }
        self
    }
}

/// All worlds that can be reached, with the one that each comes from.
fn reach(start: World, steps: &[RolloutStep]) -> HashMap<World, Option<World>> {
    let mut found = HashMap::from([(start, None)]);
    let mut queue = VecDeque::from([start]);
    while let Some(world) = queue.pop_front() {
        let mut next = vec![world.head(steps), world.follower(steps)];
        next.extend(world.obeyed());
        next.extend((0..steps.len()).map(|step| World {
            target: i32::try_from(step).unwrap(),
            ..world
        }));
        for next in next {
            if let Entry::Vacant(entry) = found.entry(next) {
                entry.insert(Some(world));
                queue.push_back(next);
            }
        }
    }
    found
}

/// How a world came to be, for the message of a failed test.
fn story(world: World, found: &HashMap<World, Option<World>>) -> String {
    let mut story = Vec::new();
    let mut next = Some(world);
    while let Some(world) = next {
        story.push(format!("{world:?}"));
        next = found[&world];
    }
    story.reverse();
    story.join("\n")
}

fn strategies() -> Vec<Vec<RolloutStep>> {
    vec![
        vanguard(),
        all_in(),
        // the traffic moves before the capacity is taken away, in a step of its own
        vec![
            step("canary", (100, 10), (90, 10)),
            step("switch", (100, 100), (0, 100)),
            step("full on", (0, 100), (0, 100)),
        ],
        // back and forth; while weights are on their way from one step to another, a share can be above both
        vec![
            step("half", (50, 50), (50, 50)),
            step("less", (100, 10), (90, 10)),
            step("full on", (0, 100), (0, 100)),
        ],
    ]
}

/// Capacity is there before traffic comes, and stays until it has gone.
fn check_capacity(steps: &[RolloutStep]) {
    let found = reach(World::start(true), steps);
    for step in 0..steps.len() {
        let step = i32::try_from(step).ok();
        assert!(found.keys().any(|world| world.achieved == step));
    }
    for world in found.keys() {
        assert!(world.is_served(), "{}", story(*world, &found));
        assert!(world.has_traffic(), "{}", story(*world, &found));
    }
}

/// Every world ends at the step.
fn check_ends(steps: &[RolloutStep], with_old: bool) {
    let found = reach(World::start(with_old), steps);
    for world in found.keys() {
        let end = world.end(steps);
        let step = &steps[usize::try_from(world.target).unwrap()];
        let story = || story(*world, &found);
        assert_eq!(end.achieved, Some(world.target), "{}", story());
        assert!(end.is_at(step), "{end:?} is not the end of\n{}", story());
    }
}

#[test]
fn capacity_is_there_before_traffic_and_stays_until_it_has_gone() {
    for steps in strategies() {
        check_capacity(&steps);
    }
}

#[test]
fn a_first_release_has_capacity_for_its_traffic() {
    for steps in strategies() {
        let found = reach(World::start(false), &steps);
        for world in found.keys() {
            let Amount { wanted, present } = world.new.capacity;
            let serves = world.new.weight.present == 0 || wanted.min(present) > 0;
            assert!(serves, "{}", story(*world, &found));
        }
    }
}

#[test]
fn every_world_ends_at_the_step() {
    for steps in strategies() {
        check_ends(&steps, true);
        check_ends(&steps, false);
    }
}

/// A step of which the contender has this share of the traffic; with all pods of both, or with no more than the share.
fn share() -> impl Strategy<Value = (u32, bool)> {
    (
        prop::sample::select(vec![0_u32, 10, 50, 90, 100]),
        any::<bool>(),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn so_it_is_with_any_steps(shares in prop::collection::vec(share(), 1..3), all_pods in any::<bool>()) {
        let last = (100, all_pods);
        let steps: Vec<_> = shares
            .into_iter()
            .chain([last])
            .map(|(share, all_pods)| {
                let percent = i32::try_from(share).unwrap();
                let capacity = if all_pods { (100, 100) } else { (100 - percent, percent) };
                step("some", capacity, (100 - share, share))
            })
            .collect();
        check_capacity(&steps);
        check_ends(&steps, true);
    }
}
