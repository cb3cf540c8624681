//! The rights that are checked before the first write.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};

/// A right to a verb for objects of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Right {
    /// Verb, as in a role: `get`, `create`.
    pub verb: &'static str,
    /// API group; empty for the core group.
    pub group: String,
    /// Plural name of the kind.
    pub resource: String,
    /// Namespace; empty for cluster-scoped kinds.
    pub namespace: String,
    pub name: String,
}

impl Right {
    /// The objects, as in a role: `clusterroles.rbac.authorization.k8s.io`, `secrets in namespace
    /// a`.
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

    /// The review that asks the server for the right.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_right_is_described_as_in_a_role() {
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
        let review = serde_json::to_value(right.review()).unwrap();
        assert_eq!(
            review["spec"]["resourceAttributes"],
            json!({
                "verb": "patch", "group": "", "resource": "secrets",
                "namespace": "baton-system", "name": "baton-hub",
            })
        );
    }
}
