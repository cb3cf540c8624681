//! What goes wrong, in one line for a person.

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

/// Why a command could not do its work. Printed after `error: `; the exit code is 2.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Which cluster to talk to is unclear.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The kubeconfig cannot be made into a client.
    #[error("cannot connect to {server}: {}", one_line(source))]
    Client {
        server: String,
        source: Box<kube::Error>,
    },
    /// The server refused a request. Its message names the object and the cause.
    #[error("{}", answer(.0))]
    Refused(Box<Status>),
    #[error("cannot reach the API server at {server}: {}", innermost(source))]
    Unreachable {
        server: String,
        source: Box<kube::Error>,
    },
    /// The server does not have a kind of ours.
    #[error(
        "the API server at {server} does not serve {} ({}); {} there first", kind.plural, kind.api_version, remedy(kind)
    )]
    NotServed { server: String, kind: &'static Kind },
    /// What the server serves could not be found out.
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    /// The arguments name nothing.
    #[error(transparent)]
    Subject(#[from] SubjectError),
    /// What was named does not exist.
    #[error("{0}")]
    NotFound(String),
    /// There is no next revision.
    #[error(transparent)]
    NoPlan(#[from] NoPlan),
    /// The flags do not go together, or not with what was found.
    #[error("{0}")]
    Usage(String),
    /// What the cluster holds does not allow what was asked for.
    #[error("{0}")]
    Impossible(String),
    /// The program that was to show differences did not.
    #[error(transparent)]
    ExternalDiff(#[from] ExternalError),
    /// The output could not be written.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

impl Error {
    /// The error of a write: `overtaken`, if a precondition of its JSON patch did not hold, else the error itself.
    pub(crate) fn of_write(self, overtaken: impl FnOnce() -> String) -> Self {
        match self {
            Self::Refused(status) if is_failed_test(status.code, &status) => {
                Self::Impossible(overtaken())
            }
            error => error,
        }
    }

    /// Whether the reader of our output has gone: nobody reads a report either.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// Whether the server refused a request with this status code.
    pub(crate) fn is_code(&self, code: u16) -> bool {
        matches!(self, Self::Refused(status) if status.code == code)
    }
}

/// How a server gets a kind. Baton can do without those of Shipper and of sites.
fn remedy(kind: &Kind) -> &'static str {
    match kind.group {
        shipper::GROUP => "apply config/releases",
        BATON_GROUP => "apply config/crds of this release of Baton",
        _ => "install Baton",
    }
}

/// The server's message; where there is none, as from proxies, the code.
fn answer(status: &Status) -> String {
    let prefix = if status.message.trim().is_empty() {
        "the API server answered "
    } else {
        ""
    };
    format!("{prefix}{}", refusal(status))
}

/// The arguments name nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SubjectError {
    #[error(
        "there is no kind {0:?} here; use od (ObjectDeployment), cod (ClusterObjectDeployment), os (ObjectSet), cos \
             (ClusterObjectSet), app (Application), rel (Release), sitedeploy (SiteDeployment) or siteapp \
             (SiteApplication)"
    )]
    Kind(String),
    /// A kind of Shipper's, for a command that does not know those.
    #[error(
        "{0:?} is a kind of Shipper's, which this command does not know; tree, status, history, diff, rollback, \
             promote and abort do"
    )]
    Application(String),
    /// A kind of sites, for a command that does not know those, or not that one.
    #[error(
        "this command does not know {0:?}; tree, status, history and diff take sitedeploy/NAME and siteapp/NAME, \
             rollback, pause, resume, abort, redeploy and wait take sitedeploy/NAME"
    )]
    Site(String),
    /// Something else, for a command that knows Shipper's kinds only.
    #[error(
        "there is no kind {0:?} here; this command takes app/NAME (Application) or rel/NAME (Release)"
    )]
    NoApplication(String),
    /// Something else, for a command that knows deployments to sites only.
    #[error("{0:?} is no deployment to sites; this command takes sitedeploy/NAME")]
    NoSite(String),
    /// Something that cannot be the name of an object.
    #[error("{0:?} cannot be a name: names consist of lower-case letters, digits, '-' and '.'")]
    Name(String),
    #[error("{1:?} names a kind, and so does {0:?} in front of it; give one of the two")]
    Mixed(String, String),
    /// More than one where one is wanted.
    #[error("{0:?} names more than one; this command takes one at a time")]
    NotOne(String),
}

/// Why another program did not show the differences.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExternalError {
    /// The files for it cannot be written.
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
    fn a_failed_test_is_told_from_what_is_invalid() {
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
