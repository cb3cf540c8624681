//! The agent in a cluster that connects out to the hub.

use serde_json::{Value, json};

use super::{Credentials, NAMESPACE, bytes, cluster_role, labels, namespace, service_account};
use crate::{
    cli::cluster::StateVolume,
    clusters::{manifest::Manifest, name::ClusterName},
};

/// Name of all that belongs to the agent.
pub(in crate::clusters) const AGENT: &str = "baton-agent";
/// Name of the Secret with the kubeconfig of the hub.
const HUB_SECRET: &str = "baton-hub";
/// Where the kubeconfig of the hub is mounted.
const HUB_DIR: &str = "/etc/baton/hub";
/// Where the agent keeps its state.
const STATE_DIR: &str = "/var/lib/baton";
/// The user that the image runs as.
const USER: u32 = 65532;

/// What there is to know of an agent.
pub(in crate::clusters) struct Agent<'a> {
    /// The cluster it serves.
    pub cluster: &'a ClusterName,
    /// Its image.
    pub image: &'a str,
    /// Where it keeps its state.
    pub state: StateVolume,
    /// URL of the hub's API server.
    pub hub: &'a str,
    /// What opens the hub's API server.
    pub credentials: &'a Credentials,
}

impl Agent<'_> {
    /// The kubeconfig that the agent finds the hub with.
    fn kubeconfig(&self) -> Value {
        let mut cluster = json!({ "server": self.hub });
        if let Some(ca) = &self.credentials.ca {
            cluster["certificate-authority-data"] = bytes(ca);
        }
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "hub", "cluster": cluster }],
            "users": [{ "name": "agent", "user": { "token": self.credentials.token } }],
            "contexts": [{
                "name": "hub",
                "context": {
                    "cluster": "hub",
                    "user": "agent",
                    // Whoever gets here is allowed to pull.
                    "namespace": self.cluster.namespace().unwrap_or_default(),
                },
            }],
            "current-context": "hub",
        })
    }

    /// All that makes the agent, in the order in which it is to be made.
    ///
    /// # Errors
    /// The kubeconfig cannot be written as YAML.
    pub fn manifests(&self) -> Result<Vec<Manifest>, serde_saphyr::ser::Error> {
        let kubeconfig = serde_saphyr::to_string(&self.kubeconfig())?;
        let mut manifests = vec![
            namespace(NAMESPACE),
            service_account(NAMESPACE, AGENT, self.cluster),
        ];
        manifests.extend(cluster_role(AGENT));
        manifests.push(Manifest(json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": { "name": HUB_SECRET, "namespace": NAMESPACE, "labels": labels() },
            "type": "Opaque",
            "data": { "kubeconfig": bytes(&kubeconfig) },
        })));
        if self.state == StateVolume::Claim {
            manifests.push(claim());
        }
        manifests.push(self.deployment());
        Ok(manifests)
    }

    fn deployment(&self) -> Manifest {
        let pods =
            json!({ "app.kubernetes.io/name": "baton", "app.kubernetes.io/component": "agent" });
        let state = match self.state {
            StateVolume::Claim => json!({ "persistentVolumeClaim": { "claimName": AGENT } }),
            StateVolume::EmptyDir => json!({ "emptyDir": {} }),
        };
        let hub = json!({ "secret": { "secretName": HUB_SECRET, "defaultMode": 0o440 } });
        let named = |name: &str, mut volume: Value| {
            volume["name"] = name.into();
            volume
        };
        Manifest(json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": { "name": AGENT, "namespace": NAMESPACE, "labels": labels() },
            "spec": {
                "replicas": 1,
                "selector": { "matchLabels": pods },
                // Two of them would write the same objects and the same state.
                "strategy": { "type": "Recreate" },
                "template": {
                    "metadata": { "labels": pods },
                    "spec": {
                        "serviceAccountName": AGENT,
                        "terminationGracePeriodSeconds": 30,
                        "securityContext": {
                            "runAsNonRoot": true,
                            "runAsUser": USER,
                            // The state and the kubeconfig belong to it.
                            "fsGroup": USER,
                            "seccompProfile": { "type": "RuntimeDefault" },
                        },
                        "containers": [self.container()],
                        "volumes": [named("hub", hub), named("state", state)],
                    },
                },
            },
        }))
    }

    fn container(&self) -> Value {
        json!({
            "name": "agent",
            "image": self.image,
            "args": [
                "agent",
                format!("--cluster={}", self.cluster),
                format!("--hub-kubeconfig={HUB_DIR}/kubeconfig"),
            ],
            "resources": {
                "requests": { "cpu": "50m", "memory": "64Mi" },
                "limits": { "memory": "256Mi" },
            },
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "capabilities": { "drop": ["ALL"] },
                "readOnlyRootFilesystem": true,
            },
            "volumeMounts": [
                { "name": "hub", "mountPath": HUB_DIR, "readOnly": true },
                { "name": "state", "mountPath": STATE_DIR },
            ],
        })
    }
}

/// What to delete so that no agent is left, in that order.
pub(in crate::clusters) fn leftovers() -> Vec<Manifest> {
    let object = |api_version: &str, kind: &str, name: &str| {
        let mut object = json!({
            "apiVersion": api_version, "kind": kind, "metadata": { "name": name },
        });
        if !kind.starts_with("Cluster") {
            object["metadata"]["namespace"] = NAMESPACE.into();
        }
        Manifest(object)
    };
    let rbac = "rbac.authorization.k8s.io/v1";
    vec![
        object("apps/v1", "Deployment", AGENT),
        object("v1", "Secret", HUB_SECRET),
        object("v1", "PersistentVolumeClaim", AGENT),
        object(rbac, "ClusterRoleBinding", AGENT),
        object(rbac, "ClusterRole", AGENT),
        object("v1", "ServiceAccount", AGENT),
    ]
}

fn claim() -> Manifest {
    Manifest(json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": { "name": AGENT, "namespace": NAMESPACE, "labels": labels() },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": { "requests": { "storage": "256Mi" } },
        },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(state: StateVolume) -> Vec<Manifest> {
        let credentials = Credentials {
            token: "t".to_owned(),
            ca: Some("CERTIFICATE".to_owned()),
        };
        let agent = Agent {
            cluster: &"eu-1".parse().unwrap(),
            image: "baton:1",
            state,
            hub: "https://hub:6443",
            credentials: &credentials,
        };
        agent.manifests().unwrap()
    }

    #[test]
    fn the_kubeconfig_leads_to_the_namespace_of_the_cluster() {
        let manifests = agent(StateVolume::Claim);
        let secret = manifests.iter().find(|one| one.kind() == "Secret").unwrap();
        let text = crate::clusters::manifest::secret_value(&secret.0, "kubeconfig").unwrap();
        let text = String::from_utf8(text).unwrap();
        let kubeconfig: kube::config::Kubeconfig = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(kubeconfig.current_context.as_deref(), Some("hub"));
        let context = kubeconfig.contexts[0].context.as_ref().unwrap();
        assert_eq!(context.namespace.as_deref(), Some("baton-cluster-eu-1"));
        let cluster = kubeconfig.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(cluster.server.as_deref(), Some("https://hub:6443"));
        assert_eq!(
            cluster.certificate_authority_data.as_deref(),
            Some("Q0VSVElGSUNBVEU=")
        );
    }

    #[test]
    fn all_that_is_made_is_removed_but_the_namespace() {
        let identity = |one: &Manifest| (one.title(), one.namespace().to_owned());
        let mut made: Vec<_> = agent(StateVolume::Claim).iter().map(identity).collect();
        made.retain(|(title, _)| title != "namespace baton-system");
        let mut removed: Vec<_> = leftovers().iter().map(identity).collect();
        made.sort();
        removed.sort();
        assert_eq!(made, removed);
    }

    #[test]
    fn the_state_is_kept_where_it_was_asked_for() {
        let volume = |state| {
            let manifests = agent(state);
            let deployment = &manifests.last().unwrap().0;
            let volumes = &deployment["spec"]["template"]["spec"]["volumes"];
            (volumes[1].clone(), manifests.len())
        };
        assert_eq!(
            volume(StateVolume::EmptyDir),
            (json!({ "name": "state", "emptyDir": {} }), 6)
        );
        assert_eq!(
            volume(StateVolume::Claim),
            (
                json!({ "name": "state", "persistentVolumeClaim": { "claimName": "baton-agent" } }),
                7
            )
        );
    }
}
