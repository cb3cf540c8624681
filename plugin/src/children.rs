//! The objects of revisions as they are in the cluster: whether they exist, who controls them, and
//! what the revision's own probes say about them.
//!
//! One list per kind and namespace, of what carries the label of managed objects. An object that is
//! wanted and not among them does not exist, or is not (or no longer) managed: a few of those are
//! looked up one by one, many by one more list of the kind.

use std::collections::{BTreeMap, BTreeSet};

use baton::engine::{
    Gvk, ObjectKey,
    object::{controller, text},
    probes::{Probes, Verdict},
    revision::KindScope,
};
use baton_apis::constants::GROUP;
use futures::{StreamExt as _, stream};
use serde_json::Value;

use crate::{
    chain::{Chain, Revision},
    connect::{Cluster, ListQuery},
    content::{Content, read_some},
    error::Error,
};

/// Lists under way at the same time.
const SIDE_BY_SIDE: usize = 8;

/// How much of the objects is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// All of every object.
    Whole,
    /// All of the objects of kinds that a probe selects, the metadata of the others.
    AsProbed,
}

/// Objects as they are in the cluster.
#[derive(Clone, Debug, Default)]
pub struct Children {
    live: BTreeMap<ObjectKey, Value>,
    /// Kinds that could not be read, by group and kind, and why.
    unreadable: BTreeMap<(String, String), String>,
}

/// What is known of an object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Found<'a> {
    /// It exists.
    Live(&'a Value),
    /// It does not.
    Missing,
    /// Its kind cannot be read, for this reason.
    Unreadable(&'a str),
}

/// Who controls an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A revision of the chain.
    Revision {
        /// Its name.
        name: String,
        /// Its number, once it has one.
        number: Option<i64>,
        /// The `ObjectSetPhase` in between, if its phase is delegated.
        through: Option<String>,
    },
    /// Something else, by kind and name.
    Stranger {
        /// Kind in the controller reference.
        kind: String,
        /// Name in the controller reference.
        name: String,
    },
    /// Nothing.
    Nobody,
}

/// A revision with what it wants.
pub type Wanted<'a> = (&'a Revision, &'a Content);

/// A place to list objects from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Collection {
    gvk: Gvk,
    /// Empty: all namespaces, or a cluster-scoped kind.
    namespace: String,
}

impl Children {
    /// Reads the objects that revisions want. Those of delegated phases may be in another cluster and are
    /// not looked for.
    ///
    /// # Errors
    /// No answer. A kind that is not served, or may not be read, is no error: see
    /// [`Found::Unreadable`].
    pub async fn read(
        cluster: &Cluster,
        wanted: &[Wanted<'_>],
        detail: Detail,
    ) -> Result<Self, Error> {
        let mut collections: BTreeMap<Collection, BTreeSet<ObjectKey>> = BTreeMap::new();
        for (_, content) in wanted {
            for phase in content.phases.iter().filter(|phase| !phase.is_delegated()) {
                for object in &phase.objects {
                    let collection = Collection {
                        gvk: object.gvk.clone(),
                        namespace: object.key.namespace.clone(),
                    };
                    let keys = collections.entry(collection).or_default();
                    keys.insert(object.key.clone());
                }
            }
        }
        let probed = probed_kinds(wanted);
        let reads = collections.into_iter().map(|(collection, keys)| {
            let kind = (collection.gvk.group.clone(), collection.gvk.kind.clone());
            let metadata_only = detail == Detail::AsProbed && !probed.contains(&kind);
            async move {
                let read = read_collection(cluster, &collection, &keys, metadata_only).await;
                (collection, read)
            }
        });
        let mut children = Self::default();
        let mut reads = stream::iter(reads).buffer_unordered(SIDE_BY_SIDE);
        while let Some((collection, read)) = reads.next().await {
            match read {
                Ok(objects) => {
                    for object in objects {
                        children.insert(&collection.gvk, object);
                    }
                }
                Err(error @ Error::Unreachable { .. }) => return Err(error),
                Err(error) => {
                    let kind = (collection.gvk.group, collection.gvk.kind);
                    children.unreadable.insert(kind, error.to_string());
                }
            }
        }
        Ok(children)
    }

    /// Adds an object of a kind, or replaces it.
    pub fn insert(&mut self, gvk: &Gvk, mut object: Value) {
        // Metadata comes as another kind.
        object["apiVersion"] = gvk.api_version().into();
        object["kind"] = gvk.kind.clone().into();
        self.live.insert(key_of(gvk, &object), object);
    }

    /// Notes that a kind cannot be read.
    pub fn insert_unreadable(&mut self, gvk: &Gvk, why: String) {
        let kind = (gvk.group.clone(), gvk.kind.clone());
        self.unreadable.insert(kind, why);
    }

    /// What is known of an object.
    #[must_use]
    pub fn find(&self, key: &ObjectKey) -> Found<'_> {
        let kind = (key.group.clone(), key.kind.clone());
        match self.live.get(key) {
            Some(object) => Found::Live(object),
            None => match self.unreadable.get(&kind) {
                Some(why) => Found::Unreadable(why),
                None => Found::Missing,
            },
        }
    }

    /// All objects that were found.
    pub fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &Value)> {
        self.live.iter()
    }
}

/// The identity of a live object of a kind.
#[must_use]
pub fn key_of(gvk: &Gvk, object: &Value) -> ObjectKey {
    let text = |pointer| {
        let text = object.pointer(pointer).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    ObjectKey {
        group: gvk.group.clone(),
        kind: gvk.kind.clone(),
        namespace: text("/metadata/namespace"),
        name: text("/metadata/name"),
    }
}

/// Group and kind of what the probes of revisions select.
#[must_use]
pub fn probed_kinds(wanted: &[Wanted<'_>]) -> BTreeSet<(String, String)> {
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

async fn read_collection(
    cluster: &Cluster,
    collection: &Collection,
    keys: &BTreeSet<ObjectKey>,
    metadata_only: bool,
) -> Result<Vec<Value>, Error> {
    let Collection { gvk, namespace } = collection;
    let Some(resource) = cluster.resource(gvk).await? else {
        return Err(Error::NotFound(format!(
            "{} {} is not served",
            gvk.api_version(),
            gvk.kind
        )));
    };
    // Without a namespace there is no single object of such a kind.
    if resource.scope == KindScope::Namespaced && namespace.is_empty() {
        return Ok(Vec::new());
    }
    let path = resource.path_in(gvk, namespace);
    let managed = ListQuery {
        metadata_only,
        ..ListQuery::managed()
    };
    let mut found = cluster.list_at(&path, &managed).await?;
    let names: BTreeSet<&str> = found.iter().map(name).collect();
    let missing: BTreeSet<String> = keys
        .iter()
        .map(|key| &key.name)
        .filter(|name| !name.is_empty() && !names.contains(name.as_str()))
        .cloned()
        .collect();
    if !missing.is_empty() {
        let query = ListQuery {
            metadata_only,
            ..ListQuery::default()
        };
        found.extend(read_some(cluster, &path, &missing, &query).await?);
    }
    Ok(found)
}

fn name(object: &Value) -> &str {
    let name = object.pointer("/metadata/name").and_then(Value::as_str);
    name.unwrap_or_default()
}

/// Who controls a live object.
#[must_use]
pub fn owner(object: &Value, chain: &Chain) -> Owner {
    let Some(reference) = controller(object) else {
        return Owner::Nobody;
    };
    let (kind, name) = (text(reference, "kind"), text(reference, "name"));
    if let Some(revision) = chain.by_uid(text(reference, "uid")) {
        return Owner::Revision {
            name: revision.name().to_owned(),
            number: revision.number(),
            through: None,
        };
    }
    let group = text(reference, "apiVersion").split_once('/');
    let is_ours = group.is_some_and(|(group, _)| group == GROUP);
    if is_ours
        && kind.ends_with("ObjectSetPhase")
        && let Some(revision) = chain
            .newest_first()
            .find(|revision| is_phase_of(name, revision))
    {
        return Owner::Revision {
            name: revision.name().to_owned(),
            number: revision.number(),
            through: Some(name.to_owned()),
        };
    }
    Owner::Stranger {
        kind: kind.to_owned(),
        name: name.to_owned(),
    }
}

/// Whether an `ObjectSetPhase` has the name of a delegated phase of a revision.
fn is_phase_of(name: &str, revision: &Revision) -> bool {
    let Some(phase) = name
        .strip_prefix(revision.name())
        .and_then(|rest| rest.strip_prefix('-'))
    else {
        return false;
    };
    let mut phases = revision.spec.phases.iter().flatten();
    phases.any(|own| own.name == phase && !own.class.is_empty())
}

/// What a revision's probes say about one of its objects. Probes that cannot be compiled decide
/// nothing, and say why.
#[must_use]
pub fn health(revision: &Revision, key: &ObjectKey, object: &Value) -> Verdict {
    match compile(revision) {
        Ok(probes) => probes.evaluate(&key.group, &key.kind, object),
        Err(error) => Verdict::Unknown(vec![error]),
    }
}

/// The probes of a revision, to be evaluated for many objects.
///
/// # Errors
/// What is wrong with them.
pub fn compile(revision: &Revision) -> Result<Probes, String> {
    let specs = revision.spec.availability_probes.as_deref();
    Probes::compile(specs.unwrap_or_default()).map_err(|error| error.to_string())
}
