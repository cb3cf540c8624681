//! The manifests of the objects that joining a cluster creates.

pub(super) mod agent;
pub(super) mod target_rights;

use baton_apis::{
    constants::{ANNOTATION_SERVER, BATON_API_VERSION, shipper},
    rights,
};
use k8s_openapi::ByteString;
use serde_json::{Value, json};

use self::target_rights::TargetRights;
pub(super) use super::args::HUB;
use super::{manifest::Manifest, request::Admitted};
use crate::name::{ClusterName, NameError};

/// Namespace of the objects in the target.
pub(super) const NAMESPACE: &str = "baton-system";
/// Annotation on service accounts, and on namespaces and assignments on the hub: the cluster for
/// which they were created.
pub(super) const ANNOTATION_CLUSTER: &str = "baton.run/cluster";

/// The documents of a template, with a value for each `${name}`.
fn fill(template: &str, values: &[(&str, Value)]) -> Vec<Manifest> {
    let mut text = template.to_owned();
    for (name, value) in values {
        // JSON is also YAML.
        text = text.replace(&format!("${{{name}}}"), &value.to_string());
    }
    let documents = text.split("\n---\n").map(serde_saphyr::from_str);
    let manifests: Result<_, _> = documents.map(|object| object.map(Manifest)).collect();
    manifests.expect("templates are YAML with any values")
}

/// The objects that the hub needs in a target to which it connects, in the order of their creation.
pub(super) fn hub_account(name: &ClusterName, rights: &TargetRights) -> Vec<Manifest> {
    let values = [
        ("cluster", json!(name.as_str())),
        ("delivery", rights.rules().into()),
        ("rights", rights.annotations().into()),
    ];
    let mut account = fill(include_str!("manifests/hub-account.yaml"), &values);
    insert_before_secret(&mut account, rights.of_tenants(HUB));
    account
}

/// Inserts rights before the token that uses them.
fn insert_before_secret(manifests: &mut Vec<Manifest>, rights: Vec<Manifest>) {
    let secret = manifests.iter().position(|one| one.kind() == "Secret");
    let index = secret.unwrap_or(manifests.len());
    manifests.splice(index..index, rights);
}

/// The objects that an agent needs on the hub, in the order of their creation.
pub(super) fn agent_account(name: &ClusterName) -> Result<Vec<Manifest>, NameError> {
    let namespace = name
        .namespace()
        .ok_or_else(|| NameError::NoNamespace(name.to_string()))?;
    let values = [
        ("cluster", json!(name.as_str())),
        ("namespace", namespace.into()),
        ("rules", rights::agent().into()),
    ];
    Ok(fill(include_str!("manifests/agent-account.yaml"), &values))
}

/// The identity of an object; without a namespace for cluster-scoped kinds.
pub(super) fn identity(api_version: &str, kind: &str, namespace: &str, name: &str) -> Manifest {
    let mut metadata = json!({ "name": name });
    if !namespace.is_empty() {
        metadata["namespace"] = namespace.into();
    }
    Manifest(json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata }))
}

/// The Cluster with this spec.
pub(super) fn cluster(name: &ClusterName, spec: &Value) -> Manifest {
    Manifest(json!({
        "apiVersion": shipper::API_VERSION,
        "kind": "Cluster",
        "metadata": { "name": name.as_str() },
        "spec": spec,
    }))
}

/// The SiteAssignment that lets namespaces deliver into the cluster. It does not set their reach.
pub(super) fn assignment(name: &ClusterName, admitted: &Admitted) -> Manifest {
    let namespaces = match admitted {
        Admitted::All => json!({ "selector": {} }),
        Admitted::Names(names) => json!({ "names": names }),
    };
    Manifest(json!({
        "apiVersion": BATON_API_VERSION,
        "kind": "SiteAssignment",
        "metadata": {
            "name": name.as_str(),
            "annotations": { ANNOTATION_CLUSTER: name.as_str() },
        },
        "spec": { "namespaces": namespaces, "clusters": { "names": [name.as_str()] } },
    }))
}

/// True if an object was created by joining the cluster.
pub(super) fn is_made_for(live: &Value, name: &ClusterName) -> bool {
    let annotations = live.pointer("/metadata/annotations");
    let cluster = annotations.and_then(|annotations| annotations.get(ANNOTATION_CLUSTER));
    cluster.and_then(Value::as_str) == Some(name.as_str())
}

/// The Secret of a Cluster, by which it is owned. An annotation names the server of the
/// credentials. The Secret has no type, because the type of an existing Secret cannot be changed.
pub(super) fn cluster_secret(
    name: &ClusterName,
    namespace: &str,
    cluster_uid: &str,
    server: &str,
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
            "annotations": { ANNOTATION_SERVER: server },
            "ownerReferences": [{
                "apiVersion": shipper::API_VERSION,
                "kind": "Cluster",
                "name": name.as_str(),
                "uid": cluster_uid,
            }],
        },
        "data": data,
    }))
}

/// The credentials for an API server.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Credentials {
    pub token: String,
    /// Certificates of the CAs for the certificate of the server, as PEM; `None` for those of the
    /// system.
    pub ca: Option<String>,
}

/// The encoded text, as a value of a Secret.
fn bytes(text: &str) -> Value {
    json!(ByteString(text.as_bytes().to_vec()))
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
    use crate::membership::args::{RightsMode, StateVolume};
    use baton_apis::SiteAssignmentSpec;

    fn name() -> ClusterName {
        "eu-1".parse().unwrap()
    }

    fn credentials() -> Credentials {
        Credentials {
            token: "t".to_owned(),
            ca: Some("CERTIFICATE".to_owned()),
        }
    }

    /// The typed form would drop a misspelt field.
    #[test]
    fn manifests_contain_known_fields_only() {
        fn check<T: Serialize + DeserializeOwned>(manifest: &Manifest) {
            let typed: T = serde_json::from_value(manifest.0.clone()).unwrap();
            assert_eq!(serde_json::to_value(typed).unwrap(), manifest.0);
        }
        let names = Admitted::Names(vec!["shop".to_owned()]);
        let tenants = TargetRights::new(Some(RightsMode::Tenants), None, Some(&names));
        let mut all = hub_account(&name(), &TargetRights::default());
        all.extend(hub_account(&name(), &tenants));
        all.extend(agent_account(&name()).unwrap());
        all.extend(agent::tests::agent(StateVolume::Claim));
        all.push(cluster_secret(
            &name(),
            "n",
            "1",
            "https://s",
            &credentials(),
        ));
        all.extend([Admitted::All, names].map(|admitted| assignment(&name(), &admitted)));
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
                // The typed form has the defaults as well.
                "SiteAssignment" => {
                    let typed = serde_json::from_value(manifest.0["spec"].clone());
                    let SiteAssignmentSpec { clusters, .. } = typed.unwrap();
                    assert_eq!(clusters.names.unwrap(), ["eu-1"]);
                }
                kind => panic!("no check for {kind}"),
            }
        }
    }

    /// A token must not be usable before all other objects exist.
    #[test]
    fn the_token_is_created_last() {
        let trusted = hub_account(&name(), &TargetRights::default());
        let tenants = TargetRights::new(Some(RightsMode::Tenants), None, None);
        let tenants = hub_account(&name(), &tenants);
        for account in [trusted, tenants, agent_account(&name()).unwrap()] {
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
    fn the_secret_is_owned_by_its_cluster() {
        let secret = cluster_secret(&name(), "baton-system", "1-2", "https://s", &credentials()).0;
        assert_eq!(
            secret["metadata"]["annotations"],
            json!({ "baton.run/server": "https://s" })
        );
        assert_eq!(secret["metadata"]["ownerReferences"][0]["uid"], "1-2");
        assert_eq!(
            secret["data"],
            json!({ "token": "dA==", "ca.crt": "Q0VSVElGSUNBVEU=" })
        );
        let of_system = Credentials {
            ca: None,
            ..credentials()
        };
        let secret = cluster_secret(&name(), "baton-system", "1-2", "https://s", &of_system).0;
        assert_eq!(secret["data"], json!({ "token": "dA==" }));
    }
}
