//! Errors, in one line for people.

use baton_cluster::ClusterError;
use baton_view::diff::plan::NoPlan;

/// The reason that nothing was changed, or that an effect is unknown.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The cluster cannot be read or changed.
    #[error(transparent)]
    Cluster(ClusterError),
    /// The named object does not exist.
    #[error("{0}")]
    NotFound(String),
    /// There is no next revision.
    #[error(transparent)]
    NoPlan(#[from] NoPlan),
    /// The options cannot be combined, or do not fit the objects.
    #[error("{0}")]
    Usage(String),
    /// The state of the cluster does not allow the request.
    #[error("{0}")]
    Impossible(String),
    /// The server or the manager would refuse objects, so nothing was written.
    #[error("{message}")]
    Foreseen {
        /// A line for each of the objects.
        refused: Vec<String>,
        /// The reason that nothing was written.
        message: String,
    },
}

/// The reasons that this crate has as well become its own, so that each has one variant.
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

impl Error {
    /// True if the server refused a request with this status code.
    #[must_use]
    pub fn is_code(&self, code: u16) -> bool {
        matches!(self, Self::Cluster(error) if error.is_code(code))
    }

    /// True if the user lacks the right to a request.
    #[must_use]
    pub fn is_lack_of_rights(&self) -> bool {
        matches!(self, Self::Cluster(error) if error.is_lack_of_rights())
    }
}
