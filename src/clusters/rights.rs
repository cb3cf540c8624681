//! Rights: those that are asked for before anything is written, and those that are given away.

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

/// What the hub needs in a cluster to deliver objects into it: the rights of `config/rbac/children.yaml`, the definitions of custom resources, and discovery, which
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Another cluster's objects are as free as those of the manager's own.
    #[test]
    fn objects_elsewhere_have_the_rights_of_those_here() {
        let shipped = include_str!("../../config/rbac/children.yaml");
        let role = shipped.split("\n---\n").nth(1).unwrap();
        let role: Value = serde_saphyr::from_str(role).unwrap();
        let rules = delivery_rules();
        assert_eq!(
            role["rules"].as_array().unwrap()[..],
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
