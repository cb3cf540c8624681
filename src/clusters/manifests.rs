//! What joining a cluster makes, as manifests.

use k8s_openapi::ByteString;
use serde_json::{Value, json};

use super::{manifest::Manifest, name::ClusterName, rights::delivery_rules};

/// Namespace of what is made in the target.
pub(super) const NAMESPACE: &str = "baton-system";
/// Annotation on the service account in the target: the cluster that it was made for.
pub(super) const ANNOTATION_CLUSTER: &str = "baton.run/cluster";

/// Name of the service account of the hub in the target, of its role and its binding.
const HUB: &str = "baton-hub";

/// The label of all that Baton ships.
fn labels() -> Value {
    json!({ "app.kubernetes.io/name": "baton" })
}

/// What the hub needs in a target that it connects to, in the order in which it is to be made. The Secret that the token
/// controller fills is the last one.
pub(super) fn hub_account(name: &ClusterName) -> Vec<Manifest> {
    let mut manifests = vec![namespace(NAMESPACE), service_account(NAMESPACE, HUB, name)];
    manifests.extend(cluster_role(HUB));
    manifests.push(token_secret(NAMESPACE, "baton-hub-token", HUB));
    manifests
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

fn service_account(namespace: &str, account: &str, cluster: &ClusterName) -> Manifest {
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

/// The rights to deliver objects, for a service account of the same name.
fn cluster_role(name: &str) -> [Manifest; 2] {
    let object = |kind: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": kind,
            "metadata": { "name": name, "labels": labels() },
        })
    };
    let mut role = object("ClusterRole");
    role["rules"] = delivery_rules();
    let mut binding = object("ClusterRoleBinding");
    binding["roleRef"] = role_reference("ClusterRole", name);
    binding["subjects"] = json!([subject(NAMESPACE, name)]);
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

fn role_reference(kind: &str, name: &str) -> Value {
    json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name })
}

fn subject(namespace: &str, account: &str) -> Value {
    json!({ "kind": "ServiceAccount", "name": account, "namespace": namespace })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::{
        core::v1::{Namespace, Secret, ServiceAccount},
        rbac::v1::{ClusterRole, ClusterRoleBinding},
    };
    use serde::{Serialize, de::DeserializeOwned};

    use super::*;

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
        all.push(cluster_secret(&name(), "n", "1", &credentials()));
        for manifest in &all {
            match manifest.kind() {
                "Namespace" => check::<Namespace>(manifest),
                "ServiceAccount" => check::<ServiceAccount>(manifest),
                "ClusterRole" => check::<ClusterRole>(manifest),
                "ClusterRoleBinding" => check::<ClusterRoleBinding>(manifest),
                "Secret" => check::<Secret>(manifest),
                kind => panic!("no check for {kind}"),
            }
        }
    }

    /// Nobody can use what is there before all of it is.
    #[test]
    fn the_token_comes_last() {
        let account = hub_account(&name());
        let kinds: Vec<&str> = account.iter().map(Manifest::kind).collect();
        assert_eq!((kinds[0], kinds[1]), ("Namespace", "ServiceAccount"));
        assert_eq!(kinds.last(), Some(&"Secret"));
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
