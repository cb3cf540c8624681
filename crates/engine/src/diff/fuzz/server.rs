//! A model of server-side apply to an object of one schema: the merge of typed values, the owners
//! of paths, and the removal of values with their last owner.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::tests::draw::Draw;

/// Name and operation of a field manager.
pub(super) type Manager = (&'static str, &'static str);

/// The type of a value.
#[derive(Clone, Debug)]
pub(super) enum Schema {
    /// A scalar, or a map or list that is replaced as a whole.
    Whole,
    /// A map with these fields.
    Struct(BTreeMap<&'static str, Schema>),
    /// A map with any keys, to scalars.
    Map,
    /// A list of items with these fields, keyed by `name` and by `proto`, whose default is `TCP`.
    Keyed(BTreeMap<&'static str, Schema>),
    /// A list of texts; order and repetition do not count.
    Set,
}

/// The schema of the test objects: a custom resource, of which the server drops no value.
pub(super) fn schema() -> Schema {
    let item = || {
        BTreeMap::from([
            ("value", Schema::Whole),
            ("list", Schema::Whole),
            ("more", Schema::Map),
        ])
    };
    let nested = BTreeMap::from([("a", Schema::Whole), ("items", Schema::Keyed(item()))]);
    let spec = BTreeMap::from([
        ("replicas", Schema::Whole),
        ("atomic", Schema::Whole),
        ("labels", Schema::Map),
        ("items", Schema::Keyed(item())),
        ("set", Schema::Set),
        ("nested", Schema::Struct(nested)),
    ]);
    let metadata = BTreeMap::from([("labels", Schema::Map)]);
    Schema::Struct(BTreeMap::from([
        ("metadata", Schema::Struct(metadata)),
        ("spec", Schema::Struct(spec)),
    ]))
}

const NAMES: [&str; 3] = ["a", "b", "c.d"];
const PROTOS: [&str; 2] = ["TCP", "UDP"];

/// Draws a configuration to apply.
pub(super) fn draw_config(draw: &mut Draw<'_>) -> Value {
    let mut config = draw_value(draw, &schema());
    config["apiVersion"] = json!("diff.test/v1");
    config["kind"] = json!("Test");
    // Every object that we write has this label; an apply without any field would own nothing.
    config["metadata"] = json!({"labels": {"cache": "True"}});
    config
}

fn draw_value(draw: &mut Draw<'_>, schema: &Schema) -> Value {
    match schema {
        Schema::Whole => draw_whole(draw),
        Schema::Struct(fields) => draw_fields(draw, fields),
        Schema::Map => {
            let names = NAMES.into_iter().filter(|_| draw.flag());
            let names: Vec<_> = names.collect();
            let value = |name: &str| (name.to_owned(), draw_scalar(draw));
            names.into_iter().map(value).collect::<Map<_, _>>().into()
        }
        Schema::Keyed(fields) => {
            let mut seen = BTreeSet::new();
            let mut items = Vec::new();
            for _ in 0..draw.below(4) {
                let (name, proto) = (draw.of(&NAMES), draw.of(&PROTOS));
                let mut item = draw_fields(draw, fields);
                item["name"] = name.into();
                if proto != "TCP" || draw.flag() {
                    item["proto"] = proto.into();
                }
                // The server refuses duplicate items.
                if seen.insert((name, proto)) {
                    items.push(item);
                }
            }
            items.into()
        }
        Schema::Set => {
            let names = NAMES.into_iter().filter(|_| draw.flag());
            let mut names: Vec<Value> = names.map(Value::from).collect();
            if draw.flag() {
                names.reverse();
            }
            names.into()
        }
    }
}

fn draw_fields(draw: &mut Draw<'_>, fields: &BTreeMap<&'static str, Schema>) -> Value {
    let mut map = Map::new();
    for (name, schema) in fields {
        if draw.flag() {
            map.insert((*name).to_owned(), draw_value(draw, schema));
        }
    }
    map.into()
}

fn draw_whole(draw: &mut Draw<'_>) -> Value {
    match draw.below(4) {
        0 => json!([draw_scalar(draw), draw_scalar(draw)]),
        1 => json!({"x": draw_scalar(draw)}),
        _ => draw_scalar(draw),
    }
}

fn draw_scalar(draw: &mut Draw<'_>) -> Value {
    match draw.below(6) {
        0 => json!("x"),
        1 => json!(1),
        2 => json!(true),
        3 => json!(""),
        4 => json!(1.5),
        _ => json!(null),
    }
}

/// True if a configuration has a map or list without content that owners share. For these the
/// server records nothing, or an entry that may be atomic.
pub(super) fn has_empty(value: &Value, schema: &Schema) -> bool {
    match (schema, value) {
        (Schema::Whole, _) => false,
        (_, Value::Array(items)) if items.is_empty() => true,
        (_, Value::Object(map)) if map.is_empty() => true,
        (Schema::Struct(fields), Value::Object(map)) => fields
            .iter()
            .any(|(name, schema)| map.get(*name).is_some_and(|value| has_empty(value, schema))),
        (Schema::Keyed(fields), Value::Array(items)) => {
            let item = Schema::Struct(fields.clone());
            items.iter().any(|value| has_empty(value, &item))
        }
        _ => false,
    }
}

/// An object without its `managedFields`, and with its sets sorted, as their order has no meaning.
pub(super) fn normal(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    if let Some(Value::Array(set)) = object.pointer_mut("/spec/set") {
        set.sort_by_key(Value::to_string);
    }
    object
}

/// A path in the notation of `managedFields`, with one marker for each step.
type Path = Vec<String>;

/// An object, and the paths that each manager owns.
#[derive(Clone, Debug)]
pub(super) struct Server {
    object: Value,
    owners: BTreeMap<Manager, BTreeSet<Path>>,
}

impl Server {
    /// The object before the first apply.
    pub(super) fn new() -> Self {
        Self {
            object: json!({"apiVersion": "diff.test/v1", "kind": "Test", "metadata": {}}),
            owners: BTreeMap::new(),
        }
    }

    /// The object as a client reads it.
    pub(super) fn live(&self) -> Value {
        let mut live = self.object.clone();
        let entries = self.owners.iter().filter(|(_, paths)| !paths.is_empty());
        let entries = entries.map(|((manager, operation), paths)| {
            json!({
                "manager": manager, "operation": operation, "apiVersion": "diff.test/v1",
                "fieldsType": "FieldsV1", "fieldsV1": fields(paths),
            })
        });
        live["metadata"]["managedFields"] = entries.collect();
        live
    }

    /// A forced write of a manager.
    ///
    /// An update adds the changed paths to those that its manager owns. An apply owns every path of
    /// the configuration; values that it leaves out are removed unless another manager owns them
    /// too.
    pub(super) fn apply(&mut self, manager: Manager, config: &Value) {
        let mut owned = BTreeSet::new();
        own(config, &schema(), &mut Vec::new(), &mut owned);
        let before = self.object.clone();
        self.object = merged(Some(&before), config, &schema());
        let is_changed = |path: &Path| match at(&before, path) {
            Some(_) if path.last().is_some_and(|step| step.starts_with("k:")) => false,
            value => value != at(&self.object, path),
        };
        for (other, paths) in &mut self.owners {
            if *other != manager {
                paths.retain(|path| !owned.contains(path) || !is_changed(path));
            }
        }
        if manager.1 == "Update" {
            owned.retain(is_changed);
            self.owners.entry(manager).or_default().extend(owned);
            return;
        }
        let last = self.owners.insert(manager, owned).unwrap_or_default();
        // Inner paths are removed first.
        for path in last.iter().rev() {
            let is_kept =
                |paths: &BTreeSet<Path>| paths.iter().any(|owned| owned.starts_with(path));
            if !self.owners.values().any(is_kept) {
                take_out(&mut self.object, path);
            }
        }
    }

    /// Removes one of the values that have owners.
    pub(super) fn lose(&mut self, which: usize) {
        let mut all: BTreeSet<_> = self.owners.values().flatten().cloned().collect();
        all.retain(|path| !is_key(path));
        let Some(path) = all.iter().nth(which % all.len().max(1)) else {
            return;
        };
        take_out(&mut self.object, path);
        for paths in self.owners.values_mut() {
            paths.retain(|owned| !owned.starts_with(path));
        }
    }

    /// Moves the paths of one manager to another.
    pub(super) fn unite(&mut self, from: Manager, into: Manager) {
        let paths = self.owners.remove(&from).unwrap_or_default();
        if !paths.is_empty() {
            self.owners.entry(into).or_default().extend(paths);
        }
    }

    /// The part that a manager owns: the paths, the values of leaves, and the order of its items.
    pub(super) fn owned_part(&self, manager: Manager) -> Vec<(Path, Option<Value>)> {
        let owned = self.owners.get(&manager).cloned().unwrap_or_default();
        let is_leaf = |path: &Path| {
            let mut below = owned.iter().filter(|other| other.starts_with(path));
            below.nth(1).is_none()
        };
        let value = |path: &Path| {
            let found = at(&self.object, path);
            // The position counts only owned items of the same list.
            let position = path.last().filter(|step| step.starts_with("k:")).map(|_| {
                let earlier = owned.iter().filter(|other| {
                    let is_sibling = other.len() == path.len()
                        && other[..other.len() - 1] == path[..path.len() - 1];
                    is_sibling && index(&self.object, other) < index(&self.object, path)
                });
                json!({"position": earlier.count()})
            });
            match found {
                Some(found) if is_leaf(path) => Some(found.clone()),
                Some(_) => position.or(Some(json!("present"))),
                None => None,
            }
        };
        owned
            .iter()
            .map(|path| (path.clone(), value(path)))
            .collect()
    }
}

/// The keys that identify an item.
fn keys(item: &Value) -> Value {
    let proto = item.get("proto").cloned().unwrap_or_else(|| json!("TCP"));
    json!({"name": item["name"], "proto": proto})
}

/// Adds the paths that a configuration owns.
fn own(value: &Value, schema: &Schema, path: &mut Path, owned: &mut BTreeSet<Path>) {
    let mut below = |step: String, value: &Value, schema: &Schema, is_item: bool| {
        path.push(step);
        let is_empty = value.as_object().is_some_and(Map::is_empty);
        if is_item || is_empty || matches!(schema, Schema::Whole) {
            owned.insert(path.clone());
        }
        own(value, schema, path, owned);
        path.pop();
    };
    match (schema, value) {
        (Schema::Struct(fields), Value::Object(map)) => {
            for (name, value) in map {
                if let Some(schema) = fields.get(name.as_str()) {
                    below(format!("f:{name}"), value, schema, false);
                }
            }
        }
        (Schema::Map, Value::Object(map)) => {
            for (name, value) in map {
                below(format!("f:{name}"), value, &Schema::Whole, true);
            }
        }
        (Schema::Keyed(fields), Value::Array(items)) => {
            let item = Schema::Struct(with_keys(fields));
            for value in items {
                below(format!("k:{}", keys(value)), value, &item, true);
            }
        }
        (Schema::Set, Value::Array(items)) => {
            for value in items {
                below(format!("v:{value}"), value, &Schema::Whole, true);
            }
        }
        _ => {}
    }
}

fn with_keys(fields: &BTreeMap<&'static str, Schema>) -> BTreeMap<&'static str, Schema> {
    let mut fields = fields.clone();
    fields.extend([("name", Schema::Whole), ("proto", Schema::Whole)]);
    fields
}

/// Merges a configuration into a live value.
fn merged(live: Option<&Value>, config: &Value, schema: &Schema) -> Value {
    match (schema, live, config) {
        (Schema::Struct(fields), _, Value::Object(config)) => {
            let mut map = live.and_then(Value::as_object).cloned().unwrap_or_default();
            for (name, value) in config {
                let schema = fields.get(name.as_str()).unwrap_or(&Schema::Whole);
                let value = merged(map.get(name), value, schema);
                map.insert(name.clone(), value);
            }
            map.into()
        }
        (Schema::Map, Some(Value::Object(live)), Value::Object(config)) => {
            let mut map = live.clone();
            map.extend(config.clone());
            map.into()
        }
        (Schema::Keyed(fields), _, Value::Array(config)) => {
            let live = live
                .and_then(Value::as_array)
                .map_or(&[][..], Vec::as_slice);
            let item = Schema::Struct(with_keys(fields));
            let put = |value: &Value| {
                let existing = live.iter().find(|live| keys(live) == keys(value));
                let mut value = merged(existing, value, &item);
                value["proto"] = keys(&value)["proto"].clone();
                value
            };
            in_order(live, config, keys, put).into()
        }
        (Schema::Set, Some(Value::Array(live)), Value::Array(config)) => {
            in_order(live, config, Value::clone, Value::clone).into()
        }
        _ => config.clone(),
    }
}

/// The items of both lists: those of the configuration in its order, the others in their positions
/// relative to the live items.
fn in_order(
    live: &[Value],
    config: &[Value],
    key: impl Fn(&Value) -> Value,
    put: impl Fn(&Value) -> Value,
) -> Vec<Value> {
    let is_wanted = |item: &Value| config.iter().any(|wanted| key(wanted) == key(item));
    let mut wanted = config.iter();
    let mut items = Vec::new();
    for item in live {
        if is_wanted(item) {
            items.extend(wanted.next().map(&put));
        } else {
            items.push(item.clone());
        }
    }
    items.extend(wanted.map(put));
    items
}

/// True if a path leads to a key of an item.
fn is_key(path: &[String]) -> bool {
    matches!(path, [.., item, key] if item.starts_with("k:") && ["f:name", "f:proto"].contains(&key.as_str()))
}

/// Returns the value at a path.
fn at<'a>(object: &'a Value, path: &Path) -> Option<&'a Value> {
    path.iter()
        .try_fold(object, |value, step| match step.split_at(2) {
            ("f:", name) => value.get(name),
            _ => value.as_array()?.get(position(value, step)?),
        })
}

/// Returns the position of an item or element in its list.
fn position(list: &Value, step: &str) -> Option<usize> {
    list.as_array()?
        .iter()
        .position(|item| match step.split_at(2) {
            ("k:", wanted) => format!("{}", keys(item)) == wanted,
            (_, wanted) => format!("{item}") == wanted,
        })
}

/// Returns the position of the item at the end of a path.
fn index(object: &Value, path: &Path) -> Option<usize> {
    let (last, above) = path.split_last()?;
    position(at(object, &above.to_vec())?, last)
}

/// Removes a value, and the values above it that become empty. The keys of an item are not removed,
/// because they identify the item.
fn take_out(object: &mut Value, path: &[String]) {
    if is_key(path) {
        return;
    }
    let Some((step, rest)) = path.split_first() else {
        return;
    };
    let is_empty = |value: &Value| match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    let mut below = |value: &mut Value| {
        take_out(value, rest);
        rest.is_empty() || is_empty(value)
    };
    if let Some(name) = step.strip_prefix("f:") {
        let Some(map) = object.as_object_mut() else {
            return;
        };
        if map.get_mut(name).is_some_and(&mut below) {
            map.remove(name);
        }
    } else if let Some(position) = position(object, step)
        && let Value::Array(items) = object
        && below(&mut items[position])
    {
        items.remove(position);
    }
}

/// A set of paths in the notation of `managedFields`.
fn fields(paths: &BTreeSet<Path>) -> Value {
    let mut root = json!({});
    for path in paths {
        let mut node = &mut root;
        for (depth, step) in path.iter().enumerate() {
            let map = node.as_object_mut().expect("maps only");
            // Paths are sorted, so a path above this one was inserted before, if it is in the set.
            if depth > 0 && map.is_empty() && paths.contains(&path[..depth]) {
                map.insert(".".to_owned(), json!({}));
            }
            node = map.entry(step.as_str()).or_insert_with(|| json!({}));
        }
    }
    root
}
