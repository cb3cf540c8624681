//! The content of revisions: their phases with the objects of slices inserted, completed as the
//! manager writes them.

use std::collections::{BTreeMap, BTreeSet};

use baton_apis::{
    ObjectSetObject, ObjectSetTemplatePhase,
    constants::{CLASS_CLUSTER_PREFIX, CLASS_DEFAULT, LABEL_OBJECT_DEPLOYMENT},
};
use baton_engine::{
    autoscaling::leave_replicas,
    object::Identity,
    revision as engine,
    revision::{Delivery, Desired, prepare},
};
use serde_json::Value;

use crate::{
    chain::member::Revision,
    lists::{ListRequest, Lists, Necessity, NoAnswer, Question, join_all},
    object::namespaced_name,
};

/// The phases of a revision with the objects that they want.
#[derive(Clone, Debug, Default)]
pub struct RevisionContent {
    /// The phases, in the order in which they roll out.
    pub phases: Vec<Phase>,
}

/// The content of revisions, by the UID of the revision.
pub type Contents = BTreeMap<String, RevisionContent>;

/// A revision with its content.
pub type WantedRevision<'a> = (&'a Revision, &'a RevisionContent);

/// A phase with the objects that it wants.
#[derive(Clone, Debug, Default)]
pub struct Phase {
    /// Name of the phase; several phases of a revision may have the same.
    pub name: String,
    /// Class of the controller that runs the phase; empty for the controller of the revision.
    pub class: String,
    /// Inline objects, followed by those of slices, completed as the manager writes them.
    pub objects: Vec<Desired>,
    /// Names of slices that do not exist.
    pub missing_slices: Vec<String>,
}

impl Phase {
    /// True if another controller writes the objects, through an `ObjectSetPhase`.
    pub fn is_delegated(&self) -> bool {
        !self.class.is_empty()
    }

    /// The way in which the objects are delivered. Objects of a class that the manager does not
    /// serve are taken to be elsewhere.
    pub fn delivery(&self) -> Delivery {
        delivery(&self.class)
    }

    /// The class that delivers the objects into another cluster; empty for the cluster of the
    /// revision.
    pub fn delivery_class(&self) -> &str {
        if self.is_here() { "" } else { &self.class }
    }

    /// True if the objects are in the cluster of the revision, where they can be read.
    pub fn is_here(&self) -> bool {
        self.delivery() != Delivery::Remote
    }
}

/// The classes that Baton serves, for people.
pub const SERVED: &str = "Baton serves only the classes default and cluster.NAME";

/// True if Baton serves a class. Other classes need a controller of their own.
pub fn is_served(class: &str) -> bool {
    class.is_empty() || class == CLASS_DEFAULT || class.starts_with(CLASS_CLUSTER_PREFIX)
}

fn delivery(class: &str) -> Delivery {
    match class {
        "" => Delivery::InProcess,
        CLASS_DEFAULT => Delivery::Delegated,
        _ => Delivery::Remote,
    }
}

impl RevisionContent {
    /// All objects with their phases, in order.
    pub fn placed(&self) -> impl Iterator<Item = (&Phase, &Desired)> {
        let phases = self.phases.iter();
        phases.flat_map(|phase| phase.objects.iter().map(move |object| (phase, object)))
    }

    /// All objects, in order.
    pub fn objects(&self) -> impl Iterator<Item = &Desired> {
        self.phases.iter().flat_map(|phase| &phase.objects)
    }
}

/// The slices that some revisions name.
#[derive(Clone, Debug, Default)]
pub struct Slices {
    by_name: BTreeMap<(String, String), Vec<ObjectSetObject>>,
    /// Slices that deployments made for large phases of their templates, with their objects as the
    /// server returned them.
    made: BTreeMap<(String, String), Value>,
}

impl Slices {
    /// Adds a slice, as the server returned it.
    pub fn insert(&mut self, mut slice: Value) {
        let key = namespaced_name(&slice);
        let objects = slice["objects"].take();
        if slice["metadata"]["labels"]
            .get(LABEL_OBJECT_DEPLOYMENT)
            .is_some()
        {
            self.made.insert(key.clone(), objects.clone());
        }
        let objects = serde_json::from_value(objects).unwrap_or_default();
        self.by_name.insert(key, objects);
    }

    /// A revision with the objects inline again that its deployment has moved from the template to
    /// slices.
    pub fn inlined(&self, revision: &Revision) -> Value {
        let mut object = revision.object.clone();
        let phases = object
            .pointer_mut("/spec/phases")
            .and_then(Value::as_array_mut);
        for phase in phases.into_iter().flatten() {
            let Some([first, rest @ ..]) = phase["slices"].as_array().map(Vec::as_slice) else {
                continue;
            };
            let namespace = revision.namespace().unwrap_or_default().to_owned();
            let name = first.as_str().unwrap_or_default().to_owned();
            let (objects, rest) = (self.made.get(&(namespace, name)), rest.to_vec());
            let (Some(objects), Some(fields)) = (objects, phase.as_object_mut()) else {
                continue;
            };
            if fields.contains_key("objects") {
                continue;
            }
            fields.insert("objects".to_owned(), objects.clone());
            if rest.is_empty() {
                fields.remove("slices");
            } else {
                fields.insert("slices".to_owned(), rest.into());
            }
        }
        object
    }

    fn get(&self, namespace: Option<&str>, name: &str) -> Option<&Vec<ObjectSetObject>> {
        let key = (namespace.unwrap_or_default().to_owned(), name.to_owned());
        self.by_name.get(&key)
    }

    /// Number of objects that a revision wants; `None` if a slice is missing or was not read.
    pub fn count(&self, revision: &Revision) -> Option<usize> {
        let phases = revision.spec.phases.iter().flatten();
        let counts = phases.map(|phase| {
            let in_slice = |name| Some(self.get(revision.namespace(), name)?.len());
            let in_slices: Option<usize> = phase.slices.iter().map(|name| in_slice(name)).sum();
            Some(phase.objects.len() + in_slices?)
        });
        counts.sum()
    }

    /// The content of a revision. Slices that were not read count as missing.
    pub fn content(&self, revision: &Revision) -> RevisionContent {
        let engine = engine::Revision {
            identity: identity(revision),
            number: revision.number().unwrap_or_default(),
            lifecycle: revision.spec.lifecycle_state,
            ..engine::Revision::default()
        };
        self.resolve(
            &engine,
            revision.namespace(),
            revision.spec.phases.as_deref().unwrap_or_default(),
        )
    }

    /// The content of phases that belong to no revision yet, such as those of a template.
    /// `revision` has the scope, the namespace and the number with which the objects are completed.
    pub fn resolve(
        &self,
        revision: &engine::Revision,
        namespace: Option<&str>,
        phases: &[ObjectSetTemplatePhase],
    ) -> RevisionContent {
        let mut missing = Vec::new();
        let mut whole_phases = phases.to_vec();
        for whole in &mut whole_phases {
            let mut missing_slices = Vec::new();
            for name in &std::mem::take(&mut whole.slices) {
                match self.get(namespace, name) {
                    Some(objects) => whole.objects.extend(objects.iter().cloned()),
                    None => missing_slices.push(name.clone()),
                }
            }
            missing.push(missing_slices);
        }
        leave_replicas(&mut whole_phases, &revision.identity.namespace);
        let phases = whole_phases
            .into_iter()
            .zip(missing)
            .map(|(whole, missing_slices)| {
                let (name, class) = (whole.name.clone(), whole.class.clone());
                let revision = engine::Revision {
                    delivery: delivery(&class),
                    ..revision.clone()
                };
                let prepared = prepare(&revision, vec![whole]).into_iter();
                Phase {
                    name,
                    class,
                    objects: prepared.flat_map(|phase| phase.objects).collect(),
                    missing_slices,
                }
            });
        RevisionContent {
            phases: phases.collect(),
        }
    }
}

/// The identity of a revision, as its objects refer to it.
pub fn identity(revision: &Revision) -> Identity {
    Identity {
        kind: revision.kind.name.to_owned(),
        namespace: revision.namespace().unwrap_or_default().to_owned(),
        name: revision.name().to_owned(),
        uid: revision.uid().to_owned(),
        is_remote: false,
        hub: String::new(),
        chain: String::new(),
    }
}

/// The slices of revisions; nothing is requested if the revisions name none.
pub struct SlicesOf<'a> {
    revisions: Vec<&'a Revision>,
    need: Necessity,
}

impl<'a> SlicesOf<'a> {
    /// All slices; without them there is no answer.
    #[must_use]
    pub fn required(revisions: impl IntoIterator<Item = &'a Revision>) -> Self {
        Self {
            revisions: revisions.into_iter().collect(),
            need: Necessity::Required,
        }
    }

    /// A question for the slices of revisions, which is answered even if some cannot be read.
    #[must_use]
    pub fn optional(revisions: impl IntoIterator<Item = &'a Revision>) -> Self {
        Self {
            need: Necessity::Optional,
            ..Self::required(revisions)
        }
    }
}

impl Question for SlicesOf<'_> {
    type Answer = Slices;

    fn answer(&self, lists: &Lists) -> Result<Slices, NoAnswer> {
        let mut requests = BTreeSet::new();
        for revision in &self.revisions {
            let path = revision.kind.slice().path(revision.namespace());
            let names = revision.spec.phases.iter().flatten();
            let names = names.flat_map(|phase| &phase.slices);
            requests.extend(names.map(|name| ListRequest::immutable(&*path, name)));
        }
        let mut slices = Slices::default();
        for list in join_all(requests.iter().map(|it| lists.ask(it, self.need)))? {
            list.objects()
                .for_each(|slice| slices.insert(slice.clone()));
        }
        Ok(slices)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn slices_of_a_deployment_are_inline_in_its_template() {
        let object =
            |name: &str| json!({"object": {"kind": "ConfigMap", "metadata": {"name": name}}});
        let revision = Revision::parse(json!({
            "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSet",
            "metadata": {"name": "web-1", "namespace": "shop", "uid": "u"},
            "spec": {"phases": [
                {"name": "a", "slices": ["made", "own"]},
                {"name": "b", "slices": ["made"]},
                {"name": "c", "slices": ["own"]},
                {"name": "d", "objects": [object("inline")], "slices": ["made"]},
            ]},
        }))
        .unwrap();
        let mut slices = Slices::default();
        let label = json!({"package-operator.run/object-deployment": "web"});
        for (name, labels) in [("made", label), ("own", json!({}))] {
            slices.insert(json!({
                "metadata": {"name": name, "namespace": "shop", "labels": labels}, "objects": [object(name)],
            }));
        }
        let inlined = slices.inlined(&revision);
        let expected = json!([
            {"name": "a", "objects": [object("made")], "slices": ["own"]},
            {"name": "b", "objects": [object("made")]},
            {"name": "c", "slices": ["own"]},
            {"name": "d", "objects": [object("inline")], "slices": ["made"]},
        ]);
        assert_eq!(inlined["spec"]["phases"], expected);
    }

    #[test]
    fn slices_follow_the_inline_objects_and_may_be_missing() {
        let object = |name: &str| {
            json!({"object": {"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name}}})
        };
        let revision = Revision::parse(json!({
            "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSet",
            "metadata": {"name": "web-1", "namespace": "shop", "uid": "u"},
            "spec": {"revision": 3, "phases": [
                {"name": "a", "objects": [object("inline")], "slices": ["s1", "gone"]},
                {"name": "b", "class": "elsewhere", "objects": [object("far")]},
            ]},
        }))
        .unwrap();
        let mut slices = Slices::default();
        slices.insert(json!({
            "metadata": {"name": "s1", "namespace": "shop"}, "objects": [object("sliced")],
        }));
        // The slice of the same name in another namespace is another slice.
        slices.insert(json!({
            "metadata": {"name": "gone", "namespace": "other"}, "objects": [object("no")],
        }));
        let content = slices.content(&revision);
        let names: Vec<&str> = content.objects().map(|o| o.key.name.as_str()).collect();
        assert_eq!(names, ["inline", "sliced", "far"]);
        let first = &content.phases[0];
        assert_eq!(first.missing_slices, ["gone"]);
        assert!(!first.is_delegated() && content.phases[1].is_delegated());
        assert_eq!(first.objects[1].key.namespace, "shop");
        assert_eq!(
            first.objects[1].manifest.pointer("/metadata/annotations"),
            Some(&json!({"package-operator.run/revision": "3"}))
        );
    }
}
