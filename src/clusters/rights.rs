//! Rights: those that are asked for before anything is written, and those that are given away.

use baton_apis::constants::GROUP;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use serde_json::{Value, json};

/// A right to do something with objects of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Right {
    /// What, as in a role: `get`, `create`.
    pub verb: &'static str,
    /// API group; empty for the core group.
    pub group: String,
    /// Plural name of the kind.
    pub resource: String,
    /// Where; empty for kinds without namespaces.
    pub namespace: String,
    /// With which object.
    pub name: String,
}

impl Right {
    /// What it is about, as in a role: `clusterroles.rbac.authorization.k8s.io`, `secrets in namespace a`.
    #[must_use]
    pub fn object(&self) -> String {
        let mut text = self.resource.clone();
        for (before, part) in [(".", &self.group), (" in namespace ", &self.namespace)] {
            if !part.is_empty() {
                text.push_str(before);
                text.push_str(part);
            }
        }
        text
    }

    /// The question to the server, whether we have it.
    #[must_use]
    pub fn review(&self) -> SelfSubjectAccessReview {
        let some = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(ResourceAttributes {
                    verb: Some(self.verb.to_owned()),
                    group: Some(self.group.clone()),
                    resource: Some(self.resource.clone()),
                    namespace: some(&self.namespace),
                    name: some(&self.name),
                    ..ResourceAttributes::default()
                }),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        }
    }
}

/// What a cluster's objects need of whoever delivers them, be it the hub or the cluster's agent: the
/// rights of `config/rbac/children.yaml`, the definitions of custom resources, and discovery, which
/// some clusters take away from service accounts.
#[must_use]
pub fn delivery_rules() -> Value {
    json!([
        {
            "apiGroups": ["*"],
            "resources": ["*"],
            "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
        },
        {
            "apiGroups": ["rbac.authorization.k8s.io"],
            "resources": ["roles", "clusterroles"],
            "verbs": ["bind", "escalate"],
        },
        {
            "apiGroups": ["apiextensions.k8s.io"],
            "resources": ["customresourcedefinitions"],
            "verbs": ["get", "list", "watch"],
        },
        {
            "nonResourceURLs": ["/api", "/api/*", "/apis", "/apis/*", "/version"],
            "verbs": ["get"],
        },
    ])
}

/// What an agent needs in the namespace that it runs in, to be the only one there: the rights of
/// `config/rbac/leader-election.yaml`.
#[must_use]
pub fn lease_rules() -> Value {
    json!([{
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["get", "list", "watch", "create", "update", "patch"],
    }])
}

/// What an agent may do on the hub, in the namespace of its cluster: read its phases and report their
/// status. No finalizers, no Events, no Secrets: its credentials lie in a place that may be lost.
#[must_use]
pub fn agent_rules() -> Value {
    json!([
        {
            "apiGroups": [GROUP],
            "resources": ["objectsetphases"],
            "verbs": ["get", "list", "watch"],
        },
        {
            "apiGroups": [GROUP],
            "resources": ["objectsetphases/status"],
            "verbs": ["update", "patch"],
        },
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rules of the role in a file of `config/rbac`.
    fn shipped(text: &str) -> Value {
        // The first one is a comment.
        let documents = text.split("\n---\n").skip(1);
        let mut documents = documents.map(|text| serde_saphyr::from_str::<Value>(text).unwrap());
        let role = documents.find(|document| {
            document["kind"]
                .as_str()
                .is_some_and(|kind| kind.ends_with("Role"))
        });
        role.unwrap()["rules"].take()
    }

    #[test]
    fn an_agent_gets_what_it_needs_and_nothing_else() {
        let granted: Vec<String> = agent_rules()
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|rule| {
                let all = |key: &str| {
                    let items = rule[key].as_array().unwrap().clone();
                    items
                        .into_iter()
                        .map(|item| item.as_str().unwrap().to_owned())
                        .collect::<Vec<_>>()
                };
                let keys: Vec<&String> = rule.as_object().unwrap().keys().collect();
                assert_eq!(keys, ["apiGroups", "resources", "verbs"]);
                let (groups, resources, verbs) = (all("apiGroups"), all("resources"), all("verbs"));
                assert_eq!(groups, [GROUP]);
                let pairs = resources.into_iter().flat_map(move |resource| {
                    verbs
                        .clone()
                        .into_iter()
                        .map(move |verb| format!("{verb} {resource}"))
                });
                pairs.collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(
            granted,
            [
                "get objectsetphases",
                "list objectsetphases",
                "watch objectsetphases",
                "update objectsetphases/status",
                "patch objectsetphases/status",
            ]
        );
    }

    #[test]
    fn an_agent_keeps_its_lease_as_a_manager_does() {
        let shipped = shipped(include_str!("../../config/rbac/leader-election.yaml"));
        assert_eq!(lease_rules(), shipped);
    }

    /// Another cluster's objects are as free as those of the manager's own.
    #[test]
    fn objects_elsewhere_have_the_rights_of_those_here() {
        let shipped = shipped(include_str!("../../config/rbac/children.yaml"));
        let rules = delivery_rules();
        assert_eq!(
            shipped.as_array().unwrap()[..],
            rules.as_array().unwrap()[..2]
        );
    }

    #[test]
    fn rights_are_told_as_in_a_role() {
        let mut right = Right {
            verb: "patch",
            group: "rbac.authorization.k8s.io".to_owned(),
            resource: "clusterroles".to_owned(),
            namespace: String::new(),
            name: "baton-hub".to_owned(),
        };
        assert_eq!(right.object(), "clusterroles.rbac.authorization.k8s.io");
        right.group.clear();
        right.resource = "secrets".to_owned();
        right.namespace = "baton-system".to_owned();
        assert_eq!(right.object(), "secrets in namespace baton-system");
        let asked = serde_json::to_value(right.review()).unwrap();
        assert_eq!(
            asked["spec"]["resourceAttributes"],
            json!({
                "verb": "patch", "group": "", "resource": "secrets",
                "namespace": "baton-system", "name": "baton-hub",
            })
        );
    }
}
