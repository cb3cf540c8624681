//! Properties of every chain of revisions, for all orders of events and all crashes of the manager:
//! every object that a live revision wants has exactly one controller, no unwanted object survives,
//! foreign objects are not changed, and the chain settles in a bounded number of passes.

#![expect(clippy::panic, reason = "helpers of tests state what they expect")]

mod cluster;

use std::collections::BTreeSet;

use baton_apis::{LifecycleState, ObjectSetObject, ObjectSetTemplatePhase};
use proptest::prelude::*;
use serde_json::{Value, json};

use baton_engine::{
    ObjectKey,
    object::{Identity, is_controller, owner_references},
};

use self::cluster::{NAMESPACE, Set, World, controller_name};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// A chain: for each revision and object, its phase (0 if it is not wanted), and true if it is
/// broken in that revision.
type Chain = Vec<Vec<(u8, bool)>>;

fn chain() -> impl Strategy<Value = Chain> {
    let object = (0..4_u8, prop::bool::weighted(0.15));
    prop::collection::vec(prop::collection::vec(object, NAMES.len()), 1..5)
}

/// An event from outside, as seeds for the dice.
#[derive(Clone, Debug)]
enum Happening {
    Pass(usize),
    ArchiveOldest,
    /// The newest revision is deleted, and hands back the objects that older ones want.
    AbortNewest,
    Delete(usize),
    Drift(usize),
    Block(usize),
    Age(usize),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        6 => (0..4_usize).prop_map(Happening::Pass),
        1 => Just(Happening::ArchiveOldest),
        1 => Just(Happening::AbortNewest),
        1 => (0..NAMES.len()).prop_map(Happening::Delete),
        1 => (0..NAMES.len()).prop_map(Happening::Drift),
        1 => (0..NAMES.len()).prop_map(Happening::Block),
        1 => (0..NAMES.len()).prop_map(Happening::Age),
    ]
}

fn key(name: &str) -> ObjectKey {
    ObjectKey {
        group: String::new(),
        kind: "ConfigMap".to_owned(),
        namespace: NAMESPACE.to_owned(),
        name: name.to_owned(),
    }
}

fn content(revision: usize, broken: bool) -> String {
    format!("{}{revision}", if broken { "broken" } else { "v" })
}

fn sets(chain: &Chain) -> Vec<Set> {
    chain
        .iter()
        .enumerate()
        .map(|(index, objects)| Set {
            identity: Identity {
                kind: "ObjectSet".to_owned(),
                namespace: NAMESPACE.to_owned(),
                name: format!("r{}", index + 1),
                uid: format!("set-{}", index + 1),
                is_remote: false,
                hub: String::new(),
                chain: String::new(),
            },
            number: i64::try_from(index).expect("few") + 1,
            lifecycle: LifecycleState::Active,
            previous: (1..=index).map(|number| format!("r{number}")).collect(),
            phases: (1..4_u8)
                .map(|phase| ObjectSetTemplatePhase {
                    name: format!("phase-{phase}"),
                    objects: NAMES
                        .iter()
                        .zip(objects)
                        .filter(|(_, (wanted, _))| *wanted == phase)
                        .map(|(name, (_, broken))| ObjectSetObject {
                            object: json!({
                                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
                                "data": {"content": content(index, *broken)},
                            }),
                            ..ObjectSetObject::default()
                        })
                        .collect(),
                    ..ObjectSetTemplatePhase::default()
                })
                .collect(),
            hands_back: false,
            status: baton_apis::ObjectSetStatus::default(),
        })
        .collect()
}

fn disturb(world: &mut World, happenings: &[Happening], created: &mut usize, all: &[Set]) {
    for happening in happenings {
        // A further revision is sometimes applied, as by a user.
        if *created < all.len() && world.dice.roll(3) == 1 {
            world.sets.push(all[*created].clone());
            *created += 1;
        }
        match happening {
            Happening::Pass(set) => {
                let set = set % world.sets.len();
                let _ = world.reconcile(set);
            }
            Happening::ArchiveOldest => {
                let newest = world.sets.len() - 1;
                if let Some(oldest) = world.sets[..newest].iter_mut().find(|set| set.is_live()) {
                    oldest.lifecycle = LifecycleState::Archived;
                }
            }
            Happening::AbortNewest => {
                let mut live = world.sets.iter_mut().filter(|set| set.is_live());
                if let Some(newest) = live.next_back()
                    && live.next().is_some()
                {
                    newest.lifecycle = LifecycleState::Archived;
                    newest.hands_back = true;
                }
            }
            Happening::Delete(name) => world.delete(&key(NAMES[*name])),
            Happening::Drift(name) => {
                if let Some(mut object) = world.objects.get(&key(NAMES[*name])).cloned() {
                    object["data"]["content"] = "drifted".into();
                    world.put(&key(NAMES[*name]), Some(object));
                }
            }
            Happening::Block(name) => world.block(&key(NAMES[*name])),
            Happening::Age(name) => world.age(&key(NAMES[*name])),
        }
    }
    while *created < all.len() {
        world.sets.push(all[*created].clone());
        *created += 1;
    }
}

/// Runs passes over all revisions until nothing is written any more; returns the number of rounds.
fn settle(world: &mut World) -> usize {
    world.is_rough = false;
    world.unblock();
    for round in 1.. {
        world.writes = 0;
        let statuses: Vec<_> = world.sets.iter().map(|set| set.status.clone()).collect();
        for set in 0..world.sets.len() {
            world.reconcile(set).expect("nothing dies while it settles");
        }
        let same = world.sets.iter().map(|set| &set.status).eq(&statuses);
        if world.writes == 0 && same {
            return round;
        }
        assert!(round < 40, "does not settle");
    }
    unreachable!("the rounds are bounded above")
}

/// The objects that a live revision has reached: all of its phases up to the first one that fails.
fn reached<'a>(world: &World, set: &'a Set) -> Vec<(&'a str, &'a Value)> {
    let mut reached = Vec::new();
    for phase in &set.phases {
        for entry in &phase.objects {
            reached.push((
                entry.object["metadata"]["name"].as_str().expect("name"),
                &entry.object,
            ));
        }
        let fails = phase.objects.iter().any(|entry| {
            let name = entry.object["metadata"]["name"].as_str().expect("name");
            let live = world.objects.get(&key(name));
            live.is_none_or(|o| {
                o["data"]["content"]
                    .as_str()
                    .unwrap_or("")
                    .starts_with("broken")
            })
        });
        if fails {
            break;
        }
    }
    reached
}

fn check(world: &World, stranger: Option<(&ObjectKey, &Value)>) {
    let live: Vec<_> = world.sets.iter().filter(|set| set.is_live()).collect();
    let stranger_name = stranger.map(|(key, _)| key.name.as_str());
    let mut wanted = BTreeSet::new();
    for set in &live {
        for (name, manifest) in reached(world, set) {
            if stranger_name == Some(name) {
                // No revision may take the object, so its phase cannot be completed.
                break;
            }
            let object = world.objects.get(&key(name));
            let object = object
                .unwrap_or_else(|| panic!("{name}, wanted by {}, is lost", set.identity.name));
            let controllers = owner_references(object)
                .iter()
                .filter(|r| is_controller(r))
                .count();
            assert_eq!(controllers, 1, "{name} has {controllers} controllers");
            let owner = controller_name(object).expect("one controller");
            let owner = live.iter().find(|other| other.identity.name == owner);
            let owner = owner.unwrap_or_else(|| panic!("{name} is controlled by no live revision"));
            assert!(
                owner.number >= set.number,
                "{name} went back to {}",
                owner.identity.name
            );
            if owner.number == set.number {
                assert_eq!(
                    object["data"], manifest["data"],
                    "{name} is not as {} wants it",
                    set.identity.name
                );
            }
        }
        wanted.extend(
            set.phases
                .iter()
                .flat_map(|phase| &phase.objects)
                .map(|entry| {
                    entry.object["metadata"]["name"]
                        .as_str()
                        .expect("name")
                        .to_owned()
                }),
        );
    }
    for (key, object) in &world.objects {
        if Some(key.name.as_str()) != stranger_name {
            assert!(
                wanted.contains(&key.name),
                "{key} is wanted by no revision: {object}"
            );
        }
        for reference in owner_references(object) {
            let owner = reference["name"].as_str().expect("name");
            assert!(
                live.iter().any(|set| set.identity.name == owner),
                "{key} still refers to {owner}"
            );
        }
    }
    if let Some((key, before)) = stranger {
        let now = world.objects.get(key).expect("a stranger is not deleted");
        for field in [
            "/data",
            "/metadata/uid",
            "/metadata/labels",
            "/metadata/ownerReferences",
        ] {
            assert_eq!(
                now.pointer(field),
                before.pointer(field),
                "the stranger's {field} changed"
            );
        }
    }
    for set in &world.sets {
        assert_eq!(
            set.is_archived(),
            !set.is_live(),
            "{} is archived when asked to",
            set.identity.name
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn every_chain_settles_with_one_owner_for_each_object(
        chain in chain(),
        happenings in prop::collection::vec(happening(), 0..30),
        bytes in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        let all = sets(&chain);
        let mut world = World::rough(bytes);
        world.sets.push(all[0].clone());
        let mut created = 1;
        disturb(&mut world, &happenings, &mut created, &all);
        let rounds = settle(&mut world);
        // An object needs at most one round per phase and revision.
        prop_assert!(rounds <= 2 + 4 * world.sets.len(), "took {rounds} rounds");
        check(&world, None);
        // A further restart of the manager writes nothing. Neither does a takeover of an object
        // that another client has written in another form.
        world.writes = 0;
        prop_assert_eq!(settle(&mut world), 1);
        for name in NAMES {
            world.age(&key(name));
        }
        prop_assert_eq!(settle(&mut world), 1);
    }

    #[test]
    fn an_object_of_another_owner_is_never_touched(
        chain in chain(),
        happenings in prop::collection::vec(happening().prop_filter(
            "users leave the stranger alone",
            |h| !matches!(h, Happening::Delete(2) | Happening::Drift(2) | Happening::Block(2)),
        ), 0..20),
        bytes in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        let all = sets(&chain);
        let mut world = World::rough(bytes);
        let stranger = key("c");
        world.make_stranger(&stranger, "mine");
        let before = world.objects[&stranger].clone();
        world.sets.push(all[0].clone());
        let mut created = 1;
        disturb(&mut world, &happenings, &mut created, &all);
        settle(&mut world);
        check(&world, Some((&stranger, &before)));
    }
}
