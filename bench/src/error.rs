//! The errors that prevent a measurement.

use std::path::PathBuf;

use baton_hack::{bed, cargo, charts, exec, manager, paths, tools};
use kube::config::KubeconfigError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Paths(#[from] paths::Error),
    #[error(transparent)]
    Bed(#[from] bed::Error),
    #[error(transparent)]
    Cargo(#[from] cargo::Error),
    #[error(transparent)]
    Manager(#[from] manager::Error),
    /// The name of the bed is too long to derive the names of a fleet's beds.
    #[error(transparent)]
    Name(#[from] bed::InvalidName),
    #[error("a cluster cannot join: {0}")]
    Join(#[source] exec::Error),
    #[error("cannot use the kubeconfig: {0}")]
    Kubeconfig(#[from] KubeconfigError),
    #[error("a request of the bench failed: {}", reason(.0))]
    Request(#[source] Box<kube::Error>),
    #[error(transparent)]
    Tools(#[from] tools::Error),
    #[error(transparent)]
    Charts(#[from] charts::Error),
    #[error("waited too long for the {what} of {application}, which has no manager")]
    Bare { application: String, what: String },
    #[error("cannot write {path}: {source}")]
    Write {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(transparent)]
    Gateway(#[from] super::gateway::Error),
    #[error("cannot put the figures into JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        Self::Request(Box::new(error))
    }
}

/// The message for a failed request: that of the server, or the innermost cause.
fn reason(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return status.message.clone();
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_one_line() {
        let status = kube::core::Status::failure("no such thing", "NotFound");
        assert_eq!(reason(&kube::Error::Api(Box::new(status))), "no such thing");
        let broken = std::io::Error::other(std::io::Error::other("connection refused"));
        assert_eq!(
            reason(&kube::Error::ReadEvents(broken)),
            "connection refused"
        );
    }
}
