//! The steps of an uninstallation, by the objects of a cluster.

use std::collections::BTreeSet;

use baton_apis::{
    conditions::IN_TRANSITION,
    constants::{ANNOTATION_GIVEN_BACK, GIVEN_BACK, shipper},
    kinds,
};
use baton_view::{chain::kind::ChainKind, object::text_at};
use serde_json::Value;

/// The objects of Baton in a cluster, by the way in which they are removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Applications that are not given back: namespace and name.
    pub(super) applications: Vec<(String, String)>,
    /// True if there are objects of Applications, which Shipper may need after this.
    pub(super) has_shipper: bool,
    pub(super) site_deployments: usize,
    /// Deployments whose objects go back to the tool that had them.
    pub(super) adopted: Vec<Deployment>,
    /// Deployments with delegated phases: their objects only lose their owner.
    pub(super) delegated: Vec<Deployment>,
    /// Revisions that no deployment has.
    pub(super) revisions: usize,
    /// Revisions in all, whose history is lost.
    pub(super) history: usize,
    /// A revision whose objects are being handed over, for a message.
    pub(super) in_transition: Option<String>,
    /// Names of Clusters.
    pub(super) clusters: Vec<String>,
}

/// A deployment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Deployment {
    /// `None` for a `ClusterObjectDeployment`.
    pub(super) namespace: Option<String>,
    pub(super) name: String,
}

impl Deployment {
    fn of(object: &Value) -> Self {
        let (namespace, name) = place(object);
        Self {
            namespace: (!namespace.is_empty()).then_some(namespace),
            name,
        }
    }

    pub(super) fn kind(&self) -> ChainKind {
        if self.namespace.is_some() {
            ChainKind::ObjectDeployment
        } else {
            ChainKind::ClusterObjectDeployment
        }
    }

    pub(super) fn title(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("ObjectDeployment {namespace}/{}", self.name),
            None => format!("ClusterObjectDeployment {}", self.name),
        }
    }
}

impl Plan {
    /// Sorts the objects of all kinds of Baton.
    pub(super) fn of(objects: &[Value]) -> Self {
        let mut plan = Self::default();
        let revisions: Vec<&Value> = objects
            .iter()
            .filter(|it| kinds::OBJECT_SET.is_of(it) || kinds::CLUSTER_OBJECT_SET.is_of(it))
            .collect();
        plan.history = revisions.len();
        let delegating: BTreeSet<&str> = revisions
            .iter()
            .filter(|it| it["spec"]["lifecycleState"] != "Archived" && is_delegated(&it["spec"]))
            .flat_map(|it| owners(it))
            .collect();
        plan.in_transition = revisions
            .iter()
            .find(|it| is_in_transition(it))
            .map(|it| title(it));
        for object in objects {
            if kinds::APPLICATION.is_of(object) {
                plan.has_shipper = true;
                if object["metadata"]["annotations"][ANNOTATION_GIVEN_BACK] != GIVEN_BACK {
                    plan.applications.push(place(object));
                }
            } else if kinds::SITE_DEPLOYMENT.is_of(object) {
                plan.site_deployments += 1;
            } else if kinds::OBJECT_DEPLOYMENT.is_of(object)
                || kinds::CLUSTER_OBJECT_DEPLOYMENT.is_of(object)
            {
                let is_delegated = is_delegated(&object["spec"]["template"]["spec"])
                    || delegating.contains(text_at(object, "/metadata/uid"));
                let list = if is_delegated {
                    &mut plan.delegated
                } else {
                    &mut plan.adopted
                };
                list.push(Deployment::of(object));
            } else if kinds::CLUSTER.is_of(object) {
                plan.clusters.push(place(object).1);
            }
        }
        plan.revisions = revisions
            .iter()
            .filter(|it| owners(it).next().is_none())
            .count();
        plan
    }

    /// The lines of a preview.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (namespace, name) in &self.applications {
            lines.push(format!(
                "Application {namespace}/{name}: give it back first: `kubectl baton give-back app/{name} -n \
                 {namespace} --apply`"
            ));
        }
        for deployment in &self.adopted {
            let title = deployment.title();
            lines.push(format!(
                "{title}: deleted; its objects stay, and their fields go back"
            ));
        }
        for deployment in &self.delegated {
            lines.push(format!("{}: deleted; its objects stay", deployment.title()));
        }
        if self.site_deployments > 0 {
            let count = self.site_deployments;
            lines.push(format!(
                "SiteDeployments: {count}, deleted; the objects in the sites stay"
            ));
        }
        if self.revisions > 0 {
            let count = self.revisions;
            lines.push(format!(
                "revisions without a deployment: {count}, deleted; their objects stay"
            ));
        }
        if self.history > 0 {
            let count = self.history;
            lines.push(format!(
                "lost: the history of {count} revisions; no rollback is possible after this"
            ));
        }
        lines.extend(self.clusters.iter().map(|name| leave(name)));
        if lines.is_empty() {
            lines.push("there are no objects of Baton".to_owned());
        }
        lines
    }

    /// The reason that the uninstallation cannot begin.
    pub(super) fn obstacle(&self) -> Option<String> {
        if let Some((namespace, name)) = self.applications.first() {
            return Some(format!(
                "the Application {namespace}/{name} is not given back; see `kubectl baton give-back`"
            ));
        }
        let revision = self.in_transition.as_ref()?;
        Some(format!(
            "a rollout is under way: {revision} is being handed over; wait until it is done, or pause it"
        ))
    }

    /// The definitions that are deleted if they have no objects.
    pub(super) fn groups(&self) -> Vec<&'static str> {
        let all = kinds::Kind::ALL.iter().map(|kind| kind.group);
        let kept = |group: &&str| !(self.has_shipper && *group == shipper::GROUP);
        let groups: BTreeSet<_> = all.filter(kept).collect();
        groups.into_iter().collect()
    }
}

/// The way to remove a joined cluster.
pub(super) fn leave(name: &str) -> String {
    format!(
        "Cluster {name}: remove it after the revisions: `baton cluster remove {name} --context CONTEXT`"
    )
}

fn place(object: &Value) -> (String, String) {
    let text = |path| text_at(object, path).to_owned();
    (text("/metadata/namespace"), text("/metadata/name"))
}

fn title(object: &Value) -> String {
    let (namespace, name) = place(object);
    let kind = text_at(object, "/kind");
    if namespace.is_empty() {
        format!("{kind} {name}")
    } else {
        format!("{kind} {namespace}/{name}")
    }
}

/// True if a spec has a phase with a class.
fn is_delegated(spec: &Value) -> bool {
    let phases = spec["phases"].as_array();
    let mut phases = phases.into_iter().flatten();
    phases.any(|phase| !text_at(phase, "/class").is_empty())
}

/// The UIDs of the controllers of an object.
fn owners(object: &Value) -> impl Iterator<Item = &str> {
    let owners = object["metadata"]["ownerReferences"].as_array();
    let owners = owners.into_iter().flatten();
    owners
        .filter(|it| it["controller"] == true)
        .map(|it| text_at(it, "/uid"))
}

/// True if some objects of an active revision were handed over, and others not yet. One that has
/// handed over all of them has the condition as well.
fn is_in_transition(revision: &Value) -> bool {
    let conditions = revision["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let lifecycle = &revision["spec"]["lifecycleState"];
    let is_active = lifecycle.is_null() || lifecycle == "Active";
    let controls = revision["status"]["controllerOf"].as_array();
    is_active
        && controls.is_some_and(|objects| !objects.is_empty())
        && conditions.any(|it| it["type"] == IN_TRANSITION && it["status"] == "True")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(kind: &kinds::Kind, namespace: &str, name: &str) -> Value {
        json!({
            "apiVersion": kind.api_version, "kind": kind.name,
            "metadata": {"name": name, "namespace": namespace, "uid": name},
            "spec": {},
        })
    }

    fn revision(name: &str, of: Option<&str>, class: &str) -> Value {
        let mut revision = object(&kinds::OBJECT_SET, "shop", name);
        revision["spec"]["phases"] = json!([{"name": "a", "class": class}]);
        if let Some(of) = of {
            revision["metadata"]["ownerReferences"] = json!([{"uid": of, "controller": true}]);
        }
        revision
    }

    #[test]
    fn objects_are_sorted_by_the_way_in_which_they_are_removed() {
        let mut given_back = object(&kinds::APPLICATION, "shop", "done");
        given_back["metadata"]["annotations"] = json!({ANNOTATION_GIVEN_BACK: GIVEN_BACK});
        let plan = Plan::of(&[
            given_back,
            object(&kinds::APPLICATION, "shop", "web"),
            object(&kinds::OBJECT_DEPLOYMENT, "shop", "plain"),
            object(&kinds::OBJECT_DEPLOYMENT, "shop", "far"),
            object(&kinds::CLUSTER_OBJECT_DEPLOYMENT, "", "wide"),
            object(&kinds::SITE_DEPLOYMENT, "shop", "sites"),
            object(&kinds::CLUSTER, "", "eu-1"),
            revision("plain-1", Some("plain"), ""),
            revision("far-1", Some("far"), "cluster.eu-1"),
            revision("lone", None, ""),
        ]);
        let deployment = |namespace: &str, name: &str| Deployment {
            namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
            name: name.to_owned(),
        };
        assert_eq!(
            plan,
            Plan {
                applications: vec![("shop".to_owned(), "web".to_owned())],
                has_shipper: true,
                site_deployments: 1,
                adopted: vec![deployment("shop", "plain"), deployment("", "wide")],
                delegated: vec![deployment("shop", "far")],
                revisions: 1,
                history: 3,
                in_transition: None,
                clusters: vec!["eu-1".to_owned()],
            }
        );
        assert!(plan.obstacle().unwrap().contains("shop/web"));
        assert_eq!(plan.groups().len(), 2, "the definitions of Shipper stay");
        assert_eq!(plan.lines().len(), 8, "{:?}", plan.lines());
    }

    #[test]
    fn a_handover_comes_first_while_it_is_under_way() {
        let mut moving = revision("a", None, "");
        moving["status"] = json!({
            "conditions": [{"type": IN_TRANSITION, "status": "True"}],
            "controllerOf": [{"kind": "ConfigMap", "name": "left"}],
        });
        let obstacle = |revision: &Value| Plan::of(std::slice::from_ref(revision)).obstacle();
        assert!(obstacle(&moving).unwrap().contains("ObjectSet shop/a"));
        for lifecycle in ["Paused", "Archived"] {
            let mut other = moving.clone();
            other["spec"]["lifecycleState"] = lifecycle.into();
            assert_eq!(obstacle(&other), None, "{lifecycle}");
        }
        moving["status"]["controllerOf"] = json!([]);
        assert_eq!(obstacle(&moving), None, "all was handed over");
        assert_eq!(Plan::of(&[]).lines(), ["there are no objects of Baton"]);
        assert_eq!(Plan::of(&[]).groups().len(), 3);
    }
}
