//! Compares a live object with the configuration that our server-side apply would send, without a
//! request.
//!
//! The only evidence is our manager's `Apply` entry in `metadata.managedFields`. If another client changes
//! a field that we own, its path leaves that entry (a forced apply and an update both remove it).
//! An apply of more or fewer fields than the last one adds or drops paths. So [`compare`] checks
//! two things: the entry covers exactly the wanted paths, and each wanted leaf equals the live one.
//!
//! The schema is not available here; the entry itself shows if a list is keyed, a set or one atomic
//! value. Where the server writes a value differently from what was applied (`1000m` becomes `1`, a
//! default appears inside an atomic list, `hostNetwork: false` is not written at all) the result is
//! a difference, although an apply would change nothing. The caller settles that once, by the
//! answer to its write or to a dry-run apply. It then remembers a pair of fingerprints,
//! [`wanted_fingerprint`] and [`live_fingerprint`]: that of the applied body, and that of the
//! object that the server made of it. While both stay the same there is nothing to write. The
//! answer to a dry run has the fingerprint of the live object exactly if the apply would change
//! neither an owned value nor the set of owned paths.
//!
//! A loss in the server is built in here, so that it costs no dry run: an empty list or a `null`
//! that a built-in kind does not store (`args: []`, `creationTimestamp: null`). A `null` is owned
//! like any value; where the server replaces it by a default or an empty value, that is a
//! difference of form.
//!
//! [`legacy`] handles the entries of other kinds that Package Operator has left.

use std::borrow::Cow;
use std::fmt;
use std::mem;
use std::str::FromStr;

use baton_apis::constants::{FIELD_MANAGER, GROUP};
use jiff::Timestamp;
use serde_json::Value;

use self::create_only::{owned_at, owned_part, remove, set};
pub use self::expanded::with_expanded;
pub use self::fields::Marker;
use self::fields::write_key;
use self::fingerprint::{ABSENT, mix, of_map, of_owned, of_value};
use self::leftovers::remove_nulls;
use self::legacy::OwnedFields;
pub use self::texts::{encode_texts, is_secret};
use self::texts::{owns_texts, stored_fields};
use self::walk::compare_roots;

mod create_only;
pub mod drift;
pub mod dropped;
mod expanded;
mod fields;
mod fingerprint;
#[cfg(test)]
mod fuzz;
pub mod leftovers;
pub mod legacy;
pub mod others;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
mod texts;
mod walk;

/// Fields of the root's `metadata` that the server leaves out of `managedFields`.
const UNOWNED_METADATA: [&str; 8] = [
    "creationTimestamp",
    "generation",
    "managedFields",
    "name",
    "namespace",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Fields at the root that an apply does not own: those that identify the object, and `status`,
/// which is never applied.
const UNOWNED_ROOT: [&str; 4] = ["apiVersion", "kind", "metadata", "status"];

/// The difference between a live object and the configuration that we would apply. Each variant but
/// the first has one path, for logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// An apply would change nothing.
    None,
    /// We own the field, and the live value is not the wanted one, or is written differently.
    Fields(String),
    /// The field is wanted, but our entry lacks it: we never applied it, or another manager took it
    /// over.
    NotOwned(String),
    /// Our entry has the field, but it is no longer wanted: an apply would remove it, or give up
    /// our share in it.
    Surplus(String),
}

/// The fields that our manager's applies own in a live object, in the `fieldsV1` form.
///
/// Texts of a Secret are fields of its `data`. Returns `None` if we never applied the object, or if
/// somebody cleared its `managedFields`.
pub fn owned_fields(live: &Value) -> Option<Cow<'_, Value>> {
    let entry = apply_entry(live)?;
    if owns_texts(entry, live) {
        let fields = stored_fields(entry, live)?;
        return Some(Cow::Owned(fields.into_owned().into()));
    }
    entry.get("fieldsV1").map(Cow::Borrowed)
}

/// Time of our last apply that changed an object; `None` if we never applied it.
pub fn applied_at(live: &Value) -> Option<Timestamp> {
    let time = apply_entry(live)?.get("time")?.as_str()?;
    time.parse().ok()
}

/// Compares the configuration that we would apply with the live object.
///
/// # Guarantees
///
/// [`Difference::None`] means that an apply of `wanted`, forced or not, would change no value.
/// Fields of other managers, `status` and the order of map keys never make a difference. The order
/// of a keyed list's items does, since containers start and variables expand in that order.
///
/// # Caveats
///
/// The converse is not guaranteed, see the module's documentation: a difference may be one of form
/// only. A wanted and owned empty map is assumed to be an atomic value, so fields of other managers in it
/// are reported.
///
/// An apply may still change what has no meaning: the order of a set, and our claim to an empty
/// list.
pub fn compare(wanted: &Value, live: &Value) -> Difference {
    match compare_roots(wanted, live) {
        Ok(()) => Difference::None,
        Err(difference) => difference,
    }
}

/// A fingerprint of the configuration that an apply of `wanted` would send.
///
/// # Guarantees
///
/// Equal bodies have the same fingerprint in every process, in any order of the map keys. `status`,
/// the name and namespace, and the server's own metadata do not count.
pub fn wanted_fingerprint(wanted: &Value) -> u64 {
    let Some(root) = wanted.as_object() else {
        return of_value(wanted);
    };
    let entries = root.iter().filter(|(name, _)| *name != "status");
    of_map(entries.map(|(name, value)| match value {
        Value::Object(metadata) if name == "metadata" => {
            let applied = metadata
                .iter()
                .filter(|(name, _)| !UNOWNED_METADATA.contains(&name.as_str()));
            (
                name,
                of_map(applied.map(|(name, value)| (name, of_value(value)))),
            )
        }
        _ => (name, of_value(value)),
    }))
}

/// A fingerprint of any JSON value, independent of the order of keys.
pub fn content_fingerprint(value: &Value) -> u64 {
    of_value(value)
}

/// A fingerprint of the fields that our manager owns in `live`: their paths and values.
///
/// # Guarantees
///
/// Changes when an owned value changes, when an owned path is added or removed, and when the owned
/// items of a keyed list change their order among each other. Nothing else counts: not owner
/// references, which change with a chain's revisions and are compared separately, not
/// `resourceVersion`, not timestamps, not fields and list items of other managers, not the order of
/// map keys or of a set. `None` as for [`owned_fields`], unless there are legacy entries.
///
/// # Caveats
///
/// Below an empty map that we own every field counts, as the map may be an atomic value. All fields
/// of legacy entries count, also unwanted ones.
pub fn live_fingerprint(live: &Value) -> Option<u64> {
    let ownership = OwnedFields::of(live)?;
    let owned = ownership.fields();
    let version = ownership.version.map_or(ABSENT, of_value);
    let apart = ["f:status", "f:metadata"];
    let fields = owned
        .iter()
        .filter(|(marker, _)| !apart.contains(&marker.as_str()));
    let fields = of_owned(fields, Some(live));
    let metadata = owned
        .get("f:metadata")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    let metadata = metadata.filter(|(marker, _)| *marker != "f:ownerReferences");
    let fields = mix(fields, of_owned(metadata, live.get("metadata")));
    Some(mix(version, fields))
}

/// The path of a field below an object's root, such as `.spec.replicas`.
///
/// A dot in a map's key is written with a backslash: `.metadata.annotations.example\.com/weight`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldPath(Vec<String>);

/// The reason why a text is no [`FieldPath`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The text does not begin with a dot.
    #[error("path {0:?} must begin with a dot, as in \".spec.replicas\"")]
    NoDot(String),
    /// A key is empty, or a backslash stands before anything but a dot or a backslash.
    #[error(
        "path {0:?} must be made of map keys separated by single dots; a dot in a key is written \"\\.\""
    )]
    Key(String),
    /// The path leads into a list.
    #[error("path {0:?} leads into a list, only keys of maps are supported")]
    List(String),
    /// The path covers the object's identity, its status, or metadata that is always managed.
    #[error(
        "path {0:?} covers fields that are always managed; of the metadata only a single label or \
         annotation can be left to others"
    )]
    Managed(String),
}

impl FieldPath {
    /// The path with these keys, which others may set.
    pub(crate) fn of(keys: &[&str]) -> Self {
        Self(keys.iter().map(|key| (*key).to_owned()).collect())
    }

    /// Reads a path.
    ///
    /// # Errors
    ///
    /// If the text is not a path of map keys, or covers a field that cannot be left to others.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let rest = text
            .strip_prefix('.')
            .ok_or_else(|| PathError::NoDot(text.to_owned()))?;
        let mut keys = Vec::new();
        let mut key = String::new();
        let mut chars = rest.chars();
        while let Some(char) = chars.next() {
            match char {
                '.' => keys.push(mem::take(&mut key)),
                '\\' => match chars.next() {
                    Some(escaped @ ('.' | '\\')) => key.push(escaped),
                    _ => return Err(PathError::Key(text.to_owned())),
                },
                '[' | ']' | '*' => return Err(PathError::List(text.to_owned())),
                _ => key.push(char),
            }
        }
        keys.push(key);
        if keys.iter().any(String::is_empty) {
            return Err(PathError::Key(text.to_owned()));
        }
        if is_managed(&keys) {
            return Err(PathError::Managed(text.to_owned()));
        }
        Ok(Self(keys))
    }

    /// The path of the field in which the server stores the value: `.data` for `.stringData`, which
    /// a Secret has no longer when it is compared.
    #[must_use]
    pub fn stored(mut self) -> Self {
        if let Some(first) = self.0.first_mut().filter(|first| *first == "stringData") {
            "data".clone_into(first);
        }
        self
    }

    /// True if the path is at, above or below the field with these keys.
    pub fn overlaps(&self, keys: &[&str]) -> bool {
        self.0.iter().zip(keys).all(|(own, key)| own == key)
    }
}

impl FromStr for FieldPath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        Self::parse(text)
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|key| write_key(f, key))
    }
}

/// Turns the body of a create into one for an existing object, where some fields are only set on
/// creation and then left to others.
///
/// A field that the paths cover has its live value where our manager owns it, and is left out
/// everywhere else.
///
/// An apply that leaves out a field which only its manager owns *removes* it (`spec.replicas` then
/// falls back to 1), and an apply of the original value takes the field back from an autoscaler. So
/// an apply contains the field with its live value exactly while our manager still owns it, and
/// leaves it out once somebody else has changed it.
///
/// # Guarantees
///
/// An apply of the result changes nothing at or below the paths, if its precondition is the live
/// object's `resourceVersion`. Of a map or a list only our own parts are included, so that fields
/// of others do not become ours. A map without any such part is left out as well: an empty map
/// would be a claim of its own.
///
/// # Caveats
///
/// A path into an atomic map is followed while we own that map. Once somebody else owns it, an
/// apply of the map's other keys takes the whole map back, without the path: the server has no
/// shares in an atomic value.
pub fn with_create_only(wanted: &mut Value, live: &Value, paths: &[FieldPath]) {
    let owned = owned_fields(live);
    for FieldPath(keys) in paths {
        let owned = owned.as_deref().and_then(Value::as_object);
        let node = owned.and_then(|owned| owned_at(owned, keys));
        let live = keys.iter().try_fold(live, |live, key| live.get(key));
        match node
            .zip(live)
            .and_then(|(node, live)| owned_part(node, live))
        {
            Some(value) => set(wanted, keys, value),
            None => remove(wanted, keys),
        }
    }
}

/// Removes from the body of an apply the nulls in whose place we own fields.
///
/// An apply with a `null` would keep these fields.
pub fn with_nulls_removed(body: &mut Value, live: &Value) {
    if has_null(body)
        && let Some(owned) = owned_fields(live).as_deref().and_then(Value::as_object)
    {
        remove_nulls(body, owned);
    }
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.values().any(has_null),
        Value::Array(items) => items.iter().any(has_null),
        _ => false,
    }
}

/// True if an API version may be that of a custom resource: its group has a dot in its name. Some
/// groups of the server have one too.
fn is_custom(api_version: &str) -> bool {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    group.contains('.')
}

/// True if an apply must always contain the field with these keys.
fn is_managed(keys: &[String]) -> bool {
    let mut keys = keys.iter().map(String::as_str);
    match (keys.next(), keys.next(), keys.next(), keys.next()) {
        (Some("metadata"), Some("labels" | "annotations"), Some(key), None) => key
            .strip_prefix(GROUP)
            .is_some_and(|key| key.starts_with('/')),
        (Some("apiVersion" | "kind" | "metadata" | "status"), ..) => true,
        _ => false,
    }
}

/// Our manager's entry for applies of the object itself. There is at most one: the server stores
/// all applies of a manager in one entry, of whichever version they are.
fn apply_entry(live: &Value) -> Option<&Value> {
    live.get("metadata")?
        .get("managedFields")?
        .as_array()?
        .iter()
        .find(|entry| is_apply(entry))
}

fn is_apply(entry: &Value) -> bool {
    let is = |name, value| entry.get(name).and_then(Value::as_str) == Some(value);
    is("manager", FIELD_MANAGER)
        && is("operation", "Apply")
        && entry
            .get("subresource")
            .is_none_or(|subresource| subresource == "")
}
