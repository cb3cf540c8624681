//! Owners of objects in other clusters.
//!
//! An owner reference is meaningless in a cluster where the owner does not exist; garbage
//! collection would even delete the object. There, the annotation `package-operator.run/owners` has
//! the list. The rest of the engine is independent of this. An object that is read gets the entries
//! of the annotation as further owner references, and an object that is written gets them as the
//! annotation. An entry of the annotation has the field `namespace`, which an owner reference of
//! the API never has.
//!
//! The annotation `baton.run/hub` names the hub of the controller, and `baton.run/chain` its chain. In an
//! object that was read, each entry has them as the fields `hub` and `chain`: the other entries are those
//! of older revisions in the same hub, or of lost hubs, which own nothing any more.

use std::collections::BTreeSet;

use baton_apis::constants::{ANNOTATION_CHAIN, ANNOTATION_HUB, ANNOTATION_OWNERS};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::object::{is_controller, owner_references, text};

const FIELD: &str = "f:package-operator.run/owners";

/// The annotations about the controller, with the fields of an entry that have their values.
const OF_CONTROLLER: [(&str, &str); 2] = [(ANNOTATION_HUB, "hub"), (ANNOTATION_CHAIN, "chain")];

/// The annotations about owners, which a manifest must not have.
pub(crate) const RESERVED: [&str; 3] = [ANNOTATION_OWNERS, ANNOTATION_HUB, ANNOTATION_CHAIN];

/// An entry of the annotation; the order of its fields is that of Package Operator.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry<'a> {
    api_version: &'a str,
    kind: &'a str,
    name: &'a str,
    namespace: &'a str,
    uid: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    controller: bool,
}

/// True if an owner reference is an entry of the annotation.
pub fn is_remote(reference: &Value) -> bool {
    reference.get("namespace").is_some()
}

/// The UIDs in the value of the annotation `baton.run/lost-hubs`, which commas or blanks separate.
pub fn lost_hubs(annotation: &str) -> BTreeSet<String> {
    let uids = annotation.split(|c: char| c == ',' || c.is_whitespace());
    let uids = uids.filter(|uid| !uid.is_empty());
    uids.map(str::to_owned).collect()
}

/// True if an owner reference is an entry of the annotation that belongs to a lost hub.
///
/// `lost` has the UIDs of hubs, and of owners. An entry of the hub with the UID `own` is never lost.
pub(crate) fn is_lost(reference: &Value, lost: &BTreeSet<String>, own: &str) -> bool {
    let is_named = |field| lost.contains(text(reference, field));
    let hub = text(reference, "hub");
    let is_own = !own.is_empty() && hub == own;
    is_remote(reference) && !is_own && (is_named("hub") || is_named("uid"))
}

/// The owners in the text of the annotation; malformed entries are left out.
pub fn parse(annotation: &str) -> Vec<Value> {
    let list: Vec<Value> = serde_json::from_str(annotation).unwrap_or_default();
    let owners = list.into_iter().filter_map(|mut owner| {
        let entry = owner.as_object_mut()?;
        entry.entry("namespace").or_insert_with(|| "".into());
        Some(owner)
    });
    owners.collect()
}

/// The text of the annotation, made from those owner references that are its entries.
fn render<'a>(references: impl Iterator<Item = &'a Value>) -> String {
    let entries = references
        .filter(|reference| is_remote(reference))
        .map(|reference| Entry {
            api_version: text(reference, "apiVersion"),
            kind: text(reference, "kind"),
            name: text(reference, "name"),
            namespace: text(reference, "namespace"),
            uid: text(reference, "uid"),
            controller: is_controller(reference),
        });
    serde_json::to_string(&entries.collect::<Vec<_>>()).unwrap_or_default()
}

/// The text of the annotation without the owner with a uid; `None` if that owner is an owner
/// reference of the API. Without the last owner the list is empty.
pub fn without(live: &Value, uid: &str) -> Option<String> {
    let references = owner_references(live);
    let owner = references
        .iter()
        .find(|reference| text(reference, "uid") == uid)?;
    let left = references
        .iter()
        .filter(|reference| text(reference, "uid") != uid);
    is_remote(owner).then(|| render(left))
}

/// Moves the entries of the annotation of an object that was read to its owner references, and
/// their ownership too.
pub fn decode(live: &mut Value) {
    let Some(metadata) = live.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    let Some(annotations) = metadata
        .get_mut("annotations")
        .and_then(Value::as_object_mut)
    else {
        return;
    };
    let Some(annotation) = annotations.remove(ANNOTATION_OWNERS) else {
        return;
    };
    let mut owners = parse(annotation.as_str().unwrap_or_default());
    for (annotation, field) in OF_CONTROLLER {
        if let Some(value) = annotations.remove(annotation) {
            for owner in &mut owners {
                owner[field] = value.clone();
            }
        }
    }
    let entries = metadata
        .get_mut("managedFields")
        .and_then(Value::as_array_mut);
    for entry in entries.into_iter().flatten() {
        own(entry, &owners);
    }
    let references = metadata
        .entry("ownerReferences")
        .or_insert_with(|| json!([]));
    if let Some(references) = references.as_array_mut() {
        references.extend(owners);
    }
}

/// Gives the owner of the annotation the ownership of its entries.
fn own(entry: &mut Value, owners: &[Value]) {
    let Some(fields) = entry
        .pointer_mut("/fieldsV1/f:metadata")
        .and_then(Value::as_object_mut)
    else {
        return;
    };
    let annotations = fields
        .get_mut("f:annotations")
        .and_then(Value::as_object_mut);
    let Some(annotations) = annotations else {
        return;
    };
    let has_owners = annotations.remove(FIELD).is_some();
    let before = annotations.len();
    annotations.retain(|field, _| {
        let name = field.strip_prefix("f:").unwrap_or_default();
        !OF_CONTROLLER
            .iter()
            .any(|(annotation, _)| *annotation == name)
    });
    // A node without children would own all annotations.
    if (has_owners || annotations.len() < before) && annotations.is_empty() {
        fields.remove("f:annotations");
    }
    if !has_owners {
        return;
    }
    let references = fields
        .entry("f:ownerReferences")
        .or_insert_with(|| Value::Object(Map::new()));
    for owner in owners {
        references[marker(owner)] = json!({ ".": {} });
    }
}

/// The marker of an owner reference in `managedFields`.
pub(crate) fn marker(reference: &Value) -> String {
    format!("k:{{\"uid\":\"{}\"}}", text(reference, "uid"))
}

/// Moves the owner references that are entries of the annotation back to it, for an object that is
/// written.
pub fn encode(body: &mut Value) {
    if !owner_references(body).iter().any(is_remote) {
        return;
    }
    let annotation = render(owner_references(body).iter());
    let mut controllers = owner_references(body)
        .iter()
        .filter(|it| is_remote(it) && is_controller(it));
    let controller = controllers.next();
    let of_controller = OF_CONTROLLER.map(|(annotation, field)| {
        let value = controller.map_or("", |it| text(it, field));
        (annotation, value.to_owned())
    });
    let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    if let Some(references) = metadata
        .get_mut("ownerReferences")
        .and_then(Value::as_array_mut)
    {
        references.retain(|reference| !is_remote(reference));
        if references.is_empty() {
            metadata.remove("ownerReferences");
        }
    }
    let annotations = metadata
        .entry("annotations")
        .or_insert_with(|| Value::Object(Map::new()));
    annotations[ANNOTATION_OWNERS] = annotation.into();
    for (annotation, value) in of_controller {
        if !value.is_empty() {
            annotations[annotation] = value.into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(uid: &str, controller: bool) -> Value {
        let mut owner = json!({"apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSetPhase",
            "name": "web", "namespace": "shop", "uid": uid});
        if controller {
            owner["controller"] = true.into();
        }
        owner
    }

    #[test]
    fn owners_survive_a_round_trip_through_the_annotation() {
        let native = json!({"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "p"});
        let body = json!({"metadata": {
            "name": "cm",
            "ownerReferences": [native, owner("a", false), owner("b", true)],
            "annotations": {"k": "v"},
        }});
        let mut written = body.clone();
        encode(&mut written);
        assert_eq!(written["metadata"]["ownerReferences"], json!([native]));
        assert_eq!(
            written["metadata"]["annotations"][ANNOTATION_OWNERS],
            concat!(
                r#"[{"apiVersion":"package-operator.run/v1alpha1","kind":"ObjectSetPhase","#,
                r#""name":"web","namespace":"shop","uid":"a"},"#,
                r#"{"apiVersion":"package-operator.run/v1alpha1","kind":"ObjectSetPhase","#,
                r#""name":"web","namespace":"shop","uid":"b","controller":true}]"#,
            )
        );
        decode(&mut written);
        assert_eq!(written, body);
        // Without an owner in another cluster nothing changes.
        let mut native = json!({"metadata": {"ownerReferences": [native]}});
        let before = native.clone();
        encode(&mut native);
        decode(&mut native);
        assert_eq!(native, before);
    }

    #[test]
    fn the_manager_of_the_annotation_owns_its_entries() {
        let mut live = json!({"metadata": {
            "annotations": {ANNOTATION_OWNERS: json!([owner("a", true)]).to_string()},
            "managedFields": [
                {"manager": "package-operator", "fieldsV1": {"f:metadata": {"f:annotations": {FIELD: {}, "f:k": {}}}}},
                {"manager": "other", "fieldsV1": {"f:data": {}}},
            ],
        }});
        decode(&mut live);
        let fields = &live["metadata"]["managedFields"][0]["fieldsV1"]["f:metadata"];
        assert_eq!(
            *fields,
            json!({"f:annotations": {"f:k": {}}, "f:ownerReferences": {"k:{\"uid\":\"a\"}": {".": {}}}})
        );
        assert_eq!(
            live["metadata"]["ownerReferences"],
            json!([owner("a", true)])
        );
    }

    #[test]
    fn hub_and_chain_of_the_controller_are_those_of_all_entries() {
        for (annotation, field) in OF_CONTROLLER {
            let of = |value: Option<&str>, uid, controller| {
                let mut owner = owner(uid, controller);
                if let Some(value) = value {
                    owner[field] = value.into();
                }
                owner
            };
            let body = |owners: [Value; 2]| json!({"metadata": {"annotations": {"k": "v"}, "ownerReferences": owners}});
            for (written, read) in [
                ([Some("h"), Some("h")], Some("h")),
                ([Some("old"), Some("h")], Some("h")),
                ([None, Some("h")], Some("h")),
                ([None, None], None),
            ] {
                let mut object = body([of(written[0], "a", false), of(written[1], "b", true)]);
                encode(&mut object);
                let annotations = &object["metadata"]["annotations"];
                assert_eq!(annotations.get(annotation), read.map(Value::from).as_ref());
                let entries = annotations[ANNOTATION_OWNERS].as_str().unwrap();
                assert!(!entries.contains(field), "{entries}");
                let field = format!("f:{annotation}");
                object["metadata"]["managedFields"] = json!([{"fieldsV1": {"f:metadata": {"f:annotations": {
                    FIELD: {}, field: {}, "f:k": {},
                }}}}]);
                decode(&mut object);
                let owned = &object["metadata"]["managedFields"][0]["fieldsV1"]["f:metadata"];
                assert_eq!(owned["f:annotations"], json!({"f:k": {}}));
                let metadata = object["metadata"].as_object_mut().unwrap();
                metadata.remove("managedFields");
                assert_eq!(object, body([of(read, "a", false), of(read, "b", true)]));
            }
        }
    }

    #[test]
    fn the_uids_of_lost_hubs_are_separated_by_commas_or_blanks() {
        for (text, expected) in [
            ("", &[][..]),
            (" , ", &[]),
            ("a", &["a"]),
            ("b,a", &["a", "b"]),
            ("a, b\n c", &["a", "b", "c"]),
        ] {
            let uids: Vec<_> = lost_hubs(text).into_iter().collect();
            assert_eq!(uids, expected, "{text:?}");
        }
    }

    #[test]
    fn the_last_owner_leaves_an_empty_list() {
        let live = json!({"metadata": {"ownerReferences": [owner("a", true), {"uid": "p"}]}});
        assert_eq!(without(&live, "a").as_deref(), Some("[]"));
        assert_eq!(without(&live, "p"), None);
        assert_eq!(without(&live, "nobody"), None);
    }

    #[test]
    fn an_invalid_list_of_owners_is_empty() {
        for text in ["", "null", "{}", "[1, null]", "no json"] {
            assert!(parse(text).is_empty(), "{text}");
        }
        let sparse = parse(r#"[{"uid": "a"}]"#);
        assert_eq!(sparse, [json!({"uid": "a", "namespace": ""})]);
    }
}
