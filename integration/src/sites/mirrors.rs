//! The objects on the hub that belong to the agent of a pull cluster.

use serde_json::{Value, json};

use super::names::mirrors;
use super::{Account, Joined};
use crate::namespace::TIMEOUT;
use crate::polls::Polls;

/// The name of an agent's account on the hub, and of its role and binding.
const AGENT: &str = "agent";

/// The name of the mirror whose status is an agent's heartbeat.
const HEARTBEAT: &str = "agent";

impl Joined {
    /// Returns the namespace of the hub that holds the agent's mirrors.
    #[must_use]
    pub fn mirrors(&self) -> String {
        mirrors(self.name())
    }

    /// Creates the objects that an agent needs on the hub, as `baton cluster join --pull` does,
    /// unless they exist: the namespace of the mirrors, and an account with rights in it.
    pub async fn admit_agent(&self) -> Account {
        let namespace = self.mirrors();
        let home = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace },
        });
        self.hub().apply(&home, "tests").await.unwrap();
        let hub = self.hub_endpoint();
        let account = Account::create(self.hub().kubeconfig(), &hub, &namespace, AGENT).await;
        let rbac = |kind: &str| {
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
                "metadata": { "name": AGENT, "namespace": namespace },
            })
        };
        let mut role = rbac("Role");
        role["rules"] = json!([
            {
                "apiGroups": ["package-operator.run"], "resources": ["objectsetphases"],
                "verbs": ["get", "list", "watch"],
            },
            {
                "apiGroups": ["package-operator.run"], "resources": ["objectsetphases/status"],
                "verbs": ["update", "patch"],
            },
        ]);
        let mut binding = rbac("RoleBinding");
        binding["roleRef"] =
            json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": AGENT });
        binding["subjects"] =
            json!([{ "kind": "ServiceAccount", "name": AGENT, "namespace": namespace }]);
        self.hub().apply(&role, "tests").await.unwrap();
        self.hub().apply(&binding, "tests").await.unwrap();
        account
    }

    /// Waits until the agent reports all mirrors as paused, if the site has an agent.
    pub async fn until_frozen(&self) {
        let polls = Polls::start();
        loop {
            let mirrors = self.mirrored().await;
            let is_frozen = |mirror: &Value| {
                let conditions = mirror
                    .pointer("/status/conditions")
                    .and_then(Value::as_array);
                let mut conditions = conditions.into_iter().flatten();
                conditions
                    .any(|condition| condition["type"] == "Paused" && condition["status"] == "True")
            };
            if mirrors.iter().all(is_frozen) {
                return;
            }
            assert!(polls.elapsed() < TIMEOUT, "to be paused: {mirrors:#?}");
            polls.pause().await;
        }
    }

    /// Returns the mirrors of the site's phases, without the mirror of the heartbeat.
    pub async fn mirrored(&self) -> Vec<Value> {
        let mut all = self.hub().list(&mirror(&self.mirrors(), ""), "").await;
        all.retain(|mirror| mirror["metadata"]["name"] != HEARTBEAT);
        all
    }
}

fn mirror(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSetPhase",
        "metadata": { "name": name, "namespace": namespace },
    })
}
