//! Errors, in one line for people.

use std::{io, process::ExitStatus};

use baton_cluster::ClusterError;
use baton_terminal::output::report;
use baton_view::diff::plan::NoPlan;

/// The reason that a command could not do its work. Printed after `error: `; the exit code is 2, unless a
/// variant has another one.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The cluster cannot be read or changed.
    #[error(transparent)]
    Cluster(ClusterError),
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
    /// Objects would be refused, so nothing was written. The exit code is 3, after a line for each.
    #[error("{message}")]
    ForeseenObjects {
        /// A line for each of the objects.
        refused: Vec<String>,
        message: String,
    },
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

/// The reasons that commands have as well become theirs, so that each has one variant.
impl From<ClusterError> for Error {
    fn from(error: ClusterError) -> Self {
        match error {
            ClusterError::NotFound(text) => Self::NotFound(text),
            ClusterError::Impossible(text) => Self::Impossible(text),
            ClusterError::Invalid(text) => Self::Usage(text),
            error => Self::Cluster(error),
        }
    }
}

impl From<baton_steering::Error> for Error {
    fn from(error: baton_steering::Error) -> Self {
        use baton_steering::Error as Of;
        match error {
            Of::Cluster(error) => error.into(),
            Of::NotFound(text) => Self::NotFound(text),
            Of::NoPlan(error) => Self::NoPlan(error),
            Of::Usage(text) => Self::Usage(text),
            Of::Impossible(text) => Self::Impossible(text),
            Of::Foreseen { refused, message } => Self::ForeseenObjects { refused, message },
        }
    }
}

impl Error {
    /// Reports the objects that would be refused, a line each; the error itself does not name them.
    pub(crate) fn report_objects(&self) {
        if let Self::ForeseenObjects { refused, .. } = self {
            for line in refused {
                report(&format!("error: {line}"));
            }
        }
    }

    /// True if the reader of our output has closed it, so that no report is read either.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// True if the user lacks the right to a request.
    pub(crate) fn is_lack_of_rights(&self) -> bool {
        matches!(self, Self::Cluster(error) if error.is_lack_of_rights())
    }

    /// True if the server refused a request with this status code.
    pub(crate) fn is_code(&self, code: u16) -> bool {
        matches!(self, Self::Cluster(error) if error.is_code(code))
    }
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
