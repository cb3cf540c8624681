//! Who owns what, at one moment.

use std::collections::BTreeMap;
use std::fmt;

use baton_apis::conditions::{ARCHIVED, AVAILABLE, IN_TRANSITION, PAUSED, SUCCEEDED};
use baton_apis::constants::ANNOTATION_REVISION;
use baton_apis::{ObjectSet, ObjectSetStatusPhase};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::ApiResource;
use kube::{Client, ResourceExt as _};
use serde_json::Value;

use super::NAMESPACE;
use super::cluster::{Error, request, resource};

/// An object of the tour.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    kind: String,
    name: String,
}

impl Key {
    fn new(kind: &str, name: &str) -> Self {
        Self {
            kind: kind.to_owned(),
            name: name.to_owned(),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.name)
    }
}

/// A revision as it describes itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Revision {
    /// Its name.
    pub name: String,
    /// Its number.
    pub number: Option<i64>,
    /// Its state in one word.
    pub phase: ObjectSetStatusPhase,
    /// How many objects it consists of.
    pub objects: usize,
    /// How many of them it controls.
    pub controls: usize,
    /// Its state in detail.
    pub conditions: Vec<Condition>,
}

impl Revision {
    fn of(set: &ObjectSet) -> Self {
        let status = set.status.clone().unwrap_or_default();
        let phases = set.spec.phases.iter().flatten();
        Self {
            name: set.name_any(),
            number: set.spec.revision,
            phase: status.phase,
            objects: phases.map(|phase| phase.objects.len()).sum(),
            controls: status.controller_of.len(),
            conditions: status.conditions,
        }
    }

    /// The condition of that type.
    #[must_use]
    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        self.conditions
            .iter()
            .find(|condition| condition.type_ == type_)
    }

    /// What the conditions say.
    #[must_use]
    pub fn words(&self) -> String {
        let status = |type_| {
            self.condition(type_)
                .map(|condition| condition.status.as_str())
        };
        let archived = status(ARCHIVED) == Some("True");
        let mut words = Vec::new();
        match status(ARCHIVED) {
            Some("True") => words.push("archived".to_owned()),
            Some(_) => words.push("being archived".to_owned()),
            None => {}
        }
        match self.condition(AVAILABLE) {
            Some(available) if available.status == "True" => words.push("available".to_owned()),
            Some(available) => words.push(format!("not available ({})", available.reason)),
            None => {}
        }
        if status(SUCCEEDED) == Some("True") {
            words.push("rolled out".to_owned());
        }
        // An archived revision keeps the condition from before.
        if status(IN_TRANSITION) == Some("True") && !archived {
            words.push("in transition".to_owned());
        }
        if status(PAUSED) == Some("True") {
            words.push("paused".to_owned());
        }
        words.join(", ")
    }

    /// Why it is not available.
    #[must_use]
    pub fn message(&self) -> &str {
        let available = self.condition(AVAILABLE);
        available
            .filter(|condition| condition.status != "True")
            .map_or("", |one| &one.message)
    }
}

/// An object that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Live {
    /// Its identity: another one under the same name has another.
    pub uid: String,
    /// The revision that controls it.
    pub controller: Option<String>,
    /// Further owners.
    pub owners: Vec<String>,
    /// The number of the revision that wrote it last.
    pub revision: Option<String>,
    /// What is worth telling of its content.
    pub content: String,
}

impl Live {
    fn of(kind: &str, object: &DynamicObject) -> Self {
        let (controllers, owners): (Vec<_>, Vec<_>) = object
            .owner_references()
            .iter()
            .partition(|owner| owner.controller == Some(true));
        let mut names = controllers.into_iter().map(|owner| owner.name.clone());
        Self {
            uid: object.uid().unwrap_or_default(),
            controller: names.next(),
            owners: owners.into_iter().map(|owner| owner.name.clone()).collect(),
            revision: object.annotations().get(ANNOTATION_REVISION).cloned(),
            content: content(kind, &object.data),
        }
    }
}

/// The part of an object that the tour changes.
fn content(kind: &str, object: &Value) -> String {
    let pairs = |value: &Value| {
        let pairs = value.as_object().into_iter().flatten();
        let texts = pairs.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or("?")));
        texts.collect::<Vec<_>>().join(", ")
    };
    match kind {
        "ConfigMap" => pairs(&object["data"]),
        "Service" => format!("to {}", pairs(&object["spec"]["selector"])),
        "Deployment" => {
            let containers = object["spec"]["template"]["spec"]["containers"].as_array();
            let image = containers.and_then(|all| all.first()?["image"].as_str());
            let image = image
                .and_then(|image| image.rsplit('/').next())
                .unwrap_or("?");
            let ready = object["status"]["readyReplicas"]
                .as_i64()
                .unwrap_or_default();
            format!("{image}, {ready}/{} ready", object["spec"]["replicas"])
        }
        _ => String::new(),
    }
}

/// The objects that the applied revisions consist of, in the order of their first appearance.
#[derive(Debug, Default)]
pub struct Cast {
    keys: Vec<Key>,
    resources: BTreeMap<String, ApiResource>,
}

impl Cast {
    /// Adds the objects of a revision.
    pub fn add(&mut self, set: &Value) {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        for phase in list(&set["spec"]["phases"]) {
            for entry in list(&phase["objects"]) {
                let object = &entry["object"];
                let resource = resource(object);
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                let key = Key::new(&resource.kind, name);
                if !self.keys.contains(&key) {
                    self.keys.push(key);
                }
                self.resources.insert(resource.kind.clone(), resource);
            }
        }
    }
}

/// Revisions and objects at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Picture {
    /// The revisions, oldest first.
    pub revisions: Vec<Revision>,
    /// The objects, whether they exist or not.
    pub objects: Vec<(Key, Option<Live>)>,
}

impl Picture {
    /// Looks at the cluster.
    ///
    /// # Errors
    ///
    /// When the server does not answer.
    pub async fn take(client: &Client, cast: &Cast) -> Result<Self, Error> {
        let all = ListParams::default();
        let sets: Api<ObjectSet> = Api::namespaced(client.clone(), NAMESPACE);
        let sets = sets
            .list(&all)
            .await
            .map_err(request("listing ObjectSets"))?;
        let mut live = BTreeMap::new();
        for (kind, resource) in &cast.resources {
            let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), NAMESPACE, resource);
            let objects = api
                .list(&all)
                .await
                .map_err(request(&format!("listing {kind}s")))?;
            for object in objects {
                live.insert(Key::new(kind, &object.name_any()), Live::of(kind, &object));
            }
        }
        let mut revisions: Vec<Revision> = sets.iter().map(Revision::of).collect();
        // Whose number is not known yet is the youngest.
        revisions
            .sort_by_key(|revision| (revision.number.unwrap_or(i64::MAX), revision.name.clone()));
        let objects = cast
            .keys
            .iter()
            .map(|key| (key.clone(), live.remove(key)))
            .collect();
        Ok(Self { revisions, objects })
    }

    /// The revision of that name.
    #[must_use]
    pub fn revision(&self, name: &str) -> Option<&Revision> {
        self.revisions.iter().find(|revision| revision.name == name)
    }

    /// The object `Kind/name`, if it exists.
    #[must_use]
    pub fn object(&self, key: &str) -> Option<&Live> {
        let mut objects = self.objects.iter();
        objects
            .find(|(other, _)| other.to_string() == key)?
            .1
            .as_ref()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    /// A picture from manifests as the server returns them.
    pub fn picture(sets: &[Value], objects: &[Value]) -> Picture {
        let revisions = sets
            .iter()
            .map(|set| Revision::of(&serde_json::from_value(set.clone()).unwrap()));
        let objects = objects.iter().map(|object| {
            let kind = object["kind"].as_str().unwrap();
            let parsed: DynamicObject = serde_json::from_value(object.clone()).unwrap();
            (
                Key::new(kind, &parsed.name_any()),
                Some(Live::of(kind, &parsed)),
            )
        });
        Picture {
            revisions: revisions.collect(),
            objects: objects.collect(),
        }
    }

    pub fn set(name: &str, number: i64, conditions: &[(&str, &str, &str)]) -> Value {
        let conditions = conditions.iter().map(|(type_, status, reason)| {
            json!({"type": type_, "status": status, "reason": reason, "message": format!("{reason} it is"),
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
        });
        json!({
            "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSet",
            "metadata": {"name": name},
            "spec": {"revision": number, "phases": [{"name": "a", "objects": [
                {"object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}},
                {"object": {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "shop"}}},
            ]}]},
            "status": {
                "phase": "Available",
                "conditions": conditions.collect::<Vec<_>>(),
                "controllerOf": [{"kind": "ConfigMap", "group": "", "name": "settings", "version": ""}],
            },
        })
    }

    pub fn settings(uid: &str, owners: &[(&str, bool)]) -> Value {
        let owners = owners.iter().map(|(name, controller)| {
            json!({"apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSet", "name": name,
                "uid": name, "controller": controller})
        });
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "settings", "uid": uid, "ownerReferences": owners.collect::<Vec<_>>(),
                "annotations": {"package-operator.run/revision": "2"}},
            "data": {"greeting": "hello"},
        })
    }

    #[test]
    fn revisions_are_put_into_words() {
        let words = |conditions: &[(&str, &str, &str)]| {
            let picture = picture(&[set("v1", 1, conditions)], &[]);
            let revision = picture.revision("v1").unwrap().clone();
            (revision.words(), revision.message().to_owned())
        };
        let check = |conditions: &[(&str, &str, &str)], expected: &str, message: &str| {
            assert_eq!(words(conditions), (expected.to_owned(), message.to_owned()));
        };
        check(&[], "", "");
        check(
            &[
                ("Available", "True", "Available"),
                ("Succeeded", "True", "RolloutSuccess"),
            ],
            "available, rolled out",
            "",
        );
        check(
            &[
                ("Available", "False", "ProbeFailure"),
                ("InTransition", "True", "InTransition"),
            ],
            "not available (ProbeFailure), in transition",
            "ProbeFailure it is",
        );
        check(
            &[
                ("Archived", "True", "Archived"),
                ("Succeeded", "True", "RolloutSuccess"),
                ("InTransition", "True", "InTransition"),
            ],
            "archived, rolled out",
            "",
        );
        check(
            &[("Archived", "False", "ArchivalInProgress")],
            "being archived",
            "",
        );
    }

    #[test]
    fn revisions_count_their_objects() {
        let picture = picture(&[set("v1", 1, &[])], &[]);
        let revision = picture.revision("v1").unwrap();
        assert_eq!(
            (revision.objects, revision.controls, revision.number),
            (2, 1, Some(1))
        );
    }

    #[test]
    fn objects_know_their_owners() {
        let picture = picture(&[], &[settings("u", &[("v1", false), ("v2", true)])]);
        let expected = Live {
            uid: "u".to_owned(),
            controller: Some("v2".to_owned()),
            owners: vec!["v1".to_owned()],
            revision: Some("2".to_owned()),
            content: "greeting=hello".to_owned(),
        };
        assert_eq!(picture.object("ConfigMap/settings"), Some(&expected));
        assert_eq!(picture.object("ConfigMap/other"), None);
    }

    #[test]
    fn content_is_what_the_tour_changes() {
        let service = json!({"spec": {"selector": {"app": "shop", "track": "b"}}});
        assert_eq!(content("Service", &service), "to app=shop, track=b");
        let deployment = json!({
            "spec": {"replicas": 2, "template": {"spec": {"containers": [{"image": "a.example/x/shop:1.0"}]}}},
            "status": {"readyReplicas": 1},
        });
        assert_eq!(content("Deployment", &deployment), "shop:1.0, 1/2 ready");
        assert_eq!(content("Secret", &json!({"data": {"a": "b"}})), "");
    }

    #[test]
    fn the_cast_grows_with_the_revisions() {
        let mut cast = Cast::default();
        cast.add(&set("v1", 1, &[]));
        cast.add(&set("v2", 2, &[]));
        let keys: Vec<String> = cast.keys.iter().map(ToString::to_string).collect();
        assert_eq!(keys, ["ConfigMap/settings", "Service/shop"]);
        assert_eq!(cast.resources["Service"].plural, "services");
    }
}
