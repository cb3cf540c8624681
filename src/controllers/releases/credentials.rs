//! The credentials of chart repositories: labelled Secrets in the namespace of the Secrets of
//! clusters.

use std::sync::Arc;

use baton_apis::constants::LABEL_CHART_REPOSITORY;
use baton_charts::{CredentialSource, Credentials, UnusableCredentials};
use baton_kubernetes::{
    collection::{Collection, Extent, Unserved},
    path,
    watch::{Event, Failing, WatchSpec, run},
};
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use parking_lot::RwLock;
use serde_json::value::RawValue;
use tracing::warn;

/// Address and credentials of a repository by the name of the Secret; `None` for a Secret without
/// an address.
type Secrets = Collection<String, Option<RepositorySecret>>;

/// The content of a Secret.
#[derive(Clone, Debug, PartialEq)]
struct RepositorySecret {
    /// The URL of the repository, without `/` at its end.
    url: String,
    credentials: Result<Credentials, UnusableCredentials>,
}

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
    /// The credentials of the first Secret, by name, that has usable ones for the repository. While the
    /// Secrets are not known, it is an error that none is found.
    fn find(&self, repo_url: &str) -> Result<Option<Credentials>, UnusableCredentials> {
        let secrets = self.0.read();
        let found = secrets.items().iter();
        let found = found.filter_map(|(name, secret)| Some((name, secret.as_ref()?)));
        let mut unusable = None;
        for (name, secret) in found.filter(|(_, secret)| secret.url == repo_url) {
            match &secret.credentials {
                Ok(credentials) => return Ok(Some(credentials.clone())),
                Err(why) => {
                    let why = format!("Secret {name} of the repository is incomplete: {why}");
                    unusable.get_or_insert(UnusableCredentials(why));
                }
            }
        }
        match (unusable, secrets.extent()) {
            (Some(unusable), _) => Err(unusable),
            (None, Extent::All) => Ok(None),
            (None, Extent::Nothing) => Err(UnusableCredentials(
                "the Secrets of chart repositories have not been listed yet".to_owned(),
            )),
            (None, Extent::Unavailable(cause)) => Err(UnusableCredentials(format!(
                "the Secrets of chart repositories cannot be listed: {cause}"
            ))),
        }
    }
}

/// Reads a Secret: `url`, and `token` or `username` and `password`.
fn read(secret: &RawValue) -> Option<RepositorySecret> {
    let secret: Secret = serde_json::from_str(secret.get()).ok()?;
    let name = secret.metadata.name.unwrap_or_default();
    let data = secret.data.unwrap_or_default();
    let text = |key: &str| {
        let bytes = data.get(key)?;
        String::from_utf8(bytes.0.clone()).ok()
    };
    let credentials = Credentials::from_parts(
        text("token").as_deref(),
        text("username").as_deref(),
        text("password").as_deref(),
    );
    if let Err(why) = &credentials {
        warn!(secret = name, %why, "the Secret of a chart repository is incomplete");
    }
    let url = text("url").unwrap_or_default();
    let url = url.trim().trim_end_matches('/').to_owned();
    if url.is_empty() {
        warn!(secret = name, "the Secret of a chart repository has no url");
        return None;
    }
    Some(RepositorySecret { url, credentials })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use serde_json::{Value, json};

    use super::*;

    /// A Secret with this content.
    fn secret(name: &str, data: &[(&str, &str)]) -> Box<RawValue> {
        let data = data.iter();
        let data = data.map(|(key, text)| ((*key).to_owned(), ByteString((*text).into())));
        let mut secret = Secret {
            data: Some(data.collect()),
            ..Secret::default()
        };
        secret.metadata.name = Some(name.to_owned());
        serde_json::value::to_raw_value(&secret).unwrap()
    }

    #[test]
    fn a_secret_names_its_repository_and_one_kind_of_credentials() {
        let token = Ok(Credentials::Token("token".to_owned()));
        for (data, expected) in [
            (
                vec![("url", " https://charts/ "), ("token", "token")],
                Some(token),
            ),
            (vec![("url", "/"), ("token", "token")], None),
            (vec![("token", "token")], None),
        ] {
            let found = read(&secret("charts", &data));
            let expected = expected.map(|credentials| RepositorySecret {
                url: "https://charts".to_owned(),
                credentials,
            });
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn incomplete_credentials_are_reported_unless_another_secret_has_some() {
        let secrets = RepositorySecrets::default();
        let url = ("url", "https://charts");
        secrets.on_event(&Event::Upsert(&secret("a", &[url, ("username", "u")])));
        let problem = "Secret a of the repository is incomplete: the password is missing";
        let unusable = UnusableCredentials(problem.to_owned());
        assert_eq!(secrets.find("https://charts"), Err(unusable));
        secrets.on_event(&Event::Upsert(&secret("b", &[url, ("token", "t")])));
        let found = secrets.find("https://charts").unwrap();
        assert_eq!(found, Some(Credentials::Token("t".to_owned())));
    }

    #[test]
    fn an_unknown_secret_is_not_taken_for_a_missing_one() {
        let done = || Event::ListDone {
            resource_version: 1,
        };
        let unlisted = "the Secrets of chart repositories cannot be listed: ";
        let unserved = format!("{unlisted}the API server does not serve the kind");
        for (events, expected) in [
            (
                vec![],
                Some("the Secrets of chart repositories have not been listed yet".to_owned()),
            ),
            (vec![Event::ListStarted, done()], None),
            (
                vec![Event::ListStarted, Event::Forbidden("no right")],
                Some(format!("{unlisted}no right")),
            ),
            (
                vec![Event::ListStarted, Event::Failed("reset")],
                Some(format!("{unlisted}reset")),
            ),
            (vec![Event::Unserved], Some(unserved)),
            // The watch ends and continues where it was.
            (
                vec![Event::ListStarted, done(), Event::Failed("reset")],
                None,
            ),
            (
                vec![
                    Event::ListStarted,
                    done(),
                    Event::ListStarted,
                    Event::Failed("reset"),
                ],
                Some(format!("{unlisted}reset")),
            ),
        ] {
            let secrets = RepositorySecrets::default();
            for event in &events {
                secrets.on_event(event);
            }
            let expected = expected.map_or(Ok(None), |text| Err(UnusableCredentials(text)));
            assert_eq!(secrets.find("https://charts"), expected, "{events:?}");
        }
    }

    #[test]
    fn credentials_removed_from_a_secret_are_not_used_any_more() {
        let raw = |data: &Value| {
            let secret = json!({"metadata": {"name": "charts"}, "data": data});
            serde_json::value::to_raw_value(&secret).unwrap()
        };
        // https://charts, and a token.
        let with = raw(&json!({"url": "aHR0cHM6Ly9jaGFydHM=", "token": "dG9rZW4="}));
        let without = raw(&json!({"url": "aHR0cHM6Ly9jaGFydHM="}));
        let unreadable = raw(&json!(7));
        for event in [
            Event::Upsert(&without),
            Event::Upsert(&unreadable),
            Event::Deleted(&without),
            // A Secret that lost its label is reported as deleted, with a content that may be
            // unreadable.
            Event::Deleted(&unreadable),
        ] {
            let secrets = RepositorySecrets::default();
            let is_known = || matches!(secrets.find("https://charts"), Ok(Some(_)));
            secrets.on_event(&Event::Upsert(&with));
            assert!(is_known());
            secrets.on_event(&Event::Unserved);
            assert!(is_known());
            secrets.on_event(&event);
            assert!(!is_known(), "{event:?}");
        }
    }
}
