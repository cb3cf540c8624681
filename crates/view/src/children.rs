//! The objects of revisions as they are in the cluster: their existence, their controller, and the
//! results of the revision's own probes.
//!
//! One list per kind and namespace reads the objects with the label of managed objects. A wanted
//! object that is not among them does not exist, or is not managed: a few of them are read one by
//! one, many by one more list of the kind.

use std::collections::{BTreeMap, BTreeSet};

use baton_engine::{
    Gvk, ObjectKey,
    object::{controller, text},
    owners,
};
use baton_probes::Probes;
use serde_json::Value;

use crate::{
    chain::{Chain, member::Revision},
    content::WantedRevision,
    delegates::Delegates,
    lists::{List, ListQuery, ListRequest, Lists, NoAnswer, Question, join_all},
    object::place,
    served::{MAX_SINGLE_READS, Served, Unserved},
};

/// The parts of the objects to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// All objects, whole.
    Whole,
    /// Objects of kinds that a probe selects, whole; the metadata of all others.
    AsProbed,
}

/// Objects as they are in the cluster.
#[derive(Clone, Debug, Default)]
pub struct Children {
    live: BTreeMap<ObjectKey, Value>,
    /// Kinds that could not be read, by group and kind, with the reason.
    unreadable: BTreeMap<(String, String), Unserved>,
}

/// The result of a lookup of an object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LookupResult<'a> {
    /// The object as the server has it.
    Live(&'a Value),
    /// The object does not exist.
    Missing,
    /// The kind of the object cannot be read.
    Unreadable(&'a Unserved),
}

/// The controller of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A revision of the chain.
    Revision {
        /// Name of the revision.
        name: String,
        /// Number of the revision; `None` if none is assigned yet.
        number: Option<i64>,
        /// Name of the `ObjectSetPhase` that controls the object, if the phase is delegated.
        through: Option<String>,
    },
    /// Another object.
    Stranger {
        /// Kind of the controller.
        kind: String,
        /// Name of the controller.
        name: String,
    },
    /// There is no controller.
    Nobody,
}

/// The wanted objects of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Collection {
    /// The kind of the objects.
    gvk: Gvk,
    /// The wanted objects.
    keys: BTreeSet<ObjectKey>,
    /// True if only the metadata of the objects is read.
    metadata_only: bool,
}

impl Children {
    /// Adds or replaces an object of a kind.
    pub fn insert(&mut self, gvk: &Gvk, mut object: Value) {
        // Metadata is returned as another kind.
        object["apiVersion"] = gvk.api_version().into();
        object["kind"] = gvk.kind.clone().into();
        owners::decode(&mut object);
        self.live.insert(key_of(gvk, &object), object);
    }

    /// Adds the objects of a collection, or the reason that it cannot be read.
    fn insert_list(&mut self, gvk: &Gvk, list: &List) {
        for object in list.objects() {
            self.insert(gvk, object.clone());
        }
        if let Some(why) = &list.trouble {
            self.insert_unreadable(gvk, Unserved::Unreadable(why.clone()));
        }
    }

    /// Notes that a kind cannot be read.
    pub fn insert_unreadable(&mut self, gvk: &Gvk, why: Unserved) {
        let kind = (gvk.group.clone(), gvk.kind.clone());
        self.unreadable.insert(kind, why);
    }

    /// Looks up an object.
    pub fn find(&self, key: &ObjectKey) -> LookupResult<'_> {
        let kind = (key.group.clone(), key.kind.clone());
        match self.live.get(key) {
            Some(object) => LookupResult::Live(object),
            None => match self.unreadable.get(&kind) {
                Some(why) => LookupResult::Unreadable(why),
                None => LookupResult::Missing,
            },
        }
    }
}

/// The objects that revisions want, as they are in one cluster.
#[derive(Clone, Copy, Debug)]
pub struct ChildrenOf<'a> {
    /// The [`place`](crate::content::Phase::place) of the phases: empty for the cluster of the
    /// revisions. Phases of a class that delivers elsewhere are not read then.
    pub place: &'a str,
    /// The revisions with their content.
    pub wanted: &'a [WantedRevision<'a>],
    /// The parts of the objects to read.
    pub detail: Detail,
}

impl Question for ChildrenOf<'_> {
    type Answer = Children;

    fn answer(&self, lists: &Lists) -> Result<Children, NoAnswer> {
        let mut children = Children::default();
        let mut readable = Vec::new();
        let collections = collections(self.place, self.wanted, self.detail);
        let served = collections.iter().map(|it| lists.served(&it.gvk));
        for (collection, served) in collections.iter().zip(join_all(served)?) {
            match served {
                Ok(served) => readable.push((collection, served)),
                Err(why) => children.insert_unreadable(&collection.gvk, why.clone()),
            }
        }
        for step in [Collection::managed, Collection::others] {
            let requests = readable.iter().flat_map(|(collection, served)| {
                let requests = step(collection, served, &children).into_iter();
                requests.map(|request| Ok((&collection.gvk, lists.optional(&request)?)))
            });
            for (gvk, list) in join_all(requests)? {
                children.insert_list(gvk, list);
            }
        }
        Ok(children)
    }
}

/// The objects that revisions want in a [`place`](crate::content::Phase::place), by kind. An empty
/// place is the cluster of the revisions.
fn collections(place: &str, wanted: &[WantedRevision<'_>], detail: Detail) -> Vec<Collection> {
    let probed = probed_kinds(wanted);
    let mut by_kind: BTreeMap<Gvk, BTreeSet<ObjectKey>> = BTreeMap::new();
    let phases = wanted.iter().flat_map(|(_, content)| &content.phases);
    for object in phases
        .filter(|phase| phase.place() == place)
        .flat_map(|phase| &phase.objects)
    {
        let keys = by_kind.entry(object.gvk.clone()).or_default();
        keys.insert(object.key.clone());
    }
    let collections = by_kind.into_iter().map(|(gvk, keys)| {
        let kind = (gvk.group.clone(), gvk.kind.clone());
        Collection {
            metadata_only: detail == Detail::AsProbed && !probed.contains(&kind),
            gvk,
            keys,
        }
    });
    collections.collect()
}

impl Collection {
    /// The lists of managed objects in which the wanted ones are expected. They are always read.
    fn managed(&self, served: &Served, _: &Children) -> Vec<ListRequest> {
        let keys: BTreeSet<&ObjectKey> = self.keys.iter().collect();
        let query = ListQuery {
            metadata_only: self.metadata_only,
            ..ListQuery::managed()
        };
        let paths = served.paths(&keys);
        let sources = paths.into_keys().map(|path| ListRequest {
            path,
            query: query.clone(),
        });
        sources.collect()
    }

    /// Lists for the wanted objects that are not among the managed ones: a few by name, many by one
    /// list.
    fn others(&self, served: &Served, managed: &Children) -> Vec<ListRequest> {
        let absent = |key: &&ObjectKey| {
            !key.name.is_empty() && matches!(managed.find(key), LookupResult::Missing)
        };
        let keys: BTreeSet<&ObjectKey> = self.keys.iter().filter(absent).collect();
        let mut sources = Vec::new();
        for (path, keys) in served.paths(&keys) {
            let queries: Vec<ListQuery> = if keys.len() > MAX_SINGLE_READS {
                vec![ListQuery::default()]
            } else {
                keys.iter()
                    .map(|key| ListQuery::of_one(&key.name))
                    .collect()
            };
            sources.extend(queries.into_iter().map(|query| ListRequest {
                path: path.clone(),
                query: ListQuery {
                    metadata_only: self.metadata_only,
                    ..query
                },
            }));
        }
        sources
    }
}

/// The identity of a live object of a kind.
pub fn key_of(gvk: &Gvk, object: &Value) -> ObjectKey {
    let (namespace, name) = place(object);
    ObjectKey {
        group: gvk.group.clone(),
        kind: gvk.kind.clone(),
        namespace,
        name,
    }
}

/// Group and kind of the objects that the probes of revisions select.
pub fn probed_kinds(wanted: &[WantedRevision<'_>]) -> BTreeSet<(String, String)> {
    let probes = wanted
        .iter()
        .flat_map(|(revision, _)| revision.spec.availability_probes.iter().flatten());
    probes
        .map(|probe| {
            let kind = &probe.selector.kind;
            (kind.group.clone(), kind.kind.clone())
        })
        .collect()
}

/// The controller of a live object.
pub fn owner(object: &Value, chain: &Chain, delegates: &Delegates) -> Owner {
    let Some(reference) = controller(object) else {
        return Owner::Nobody;
    };
    let uid = text(reference, "uid");
    let itself = chain.by_uid(uid);
    match itself.or_else(|| delegates.revision_of(uid, chain)) {
        Some(revision) => Owner::Revision {
            name: revision.name().to_owned(),
            number: revision.number(),
            through: itself.is_none().then(|| text(reference, "name").to_owned()),
        },
        None => owner_outside_chain(object),
    }
}

/// The controller of a live object that is under no revision of a chain.
pub fn owner_outside_chain(object: &Value) -> Owner {
    controller(object).map_or(Owner::Nobody, |reference| Owner::Stranger {
        kind: text(reference, "kind").to_owned(),
        name: text(reference, "name").to_owned(),
    })
}

/// Compiles the probes of a revision, to evaluate them for many objects.
///
/// # Errors
/// If a probe cannot be compiled.
pub fn compile(revision: &Revision) -> Result<Probes, String> {
    let specs = revision.spec.availability_probes.as_deref();
    Probes::compile(specs.unwrap_or_default()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use baton_engine::revision::KindScope;
    use serde_json::json;

    use super::*;
    use crate::{chain::from_objects, content::Slices};

    fn chain(objects: &[(&str, &str)], class: &str) -> Chain {
        let objects: Vec<Value> = objects
            .iter()
            .map(|(kind, name)| {
                let api_version = if *kind == "Deployment" {
                    "apps/v1"
                } else {
                    "v1"
                };
                json!({"object": {
                    "apiVersion": api_version, "kind": kind, "metadata": {"name": name},
                }})
            })
            .collect();
        let set = json!({
            "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSet",
            "metadata": {"name": "web-1", "namespace": "shop", "uid": "u1"},
            "spec": {
                "revision": 1,
                "phases": [{"name": "a", "class": class, "objects": objects}],
                "availabilityProbes": [{
                    "selector": {"kind": {"group": "apps", "kind": "Deployment"}},
                    "probes": [{"condition": {"type": "Available"}}],
                }],
            },
        });
        from_objects(Vec::new(), vec![set]).0.remove(0)
    }

    fn resource(plural: &str) -> Served {
        let prefix = if plural == "deployments" {
            "/apis/apps/v1"
        } else {
            "/api/v1"
        };
        Served {
            path: format!("{prefix}/{plural}"),
            scope: KindScope::Namespaced,
        }
    }

    fn plan(chain: &Chain) -> Vec<Collection> {
        let revision = &chain.revisions[0];
        let content = Slices::default().content(revision);
        collections("", &[(revision, &content)], Detail::AsProbed)
    }

    #[test]
    fn each_needed_kind_is_listed_once() {
        let chain = chain(
            &[
                ("ConfigMap", "a"),
                ("Deployment", "web"),
                ("ConfigMap", "b"),
            ],
            "",
        );
        let collections = plan(&chain);
        let [maps, deployments] = &collections[..] else {
            panic!("{collections:?}");
        };
        let sources = maps.managed(&resource("configmaps"), &Children::default());
        assert_eq!(sources.len(), 1);
        assert_eq!(sources[0].path, "/api/v1/namespaces/shop/configmaps");
        assert!(sources[0].query.metadata_only, "no probe looks at them");
        assert!(sources[0].query.labels.is_some());
        let sources = deployments.managed(&resource("deployments"), &Children::default());
        assert_eq!(sources[0].path, "/apis/apps/v1/namespaces/shop/deployments");
        assert!(!sources[0].query.metadata_only);
        assert!(plan(&self::chain(&[("ConfigMap", "a")], "elsewhere")).is_empty());
        let here = self::chain(&[("ConfigMap", "a")], "default");
        assert_eq!(plan(&here).len(), 1);
    }

    #[test]
    fn unmanaged_objects_are_read_by_name_or_by_one_list() {
        let names: Vec<String> = (0..=MAX_SINGLE_READS).map(|n| format!("cm-{n}")).collect();
        let objects: Vec<(&str, &str)> = names.iter().map(|name| ("ConfigMap", &**name)).collect();
        let chain = chain(&objects, "");
        let [maps] = &plan(&chain)[..] else { panic!() };
        let resource = resource("configmaps");
        let mut children = Children::default();
        let all = maps.others(&resource, &children);
        assert_eq!(all.len(), 1);
        assert_eq!((&all[0].query.labels, &all[0].query.fields), (&None, &None));
        let live = json!({"metadata": {"name": "cm-0", "namespace": "shop"}});
        children.insert(&maps.gvk, live);
        let few = maps.others(&resource, &children);
        assert_eq!(few.len(), MAX_SINGLE_READS);
        assert_eq!(few[0].query.fields.as_deref(), Some("metadata.name=cm-1"));
        // A kind that cannot be read is not requested a second time.
        children.insert_unreadable(&maps.gvk, Unserved::Absent);
        assert!(maps.others(&resource, &children).is_empty());
    }

    #[test]
    fn owners_are_identified_by_uid() {
        let chain = chain(&[("ConfigMap", "a")], "elsewhere");
        let ours = "package-operator.run/v1alpha1";
        let mut delegates = Delegates::default();
        delegates.insert(&json!({
            "apiVersion": ours, "kind": "ObjectSetPhase",
            "metadata": {"name": "web-1-a", "namespace": "shop", "uid": "p1", "ownerReferences": [
                {"apiVersion": ours, "kind": "ObjectSet", "name": "web-1", "uid": "u1", "controller": true},
            ]},
        }));
        let owned = |reference: Value| {
            let object = json!({"metadata": {"ownerReferences": [reference]}});
            owner(&object, &chain, &delegates)
        };
        let reference = |kind: &str, name: &str, uid: &str| {
            json!({"apiVersion": ours, "kind": kind, "name": name,
            "uid": uid, "controller": true})
        };
        let revision = |through: Option<&str>| Owner::Revision {
            name: "web-1".to_owned(),
            number: Some(1),
            through: through.map(str::to_owned),
        };
        assert_eq!(owned(reference("ObjectSet", "web-1", "u1")), revision(None));
        assert_eq!(
            owned(reference("ObjectSetPhase", "web-1-a", "p1")),
            revision(Some("web-1-a"))
        );
        // Other objects with the same names.
        for (kind, name) in [("ObjectSet", "web-1"), ("ObjectSetPhase", "web-1-a")] {
            let stranger = Owner::Stranger {
                kind: kind.to_owned(),
                name: name.to_owned(),
            };
            assert_eq!(owned(reference(kind, name, "u2")), stranger);
        }
        let plain = json!({"apiVersion": ours, "kind": "ObjectSet", "name": "web-1", "uid": "u1"});
        assert_eq!(owned(plain), Owner::Nobody);
    }
}
