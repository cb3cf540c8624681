//! The token that one cluster gives to the other, and the check that it is valid at its address.

use std::{error::Error as StdError, io::ErrorKind, time::Duration};

use baton_terminal::{
    connection::is_local,
    error::{innermost, is_io, refusal},
    proxy::Proxies,
};
use http::Uri;
use jiff::{SignedDuration, Timestamp};
use kube::{Client, Config};
use serde_json::Value;
use tokio::time::sleep;

use super::{
    error::Error,
    manifest::{secret_value, text},
    manifests::Credentials,
    server::{Server, limit},
};
use crate::url::ServerUrl;

/// Time that a server may take until it accepts a token that it has made.
const FRESH: SignedDuration = SignedDuration::from_secs(10);
/// The pause before a token is retried.
const PAUSE: Duration = Duration::from_millis(250);

/// The address at which one cluster finds the other one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// URL of the API server.
    pub url: String,
    /// True if the address was given. It need not be reachable from here then.
    pub is_given: bool,
    /// The flag that sets the address.
    pub flag: &'static str,
}

impl Address {
    /// True if the address can only lead to this machine.
    pub fn is_local(&self) -> bool {
        self.url.parse().is_ok_and(|uri: Uri| is_local(&uri))
    }
}

/// The credentials for a server at an address, with the token of a Secret. Also the reason if they
/// could not be tried.
///
/// The certificate of the server is checked with the CA that the cluster gives to its own pods,
/// else with that of the kubeconfig, for addresses with a certificate of another CA. A given
/// address may be reachable only from the other cluster; any other address has just been used.
pub(super) async fn credentials(
    server: &Server,
    secret: &Value,
    address: &Address,
) -> Result<(Credentials, Option<String>), Error> {
    let utf8 = |key| secret_value(secret, key).and_then(|bytes| String::from_utf8(bytes).ok());
    let of_pods = Credentials {
        token: utf8("token").unwrap_or_default(),
        ca: utf8("ca.crt"),
    };
    let mut opened = try_out(&address.url, &of_pods).await;
    // A server checks a token with the objects that its watches have delivered.
    while matches!(opened, Err(CredentialProblem::Refused(_))) && is_fresh(secret) {
        sleep(PAUSE).await;
        opened = try_out(&address.url, &of_pods).await;
    }
    let Err(closed) = opened else {
        return Ok((of_pods, None));
    };
    let of_kubeconfig = Credentials {
        ca: server.ca().map(str::to_owned),
        ..of_pods.clone()
    };
    if of_kubeconfig != of_pods && try_out(&address.url, &of_kubeconfig).await.is_ok() {
        return Ok((of_kubeconfig, None));
    }
    match closed {
        CredentialProblem::Unreachable(cause) if address.is_given => Ok((of_pods, Some(cause))),
        CredentialProblem::Refused(cause)
        | CredentialProblem::Untrusted(cause)
        | CredentialProblem::Unreachable(cause) => Err(Error::WrongServer {
            url: address.url.clone(),
            made_at: server.url().to_owned(),
            flag: address.flag,
            cause,
        }),
    }
}

/// True if a server may not have observed an object yet.
fn is_fresh(object: &Value) -> bool {
    let created = text(object, "/metadata/creationTimestamp").parse::<Timestamp>();
    created.is_ok_and(|created| Timestamp::now().duration_since(created) < FRESH)
}

/// The reason that credentials are not valid for a server.
enum CredentialProblem {
    /// The server responds, and does not accept the credentials.
    Refused(String),
    /// The certificate of the server is not trusted.
    Untrusted(String),
    Unreachable(String),
}

impl CredentialProblem {
    fn of(error: &(dyn StdError + 'static)) -> Self {
        // Errors of a TLS library are of this kind.
        if is_io(error, ErrorKind::InvalidData) {
            Self::Untrusted(innermost(error))
        } else {
            Self::Unreachable(innermost(error))
        }
    }
}

/// Sends a request with a token to the server at an address. A server that does not accept the
/// token responds with 401.
async fn try_out(url: &str, credentials: &Credentials) -> Result<(), CredentialProblem> {
    // The client requires a host.
    url.parse::<ServerUrl>()
        .map_err(|error| CredentialProblem::of(&error))?;
    let address = url
        .parse::<Uri>()
        .map_err(|error| CredentialProblem::of(&error))?;
    let mut config = Config::new(address);
    let proxy = Proxies::of_environment().to(&config.cluster_url);
    config.proxy_url = proxy.map_err(|error| CredentialProblem::of(&error))?;
    limit(&mut config);
    config.auth_info.token = Some(credentials.token.clone().into());
    if let Some(ca) = &credentials.ca {
        let certificates = pem::parse_many(ca).map_err(|error| CredentialProblem::of(&error))?;
        let contents = certificates.into_iter().map(pem::Pem::into_contents);
        config.root_cert = Some(contents.collect());
    }
    let client = Client::try_from(config).map_err(|error| CredentialProblem::of(&error))?;
    match client.apiserver_version().await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => Err(CredentialProblem::Refused(refusal(&status))),
        Err(error) => Err(CredentialProblem::of(&error)),
    }
}
