//! The reasons that a sync fails. The texts are those of the conditions.

use baton_apis::constants::shipper::{
    ANNOTATION_HIGHEST_OBSERVED_GENERATION, ANNOTATION_RELEASE_GENERATION,
};

use baton_engine::chain_names::NoNextNumber;
use jiff::Timestamp;

use crate::{
    resolution::ResolutionError,
    texts::{NotANumber, Quoted},
};

/// The reason that a sync failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SyncError {
    /// The Releases cannot be put in order.
    #[error(transparent)]
    BrokenReleaseGeneration(#[from] GenerationError),
    /// The annotation of the Application with the highest observed generation cannot be parsed.
    #[error(
        "error decoding annotation \"{ANNOTATION_HIGHEST_OBSERVED_GENERATION}\" in application {}: {source}",
        Quoted(.application)
    )]
    BrokenObservedGeneration {
        /// Name of the Application.
        application: String,
        /// Parse error.
        source: NotANumber,
    },
    /// The chart of the template has no version.
    #[error(transparent)]
    Resolution(#[from] ResolutionError),
    /// The Release was not created.
    #[error("{}", not_created(*.first, .cause))]
    Create {
        /// True if it would have been the first Release.
        first: bool,
        /// Reason of the failure.
        cause: CreateError,
    },
}

/// The reason that a Release was not created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// The version of the chart is not available any more.
    #[error(transparent)]
    Version(#[from] ResolutionError),
    /// The server refused the Release, or did not answer.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The generation of the newest Release is the highest number that exists.
    #[error("release {0}. Delete it.")]
    NoGeneration(#[from] NoNextNumber),
    /// The same Release was created repeatedly.
    #[error(
        "the last {made} releases of hash {hash} were changed when they were created: something changes their \
         environment; the next one is created at {until:.0}"
    )]
    Repeated {
        /// Number of these Releases.
        made: i64,
        /// Hash that the Releases were created for.
        hash: String,
        /// Time at which the next one is created.
        until: Timestamp,
    },
}

/// The reason that a request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// Message of the server.
    pub message: String,
    /// True if a retry cannot succeed unless an object changes.
    pub is_permanent: bool,
}

/// The reason that a Release has no place in the history.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GenerationError {
    /// The Release has no generation.
    #[error("missing label \"{ANNOTATION_RELEASE_GENERATION}\" in release {}", Quoted(.release))]
    Missing {
        /// Name of the Release.
        release: String,
    },
    /// The generation cannot be parsed.
    #[error(
        "invalid value for label \"{ANNOTATION_RELEASE_GENERATION}\" in release {}: {source}",
        Quoted(.release)
    )]
    Invalid {
        /// Name of the Release.
        release: String,
        /// Parse error.
        source: NotANumber,
    },
}

impl SyncError {
    /// True if a retry cannot succeed unless the Application changes.
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::BrokenReleaseGeneration(_) | Self::BrokenObservedGeneration { .. } => false,
            Self::Resolution(error) => error.is_permanent(),
            Self::Create { first: _, cause } => match cause {
                CreateError::Version(error) => error.is_permanent(),
                CreateError::Refused(refusal) => refusal.is_permanent,
                CreateError::NoGeneration(_) => true,
                CreateError::Repeated { .. } => false,
            },
        }
    }
}

fn not_created(first: bool, cause: &CreateError) -> String {
    let cause = cause.to_string();
    if first {
        format!("could not create a new release: {}", Quoted(&cause))
    } else {
        cause
    }
}
