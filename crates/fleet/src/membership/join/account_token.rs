//! The account with which the other side connects.

use baton_terminal::output::{report, task};
use serde_json::Value;

use crate::membership::{
    error::Error,
    manifest::{Change, Manifest, secret_value, uid},
    manifests::Credentials,
    progress::Step,
    server::Server,
    token::{self, Address},
};

/// The account with which the other side connects: its Secret, and its credentials if the token
/// exists already.
pub(super) struct AccountToken {
    secret: Manifest,
    /// The address to which the other side connects.
    pub address: Address,
    credentials: Option<Credentials>,
}

impl AccountToken {
    /// Checks if the token exists already, and if it is valid at that address. The last step of the
    /// account creates the token.
    pub async fn find(server: &Server, account: &[Step], address: Address) -> Result<Self, Error> {
        let step = account.last().expect("an account ends with its token");
        let live = step.live.as_ref();
        let token = live
            .filter(|live| step.change != Change::Replace && secret_value(live, "token").is_some());
        if token.is_some_and(|token| is_stale(token, live_account(account))) {
            return Err(Error::Terminating {
                side: server.side(),
                object: step.manifest.title(),
            });
        }
        let mut account_token = Self {
            secret: step.manifest.clone(),
            address,
            credentials: None,
        };
        if let Some(secret) = token {
            account_token.open(server, secret).await?;
        }
        Ok(account_token)
    }

    /// The Secret to wait for; `None` if the token exists already.
    pub fn awaited(&self) -> Option<&Manifest> {
        Some(&self.secret).filter(|_| self.credentials.is_none())
    }

    /// The credentials to compare with those on the server; empty before there is a token.
    pub fn expected(&self) -> Credentials {
        self.credentials.clone().unwrap_or_default()
    }

    /// The credentials for the cluster; waits for the token if it did not exist.
    pub async fn credentials(&mut self, server: &Server) -> Result<Credentials, Error> {
        if let Some(credentials) = &self.credentials {
            return Ok(credentials.clone());
        }
        let doing = format!("Waiting for the token in {}", self.secret.title());
        let secret = task(&doing, server.token(&self.secret)).await?;
        self.open(server, &secret).await
    }

    async fn open(&mut self, server: &Server, secret: &Value) -> Result<Credentials, Error> {
        let (credentials, doubt) = token::credentials(server, secret, &self.address).await?;
        if let Some(doubt) = doubt {
            report(&format!(
                "Note: {} could not be tested from here: {doubt}",
                self.address.url
            ));
        }
        self.credentials = Some(credentials.clone());
        Ok(credentials)
    }
}

/// Makes the steps of an account revoke its token, and create another one. The text of a token
/// depends on nothing but the UID of the account and the name of the Secret, so the account is
/// replaced as well, and first: from then on no token of it is valid.
///
/// An error if the cluster was not joined.
pub(super) fn replace_token(server: &Server, account: &mut [Step]) -> Result<(), Error> {
    // The namespace may have other users.
    let mut own = account
        .iter()
        .filter(|it| it.manifest.kind() != "Namespace");
    if own.all(|step| step.live.is_none()) {
        let titles = account.iter().map(|step| step.manifest.title());
        return Err(Error::NotJoined {
            at: server.address(),
            missing: titles.skip(1).collect(),
        });
    }
    let has_token = |step: &&mut Step| matches!(step.manifest.kind(), "ServiceAccount" | "Secret");
    for step in account.iter_mut().filter(has_token) {
        if step.live.is_some() {
            step.change = Change::Replace;
        }
    }
    Ok(())
}

/// The live service account of these steps.
fn live_account(steps: &[Step]) -> Option<&Value> {
    let mut steps = steps.iter();
    let step = steps.find(|step| step.manifest.kind() == "ServiceAccount");
    step.and_then(|step| step.live.as_ref())
}

/// True if a token is that of a service account that no longer exists. The token controller is
/// about to delete the token.
fn is_stale(token: &Value, account: Option<&Value>) -> bool {
    let annotations = &token["metadata"]["annotations"];
    let made_for = annotations["kubernetes.io/service-account.uid"].as_str();
    made_for != Some(account.map_or("", uid))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_token_of_another_account_is_stale() {
        let account = json!({ "metadata": { "uid": "1" } });
        let token = |uid: &str| json!({ "metadata": { "annotations": { "kubernetes.io/service-account.uid": uid } } });
        assert!(!is_stale(&token("1"), Some(&account)));
        assert!(is_stale(&token("2"), Some(&account)));
        assert!(is_stale(&token("1"), None));
    }
}
