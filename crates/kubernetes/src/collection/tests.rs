use proptest::prelude::*;

use super::*;

/// A change of one of few objects. Odd values cannot be read.
#[derive(Clone, Debug)]
enum Act {
    Set(u8, u8),
    Delete(u8),
    /// A list; with a number it fails after that many objects.
    List(Option<usize>),
    Interrupt,
    Unserve,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let key = 0..4_u8;
    let act = prop_oneof![
        4 => (key.clone(), 0..6_u8).prop_map(|(key, value)| Act::Set(key, value)),
        2 => key.prop_map(Act::Delete),
        2 => prop::option::of(0..4_usize).prop_map(Act::List),
        1 => Just(Act::Interrupt),
        1 => Just(Act::Unserve),
    ];
    prop::collection::vec(act, 0..40)
}

fn object(key: u8, value: u8) -> Box<RawValue> {
    let spec = if value.is_multiple_of(2) {
        value.to_string()
    } else {
        "\"odd\"".to_owned()
    };
    let text = format!(r#"{{"metadata":{{"name":"{key}","resourceVersion":"7"}},"spec":{spec}}}"#);
    RawValue::from_string(text).unwrap()
}

fn read(object: &RawValue) -> Option<u8> {
    #[derive(serde::Deserialize)]
    struct Readable {
        spec: u8,
    }
    let readable: Readable = serde_json::from_str(object.get()).ok()?;
    Some(readable.spec)
}

const DONE: Event<'_> = Event::ListDone {
    resource_version: 9,
};

/// A collection, and the objects that exist.
struct World {
    collection: Collection<String, u8>,
    /// The last readable value of each object, if there was one, and its present value.
    objects: BTreeMap<u8, (Option<u8>, u8)>,
    /// The objects as the reported changes describe them.
    reported: BTreeMap<String, u8>,
}

impl World {
    fn send(&mut self, event: &Event<'_>) {
        for Change { key, old, new } in self.collection.process(event, read) {
            assert_eq!(self.reported.get(&key), old.as_ref());
            assert_ne!(old, new);
            match new {
                Some(new) => drop(self.reported.insert(key, new)),
                None => drop(self.reported.remove(&key)),
            }
        }
    }

    fn set(&mut self, key: u8, value: u8) {
        let (last, now) = self.objects.entry(key).or_default();
        *now = value;
        if value.is_multiple_of(2) {
            *last = Some(value);
        }
    }

    fn readable(&self) -> BTreeMap<String, u8> {
        let objects = self.objects.iter();
        let readable = objects.filter_map(|(key, (last, _))| Some((key.to_string(), (*last)?)));
        readable.collect()
    }
}

proptest! {
    /// After any list and any event the collection has each object that exists, as it was last
    /// readable.
    #[test]
    fn a_collection_equals_the_objects_of_the_server(acts in acts(), is_certain in any::<bool>()) {
        let unserved = if is_certain { Unserved::Empty } else { Unserved::Unknown };
        let mut world = World {
            collection: Collection::new(unserved),
            objects: BTreeMap::new(),
            reported: BTreeMap::new(),
        };
        world.send(&Event::ListStarted);
        world.send(&DONE);
        for act in acts {
            let extent = world.collection.extent().clone();
            // Otherwise only a list reports the object.
            let is_watched = extent == Extent::All;
            let before = world.reported.clone();
            let mut expected = Extent::All;
            match act {
                Act::Set(key, value) if is_watched => {
                    world.set(key, value);
                    world.send(&Event::Upsert(&object(key, value)));
                }
                Act::Delete(key) if is_watched => {
                    if let Some((_, value)) = world.objects.remove(&key) {
                        world.send(&Event::Deleted(&object(key, value)));
                    }
                }
                Act::Set(key, value) => {
                    world.objects.insert(key, (None, value));
                    expected = extent;
                }
                Act::Delete(key) => {
                    world.objects.remove(&key);
                    expected = extent;
                }
                Act::List(fails) => {
                    let objects = world.objects.clone();
                    world.send(&Event::ListStarted);
                    for (key, (_, value)) in objects.iter().take(fails.unwrap_or(objects.len())) {
                        world.send(&Event::Listed(&object(*key, *value)));
                    }
                    if fails.is_some() {
                        world.send(&Event::Failed("reset"));
                        expected = Extent::Unavailable("reset".into());
                    } else {
                        for (key, (last, now)) in &mut world.objects {
                            let read = now.is_multiple_of(2).then_some(*now);
                            *last = read.or_else(|| before.get(&key.to_string()).copied());
                        }
                        world.send(&DONE);
                    }
                }
                Act::Interrupt => {
                    world.send(&Event::Failed("reset"));
                    if !is_watched {
                        expected = Extent::Unavailable("reset".into());
                    }
                }
                Act::Unserve => {
                    world.send(&Event::Unserved);
                    if is_certain {
                        world.objects.clear();
                    } else {
                        expected = Extent::Unavailable("the API server does not serve the kind".into());
                    }
                }
            }
            prop_assert_eq!(world.collection.extent(), &expected);
            if expected == Extent::All {
                prop_assert_eq!(&world.reported, &world.readable());
            } else {
                prop_assert_eq!(&world.reported, &before);
            }
            prop_assert_eq!(world.collection.items(), &world.reported);
        }
    }
}

#[test]
fn an_unreadable_object_is_removed_when_it_is_deleted() {
    let mut collection = Collection::<String, u8>::new(Unserved::Unknown);
    let names = |collection: &Collection<String, u8>| collection.items().len();
    collection.process(&Event::Upsert(&object(1, 2)), read);
    collection.process(&Event::Upsert(&object(1, 3)), read);
    assert_eq!(names(&collection), 1);
    collection.process(&Event::ListStarted, read);
    collection.process(&Event::Listed(&object(1, 3)), read);
    collection.process(&DONE, read);
    assert_eq!(names(&collection), 1, "it is listed");
    collection.process(&Event::Deleted(&object(1, 3)), read);
    assert_eq!(names(&collection), 0);
}

#[test]
fn the_extent_of_two_kinds_is_the_smaller_one() {
    let unavailable = || Extent::Unavailable("no right".into());
    for (one, other, expected) in [
        (Extent::All, Extent::All, Extent::All),
        (Extent::All, Extent::Nothing, Extent::Nothing),
        (Extent::Nothing, unavailable(), unavailable()),
        (unavailable(), Extent::All, unavailable()),
    ] {
        assert_eq!(one.and(other), expected);
    }
}

/// A list without the right is forbidden until a list succeeds; other failures are not.
#[test]
fn a_missing_right_is_reported_until_a_list_succeeds() {
    let mut fold = Fold::<String>::new(Unserved::Unknown);
    for (event, expected) in [
        (Event::Failed("reset"), false),
        (Event::Forbidden("no right"), true),
        (Event::ListStarted, true),
        (DONE, false),
        // The watch continues where it was.
        (Event::Forbidden("no right"), false),
    ] {
        fold.process(&event);
        assert_eq!(fold.is_forbidden(), expected, "{event:?}");
    }
}
