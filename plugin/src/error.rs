//! What goes wrong, in one line for a person.

use std::{error::Error as StdError, io};

use baton::{cli::kubeconfig::ConfigError, cluster::discovery::DiscoveryError, telemetry};
use kube::core::Status;

use crate::{diff::external::ExternalError, output::one_line, target::TargetError};

/// Why a command could not do its work. Printed after `error: `; the exit code is 2.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Which cluster to talk to is unclear.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The kubeconfig cannot be made into a client.
    #[error("cannot connect to {server}: {}", telemetry::one_line(source))]
    Client {
        /// URL of the API server.
        server: String,
        /// Why.
        source: Box<kube::Error>,
    },
    /// The server refused a request. Its own words name the object and the cause.
    #[error("{}", refusal(.0))]
    Refused(Box<Status>),
    /// No answer came.
    #[error("cannot reach the API server at {server}: {}", root_cause(source))]
    Unreachable {
        /// URL of the API server.
        server: String,
        /// Why.
        source: Box<kube::Error>,
    },
    /// The server does not have the custom resources.
    #[error(
        "the API server at {server} does not serve {kind} (package-operator.run/v1alpha1); install Baton there first"
    )]
    NotInstalled {
        /// URL of the API server.
        server: String,
        /// Plural of the kind that was asked for.
        kind: &'static str,
    },
    /// What the server serves could not be found out.
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    /// The words on the command line name nothing.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// What was named does not exist.
    #[error("{0}")]
    NotFound(String),
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
    /// Whether the reader of our output has gone: nothing to tell, and nobody to tell it to.
    #[must_use]
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// Whether the server refused a request with this status code.
    #[must_use]
    pub fn is_code(&self, code: u16) -> bool {
        matches!(self, Self::Refused(status) if status.code == code)
    }
}

/// The server's message; where there is none, as from proxies, the code.
fn refusal(status: &Status) -> String {
    let message = one_line(&status.message);
    if message.is_empty() {
        return format!("the API server answered {} {}", status.code, status.reason);
    }
    message
}

/// The innermost cause: the layers around it say only that a request failed.
fn root_cause(error: &dyn StdError) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    one_line(&cause.to_string())
}
