//! Service accounts, and tokens that can be revoked or expire.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::Site;
use super::credentials::{TemporaryKubeconfig, sign};
use crate::cluster::Cluster;
use crate::endpoint::Endpoint;
use crate::namespace::TIMEOUT;
use crate::polls::Polls;

/// Seconds by which the API server accepts a token after its expiry, to tolerate differences of
/// clocks.
const LEEWAY: u64 = 60;

/// The name of a site's account, which has its own namespace.
const NAME: &str = "hub";

/// A `ServiceAccount`.
#[derive(Clone, Debug)]
pub struct Account {
    /// The administrator's kubeconfig for the account's cluster.
    kubeconfig: PathBuf,
    endpoint: Endpoint,
    namespace: String,
    name: String,
    uid: String,
}

/// A bearer token.
#[derive(Clone, Debug)]
pub struct Token {
    /// The token as it is sent.
    pub text: String,
    /// The Secret that the token is bound to. The token is invalid once the Secret is deleted.
    bound_to: String,
}

impl Site {
    /// Creates an account with all rights.
    pub async fn account(&self) -> Account {
        self.account_with(&json!([
            { "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] },
            { "nonResourceURLs": ["*"], "verbs": ["*"] },
        ]))
        .await
    }

    /// Creates an account with the rights of these `ClusterRole` rules, in its own namespace. The
    /// account stays until the end of the process, because its deletions outlast the test.
    pub async fn account_with(&self, rules: &Value) -> Account {
        let cluster = self.cluster().await;
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": { "generateName": "baton-it-account-" },
        });
        let namespace = cluster.create(&namespace).await.unwrap();
        let namespace = namespace["metadata"]["name"].as_str().unwrap().to_owned();
        let made = Account::create(&self.kubeconfig(), self.endpoint(), &namespace, NAME).await;
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": { "name": namespace },
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": namespace,
            },
            "subjects": [{ "kind": "ServiceAccount", "name": NAME, "namespace": namespace }],
        });
        made.allow(rules).await;
        cluster.create(&binding).await.unwrap();
        made
    }
}

impl Account {
    /// Creates an account without rights, unless it exists.
    pub(super) async fn create(
        kubeconfig: &Path,
        endpoint: &Endpoint,
        namespace: &str,
        name: &str,
    ) -> Self {
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": { "name": name, "namespace": namespace },
        });
        let cluster = Cluster::connect(kubeconfig).await;
        let account = cluster.apply(&account, "tests").await.unwrap();
        Self {
            kubeconfig: kubeconfig.to_owned(),
            endpoint: endpoint.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: account["metadata"]["uid"].as_str().unwrap().to_owned(),
        }
    }

    async fn cluster(&self) -> Cluster {
        Cluster::connect(&self.kubeconfig).await
    }

    /// Replaces the rights of a site's account. The API server applies them within moments, not at
    /// once.
    pub async fn allow(&self, rules: &Value) {
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": { "name": self.namespace }, "rules": rules,
        });
        let cluster = self.cluster().await;
        cluster.apply(&role, "tests").await.unwrap();
    }

    /// Creates a token that is valid for an hour and can be revoked earlier.
    pub async fn token(&self) -> Token {
        let cluster = self.cluster().await;
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
        let text = cluster
            .bound_token(&self.namespace, &self.name, &bound)
            .await;
        Token {
            text,
            bound_to: name,
        }
    }

    /// Creates a token with this lifetime. The API server may accept it for 10 s more, if it has
    /// seen it before.
    #[must_use]
    pub fn expiring_token(&self, lifetime: Duration) -> String {
        let now = jiff::Timestamp::now().as_second().cast_unsigned();
        let issued = now - LEEWAY - 1;
        let claims = json!({
            "iss": "https://kubernetes.default.svc.cluster.local",
            "aud": ["https://kubernetes.default.svc.cluster.local"],
            "sub": format!("system:serviceaccount:{}:{}", self.namespace, self.name),
            "iat": issued,
            "nbf": issued,
            "exp": now - LEEWAY + lifetime.as_secs(),
            "kubernetes.io": {
                "namespace": self.namespace,
                "serviceaccount": { "name": self.name, "uid": self.uid },
            },
        });
        sign(&self.endpoint.key, &claims)
    }

    /// Revokes a token, and returns when the API server refuses it.
    pub async fn revoke(&self, token: &Token) {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": token.bound_to, "namespace": self.namespace },
        });
        let cluster = self.cluster().await;
        assert!(cluster.delete(&secret, "Background").await);
        self.endpoint.until_refused(&token.text).await;
    }
}

impl Site {
    /// Waits until the API server refuses a token.
    pub async fn until_refused(&self, token: &str) {
        self.endpoint().until_refused(token).await;
    }

    /// True if the API server accepts a token.
    pub async fn accepts(&self, token: &str) -> bool {
        self.endpoint().accepts(token).await
    }
}

impl Endpoint {
    /// Waits until the API server refuses a token. It accepts a token that it has seen for 10 s after the
    /// end of the token's lifetime.
    pub async fn until_refused(&self, token: &str) {
        let polls = Polls::start();
        while self.accepts(token).await {
            assert!(polls.elapsed() < TIMEOUT, "the token is still accepted");
            polls.pause().await;
        }
    }

    /// True if the API server accepts a token.
    pub async fn accepts(&self, token: &str) -> bool {
        let kubeconfig = TemporaryKubeconfig::new(&self.kubeconfig(token));
        let cluster = Cluster::connect(kubeconfig.path()).await;
        cluster.is_known().await
    }
}
