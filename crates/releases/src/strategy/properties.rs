//! Properties that hold for any changes of `spec.targetStep`, however slow targets are: the tests
//! search all reachable states of a small world.
//!
//! The world has a head, the Release before it, and clusters that obey their targets sooner or
//! later. A percentage or weight that is not obeyed yet keeps its present value.

use std::collections::{HashMap, VecDeque, hash_map::Entry};

use baton_apis::{ClusterTrafficStatus, RolloutStep};
use proptest::prelude::*;

use super::{
    deletion::{DeletionStep, departure},
    fixtures::*,
    *,
};
use crate::traffic::target_pods;

const NOW: Timestamp = Timestamp::constant(100, 0);

/// The wanted and the present value of a target.
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
        parts.traffic.status.as_mut().unwrap().clusters = vec![ClusterTrafficStatus {
            name: "a".into(),
            achieved_traffic: self.weight.present.into(),
            ..Default::default()
        }];
        parts
    }

    /// The number of running pods, out of a hundred. If a step is left before its capacity is
    /// reached, it is at most the number that the target requests.
    fn pods(self) -> usize {
        self.capacity.present.min(self.capacity.wanted).into()
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
    /// A former contender that is being deleted, because a newer one superseded it or a user
    /// deleted it.
    left: Option<Side>,
    /// True if a user deleted the contender. Then the incumbent is the newest Release, and `new`
    /// has nothing.
    is_aborted: bool,
}

impl World {
    fn start(with_old: bool) -> Self {
        Self {
            target: 0,
            achieved: None,
            new: Side::with(0, 0),
            old: with_old.then(|| Side::with(100, 100)),
            left: None,
            is_aborted: false,
        }
    }

    /// The worlds after a change of the template, and after a deletion of the newest Release.
    fn changed(self, steps: &[RolloutStep]) -> Vec<Self> {
        let is_complete = self.achieved.is_some_and(|step| is_last(steps, step));
        if self.left.is_some() || is_complete {
            return Vec::new();
        }
        let left = (!self.is_aborted).then_some(self.new);
        let next = Self {
            left,
            old: self.old,
            ..Self::start(true)
        };
        let aborted = Self {
            is_aborted: true,
            ..next
        };
        vec![next, aborted]
    }

    /// The world after a pass over the Release that is being deleted.
    fn leaves(mut self, steps: &[RolloutStep]) -> Self {
        let (Some(mut left), Some(old)) = (self.left, self.old) else {
            return self;
        };
        let parts = left.parts("left", steps);
        let new = self.new.parts("new", steps).at(self.target, self.achieved);
        let old = old.parts("old", &all_in()).at(0, Some(0));
        let (head, previous) = if self.is_aborted {
            (old.member(), None)
        } else {
            (new.member(), Some(old.member()))
        };
        match departure(parts.member(), Some(head), previous) {
            DeletionStep::Goes => self.left = None,
            DeletionStep::Drains(patch) => {
                if let Some(patch) = patch {
                    left.obey(&patch);
                }
                self.left = Some(left);
            }
            DeletionStep::Stays(_) => {}
        }
        self
    }

    /// The world after a pass over the head.
    fn head(mut self, steps: &[RolloutStep]) -> Self {
        let new = self.new.parts("new", steps).at(self.target, self.achieved);
        let old = self
            .old
            .map(|old| old.parts("old", &all_in()).at(0, Some(0)));
        let (head, previous) = match &old {
            Some(old) if self.is_aborted => (old.member(), None),
            old => (new.member(), old.as_ref().map(Parts::member)),
        };
        let plan = plan(head, Neighbours::Head { previous }, NOW).unwrap();
        self.write(&plan);
        if let Some(achieved) = plan.achieved {
            self.achieved = Some(achieved.step);
        }
        self
    }

    /// The world after a pass over the Release before the head.
    fn follower(mut self, steps: &[RolloutStep]) -> Self {
        let Some(old) = self.old.filter(|_| !self.is_aborted) else {
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
        let mut worlds = vec![self; 4 + usize::from(self.left.is_some())];
        let settle = |amount: &mut Amount| amount.present = amount.wanted;
        if let Some(left) = worlds.get_mut(4).and_then(|world| world.left.as_mut()) {
            settle(&mut left.weight);
        }
        settle(&mut worlds[0].new.capacity);
        settle(&mut worlds[1].new.weight);
        if self.old.is_some() {
            settle(&mut worlds[2].old.as_mut().unwrap().capacity);
            settle(&mut worlds[3].old.as_mut().unwrap().weight);
        }
        worlds
    }

    /// True if each Release has the capacity for its share of the traffic. If a step is left before
    /// its capacity is reached, the capacity is at most what the targets request.
    fn is_served(&self) -> bool {
        let sides = [Some(self.new), self.old];
        let weights = || {
            sides
                .iter()
                .flatten()
                .map(|side| u32::from(side.weight.present))
        };
        let total: u32 = weights().sum();
        // Weights change one after the other, so a share may exceed that of both steps by less than
        // a percent.
        let serves = |side: &Side| {
            let share = u32::from(side.weight.present) * 100 / total.max(1);
            u32::from(side.capacity.present.min(side.capacity.wanted)) >= share
        };
        sides.iter().flatten().all(serves)
    }

    /// Number of pods with traffic, if each Release wants a hundred pods.
    fn served(&self) -> usize {
        let sides = [Some(self.new), self.old, self.left];
        let sides = || sides.iter().flatten();
        let pods = sides().map(|side| side.pods()).sum();
        let total = sides().map(|side| u64::from(side.weight.present)).sum();
        let served =
            sides().map(|side| target_pods(side.pods(), pods, side.weight.present.into(), total));
        served.sum()
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

    /// The world after it has settled without further changes of the step.
    fn end(mut self, steps: &[RolloutStep]) -> Self {
        for _ in 0..40 {
            let before = self;
            self = self.head(steps);
            self = self.follower(steps);
            self = self.leaves(steps);
            for index in 0..self.obeyed().len() {
                self = self.obeyed()[index];
            }
            if self == before {
                break;
            }
        }
        self
    }
}

fn is_last(steps: &[RolloutStep], step: i32) -> bool {
    usize::try_from(step).is_ok_and(|step| step + 1 == steps.len())
}

/// All reachable worlds, each with its predecessor. Only the step changes, and what `others`
/// changes.
fn reach(
    start: World,
    steps: &[RolloutStep],
    others: impl Fn(World) -> Vec<World>,
) -> HashMap<World, Option<World>> {
    let mut found = HashMap::from([(start, None)]);
    let mut queue = VecDeque::from([start]);
    while let Some(world) = queue.pop_front() {
        let mut next = vec![
            world.head(steps),
            world.follower(steps),
            world.leaves(steps),
        ];
        next.extend(world.obeyed());
        next.extend(others(world));
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

/// The way to a world, for the message of a failed test.
fn trace(world: World, found: &HashMap<World, Option<World>>) -> String {
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
        // Traffic moves before the capacity is removed, in a step of its own.
        vec![
            step("canary", (100, 10), (90, 10)),
            step("switch", (100, 100), (0, 100)),
            step("full on", (0, 100), (0, 100)),
        ],
        // Back and forth: while weights change from one step to another, a share can exceed that of
        // both.
        vec![
            step("half", (50, 50), (50, 50)),
            step("less", (100, 10), (90, 10)),
            step("full on", (0, 100), (0, 100)),
        ],
    ]
}

/// Checks that capacity exists before traffic arrives, and stays until traffic has left.
fn check_capacity(steps: &[RolloutStep]) {
    let found = reach(World::start(true), steps, |_| Vec::new());
    for step in 0..steps.len() {
        let step = i32::try_from(step).ok();
        assert!(found.keys().any(|world| world.achieved == step));
    }
    for world in found.keys() {
        assert!(world.is_served(), "{}", trace(*world, &found));
        assert!(world.has_traffic(), "{}", trace(*world, &found));
    }
}

/// Checks that every world ends at the step.
fn check_ends(steps: &[RolloutStep], with_old: bool) {
    let found = reach(World::start(with_old), steps, |_| Vec::new());
    for world in found.keys() {
        let end = world.end(steps);
        let step = &steps[usize::try_from(world.target).unwrap()];
        let story = || trace(*world, &found);
        assert_eq!(end.achieved, Some(world.target), "{}", story());
        assert!(end.is_at(step), "{end:?} is not the end of\n{}", story());
    }
}

#[test]
fn capacity_is_added_before_traffic_and_removed_after_it() {
    for steps in strategies() {
        check_capacity(&steps);
    }
}

#[test]
fn a_first_release_has_capacity_for_its_traffic() {
    for steps in strategies() {
        let found = reach(World::start(false), &steps, |_| Vec::new());
        for world in found.keys() {
            let Amount { wanted, present } = world.new.capacity;
            let serves = world.new.weight.present == 0 || wanted.min(present) > 0;
            assert!(serves, "{}", trace(*world, &found));
        }
    }
}

#[test]
fn every_rollout_reaches_its_target_step() {
    for steps in strategies() {
        check_ends(&steps, true);
        check_ends(&steps, false);
    }
}

/// Each step of this strategy wants a hundred pods with traffic. Percentages are rounded up, so a
/// share may be one pod less than its part.
#[test]
fn no_edit_and_no_abort_takes_a_pod_out_of_service() {
    let steps = vanguard();
    let found = reach(World::start(true), &steps, |world| world.changed(&steps));
    assert!(found.keys().any(|world| world.is_aborted));
    for world in found.keys() {
        assert!(world.served() >= 99, "{}", trace(*world, &found));
    }
}

/// A contender may never get a pod. Then the incumbent has all of its own pods, and the Release
/// before is gone.
#[test]
fn a_contender_without_pods_does_not_block_the_incumbent() {
    let steps = vanguard();
    let found = reach(World::start(true), &steps, |world| world.changed(&steps));
    let stuck = |world: &&World| world.target == 0 && !world.is_aborted;
    for world in found
        .keys()
        .filter(stuck)
        .filter(|it| it.new == Side::with(0, 0))
    {
        let mut end = *world;
        for _ in 0..40 {
            end = end.head(&steps).leaves(&steps);
            for index in 1..end.obeyed().len() {
                end = end.obeyed()[index];
            }
        }
        assert_eq!(end.left, None, "{}", trace(*world, &found));
        let old = end.old.unwrap();
        assert_eq!(old, Side::with(100, 100), "{}", trace(*world, &found));
    }
}

/// The contender's share of the traffic in a step; true if both Releases have all pods, else they
/// have pods for their share.
fn share() -> impl Strategy<Value = (u32, bool)> {
    (
        prop::sample::select(vec![0_u32, 10, 50, 90, 100]),
        any::<bool>(),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn arbitrary_strategies_keep_capacity_and_reach_their_step(
        shares in prop::collection::vec(share(), 1..3),
        all_pods in any::<bool>(),
    ) {
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
