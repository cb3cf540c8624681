//! The credentials of chart repositories: Secrets with a label, in the namespace of those of clusters.

use std::{collections::BTreeMap, sync::Arc};

use baton_apis::constants::LABEL_CHART_REPOSITORY;
use baton_charts::{CredentialSource, Credentials};
use baton_kubernetes::{
    path,
    watch::{Event, Failing, WatchSpec, run},
};
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use parking_lot::RwLock;
use serde_json::value::RawValue;
use tracing::warn;

/// By name of the Secret, the repository and its credentials. Clones share everything.
#[derive(Clone, Default)]
pub(crate) struct RepositorySecrets(Arc<RwLock<BTreeMap<String, (String, Credentials)>>>);

impl RepositorySecrets {
    /// Follows the Secrets of a namespace for ever. Nothing of others is received.
    pub(crate) async fn follow(self, client: Client, namespace: String) {
        let Ok(path) = path::within("/api/v1", &namespace, "secrets") else {
            return;
        };
        let spec = WatchSpec {
            label_selector: Some(LABEL_CHART_REPOSITORY.to_owned()),
            ..WatchSpec::new(path)
        };
        let mut listing = BTreeMap::new();
        let mut failing = Failing::default();
        run(client, spec, |event| {
            if let Some(cause) = failing.begins(&event) {
                warn!(
                    cause,
                    "cannot watch the Secrets of chart repositories, trying again"
                );
            }
            match event {
                Event::ListStarted => listing.clear(),
                Event::Listed(secret) => listing.extend(read(secret)),
                Event::ListDone { .. } => *self.0.write() = std::mem::take(&mut listing),
                Event::Upsert(secret) => {
                    if let Some((name, found)) = read(secret) {
                        self.0.write().insert(name, found);
                    }
                }
                Event::Deleted(secret) => {
                    if let Some((name, _)) = read(secret) {
                        self.0.write().remove(&name);
                    }
                }
                // Known credentials stay.
                Event::Bookmark(_) | Event::Unserved | Event::Failed(_) | Event::Forbidden(_) => {}
            }
        })
        .await;
    }
}

impl CredentialSource for RepositorySecrets {
    fn find(&self, repo_url: &str) -> Option<Credentials> {
        let secrets = self.0.read();
        let mut found = secrets.values().filter(|(url, _)| url == repo_url);
        found.next().map(|(_, credentials)| credentials.clone())
    }
}

/// Reads a Secret: `url`, and `token` or `username` and `password`.
fn read(secret: &RawValue) -> Option<(String, (String, Credentials))> {
    let secret: Secret = serde_json::from_str(secret.get()).ok()?;
    let name = secret.metadata.name?;
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
            secret = name,
            "of a chart repository a Secret needs url, and token or username and password"
        );
    }
    Some((name, found?))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

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
            let found = read(&raw).map(|(_, (url, credentials))| match credentials {
                Credentials::Token(token) => (url, token),
                Credentials::Basic { username, password } => {
                    (url, format!("{username}:{password}"))
                }
            });
            assert_eq!(found, expected);
        }
    }
}
