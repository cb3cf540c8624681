//! Reasons that a page cannot be shown.

use baton_cluster::ClusterError;
use baton_steering::Error;
use http::StatusCode;

/// The reason that a page cannot be shown, in one line for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { status, message }
    }

    /// True if another attempt is of no use.
    pub(crate) fn is_lasting(&self) -> bool {
        self.status.is_client_error()
    }

    /// A few words above the message.
    pub(crate) fn heading(&self) -> &'static str {
        match self.status {
            StatusCode::UNAUTHORIZED => "You are not logged in",
            StatusCode::FORBIDDEN => "You may not see this",
            StatusCode::NOT_FOUND | StatusCode::GONE => "There is no such object",
            StatusCode::SERVICE_UNAVAILABLE => "Try again later",
            StatusCode::BAD_REQUEST => "This address is not valid",
            StatusCode::CONFLICT => "This is not possible",
            _ => "The cluster cannot be read",
        }
    }
}

impl From<ClusterError> for Failure {
    fn from(error: ClusterError) -> Self {
        let status = match &error {
            ClusterError::Refused(status) => match status.code {
                401 => StatusCode::UNAUTHORIZED,
                403 => StatusCode::FORBIDDEN,
                404 => StatusCode::NOT_FOUND,
                400 | 409 | 422 => StatusCode::CONFLICT,
                429 => StatusCode::SERVICE_UNAVAILABLE,
                _ => StatusCode::BAD_GATEWAY,
            },
            ClusterError::NotFound(_) | ClusterError::NotServed { .. } => StatusCode::NOT_FOUND,
            ClusterError::Invalid(_) => StatusCode::BAD_REQUEST,
            _ => StatusCode::BAD_GATEWAY,
        };
        Self::new(status, error.to_string())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let status = match error {
            Error::Cluster(error) => return error.into(),
            Error::NotFound(_) => StatusCode::NOT_FOUND,
            Error::Usage(_) => StatusCode::BAD_REQUEST,
            Error::NoPlan(_) | Error::Impossible(_) | Error::Foreseen { .. } => {
                StatusCode::CONFLICT
            }
        };
        Self::new(status, error.to_string())
    }
}
