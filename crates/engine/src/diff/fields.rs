//! Sets of fields in the form `fieldsV1`: their markers, their union and difference, and the path of
//! the current node.

use std::fmt::{self, Write};

use serde_json::{Map, Number, Value, json};

/// A parsed name of an entry in a `fieldsV1` node.
///
/// The format also has `i:<n>` for a list's index, but the server never writes it: a list is keyed,
/// a set, or owned as a whole.
pub enum Marker<'a> {
    /// `.`: the node itself.
    This,
    /// `f:<name>`: a map's key.
    Field(&'a str),
    /// `k:<json>`: the item of a keyed list with these values.
    Item(Map<String, Value>),
    /// `v:<json>`: an element of a set.
    Element(Value),
    /// Any other name.
    Unknown,
}

impl<'a> Marker<'a> {
    /// From its text.
    #[must_use]
    pub fn parse(text: &'a str) -> Self {
        if text == "." {
            return Self::This;
        }
        let parsed = match text.split_at_checked(2) {
            Some(("f:", name)) => Some(Self::Field(name)),
            Some(("k:", keys)) => serde_json::from_str(keys).ok().map(Self::Item),
            Some(("v:", element)) => serde_json::from_str(element).ok().map(Self::Element),
            _ => None,
        };
        parsed.unwrap_or(Self::Unknown)
    }

    /// Returns the value that the marker leads to.
    pub(super) fn find<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        match self {
            Self::Field(name) => value.get(name),
            Self::Item(_) | Self::Element(_) => value.get(self.position(value)?),
            Self::This | Self::Unknown => None,
        }
    }

    /// Returns the position in a list of the item or element that the marker leads to.
    pub(super) fn position(&self, list: &Value) -> Option<usize> {
        list.as_array()?.iter().position(|item| self.is_of(item))
    }

    /// True if it leads to an item of a list.
    pub fn is_of(&self, item: &Value) -> bool {
        match self {
            Self::Item(keys) => has_keys(item, keys),
            Self::Element(element) => same(item, element),
            Self::This | Self::Field(_) | Self::Unknown => false,
        }
    }

    /// True if it can lead to an item of a manifest, which may leave out keys that have a default.
    pub fn may_be_of(&self, item: &Value) -> bool {
        match self {
            Self::Item(keys) => may_have_keys(item, keys),
            _ => self.is_of(item),
        }
    }
}

/// Writes a marker as a part of a path. The elements of sets are values, so they are left out
/// unless `with_elements`.
pub(super) fn write_marker(
    f: &mut fmt::Formatter<'_>,
    marker: &str,
    with_elements: bool,
) -> fmt::Result {
    match Marker::parse(marker) {
        Marker::Field(name) => write_printable_key(f, name),
        Marker::Item(keys) => write!(f, "[{}]", Value::Object(keys)),
        Marker::Element(element) if with_elements => write!(f, "[{element}]"),
        Marker::Element(_) | Marker::This | Marker::Unknown => f.write_str("[…]"),
    }
}

/// A node without children owns the whole value: a scalar, or a list or map that is atomic in the
/// schema.
pub(super) fn is_leaf(node: &Map<String, Value>) -> bool {
    node.keys().all(|marker| marker == ".")
}

/// Returns the node below the map key `name`.
///
/// Compares each marker in turn, because building `f:<name>` for a lookup would cost an allocation.
pub(super) fn field<'a>(node: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    let is_named = |marker: &String| marker.strip_prefix("f:") == Some(name);
    node.iter()
        .find(|(marker, _)| is_named(marker))
        .map(|(_, below)| below)
}

/// The nodes of several sets below a marker.
pub(super) fn below<'a>(
    sets: &[&'a Map<String, Value>],
    marker: &str,
) -> Vec<&'a Map<String, Value>> {
    let nodes = sets.iter().filter_map(|node| node.get(marker)?.as_object());
    nodes.collect()
}

/// True if a list's item has all the values of a `k:` marker.
pub(super) fn has_keys(item: &Value, keys: &Map<String, Value>) -> bool {
    keys.iter()
        .all(|(key, value)| item.get(key).is_some_and(|actual| same(actual, value)))
}

/// True if a wanted item can be that of a `k:` marker. The server adds the defaults of keys that
/// were left out (a port's `protocol`), so only keys that are present have to be equal.
pub(super) fn may_have_keys(item: &Value, keys: &Map<String, Value>) -> bool {
    item.is_object()
        && keys
            .iter()
            .all(|(key, value)| item.get(key).is_none_or(|actual| same(actual, value)))
}

/// Equality of JSON values, independent of a number's notation: `1`, `1.0` and `1e0` are one value.
pub(super) fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || same_number(one, other),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .all(|(key, value)| other.get(key).is_some_and(|other| same(value, other)))
        }
        _ => one == other,
    }
}

/// Compares an integer and a float; each integer is also a float only up to 2^53.
fn same_number(one: &Number, other: &Number) -> bool {
    let exact = |number: &Number| {
        number.is_f64() || number.as_i64().is_some_and(|n| n.unsigned_abs() <= 1 << 53)
    };
    exact(one) && exact(other) && one.as_f64() == other.as_f64()
}

/// The position of a walk, as a chain through the callers' frames; the text is built only for a
/// report.
///
/// The text has no control characters, and elements of sets only in the metadata, because they are
/// values.
#[derive(Clone, Copy)]
pub(super) struct OnPath<'a> {
    above: Option<&'a OnPath<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Field(&'a str),
    Marker(&'a str),
    Index(usize),
}

impl<'a> OnPath<'a> {
    pub(super) const ROOT: Self = Self {
        above: None,
        step: Step::Root,
    };

    pub(super) fn field(&'a self, name: &'a str) -> Self {
        Self {
            above: Some(self),
            step: Step::Field(name),
        }
    }

    /// A list's item, by its `k:` or `v:` marker.
    pub(super) fn marker(&'a self, text: &'a str) -> Self {
        Self {
            above: Some(self),
            step: Step::Marker(text),
        }
    }

    pub(super) fn index(&'a self, index: usize) -> Self {
        Self {
            above: Some(self),
            step: Step::Index(index),
        }
    }

    /// The text of the path with all elements of sets, for people who may read the object anyway.
    pub(super) fn in_full(&'a self) -> impl fmt::Display {
        fmt::from_fn(|f| self.write(f, true))
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, with_elements: bool) -> fmt::Result {
        match self.above {
            Some(above) if !matches!(above.step, Step::Root) => above.write(f, with_elements)?,
            _ => {}
        }
        match self.step {
            Step::Root => f.write_str("."),
            Step::Field(name) => write_printable_key(f, name),
            Step::Marker(text) => write_marker(f, text, with_elements),
            Step::Index(index) => write!(f, "[{index}]"),
        }
    }

    fn is_in_metadata(&self) -> bool {
        match self.above {
            Some(above) if !matches!(above.step, Step::Root) => above.is_in_metadata(),
            _ => matches!(self.step, Step::Field("metadata")),
        }
    }
}

impl fmt::Display for OnPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, self.is_in_metadata())
    }
}

/// Like [`write_key`], without control characters, for people.
fn write_printable_key(f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
    write_key(f, &name.replace(char::is_control, "?"))
}

/// Writes `.name`, with a backslash before each dot that is part of the name, as in kubectl's
/// `JSONPath`.
pub(super) fn write_key(f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
    f.write_str(".")?;
    for char in name.chars() {
        if matches!(char, '.' | '\\') {
            f.write_str("\\")?;
        }
        f.write_char(char)?;
    }
    Ok(())
}

/// The entries of an object's `managedFields`.
pub fn entries(live: &Value) -> &[Value] {
    live.pointer("/metadata/managedFields")
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// The fields that an entry of `managedFields` owns.
pub(super) fn fields_of(entry: &Value) -> Option<&Map<String, Value>> {
    entry.get("fieldsV1").and_then(Value::as_object)
}

/// Adds the paths of one set to another.
pub(super) fn unite(into: &mut Map<String, Value>, from: &Map<String, Value>) {
    for (marker, node) in from {
        if let Some(existing) = into.get_mut(marker) {
            unite_nodes(existing, node);
        } else {
            into.insert(marker.clone(), node.clone());
        }
    }
}

/// Removes the paths of one set from another.
pub(super) fn subtract(from: &mut Map<String, Value>, paths: &Map<String, Value>) {
    from.retain(|marker, node| {
        let Some(path) = paths.get(marker) else {
            return true;
        };
        let (Value::Object(node), Value::Object(path)) = (node, path) else {
            return false;
        };
        if is_leaf(path) {
            return false;
        }
        subtract(node, path);
        !node.is_empty()
    });
}

/// Unites two nodes. A node with children is a member of the set only if it has the marker `.`; a
/// node without children is a member by its presence.
fn unite_nodes(into: &mut Value, from: &Value) {
    let (Value::Object(into), Value::Object(from)) = (into, from) else {
        return;
    };
    let is_member = |node: &Map<String, Value>| node.is_empty() || node.contains_key(".");
    let member = is_member(into) || is_member(from);
    unite(into, from);
    if member && !into.is_empty() {
        into.insert(".".to_owned(), json!({}));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn describe(text: &str) -> String {
        match Marker::parse(text) {
            Marker::This => "this".to_owned(),
            Marker::Field(name) => format!("field {name}"),
            Marker::Item(keys) => format!("item {}", Value::Object(keys)),
            Marker::Element(element) => format!("element {element}"),
            Marker::Unknown => "unknown".to_owned(),
        }
    }

    #[test]
    fn managed_fields_markers_are_parsed_or_unknown() {
        for (text, expected) in [
            (".", "this"),
            ("f:spec", "field spec"),
            ("f:", "field "),
            ("f:f:x", "field f:x"),
            ("f:.", "field ."),
            (r#"k:{"name":"a"}"#, r#"item {"name":"a"}"#),
            (
                r#"k:{"containerPort":80,"protocol":"TCP"}"#,
                r#"item {"containerPort":80,"protocol":"TCP"}"#,
            ),
            (r#"k:["a"]"#, "unknown"),
            ("k:{", "unknown"),
            (r#"v:"a""#, r#"element "a""#),
            ("v:1", "element 1"),
            ("v:", "unknown"),
            ("i:0", "unknown"),
            ("", "unknown"),
            ("f", "unknown"),
            ("äh", "unknown"),
        ] {
            assert_eq!(describe(text), expected, "{text:?}");
        }
    }

    #[test]
    fn nodes_without_children_are_leaves() {
        for (node, expected) in [
            (json!({}), true),
            (json!({".": {}}), true),
            (json!({"f:a": {}}), false),
            (json!({".": {}, "f:a": {}}), false),
            (json!({"k:{\"a\":1}": {}}), false),
        ] {
            assert_eq!(is_leaf(node.as_object().unwrap()), expected, "{node}");
        }
    }

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let node = json!({".": 1, "f:a": 2, "f:a.b": 3, "v:\"c\"": 4});
        for (name, expected) in [
            ("a", Some(2)),
            ("a.b", Some(3)),
            ("b", None),
            ("c", None),
            ("", None),
        ] {
            let found = field(node.as_object().unwrap(), name).and_then(Value::as_i64);
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn items_and_keys() {
        // A wanted item may leave out a key with a default; a live item has every key.
        for (item, keys, may, has) in [
            (json!({"name": "a"}), json!({"name": "a"}), true, true),
            (
                json!({"name": "a", "value": 1}),
                json!({"name": "a"}),
                true,
                true,
            ),
            (json!({"name": "b"}), json!({"name": "a"}), false, false),
            (
                json!({"port": 80}),
                json!({"port": 80, "protocol": "TCP"}),
                true,
                false,
            ),
            (
                json!({"port": 80.0, "protocol": "TCP"}),
                json!({"port": 80, "protocol": "TCP"}),
                true,
                true,
            ),
            (json!({"port": "80"}), json!({"port": 80}), false, false),
            (json!({}), json!({"name": "a"}), true, false),
            (json!("name"), json!({"name": "a"}), false, false),
            (json!(null), json!({"name": "a"}), false, false),
        ] {
            let keys = keys.as_object().unwrap();
            assert_eq!(may_have_keys(&item, keys), may, "{item} {keys:?}");
            assert_eq!(has_keys(&item, keys), has, "{item} {keys:?}");
        }
    }

    #[test]
    fn values_are_equal_by_type_and_order_in_any_notation() {
        for (one, other, expected) in [
            ("1", "1", true),
            ("1", "1.0", true),
            ("1e2", "100", true),
            ("0", "-0.0", true),
            ("0.5", "0.50", true),
            ("-3", "-3.0", true),
            ("1", "2", false),
            ("1", "1.5", false),
            ("1", "\"1\"", false),
            ("1", "true", false),
            ("null", "0", false),
            ("null", "{}", false),
            ("\"\"", "null", false),
            ("[]", "{}", false),
            // Above 2^53 two integers may have the same float.
            ("9007199254740993", "9007199254740992.0", false),
            ("9007199254740993", "9007199254740993", true),
            ("9007199254740993", "9007199254740992", false),
            ("18446744073709551615", "18446744073709551615", true),
            ("[1, 2]", "[1, 2]", true),
            ("[1, 2]", "[1.0, 2]", true),
            ("[1, 2]", "[2, 1]", false),
            ("[1, 2]", "[1]", false),
            ("[]", "[null]", false),
            (r#"{"a": 1, "b": 2}"#, r#"{"b": 2, "a": 1.0}"#, true),
            (r#"{"a": 1}"#, r#"{"a": 1, "b": 2}"#, false),
            (r#"{"a": null}"#, r#"{"b": null}"#, false),
            (r#"{"a": {"b": []}}"#, r#"{"a": {"b": []}}"#, true),
            (r#"{"a": {"b": []}}"#, r#"{"a": {"b": [0]}}"#, false),
        ] {
            let parse = |text| serde_json::from_str::<Value>(text).unwrap();
            assert_eq!(same(&parse(one), &parse(other)), expected, "{one} {other}");
            assert_eq!(same(&parse(other), &parse(one)), expected, "{other} {one}");
        }
    }

    #[test]
    fn paths_read_like_those_of_kubectl() {
        let root = OnPath::ROOT;
        assert_eq!(root.to_string(), ".");
        let spec = root.field("spec");
        assert_eq!(spec.to_string(), ".spec");
        let containers = spec.field("containers");
        let app = containers.marker(r#"k:{"name":"app"}"#);
        assert_eq!(
            app.field("image").to_string(),
            r#".spec.containers[{"name":"app"}].image"#
        );
        assert_eq!(containers.index(2).to_string(), ".spec.containers[2]");
        assert_eq!(spec.marker("?").to_string(), ".spec[…]");
        let labels = root.field("labels");
        assert_eq!(
            labels.field("app.kubernetes.io/name").to_string(),
            r".labels.app\.kubernetes\.io/name"
        );
    }

    #[test]
    fn paths_hide_elements_of_sets_and_control_characters() {
        let root = OnPath::ROOT;
        let (spec, metadata) = (root.field("spec"), root.field("metadata"));
        let (tokens, finalizers) = (spec.field("tokens"), metadata.field("finalizers"));
        let pin = r#"v:"1234""#;
        assert_eq!(tokens.marker(pin).to_string(), ".spec.tokens[…]");
        assert_eq!(
            tokens.marker(pin).field("a").to_string(),
            ".spec.tokens[…].a"
        );
        let all = r#".spec.tokens["1234"]"#;
        assert_eq!(tokens.marker(pin).in_full().to_string(), all);
        let finalizer = r#".metadata.finalizers["1234"]"#;
        assert_eq!(finalizers.marker(pin).to_string(), finalizer);
        // Only elements in the metadata of the object itself are shown.
        let template = spec.field("metadata");
        assert_eq!(template.marker(pin).to_string(), ".spec.metadata[…]");
        assert_eq!(spec.field("a\u{1b}[2J").to_string(), ".spec.a?[2J");
        assert_eq!(spec.marker("f:a\u{1b}").to_string(), ".spec.a?");
        let odd = spec.marker("k:{\"n\":\"\\u001b\"}").to_string();
        assert_eq!(odd, r#".spec[{"n":"\u001b"}]"#);
    }

    #[test]
    fn values_are_found_by_their_markers() {
        let value =
            json!({"list": [{"n": "a"}, {"n": "b", "v": 1}], "set": ["x", 2.0], "null": null});
        let at = |parent: &str, marker: &str| {
            let parent = if parent.is_empty() {
                &value
            } else {
                &value[parent]
            };
            Marker::parse(marker).find(parent).cloned()
        };
        for (parent, marker, expected) in [
            ("", "f:set", Some(json!(["x", 2.0]))),
            ("", "f:null", Some(Value::Null)),
            ("", "f:none", None),
            ("", ".", None),
            ("list", r#"k:{"n":"b"}"#, Some(json!({"n": "b", "v": 1}))),
            ("list", r#"k:{"n":"c"}"#, None),
            ("list", "f:n", None),
            ("set", r#"v:"x""#, Some(json!("x"))),
            ("set", "v:2", Some(json!(2.0))),
            ("set", "v:3", None),
            ("set", "?", None),
            ("null", "v:3", None),
        ] {
            assert_eq!(at(parent, marker), expected, "{parent} {marker}");
        }
    }
}
