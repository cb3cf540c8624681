//! Service accounts on a site, and tokens that end.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::sleep;

use super::Site;
use super::credentials::{TemporaryKubeconfig, sign};
use crate::cluster::Cluster;
use crate::namespace::INTERVAL;

/// How long an API server may go on to accept a token that it has seen before. It remembers for 10 s.
const REMEMBERED: Duration = Duration::from_secs(20);

/// How much later than its time a token expires for an API server: differences of clocks are forgiven.
const LEEWAY: u64 = 60;

/// The account's name, in a namespace of its own.
const NAME: &str = "hub";

/// A `ServiceAccount` in a namespace of its own. It stays until the end of the process: what it has to clean
/// up outlives the test.
#[derive(Clone, Debug)]
pub struct Account {
    site: Site,
    namespace: String,
    uid: String,
}

/// A bearer token.
#[derive(Clone, Debug)]
pub struct Token {
    /// What is sent.
    pub text: String,
    /// The Secret that it lives as long as.
    bound_to: String,
}

impl Site {
    /// An account that may do everything.
    pub async fn account(&self) -> Account {
        self.account_with(&json!([
            { "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] },
            { "nonResourceURLs": ["*"], "verbs": ["*"] },
        ]))
        .await
    }

    /// An account that may do what these rules of a `ClusterRole` say.
    pub async fn account_with(&self, rules: &Value) -> Account {
        let cluster = self.cluster().await;
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": { "generateName": "baton-it-account-" },
        });
        let namespace = cluster.create(&namespace).await.unwrap();
        let namespace = namespace["metadata"]["name"].as_str().unwrap().to_owned();
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": { "name": NAME, "namespace": namespace },
        });
        let account = cluster.create(&account).await.unwrap();
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": { "name": namespace },
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": namespace,
            },
            "subjects": [{ "kind": "ServiceAccount", "name": NAME, "namespace": namespace }],
        });
        let made = Account {
            site: self.clone(),
            namespace,
            uid: account["metadata"]["uid"].as_str().unwrap().to_owned(),
        };
        made.allow(rules).await;
        cluster.create(&binding).await.unwrap();
        made
    }
}

impl Account {
    /// Replaces its rights. The API server learns of it within moments, not at once.
    pub async fn allow(&self, rules: &Value) {
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": { "name": self.namespace }, "rules": rules,
        });
        let cluster = self.site.cluster().await;
        cluster.apply(&role, "tests").await.unwrap();
    }

    /// A token of its own for an hour, which can be revoked before.
    pub async fn token(&self) -> Token {
        let cluster = self.site.cluster().await;
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "generateName": "token-", "namespace": self.namespace },
        });
        let secret = cluster.create(&secret).await.unwrap();
        let name = secret["metadata"]["name"].as_str().unwrap().to_owned();
        let bound = json!({
            "apiVersion": "v1", "kind": "Secret",
            "name": name, "uid": secret["metadata"]["uid"],
        });
        let text = cluster.bound_token(&self.namespace, NAME, &bound).await;
        Token {
            text,
            bound_to: name,
        }
    }

    /// A token that expires so much later. The API server may accept it for 10 s more, if it has seen it.
    #[must_use]
    pub fn expiring_token(&self, lifetime: Duration) -> String {
        let now = jiff::Timestamp::now().as_second().cast_unsigned();
        let issued = now - LEEWAY - 1;
        let claims = json!({
            "iss": "https://kubernetes.default.svc.cluster.local",
            "aud": ["https://kubernetes.default.svc.cluster.local"],
            "sub": format!("system:serviceaccount:{}:{NAME}", self.namespace),
            "iat": issued,
            "nbf": issued,
            "exp": now - LEEWAY + lifetime.as_secs(),
            "kubernetes.io": {
                "namespace": self.namespace,
                "serviceaccount": { "name": NAME, "uid": self.uid },
            },
        });
        sign(&self.site.endpoint().key, &claims)
    }

    /// Takes a token away, and returns when the API server refuses it.
    pub async fn revoke(&self, token: &Token) {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": token.bound_to, "namespace": self.namespace },
        });
        let cluster = self.site.cluster().await;
        assert!(cluster.delete(&secret, "Background").await);
        self.site.until_refused(&token.text).await;
    }
}

impl Site {
    /// Waits until the API server does not accept a token (any more).
    pub async fn until_refused(&self, token: &str) {
        let asked = Instant::now();
        while self.accepts(token).await {
            assert!(asked.elapsed() < REMEMBERED, "the token is still accepted");
            sleep(INTERVAL).await;
        }
    }

    /// Whether the API server knows who sends a token.
    pub async fn accepts(&self, token: &str) -> bool {
        let kubeconfig = TemporaryKubeconfig::new(&self.endpoint().kubeconfig(token));
        let cluster = Cluster::connect(kubeconfig.path()).await;
        cluster.is_known().await
    }
}
