//! Errors, in one line for people.

use std::{io, process::ExitStatus};

use baton_apis::{
    constants::{BATON_GROUP, shipper},
    kinds::Kind,
};
use baton_kubernetes::{answer::is_failed_test, discovery::DiscoveryError, error::one_line};
use baton_terminal::{
    error::{innermost, refusal},
    kubeconfig::ConfigError,
};
use baton_view::diff::plan::NoPlan;
use kube::core::Status;

/// The reason that a command could not do its work. Printed after `error: `; the exit code is 2, unless a
/// variant has another one.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The kubeconfig or its flags do not name a cluster.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// No client can be created from the kubeconfig.
    #[error("cannot connect to {server}: {}", one_line(source))]
    Client {
        server: String,
        source: Box<kube::Error>,
    },
    /// The server refused a request. The message names the object and the reason.
    #[error("{}", answer(.0))]
    Refused(Box<Status>),
    #[error("cannot reach the API server at {server}: {}", innermost(source))]
    Unreachable {
        server: String,
        source: Box<kube::Error>,
    },
    /// The server does not serve a kind of Baton.
    #[error(
        "the API server at {server} does not serve {} ({}); {} there first", kind.plural, kind.api_version, remedy(kind)
    )]
    NotServed { server: String, kind: &'static Kind },
    /// The kinds that the server serves cannot be read.
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    /// The arguments are no valid subject.
    #[error(transparent)]
    Subject(#[from] SubjectError),
    /// The named object does not exist.
    #[error("{0}")]
    NotFound(String),
    /// There is no next revision.
    #[error(transparent)]
    NoPlan(#[from] NoPlan),
    /// The flags cannot be combined, or do not fit the objects.
    #[error("{0}")]
    Usage(String),
    /// The state of the cluster does not allow the request.
    #[error("{0}")]
    Impossible(String),
    /// A change would be refused, so nothing was written. The exit code is 3.
    #[error("{0}")]
    Foreseen(String),
    /// Somebody else has changed the object, so nothing was written. The exit code is 4.
    #[error("{0}")]
    Overtaken(String),
    /// The program for differences failed.
    #[error(transparent)]
    ExternalDiff(#[from] ExternalError),
    /// The output could not be written.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

impl Error {
    /// The error of a write: `overtaken` if a precondition of its JSON patch failed, or else the
    /// error itself.
    pub(crate) fn of_write(self, overtaken: impl FnOnce() -> String) -> Self {
        match self {
            Self::Refused(status) if is_failed_test(status.code, &status) => {
                Self::Impossible(overtaken())
            }
            error => error,
        }
    }

    /// True if the reader of our output has closed it, so that no report is read either.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// True if the server refused a request with this status code.
    pub(crate) fn is_code(&self, code: u16) -> bool {
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
fn answer(status: &Status) -> String {
    let prefix = if status.message.trim().is_empty() {
        "the API server answered "
    } else {
        ""
    };
    format!("{prefix}{}", refusal(status))
}

/// The arguments are no valid subject.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SubjectError {
    #[error(
        "unknown kind {0:?}; use od (ObjectDeployment), cod (ClusterObjectDeployment), os (ObjectSet), cos \
             (ClusterObjectSet), app (Application), rel (Release), sitedeploy (SiteDeployment) or siteapp \
             (SiteApplication)"
    )]
    Kind(String),
    /// A kind of Shipper, for a command that takes none.
    #[error(
        "{0:?} is not a kind for this command; the commands tree, status, history, diff, rollback, promote and abort \
             take app/NAME (Application) and rel/NAME (Release)"
    )]
    Application(String),
    /// A kind of sites, for a command that takes none, or another one.
    #[error(
        "{0:?} is not a kind for this command; the commands tree, status, history and diff take sitedeploy/NAME and \
             siteapp/NAME; rollback, pause, resume, abort, redeploy and wait take sitedeploy/NAME"
    )]
    Site(String),
    /// Another kind, for a command that takes Shipper's kinds only.
    #[error(
        "{0:?} is not a kind for this command; it takes app/NAME (Application) or rel/NAME (Release)"
    )]
    NoApplication(String),
    /// Another kind, for a command that takes deployments to sites only.
    #[error("{0:?} is not a deployment to sites; this command takes sitedeploy/NAME")]
    NoSite(String),
    /// A text that is no valid name of an object.
    #[error("{0:?} cannot be a name: names consist of lower-case letters, digits, '-' and '.'")]
    Name(String),
    #[error("{1:?} has a kind already; leave out {0:?} in front of it")]
    Mixed(String, String),
    /// Several subjects for a command that takes one.
    #[error("{0:?} names more than one; this command takes one at a time")]
    NotOne(String),
}

/// The reason that a program could not show the differences.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExternalError {
    /// The files for the program cannot be written.
    #[error("cannot write the files for KUBECTL_EXTERNAL_DIFF: {0}")]
    Files(#[source] io::Error),
    #[error("cannot run {program:?} of KUBECTL_EXTERNAL_DIFF: {source}")]
    Start { program: String, source: io::Error },
    #[error("{program:?} of KUBECTL_EXTERNAL_DIFF failed: {status}")]
    Failed { program: String, status: ExitStatus },
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
            Error::Refused(Box::new(serde_json::from_value(status).unwrap()))
        };
        let cause = json!({"reason": "FieldValueInvalid", "message": "of a test", "field": "spec"});
        let is_overtaken =
            |error: Error| matches!(error.of_write(String::new), Error::Impossible(_));
        assert!(is_overtaken(refused(json!({}))));
        assert!(!is_overtaken(refused(json!({"causes": [cause]}))));
    }
}
