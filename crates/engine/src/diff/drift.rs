//! Which fields of an object were not as they were last applied, and who had changed them.
//!
//! The witness is `metadata.managedFields`, before and after an apply of the same content: nobody can change a field
//! that we own without its path leaving the entry of our applies, and the apply puts it back. So what the entry has
//! afterwards, and had not before, is what was changed in between. Until then the field belongs to whoever changed it.
//!
//! # Guarantees
//!
//! No value of a field is told: only paths, which have the names of keys in them, and the names of managers. Elements
//! of sets are values, and are left out of paths but in the metadata. All of it is bounded, whatever the object holds.
//!
//! # Caveats
//!
//! Who removes a field leaves no trace of that: the server records what is set. All that can be said is who has
//! written to the object since our own last write. Kubernetes' own controllers are not said to have: they write to many
//! an object soon after anybody has changed it.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::fields::{Marker, is_leaf, write_marker};
use super::legacy::{entries, fields_of};
use super::others::BUILT_IN;
use super::{apply_entry, is_apply, is_secret};
use crate::ObjectKey;
use crate::object::text;
use crate::texts::cut;

/// Fields of an object that are told one by one; of the others the number is told.
const MAX_FIELDS: usize = 16;
/// Fields of an object that a person is told; the annotation of the event has more.
const MAX_SHOWN: usize = 4;
/// Longest path, in bytes.
const MAX_PATH: usize = 200;
/// Managers of a field.
const MAX_MANAGERS: usize = 4;
/// Longest name of a manager, in bytes.
const MAX_MANAGER: usize = 64;

/// An object in an annotation takes more bytes than this.
const MIN_OBJECT: usize = 64;

/// The marker of a Secret's texts.
const STRING_DATA_FIELD: &str = "f:stringData";

/// What became of a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// It was set by the managers, who own it.
    Set,
    /// It was removed. The manager, if one is named, has written to the object since our own last write, and is perhaps
    /// the one who did it.
    Removed,
    /// Nobody is known to own it.
    #[default]
    Unknown,
}

/// A field that was not as it was applied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Field {
    /// Where it is, as `kubectl`'s `JSONPath` has it.
    pub path: String,
    /// What became of it.
    pub change: Change,
    /// Names of field managers; see [`Change`].
    pub managers: Vec<String>,
    /// Whether it is in the object alone, and not wanted.
    #[serde(skip)]
    pub is_surplus: bool,
}

/// How an object had drifted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Drift {
    /// The first fields.
    pub fields: Vec<Field>,
    /// How many more there were.
    pub more: usize,
}

/// An object that has drifted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Drifted {
    /// Its group, empty for the core.
    pub group: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace, empty for a cluster-scoped object.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What was otherwise.
    #[serde(flatten)]
    pub drift: Drift,
}

impl Drift {
    /// The drift of an object, by its states before and after an apply of what was applied before.
    #[must_use]
    pub fn between(before: &Value, after: &Value) -> Self {
        let mut walk = Walk {
            before,
            written: apply_entry(before).map_or("", |entry| text(entry, "time")),
            trail: Vec::new(),
            found: Self::default(),
        };
        let none = Map::new();
        let owned = |object| apply_entry(object).and_then(fields_of).unwrap_or(&none);
        walk.compare(owned(after), Some(owned(before)), Some(before));
        walk.compare_string_data(owned(after), after);
        walk.found
    }

    /// The drift of one field that nobody is known to own.
    #[must_use]
    pub fn at(path: &str) -> Self {
        Self {
            fields: vec![Field {
                path: cut(path, MAX_PATH).into_owned(),
                ..Field::default()
            }],
            more: 0,
        }
    }

    /// The drift of one field that somebody has added in our name.
    #[must_use]
    pub fn surplus(path: &str) -> Self {
        let mut drift = Self::at(path);
        for field in &mut drift.fields {
            field.is_surplus = true;
        }
        drift
    }

    /// The same for whoever may not read the object: what its own manifest wants, and not what others do with it.
    #[must_use]
    pub fn without_managers(mut self) -> Self {
        self.fields.retain(|field| !field.is_surplus);
        for field in &mut self.fields {
            field.change = Change::Unknown;
            field.managers.clear();
        }
        self
    }

    /// Whether nothing has drifted.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// How many fields have drifted.
    pub fn count(&self) -> usize {
        self.fields.len() + self.more
    }

    /// The managers that have set the fields.
    pub fn managers(&self) -> BTreeSet<&str> {
        let fields = self.fields.iter().filter(|it| it.change == Change::Set);
        let managers = fields.flat_map(|field| &field.managers);
        managers.map(String::as_str).collect()
    }
}

/// For people: `.data.a, .data.b by kubectl-edit; .data.c removed`.
impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.fields.len().min(MAX_SHOWN);
        let mut rest = self.fields.get(..shown).unwrap_or_default();
        while let Some(first) = rest.first() {
            let is_alike =
                |field: &Field| field.change == first.change && field.managers == first.managers;
            let count = rest.iter().take_while(|field| is_alike(field)).count();
            let (alike, others) = rest.split_at(count);
            let paths: Vec<&str> = alike.iter().map(|field| field.path.as_str()).collect();
            f.write_str(&paths.join(", "))?;
            let managers = first.managers.join(", ");
            match first.change {
                Change::Set => write!(f, " by {managers}")?,
                Change::Removed if managers.is_empty() => f.write_str(" removed")?,
                Change::Removed => write!(f, " removed, object last written by {managers}")?,
                Change::Unknown => {}
            }
            if !others.is_empty() {
                f.write_str("; ")?;
            }
            rest = others;
        }
        match self.count() - shown {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

impl Drifted {
    /// An object and how it had drifted.
    #[must_use]
    pub fn new(key: &ObjectKey, drift: Drift) -> Self {
        let ObjectKey {
            group,
            kind,
            namespace,
            name,
        } = key.clone();
        Self {
            group,
            kind,
            namespace,
            name,
            drift,
        }
    }

    /// Which object it is.
    pub fn key(&self) -> ObjectKey {
        ObjectKey {
            group: self.group.clone(),
            kind: self.kind.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }
}

/// Objects as the value of an annotation of so many bytes at most; those that do not fit are left out, and no
/// more are looked at than could fit.
pub fn to_annotation(objects: &[Drifted], most: usize) -> String {
    let mut text = "[".to_owned();
    for object in objects.iter().take(most / MIN_OBJECT) {
        let object = json!(object).to_string();
        if text.len() + object.len() + ",]".len() > most {
            continue;
        }
        if text.len() > 1 {
            text.push(',');
        }
        text.push_str(&object);
    }
    text.push(']');
    text
}

/// What [`to_annotation`] has written; nothing where that is none.
pub fn from_annotation(text: &str) -> Vec<Drifted> {
    serde_json::from_str(text).unwrap_or_default()
}

/// A walk through what we own after an apply.
struct Walk<'a> {
    before: &'a Value,
    /// When we had applied the object, as the server writes times.
    written: &'a str,
    /// Where it stands, as markers.
    trail: Vec<&'a str>,
    found: Drift,
}

impl<'a> Walk<'a> {
    /// Compares what we own below a node after and before, where the object had `live`.
    fn compare(
        &mut self,
        after: &'a Map<String, Value>,
        before: Option<&Map<String, Value>>,
        live: Option<&Value>,
    ) {
        for (marker, node) in after.iter().filter(|(marker, _)| *marker != ".") {
            // Owners are the chain's own business, and the texts of a Secret are looked for where they are.
            let is_owners = marker == "f:ownerReferences" && self.trail == ["f:metadata"];
            let is_texts = marker == STRING_DATA_FIELD && self.trail.is_empty();
            if is_owners || (is_texts && is_secret(self.before)) {
                continue;
            }
            let Some(node) = node.as_object() else {
                continue;
            };
            let owned = before.and_then(|before| before.get(marker)?.as_object());
            let live = live.and_then(|live| value_at(live, marker));
            self.trail.push(marker);
            if is_leaf(node) {
                if owned.is_none() {
                    self.report(live.is_none());
                }
            } else if owned.is_none() && live.is_none() {
                // All of it is gone, which one path says.
                self.report(true);
            } else {
                self.compare(node, owned, live);
            }
            self.trail.pop();
        }
    }

    /// What was written as the `stringData` of a Secret is changed in its `data`, and our own entry does not tell that.
    fn compare_string_data(&mut self, after: &'a Map<String, Value>, object: &Value) {
        if !is_secret(self.before) {
            return;
        }
        let texts = after.get(STRING_DATA_FIELD).and_then(Value::as_object);
        for marker in texts.into_iter().flat_map(Map::keys) {
            let value = |object: &'a Value| value_at(object.get("data")?, marker);
            let live = value(self.before);
            let wanted = object.get("data").and_then(|data| value_at(data, marker));
            if live != wanted {
                self.trail = vec!["f:data", marker];
                self.report(live.is_none());
            }
        }
        self.trail.clear();
    }

    /// Notes that the field at the trail had drifted.
    fn report(&mut self, is_absent: bool) {
        if self.found.fields.len() == MAX_FIELDS {
            self.found.more += 1;
            return;
        }
        let mut managers = self.owners();
        let change = if !managers.is_empty() {
            Change::Set
        } else if is_absent {
            managers = self.last_writer().into_iter().collect();
            Change::Removed
        } else {
            Change::Unknown
        };
        let path = Path(&self.trail).to_string();
        self.found.fields.push(Field {
            path: cut(&path, MAX_PATH).into_owned(),
            change,
            managers,
            is_surplus: false,
        });
    }

    /// The entries of others. Those of the status say nothing about what is applied.
    fn others(&self) -> impl Iterator<Item = &'a Value> {
        let entries = entries(self.before).iter();
        entries.filter(|entry| !is_apply(entry) && text(entry, "subresource") != "status")
    }

    /// Who owned the field at the trail before. A text of a Secret may be theirs by either name.
    fn owners(&self) -> Vec<String> {
        let by_text = match self.trail[..] {
            ["f:data", key] if is_secret(self.before) => Some([STRING_DATA_FIELD, key]),
            _ => None,
        };
        let owners = self.others().filter(|entry| {
            let has = |fields| {
                owns(fields, &self.trail) || by_text.is_some_and(|trail| owns(fields, &trail))
            };
            fields_of(entry).is_some_and(has)
        });
        let owners: BTreeSet<String> = owners.map(manager).collect();
        owners.into_iter().take(MAX_MANAGERS).collect()
    }

    /// Who has written to the object last, if that was after us, but for Kubernetes' own controllers. Times have whole
    /// seconds.
    fn last_writer(&self) -> Option<String> {
        let named = self
            .others()
            .filter(|entry| !BUILT_IN.contains(&text(entry, "manager")));
        let later =
            named.filter(|entry| text(entry, "time") >= self.written && !self.written.is_empty());
        later.max_by_key(|entry| text(entry, "time")).map(manager)
    }
}

/// The name of an entry's manager, fit for one line.
fn manager(entry: &Value) -> String {
    let name = text(entry, "manager").replace(char::is_control, "?");
    match name.as_str() {
        "" => "(unnamed)".to_owned(),
        name => cut(name, MAX_MANAGER).into_owned(),
    }
}

/// Whether a set of fields has a path, or all of a value that the path leads into.
fn owns(fields: &Map<String, Value>, trail: &[&str]) -> bool {
    let mut node = fields;
    for (depth, marker) in trail.iter().enumerate() {
        match node.get(*marker).and_then(Value::as_object) {
            Some(below) => node = below,
            None => return depth > 0 && node.is_empty(),
        }
    }
    true
}

/// What a marker leads to; nothing where that is a null.
fn value_at<'v>(value: &'v Value, marker: &str) -> Option<&'v Value> {
    let found = Marker::parse(marker).find(value);
    found.filter(|value| !value.is_null())
}

/// A path of markers, for people.
struct Path<'a>(&'a [&'a str]);

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_metadata = self.0.first() == Some(&"f:metadata");
        let mut markers = self.0.iter();
        markers.try_for_each(|marker| write_marker(f, marker, is_metadata))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &str = "2026-01-01T00:00:10Z";

    /// An object with entries of managers: name, subresource, time and fields.
    fn object(content: &str, ours: &str, others: &[(&str, &str, &str, &str)]) -> Value {
        let yaml = |text: &str| -> Value { serde_saphyr::from_str(text).unwrap() };
        let mut object = yaml(content);
        let mut entries = vec![json!({
            "manager": "package-operator", "operation": "Apply", "time": OURS, "apiVersion": "v1",
            "fieldsV1": yaml(ours),
        })];
        entries.extend(others.iter().map(|(manager, subresource, time, fields)| {
            json!({
                "manager": manager, "operation": "Update", "subresource": subresource,
                "time": format!("2026-01-01T00:00:{time}Z"), "apiVersion": "v1", "fieldsV1": yaml(fields),
            })
        }));
        object["metadata"]["managedFields"] = entries.into();
        object
    }

    fn map(data: &str, ours: &str, others: &[(&str, &str, &str, &str)]) -> Value {
        let content = format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{}}, data: {data}}}");
        object(&content, ours, others)
    }

    const AFTER: &str = "{f:data: {f:a: {}, f:b: {}}}";

    #[track_caller]
    fn told(before: &Value, after: &str, expected: &str) {
        let after = map("{a: '1', b: '2'}", after, &[]);
        let drift = Drift::between(before, &after);
        assert_eq!(drift.to_string(), expected, "{before}");
    }

    #[test]
    fn whoever_owns_a_field_has_changed_it() {
        let edit = ("kubectl-edit", "", "30", "{f:data: {f:a: {}}}");
        let before = map("{a: x, b: '2'}", "{f:data: {f:b: {}}}", &[edit]);
        told(&before, AFTER, ".data.a by kubectl-edit");
        // The status is not what is applied, and what others have beside ours is theirs.
        let status = ("kubelet", "status", "40", "{f:data: {f:a: {}}}");
        let beside = ("sidecar", "", "40", "{f:data: {f:z: {}}}");
        let before = map(
            "{a: x, b: '2', z: x}",
            "{f:data: {f:b: {}}}",
            &[status, beside, edit],
        );
        told(&before, AFTER, ".data.a by kubectl-edit");
        // A subresource that writes to the spec is as good as the object itself.
        let scale = ("hpa", "scale", "30", "{f:data: {f:a: {}}}");
        let before = map("{a: x, b: '2'}", "{f:data: {f:b: {}}}", &[scale]);
        told(&before, AFTER, ".data.a by hpa");
    }

    #[test]
    fn fields_are_grouped_by_who_has_them() {
        let one = ("one", "", "30", "{f:data: {f:a: {}}}");
        let two = ("two", "", "31", "{f:data: {f:a: {}, f:b: {}}}");
        let before = map("{a: x, b: y}", "{}", &[one, two]);
        told(&before, AFTER, ".data.a by one, two; .data.b by two");
        let both = ("both", "", "31", "{f:data: {f:a: {}, f:b: {}}}");
        let before = map("{a: x, b: y}", "{}", &[both]);
        told(&before, AFTER, ".data.a, .data.b by both");
    }

    #[test]
    fn who_removed_a_field_is_not_recorded() {
        let left = "{f:data: {f:b: {}}}";
        told(&map("{b: '2'}", left, &[]), AFTER, ".data.a removed");
        let before_us = ("helm", "", "09", "{f:data: {f:z: {}}}");
        let before = map("{b: '2'}", left, &[before_us]);
        told(&before, AFTER, ".data.a removed");
        let after_us = ("kubectl", "", "10", "{f:data: {f:y: {}}}");
        let last = ("kubectl-edit", "", "20", "{f:data: {f:z: {}}}");
        let before = map("{b: '2'}", left, &[last, after_us, before_us]);
        let expected = ".data.a removed, object last written by kubectl-edit";
        told(&before, AFTER, expected);
        // Kubernetes' own controllers write something down after each change.
        let counted = (
            "kube-controller-manager",
            "",
            "21",
            "{f:metadata: {f:annotations: {f:revision: {}}}}",
        );
        let before = map("{b: '2'}", left, &[last, counted]);
        told(&before, AFTER, expected);
        let before = map("{b: '2'}", left, &[counted]);
        told(&before, AFTER, ".data.a removed");
    }

    #[test]
    fn what_went_with_its_parent_is_one_path() {
        told(&map("null", "{}", &[]), AFTER, ".data removed");
        // What is there under another owner is told one by one.
        let taken = ("x", "", "30", "{f:data: {f:a: {}}}");
        let before = map("{a: x}", "{}", &[taken]);
        told(
            &before,
            AFTER,
            ".data.a by x; .data.b removed, object last written by x",
        );
    }

    #[test]
    fn a_field_that_nobody_is_known_to_own_is_told_without_a_name() {
        told(
            &map("{a: x, b: '2'}", "{f:data: {f:b: {}}}", &[]),
            AFTER,
            ".data.a",
        );
        assert_eq!(Drift::at(".spec").to_string(), ".spec");
    }

    #[test]
    fn whoever_may_not_read_an_object_is_told_its_fields_only() {
        let edit = ("kubectl-edit", "", "30", "{f:data: {f:a: {}}}");
        let before = map("{a: x}", "{}", &[edit]);
        let drift = Drift::between(&before, &map("{a: '1', b: '2'}", AFTER, &[]));
        assert_eq!(drift.without_managers().to_string(), ".data.a, .data.b");
        // What the manifest has not is not theirs to know.
        assert_eq!(Drift::surplus(".data.c").to_string(), ".data.c");
        assert!(Drift::surplus(".data.c").without_managers().is_empty());
    }

    #[test]
    fn what_is_still_ours_has_not_drifted() {
        let before = map("{a: '1', b: '2', c: x}", AFTER, &[]);
        let drift = Drift::between(&before, &map("{a: '1', b: '2'}", AFTER, &[]));
        assert!(drift.is_empty(), "{drift}");
        // Nor are owners what a revision wants.
        let owners = "{f:metadata: {f:ownerReferences: {'k:{\"uid\":\"1\"}': {}}}}";
        let drift = Drift::between(&map("{}", "{}", &[]), &map("{}", owners, &[]));
        assert!(drift.is_empty(), "{drift}");
    }

    #[test]
    fn items_are_named_by_their_keys_and_elements_are_not_quoted() {
        let content = "{apiVersion: x/v1, kind: X, metadata: {finalizers: [x/y]}, spec: {list: [{name: a, image: \
             b}], tokens: [geheim], whole: [1]}}";
        let after = object(
            content,
            "{f:metadata: {f:finalizers: {'v:\"x/y\"': {}}}, f:spec: {f:list: {'k:{\"name\":\"a\"}': {'.': {}, \
             f:image: \
             {}, f:name: {}}}, f:tokens: {'v:\"geheim\"': {}}, f:whole: {}}}",
            &[],
        );
        let before = object(
            "{apiVersion: x/v1, kind: X, metadata: {}, spec: {list: [{name: a, image: c}], tokens: [], whole: [2]}}",
            "{f:spec: {f:list: {'k:{\"name\":\"a\"}': {'.': {}, f:name: {}}}}}",
            &[(
                "x",
                "",
                "30",
                "{f:spec: {f:list: {'k:{\"name\":\"a\"}': {f:image: {}}}, f:whole: {}}}",
            )],
        );
        let drift = Drift::between(&before, &after);
        let paths: Vec<(&str, Change)> = drift
            .fields
            .iter()
            .map(|field| (field.path.as_str(), field.change))
            .collect();
        assert_eq!(
            paths,
            [
                (".metadata.finalizers", Change::Removed),
                (r#".spec.list[{"name":"a"}].image"#, Change::Set),
                (".spec.tokens[…]", Change::Removed),
                (".spec.whole", Change::Set),
            ]
        );
    }

    #[test]
    fn an_item_that_is_gone_is_one_path() {
        let item = "{f:spec: {f:list: {'k:{\"name\":\"a\"}': {'.': {}, f:image: {}, f:name: {}}}}}";
        let with = |list: &str, ours| {
            let content =
                format!("{{apiVersion: x/v1, kind: X, metadata: {{}}, spec: {{list: {list}}}}}");
            object(&content, ours, &[])
        };
        let drift = Drift::between(&with("[]", "{}"), &with("[{name: a, image: b}]", item));
        assert_eq!(drift.to_string(), r#".spec.list[{"name":"a"}] removed"#);
        // One whose owner is another as a whole is atomic for that one.
        let theirs = ("x", "", "30", "{f:spec: {f:list: {}}}");
        let mut before = with("[{name: a, image: c}]", "{}");
        let entry =
            object("{metadata: {}}", "{}", &[theirs])["metadata"]["managedFields"][1].clone();
        before["metadata"]["managedFields"]
            .as_array_mut()
            .unwrap()
            .push(entry);
        let drift = Drift::between(&before, &with("[{name: a, image: b}]", item));
        assert_eq!(drift.managers(), BTreeSet::from(["x"]), "{drift}");
    }

    #[test]
    fn the_texts_of_a_secret_are_changed_in_its_data() {
        let secret = |data: &str, others: &[(&str, &str, &str, &str)]| {
            let content = format!("{{apiVersion: v1, kind: Secret, metadata: {{}}, data: {data}}}");
            object(&content, "{f:stringData: {f:pin: {}, f:user: {}}}", others)
        };
        let after = secret("{pin: MQ==, user: YQ==}", &[]);
        let edit = ("kubectl-edit", "", "30", "{f:data: {f:pin: {}}}");
        let drift = Drift::between(&secret("{pin: Mg==}", &[edit]), &after);
        let expected =
            ".data.pin by kubectl-edit; .data.user removed, object last written by kubectl-edit";
        assert_eq!(drift.to_string(), expected);
        // Whoever applies a text owns that, and not what the server makes of it.
        let theirs = ("intruder", "", "30", "{f:stringData: {f:pin: {}}}");
        let mut taken = secret("{pin: Mg==, user: YQ==}", &[theirs]);
        let left = json!({"f:stringData": {"f:user": {}}});
        taken["metadata"]["managedFields"][0]["fieldsV1"] = left;
        let by_text = Drift::between(&taken, &after).to_string();
        assert_eq!(by_text, ".data.pin by intruder");
        let text = to_annotation(
            &[Drifted {
                drift,
                ..Drifted::default()
            }],
            8192,
        );
        assert!(!text.contains("Mg") && !text.contains("MQ"), "{text}");
    }

    #[test]
    fn nothing_gets_longer_than_it_may() {
        let names: Vec<String> = (0..100).map(|n| format!("k{n:03}")).collect();
        let owned = |name: &String| (format!("f:{name}"), json!({}));
        let fields: Map<String, Value> = names.iter().map(owned).collect();
        let mut after = map("{}", "{}", &[]);
        after["metadata"]["managedFields"][0]["fieldsV1"] = json!({ "f:data": fields });
        let evil = format!("a\u{1b}{}", "m".repeat(500));
        let mut before = map("{}", "{}", &[]);
        before["data"] = names
            .iter()
            .map(|name| (name.clone(), json!("x")))
            .collect();
        let list = before["metadata"]["managedFields"].as_array_mut().unwrap();
        for n in 0..9 {
            list.push(json!({"manager": format!("{evil}{n}"), "time": OURS, "fieldsV1": {"f:data": fields}}));
        }
        let drift = Drift::between(&before, &after);
        assert_eq!((drift.fields.len(), drift.count()), (MAX_FIELDS, 100));
        assert!(drift.to_string().ends_with("; and 96 more"), "{drift}");
        assert!(drift.to_string().len() < 1000, "{drift}");
        for field in &drift.fields {
            assert!(field.managers.len() <= MAX_MANAGERS);
            assert!(
                field
                    .managers
                    .iter()
                    .all(|name| name.len() <= MAX_MANAGER && !name.contains('\u{1b}'))
            );
        }
        let one = Drifted {
            name: "x".repeat(253),
            drift,
            ..Drifted::default()
        };
        assert!(to_annotation(&vec![one.clone(); 100], 8192).len() <= 8192);
        // One that does not fit keeps no other away.
        let least = Drifted::default();
        let told = from_annotation(&to_annotation(&[one, least.clone()], 1024));
        assert_eq!(told, std::slice::from_ref(&least));
        assert!(json!(least).to_string().len() > MIN_OBJECT);
        let path = "x".repeat(1000);
        assert!(Drift::at(&path).fields[0].path.len() <= MAX_PATH);
    }

    #[test]
    fn an_annotation_is_read_as_it_was_written() {
        let key = ObjectKey {
            group: "apps".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
        };
        let edit = ("kubectl-edit", "", "30", "{f:data: {f:a: {}}}");
        let before = map("{a: x}", "{}", &[edit]);
        let drift = Drift::between(&before, &map("{a: '1', b: '2'}", AFTER, &[]));
        let objects = vec![
            Drifted::new(&key, drift),
            Drifted::new(&key, Drift::at(".")),
        ];
        assert_eq!(from_annotation(&to_annotation(&objects, 8192)), objects);
        assert_eq!(objects[0].key(), key);
        for text in ["", "no", "{}", "[1]", "null"] {
            assert_eq!(from_annotation(text), [], "{text}");
        }
        // What an older or newer release leaves out is empty.
        assert_eq!(from_annotation(r#"[{"name":"x","new":1}]"#)[0].name, "x");
    }
}
