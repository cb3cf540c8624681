//! The credentials of chart repositories: labelled Secrets in the namespace of the Secrets of
//! clusters.

use std::sync::Arc;

use baton_apis::constants::LABEL_CHART_REPOSITORY;
use baton_charts::{CredentialSource, Credentials};
use baton_kubernetes::{
    collection::{Collection, Unserved},
    path,
    watch::{Event, Failing, WatchSpec, run},
};
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use parking_lot::RwLock;
use serde_json::value::RawValue;
use tracing::warn;

/// Address and credentials of a repository by the name of the Secret; `None` for a Secret without
/// credentials.
type Secrets = Collection<String, Option<(String, Credentials)>>;

/// The credentials of all repositories. Clones share the state.
#[derive(Clone)]
pub(crate) struct RepositorySecrets(Arc<RwLock<Secrets>>);

impl Default for RepositorySecrets {
    fn default() -> Self {
        // Cached credentials stay while Secrets are not served.
        Self(Arc::new(RwLock::new(Secrets::new(Unserved::Unknown))))
    }
}

impl RepositorySecrets {
    /// Follows the labelled Secrets of a namespace forever. Other Secrets are not requested.
    pub(crate) async fn follow(self, client: Client, namespace: String) {
        let Ok(path) = path::within("/api/v1", &namespace, "secrets") else {
            return;
        };
        let spec = WatchSpec {
            label_selector: Some(LABEL_CHART_REPOSITORY.to_owned()),
            ..WatchSpec::new(path)
        };
        let mut failing = Failing::default();
        run(client, spec, |event| {
            if let Some(cause) = failing.begins(&event) {
                warn!(
                    cause,
                    "cannot watch the Secrets of chart repositories, trying again"
                );
            }
            self.on_event(&event);
        })
        .await;
    }

    fn on_event(&self, event: &Event<'_>) {
        self.0.write().process(event, |secret| Some(read(secret)));
    }
}

impl CredentialSource for RepositorySecrets {
    fn find(&self, repo_url: &str) -> Option<Credentials> {
        let secrets = self.0.read();
        let found = secrets.items().values().flatten();
        let mut found = found.filter(|(url, _)| url == repo_url);
        found.next().map(|(_, credentials)| credentials.clone())
    }
}

/// Reads a Secret: `url`, and `token` or `username` and `password`.
fn read(secret: &RawValue) -> Option<(String, Credentials)> {
    let secret: Secret = serde_json::from_str(secret.get()).ok()?;
    let data = secret.data.unwrap_or_default();
    let text = |key: &str| {
        let bytes = data.get(key)?;
        String::from_utf8(bytes.0.clone()).ok()
    };
    let url = text("url").map(|url| url.trim().trim_end_matches('/').to_owned());
    let credentials = match (text("token"), text("username"), text("password")) {
        (Some(token), ..) => Some(Credentials::Token(token)),
        (None, Some(username), Some(password)) => Some(Credentials::Basic { username, password }),
        _ => None,
    };
    let found = url.zip(credentials);
    if found.is_none() {
        warn!(
            secret = secret.metadata.name,
            "the Secret of a chart repository must have url, and token or username and password"
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_secret_names_its_repository_and_one_kind_of_credentials() {
        let basic = Some(("https://charts".to_owned(), "user:pass".to_owned()));
        let token = Some(("https://charts".to_owned(), "token".to_owned()));
        for (data, expected) in [
            (
                vec![
                    ("url", "https://charts/ "),
                    ("username", "user"),
                    ("password", "pass"),
                ],
                basic,
            ),
            (
                vec![
                    ("url", "https://charts"),
                    ("token", "token"),
                    ("username", "user"),
                ],
                token,
            ),
            (vec![("url", "https://charts"), ("username", "user")], None),
            (vec![("token", "token")], None),
        ] {
            let data = data.into_iter();
            let data = data.map(|(key, text)| (key.to_owned(), ByteString(text.into())));
            let mut secret = Secret {
                data: Some(data.collect()),
                ..Secret::default()
            };
            secret.metadata.name = Some("charts".to_owned());
            let raw = serde_json::value::to_raw_value(&secret).unwrap();
            let found = read(&raw).map(|(url, credentials)| match credentials {
                Credentials::Token(token) => (url, token),
                Credentials::Basic { username, password } => {
                    (url, format!("{username}:{password}"))
                }
            });
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn credentials_removed_from_a_secret_are_not_used_any_more() {
        let secret = |data: &Value| {
            let secret = json!({"metadata": {"name": "charts"}, "data": data});
            serde_json::value::to_raw_value(&secret).unwrap()
        };
        // https://charts, and a token.
        let with = secret(&json!({"url": "aHR0cHM6Ly9jaGFydHM=", "token": "dG9rZW4="}));
        let without = secret(&json!({"url": "aHR0cHM6Ly9jaGFydHM="}));
        let unreadable = secret(&json!(7));
        for event in [
            Event::Upsert(&without),
            Event::Upsert(&unreadable),
            Event::Deleted(&without),
            // A Secret that lost its label is reported as deleted, with a content that may be
            // unreadable.
            Event::Deleted(&unreadable),
        ] {
            let secrets = RepositorySecrets::default();
            let is_known = || secrets.find("https://charts").is_some();
            secrets.on_event(&Event::Upsert(&with));
            assert!(is_known());
            secrets.on_event(&Event::Unserved);
            assert!(is_known());
            secrets.on_event(&event);
            assert!(!is_known(), "{event:?}");
        }
    }
}
