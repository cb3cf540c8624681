//! What revisions want: their phases, with the objects of slices in place, as the manager itself
//! prepares them for writing.

use std::collections::{BTreeMap, BTreeSet};

use baton::engine::{
    object::Identity,
    revision::{self as engine, Delivery, Desired, prepare},
};
use baton_apis::{ObjectSetObject, ObjectSetTemplatePhase, constants::CLASS_DEFAULT};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::Value;

use crate::{
    chain::Revision,
    connect::{Cluster, ListQuery},
    error::Error,
    output::place,
    target::Kind,
};

/// Up to so many objects of a collection are read one by one; more, and the collection is listed.
pub const FEW: usize = 8;

/// Requests under way at the same time.
const SIDE_BY_SIDE: usize = 8;

/// What a revision wants.
#[derive(Clone, Debug, Default)]
pub struct Content {
    /// In the order in which they roll out.
    pub phases: Vec<Phase>,
}

/// A phase and what it wants.
#[derive(Clone, Debug, Default)]
pub struct Phase {
    /// Name; several phases of a revision may have the same.
    pub name: String,
    /// Which controller runs it; empty for the revision's own.
    pub class: String,
    /// Inline objects and then those of slices, completed as the manager writes them.
    pub objects: Vec<Desired>,
    /// Slices that it names and that do not exist.
    pub missing_slices: Vec<String>,
}

impl Phase {
    /// Whether another controller writes its objects, through an `ObjectSetPhase`.
    #[must_use]
    pub fn is_delegated(&self) -> bool {
        !self.class.is_empty()
    }

    /// How its objects get to where they belong. Of a class that the manager does not serve nothing is known, so they
    /// are taken to be elsewhere.
    #[must_use]
    pub fn delivery(&self) -> Delivery {
        delivery(&self.class)
    }

    /// Whether its objects are in the cluster of its revision, where they can be read.
    #[must_use]
    pub fn is_here(&self) -> bool {
        self.delivery() != Delivery::Remote
    }
}

fn delivery(class: &str) -> Delivery {
    match class {
        "" => Delivery::InProcess,
        CLASS_DEFAULT => Delivery::Delegated,
        _ => Delivery::Remote,
    }
}

impl Content {
    /// All objects, in order.
    pub fn objects(&self) -> impl Iterator<Item = &Desired> {
        self.phases.iter().flat_map(|phase| &phase.objects)
    }
}

/// The slices that some revisions name.
#[derive(Clone, Debug, Default)]
pub struct Slices {
    by_name: BTreeMap<(String, String), Vec<ObjectSetObject>>,
}

impl Slices {
    /// Reads the slices of revisions; no request when they name none.
    ///
    /// # Errors
    /// They cannot be read. One that does not exist is no error: see [`Phase::missing_slices`].
    pub async fn read<'a>(
        cluster: &Cluster,
        revisions: impl IntoIterator<Item = &'a Revision>,
    ) -> Result<Self, Error> {
        let mut wanted: BTreeMap<(Kind, Option<&str>), BTreeSet<String>> = BTreeMap::new();
        for revision in revisions {
            let names = revision.spec.phases.iter().flatten();
            let names = names.flat_map(|phase| phase.slices.iter().cloned());
            wanted
                .entry((revision.kind, revision.namespace()))
                .or_default()
                .extend(names);
        }
        let mut slices = Self::default();
        for ((kind, namespace), names) in wanted {
            let collection = collection(kind, namespace);
            for slice in read_some(cluster, &collection, &names, &ListQuery::default()).await? {
                slices.insert(slice);
            }
        }
        Ok(slices)
    }

    /// Adds one, as the server returned it.
    pub fn insert(&mut self, mut slice: Value) {
        let place = place(&slice);
        let objects = serde_json::from_value(slice["objects"].take()).unwrap_or_default();
        self.by_name.insert(place, objects);
    }

    /// Whether a slice is here already.
    #[must_use]
    pub fn contains(&self, namespace: Option<&str>, name: &str) -> bool {
        self.get(namespace, name).is_some()
    }

    fn get(&self, namespace: Option<&str>, name: &str) -> Option<&Vec<ObjectSetObject>> {
        let place = (namespace.unwrap_or_default().to_owned(), name.to_owned());
        self.by_name.get(&place)
    }

    /// What a revision wants. Slices that were not read count as missing.
    #[must_use]
    pub fn content(&self, revision: &Revision) -> Content {
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

    /// What phases want that are not a revision's yet, such as those of a template. `revision` gives
    /// the scope, the namespace and the number that the objects are completed with.
    #[must_use]
    pub fn resolve(
        &self,
        revision: &engine::Revision,
        namespace: Option<&str>,
        phases: &[ObjectSetTemplatePhase],
    ) -> Content {
        let phases = phases.iter().map(|phase| {
            let mut whole = phase.clone();
            let mut missing_slices = Vec::new();
            for name in &phase.slices {
                match self.get(namespace, name) {
                    Some(objects) => whole.objects.extend(objects.iter().cloned()),
                    None => missing_slices.push(name.clone()),
                }
            }
            let revision = engine::Revision {
                delivery: delivery(&phase.class),
                ..revision.clone()
            };
            let prepared = prepare(&revision, vec![whole]).into_iter();
            Phase {
                name: phase.name.clone(),
                class: phase.class.clone(),
                objects: prepared.flat_map(|phase| phase.objects).collect(),
                missing_slices,
            }
        });
        Content {
            phases: phases.collect(),
        }
    }
}

/// A revision as its objects name it.
#[must_use]
pub fn identity(revision: &Revision) -> Identity {
    Identity {
        kind: revision.kind.name().to_owned(),
        namespace: revision.namespace().unwrap_or_default().to_owned(),
        name: revision.name().to_owned(),
        uid: revision.uid().to_owned(),
        is_remote: false,
    }
}

fn collection(kind: Kind, namespace: Option<&str>) -> String {
    let path = kind.path(namespace);
    let root = path
        .rsplit_once('/')
        .map_or(path.as_str(), |(root, _)| root);
    let plural = if kind.is_namespaced() {
        "objectslices"
    } else {
        "clusterobjectslices"
    };
    format!("{root}/{plural}")
}

/// Reads those objects of a collection that have one of the names: a few one by one, many by a list.
///
/// # Errors
/// Refused, or no answer. What does not exist is no error.
pub async fn read_some(
    cluster: &Cluster,
    collection: &str,
    names: &BTreeSet<String>,
    query: &ListQuery,
) -> Result<Vec<Value>, Error> {
    if names.len() > FEW {
        let mut found = cluster.list_at(collection, query).await?;
        found.retain(|object| {
            let name = object.pointer("/metadata/name").and_then(Value::as_str);
            name.is_some_and(|name| names.contains(name))
        });
        return Ok(found);
    }
    let reads = names.iter().map(|name| {
        let path = format!("{collection}/{name}");
        async move { cluster.get_at(&path).await }
    });
    let found = stream::iter(reads).buffered(SIDE_BY_SIDE);
    found
        .try_filter_map(|object| async { Ok(object) })
        .try_collect()
        .await
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn slices_follow_the_inline_objects_and_may_be_missing() {
        let object = |name: &str| json!({"object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}});
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
        // The same name elsewhere is another slice.
        slices.insert(json!({
            "metadata": {"name": "gone", "namespace": "other"}, "objects": [object("no")],
        }));
        assert!(slices.contains(Some("shop"), "s1"));
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
