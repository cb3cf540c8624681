//! What joining a cluster makes, as manifests.

pub(super) mod agent;

use k8s_openapi::ByteString;
use serde_json::{Value, json};

use super::{
    manifest::Manifest,
    name::{ClusterName, NameError},
    rights::{agent_rules, delivery_rules},
};

/// Namespace of what is made in the target.
pub(super) const NAMESPACE: &str = "baton-system";
/// Annotation on service accounts, and on namespaces on the hub: the cluster that they were made for.
pub(super) const ANNOTATION_CLUSTER: &str = "baton.run/cluster";

/// Name of the service account of the hub in the target, of its role and its binding.
pub(super) const HUB: &str = "baton-hub";
/// Name of the service account of an agent on the hub, of its role and its binding.
const AGENT: &str = "agent";

/// The label of all that Baton ships.
fn labels() -> Value {
    json!({ "app.kubernetes.io/name": "baton" })
}

/// What the hub needs in a target that it connects to, in the order in which it is to be made. The Secret that the token
/// controller fills is the last one.
pub(super) fn hub_account(name: &ClusterName) -> Vec<Manifest> {
    let mut manifests = vec![namespace(NAMESPACE), service_account(NAMESPACE, HUB, name)];
    let rules = delivery_rules();
    manifests.extend(role("ClusterRole", NAMESPACE, HUB, rules));
    manifests.push(token_secret(NAMESPACE, "baton-hub-token", HUB));
    manifests
}

/// What an agent needs on the hub, in the same order: all of it in a namespace of its own, as rights know no label
/// selectors.
///
/// # Errors
/// The name cannot be that of a namespace.
pub(super) fn agent_account(name: &ClusterName) -> Result<Vec<Manifest>, NameError> {
    let place = name
        .namespace()
        .ok_or_else(|| NameError::NoNamespace(name.to_string()))?;
    let mut namespace = namespace(&place);
    namespace.0["metadata"]["annotations"] = json!({ ANNOTATION_CLUSTER: name.as_str() });
    let mut manifests = vec![namespace, service_account(&place, AGENT, name)];
    manifests.extend(role("Role", &place, AGENT, agent_rules()));
    manifests.push(token_secret(&place, "agent-token", AGENT));
    Ok(manifests)
}

/// The Cluster with this spec.
pub(super) fn cluster(name: &ClusterName, spec: &Value) -> Manifest {
    Manifest(json!({
        "apiVersion": "shipper.booking.com/v1alpha1",
        "kind": "Cluster",
        "metadata": { "name": name.as_str() },
        "spec": spec,
    }))
}

/// The Secret of a Cluster, which goes with it. It has no type: one of an earlier Secret could not be changed.
pub(super) fn cluster_secret(
    name: &ClusterName,
    namespace: &str,
    cluster_uid: &str,
    credentials: &Credentials,
) -> Manifest {
    let mut data = json!({ "token": bytes(&credentials.token) });
    if let Some(ca) = &credentials.ca {
        data["ca.crt"] = bytes(ca);
    }
    Manifest(json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name.as_str(),
            "namespace": namespace,
            "ownerReferences": [{
                "apiVersion": "shipper.booking.com/v1alpha1",
                "kind": "Cluster",
                "name": name.as_str(),
                "uid": cluster_uid,
            }],
        },
        "data": data,
    }))
}

/// What opens an API server.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Credentials {
    /// A bearer token.
    pub token: String,
    /// Certificates of the authorities that the server's is checked against, as PEM; `None` for those of the system.
    pub ca: Option<String>,
}

/// A text as a value of a Secret.
fn bytes(text: &str) -> Value {
    json!(ByteString(text.as_bytes().to_vec()))
}

fn namespace(name: &str) -> Manifest {
    Manifest(json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": name,
            "labels": {
                "app.kubernetes.io/name": "baton",
                "pod-security.kubernetes.io/enforce": "restricted",
            },
        },
    }))
}

/// A service account that tells which cluster it was made for.
pub(super) fn service_account(namespace: &str, account: &str, cluster: &ClusterName) -> Manifest {
    Manifest(json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {
            "name": account,
            "namespace": namespace,
            "labels": labels(),
            "annotations": { ANNOTATION_CLUSTER: cluster.as_str() },
        },
    }))
}

/// Rights for a service account of the same name: a `Role` in its namespace, or a `ClusterRole`, and the binding.
fn role(kind: &str, namespace: &str, name: &str, rules: Value) -> [Manifest; 2] {
    let object = |kind: &str| {
        let mut metadata = json!({ "name": name, "labels": labels() });
        if !kind.starts_with("Cluster") {
            metadata["namespace"] = namespace.into();
        }
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": kind,
            "metadata": metadata,
        })
    };
    let mut role = object(kind);
    role["rules"] = rules;
    let mut binding = object(&format!("{kind}Binding"));
    binding["roleRef"] =
        json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name });
    binding["subjects"] =
        json!([{ "kind": "ServiceAccount", "name": name, "namespace": namespace }]);
    [Manifest(role), Manifest(binding)]
}

/// A token that does not expire: whoever connects from another cluster has to keep it, and could not ask for a new
/// one after a long absence.
fn token_secret(namespace: &str, name: &str, account: &str) -> Manifest {
    Manifest(json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": labels(),
            "annotations": { "kubernetes.io/service-account.name": account },
        },
        "type": "kubernetes.io/service-account-token",
    }))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::{
        apps::v1::Deployment,
        core::v1::{Namespace, PersistentVolumeClaim, Secret, ServiceAccount},
        rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
    };
    use serde::{Serialize, de::DeserializeOwned};

    use super::*;
    use crate::cli::cluster::StateVolume;

    fn name() -> ClusterName {
        "eu-1".parse().unwrap()
    }

    fn credentials() -> Credentials {
        Credentials {
            token: "t".to_owned(),
            ca: Some("CERTIFICATE".to_owned()),
        }
    }

    /// A misspelt field would be dropped by the typed form.
    #[test]
    fn manifests_hold_known_fields_only() {
        fn check<T: Serialize + DeserializeOwned>(manifest: &Manifest) {
            let typed: T = serde_json::from_value(manifest.0.clone()).unwrap();
            assert_eq!(serde_json::to_value(typed).unwrap(), manifest.0);
        }
        let mut all = hub_account(&name());
        all.extend(agent_account(&name()).unwrap());
        all.extend(agent::tests::agent(StateVolume::Claim));
        all.push(cluster_secret(&name(), "n", "1", &credentials()));
        for manifest in &all {
            match manifest.kind() {
                "Namespace" => check::<Namespace>(manifest),
                "ServiceAccount" => check::<ServiceAccount>(manifest),
                "ClusterRole" => check::<ClusterRole>(manifest),
                "ClusterRoleBinding" => check::<ClusterRoleBinding>(manifest),
                "Role" => check::<Role>(manifest),
                "RoleBinding" => check::<RoleBinding>(manifest),
                "PersistentVolumeClaim" => check::<PersistentVolumeClaim>(manifest),
                "Deployment" => check::<Deployment>(manifest),
                "Secret" => check::<Secret>(manifest),
                kind => panic!("no check for {kind}"),
            }
        }
    }

    /// Nobody can use what is there before all of it is.
    #[test]
    fn the_token_comes_last() {
        for account in [hub_account(&name()), agent_account(&name()).unwrap()] {
            let kinds: Vec<&str> = account.iter().map(Manifest::kind).collect();
            assert_eq!((kinds[0], kinds[1]), ("Namespace", "ServiceAccount"));
            assert_eq!(kinds.last(), Some(&"Secret"));
        }
    }

    #[test]
    fn an_agent_may_do_nothing_outside_of_its_namespace() {
        let account = agent_account(&name()).unwrap();
        assert_eq!(account[0].title(), "namespace baton-cluster-eu-1");
        for manifest in &account[1..] {
            assert_eq!(manifest.namespace(), "baton-cluster-eu-1");
        }
        let error = agent_account(&"eu.west".parse().unwrap()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "\"eu.west\" cannot be the name of a cluster that is joined with --pull: its namespace \
             \"baton-cluster-NAME\" on the hub has to be a DNS label, so the name is at most 49 \
             characters without '.'"
        );
    }

    #[test]
    fn the_secret_goes_with_its_cluster() {
        let secret = cluster_secret(&name(), "baton-system", "1-2", &credentials()).0;
        assert_eq!(secret["metadata"]["ownerReferences"][0]["uid"], "1-2");
        assert_eq!(
            secret["data"],
            json!({ "token": "dA==", "ca.crt": "Q0VSVElGSUNBVEU=" })
        );
        let of_system = Credentials {
            ca: None,
            ..credentials()
        };
        let secret = cluster_secret(&name(), "baton-system", "1-2", &of_system).0;
        assert_eq!(secret["data"], json!({ "token": "dA==" }));
    }
}
