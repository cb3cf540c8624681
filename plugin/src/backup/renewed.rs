//! An object of a backup as it is created again: with the UIDs and generations that the new hub gives.

use std::collections::BTreeMap;

use baton_apis::{
    constants::{ANNOTATION_LOST_HUBS, ANNOTATION_RESTORED_FROM, shipper},
    kinds,
};
use baton_engine::owners::lost_hubs;
use baton_view::object::text_at;
use serde_json::{Value, json};

use super::CONTROLLER_REVISION;

/// The generation of an object that was just created.
const FIRST: i64 = 1;

/// Number of characters of a UID.
const UID: usize = 36;
/// Place of the first dash in a UID.
const UID_DASH: usize = 8;

/// The identities of a backup in the new hub.
#[derive(Clone, Debug, Default)]
pub(super) struct Identities {
    /// The new UID of each object that exists again, by its old UID.
    pub(super) uids: BTreeMap<String, String>,
    /// The generation that each object had, by its old UID.
    pub(super) generations: BTreeMap<String, i64>,
    /// Checksum of the backup.
    pub(super) checksum: String,
    /// UID of the hub that the backup was made of, unless the new hub has the same.
    pub(super) lost_hub: Option<String>,
}

/// The object to create. Its status has the old UIDs of objects that do not exist yet.
pub(super) fn created(object: &Value, identities: &Identities) -> Value {
    let mut new = object.clone();
    new["metadata"] = identities.renewed(&object["metadata"]);
    let Some(metadata) = new["metadata"].as_object_mut() else {
        return new;
    };
    for field in [
        "uid",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        metadata.remove(field);
    }
    let lost_hub = identities
        .lost_hub
        .as_ref()
        .filter(|_| names_lost_hubs(object));
    let before = text_at(object, &pointer(ANNOTATION_LOST_HUBS));
    let annotations = &mut new["metadata"]["annotations"];
    if !annotations.is_object() {
        *annotations = json!({});
    }
    annotations[ANNOTATION_RESTORED_FROM] = identities.checksum.clone().into();
    if let Some(lost_hub) = lost_hub {
        let mut all = lost_hubs(before);
        all.insert(lost_hub.clone());
        annotations[ANNOTATION_LOST_HUBS] = Vec::from_iter(all).join(",").into();
    }
    if CONTROLLER_REVISION.is_of(object)
        && let Some(generation) = identities.owner_generation(object)
    {
        // The record of chosen sites names the generation of its deployment. A choice for an earlier
        // generation stays one.
        let revision = object["revision"].as_i64().unwrap_or_default();
        new["revision"] = (FIRST - i64::from(revision < generation)).into();
    }
    new["status"] = status(object, identities);
    if new["status"].is_null()
        && let Some(new) = new.as_object_mut()
    {
        new.remove("status");
    }
    new
}

/// The status of the object, with the new UIDs and generations; null if it has none.
pub(super) fn status(object: &Value, identities: &Identities) -> Value {
    let mut status = identities.renewed(&object["status"]);
    let generation = object["metadata"]["generation"].as_i64();
    set_generations(&mut status, generation.unwrap_or(FIRST));
    status
}

impl Identities {
    /// A value with new UIDs in all texts.
    fn renewed(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.renewed_text(text).into(),
            Value::Array(items) => items.iter().map(|it| self.renewed(it)).collect(),
            Value::Object(fields) => {
                let fields = fields.iter();
                let fields = fields.map(|(key, value)| (key.clone(), self.renewed(value)));
                Value::Object(fields.collect())
            }
            other => other.clone(),
        }
    }

    /// A text with new UIDs. UIDs can be part of a text, as in an annotation that contains JSON.
    fn renewed_text(&self, text: &str) -> String {
        let mut new = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let is_uid = rest.as_bytes().get(UID_DASH) == Some(&b'-');
            let uid = is_uid.then(|| self.uids.get(rest.get(..UID)?)).flatten();
            let length = if let Some(uid) = uid {
                new.push_str(uid);
                UID
            } else {
                new.push(first);
                first.len_utf8()
            };
            rest = &rest[length..];
        }
        new
    }

    /// The generation of the `SiteDeployment` that owns a record.
    fn owner_generation(&self, record: &Value) -> Option<i64> {
        let owners = record["metadata"]["ownerReferences"].as_array()?;
        // A deployment is also among the owners of the versions that it uses.
        let is_controller =
            |it: &&Value| kinds::SITE_DEPLOYMENT.is_of(it) && it["controller"] == true;
        let owner = owners.iter().find(is_controller)?;
        self.generations.get(text_at(owner, "/uid")).copied()
    }
}

/// True if the annotation for lost hubs has a meaning on the kind of the object.
fn names_lost_hubs(object: &Value) -> bool {
    let is_phase =
        kinds::OBJECT_SET_PHASE.is_of(object) || kinds::CLUSTER_OBJECT_SET_PHASE.is_of(object);
    if is_phase {
        // The phase of a revision has that of its revision.
        return object["metadata"]["ownerReferences"].is_null();
    }
    let kinds = [
        &kinds::APPLICATION,
        &kinds::SITE_DEPLOYMENT,
        &kinds::OBJECT_DEPLOYMENT,
        &kinds::CLUSTER_OBJECT_DEPLOYMENT,
        &kinds::OBJECT_SET,
        &kinds::CLUSTER_OBJECT_SET,
    ];
    kinds.iter().any(|kind| kind.is_of(object))
}

/// Replaces the generation that a status was observed at: that of the object by the first one, and
/// earlier ones by one before.
fn set_generations(status: &mut Value, of_object: i64) {
    match status {
        Value::Array(items) => items
            .iter_mut()
            .for_each(|it| set_generations(it, of_object)),
        Value::Object(fields) => {
            for (key, value) in fields {
                match value.as_i64() {
                    Some(observed) if key == "observedGeneration" => {
                        *value = (FIRST - i64::from(observed < of_object)).into();
                    }
                    _ => set_generations(value, of_object),
                }
            }
        }
        _ => {}
    }
}

/// The pointer to an annotation.
fn pointer(annotation: &str) -> String {
    format!("/metadata/annotations/{}", annotation.replace('/', "~1"))
}

/// True if an object was created by the restore of a backup with this checksum.
pub(super) fn is_restored_from(object: &Value, checksum: &str) -> bool {
    text_at(object, &pointer(ANNOTATION_RESTORED_FROM)) == checksum
}

/// True if the status of the kind is written apart from the object.
pub(super) fn has_subresource(object: &Value) -> bool {
    object["apiVersion"] != shipper::API_VERSION
        || kinds::CAPACITY_TARGET.is_of(object)
        || kinds::TRAFFIC_TARGET.is_of(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "aaaaaaaa-1111-2222-3333-444444444444";
    const NEW: &str = "bbbbbbbb-1111-2222-3333-444444444444";
    const HUB: &str = "cccccccc-1111-2222-3333-444444444444";

    fn identities() -> Identities {
        Identities {
            uids: [(OLD.to_owned(), NEW.to_owned())].into(),
            generations: [(OLD.to_owned(), 7)].into(),
            checksum: "sha256:1".to_owned(),
            lost_hub: Some(HUB.to_owned()),
        }
    }

    #[test]
    fn uids_and_generations_are_those_of_the_new_hub() {
        let object = json!({
            "apiVersion": kinds::OBJECT_SET.api_version, "kind": "ObjectSet",
            "metadata": {
                "name": "web-1", "uid": "own", "generation": 3, "creationTimestamp": "t",
                "annotations": {
                    "origin": format!("{{\"uid\":\"{OLD}\"}}ü{OLD}"), ANNOTATION_LOST_HUBS: "other",
                },
                "ownerReferences": [{ "uid": OLD }],
            },
            "spec": { "text": OLD },
            "status": {
                "remotePhases": [{ "uid": OLD }],
                "conditions": [{ "observedGeneration": 3 }, { "observedGeneration": 2 }],
            },
        });
        let expected = json!({
            "apiVersion": kinds::OBJECT_SET.api_version, "kind": "ObjectSet",
            "metadata": {
                "name": "web-1",
                "annotations": {
                    "origin": format!("{{\"uid\":\"{NEW}\"}}ü{NEW}"),
                    ANNOTATION_LOST_HUBS: format!("{HUB},other"),
                    ANNOTATION_RESTORED_FROM: "sha256:1",
                },
                "ownerReferences": [{ "uid": NEW }],
            },
            "spec": { "text": OLD },
            "status": {
                "remotePhases": [{ "uid": NEW }],
                "conditions": [{ "observedGeneration": 1 }, { "observedGeneration": 0 }],
            },
        });
        let new = created(&object, &identities());
        assert_eq!(new, expected);
        assert!(is_restored_from(&new, "sha256:1"));
        assert!(!is_restored_from(&object, "sha256:1"));
        let same_hub = Identities {
            lost_hub: None,
            ..identities()
        };
        let new = created(&object, &same_hub);
        assert_eq!(text_at(&new, &pointer(ANNOTATION_LOST_HUBS)), "other");
    }

    #[test]
    fn a_record_of_chosen_sites_is_for_the_generation_of_its_deployment() {
        for (revision, expected) in [(7, 1), (6, 0)] {
            let mut record = json!({
                "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": revision,
                "metadata": { "name": "shop-sites", "ownerReferences": [{
                    "apiVersion": kinds::SITE_DEPLOYMENT.api_version, "kind": "SiteDeployment", "uid": OLD,
                    "controller": true,
                }] },
            });
            assert_eq!(created(&record, &identities())["revision"], expected);
            // The number of a version stays.
            record["metadata"]["ownerReferences"][0]["controller"] = false.into();
            assert_eq!(created(&record, &identities())["revision"], revision);
            record["metadata"]["ownerReferences"][0]["kind"] = "SiteApplication".into();
            assert_eq!(created(&record, &identities())["revision"], revision);
        }
    }
}
