//! The reasons that a request has failed, in one line for people.

use baton_apis::{
    constants::{BATON_GROUP, shipper},
    kinds::Kind,
};
use baton_kubernetes::{answer::is_failed_test, discovery::DiscoveryError, error::one_line};
use baton_terminal::{
    error::{innermost, refusal},
    kubeconfig::ConfigError,
};
use kube::core::Status;

/// The reason that a cluster cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The kubeconfig or its flags do not name a cluster.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// No client can be created from the kubeconfig.
    #[error("cannot connect to {server}: {}", one_line(source))]
    Client {
        /// URL of the server.
        server: String,
        /// The error of the client.
        source: Box<kube::Error>,
    },
    /// The server refused a request. The message names the object and the reason.
    #[error("{}", answer(.0))]
    Refused(Box<Status>),
    /// The server does not answer.
    #[error("cannot reach the API server at {server}: {}", innermost(source))]
    Unreachable {
        /// URL of the server.
        server: String,
        /// The error of the connection.
        source: Box<kube::Error>,
    },
    /// The server does not serve a kind of Baton.
    #[error(
        "the API server at {server} does not serve {} ({}); {} there first", kind.plural, kind.api_version, remedy(kind)
    )]
    NotServed {
        /// URL of the server.
        server: String,
        /// The kind.
        kind: &'static Kind,
    },
    /// The kinds that the server serves cannot be read.
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    /// A named object does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The request is not valid, for instance because of a name.
    #[error("{0}")]
    Invalid(String),
    /// The state of the cluster does not allow the request.
    #[error("{0}")]
    Impossible(String),
}

impl ClusterError {
    /// The error of a write: `overtaken` if a precondition of its JSON patch failed, or else the error
    /// itself.
    #[must_use]
    pub fn of_write(self, overtaken: impl FnOnce() -> String) -> Self {
        match self {
            Self::Refused(status) if is_failed_test(status.code, &status) => {
                Self::Impossible(overtaken())
            }
            error => error,
        }
    }

    /// True if a change is refused because the user lacks a right. Quotas and admission refuse with the
    /// same code for other reasons.
    #[must_use]
    pub fn is_lack_of_rights(&self) -> bool {
        match self {
            Self::Refused(status) => {
                status.code == 401
                    || (status.code == 403 && status.message.contains(" cannot patch resource "))
            }
            _ => false,
        }
    }

    /// True if the server refused a request with this status code.
    #[must_use]
    pub fn is_code(&self, code: u16) -> bool {
        matches!(self, Self::Refused(status) if status.code == code)
    }
}

/// The way to install a kind on a server. Baton works without the kinds of Shipper and of sites.
fn remedy(kind: &Kind) -> &'static str {
    match kind.group {
        shipper::GROUP => "apply config/releases",
        BATON_GROUP => "apply config/crds of this release of Baton",
        _ => "install Baton",
    }
}

/// The message of the server; the status code if there is none, as in responses of proxies.
pub(crate) fn answer(status: &Status) -> String {
    let prefix = if status.message.trim().is_empty() {
        "the API server answered "
    } else {
        ""
    };
    format!("{prefix}{}", refusal(status))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_failed_patch_test_is_distinguished_from_an_invalid_object() {
        let refused = |details| {
            let status = json!({
                "kind": "Status", "status": "Failure", "reason": "Invalid", "code": 422, "details": details,
                "message": "the server rejected our request due to an error in our request",
            });
            ClusterError::Refused(Box::new(serde_json::from_value(status).unwrap()))
        };
        let cause = json!({"reason": "FieldValueInvalid", "message": "of a test", "field": "spec"});
        let is_overtaken = |error: ClusterError| {
            matches!(error.of_write(String::new), ClusterError::Impossible(_))
        };
        assert!(is_overtaken(refused(json!({}))));
        assert!(!is_overtaken(refused(json!({"causes": [cause]}))));
    }
}
