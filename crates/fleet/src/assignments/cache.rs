//! The assignments and namespaces that the watches have reported so far.

use std::sync::Arc;

use baton_kubernetes::{
    collection::{Collection, Extent, Unserved},
    metadata::{Metadata, Object},
    watch::Event,
};
use serde_json::{json, value::RawValue};

use super::{
    AssignmentChange, Labels,
    decision::{Assignment, Decision, Subject, may_deliver},
};

/// Assignments, and the labels of namespaces.
#[derive(Debug)]
pub(super) struct AssignmentCache {
    assignments: Collection<String, Arc<Assignment>>,
    namespaces: Collection<String, Labels>,
}

impl Default for AssignmentCache {
    fn default() -> Self {
        Self {
            assignments: Collection::new(Unserved::Empty),
            namespaces: Collection::new(Unserved::Unknown),
        }
    }
}

impl AssignmentCache {
    /// Handles an event of the watch on `SiteAssignments`. Returns the changes on which decisions
    /// depend.
    pub fn assignment_event(&mut self, event: &Event<'_>) -> Vec<AssignmentChange> {
        let before = self.assignments.extent().clone();
        let changes = self.assignments.process(event, read_assignment);
        if is_other_extent(&before, self.assignments.extent(), "SiteAssignments") {
            return vec![AssignmentChange::Everything];
        }
        let versions = changes.into_iter().map(|change| [change.old, change.new]);
        versions
            .map(|versions| AssignmentChange::Assignment(versions.into_iter().flatten().collect()))
            .collect()
    }

    /// Handles an event of the watch on the metadata of Namespaces. Returns the changes on which
    /// decisions depend.
    pub fn namespace_event(&mut self, event: &Event<'_>) -> Vec<AssignmentChange> {
        let before = self.namespaces.extent().clone();
        let changes = self.namespaces.process(event, read_namespace);
        if is_other_extent(&before, self.namespaces.extent(), "Namespaces") {
            return vec![AssignmentChange::Everything];
        }
        let names = changes.into_iter().map(|change| change.key);
        names.map(AssignmentChange::Namespace).collect()
    }

    /// True if an assignment selects namespaces by their labels.
    pub fn needs_namespace_labels(&self) -> bool {
        let mut assignments = self.assignments.items().values();
        assignments.any(|assignment| assignment.needs_namespace_labels())
    }

    /// The reason that no cluster can be allowed: a kind on which decisions depend cannot be
    /// listed. `None` if all can be listed.
    pub fn unreadable(&self) -> Option<String> {
        self.failure(|| self.needs_namespace_labels())
    }

    /// True if the API server has answered the lists on which decisions depend.
    pub fn is_settled(&self) -> bool {
        *self.assignments.extent() != Extent::Nothing
            && (!self.needs_namespace_labels() || *self.namespaces.extent() != Extent::Nothing)
    }

    /// Decides if a namespace may deliver into a cluster, as [`super::Assignments::decide`] does.
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
            "Cannot check whether Namespace \"{namespace}\" may deliver into Cluster \"{}\": {text}",
            cluster.name
        );
        Decision::Unreadable { before, message }
    }

    /// The kind that a decision depends on and that cannot be listed, with the cause.
    fn failure(&self, needs_labels: impl Fn() -> bool) -> Option<String> {
        let cannot = |kind, cause| format!("{kind} cannot be listed: {cause}");
        let assignments = self.assignments.extent().failure();
        let namespaces = || {
            let cause = self.namespaces.extent().failure();
            cause.filter(|_| needs_labels())
        };
        let assignments = assignments.map(|cause| cannot("SiteAssignments", cause));
        assignments.or_else(|| namespaces().map(|cause| cannot("Namespaces", cause)))
    }

    /// True if an assignment that selects a cluster selects namespaces by their labels.
    fn needs_labels(&self, cluster: Subject<'_>) -> bool {
        let mut assignments = self.assignments.items().values();
        assignments.any(|it| it.selects_cluster(cluster) && it.needs_namespace_labels())
    }

    /// The decision by the last known objects, outdated or not.
    fn decide_by_last(&self, namespace: &str, cluster: Subject<'_>, is_required: bool) -> Decision {
        if !self.assignments.was_complete() {
            return Decision::Unknown;
        }
        let assignments = self.assignments.items().values().map(AsRef::as_ref);
        let labels = self.namespaces.items().get(namespace);
        // A namespace that is new, or not listed yet.
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

/// True if the extent has changed. Logs that a kind cannot be listed.
fn is_other_extent(before: &Extent, now: &Extent, kind: &str) -> bool {
    if let Some(cause) = now.failure().filter(|_| before != now) {
        tracing::warn!(cause, "cannot list {kind}, trying again");
    }
    before != now
}

/// Reads the readable parts of an assignment.
fn read_assignment(object: &RawValue) -> Option<Arc<Assignment>> {
    let Object { metadata, spec, .. } = serde_json::from_str(object.get()).ok()?;
    let assignment = match spec {
        Some(spec) => Assignment::read(&metadata.name, spec),
        None => Assignment::read(&metadata.name, &json!({})),
    };
    Some(Arc::new(assignment))
}

fn read_namespace(object: &RawValue) -> Option<Labels> {
    Metadata::of(object.get()).ok()?.labels().ok()
}

#[cfg(test)]
mod tests;
