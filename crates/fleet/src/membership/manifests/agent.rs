//! The agent in a cluster, which connects to the hub.

use serde_json::{Map, Value, json};

use super::{
    Credentials, NAMESPACE, bytes, fill, identity, insert_before_secret,
    target_rights::{TargetRights, cluster_role, tenants_role},
};
use crate::{
    membership::{
        args::{AgentManifestArgs, StateVolume},
        manifest::Manifest,
    },
    name::ClusterName,
};
use baton_apis::rights;
use baton_engine::diff::content_fingerprint;

/// Name of all objects of the agent.
pub(in crate::membership) const AGENT: &str = "baton-agent";
/// Default image of the agent. A released program names the image of its release.
const IMAGE: &str = match option_env!("BATON_AGENT_IMAGE") {
    Some(image) => image,
    None => concat!("baton:", env!("CARGO_PKG_VERSION")),
};
/// Name of the Secret with the kubeconfig for the hub, and the token.
const HUB_SECRET: &str = "baton-hub";

/// Annotations on a Cluster that store the options of its agent.
const ANNOTATION_HUB_SERVER: &str = "baton.run/agent-hub-server";
const ANNOTATION_IMAGE: &str = "baton.run/agent-image";
const ANNOTATION_STATE_VOLUME: &str = "baton.run/agent-state-volume";

/// The options of an agent, from this or an earlier run. An option that is `None` has the default
/// of this version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::membership) struct AgentOptions {
    /// URL of the hub's API server.
    pub hub_server: Option<String>,
    image: Option<String>,
    state: Option<StateVolume>,
    /// True if another program installs the agent, so that only its Secret is made. This is not
    /// stored.
    only_secret: bool,
    /// The rights of the agent in its cluster.
    pub rights: TargetRights,
}

impl AgentOptions {
    /// The given options, else those of earlier runs that the Cluster stores.
    pub fn new(args: &AgentManifestArgs, rights: TargetRights, cluster: Option<&Value>) -> Self {
        let AgentManifestArgs {
            hub_server,
            agent_image,
            state_volume,
            only_secret,
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
            only_secret: *only_secret,
            rights,
        }
    }

    /// The annotations by which a Cluster stores the options.
    pub fn annotations(&self) -> Map<String, Value> {
        let Self {
            hub_server,
            image,
            state,
            rights,
            only_secret: _,
        } = self;
        let all = [
            (ANNOTATION_HUB_SERVER, hub_server.clone()),
            (ANNOTATION_IMAGE, image.clone()),
            (ANNOTATION_STATE_VOLUME, state.map(text_of)),
        ];
        let given = all
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value?.into())));
        given.chain(rights.annotations()).collect()
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

/// The inputs of an agent's manifests.
pub(in crate::membership) struct Agent<'a> {
    pub cluster: &'a ClusterName,
    pub options: &'a AgentOptions,
    /// URL of the hub's API server.
    pub hub: &'a str,
    pub credentials: &'a Credentials,
}

impl Agent<'_> {
    /// The kubeconfig with which the agent connects to the hub. The token is a file next to it,
    /// which clients read again, so that a new token is used without a restart. A relative path
    /// starts at the folder of the kubeconfig.
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
                    // The namespace that the agent may read.
                    "namespace": self.cluster.namespace().unwrap_or_default(),
                },
            }],
            "current-context": "hub",
        })
    }

    /// All manifests of the agent, in the order of their creation.
    pub fn manifests(&self) -> Result<Vec<Manifest>, serde_saphyr::ser::Error> {
        let kubeconfig = serde_saphyr::to_string(&self.kubeconfig())?;
        let hash = format!("{:016x}", content_fingerprint(&json!(kubeconfig)));
        let kept = self.options.state.unwrap_or_default();
        // The kinds of volumes have different names: kubectl would keep the applied fields of a
        // volume of the same name, and a volume cannot be of both kinds.
        let state = format!("state-{}", text_of(kept));
        let volume = match kept {
            StateVolume::Claim => {
                json!({ "name": state, "persistentVolumeClaim": { "claimName": AGENT } })
            }
            StateVolume::EmptyDir => json!({ "name": state, "emptyDir": {} }),
        };
        let image = self.options.image.as_deref().unwrap_or(IMAGE);
        let values = [
            ("cluster", json!(self.cluster.as_str())),
            ("cluster-flag", format!("--cluster={}", self.cluster).into()),
            ("delivery", self.options.rights.rules().into()),
            ("rights", self.options.rights.annotations().into()),
            ("lease", rights::lease().into()),
            ("kubeconfig", bytes(&kubeconfig)),
            ("token", bytes(&self.credentials.token)),
            ("hash", hash.into()),
            ("image", image.into()),
            ("pull-policy", "IfNotPresent".into()),
            ("pull-secrets", json!([])),
            ("state", state.into()),
            ("state-volume", volume),
        ];
        let mut manifests = fill(include_str!("agent.yaml"), &values);
        insert_before_secret(&mut manifests, self.options.rights.of_tenants(AGENT));
        if self.options.only_secret {
            let kinds = ["Namespace", "Secret"];
            manifests.retain(|manifest| kinds.contains(&manifest.kind()));
        }
        if kept == StateVolume::EmptyDir {
            manifests.retain(|manifest| manifest.kind() != "PersistentVolumeClaim");
        }
        Ok(manifests)
    }
}

/// The objects to delete so that no agent is left, in this order; also the lease that the agent has
/// made itself.
pub(in crate::membership) fn leftovers(cluster: &ClusterName) -> Vec<Manifest> {
    let rbac = "rbac.authorization.k8s.io/v1";
    vec![
        identity("apps/v1", "Deployment", NAMESPACE, AGENT),
        identity("v1", "Secret", NAMESPACE, HUB_SECRET),
        identity("v1", "PersistentVolumeClaim", NAMESPACE, AGENT),
        identity(rbac, "RoleBinding", NAMESPACE, AGENT),
        identity(rbac, "Role", NAMESPACE, AGENT),
        identity(
            "coordination.k8s.io/v1",
            "Lease",
            NAMESPACE,
            &format!("{AGENT}-{cluster}"),
        ),
        identity(rbac, "ClusterRoleBinding", "", AGENT),
        cluster_role(AGENT),
        cluster_role(&tenants_role(AGENT)),
        identity("v1", "ServiceAccount", NAMESPACE, AGENT),
    ]
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::membership::{
        args::RightsMode, manifest::secret_value, manifests::target_rights::mode_of,
    };

    fn rights(given: Option<RightsMode>, before: Option<RightsMode>) -> TargetRights {
        TargetRights::new(given, before, None)
    }

    fn options(state: StateVolume) -> AgentOptions {
        AgentOptions {
            state: Some(state),
            rights: rights(Some(RightsMode::Tenants), None),
            ..AgentOptions::default()
        }
    }

    /// All manifests of an agent.
    pub(in crate::membership::manifests) fn agent(state: StateVolume) -> Vec<Manifest> {
        let credentials = Credentials {
            token: "t".to_owned(),
            ca: Some("CERTIFICATE".to_owned()),
        };
        let agent = Agent {
            cluster: &"eu-1".parse().unwrap(),
            options: &options(state),
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
                options: &AgentOptions::default(),
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

    /// Written for the pod, and read as a client reads it.
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
    fn all_created_objects_except_the_namespace_are_deleted() {
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
    fn the_state_volume_is_the_requested_one() {
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
    fn only_the_secret_is_made_for_an_agent_of_the_chart() {
        let args = AgentManifestArgs {
            only_secret: true,
            ..AgentManifestArgs::default()
        };
        let credentials = Credentials {
            token: "t".to_owned(),
            ca: None,
        };
        let agent = Agent {
            cluster: &"eu-1".parse().unwrap(),
            options: &AgentOptions::new(&args, TargetRights::default(), None),
            hub: "https://hub:6443",
            credentials: &credentials,
        };
        let titles: Vec<_> = agent
            .manifests()
            .unwrap()
            .iter()
            .map(Manifest::title)
            .collect();
        assert_eq!(titles, ["namespace baton-system", "secret baton-hub"]);
    }

    #[test]
    fn flags_of_an_earlier_run_are_kept() {
        let now = AgentManifestArgs {
            hub_server: Some("https://a:6443/".parse().unwrap()),
            agent_image: None,
            state_volume: Some(StateVolume::EmptyDir),
            only_secret: false,
        };
        let first = AgentOptions::new(&now, rights(Some(RightsMode::Tenants), None), None);
        assert_eq!(
            json!(first.annotations()),
            json!({
                "baton.run/agent-hub-server": "https://a:6443",
                "baton.run/agent-state-volume": "empty-dir",
                "baton.run/rights": "tenants",
            })
        );
        let cluster = json!({ "metadata": { "annotations": first.annotations() } });
        let first = AgentOptions {
            rights: rights(None, Some(RightsMode::Tenants)),
            ..first
        };
        let remembered = rights(None, mode_of(&cluster));
        assert_eq!(
            AgentOptions::new(&AgentManifestArgs::default(), remembered, Some(&cluster)),
            first
        );
        let later = AgentManifestArgs {
            agent_image: Some("mirror/baton:2".to_owned()),
            state_volume: Some(StateVolume::Claim),
            ..AgentManifestArgs::default()
        };
        let second = AgentOptions::new(&later, first.rights.clone(), Some(&cluster));
        assert_eq!(
            second,
            AgentOptions {
                image: Some("mirror/baton:2".to_owned()),
                state: Some(StateVolume::Claim),
                ..first
            }
        );
        assert_eq!(
            AgentOptions::new(&AgentManifestArgs::default(), TargetRights::default(), None),
            AgentOptions::default()
        );
    }
}
