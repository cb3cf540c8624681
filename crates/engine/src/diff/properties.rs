//! Properties of every body, tested on a model of an apply.
//!
//! Random trees describe a value and its schema. They are written as the body, as the set of fields
//! that the server records for it, and as a live object among the fields of other managers.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Map, Value, json};

use super::tests::live;
use super::*;

/// A value with its schema.
#[derive(Clone, Debug, PartialEq)]
enum Node {
    /// A scalar, or a list or map that is one atomic value.
    Whole(Value),
    /// A map whose keys have their own owners.
    Map(BTreeMap<String, Node>),
    /// A list of items keyed by `name` and `proto`; the default of the latter is `TCP`.
    Keyed(Vec<(String, Option<&'static str>, BTreeMap<String, Node>)>),
    /// A list of texts; order and repetition do not count.
    Set(Vec<String>),
}

/// The parts of a live object that we do not own.
#[derive(Clone, Copy, Debug)]
enum Among {
    Nobody,
    /// Other managers with fields, items and elements of their own.
    Others,
    /// Other managers with other values, in other places.
    MoreOthers,
}

impl Node {
    fn wanted(&self) -> Value {
        match self {
            Self::Whole(value) => value.clone(),
            Self::Map(map) => map
                .iter()
                .map(|(key, node)| (key.clone(), node.wanted()))
                .collect(),
            Self::Keyed(items) => items.iter().map(wanted_item).collect(),
            Self::Set(elements) => elements.iter().cloned().collect(),
        }
    }

    fn owned(&self) -> Value {
        match self {
            Self::Whole(_) => json!({}),
            Self::Map(map) => map
                .iter()
                .map(|(key, node)| (format!("f:{key}"), node.owned()))
                .collect(),
            Self::Keyed(items) => items
                .iter()
                .map(|(name, proto, fields)| {
                    let mut node = Self::Map(fields.clone()).owned();
                    node["."] = json!({});
                    node["f:name"] = json!({});
                    if proto.is_some() {
                        node["f:proto"] = json!({});
                    }
                    let keys = json!({"name": name, "proto": proto.unwrap_or("TCP")});
                    (format!("k:{keys}"), node)
                })
                .collect(),
            Self::Set(elements) => elements
                .iter()
                .map(|element| (format!("v:{}", json!(element)), json!({})))
                .collect(),
        }
    }

    fn live(&self, among: Among) -> Value {
        let mut value = match self {
            Self::Whole(value) => return value.clone(),
            Self::Map(map) => map
                .iter()
                .map(|(key, node)| (key.clone(), node.live(among)))
                .collect(),
            Self::Keyed(items) => items
                .iter()
                .map(|(name, proto, fields)| {
                    let mut item = Self::Map(fields.clone()).live(among);
                    item["name"] = json!(name);
                    item["proto"] = json!(proto.unwrap_or("TCP"));
                    item
                })
                .collect(),
            Self::Set(elements) => elements.iter().cloned().collect(),
        };
        match (&mut value, among) {
            (_, Among::Nobody) => {}
            // An empty map that we own may be atomic.
            (Value::Object(map), _) if map.is_empty() => {}
            (Value::Object(map), Among::Others) => drop(map.insert("others".to_owned(), json!(1))),
            (Value::Object(map), Among::MoreOthers) => {
                drop(map.insert("others".to_owned(), json!({"a": 2})));
            }
            (Value::Array(items), Among::Others) => items.insert(0, foreign_item(self, "x")),
            (Value::Array(items), Among::MoreOthers) => {
                if matches!(self, Self::Set(_)) {
                    items.reverse();
                }
                items.insert(items.len() / 2, foreign_item(self, "y"));
                items.push(foreign_item(self, "z"));
            }
            (other, _) => panic!("{other}"),
        }
        value
    }

    /// All nodes that differ from this node in the value of one leaf.
    fn with_one_changed(&self) -> Vec<Self> {
        match self {
            Self::Whole(value) => vec![Self::Whole(match value {
                Value::Null => json!(false),
                Value::Bool(value) => json!(!value),
                Value::Number(number) => json!(number.as_i64().unwrap() + 1),
                Value::String(text) => json!(format!("{text}!")),
                Value::Array(items) => items.iter().cloned().chain([json!(0)]).collect(),
                Value::Object(map) => json!({"map": map}),
            })],
            Self::Map(map) => changed_in(map).map(Self::Map).collect(),
            Self::Keyed(items) => (0..items.len())
                .flat_map(|at| {
                    changed_in(&items[at].2).map(move |fields| {
                        let mut items = items.clone();
                        items[at].2 = fields;
                        Self::Keyed(items)
                    })
                })
                .collect(),
            Self::Set(_) => Vec::new(),
        }
    }

    /// All nodes that lack one key, item or element that the server records.
    fn with_one_left_out(&self) -> Vec<Self> {
        match self {
            Self::Whole(_) => Vec::new(),
            Self::Map(map) => left_out_in(map).map(Self::Map).collect(),
            Self::Keyed(items) => (0..items.len())
                .flat_map(|at| {
                    let without = without(items, at);
                    let below = left_out_in(&items[at].2).map(move |fields| {
                        let mut items = items.clone();
                        items[at].2 = fields;
                        items
                    });
                    below.chain([without]).map(Self::Keyed)
                })
                .collect(),
            Self::Set(elements) => (0..elements.len())
                .map(|at| Self::Set(without(elements, at)))
                .collect(),
        }
    }
}

fn wanted_item(
    (name, proto, fields): &(String, Option<&'static str>, BTreeMap<String, Node>),
) -> Value {
    let mut item = Node::Map(fields.clone()).wanted();
    item["name"] = json!(name);
    if let Some(proto) = proto {
        item["proto"] = json!(proto);
    }
    item
}

fn foreign_item(among: &Node, name: &str) -> Value {
    match among {
        Node::Set(_) => json!(name),
        _ => json!({"name": name, "proto": "TCP", "others": [1]}),
    }
}

fn changed_in(map: &BTreeMap<String, Node>) -> impl Iterator<Item = BTreeMap<String, Node>> {
    map.iter().flat_map(move |(key, node)| {
        node.with_one_changed().into_iter().map(move |node| {
            let mut map = map.clone();
            map.insert(key.clone(), node);
            map
        })
    })
}

fn left_out_in(map: &BTreeMap<String, Node>) -> impl Iterator<Item = BTreeMap<String, Node>> {
    map.iter().flat_map(move |(key, node)| {
        let with = move |node| {
            let mut map = map.clone();
            map.insert(key.clone(), node);
            map
        };
        let mut without = map.clone();
        without.remove(key);
        let without = Some(without).filter(|_| !leaves_no_trace(&node.wanted()));
        node.with_one_left_out()
            .into_iter()
            .map(with)
            .chain(without)
    })
}

/// True if the server records no owner: an empty list may be keyed.
fn leaves_no_trace(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => !map.is_empty() && map.values().all(leaves_no_trace),
        _ => false,
    }
}

fn without<T: Clone>(items: &[T], at: usize) -> Vec<T> {
    let mut items = items.to_vec();
    items.remove(at);
    items
}

fn scalars() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z.~/\"\\\\é]{0,9}".prop_map(Value::from),
    ]
}

fn wholes() -> impl Strategy<Value = Value> {
    scalars().prop_recursive(2, 8, 3, |value| {
        prop_oneof![
            prop::collection::vec(value.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-c]", value, 0..3)
                .prop_map(|map| map.into_iter().collect()),
        ]
    })
}

fn maps(
    of: impl Strategy<Value = Node>,
    least: usize,
) -> impl Strategy<Value = BTreeMap<String, Node>> {
    prop::collection::btree_map("[a-d.\"\\\\]{1,3}", of, least..4)
}

fn nodes() -> impl Strategy<Value = Node> {
    wholes()
        .prop_map(Node::Whole)
        .prop_recursive(3, 16, 3, |node| {
            let item = (
                prop::option::of(prop_oneof![Just("TCP"), Just("UDP")]),
                maps(node.clone(), 0),
            );
            prop_oneof![
                maps(node, 1).prop_map(Node::Map),
                prop::collection::btree_map("[a-c]", item, 1..4).prop_map(|items| {
                    let item = |(name, (proto, fields))| (name, proto, fields);
                    Node::Keyed(items.into_iter().map(item).collect())
                }),
                prop::collection::btree_set("[a-c\"]{1,2}", 1..4)
                    .prop_map(|set| Node::Set(set.into_iter().collect())),
            ]
        })
}

/// The spec of an object, never empty.
fn specs() -> impl Strategy<Value = Node> {
    maps(nodes(), 1).prop_map(Node::Map)
}

/// The body is of a kind of which the server drops no value, so that each value counts.
fn body(spec: &Node) -> Value {
    json!({"apiVersion": "diff.test/v1", "kind": "Test", "metadata": {"name": "n"}, "spec": spec.wanted()})
}

/// The result of an apply of `owned`, if the values are those of `actual`.
fn applied(owned: &Node, actual: &Node, among: Among) -> Value {
    let content = json!({"apiVersion": "diff.test/v1", "kind": "Test", "spec": actual.live(among)});
    let mut live = live(content, &json!({"f:spec": owned.owned()}));
    for entry in live["metadata"]["managedFields"].as_array_mut().unwrap() {
        entry["apiVersion"] = json!("diff.test/v1");
    }
    live
}

/// The same value with the keys of each map in reverse order, where the map has an order.
fn reversed(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let entries = map
                .iter()
                .rev()
                .map(|(key, value)| (key.clone(), reversed(value)));
            Value::Object(entries.collect::<Map<_, _>>())
        }
        Value::Array(items) => items.iter().map(reversed).collect(),
        _ => value.clone(),
    }
}

proptest! {
    #[test]
    fn the_same_apply_again_is_no_difference(spec in specs()) {
        for among in [Among::Nobody, Among::Others, Among::MoreOthers] {
            let live = applied(&spec, &spec, among);
            prop_assert_eq!(compare(&body(&spec), &live), Difference::None, "{}", live);
        }
    }

    #[test]
    fn a_changed_value_is_noticed_on_either_side(spec in specs(), which: Index) {
        let all = spec.with_one_changed();
        if all.is_empty() {
            return Ok(());
        }
        let other = &all[which.index(all.len())];
        for among in [Among::Nobody, Among::Others] {
            let live = applied(&spec, &spec, among);
            let drifted = applied(&spec, other, among);
            prop_assert!(matches!(compare(&body(other), &live), Difference::Fields(_)));
            prop_assert!(matches!(compare(&body(&spec), &drifted), Difference::Fields(_)));
            prop_assert_ne!(live_fingerprint(&live), live_fingerprint(&drifted));
        }
        prop_assert_ne!(wanted_fingerprint(&body(&spec)), wanted_fingerprint(&body(other)));
    }

    #[test]
    fn a_field_removed_from_the_template_is_surplus(spec in specs(), which: Index) {
        let all = spec.with_one_left_out();
        if all.is_empty() {
            return Ok(());
        }
        let less = &all[which.index(all.len())];
        let difference = compare(&body(less), &applied(&spec, &spec, Among::Others));
        prop_assert!(matches!(difference, Difference::Surplus(_)), "{difference:?}");
        prop_assert_ne!(wanted_fingerprint(&body(&spec)), wanted_fingerprint(&body(less)));
    }

    #[test]
    fn a_field_taken_by_another_manager_is_not_owned(spec in specs(), which: Index) {
        let all = spec.with_one_left_out();
        if all.is_empty() {
            return Ok(());
        }
        let left = &all[which.index(all.len())];
        let taken = applied(left, &spec, Among::Others);
        let difference = compare(&body(&spec), &taken);
        // If we own nothing below a map or list any more, the model leaves its marker, like that of
        // an atomic value.
        prop_assert_ne!(difference, Difference::None);
        let before = applied(&spec, &spec, Among::Others);
        prop_assert_ne!(live_fingerprint(&taken), live_fingerprint(&before));
    }

    #[test]
    fn others_do_not_move_the_fingerprint(spec in specs()) {
        let print = live_fingerprint(&applied(&spec, &spec, Among::Nobody));
        for among in [Among::Others, Among::MoreOthers] {
            prop_assert_eq!(live_fingerprint(&applied(&spec, &spec, among)), print);
        }
    }

    #[test]
    fn the_order_of_map_keys_does_not_move_a_fingerprint(spec in specs()) {
        let live = applied(&spec, &spec, Among::Others);
        prop_assert_eq!(live_fingerprint(&reversed(&live)), live_fingerprint(&live));
        let body = body(&spec);
        prop_assert_eq!(wanted_fingerprint(&reversed(&body)), wanted_fingerprint(&body));
        let text = serde_json::to_string(&body).unwrap();
        let read = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(wanted_fingerprint(&read), wanted_fingerprint(&body));
    }

    #[test]
    fn a_path_of_ours_keeps_its_live_value(spec in specs(), which: Index, changed: Index) {
        let Node::Map(map) = &spec else { unreachable!() };
        let key = map.keys().nth(which.index(map.len())).unwrap();
        let path = FieldPath(vec!["spec".to_owned(), key.clone()]);
        let all = map[key].with_one_changed();
        if all.is_empty() {
            return Ok(());
        }
        let mut other = map.clone();
        other.insert(key.clone(), all[changed.index(all.len())].clone());
        let other = Node::Map(other);
        // The template now has another value, or lacks the field.
        for template in [body(&other), body(&spec)] {
            let live = applied(&spec, &spec, Among::Others);
            let mut applied = template;
            with_create_only(&mut applied, &live, std::slice::from_ref(&path));
            prop_assert_eq!(compare(&applied, &live), Difference::None);
        }
    }

    #[test]
    fn a_path_of_others_is_left_to_them(spec in specs(), which: Index) {
        let Node::Map(map) = &spec else { unreachable!() };
        let key = map.keys().nth(which.index(map.len())).unwrap();
        let mut left = map.clone();
        left.remove(key);
        if left.is_empty() {
            return Ok(());
        }
        let live = applied(&Node::Map(left), &spec, Among::Others);
        let mut applied = body(&spec);
        let path = FieldPath(vec!["spec".to_owned(), key.clone()]);
        with_create_only(&mut applied, &live, &[path]);
        prop_assert_eq!(applied["spec"].get(key), None);
        prop_assert_eq!(compare(&applied, &live), Difference::None);
    }

    #[test]
    fn no_input_causes_a_panic(wanted in wholes(), actual in wholes(), fields in wholes()) {
        let live = live(json!({"spec": actual}), &fields);
        let mut wanted = json!({"spec": wanted});
        let _ = compare(&wanted, &live);
        let _ = (wanted_fingerprint(&wanted), live_fingerprint(&live));
        with_create_only(&mut wanted, &live, &[FieldPath(vec!["spec".to_owned(), "a".to_owned()])]);
    }
}
