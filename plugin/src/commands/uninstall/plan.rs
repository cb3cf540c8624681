//! The steps of an uninstallation, by the objects of a cluster.

use std::collections::{BTreeMap, BTreeSet};

use baton_apis::{
    conditions::IN_TRANSITION,
    constants::{
        ANNOTATION_GIVEN_BACK, GIVEN_BACK,
        shipper::{self, FINALIZER_SERVING},
    },
    kinds,
};
use baton_view::{chain::kind::ChainKind, object::text_at};
use serde_json::Value;

/// The objects of Baton in a cluster, by the way in which they are removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Applications that are not given back, or not completely: namespace and name.
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
    /// Delegated phases.
    pub(super) phases: usize,
    /// A revision that controls some of its objects and not all, for a message.
    pub(super) in_transition: Option<String>,
    /// Names of Clusters to remove. Those of Shipper stay, if it gets its objects back.
    pub(super) clusters: Vec<String>,
    /// Number of objects that manage nothing themselves, by the name of their kind.
    pub(super) others: BTreeMap<&'static str, usize>,
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
        plan.has_shipper = objects.iter().any(|it| kinds::APPLICATION.is_of(it));
        for object in objects {
            if kinds::APPLICATION.is_of(object) {
                if !is_given_back(object, objects) {
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
            } else if kinds::OBJECT_SET_PHASE.is_of(object)
                || kinds::CLUSTER_OBJECT_SET_PHASE.is_of(object)
            {
                plan.phases += 1;
            } else if kinds::CLUSTER.is_of(object) {
                if !plan.has_shipper || object["spec"]["connection"] == "Pull" {
                    plan.clusters.push(place(object).1);
                }
            } else if let Some(kind) = plan.plain().iter().find(|kind| kind.is_of(object)) {
                *plan.others.entry(kind.name).or_default() += 1;
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
        if self.phases > 0 {
            let count = self.phases;
            lines.push(format!(
                "delegated phases: {count}, deleted; their objects stay"
            ));
        }
        for (kind, count) in &self.others {
            lines.push(format!("{kind}s: {count}, deleted"));
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
        let kept = if self.has_shipper {
            ", except for those of Shipper"
        } else {
            ""
        };
        lines.push(format!("definitions: deleted if nothing is left{kept}"));
        lines
    }

    /// The kinds that manage nothing themselves. Shipper needs its blocks.
    pub(super) fn plain(&self) -> &'static [&'static kinds::Kind] {
        const PLAIN: [&kinds::Kind; 5] = [
            &kinds::SITE_APPLICATION,
            &kinds::OBJECT_SLICE,
            &kinds::CLUSTER_OBJECT_SLICE,
            &kinds::SITE_ASSIGNMENT,
            &kinds::ROLLOUT_BLOCK,
        ];
        if self.has_shipper {
            &PLAIN[..4]
        } else {
            &PLAIN
        }
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
            "{revision} does not control all of its objects: a rollout is under way, or stuck; wait until it is done, \
             or pause the revision by `kubectl baton pause`"
        ))
    }

    /// True if objects have to be released.
    pub(super) fn needs_manager(&self) -> bool {
        let deployments = self.adopted.len() + self.delegated.len() + self.site_deployments;
        deployments + self.history + self.phases > 0
    }

    /// The last step, which this program leaves to the tool that installed the manager. A manifest
    /// with definitions must not be deleted while objects are left.
    pub(super) fn last_step(&self, are_definitions_gone: bool) -> String {
        if !are_definitions_gone {
            return "remove the objects of the definitions that were kept, and run this again; do not delete \
                    config/install.yaml, which has all definitions"
                .to_owned();
        }
        if self.has_shipper {
            return "remove the manager by `helm uninstall`, or delete config/rbac, config/policy and the Deployment \
                    baton-manager; do not delete config/install.yaml, which has the definitions of Shipper"
                .to_owned();
        }
        "remove the manager as it was installed: `kubectl delete -f config/install.yaml` or `helm uninstall`".to_owned()
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

/// True if an Application is Shipper's: the manager has stopped, no revision is left, and no Release has
/// a finalizer of the manager. The annotation alone is the first step of a give-back.
fn is_given_back(application: &Value, objects: &[Value]) -> bool {
    let (namespace, name) = place(application);
    let is_part = |it: &&Value| {
        place(it).0 == namespace && it["metadata"]["labels"][shipper::LABEL_APP] == name.as_str()
    };
    let mut parts = objects.iter().filter(is_part);
    let is_left = |it: &Value| {
        let finalizers = it["metadata"]["finalizers"].as_array();
        let mut finalizers = finalizers.into_iter().flatten();
        kinds::OBJECT_SET.is_of(it) || finalizers.any(|finalizer| finalizer == FINALIZER_SERVING)
    };
    application["metadata"]["annotations"][ANNOTATION_GIVEN_BACK] == GIVEN_BACK
        && !parts.any(is_left)
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

/// True if an active revision controls some of its objects and not all: its rollout or handover is
/// under way. One that has handed over all of them has the condition as well.
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
        let mut agent = object(&kinds::CLUSTER, "", "eu-2");
        agent["spec"]["connection"] = "Pull".into();
        let plan = Plan::of(&[
            given_back,
            object(&kinds::APPLICATION, "shop", "web"),
            object(&kinds::OBJECT_DEPLOYMENT, "shop", "plain"),
            object(&kinds::OBJECT_DEPLOYMENT, "shop", "far"),
            object(&kinds::CLUSTER_OBJECT_DEPLOYMENT, "", "wide"),
            object(&kinds::SITE_DEPLOYMENT, "shop", "sites"),
            object(&kinds::CLUSTER, "", "eu-1"),
            agent,
            object(&kinds::ROLLOUT_BLOCK, "shop", "freeze"),
            object(&kinds::SITE_ASSIGNMENT, "", "all"),
            object(&kinds::OBJECT_SET_PHASE, "shop", "far-1-a"),
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
                phases: 1,
                in_transition: None,
                clusters: vec!["eu-2".to_owned()],
                others: BTreeMap::from([("SiteAssignment", 1)]),
            }
        );
        assert!(plan.obstacle().unwrap().contains("shop/web"));
        assert_eq!(plan.groups().len(), 2, "the definitions of Shipper stay");
        assert_eq!(plan.lines().len(), 11, "{:?}", plan.lines());
        assert!(plan.last_step(true).contains("definitions of Shipper"));
    }

    #[test]
    fn without_applications_nothing_of_shipper_is_kept() {
        let plan = Plan::of(&[
            object(&kinds::CLUSTER, "", "eu-1"),
            object(&kinds::ROLLOUT_BLOCK, "shop", "freeze"),
        ]);
        assert_eq!(plan.clusters, ["eu-1"]);
        assert!(!plan.needs_manager());
        assert!(
            plan.last_step(true)
                .contains("`kubectl delete -f config/install.yaml`")
        );
        assert!(plan.last_step(false).contains("run this again"));
        assert_eq!(plan.others, BTreeMap::from([("RolloutBlock", 1)]));
    }

    #[test]
    fn an_interrupted_give_back_is_not_done() {
        let mut application = object(&kinds::APPLICATION, "shop", "web");
        application["metadata"]["annotations"] = json!({ANNOTATION_GIVEN_BACK: GIVEN_BACK});
        let labelled = |mut part: Value| {
            part["metadata"]["labels"] = json!({shipper::LABEL_APP: "web"});
            part
        };
        let left = |parts: &[Value]| {
            let all = [&[application.clone()], parts].concat();
            Plan::of(&all).applications.len()
        };
        assert_eq!(left(&[]), 0);
        assert_eq!(
            left(&[labelled(revision("web-1", None, "cluster.eu-1"))]),
            1
        );
        let mut release = labelled(object(&kinds::RELEASE, "shop", "web-1"));
        assert_eq!(left(std::slice::from_ref(&release)), 0);
        release["metadata"]["finalizers"] = json!([FINALIZER_SERVING]);
        assert_eq!(left(&[release]), 1);
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
        assert_eq!(Plan::of(&[]).lines()[0], "there are no objects of Baton");
        assert_eq!(Plan::of(&[]).groups().len(), 3);
    }
}
