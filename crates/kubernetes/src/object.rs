//! A child in the store: the bytes of its JSON without the parts that no code reads.
//!
//! A parsed tree of an object takes several times the memory of its text and one allocation per
//! field, so an object is stored as text until it is read. Two parts are removed before:
//!
//! - `managedFields` other than those of our own apply and legacy entries of Package Operator
//!   ([`legacy`]). They are about half of a typical object, and are never compared with. Entries
//!   that are not older than our own last apply stay: they name the managers whose changes are
//!   about to be repaired, and are few.
//! - the annotation `kubectl.kubernetes.io/last-applied-configuration`, a second copy of the
//!   object.
//!
//! Values are copied as they stand in the response of the server, never re-rendered.

use std::{borrow::Cow, collections::HashSet, fmt, sync::Arc};

use baton_apis::constants::{
    ANNOTATION_LAST_APPLIED as LAST_APPLIED, ANNOTATION_OWNERS, FIELD_MANAGER, LABEL_CACHE,
    LABEL_CACHE_VALUE,
};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
};
use serde_json::{Value, value::RawValue};

use crate::{
    metadata::{OwnerReference, number},
    store::budget::{Budget, Charge},
};
use baton_engine::{Gvk, diff::legacy, owners, redact::parse_error};

/// Bytes that an object takes in the store besides its text.
const OBJECT: usize = 300;
/// Bytes that an owner takes.
const OWNER: usize = 150;

/// The server sent an object that is none, or has no name.
#[derive(Debug, thiserror::Error)]
#[error("reading an object of {gvk}: {}", parse_error(source))]
pub struct ObjectError {
    /// The kind that was listed, watched or written.
    pub gvk: Box<Gvk>,
    /// The cause of the failure.
    pub source: serde_json::Error,
}

/// An owner, as an object names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// API group, empty for the core group.
    pub group: Arc<str>,
    /// Kind.
    pub kind: Arc<str>,
    /// Name; the owner has the namespace of the object, or none.
    pub name: Box<str>,
    /// UID.
    pub uid: Box<str>,
    /// True if the owner is the controller.
    pub controller: bool,
}

/// The stored state of an object.
#[derive(Clone, Debug)]
pub struct Stored {
    /// JSON of the object, stripped as the module describes; always has `apiVersion` and `kind`.
    /// `None` for an object without an owner of ours.
    pub body: Option<Box<str>>,
    /// UID of the object.
    pub uid: Box<str>,
    /// Version of the object; 0 if it is no integer.
    pub resource_version: u64,
    /// Owners of the object, controllers or not.
    pub owners: Box<[Owner]>,
    /// The bytes of the object, as a part of those of its cluster.
    #[expect(dead_code, reason = "it is returned when the object is dropped")]
    pub(crate) charge: Option<Charge>,
    /// Fingerprints that the caller has noted: of the wanted object, and of the live object that
    /// was found equal to it.
    pub settled: Option<(u64, u64)>,
}

impl Stored {
    /// The object as a tree.
    ///
    /// # Errors
    /// If no text is stored, or the text is nested deeper than the parser can follow without
    /// exhausting the stack; the API server accepts such custom resources.
    pub fn parse(&self) -> Result<Value, serde_json::Error> {
        let not_kept = || serde::de::Error::custom("the content of the object is not stored");
        let body = self.body.as_deref().ok_or_else(not_kept)?;
        let mut live = serde_json::from_str(body)?;
        owners::decode(&mut live);
        Ok(live)
    }
}

/// The parts of an object's text, split as far as needed. Borrows from the text.
pub(crate) struct ObjectParts<'a> {
    top: Vec<(Cow<'a, str>, &'a RawValue)>,
    metadata: Vec<(Cow<'a, str>, &'a RawValue)>,
    /// Empty for cluster-scoped objects.
    pub namespace: Cow<'a, str>,
    pub name: Cow<'a, str>,
    pub uid: Cow<'a, str>,
    pub resource_version: u64,
    /// True if one of the owners may own children; see [`crate::store`].
    pub is_owned: bool,
}

impl<'a> ObjectParts<'a> {
    /// Splits an object that the server sent.
    pub fn of(text: &'a str, gvk: &Gvk) -> Result<Self, ObjectError> {
        let shape = |source| ObjectError {
            gvk: Box::new(gvk.clone()),
            source,
        };
        let Fields(top) = serde_json::from_str(text).map_err(shape)?;
        let metadata = find(&top, "metadata").map_or("{}", RawValue::get);
        let Fields(metadata) = serde_json::from_str(metadata).map_err(shape)?;
        let string = |key| find(&metadata, key).and_then(string).unwrap_or_default();
        let (name, uid) = (string("name"), string("uid"));
        if name.is_empty() {
            return Err(shape(serde::de::Error::missing_field("metadata.name")));
        }
        Ok(Self {
            namespace: string("namespace"),
            name,
            uid,
            resource_version: number(&string("resourceVersion")),
            is_owned: false,
            metadata,
            top,
        })
    }

    /// Namespace and name.
    pub fn id(&self) -> (&str, &str) {
        (&self.namespace, &self.name)
    }

    /// True if the watches of children select this object.
    pub fn labelled(&self) -> bool {
        let labels = self.get("labels").map_or("null", RawValue::get);
        let Ok(Some(Fields(labels))) = serde_json::from_str::<Option<Fields<'_>>>(labels) else {
            return false;
        };
        find(&labels, LABEL_CACHE)
            .and_then(string)
            .is_some_and(|value| value == LABEL_CACHE_VALUE)
    }

    /// The text of a field of the metadata.
    pub fn get(&self, key: &str) -> Option<&'a RawValue> {
        find(&self.metadata, key)
    }

    /// True if one of the managed fields entries is our apply.
    pub fn managed_by_us(&self) -> bool {
        self.get("managedFields")
            .is_some_and(|list| entries(list).iter().any(|it| is_our_apply(&it.entry)))
    }

    /// Converts the object for the store: with its text if it has an owner of ours, else without.
    /// An object that does not fit into the budget has no text either, or is `None`.
    pub fn pack(&self, gvk: &Gvk, names: &mut Names, budget: &Arc<Budget>) -> Option<Stored> {
        let stored = |body: Option<String>, owners, charge| Stored {
            body: body.map(String::into_boxed_str),
            uid: self.uid.as_ref().into(),
            resource_version: self.resource_version,
            owners,
            charge: Some(charge),
            settled: None,
        };
        if self.is_owned {
            let owners = self.owners(names);
            let body = self.strip(gvk, owners.is_empty());
            let bytes = body.len() + owners.len() * OWNER + OBJECT;
            if let Some(charge) = budget.charge(bytes) {
                return Some(stored(Some(body), owners, charge));
            }
        }
        let charge = budget.charge(OBJECT)?;
        Some(stored(None, Box::default(), charge))
    }

    /// The object's text without the parts that are never read. A revision that takes over an
    /// unowned object needs all entries, to decide which fields become its own.
    fn strip(&self, gvk: &Gvk, is_unowned: bool) -> String {
        let metadata = self.metadata.iter().filter_map(|(key, value)| {
            let part = match key.as_ref() {
                "managedFields" => StrippedValue::List(kept_entries(value, is_unowned)?),
                "annotations" => annotations(value)?,
                _ => StrippedValue::Text(value),
            };
            Some((key.as_ref(), part))
        });
        let metadata: Vec<_> = metadata.collect();
        let api_version = gvk.api_version();
        // Items in lists of built-in kinds lack these two fields.
        let mut top = vec![
            ("apiVersion", StrippedValue::Name(&api_version)),
            ("kind", StrippedValue::Name(&gvk.kind)),
        ];
        for (key, value) in &self.top {
            match key.as_ref() {
                "apiVersion" | "kind" => {}
                "metadata" => top.push(("metadata", StrippedValue::Fields(&metadata))),
                _ => top.push((key, StrippedValue::Text(value))),
            }
        }
        let mut text =
            serde_json::to_string(&StrippedValue::Fields(&top)).expect("keys are strings");
        text.shrink_to_fit();
        text
    }
}

impl ObjectParts<'_> {
    /// The owners in the same cluster, and those that the annotation lists.
    fn owners(&self, names: &mut Names) -> Box<[Owner]> {
        self.each_owner(|reference| {
            let (group, _) = reference.api_version.split_once('/').unwrap_or_default();
            Some(Owner {
                group: names.get(group),
                kind: names.get(&reference.kind),
                name: reference.name.into(),
                uid: reference.uid.into(),
                controller: reference.controller.unwrap_or_default(),
            })
        })
    }

    /// True if `is_owner` accepts the UID of one of the owners.
    pub fn has_owner(&self, is_owner: impl Fn(&str) -> bool) -> bool {
        let owners = self.each_owner(|reference| is_owner(&reference.uid).then_some(()));
        !owners.is_empty()
    }

    fn each_owner<T>(&self, each: impl FnMut(OwnerReference<'_>) -> Option<T>) -> Box<[T]> {
        let native = self
            .get("ownerReferences")
            .and_then(|list| serde_json::from_str::<Vec<OwnerReference<'_>>>(list.get()).ok())
            .unwrap_or_default();
        let annotations = self.get("annotations").map_or("null", RawValue::get);
        let annotation = serde_json::from_str::<Option<Fields<'_>>>(annotations)
            .ok()
            .flatten()
            .and_then(|fields| find(&fields.0, ANNOTATION_OWNERS).and_then(string));
        let remote = annotation
            .as_deref()
            .and_then(|list| serde_json::from_str::<Vec<OwnerReference<'_>>>(list).ok())
            .unwrap_or_default();
        native.into_iter().chain(remote).filter_map(each).collect()
    }
}

/// Shares strings that many objects contain.
#[derive(Debug, Default)]
pub(crate) struct Names(HashSet<Arc<str>>);

impl Names {
    /// Limit of the shared strings, because owner references can name any kind.
    const LIMIT: usize = 256;

    fn get(&mut self, name: &str) -> Arc<str> {
        if let Some(shared) = self.0.get(name) {
            return Arc::clone(shared);
        }
        let shared = Arc::<str>::from(name);
        if self.0.len() < Self::LIMIT {
            self.0.insert(Arc::clone(&shared));
        }
        shared
    }
}

/// The entries of a list that can be read.
fn entries(list: &RawValue) -> Vec<RawEntry<'_>> {
    let texts: Vec<&RawValue> = serde_json::from_str(list.get()).unwrap_or_default();
    let entries = texts.into_iter().filter_map(|text| {
        let entry = serde_json::from_str(text.get()).ok()?;
        Some(RawEntry { text, entry })
    });
    entries.collect()
}

/// The entries to store; `None` if there are none. For an unowned object these include all but the
/// entries of subresources.
fn kept_entries(list: &RawValue, is_unowned: bool) -> Option<Vec<&RawValue>> {
    let entries = entries(list);
    let ours = entries.iter().find(|it| is_our_apply(&it.entry));
    let applied = ours.and_then(|it| it.entry.time.as_deref());
    let is_kept = |entry: &Entry<'_>| {
        is_read(entry)
            || (is_unowned && entry.subresource().is_empty())
            || applied.is_some_and(|applied| entry.is_since(applied))
    };
    let kept = entries.iter().filter(|it| is_kept(&it.entry));
    let kept: Vec<&RawValue> = kept.map(|it| it.text).collect();
    (!kept.is_empty()).then_some(kept)
}

/// The annotations without the one that is a second copy of the object; `None` if there is no
/// other.
fn annotations(value: &RawValue) -> Option<StrippedValue<'_>> {
    match serde_json::from_str::<Fields<'_>>(value.get()) {
        Ok(Fields(mut fields)) if find(&fields, LAST_APPLIED).is_some() => {
            fields.retain(|(key, _)| key != LAST_APPLIED);
            (!fields.is_empty()).then_some(StrippedValue::Kept(Fields(fields)))
        }
        _ => Some(StrippedValue::Text(value)),
    }
}

/// True if the entry is always stored, because it is read later.
fn is_read(entry: &Entry<'_>) -> bool {
    is_our_apply(entry) || legacy::is_legacy(&entry.manager, &entry.operation, entry.subresource())
}

fn is_our_apply(entry: &Entry<'_>) -> bool {
    entry.manager == FIELD_MANAGER && entry.operation == "Apply" && entry.subresource().is_empty()
}

fn find<'a>(fields: &[(Cow<'a, str>, &'a RawValue)], key: &str) -> Option<&'a RawValue> {
    fields
        .iter()
        .find(|(name, _)| name == key)
        .map(|(_, value)| *value)
}

fn string(value: &RawValue) -> Option<Cow<'_, str>> {
    serde_json::from_str::<&str>(value.get())
        .map(Cow::Borrowed)
        // A string with escapes cannot be borrowed.
        .or_else(|_| serde_json::from_str::<String>(value.get()).map(Cow::Owned))
        .ok()
}

/// A part of a stripped object. Values are written as they stand in the response of the server.
enum StrippedValue<'a> {
    Name(&'a str),
    Text(&'a RawValue),
    List(Vec<&'a RawValue>),
    Kept(Fields<'a>),
    Fields(&'a [(&'a str, StrippedValue<'a>)]),
}

impl Serialize for StrippedValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Name(name) => name.serialize(serializer),
            Self::Text(text) => text.serialize(serializer),
            Self::List(list) => list.serialize(serializer),
            Self::Kept(Fields(fields)) => {
                serializer.collect_map(fields.iter().map(|(key, value)| (key, value)))
            }
            Self::Fields(fields) => {
                serializer.collect_map(fields.iter().map(|(key, part)| (key, part)))
            }
        }
    }
}

/// The fields of a JSON object, in order.
struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;

        impl<'de> Visitor<'de> for Collect {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::with_capacity(8);
                while let Some((Key(key), value)) = map.next_entry()? {
                    fields.push((key, value));
                }
                Ok(Fields(fields))
            }
        }

        deserializer.deserialize_map(Collect)
    }
}

#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
struct Entry<'a> {
    #[serde(borrow, default)]
    manager: Cow<'a, str>,
    #[serde(borrow, default)]
    operation: Cow<'a, str>,
    #[serde(borrow)]
    subresource: Option<Cow<'a, str>>,
    #[serde(borrow)]
    time: Option<Cow<'a, str>>,
}

/// An entry of `managedFields`, with its text.
struct RawEntry<'a> {
    text: &'a RawValue,
    entry: Entry<'a>,
}

impl Entry<'_> {
    fn subresource(&self) -> &str {
        self.subresource.as_deref().unwrap_or_default()
    }

    /// True if the entry may have changed applied fields since a time, in whole seconds.
    fn is_since(&self, applied: &str) -> bool {
        if applied.is_empty() || self.subresource() == "status" {
            return false;
        }
        match self.time.as_deref() {
            Some(time) => time >= applied,
            // The server sets no time for a change by the scale of an object.
            None => !self.subresource().is_empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn strip(object: &Value) -> Value {
        let text = object.to_string();
        let gvk = Gvk::new("v1", "ConfigMap");
        let parts = ObjectParts::of(&text, &gvk).unwrap();
        let is_unowned = !parts.has_owner(|_| true);
        serde_json::from_str(&parts.strip(&gvk, is_unowned)).unwrap()
    }

    fn entry(manager: &str, operation: &str, subresource: Option<&str>) -> Value {
        let mut entry =
            json!({"manager": manager, "operation": operation, "fieldsV1": {"f:data": {}}});
        if let Some(name) = subresource {
            entry["subresource"] = name.into();
        }
        entry
    }

    #[test]
    fn only_fields_that_are_never_read_are_stripped() {
        let ours = entry("package-operator", "Apply", None);
        let table = [
            // Items of lists lack the type; it is written first, as everywhere.
            (
                json!({"metadata": {"name": "a"}}),
                json!({"metadata": {"name": "a"}}),
            ),
            (
                json!({"metadata": {"name": "a", "managedFields": [
                    entry("kubectl", "Update", None),
                    ours,
                    entry("package-operator", "Update", Some("status")),
                    entry("package-operator", "Apply", Some("status")),
                ]}}),
                json!({"metadata": {"name": "a", "managedFields": [ours]}}),
            ),
            // Entries that Package Operator wrote in a form that Baton does not use.
            (
                json!({"metadata": {"name": "a", "managedFields": [
                    entry("package-operator", "Update", None),
                    entry("kubectl", "Apply", None),
                    entry("package-operator-manager", "Update", None),
                    entry("remote-phase-manger", "Apply", None),
                    entry("package-operator-manager", "Update", Some("scale")),
                ]}}),
                json!({"metadata": {"name": "a", "managedFields": [
                    entry("package-operator", "Update", None),
                    entry("package-operator-manager", "Update", None),
                    entry("remote-phase-manger", "Apply", None),
                ]}}),
            ),
            (
                json!({"metadata": {"name": "a", "managedFields": [entry("kubectl", "Apply", None)]}}),
                json!({"metadata": {"name": "a"}}),
            ),
            (
                json!({"metadata": {"name": "a", "annotations": {"x": "1", LAST_APPLIED: "{}", "y": "\"2\n"}}}),
                json!({"metadata": {"name": "a", "annotations": {"x": "1", "y": "\"2\n"}}}),
            ),
            (
                json!({"metadata": {"name": "a", "annotations": {LAST_APPLIED: "{}"}}}),
                json!({"metadata": {"name": "a"}}),
            ),
            (
                json!({"metadata": {"name": "a", "annotations": null, "managedFields": null}}),
                json!({"metadata": {"name": "a", "annotations": null}}),
            ),
            (
                json!({"metadata": {"name": "a"}, "data": {"k\"ä\\": "v", "": "x"}, "status": [1, 2.50, null, true]}),
                json!({"metadata": {"name": "a"}, "data": {"k\"ä\\": "v", "": "x"}, "status": [1, 2.50, null, true]}),
            ),
        ];
        let owners = json!([{"apiVersion": "x/v1", "kind": "X", "name": "x", "uid": "x"}]);
        for (mut object, mut expected) in table {
            expected["apiVersion"] = "v1".into();
            expected["kind"] = "ConfigMap".into();
            for object in [&mut object, &mut expected] {
                object["metadata"]["ownerReferences"] = owners.clone();
            }
            assert_eq!(strip(&object), expected);
        }
    }

    /// A revision that takes over the object has to know whose fields become its own.
    #[test]
    fn entries_of_others_are_kept_while_an_object_has_no_owner() {
        let theirs = json!([
            entry("kubectl", "Apply", None),
            entry("package-operator", "Apply", None)
        ]);
        let status = entry("kubelet", "Update", Some("status"));
        let mut object = json!({"metadata": {"name": "a", "managedFields": theirs}});
        let list = object["metadata"]["managedFields"].as_array_mut().unwrap();
        list.push(status);
        assert_eq!(strip(&object)["metadata"]["managedFields"], theirs);
    }

    /// One of them belongs to the manager whose change is about to be repaired.
    #[test]
    fn entries_that_are_not_older_than_our_own_apply_are_kept() {
        let at = |time: &str, mut entry: Value| {
            entry["time"] = format!("2026-01-01T00:00:{time}Z").into();
            entry
        };
        let ours = at("10", entry("package-operator", "Apply", None));
        let kept = [
            at("10", entry("kubectl-edit", "Update", None)),
            at("11", entry("scaler", "Update", Some("scale"))),
            entry("hpa", "Update", Some("scale")),
            ours,
        ];
        let dropped = [
            at("09", entry("helm", "Update", None)),
            at("12", entry("kubelet", "Update", Some("status"))),
            entry("without-a-time", "Update", None),
        ];
        let all: Vec<&Value> = kept.iter().chain(&dropped).collect();
        let mut object = json!({"metadata": {"name": "a", "managedFields": all}});
        object["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "x/v1", "kind": "X", "name": "x", "uid": "x"}]);
        assert_eq!(strip(&object)["metadata"]["managedFields"], json!(kept));
        // Without an apply of ours, no field of ours can have been changed.
        object["metadata"]["managedFields"] = json!([kept[0], kept[1]]);
        assert_eq!(strip(&object)["metadata"].get("managedFields"), None);
    }

    #[test]
    fn keeps_numbers_as_they_are_written() {
        let text =
            r#"{"metadata":{"name":"a"},"spec":{"big":12345678901234567890123,"small":1.0}}"#;
        let gvk = Gvk::new("x/v1", "X");
        let stripped = ObjectParts::of(text, &gvk).unwrap().strip(&gvk, false);
        assert!(
            stripped.contains(r#""spec":{"big":12345678901234567890123,"small":1.0}"#),
            "{stripped}"
        );
        assert!(
            stripped.starts_with(r#"{"apiVersion":"x/v1","kind":"X","metadata":"#),
            "{stripped}"
        );
    }

    /// The last digit matters: otherwise each comparison with a manifest would find a difference.
    #[test]
    fn reads_fractions_to_the_last_digit() {
        let gvk = Gvk::new("x/v1", "X");
        for number in [
            "0.1234567890123456789",
            "2.0641599999999995",
            "31.245270191439438",
            "121.48791951161945",
            "1.7976931348623157e308",
        ] {
            let text = format!(r#"{{"metadata":{{"name":"a"}},"spec":{number}}}"#);
            let mut parts = ObjectParts::of(&text, &gvk).unwrap();
            parts.is_owned = true;
            let stored = parts
                .pack(&gvk, &mut Names::default(), &Budget::new(usize::MAX))
                .unwrap();
            let read = stored.parse().unwrap()["spec"].as_f64();
            assert_eq!(read, number.parse().ok(), "{number}");
        }
    }

    #[test]
    fn reads_identity_owners_and_label() {
        let text = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
            "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "12",
            "labels": {LABEL_CACHE: "True"},
            "ownerReferences": [
                {"apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSet", "name": "r\u{e4}\"1",
                    "uid": "u1", "controller": true},
                {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u2"},
            ],
        }})
        .to_string();
        let gvk = Gvk::new("v1", "ConfigMap");
        let mut names = Names::default();
        let mut parts = ObjectParts::of(&text, &gvk).unwrap();
        parts.is_owned = true;
        assert_eq!((parts.namespace.as_ref(), parts.name.as_ref()), ("n", "a"));
        assert!(parts.labelled());
        assert!(!parts.managed_by_us());
        let update = json!({"metadata": {"name": "a", "managedFields": [
            entry("package-operator", "Update", None)]}})
        .to_string();
        assert!(!ObjectParts::of(&update, &gvk).unwrap().managed_by_us());
        let stored = parts
            .pack(&gvk, &mut names, &Budget::new(usize::MAX))
            .unwrap();
        assert_eq!((stored.uid.as_ref(), stored.resource_version), ("u", 12));
        let owners: Vec<_> = stored
            .owners
            .iter()
            .map(|o| {
                (
                    o.group.as_ref(),
                    o.kind.as_ref(),
                    o.name.as_ref(),
                    o.uid.as_ref(),
                    o.controller,
                )
            })
            .collect();
        assert_eq!(
            owners,
            [
                (
                    "package-operator.run",
                    "ObjectSet",
                    "r\u{e4}\"1",
                    "u1",
                    true
                ),
                ("", "ConfigMap", "c", "u2", false),
            ]
        );
        assert_eq!(stored.parse().unwrap()["metadata"]["name"], "a");
    }

    #[test]
    fn the_label_counts_only_with_its_value() {
        let gvk = Gvk::new("v1", "ConfigMap");
        for (labels, expected) in [
            (json!({LABEL_CACHE: "True"}), true),
            (json!({LABEL_CACHE: "true"}), false),
            (json!({"x": "True"}), false),
            (json!(null), false),
        ] {
            let text = json!({"metadata": {"name": "a", "labels": labels}}).to_string();
            assert_eq!(
                ObjectParts::of(&text, &gvk).unwrap().labelled(),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn values_that_are_no_objects_are_refused() {
        let gvk = Gvk::new("v1", "ConfigMap");
        for text in [
            "",
            "[]",
            "{}",
            "null",
            r#"{"metadata":[]}"#,
            r#"{"metadata":{}}"#,
            r#"{"metadata":{"name":1}}"#,
        ] {
            assert!(ObjectParts::of(text, &gvk).is_err(), "{text}");
        }
    }

    #[test]
    fn shares_a_bounded_number_of_names() {
        let mut names = Names::default();
        assert!(Arc::ptr_eq(
            &names.get("ObjectSet"),
            &names.get("ObjectSet")
        ));
        for n in 0..1000 {
            names.get(&n.to_string());
        }
        assert_eq!(names.0.len(), Names::LIMIT);
    }
}
