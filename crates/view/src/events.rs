//! Events of the API: their objects, their namespaces, and their times.

use std::collections::BTreeSet;

use baton_apis::constants::GROUP;
use baton_engine::{Gvk, ObjectKey, delegated::names};
use jiff::Timestamp;
use serde_json::Value;

use crate::{
    chain::{Chain, member::Revision},
    content::SlicesOf,
    lists::{ListRequest, Lists, NoAnswer, Question},
    object::text_at,
    served::MAX_SINGLE_READS,
};

/// The namespace of events about cluster-scoped objects.
const CLUSTER_NAMESPACE: &str = "default";

/// The objects to show events of. It only grows: events outlive their objects.
#[derive(Debug, Default)]
pub struct Subjects {
    keys: BTreeSet<ObjectKey>,
    /// UIDs of revisions with added content.
    revisions: BTreeSet<String>,
}

impl Subjects {
    /// Adds deployments, revisions, and the objects of revisions.
    ///
    /// # Errors
    /// If slices were not read yet.
    pub fn add(&mut self, lists: &Lists, chains: &[Chain]) -> Result<(), NoAnswer> {
        for deployment in chains.iter().filter_map(|chain| chain.deployment.as_ref()) {
            let namespace = deployment.namespace();
            self.insert(GROUP, deployment.kind.name, namespace, deployment.name());
        }
        let revisions = chains.iter().flat_map(|chain| &chain.revisions);
        let new: Vec<_> = revisions
            .filter(|revision| !self.revisions.contains(revision.uid()))
            .collect();
        let slices = SlicesOf::required(new.iter().copied()).answer(lists)?;
        for revision in new {
            self.add_revision(revision);
            let phases = slices.content(revision).phases.into_iter();
            let objects = phases.flat_map(|phase| phase.objects);
            self.keys.extend(objects.map(|object| object.key));
            self.revisions.insert(revision.uid().to_owned());
        }
        Ok(())
    }

    /// Adds a revision and the objects of its delegated phases, without the content of its phases.
    pub fn add_revision(&mut self, revision: &Revision) {
        let (kind, namespace) = (revision.kind.name, revision.namespace());
        self.insert(GROUP, kind, namespace, revision.name());
        let phases = revision.spec.phases.iter().flatten();
        for phase in phases.filter(|phase| !phase.class.is_empty()) {
            for name in names(revision.name(), &phase.name) {
                self.insert(GROUP, &format!("{kind}Phase"), namespace, &name);
            }
        }
    }

    /// Adds an object; `None` is the namespace of cluster-scoped objects.
    pub fn insert(&mut self, group: &str, kind: &str, namespace: Option<&str>, name: &str) {
        self.keys.insert(ObjectKey {
            group: group.to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.unwrap_or_default().to_owned(),
            name: name.to_owned(),
        });
    }

    /// True if an event is about one of the objects.
    pub fn has(&self, event: &Value) -> bool {
        let text = |field: &str| event["involvedObject"][field].as_str().unwrap_or_default();
        let gvk = Gvk::new(text("apiVersion"), text("kind"));
        self.keys.contains(&ObjectKey {
            group: gvk.group,
            kind: gvk.kind,
            namespace: text("namespace").to_owned(),
            name: text("name").to_owned(),
        })
    }

    fn namespaces(&self) -> BTreeSet<&str> {
        let namespaces = self.keys.iter().map(|key| key.namespace.as_str());
        namespaces
            .map(|namespace| match namespace {
                "" => CLUSTER_NAMESPACE,
                namespace => namespace,
            })
            .collect()
    }

    /// True if the events are in more than one namespace.
    pub fn is_wide(&self) -> bool {
        self.namespaces().len() > 1
    }

    /// The lists of events: per namespace, or all events if there are many namespaces.
    pub fn sources(&self) -> Vec<ListRequest> {
        let namespaces = self.namespaces();
        if namespaces.len() > MAX_SINGLE_READS {
            return vec![ListRequest::all("/api/v1/events")];
        }
        namespaces
            .into_iter()
            .map(|namespace| ListRequest::all(format!("/api/v1/namespaces/{namespace}/events")))
            .collect()
    }
}

/// The time of the last occurrence, and the number of occurrences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occurrence {
    /// The time of the last occurrence, if it is known.
    pub last: Option<Timestamp>,
    /// The number of occurrences.
    pub times: i64,
}

impl Occurrence {
    /// The occurrence of an event. Fields are read in the order of `kubectl events`: the series
    /// comes first, then the fields of the old API.
    pub fn of(event: &Value) -> Self {
        let times = [
            "/series/lastObservedTime",
            "/lastTimestamp",
            "/eventTime",
            "/metadata/creationTimestamp",
        ];
        let number = |pointer: &str| event.pointer(pointer)?.as_i64();
        let count = number("/series/count").or_else(|| number("/count"));
        Self {
            last: times.into_iter().find_map(|pointer| time(event, pointer)),
            times: count.unwrap_or(1).max(1),
        }
    }
}

/// The time at a JSON pointer of an event.
pub fn time(event: &Value, pointer: &str) -> Option<Timestamp> {
    text_at(event, pointer).parse().ok()
}

#[cfg(test)]
mod tests {
    use baton_apis::constants::API_VERSION;
    use serde_json::json;

    use super::*;

    #[test]
    fn events_are_matched_by_their_subject() {
        let mut about = Subjects::default();
        about.insert("apps", "Deployment", Some("shop"), "web");
        about.insert(GROUP, "ClusterObjectSet", None, "infra-1");
        let event = |api_version: &str, kind: &str, namespace: &str, name: &str| {
            json!({"involvedObject": {
                "apiVersion": api_version, "kind": kind, "namespace": namespace, "name": name,
            }})
        };
        assert!(about.has(&event("apps/v1", "Deployment", "shop", "web")));
        assert!(about.has(&event("apps/v1beta1", "Deployment", "shop", "web")));
        assert!(!about.has(&event("apps/v1", "Deployment", "other", "web")));
        assert!(!about.has(&event("v1", "Deployment", "shop", "web")));
        let mut cluster = event(API_VERSION, "ClusterObjectSet", "", "infra-1");
        assert!(about.has(&cluster));
        cluster["involvedObject"]["namespace"] = Value::Null;
        assert!(about.has(&cluster));
    }

    #[test]
    fn events_are_listed_in_the_namespaces_of_their_subjects() {
        let mut about = Subjects::default();
        about.insert("", "ConfigMap", Some("shop"), "a");
        about.insert("", "Namespace", None, "shop");
        let paths = |about: &Subjects| {
            let sources = about.sources().into_iter();
            sources.map(|source| source.path).collect::<Vec<_>>()
        };
        assert_eq!(
            paths(&about),
            [
                "/api/v1/namespaces/default/events",
                "/api/v1/namespaces/shop/events"
            ]
        );
        for n in 0..MAX_SINGLE_READS {
            about.insert("", "ConfigMap", Some(&format!("n{n}")), "a");
        }
        assert_eq!(paths(&about), ["/api/v1/events"]);
    }
}
