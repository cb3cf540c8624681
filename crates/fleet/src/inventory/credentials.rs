//! The address and the credentials of a cluster, read from its Cluster and its Secret.
//!
//! This module does no I/O.

use std::fmt;

use baton_apis::{
    conditions::Reason,
    constants::{
        ANNOTATION_SERVER, ANNOTATION_SKIP_TLS_VERIFY, SECRET_CA, SECRET_TLS_CA,
        SECRET_TLS_CERTIFICATE, SECRET_TLS_KEY, SECRET_TOKEN,
    },
};
use http::Uri;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::ResourceExt as _;

use super::address;
use crate::url::is_same_server;

/// The parameters of a connection to a cluster.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Credentials {
    /// URL of the API server, with scheme and host.
    pub url: Uri,
    /// The identity for authentication.
    pub identity: Identity,
    /// The CAs for the certificate of the server, as DER; `None` for those of the system.
    pub ca: Option<Vec<Vec<u8>>>,
    /// True if any certificate of the server is trusted.
    pub skip_verify: bool,
    /// CRC-32 of the data in the Secret.
    pub checksum: u32,
}

/// The identity for authentication.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Identity {
    /// A bearer token.
    Token(String),
    /// A client certificate and its key, both as PEM.
    Certificate {
        /// The certificate, optionally with intermediate ones.
        certificate: Vec<u8>,
        key: Vec<u8>,
    },
    /// No identity, for servers without TLS only.
    Anonymous,
}

/// The reason that the manager cannot connect to a cluster, in any state of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CredentialsError {
    #[error("the Cluster cannot be parsed: {0}")]
    Spec(String),
    #[error("spec.apiMaster {0}")]
    Address(#[from] address::Problem),
    #[error(
        "there is no Secret {secret}; it must contain the credentials, as {SECRET_TOKEN} (with {SECRET_CA}) or as \
         {SECRET_TLS_CERTIFICATE} and {SECRET_TLS_KEY} (with {SECRET_TLS_CA})"
    )]
    NoSecret { secret: String },
    #[error("Secret {secret}: {problem}")]
    Secret { secret: String, problem: Problem },
}

/// The error in a Secret. Never quotes the Secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    #[error(
        "it has no credentials; add {SECRET_TOKEN}, or {SECRET_TLS_CERTIFICATE} and {SECRET_TLS_KEY}"
    )]
    Nothing,
    #[error("{key} is empty")]
    Empty { key: &'static str },
    #[error("it has {has}, but no {lacks}")]
    Half {
        has: &'static str,
        lacks: &'static str,
    },
    #[error(
        "its annotation {ANNOTATION_SERVER} names the server {named:?}, but spec.apiMaster of the Cluster names \
         {expected}; the credentials are not sent there"
    )]
    OtherServer {
        /// The server that the Secret names; it may be no URL.
        named: String,
        /// The server that the Cluster names.
        expected: String,
    },
    #[error(
        "it has no annotation {ANNOTATION_SERVER} with its server, which --require-site-assignments requires; `baton \
         cluster join` adds it"
    )]
    NoServer,
    #[error("{SECRET_TOKEN} has characters that are not allowed in a token")]
    Token,
    #[error("{key} contains no PEM certificate")]
    NotPem { key: &'static str },
    #[error("it cannot be used for TLS: {0}")]
    Tls(String),
}

impl CredentialsError {
    /// The reason of the condition `Connected`.
    pub(super) fn reason(&self) -> Reason {
        match self {
            Self::Spec(_) | Self::Address(_) => Reason::InvalidSpec,
            Self::NoSecret { .. } => Reason::NoSecret,
            Self::Secret { .. } => Reason::InvalidSecret,
        }
    }
}

/// Reads the parameters of the connection to the cluster at `api_master` (`spec.apiMaster`) from
/// its Secret.
///
/// A token has precedence over a client certificate; with a token neither the certificate nor the
/// annotation is used. White space around a token is removed, because files end with a line break.
/// No error quotes the Secret.
///
/// If an annotation of the Secret names a server it has to be this one. Otherwise a user who may
/// change a Cluster could have the credentials sent anywhere. If `is_strict`, the annotation is
/// required.
pub(super) fn read(
    api_master: &str,
    secret: &Secret,
    is_strict: bool,
) -> Result<Credentials, CredentialsError> {
    let url = address::parse(api_master)?;
    let is_plain = url.scheme_str() == Some("http");
    is_meant_for(secret, &url, is_strict)
        .and_then(|()| read_secret(secret, is_plain))
        .map(|(identity, ca, skip_verify)| Credentials {
            url,
            identity,
            ca,
            skip_verify,
            checksum: checksum(secret),
        })
        .map_err(|problem| CredentialsError::Secret {
            secret: format!(
                "{}/{}",
                secret.namespace().unwrap_or_default(),
                secret.name_any()
            ),
            problem,
        })
}

/// Checks that the credentials of a Secret are for the server at a URL.
fn is_meant_for(secret: &Secret, url: &Uri, is_strict: bool) -> Result<(), Problem> {
    match secret.annotations().get(ANNOTATION_SERVER) {
        None if is_strict => Err(Problem::NoServer),
        None => Ok(()),
        Some(named) => match address::parse(named) {
            Ok(server) if is_same_server(&server, url) => Ok(()),
            _ => Err(Problem::OtherServer {
                named: named.clone(),
                expected: url.to_string(),
            }),
        },
    }
}

type Parts = (Identity, Option<Vec<Vec<u8>>>, bool);

fn read_secret(secret: &Secret, is_plain: bool) -> Result<Parts, Problem> {
    let value = |key: &str| Some(secret.data.as_ref()?.get(key)?.0.as_slice());
    let filled = |key: &str| value(key).filter(|value| !value.trim_ascii().is_empty());
    let authorities = |key| filled(key).map(|pem| certificates(key, pem)).transpose();
    if let Some(token) = value(SECRET_TOKEN) {
        return Ok((bearer(token)?, authorities(SECRET_CA)?, false));
    }
    let identity = match (filled(SECRET_TLS_CERTIFICATE), filled(SECRET_TLS_KEY)) {
        (Some(certificate), Some(key)) => {
            certificates(SECRET_TLS_CERTIFICATE, certificate)?;
            Identity::Certificate {
                certificate: certificate.to_owned(),
                key: key.to_owned(),
            }
        }
        (Some(_), None) => {
            return Err(Problem::Half {
                has: SECRET_TLS_CERTIFICATE,
                lacks: SECRET_TLS_KEY,
            });
        }
        (None, Some(_)) => {
            return Err(Problem::Half {
                has: SECRET_TLS_KEY,
                lacks: SECRET_TLS_CERTIFICATE,
            });
        }
        // A proxy on the same machine that authenticates by itself, as `kubectl proxy` does.
        (None, None) if is_plain => Identity::Anonymous,
        // A server reports its version to anonymous clients, so the check would succeed without
        // credentials.
        (None, None) => return Err(Problem::Nothing),
    };
    let skip_verify = secret
        .annotations()
        .get(ANNOTATION_SKIP_TLS_VERIFY)
        .is_some_and(|text| is_true(text));
    Ok((identity, authorities(SECRET_TLS_CA)?, skip_verify))
}

fn bearer(token: &[u8]) -> Result<Identity, Problem> {
    let token = std::str::from_utf8(token)
        .map_err(|_| Problem::Token)?
        .trim();
    if token.is_empty() {
        return Err(Problem::Empty { key: SECRET_TOKEN });
    }
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Problem::Token);
    }
    Ok(Identity::Token(token.to_owned()))
}

/// The certificates among PEM blocks, as DER; at least one.
fn certificates(key: &'static str, text: &[u8]) -> Result<Vec<Vec<u8>>, Problem> {
    let blocks = pem::parse_many(text).map_err(|_| Problem::NotPem { key })?;
    let certificates: Vec<Vec<u8>> = blocks
        .into_iter()
        .filter(|block| block.tag() == "CERTIFICATE")
        .map(pem::Pem::into_contents)
        .collect();
    if certificates.is_empty() {
        return Err(Problem::NotPem { key });
    }
    Ok(certificates)
}

/// True for the texts that Go's `strconv.ParseBool` accepts as true. Other texts are ignored.
fn is_true(text: &str) -> bool {
    matches!(text, "1" | "t" | "T" | "TRUE" | "true" | "True")
}

/// CRC-32 (IEEE) over keys and values in the order of the keys, as in Shipper.
fn checksum(secret: &Secret) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for (key, ByteString(value)) in secret.data.iter().flatten() {
        hasher.update(key.as_bytes());
        hasher.update(value);
    }
    hasher.finalize()
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let identity = match self.identity {
            Identity::Token(_) => "token",
            Identity::Certificate { .. } => "certificate",
            Identity::Anonymous => "anonymous",
        };
        let ca = self.ca.as_ref().map(Vec::len);
        let Self {
            url,
            skip_verify,
            checksum,
            ..
        } = self;
        write!(
            f,
            "{url} {identity} ca={ca:?} skip_verify={skip_verify} {checksum:08x}"
        )
    }
}

/// Identifies the inputs of a connection. Credentials with the same fingerprint need no other
/// connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fingerprint {
    url: Uri,
    checksum: u32,
    skip_verify: bool,
}

impl Credentials {
    pub(super) fn fingerprint(&self) -> Fingerprint {
        Fingerprint {
            url: self.url.clone(),
            checksum: self.checksum,
            skip_verify: self.skip_verify,
        }
    }
}

/// The effect of new credentials on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Keep,
    /// The same cluster with other credentials: its caches stay.
    Exchange,
    /// Possibly another cluster: the connection and its caches are made again.
    Rebuild,
}

impl Change {
    /// The change between the credentials of an existing connection, if there is one, and new ones.
    pub(super) fn between(old: Option<&Fingerprint>, new: &Fingerprint) -> Self {
        match old {
            Some(old) if old == new => Self::Keep,
            Some(old) if old.url == new.url => Self::Exchange,
            _ => Self::Rebuild,
        }
    }
}

#[cfg(test)]
mod tests;
