//! An API server's rules for one object, as far as the requests of the engine can observe them.
//!
//! - A write with a UID or a `resourceVersion` is refused unless the object is in that state. An
//!   apply with a `resourceVersion` alone creates an object that does not exist.
//! - A server-side apply owns the fields that it sets. It removes fields that the same manager set
//!   before and does not set any more. Without force, it may not change a value that another
//!   manager owns.
//! - An object has at most one controller. The annotation with owners in other clusters is plain
//!   text to the server.
//! - The content of an immutable object cannot be changed, but the object can be deleted.
//! - A write that changes nothing leaves the `resourceVersion` unchanged.
//!
//! The behaviour of a real server is tested elsewhere; this model tests only the engine.

use baton_apis::constants::{ANNOTATION_REVISION, FIELD_MANAGER};
use baton_engine::{
    Answer, ObjectKey, Precondition, Request,
    definitions::Affected,
    diff::{legacy::migrated_with, owned_fields},
    object::{is_terminating, metadata, owner_references, text},
    owners,
};
use serde_json::{Map, Value, json};

/// The effect of a request on an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The object stays unchanged.
    None,
    /// The object has this new state.
    Put(Value),
    /// The object is gone.
    Gone,
}

/// UID and `resourceVersion` that the server assigns in a write.
#[derive(Clone, Debug)]
pub struct Next {
    /// UID of a new object.
    pub uid: String,
    /// New `resourceVersion` of the object.
    pub version: String,
}

/// The message of a refusal because of a second controller.
const TWO_CONTROLLERS: &str = "Only one reference can have Controller set to true";

/// The message of a refusal because of changed content.
const IMMUTABLE: &str = "data: Forbidden: field is immutable when `immutable` is set";

/// Serves a request about an object in its present state.
#[must_use]
pub fn serve(
    key: &ObjectKey,
    live: Option<&Value>,
    request: &Request,
    next: &Next,
) -> (Change, Answer) {
    let (change, answer) = match (request, live) {
        (Request::Get, live) => (Change::None, read(live)),
        (Request::DryRunCreate(body), live) => {
            (Change::None, apply(key, live, body, false, next).1)
        }
        (Request::DryRunApply(body), live) => (Change::None, apply(key, live, body, true, next).1),
        (Request::Create(body), live) => apply(key, live, body, false, next),
        (Request::Apply(body), live) => apply(key, live, body, true, next),
        // No kind of the model is a definition.
        (Request::FindAffected(_), _) => (Change::None, Answer::Affected(Affected::Nothing)),
        (_, None) => (Change::None, Answer::NotFound),
        // No kind of the model has unions.
        (Request::DryRunMerge(_), Some(_)) => {
            let text = IMMUTABLE.to_owned();
            (Change::None, Answer::Refused(text))
        }
        (
            Request::Migrate {
                live: precondition,
                former,
                leftovers,
            },
            Some(live),
        ) => {
            let entries =
                migrated_with(live, former, leftovers).filter(|_| is_as_seen(live, precondition));
            let mut object = live.clone();
            if let Some(entries) = entries {
                object["metadata"]["managedFields"] = entries.into();
            }
            put(live, object, next)
        }
        (Request::TakeBack, Some(live)) => {
            // The client reads the object first, and repeats the request until it succeeds.
            let (_, managers) = split_managers(live);
            let mut object = live.clone();
            give_up(&mut object, live, &json!({}), &managers);
            set_managers(&mut object, managers);
            put(live, object, next)
        }
        (
            Request::Release {
                live: precondition, ..
            }
            | Request::Delete(precondition)
            | Request::DeleteForRecreation(precondition),
            Some(live),
        ) if !is_as_seen(live, precondition) => (Change::None, Answer::Conflict),
        (
            Request::Release {
                owner_uid, left, ..
            },
            Some(live),
        ) => {
            let mut object = live.clone();
            if let Some(left) = left {
                object["metadata"]["annotations"][baton_apis::constants::ANNOTATION_OWNERS] =
                    left.as_str().into();
            } else {
                keep_references(&mut object, |reference| text(reference, "uid") != owner_uid);
            }
            put(live, object, next)
        }
        (Request::HandOver(body), Some(live)) => {
            let is_seen = |field| metadata(body, field) == metadata(live, field);
            if !is_seen("uid") || !is_seen("resourceVersion") {
                return (Change::None, Answer::Conflict);
            }
            let mut body = body.clone();
            owners::encode(&mut body);
            let mut object = live.clone();
            merge_metadata(&mut object, &body["metadata"]);
            put(live, object, next)
        }
        (Request::Delete(_) | Request::DeleteForRecreation(_), Some(live)) => delete(live, next),
    };
    (change, decoded(answer))
}

/// Deletes an object: it is gone, or terminating while it has finalizers.
#[must_use]
pub fn delete(live: &Value, next: &Next) -> (Change, Answer) {
    if live.pointer("/metadata/finalizers").is_none() {
        return (Change::Gone, Answer::NotFound);
    }
    let mut object = live.clone();
    if !is_terminating(live) {
        object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    }
    put(live, object, next)
}

/// Sets the content of an object by an update of another client, which then owns the content.
#[must_use]
pub fn edited(live: &Value, content: &str) -> Value {
    let mut object = live.clone();
    object["data"]["content"] = content.into();
    let fields = json!({"f:data": {"f:content": {}}});
    let mut managers: Vec<_> = entries(live)
        .filter(|entry| text(entry, "manager") != "user")
        .cloned()
        .collect();
    for entry in &mut managers {
        disown(entry, "/fieldsV1/f:data", "f:content");
    }
    managers.push(
        json!({"manager": "user", "operation": "Update", "apiVersion": "v1", "fieldsV1": fields}),
    );
    set_managers(&mut object, managers);
    object
}

/// An object into whose revision annotation a user has written the highest number.
#[must_use]
pub fn forged(live: &Value) -> Value {
    let mut object = live.clone();
    object["metadata"]["annotations"][ANNOTATION_REVISION] = i64::MAX.to_string().into();
    let field = format!("f:{ANNOTATION_REVISION}");
    let mut managers: Vec<_> = entries(live).cloned().collect();
    for entry in &mut managers {
        disown(entry, "/fieldsV1/f:metadata/f:annotations", &field);
    }
    managers.push(
        json!({"manager": "user", "operation": "Update", "apiVersion": "v1",
        "fieldsV1": {"f:metadata": {"f:annotations": { field: {} }}}}),
    );
    set_managers(&mut object, managers);
    object
}

/// Merges owners and annotations into an object by an update. Changed fields belong to our entry
/// for updates, which differs from our entry for applies.
fn merge_metadata(object: &mut Value, changed: &Value) {
    let mut managers: Vec<_> = entries(object).cloned().collect();
    let mut fields = json!({"f:annotations": {}, "f:ownerReferences": {}});
    let before = object["metadata"].clone();
    let mut own = |list: &str, field: String| {
        for entry in &mut managers {
            disown(entry, &format!("/fieldsV1/f:metadata/{list}"), &field);
        }
        fields[list][field] = json!({});
    };
    for (name, text) in changed["annotations"].as_object().into_iter().flatten() {
        if before["annotations"][name] != *text {
            own("f:annotations", format!("f:{name}"));
            object["metadata"]["annotations"][name] = text.clone();
        }
    }
    if let Some(references) = changed["ownerReferences"].as_array() {
        let owners = before["ownerReferences"].as_array();
        for reference in references {
            if !owners.is_some_and(|owners| owners.contains(reference)) {
                own("f:ownerReferences", reference_key(reference));
            }
        }
        object["metadata"]["ownerReferences"] = references.clone().into();
    }
    managers.push(json!({
        "manager": FIELD_MANAGER, "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": fields},
    }));
    set_managers(object, managers);
}

/// Keeps some of the owner references; the server omits an empty list.
pub fn keep_references(object: &mut Value, keep: impl Fn(&Value) -> bool) {
    let kept: Vec<Value> = owner_references(object)
        .iter()
        .filter(|reference| keep(reference))
        .cloned()
        .collect();
    set_references(object, kept);
}

fn set_references(object: &mut Value, references: Vec<Value>) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    if references.is_empty() {
        metadata.remove("ownerReferences");
    } else {
        metadata.insert("ownerReferences".to_owned(), references.into());
    }
}

fn read(live: Option<&Value>) -> Answer {
    live.cloned().map_or(Answer::NotFound, Answer::Object)
}

fn is_as_seen(live: &Value, precondition: &Precondition) -> bool {
    metadata(live, "resourceVersion") == precondition.resource_version
        && metadata(live, "uid") == precondition.uid
}

/// Stores an object if it differs from the present one.
fn put(live: &Value, mut object: Value, next: &Next) -> (Change, Answer) {
    if object == *live {
        return (Change::None, Answer::Object(object));
    }
    object["metadata"]["resourceVersion"] = next.version.as_str().into();
    (Change::Put(object.clone()), Answer::Object(object))
}

/// A server-side apply by our field manager.
fn apply(
    key: &ObjectKey,
    live: Option<&Value>,
    body: &Value,
    force: bool,
    next: &Next,
) -> (Change, Answer) {
    let mut body = body.clone();
    owners::encode(&mut body);
    let refused = |answer| (Change::None, answer);
    let (uid, version) = (metadata(&body, "uid"), metadata(&body, "resourceVersion"));
    let is_other = |field: &str, wanted: &str, live: &Value| {
        !wanted.is_empty() && metadata(live, field) != wanted
    };
    let is_refused = match live {
        None => !uid.is_empty(),
        Some(live) => is_other("uid", uid, live) || is_other("resourceVersion", version, live),
    };
    if is_refused {
        return refused(Answer::Conflict);
    }
    let before = live.cloned().unwrap_or_else(|| {
        json!({"apiVersion": "v1", "kind": key.kind, "metadata": {
            "name": key.name, "namespace": key.namespace, "uid": next.uid}})
    });
    let (_, mut others) = split_managers(&before);
    let wanted = body.pointer("/data/content");
    let differs = wanted.is_some() && wanted != before.pointer("/data/content");
    let is_fixed = live.is_some_and(|live| live["immutable"] == true);
    if differs && is_fixed {
        return refused(Answer::Immutable(IMMUTABLE.to_owned()));
    }
    let is_foreign = |entry: &Value| entry.pointer("/fieldsV1/f:data/f:content").is_some();
    if differs && others.iter().any(is_foreign) {
        if !force {
            return refused(Answer::Conflict);
        }
        for entry in &mut others {
            disown(entry, "/fieldsV1/f:data", "f:content");
        }
    }
    others.retain(|entry| entry["fieldsV1"].as_object().is_none_or(|f| !f.is_empty()));
    let mut object = before.clone();
    give_up(&mut object, &before, &body, &others);
    let mut references = owner_references(&object).to_vec();
    let mut fields = json!({});
    for reference in owner_references(&body) {
        let uid = text(reference, "uid");
        match references.iter_mut().find(|r| text(r, "uid") == uid) {
            Some(existing) => *existing = reference.clone(),
            None => references.push(reference.clone()),
        }
        fields["f:metadata"]["f:ownerReferences"][reference_key(reference)] = json!({});
    }
    if references
        .iter()
        .filter(|r| r["controller"] == true)
        .count()
        > 1
    {
        return refused(Answer::Refused(TWO_CONTROLLERS.to_owned()));
    }
    set_references(&mut object, references);
    for map in ["labels", "annotations"] {
        for (name, value) in body["metadata"][map].as_object().into_iter().flatten() {
            object["metadata"][map][name] = value.clone();
            fields["f:metadata"][format!("f:{map}")][format!("f:{name}")] = json!({});
        }
    }
    if let Some(content) = wanted {
        object["data"]["content"] = content.clone();
        fields["f:data"]["f:content"] = json!({});
    }
    if body["immutable"] == true {
        object["immutable"] = true.into();
        fields["f:immutable"] = json!({});
    }
    others.push(json!({"manager": FIELD_MANAGER, "operation": "Apply", "apiVersion": "v1", "fieldsV1": fields}));
    set_managers(&mut object, others);
    let changed = object != before;
    if changed {
        object["metadata"]["resourceVersion"] = next.version.as_str().into();
    }
    let answer = match (live, force) {
        (None, _) => Answer::Created(object.clone()),
        (Some(_), false) => Answer::Merged(object.clone()),
        (Some(_), true) => Answer::Object(object.clone()),
    };
    (
        if changed {
            Change::Put(object)
        } else {
            Change::None
        },
        answer,
    )
}

/// Removes the fields of our last apply, unless they are set again or another manager owns them
/// too.
fn give_up(object: &mut Value, before: &Value, body: &Value, others: &[Value]) {
    let Some(owned) = owned_fields(before) else {
        return;
    };
    let is_shared = |path: &str, field: &str| {
        others.iter().any(|entry| {
            entry
                .pointer(&format!("/fieldsV1{path}"))
                .and_then(|fields| fields.get(field))
                .is_some()
        })
    };
    let gone = |reference: &Value| {
        let path = "/f:metadata/f:ownerReferences";
        let key = reference_key(reference);
        let is_owned = owned.pointer(path).and_then(|f| f.get(&key)).is_some();
        let is_wanted = owner_references(body)
            .iter()
            .any(|wanted| text(wanted, "uid") == text(reference, "uid"));
        is_owned && !is_wanted && !is_shared(path, &key)
    };
    keep_references(object, |reference| !gone(reference));
    for map in ["metadata/labels", "metadata/annotations", "data"] {
        let path = format!(
            "/{}",
            map.split('/')
                .map(|part| format!("f:{part}"))
                .collect::<Vec<_>>()
                .join("/")
        );
        let Some(fields) = owned.pointer(&path).and_then(Value::as_object) else {
            continue;
        };
        let wanted = body.pointer(&format!("/{map}"));
        for field in fields.keys() {
            let name = field.trim_start_matches("f:");
            if wanted.and_then(|wanted| wanted.get(name)).is_some() || is_shared(&path, field) {
                continue;
            }
            remove(object, &format!("/{map}"), name);
        }
    }
}

/// Removes a field of a map, and the map if it becomes empty.
fn remove(object: &mut Value, path: &str, name: &str) {
    let Some(map) = object.pointer_mut(path).and_then(Value::as_object_mut) else {
        return;
    };
    map.remove(name);
    if !map.is_empty() {
        return;
    }
    if let Some((parent, last)) = path.rsplit_once('/') {
        let parent = if parent.is_empty() {
            Some(object)
        } else {
            object.pointer_mut(parent)
        };
        if let Some(parent) = parent.and_then(Value::as_object_mut) {
            parent.remove(last);
        }
    }
}

fn disown(entry: &mut Value, path: &str, field: &str) {
    let Some(fields) = entry.pointer_mut(path).and_then(Value::as_object_mut) else {
        return;
    };
    fields.remove(field);
    if fields.is_empty() {
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        entry["fieldsV1"]
            .as_object_mut()
            .map(|fields: &mut Map<_, _>| fields.remove(&name));
    }
}

fn reference_key(reference: &Value) -> String {
    format!("k:{{\"uid\":\"{}\"}}", text(reference, "uid"))
}

fn entries(live: &Value) -> impl Iterator<Item = &Value> {
    let entries = live.pointer("/metadata/managedFields");
    entries.and_then(Value::as_array).into_iter().flatten()
}

/// Splits the field managers into the entry of our applies and all others.
fn split_managers(live: &Value) -> (Vec<Value>, Vec<Value>) {
    entries(live).cloned().partition(|entry| {
        (text(entry, "manager"), text(entry, "operation")) == (FIELD_MANAGER, "Apply")
    })
}

fn set_managers(object: &mut Value, managers: Vec<Value>) {
    object["metadata"]["managedFields"] = managers.into();
}

fn decoded(answer: Answer) -> Answer {
    let as_read = |mut object: Value| {
        owners::decode(&mut object);
        object
    };
    match answer {
        Answer::Object(object) => Answer::Object(as_read(object)),
        Answer::Created(object) => Answer::Created(as_read(object)),
        Answer::Merged(object) => Answer::Merged(as_read(object)),
        answer => answer,
    }
}
