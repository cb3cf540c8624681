//! The `ObjectSetPhases`, which stand for phases that another controller runs, and their reported
//! state.

use std::collections::{BTreeMap, BTreeSet};

use baton_apis::{ControlledObjectReference, EndedObject, conditions::AVAILABLE, kinds};
use baton_engine::{
    ObjectKey,
    condition_list::find_current,
    delegated::names,
    object::{Identity, controlled_reference, controller, is_terminating, text},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    chain::{Chain, member::Revision},
    content::{Phase, RevisionContent, WantedRevision, identity},
    lists::{ListRequest, Lists, NoAnswer, Question, join_all},
    object::text_at,
};

/// The `ObjectSetPhases` of some namespaces, or those of the cluster scope.
#[derive(Clone, Debug, Default)]
pub struct Delegates {
    delegates: BTreeMap<(String, String), Delegate>,
    unreadable: Option<String>,
}

/// An `ObjectSetPhase` or a `ClusterObjectSetPhase`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delegate {
    /// Kind of the object.
    pub kind: String,
    /// Name of the object.
    pub name: String,
    /// UID of the object.
    pub uid: String,
    /// UID of the controller; `None` if there is none.
    pub controller: Option<String>,
    /// The controller, for people.
    pub controlled_by: String,
    /// True while it is being deleted.
    pub is_deleting: bool,
    /// The condition `Available`, if it was reported for the present generation.
    pub available: Option<Condition>,
    /// The objects that it controls, by its status.
    controls: Vec<ControlledObjectReference>,
    /// Its objects that have ended, by its status.
    ended: Vec<EndedObject>,
}

/// The state of the `ObjectSetPhase` of a phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DelegateState<'a> {
    /// The object exists and is controlled by the revision.
    Own(&'a Delegate),
    /// The object exists and has another controller, or none.
    Foreign(&'a Delegate),
    /// The object does not exist.
    Missing,
    /// `ObjectSetPhases` cannot be read, for this reason.
    Unreadable(&'a str),
}

impl Delegates {
    /// The controller reference that the objects of a phase have: the revision, or the
    /// `ObjectSetPhase` of the phase.
    pub fn controller(&self, revision: &Revision, phase: &Phase) -> Identity {
        let identity = identity(revision);
        if !phase.is_delegated() {
            return identity;
        }
        let (name, uid) = match self.find(revision, &phase.name) {
            DelegateState::Own(own) => (own.name.clone(), own.uid.clone()),
            // An `ObjectSetPhase` that does not exist controls nothing.
            _ => Default::default(),
        };
        Identity {
            kind: format!("{}Phase", identity.kind),
            name,
            uid,
            ..identity
        }
    }

    /// The condition `Available` that the controller of a phase has reported, if so.
    pub fn available(&self, revision: &Revision, phase: &Phase) -> Option<&Condition> {
        match self.find(revision, &phase.name) {
            DelegateState::Own(own) => own.available.as_ref(),
            _ => None,
        }
    }

    /// Adds an `ObjectSetPhase`, as the server returned it.
    pub fn insert(&mut self, object: &Value) {
        let delegate = Delegate::read(object);
        let namespace = text_at(object, "/metadata/namespace").to_owned();
        self.delegates
            .insert((namespace, delegate.name.clone()), delegate);
    }

    /// Notes that `ObjectSetPhases` cannot be read.
    pub fn insert_unreadable(&mut self, why: String) {
        self.unreadable = Some(why);
    }

    /// The state of the `ObjectSetPhase` of a phase.
    pub fn find(&self, revision: &Revision, phase: &str) -> DelegateState<'_> {
        let names = names(revision.name(), phase);
        let get = |name: &String| {
            let namespace = revision.namespace().unwrap_or_default().to_owned();
            self.delegates.get(&(namespace, name.clone()))
        };
        let mut found = names.iter().filter_map(get);
        let is_own = |one: &Delegate| one.controller.as_deref() == Some(revision.uid());
        match (found.clone().find(|one| is_own(one)), found.next()) {
            (Some(own), _) => DelegateState::Own(own),
            (None, Some(foreign)) => DelegateState::Foreign(foreign),
            (None, None) => match &self.unreadable {
                Some(why) => DelegateState::Unreadable(why),
                None => DelegateState::Missing,
            },
        }
    }

    /// Another revision of a chain whose `ObjectSetPhase` holds an object.
    pub fn other_holder<'a>(
        &self,
        key: &ObjectKey,
        revision: &Revision,
        chain: &'a Chain,
    ) -> Option<&'a Revision> {
        let holders = self.delegates.values().filter(|it| it.holds(key));
        let mut others = holders
            .filter_map(|holder| chain.by_uid(holder.controller.as_deref()?))
            .filter(|other| other.uid() != revision.uid());
        others.next()
    }

    /// The revision of a chain with an `ObjectSetPhase` of this UID. If the `ObjectSetPhase` was
    /// not read, the status of the revisions decides.
    pub fn revision_of<'a>(&self, uid: &str, chain: &'a Chain) -> Option<&'a Revision> {
        let owner = self.delegates.values().find(|delegate| delegate.uid == uid);
        let controller = owner.and_then(|delegate| delegate.controller.as_deref());
        let of_status = |revision: &&Revision| {
            let mut phases = revision.status.remote_phases.iter();
            phases.any(|phase| phase.uid == uid)
        };
        match controller {
            Some(controller) => chain.by_uid(controller),
            None => chain.newest_first().find(of_status),
        }
    }
}

impl Delegate {
    /// True if it controls an object, or the object has ended, by its status.
    pub fn holds(&self, key: &ObjectKey) -> bool {
        let reference = controlled_reference(key);
        self.controls.contains(&reference) || self.ended.iter().any(|end| end.is(&reference))
    }

    /// True if its status names an object.
    pub fn holds_any(&self) -> bool {
        !self.controls.is_empty() || !self.ended.is_empty()
    }

    fn read(object: &Value) -> Self {
        let generation = object["metadata"]["generation"].as_i64();
        let conditions: Vec<Condition> = list_at(object, "/status/conditions");
        let owner = controller(object);
        Self {
            kind: text(object, "kind").to_owned(),
            name: text_at(object, "/metadata/name").to_owned(),
            uid: text_at(object, "/metadata/uid").to_owned(),
            controller: owner.map(|owner| text(owner, "uid").to_owned()),
            controlled_by: owner.map_or_else(
                || "no controller".to_owned(),
                |owner| format!("{}/{}", text(owner, "kind"), text(owner, "name")),
            ),
            is_deleting: is_terminating(object),
            available: generation
                .and_then(|generation| find_current(&conditions, AVAILABLE, generation))
                .cloned(),
            controls: list_at(object, "/status/controllerOf"),
            ended: list_at(object, "/status/ended"),
        }
    }
}

/// A list in a status; empty if it is absent or malformed.
fn list_at<T: DeserializeOwned>(object: &Value, pointer: &str) -> Vec<T> {
    let list = object.pointer(pointer).cloned();
    list.and_then(|list| serde_json::from_value(list).ok())
        .unwrap_or_default()
}

/// The `ObjectSetPhases` of revisions; nothing is requested if no phase is delegated.
#[derive(Clone, Copy, Debug)]
pub struct DelegatesOf<'a>(pub &'a [WantedRevision<'a>]);

impl Question for DelegatesOf<'_> {
    type Answer = Delegates;

    fn answer(&self, lists: &Lists) -> Result<Delegates, NoAnswer> {
        let is_delegating =
            |content: &RevisionContent| content.phases.iter().any(Phase::is_delegated);
        let delegating = self.0.iter().filter(|(_, content)| is_delegating(content));
        let paths = delegating.map(|(revision, _)| match revision.namespace() {
            None => kinds::CLUSTER_OBJECT_SET_PHASE.path(None),
            namespace => kinds::OBJECT_SET_PHASE.path(namespace),
        });
        let requests: BTreeSet<ListRequest> = paths.map(ListRequest::all).collect();
        let mut delegates = Delegates::default();
        for list in join_all(requests.iter().map(|request| lists.optional(request)))? {
            list.objects().for_each(|object| delegates.insert(object));
            if let Some(why) = &list.trouble {
                delegates.insert_unreadable(why.clone());
            }
        }
        Ok(delegates)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::chain::from_objects;

    fn phase(name: &str, uid: &str, controller: &str) -> Value {
        let mut phase = json!({
            "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSetPhase",
            "metadata": {"name": name, "namespace": "shop", "uid": uid, "generation": 2},
        });
        if !controller.is_empty() {
            phase["metadata"]["ownerReferences"] = json!([{
                "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSet",
                "name": "some", "uid": controller, "controller": true,
            }]);
        }
        phase
    }

    fn chain() -> Chain {
        let set = json!({
            "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSet",
            "metadata": {"name": "web-1", "namespace": "shop", "uid": "u1"},
            "spec": {"revision": 1},
            "status": {"remotePhases": [{"name": "web-1-a", "uid": "p1"}]},
        });
        from_objects(Vec::new(), vec![set]).0.remove(0)
    }

    #[test]
    fn a_phase_object_is_found_by_its_controller() {
        let chain = chain();
        let revision = &chain.revisions[0];
        let [name, other] = names("web-1", "a");
        let found = |objects: &[Value]| {
            let mut delegates = Delegates::default();
            for object in objects {
                delegates.insert(object);
            }
            match delegates.find(revision, "a") {
                DelegateState::Own(one) => format!("own {}", one.uid),
                DelegateState::Foreign(one) => format!("of {}", one.controlled_by),
                DelegateState::Missing => "missing".to_owned(),
                DelegateState::Unreadable(why) => why.to_owned(),
            }
        };
        assert_eq!(found(&[]), "missing");
        assert_eq!(found(&[phase(&name, "p1", "u1")]), "own p1");
        assert_eq!(found(&[phase(&name, "p1", "")]), "of no controller");
        assert_eq!(found(&[phase(&name, "p2", "u2")]), "of ObjectSet/some");
        // The plain name is taken by another revision.
        let both = [phase(&name, "p2", "u2"), phase(&other, "p3", "u1")];
        assert_eq!(found(&both), "own p3");
        let mut delegates = Delegates::default();
        delegates.insert_unreadable("forbidden".to_owned());
        assert_eq!(
            delegates.find(revision, "a"),
            DelegateState::Unreadable("forbidden")
        );
    }

    #[test]
    fn the_revision_behind_a_phase() {
        let chain = chain();
        let mut delegates = Delegates::default();
        let revision_of = |delegates: &Delegates, uid: &str| {
            let revision = delegates.revision_of(uid, &chain);
            revision.map(|revision| revision.name().to_owned())
        };
        let web = Some("web-1".to_owned());
        assert_eq!(revision_of(&delegates, "p1"), web);
        assert_eq!(revision_of(&delegates, "p2"), None);
        delegates.insert(&phase("web-1-b", "p2", "u1"));
        delegates.insert(&phase("web-0-b", "p0", "u0"));
        assert_eq!(revision_of(&delegates, "p2"), web);
        assert_eq!(revision_of(&delegates, "p0"), None);
    }

    #[test]
    fn reports_on_an_earlier_generation_do_not_count() {
        let mut object = phase("web-1-a", "p1", "u1");
        for (generation, expected) in [(1, None), (2, Some("True"))] {
            object["status"] = json!({"conditions": [{
                "type": "Available", "status": "True", "reason": "Available", "message": "",
                "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z",
            }]});
            let available = Delegate::read(&object).available;
            let status = available
                .as_ref()
                .map(|condition| condition.status.as_str());
            assert_eq!(status, expected);
        }
    }
}
