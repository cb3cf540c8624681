//! The agent in a cluster that connects out to the hub.

use serde_json::{Map, Value, json};

use super::{Credentials, NAMESPACE, bytes, labels, namespace, role, service_account};
use crate::{
    cli::cluster::{AgentManifestArgs, StateVolume},
    clusters::{
        manifest::Manifest,
        name::ClusterName,
        rights::{delivery_rules, lease_rules},
    },
    engine::diff::content_fingerprint,
};

/// Name of all that belongs to the agent.
pub(in crate::clusters) const AGENT: &str = "baton-agent";
/// Image of the agent, where nothing else was asked for.
const IMAGE: &str = concat!("baton:", env!("CARGO_PKG_VERSION"));
/// Name of the Secret with the kubeconfig of the hub, and the token beside it.
const HUB_SECRET: &str = "baton-hub";
/// Where that Secret is mounted.
const HUB_DIR: &str = "/etc/baton/hub";
/// Where the agent keeps its state.
const STATE_DIR: &str = "/var/lib/baton";
/// The user that the image runs as.
const USER: u32 = 65532;

/// Annotations on a Cluster, for what was asked for about its agent.
const ANNOTATION_HUB_SERVER: &str = "baton.run/agent-hub-server";
const ANNOTATION_IMAGE: &str = "baton.run/agent-image";
const ANNOTATION_STATE_VOLUME: &str = "baton.run/agent-state-volume";

/// Annotation on the agent's pods: hash of the kubeconfig that they have started with.
const ANNOTATION_KUBECONFIG_HASH: &str = "baton.run/hub-kubeconfig-hash";

/// What was asked for about an agent, now or before. What is `None` is as this version has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::clusters) struct Wishes {
    /// URL of the hub's API server.
    pub hub_server: Option<String>,
    image: Option<String>,
    state: Option<StateVolume>,
}

impl Wishes {
    /// What is asked for now, else what the Cluster tells of earlier times.
    pub fn new(args: &AgentManifestArgs, cluster: Option<&Value>) -> Self {
        let AgentManifestArgs {
            hub_server,
            agent_image,
            state_volume,
        } = args;
        let annotations =
            cluster.and_then(|cluster| cluster.pointer("/metadata/annotations")?.as_object());
        let before = |annotation: &str| {
            let text = annotations.and_then(|all| all.get(annotation)?.as_str());
            text.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let hub_server = hub_server.as_ref().map(ToString::to_string);
        Self {
            hub_server: hub_server.or_else(|| before(ANNOTATION_HUB_SERVER)),
            image: agent_image.clone().or_else(|| before(ANNOTATION_IMAGE)),
            state: state_volume.or_else(|| {
                before(ANNOTATION_STATE_VOLUME).and_then(|text| state_volume_of(&text))
            }),
        }
    }

    /// The annotations that a Cluster remembers them by.
    pub fn annotations(&self) -> Map<String, Value> {
        let Self {
            hub_server,
            image,
            state,
        } = self;
        let all = [
            (ANNOTATION_HUB_SERVER, hub_server.clone()),
            (ANNOTATION_IMAGE, image.clone()),
            (ANNOTATION_STATE_VOLUME, state.map(text_of)),
        ];
        let given = all
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value?.into())));
        given.collect()
    }
}

fn text_of(state: StateVolume) -> String {
    match state {
        StateVolume::Claim => "claim",
        StateVolume::EmptyDir => "empty-dir",
    }
    .to_owned()
}

fn state_volume_of(text: &str) -> Option<StateVolume> {
    let mut all = [StateVolume::Claim, StateVolume::EmptyDir].into_iter();
    all.find(|state| text_of(*state) == text)
}

/// What there is to know of an agent.
pub(in crate::clusters) struct Agent<'a> {
    /// The cluster it serves.
    pub cluster: &'a ClusterName,
    /// What was asked for.
    pub wishes: &'a Wishes,
    /// URL of the hub's API server.
    pub hub: &'a str,
    /// What opens the hub's API server.
    pub credentials: &'a Credentials,
}

impl Agent<'_> {
    /// The kubeconfig that the agent finds the hub with. The token is a file beside it, which clients read again: a new
    /// one counts without a restart. A path that is not absolute begins where the kubeconfig is.
    fn kubeconfig(&self) -> Value {
        let mut cluster = json!({ "server": self.hub });
        if let Some(ca) = &self.credentials.ca {
            cluster["certificate-authority-data"] = bytes(ca);
        }
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "hub", "cluster": cluster }],
            "users": [{ "name": "agent", "user": { "tokenFile": "token" } }],
            "contexts": [{
                "name": "hub",
                "context": {
                    "cluster": "hub",
                    "user": "agent",
                    // The one that the agent may read.
                    "namespace": self.cluster.namespace().unwrap_or_default(),
                },
            }],
            "current-context": "hub",
        })
    }

    fn state(&self) -> StateVolume {
        self.wishes.state.unwrap_or_default()
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
        manifests.extend(role("ClusterRole", NAMESPACE, AGENT, delivery_rules()));
        manifests.extend(role("Role", NAMESPACE, AGENT, lease_rules()));
        manifests.push(Manifest(json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": { "name": HUB_SECRET, "namespace": NAMESPACE, "labels": labels() },
            "type": "Opaque",
            "data": { "kubeconfig": bytes(&kubeconfig), "token": bytes(&self.credentials.token) },
        })));
        if self.state() == StateVolume::Claim {
            manifests.push(claim());
        }
        manifests.push(self.deployment(&kubeconfig));
        Ok(manifests)
    }

    fn deployment(&self, kubeconfig: &str) -> Manifest {
        // Not those of a manager, which may be there as well.
        let pods = json!({ "app.kubernetes.io/name": AGENT });
        let print = content_fingerprint(&json!(kubeconfig));
        // Of different names: what kubectl has applied stays part of a volume of the same name, which cannot be both.
        let state_volume = format!("state-{}", text_of(self.state()));
        let state = match self.state() {
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
                // A volume for one of them has no room for two.
                "strategy": { "type": "Recreate" },
                "template": {
                    "metadata": {
                        "labels": pods,
                        // Another address of the hub takes a new start, other than another token.
                        "annotations": { ANNOTATION_KUBECONFIG_HASH: format!("{print:016x}") },
                    },
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
                        "containers": [self.container(&state_volume)],
                        "volumes": [named("hub", hub), named(&state_volume, state)],
                    },
                },
            },
        }))
    }

    fn container(&self, state_volume: &str) -> Value {
        let of_pod = |name: &str, path: &str| json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } });
        let probe = |path: &str| json!({ "httpGet": { "path": path, "port": "health" } });
        json!({
            "name": "agent",
            "image": self.wishes.image.as_deref().unwrap_or(IMAGE),
            "args": [
                "agent",
                format!("--cluster={}", self.cluster),
                format!("--hub-kubeconfig={HUB_DIR}/kubeconfig"),
                format!("--state-dir={STATE_DIR}"),
                "--log-format=json",
            ],
            "env": [
                // Where the lease is, and whose it is.
                of_pod("POD_NAMESPACE", "metadata.namespace"),
                of_pod("BATON_IDENTITY", "metadata.name"),
            ],
            "ports": [
                { "containerPort": 8080, "name": "metrics" },
                { "containerPort": 8081, "name": "health" },
            ],
            "livenessProbe": probe("/healthz"),
            "readinessProbe": probe("/readyz"),
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
                { "name": state_volume, "mountPath": STATE_DIR },
            ],
        })
    }
}

/// What to delete so that no agent is left, in that order; also the lease that the agent has made itself.
pub(in crate::clusters) fn leftovers(cluster: &ClusterName) -> Vec<Manifest> {
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
        object(rbac, "RoleBinding", AGENT),
        object(rbac, "Role", AGENT),
        object(
            "coordination.k8s.io/v1",
            "Lease",
            &format!("{AGENT}-{cluster}"),
        ),
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
pub(super) mod tests {
    use super::*;
    use crate::clusters::manifest::secret_value;

    fn wishes(state: StateVolume) -> Wishes {
        Wishes {
            state: Some(state),
            ..Wishes::default()
        }
    }

    /// All manifests of an agent.
    pub(in crate::clusters::manifests) fn agent(state: StateVolume) -> Vec<Manifest> {
        let credentials = Credentials {
            token: "t".to_owned(),
            ca: Some("CERTIFICATE".to_owned()),
        };
        let agent = Agent {
            cluster: &"eu-1".parse().unwrap(),
            wishes: &wishes(state),
            hub: "https://hub:6443",
            credentials: &credentials,
        };
        agent.manifests().unwrap()
    }

    #[test]
    fn a_new_token_starts_no_new_pod() {
        let deployment = |hub: &str, token: &str| {
            let agent = Agent {
                cluster: &"eu-1".parse().unwrap(),
                wishes: &Wishes::default(),
                hub,
                credentials: &Credentials {
                    token: token.to_owned(),
                    ca: None,
                },
            };
            agent.manifests().unwrap().pop()
        };
        let before = deployment("https://a", "1");
        assert_eq!(deployment("https://a", "2"), before);
        assert_ne!(deployment("https://b", "1"), before);
    }

    /// Written as the pod sees it and read as a client reads it.
    #[test]
    fn the_kubeconfig_leads_to_the_namespace_of_the_cluster() {
        let manifests = agent(StateVolume::Claim);
        let secret = manifests.iter().find(|one| one.kind() == "Secret").unwrap();
        let mounted = tempfile::tempdir().unwrap();
        for key in ["kubeconfig", "token"] {
            let value = secret_value(&secret.0, key).unwrap();
            std::fs::write(mounted.path().join(key), value).unwrap();
        }
        let read = kube::config::Kubeconfig::read_from(mounted.path().join("kubeconfig")).unwrap();
        assert_eq!(read.current_context.as_deref(), Some("hub"));
        let context = read.contexts[0].context.as_ref().unwrap();
        assert_eq!(context.namespace.as_deref(), Some("baton-cluster-eu-1"));
        let cluster = read.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(cluster.server.as_deref(), Some("https://hub:6443"));
        assert_eq!(
            cluster.certificate_authority_data.as_deref(),
            Some("Q0VSVElGSUNBVEU=")
        );
        let user = read.auth_infos[0].auth_info.as_ref().unwrap();
        let token = user.token_file.as_deref().unwrap();
        assert_eq!(std::fs::read_to_string(token).unwrap(), "t");
    }

    #[test]
    fn all_that_is_made_is_removed_but_the_namespace() {
        let identity = |one: &Manifest| (one.title(), one.namespace().to_owned());
        let mut made: Vec<_> = agent(StateVolume::Claim).iter().map(identity).collect();
        made.retain(|(title, _)| title != "namespace baton-system");
        let left = leftovers(&"eu-1".parse().unwrap());
        let mut removed: Vec<_> = left.iter().map(identity).collect();
        made.push((
            "lease baton-agent-eu-1".to_owned(),
            "baton-system".to_owned(),
        ));
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
            let claims = manifests
                .iter()
                .filter(|one| one.kind() == "PersistentVolumeClaim");
            let container = &deployment["spec"]["template"]["spec"]["containers"][0];
            assert_eq!(container["volumeMounts"][1]["name"], volumes[1]["name"]);
            (volumes[1].clone(), claims.count())
        };
        assert_eq!(
            volume(StateVolume::EmptyDir),
            (json!({ "name": "state-empty-dir", "emptyDir": {} }), 0)
        );
        assert_eq!(
            volume(StateVolume::Claim),
            (
                json!({ "name": "state-claim", "persistentVolumeClaim": { "claimName": "baton-agent" } }),
                1
            )
        );
    }

    #[test]
    fn what_was_asked_for_once_is_asked_for_again() {
        let now = AgentManifestArgs {
            hub_server: Some("https://a:6443/".parse().unwrap()),
            agent_image: None,
            state_volume: Some(StateVolume::EmptyDir),
        };
        let first = Wishes::new(&now, None);
        assert_eq!(
            json!(first.annotations()),
            json!({
                "baton.run/agent-hub-server": "https://a:6443",
                "baton.run/agent-state-volume": "empty-dir",
            })
        );
        let cluster = json!({ "metadata": { "annotations": first.annotations() } });
        assert_eq!(
            Wishes::new(&AgentManifestArgs::default(), Some(&cluster)),
            first
        );
        let later = AgentManifestArgs {
            agent_image: Some("mirror/baton:2".to_owned()),
            state_volume: Some(StateVolume::Claim),
            ..AgentManifestArgs::default()
        };
        let second = Wishes::new(&later, Some(&cluster));
        assert_eq!(
            second,
            Wishes {
                image: Some("mirror/baton:2".to_owned()),
                state: Some(StateVolume::Claim),
                ..first
            }
        );
        assert_eq!(
            Wishes::new(&AgentManifestArgs::default(), None),
            Wishes::default()
        );
    }
}
