//! Drift: the fields of an object that differed from the last apply, and the managers that had
//! changed them.
//!
//! The evidence is `metadata.managedFields`, before and after an apply of the same content. If
//! another client changes a field that we own, its path leaves the entry of our applies, and the next
//! apply puts it back. So a path that the entry has after the apply, and did not have before, was
//! changed in between. Until the apply, the field belongs to the manager that changed it.
//!
//! # Guarantees
//!
//! No value of a field is reported: only paths, which contain the names of keys, and the names of
//! managers. Elements of sets are values, so paths contain them only in the metadata. All texts are
//! bounded for any object.
//!
//! # Caveats
//!
//! The removal of a field leaves no trace of its manager, because the server records only fields
//! that are set. All that can be reported is the manager that has written to the object since our
//! own last write. Kubernetes' own controllers are not reported as such: they write to many objects
//! soon after any change.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::fields::{Marker, is_leaf, write_marker};
use super::legacy::entries;
use super::others::BUILT_IN;
use super::texts::{DATA_FIELD, is_secret, stored_fields};
use super::{apply_entry, is_apply};
use crate::ObjectKey;
use crate::object::text;
use crate::texts::truncate;

/// Number of fields of an object that are reported one by one; the rest are counted.
const MAX_FIELDS: usize = 16;
/// Number of fields of an object in a text for people; the annotation of the event has more.
const MAX_SHOWN: usize = 4;
/// Greatest length of a path, in bytes.
const MAX_PATH: usize = 200;
/// Number of managers that are reported for a field.
const MAX_MANAGERS: usize = 4;
/// Greatest length of a manager's name, in bytes.
const MAX_MANAGER: usize = 64;

/// Fewer bytes than any object takes in an annotation.
const MIN_OBJECT: usize = 64;

/// The change of a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// The managers have set the field and own it.
    Set,
    /// The field was removed. If a manager is named, it has written to the object since our own
    /// last write, and may have removed the field.
    Removed,
    /// No owner of the field is known.
    #[default]
    Unknown,
}

/// A field that differed from the last apply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Field {
    /// Path of the field, in the `JSONPath` notation of `kubectl`.
    pub path: String,
    /// The change of the field.
    pub change: Change,
    /// Names of field managers; see [`Change`].
    pub managers: Vec<String>,
    /// True if the field exists only in the object and is not wanted.
    #[serde(skip)]
    pub is_surplus: bool,
}

/// The drift of an object: its changed fields, or its deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Drift {
    /// The first changed fields.
    pub fields: Vec<Field>,
    /// Number of further changed fields.
    pub more: usize,
    /// True if the object was deleted. Clients that delete an object are not recorded in it, so no
    /// manager is known.
    #[serde(rename = "deleted", skip_serializing_if = "std::ops::Not::not")]
    pub is_deleted: bool,
}

/// An object that has drifted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Drifted {
    /// API group, empty for the core group.
    pub group: String,
    /// API kind.
    pub kind: String,
    /// Namespace, empty for a cluster-scoped object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// The changed fields.
    #[serde(flatten)]
    pub drift: Drift,
}

impl Drift {
    /// The drift of an object, from its states before and after an apply of the same content.
    #[must_use]
    pub fn between(before: &Value, after: &Value) -> Self {
        let owned = |object| apply_entry(object).and_then(|entry| stored_fields(entry, object));
        let [theirs, ours] = [before, after].map(|object| owned(object).unwrap_or_default());
        let mut walk = Walk {
            before,
            after,
            written: apply_entry(before).map_or("", |entry| text(entry, "time")),
            trail: Vec::new(),
            found: Self::default(),
        };
        walk.compare(&ours, Some(&theirs), Some(before));
        walk.found
    }

    /// The drift of one field without a known owner.
    #[must_use]
    pub fn at(path: &str) -> Self {
        Self {
            fields: vec![Field {
                path: truncate(path, MAX_PATH).into_owned(),
                ..Field::default()
            }],
            ..Self::default()
        }
    }

    /// The drift of an object that was deleted.
    #[must_use]
    pub fn deleted() -> Self {
        Self {
            is_deleted: true,
            ..Self::default()
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

    /// The same drift for readers who may not read the object: only fields of its own manifest, and
    /// no managers.
    #[must_use]
    pub fn without_managers(mut self) -> Self {
        self.fields.retain(|field| !field.is_surplus);
        for field in &mut self.fields {
            field.change = Change::Unknown;
            field.managers.clear();
        }
        self
    }

    /// True if the object exists and no field has drifted.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty() && !self.is_deleted
    }

    /// Number of fields that have drifted.
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

/// Prints the drift for people: `.data.a, .data.b by kubectl-edit; .data.c removed`, or `deleted`.
impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_deleted {
            return f.write_str("deleted");
        }
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
    /// Creates the entry of an object that has drifted.
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

    /// Identity of the object.
    pub fn key(&self) -> ObjectKey {
        ObjectKey {
            group: self.group.clone(),
            kind: self.kind.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }
}

/// Writes objects into an annotation value of at most `most` bytes. Objects that do not fit are
/// left out, and no more objects are examined than could fit.
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

/// Reads the text of [`to_annotation`]; empty if the text is malformed.
pub fn from_annotation(text: &str) -> Vec<Drifted> {
    serde_json::from_str(text).unwrap_or_default()
}

/// A walk through the fields that we own after an apply.
struct Walk<'a> {
    before: &'a Value,
    after: &'a Value,
    /// Time of our apply before the change, in the notation of the server.
    written: &'a str,
    /// Position of the walk, as markers.
    trail: Vec<&'a str>,
    found: Drift,
}

impl<'a> Walk<'a> {
    /// Compares the fields that we own below a node after and before the apply; `live` is the
    /// object's value before.
    fn compare(
        &mut self,
        after: &'a Map<String, Value>,
        before: Option<&Map<String, Value>>,
        live: Option<&Value>,
    ) {
        for (marker, node) in after.iter().filter(|(marker, _)| *marker != ".") {
            // Owner references are managed separately.
            if marker == "f:ownerReferences" && self.trail == ["f:metadata"] {
                continue;
            }
            let Some(node) = node.as_object() else {
                continue;
            };
            let owned = before.and_then(|before| before.get(marker)?.as_object());
            let live = live.and_then(|live| value_at(live, marker));
            self.trail.push(marker);
            if is_leaf(node) {
                if owned.is_none() || self.is_other_text(live) {
                    self.report(live.is_none());
                }
            } else if owned.is_none() && live.is_none() {
                // The whole value is gone; one path is enough.
                self.report(true);
            } else {
                self.compare(node, owned, live);
            }
            self.trail.pop();
        }
    }

    /// True if the present position is a value of a Secret that others have changed by a text.
    /// They own the text then, and the value stays ours.
    fn is_other_text(&self, live: Option<&Value>) -> bool {
        let [DATA_FIELD, key] = self.trail[..] else {
            return false;
        };
        let wanted = self.after.get("data").and_then(|data| value_at(data, key));
        is_secret(self.before) && live != wanted
    }

    /// Records the field at the present position as drifted.
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
            path: truncate(&path, MAX_PATH).into_owned(),
            change,
            managers,
            is_surplus: false,
        });
    }

    /// The entries of other managers. Entries of the status subresource do not concern applied fields.
    fn others(&self) -> impl Iterator<Item = &'a Value> {
        let entries = entries(self.before).iter();
        entries.filter(|entry| !is_apply(entry) && text(entry, "subresource") != "status")
    }

    /// The managers that owned the field at the present position before.
    fn owners(&self) -> Vec<String> {
        let owners = self.others().filter(|entry| {
            let fields = stored_fields(entry, self.before);
            fields.is_some_and(|fields| owns(&fields, &self.trail))
        });
        let owners: BTreeSet<String> = owners.map(manager).collect();
        owners.into_iter().take(MAX_MANAGERS).collect()
    }

    /// The last manager that has written to the object after us, without Kubernetes' own
    /// controllers. Times have whole seconds, so a write in the same second counts.
    fn last_writer(&self) -> Option<String> {
        let named = self
            .others()
            .filter(|entry| !BUILT_IN.contains(&text(entry, "manager")));
        let later =
            named.filter(|entry| text(entry, "time") >= self.written && !self.written.is_empty());
        later.max_by_key(|entry| text(entry, "time")).map(manager)
    }
}

/// The name of an entry's manager, on one line.
fn manager(entry: &Value) -> String {
    let name = text(entry, "manager").replace(char::is_control, "?");
    match name.as_str() {
        "" => "(unnamed)".to_owned(),
        name => truncate(name, MAX_MANAGER).into_owned(),
    }
}

/// True if a set of fields contains a path, or owns as a whole a value that the path leads into.
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

/// The value that a marker leads to; `None` for a null.
fn value_at<'v>(value: &'v Value, marker: &str) -> Option<&'v Value> {
    let found = Marker::parse(marker).find(value);
    found.filter(|value| !value.is_null())
}

/// A path of markers, displayed for people.
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
    fn check_drift(before: &Value, after: &str, expected: &str) {
        let after = map("{a: '1', b: '2'}", after, &[]);
        let drift = Drift::between(before, &after);
        assert_eq!(drift.to_string(), expected, "{before}");
    }

    #[test]
    fn the_owner_of_a_field_is_reported_as_its_writer() {
        let edit = ("kubectl-edit", "", "30", "{f:data: {f:a: {}}}");
        let before = map("{a: x, b: '2'}", "{f:data: {f:b: {}}}", &[edit]);
        check_drift(&before, AFTER, ".data.a by kubectl-edit");
        // The status is not applied, and fields beside ours belong to others.
        let status = ("kubelet", "status", "40", "{f:data: {f:a: {}}}");
        let beside = ("sidecar", "", "40", "{f:data: {f:z: {}}}");
        let before = map(
            "{a: x, b: '2', z: x}",
            "{f:data: {f:b: {}}}",
            &[status, beside, edit],
        );
        check_drift(&before, AFTER, ".data.a by kubectl-edit");
        // A write to the spec through a subresource counts like a write to the object.
        let scale = ("hpa", "scale", "30", "{f:data: {f:a: {}}}");
        let before = map("{a: x, b: '2'}", "{f:data: {f:b: {}}}", &[scale]);
        check_drift(&before, AFTER, ".data.a by hpa");
    }

    #[test]
    fn changed_fields_are_grouped_by_manager() {
        let one = ("one", "", "30", "{f:data: {f:a: {}}}");
        let two = ("two", "", "31", "{f:data: {f:a: {}, f:b: {}}}");
        let before = map("{a: x, b: y}", "{}", &[one, two]);
        check_drift(&before, AFTER, ".data.a by one, two; .data.b by two");
        let both = ("both", "", "31", "{f:data: {f:a: {}, f:b: {}}}");
        let before = map("{a: x, b: y}", "{}", &[both]);
        check_drift(&before, AFTER, ".data.a, .data.b by both");
    }

    #[test]
    fn a_removed_field_is_reported_with_the_last_writer_of_the_object() {
        let left = "{f:data: {f:b: {}}}";
        check_drift(&map("{b: '2'}", left, &[]), AFTER, ".data.a removed");
        let before_us = ("helm", "", "09", "{f:data: {f:z: {}}}");
        let before = map("{b: '2'}", left, &[before_us]);
        check_drift(&before, AFTER, ".data.a removed");
        let after_us = ("kubectl", "", "10", "{f:data: {f:y: {}}}");
        let last = ("kubectl-edit", "", "20", "{f:data: {f:z: {}}}");
        let before = map("{b: '2'}", left, &[last, after_us, before_us]);
        let expected = ".data.a removed, object last written by kubectl-edit";
        check_drift(&before, AFTER, expected);
        // Kubernetes' own controllers update the object after each change.
        let counted = (
            "kube-controller-manager",
            "",
            "21",
            "{f:metadata: {f:annotations: {f:revision: {}}}}",
        );
        let before = map("{b: '2'}", left, &[last, counted]);
        check_drift(&before, AFTER, expected);
        let before = map("{b: '2'}", left, &[counted]);
        check_drift(&before, AFTER, ".data.a removed");
    }

    #[test]
    fn fields_removed_with_their_parent_are_one_path() {
        check_drift(&map("null", "{}", &[]), AFTER, ".data removed");
        // Fields of another owner are reported one by one.
        let taken = ("x", "", "30", "{f:data: {f:a: {}}}");
        let before = map("{a: x}", "{}", &[taken]);
        check_drift(
            &before,
            AFTER,
            ".data.a by x; .data.b removed, object last written by x",
        );
    }

    #[test]
    fn a_field_without_a_known_owner_is_reported_without_a_manager() {
        check_drift(
            &map("{a: x, b: '2'}", "{f:data: {f:b: {}}}", &[]),
            AFTER,
            ".data.a",
        );
        assert_eq!(Drift::at(".spec").to_string(), ".spec");
    }

    #[test]
    fn readers_without_access_to_an_object_see_only_its_fields() {
        let edit = ("kubectl-edit", "", "30", "{f:data: {f:a: {}}}");
        let before = map("{a: x}", "{}", &[edit]);
        let drift = Drift::between(&before, &map("{a: '1', b: '2'}", AFTER, &[]));
        assert_eq!(drift.without_managers().to_string(), ".data.a, .data.b");
        // Readers without access to the object get only fields of its manifest.
        assert_eq!(Drift::surplus(".data.c").to_string(), ".data.c");
        assert!(Drift::surplus(".data.c").without_managers().is_empty());
    }

    #[test]
    fn fields_that_we_still_own_have_not_drifted() {
        let before = map("{a: '1', b: '2', c: x}", AFTER, &[]);
        let drift = Drift::between(&before, &map("{a: '1', b: '2'}", AFTER, &[]));
        assert!(drift.is_empty(), "{drift}");
        // Owner references are not wanted fields of a revision.
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
    fn a_removed_list_item_is_one_path() {
        let item = "{f:spec: {f:list: {'k:{\"name\":\"a\"}': {'.': {}, f:image: {}, f:name: {}}}}}";
        let with = |list: &str, ours| {
            let content =
                format!("{{apiVersion: x/v1, kind: X, metadata: {{}}, spec: {{list: {list}}}}}");
            object(&content, ours, &[])
        };
        let drift = Drift::between(&with("[]", "{}"), &with("[{name: a, image: b}]", item));
        assert_eq!(drift.to_string(), r#".spec.list[{"name":"a"}] removed"#);
        // A list that another manager owns as a whole is atomic for that manager.
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
    fn drift_of_string_data_is_found_in_data() {
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
        // A manager that applies a text owns that text, and not the value that the server derives
        // from it.
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
    fn a_drift_is_cut_to_the_limit_of_its_text() {
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
        // An object that does not fit keeps no other object out.
        let least = Drifted::default();
        let reported = from_annotation(&to_annotation(&[one, least.clone()], 1024));
        assert_eq!(reported, std::slice::from_ref(&least));
        assert!(json!(least).to_string().len() > MIN_OBJECT);
        let path = "x".repeat(1000);
        assert!(Drift::at(&path).fields[0].path.len() <= MAX_PATH);
    }

    #[test]
    fn drifted_objects_survive_a_round_trip_through_the_annotation() {
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
        // Fields that an older or newer release leaves out are empty.
        assert_eq!(from_annotation(r#"[{"name":"x","new":1}]"#)[0].name, "x");
    }
}
