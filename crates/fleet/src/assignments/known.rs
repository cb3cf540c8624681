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
    /// Names in the list that is under way, if one is.
    listed: Option<BTreeSet<String>>,
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
    /// It had listed all of them, and a new list fails; why.
    Outdated(String),
}

impl Extent {
    /// Why the objects cannot be listed.
    fn failure(&self) -> Option<&str> {
        match self {
            Self::Nothing | Self::All => None,
            Self::Unavailable(cause) | Self::Outdated(cause) => Some(cause),
        }
    }
}

/// What an event means.
struct Changes<T> {
    /// Objects that are other ones now: as they were, and as they are.
    items: Vec<(String, [Option<T>; 2])>,
    /// More is known than before, or less.
    is_other_extent: bool,
}

impl<T> Default for Collection<T> {
    fn default() -> Self {
        Self {
            items: BTreeMap::new(),
            extent: Extent::Nothing,
            listed: None,
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
            Event::ListStarted => self.listed = Some(BTreeSet::new()),
            Event::Listed(object) | Event::Upsert(object) => {
                if let Some((name, item)) = read(object) {
                    if let Some(listed) = &mut self.listed {
                        listed.insert(name.clone());
                    }
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
                let listed = self.listed.take().unwrap_or_default();
                items = self.retain(|name| listed.contains(name));
                self.extent = Extent::All;
            }
            // The kind is not defined.
            Event::Unserved => {
                items = self.retain(|_| false);
                self.extent = Extent::All;
            }
            Event::Failed(cause) | Event::Forbidden(cause) => {
                let is_listing = self.listed.take().is_some();
                let cause = (*cause).to_owned();
                match self.extent {
                    // The watch goes on where it was.
                    Extent::All if !is_listing => {}
                    Extent::All | Extent::Outdated(_) => self.extent = Extent::Outdated(cause),
                    Extent::Nothing | Extent::Unavailable(_) => {
                        self.extent = Extent::Unavailable(cause);
                    }
                }
            }
            Event::Bookmark(_) => {}
        }
        Changes {
            items,
            is_other_extent: self.extent != before,
        }
    }

    fn log(&self, kind: &str) {
        if let Some(cause) = self.extent.failure() {
            tracing::warn!(cause, "cannot list {kind}, trying again");
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
        if changes.is_other_extent {
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
        if changes.is_other_extent {
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

    /// Why nobody may be given a cluster: a kind that decisions depend on cannot be listed.
    pub fn unreadable(&self) -> Option<String> {
        self.failure(|| self.needs_namespace_labels())
    }

    /// Whether the API server has answered about all that decisions depend on.
    pub fn is_settled(&self) -> bool {
        self.assignments.extent != Extent::Nothing
            && (!self.needs_namespace_labels() || self.namespaces.extent != Extent::Nothing)
    }

    /// See [`super::Assignments::decide`].
    pub fn decide(&self, namespace: &str, cluster: Subject<'_>, is_required: bool) -> Decision {
        let decision = self.decide_by_last(namespace, cluster, is_required);
        let Some(text) = self.failure(|| self.needs_labels(cluster)) else {
            return decision;
        };
        let before = match decision {
            Decision::Allowed(reach) => Some(reach),
            _ => None,
        };
        let message = format!(
            "It is not known whether Namespace \"{namespace}\" may deliver into Cluster \"{}\": {text}",
            cluster.name
        );
        Decision::Unreadable { before, message }
    }

    /// Which kind cannot be listed that a decision depends on, and why.
    fn failure(&self, needs_labels: impl Fn() -> bool) -> Option<String> {
        let cannot = |kind, cause| format!("{kind} cannot be listed: {cause}");
        let assignments = self.assignments.extent.failure();
        let namespaces = || self.namespaces.extent.failure().filter(|_| needs_labels());
        let assignments = assignments.map(|cause| cannot("SiteAssignments", cause));
        assignments.or_else(|| namespaces().map(|cause| cannot("Namespaces", cause)))
    }

    /// Whether an assignment about a cluster selects namespaces by their labels.
    fn needs_labels(&self, cluster: Subject<'_>) -> bool {
        let mut assignments = self.assignments.items.values();
        assignments.any(|it| it.selects_cluster(cluster) && it.needs_namespace_labels())
    }

    /// As far as it is known, whether outdated or not.
    fn decide_by_last(&self, namespace: &str, cluster: Subject<'_>, is_required: bool) -> Decision {
        if matches!(
            self.assignments.extent,
            Extent::Nothing | Extent::Unavailable(_)
        ) {
            return Decision::Unknown;
        }
        let assignments = self.assignments.items.values().map(AsRef::as_ref);
        let labels = self.namespaces.items.get(namespace);
        // A namespace that is new, or about to be listed.
        if labels.is_none() && self.needs_labels(cluster) {
            return Decision::Unknown;
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
