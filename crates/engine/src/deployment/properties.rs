//! Properties of a deployment under random events: a small model of its revisions and their
//! controller.

use std::collections::BTreeMap;

use baton_apis::{ControlledObjectReference, LifecycleState, conditions::*};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use proptest::prelude::*;

use crate::chain_names::lowest_far;

use super::{
    status::{Creation, report},
    *,
};

/// The content of a template: objects by name, in the order of their phases, and whether they
/// become ready. A content that does not become ready stops after its first objects.
#[derive(Clone, Debug, PartialEq)]
struct Content {
    objects: Vec<u8>,
    healthy: bool,
    first: usize,
}

#[derive(Clone, Debug)]
enum Event {
    /// The template changes.
    Edit(Content),
    /// The template returns to its content before this number of edits.
    Revert(usize),
    /// The deployment is paused (`true`) or resumed.
    Pause(bool),
    /// A pass over the deployment.
    Deployment,
    /// A pass over one of its revisions.
    Revision(usize),
}

#[derive(Clone, Debug)]
struct Revision {
    member: DeploymentRevision,
    content: Content,
    /// The highest number that existed when archival was requested; archival is final.
    archived_at: i64,
    /// The revisions that were serving at that time.
    archived_for: Vec<i64>,
}

struct World {
    template: Content,
    edits: Vec<Content>,
    paused: bool,
    status: ObjectDeploymentStatus,
    revisions: Vec<Revision>,
    /// Number of the revision that owns each existing object.
    owners: BTreeMap<u8, i64>,
    clock: i64,
    /// True if the stored revisions differ from those that were created.
    garbled: bool,
}

const HISTORY: usize = 3;

impl World {
    fn new(template: Content) -> Self {
        Self {
            edits: vec![template.clone()],
            template,
            paused: false,
            status: ObjectDeploymentStatus::default(),
            revisions: Vec::new(),
            owners: BTreeMap::new(),
            clock: 1000,
            garbled: false,
        }
    }

    fn snapshot(&self) -> Snapshot<'_> {
        let mut members: Vec<_> = self.revisions.iter().map(|r| r.member.clone()).collect();
        sort(&mut members);
        let newest = self.revisions.iter().max_by_key(|r| r.member.number);
        let contents = self.revisions.iter().map(|revision| {
            let objects = revision.content.objects.iter().copied().map(reference);
            (revision.member.name.clone(), objects.collect())
        });
        let template = format!("{:?}", self.template);
        Snapshot {
            deployment: Deployment {
                name: "web".to_owned(),
                paused: self.paused,
                history_limit: HISTORY,
                has_phases: true,
                status: self.status.clone(),
                ..Deployment::default()
            },
            newest_fits: newest
                .is_some_and(|newest| newest.content == self.template && !self.garbled),
            members,
            contents: contents.collect(),
            is_taken: Box::new(|name| self.revisions.iter().any(|r| r.member.name == name)),
            unlisted: None,
            hash: Box::new(move |count| template::hash(&template.as_str().into(), count)),
            now: Timestamp::from_second(self.clock).unwrap(),
        }
    }

    /// Runs actions until none is left, as the controller does. Returns the number of writes.
    fn deployment(&mut self) -> Result<usize, TestCaseError> {
        let mut writes = 0;
        for _ in 0..20 {
            let actions = self.snapshot().actions();
            let done = actions.is_empty();
            let mut creation = Creation::None;
            for action in actions {
                writes += 1;
                if let Action::Create(new) = &action {
                    creation = Creation::Done(new.clone());
                }
                self.perform(action)?;
            }
            if done {
                let (status, _) = report(&self.snapshot(), &creation);
                writes += usize::from(status != self.status);
                self.status = status;
                return Ok(writes);
            }
        }
        Err(TestCaseError::fail("a pass that does not end"))
    }

    fn perform(&mut self, action: Action) -> Result<(), TestCaseError> {
        let mut lifecycle = |name: &str, state, by_parent| {
            let named = self.revisions.iter_mut().find(|r| r.member.name == name);
            let member = &mut named.unwrap().member;
            prop_assert!(!member.is_archived, "{name} is archived already");
            member.lifecycle = state;
            member.paused_by_parent = by_parent;
            member.generation += 1;
            Ok(())
        };
        match action {
            Action::Pause { name, by_parent } => {
                lifecycle(&name, LifecycleState::Paused, by_parent)?;
            }
            Action::Resume(name) => lifecycle(&name, LifecycleState::Active, false)?,
            Action::Archive(name) => {
                prop_assert!(!self.paused, "archived while paused");
                lifecycle(&name, LifecycleState::Archived, false)?;
                let highest = self.revisions.iter().filter_map(|r| r.member.number).max();
                let serving = self.serving();
                let mut revisions = self.revisions.iter_mut();
                let archived = revisions.find(|r| r.member.name == name).unwrap();
                archived.archived_at = highest.unwrap();
                archived.archived_for = serving;
            }
            Action::Annotate(_) => prop_assert!(false, "every revision is annotated"),
            Action::Delete(name) => {
                let at = self.revisions.iter().position(|r| r.member.name == name);
                let deleted = self.revisions.remove(at.unwrap());
                prop_assert!(deleted.member.is_archived, "{name} was not archived");
            }
            Action::Create(new) => {
                let highest = self.revisions.iter().filter_map(|r| r.member.number).max();
                prop_assert_eq!(new.number, highest.unwrap_or(0) + 1);
                prop_assert!(self.revisions.iter().all(|r| r.member.name != new.name));
                self.revisions.push(Revision {
                    member: DeploymentRevision {
                        name: new.name,
                        number: Some(new.number),
                        generation: 1,
                        created: Timestamp::from_second(self.clock).ok(),
                        hash: Some(new.hash),
                        digest: Some(String::new()),
                        ..DeploymentRevision::default()
                    },
                    content: self.template.clone(),
                    archived_at: 0,
                    archived_for: Vec::new(),
                });
            }
        }
        Ok(())
    }

    /// Runs one pass of the controller of revisions over a revision.
    fn revision(&mut self, at: usize) -> Result<(), TestCaseError> {
        let Some(revision) = self.revisions.get(at) else {
            return Ok(());
        };
        let (content, number) = (revision.content.clone(), revision.member.number.unwrap());
        let archived_at = revision.archived_at;
        let archived_for = revision.archived_for.clone();
        let newer = |world: &Self, object: u8| {
            let mut others = world.revisions.iter();
            others.any(|other| {
                other.member.number > Some(number)
                    && other.member.is_live()
                    && other.content.objects.contains(&object)
            })
        };
        match revision.member.lifecycle {
            LifecycleState::Archived => {
                for object in &content.objects {
                    if self.owners.get(object) == Some(&number) {
                        // An object that a newer live revision contains is not deleted with this
                        // one, unless that revision is superseded as well, or was when this
                        // archival was decided.
                        let mut serving = self.serving();
                        serving.extend(&archived_for);
                        let mut others = self.revisions.iter().map(|r| (&r.member, &r.content));
                        let wanted = others.find(|(other, content)| {
                            other.number > Some(number)
                                && other.number <= Some(archived_at)
                                && other.is_live()
                                && serving.iter().all(|one| Some(*one) < other.number)
                                && content.objects.contains(object)
                        });
                        let wanted = wanted.map(|(other, _)| &other.name);
                        prop_assert_eq!(wanted, None, "{} of {} is wanted", object, number);
                        self.owners.remove(object);
                    }
                }
                self.revisions[at].member.is_archived = true;
            }
            LifecycleState::Active => {
                let reached = if content.healthy {
                    content.objects.len()
                } else {
                    content.first
                };
                for object in content.objects.iter().take(reached) {
                    let owner = self.owners.get(object).copied();
                    let is_free = owner.is_none() && !newer(self, *object);
                    if is_free || owner.is_some_and(|owner| owner < number) {
                        self.owners.insert(*object, number);
                    }
                }
                self.report(at);
            }
            LifecycleState::Paused => self.report(at),
        }
        Ok(())
    }

    fn report(&mut self, at: usize) {
        let Revision {
            member, content, ..
        } = &mut self.revisions[at];
        let number = member.number.unwrap();
        let owners = &self.owners;
        let controls: Vec<_> = content
            .objects
            .iter()
            .filter(|object| owners.get(object) == Some(&number))
            .copied()
            .map(reference)
            .collect();
        let controls_all = controls.len() == content.objects.len();
        let exist = content.objects.iter().all(|o| owners.contains_key(o));
        let succeeded = member.has_succeeded();
        let available = content.healthy && exist && (controls_all || succeeded);
        let mut conditions = vec![condition(member, AVAILABLE, available)];
        if !controls_all {
            conditions.push(condition(member, IN_TRANSITION, true));
        }
        if succeeded || (available && controls_all) {
            conditions.push(condition(member, SUCCEEDED, true));
        }
        if member.lifecycle == LifecycleState::Paused {
            conditions.push(condition(member, PAUSED, true));
        }
        member.status.conditions = conditions;
        member.status.controller_of = controls;
        member.status.content_hash = Some(String::new());
    }

    fn happen(&mut self, event: &Event) -> Result<(), TestCaseError> {
        self.clock += 1;
        match event {
            Event::Edit(content) => {
                self.template = content.clone();
                self.edits.push(content.clone());
            }
            Event::Revert(back) => {
                let at = self.edits.len().saturating_sub(1 + back);
                self.template = self.edits[at].clone();
            }
            Event::Pause(paused) => self.paused = *paused,
            Event::Deployment => {
                let serving = self.serving();
                self.deployment()?;
                let lost = serving.iter().find(|number| {
                    let mut all = self.revisions.iter();
                    let stays =
                        all.any(|r| r.member.number == Some(**number) && r.member.is_live());
                    !stays && self.serving().iter().all(|other| other <= *number)
                });
                prop_assert_eq!(lost, None, "the last available revision was archived");
            }
            Event::Revision(at) => self.revision(*at % self.revisions.len().max(1))?,
        }
        Ok(())
    }

    /// Numbers of the revisions that are available and control at least one object.
    fn serving(&self) -> Vec<i64> {
        let revisions = self.revisions.iter().map(|r| &r.member);
        revisions
            .filter(|m| m.is_available() && !m.status.controller_of.is_empty())
            .filter_map(|m| m.number)
            .collect()
    }
}

fn reference(object: u8) -> ControlledObjectReference {
    ControlledObjectReference {
        name: object.to_string(),
        ..ControlledObjectReference::default()
    }
}

fn condition(member: &DeploymentRevision, type_: &str, status: bool) -> Condition {
    Condition {
        type_: type_.to_owned(),
        status: if status { "True" } else { "False" }.to_owned(),
        reason: "Reason".to_owned(),
        message: String::new(),
        observed_generation: Some(member.generation),
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
    }
}

fn content() -> impl Strategy<Value = Content> {
    let objects = proptest::sample::subsequence((0..6_u8).collect::<Vec<_>>(), 1..=4);
    (objects, any::<bool>(), 0..3_usize).prop_map(|(objects, healthy, first)| Content {
        first: first.min(objects.len()),
        objects,
        healthy,
    })
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => content().prop_map(Event::Edit),
        1 => (0..4_usize).prop_map(Event::Revert),
        1 => prop::bool::weighted(0.3).prop_map(Event::Pause),
        6 => Just(Event::Deployment),
        12 => any::<usize>().prop_map(Event::Revision),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// The template changes in any way, and passes run in any order. If the last template has a
    /// content that becomes ready, then this content exists in the end, all other revisions are
    /// archived, and no write follows.
    #[test]
    fn a_chain_settles(
        first in content(),
        events in prop::collection::vec(event(), 0..60),
        last in content(),
    ) {
        let mut world = World::new(first);
        for event in &events {
            world.happen(event)?;
        }
        world.paused = false;
        world.template = Content { healthy: true, ..last };
        for _ in 0..12 {
            world.happen(&Event::Deployment)?;
            for at in 0..world.revisions.len() {
                world.happen(&Event::Revision(at))?;
            }
        }
        prop_assert_eq!(world.deployment()?, 0, "it goes on writing");
        let newest = world.revisions.iter().max_by_key(|r| r.member.number).unwrap();
        prop_assert_eq!(&newest.content, &world.template);
        prop_assert!(newest.member.is_available());
        let number = newest.member.number.unwrap();
        let wanted: BTreeMap<_, _> = world.template.objects.iter().map(|o| (*o, number)).collect();
        prop_assert_eq!(&world.owners, &wanted, "exactly the wanted objects, all controlled");
        let archived = world.revisions.iter().filter(|r| r.member.is_archived).count();
        prop_assert_eq!(archived + 1, world.revisions.len());
        prop_assert!(archived <= HISTORY);
        prop_assert_eq!(world.status.revision, Some(number));
    }

    /// The next revision has a higher number than all others. If no such number exists, no revision
    /// is created and the status gives the reason; deleting the revision in the way is enough.
    #[test]
    fn the_next_number_is_the_highest(
        template in content(),
        numbers in prop::collection::vec(any_number(), 0..6),
    ) {
        let mut world = World::new(template);
        for (at, number) in numbers.iter().enumerate() {
            let member = DeploymentRevision {
                name: format!("web-{at}"),
                number: Some(*number),
                is_archived: true,
                ..DeploymentRevision::default()
            };
            let content = Content { objects: vec![9], healthy: false, first: 0 };
            world.revisions.push(Revision { member, content, archived_at: 0, archived_for: Vec::new() });
        }
        let highest = numbers.iter().max().copied();
        let mut snapshot = world.snapshot();
        snapshot.deployment.history_limit = numbers.len();
        let made = snapshot.actions();
        let (status, _) = report(&snapshot, &Creation::None);
        let is_exhausted = status.conditions.iter().any(|it| it.reason == Reason::NumbersExhausted);
        let far = lowest_far(numbers.iter().copied());
        prop_assert_eq!(is_exhausted, far.is_some());
        if let Some(far) = far {
            prop_assert_eq!(made, []);
            snapshot.members.retain(|member| member.number < Some(far));
            prop_assert!(matches!(&snapshot.actions()[..], [Action::Create(_)]));
        } else {
            let [Action::Create(new)] = &made[..] else {
                return Err(TestCaseError::fail("nothing is made"));
            };
            prop_assert!(new.number > 0 && Some(new.number) > highest);
        }
    }
}

proptest! {
    // Each case simulates a day.
    #![proptest_config(ProptestConfig::with_cases(30))]

    /// A day of passes creates few revisions, however these change when they are stored, and
    /// another content is delivered at once.
    #[test]
    fn revisions_are_not_created_without_limit(template in content(), pace in 300..3000_i64) {
        let mut world = World::new(Content { healthy: true, ..template });
        world.garbled = true;
        let mut passes = 0;
        while world.clock < 86_400 {
            passes += 1;
            world.clock += if passes < 60 { 1 } else { pace };
            world.deployment()?;
        }
        let made = world.revisions.len();
        prop_assert!(made < 40, "{}", made);
        world.garbled = false;
        world.template.objects.push(7);
        world.deployment()?;
        prop_assert_eq!(world.revisions.len(), made + 1);
    }
}

/// Numbers, including those at both ends of their range.
fn any_number() -> impl Strategy<Value = i64> {
    prop_oneof![
        3 => 0..20_i64,
        1 => any::<i64>(),
        1 => prop::sample::select(vec![i64::MIN, -1, i64::MAX - 1, i64::MAX]),
    ]
}
