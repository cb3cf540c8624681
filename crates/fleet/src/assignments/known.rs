//! What the watches have reported so far.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use baton_apis::SiteAssignmentSpec;
use baton_kubernetes::watch::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    AssignmentChange, Labels,
    decision::{Assignment, Decision, Subject, may_deliver},
};

/// Assignments, and the labels of namespaces.
#[derive(Debug, Default)]
pub(super) struct Known {
    assignments: Collection<Arc<Assignment>>,
    namespaces: Collection<Labels>,
}

/// The objects of a kind, by name.
#[derive(Debug)]
struct Collection<T> {
    items: BTreeMap<String, T>,
    extent: Extent,
    /// Names in the list that is under way.
    listed: BTreeSet<String>,
}

/// How much is known of which objects there are.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Extent {
    /// The API server has not answered yet.
    Nothing,
    /// It does not answer, or refuses; why.
    Unavailable(String),
    /// It has listed all of them.
    All,
}

/// What an event means.
struct Changes<T> {
    /// Objects that are other ones now: as they were, and as they are.
    items: Vec<(String, [Option<T>; 2])>,
    /// More is known than before.
    is_wider: bool,
}

impl<T> Default for Collection<T> {
    fn default() -> Self {
        Self {
            items: BTreeMap::new(),
            extent: Extent::Nothing,
            listed: BTreeSet::new(),
        }
    }
}

impl<T: Clone> Collection<T> {
    fn take(
        &mut self,
        event: &Event<'_>,
        read: impl Fn(&RawValue) -> Option<(String, T)>,
        is_same: impl Fn(&T, &T) -> bool,
    ) -> Changes<T> {
        let mut items = Vec::new();
        let before = self.extent.clone();
        match event {
            Event::ListStarted => self.listed.clear(),
            Event::Listed(object) | Event::Upsert(object) => {
                if let Some((name, item)) = read(object) {
                    self.listed.insert(name.clone());
                    let old = self.items.insert(name.clone(), item.clone());
                    if !old.as_ref().is_some_and(|old| is_same(old, &item)) {
                        items.push((name, [old, Some(item)]));
                    }
                }
            }
            Event::Deleted(object) => {
                let name = read(object).map(|(name, _)| name);
                items.extend(name.and_then(|name| {
                    let old = self.items.remove(&name)?;
                    Some((name, [Some(old), None]))
                }));
            }
            Event::ListDone { .. } => {
                let listed = std::mem::take(&mut self.listed);
                items = self.retain(|name| listed.contains(name));
                self.extent = Extent::All;
            }
            Event::Unserved => {
                items = self.retain(|_| false);
                self.extent = Extent::All;
            }
            // What was known stays so.
            Event::Failed(cause) if self.extent != Extent::All => {
                self.extent = Extent::Unavailable((*cause).to_owned());
            }
            Event::Failed(_) | Event::Bookmark(_) => {}
        }
        Changes {
            items,
            is_wider: self.extent != before,
        }
    }

    fn log(&self, kind: &str) {
        if let Extent::Unavailable(cause) = &self.extent {
            tracing::warn!(cause, "cannot watch {kind}, trying again");
        }
    }

    fn retain(&mut self, keep: impl Fn(&str) -> bool) -> Vec<(String, [Option<T>; 2])> {
        let gone = self.items.extract_if(.., |name, _| !keep(name));
        gone.map(|(name, old)| (name, [Some(old), None])).collect()
    }
}

impl Known {
    /// Handles an event of the watch on `SiteAssignments`.
    pub fn assignment_event(&mut self, event: &Event<'_>) -> Vec<AssignmentChange> {
        let changes = self
            .assignments
            .take(event, read_assignment, |one, other| one.is_same(other));
        if changes.is_wider {
            self.assignments.log("SiteAssignments");
            return vec![AssignmentChange::Everything];
        }
        let items = changes.items.into_iter();
        items
            .map(|(_, versions)| {
                AssignmentChange::Assignment(versions.into_iter().flatten().collect())
            })
            .collect()
    }

    /// Handles an event of the watch on the metadata of Namespaces.
    pub fn namespace_event(&mut self, event: &Event<'_>) -> Vec<AssignmentChange> {
        let changes = self.namespaces.take(event, read_namespace, PartialEq::eq);
        if changes.is_wider {
            self.namespaces.log("Namespaces");
            return vec![AssignmentChange::Everything];
        }
        let items = changes.items.into_iter();
        items
            .map(|(name, _)| AssignmentChange::Namespace(name))
            .collect()
    }

    /// Whether an assignment selects namespaces by their labels.
    pub fn needs_namespace_labels(&self) -> bool {
        let mut assignments = self.assignments.items.values();
        assignments.any(|assignment| assignment.needs_namespace_labels())
    }

    /// Whether the API server has answered about all that decisions depend on.
    pub fn is_settled(&self) -> bool {
        self.assignments.extent != Extent::Nothing
            && (!self.needs_namespace_labels() || self.namespaces.extent != Extent::Nothing)
    }

    /// See [`super::Assignments::decide`].
    pub fn decide(&self, namespace: &str, cluster: Subject<'_>, is_required: bool) -> Decision {
        let refused = |kind: &str, cause: &str| {
            Decision::Refused(format!(
                "Namespace \"{namespace}\" may not deliver into Cluster \"{}\" while {kind} cannot be read: {cause}.",
                cluster.name
            ))
        };
        match &self.assignments.extent {
            Extent::Nothing => return Decision::Unknown,
            Extent::Unavailable(cause) => return refused("SiteAssignments", cause),
            Extent::All => {}
        }
        let assignments = self.assignments.items.values().map(AsRef::as_ref);
        let mut about_it = assignments.clone();
        let needs_labels =
            about_it.any(|it| it.selects_cluster(cluster) && it.needs_namespace_labels());
        let labels = self.namespaces.items.get(namespace);
        match &self.namespaces.extent {
            _ if !needs_labels => {}
            Extent::Unavailable(cause) => return refused("Namespaces", cause),
            // A namespace that is new, or about to be listed.
            Extent::Nothing | Extent::All if labels.is_none() => return Decision::Unknown,
            Extent::Nothing | Extent::All => {}
        }
        let none = Labels::new();
        let namespace = Subject {
            name: namespace,
            labels: labels.unwrap_or(&none),
        };
        may_deliver(namespace, cluster, assignments, is_required)
    }
}

#[derive(Deserialize)]
struct Object<'a> {
    metadata: ObjectMeta,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
}

/// An assignment, as far as it is readable; `None` when not even its name is.
fn read_assignment(object: &RawValue) -> Option<(String, Arc<Assignment>)> {
    let Object { metadata, spec } = parse(object)?;
    let name = metadata.name?;
    let spec: Result<SiteAssignmentSpec, _> =
        serde_json::from_str(spec.map_or("{}", RawValue::get));
    let spec = spec.map_err(|error| error.to_string());
    let assignment = Assignment::new(&name, spec);
    Some((name, Arc::new(assignment)))
}

fn read_namespace(object: &RawValue) -> Option<(String, Labels)> {
    let Object { metadata, .. } = parse(object)?;
    Some((metadata.name?, metadata.labels.unwrap_or_default()))
}

fn parse(object: &RawValue) -> Option<Object<'_>> {
    serde_json::from_str(object.get())
        .inspect_err(|error| tracing::warn!(%error, "an object is not readable"))
        .ok()
}

#[cfg(test)]
mod tests;
