//! Why a sync failed. The texts are those of the conditions (section 2.5 of the contract).

use baton_apis::constants::shipper::{
    ANNOTATION_HIGHEST_OBSERVED_GENERATION, ANNOTATION_RELEASE_GENERATION,
};

use baton_engine::chain_names::NoNextNumber;
use jiff::Timestamp;

use crate::{
    resolution::ResolutionError,
    texts::{NotANumber, Quoted},
};

/// Why a sync failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SyncError {
    /// The Releases cannot be put into order.
    #[error(transparent)]
    BrokenReleaseGeneration(#[from] GenerationError),
    /// What the Application says of the highest generation that was seen cannot be read.
    #[error(
        "error decoding annotation \"{ANNOTATION_HIGHEST_OBSERVED_GENERATION}\" in application {}: {source}",
        Quoted(.application)
    )]
    BrokenObservedGeneration {
        /// Name of the Application.
        application: String,
        /// Why not.
        source: NotANumber,
    },
    /// The chart of the template has no version.
    #[error(transparent)]
    Resolution(#[from] ResolutionError),
    /// The Release was not created.
    #[error("{}", not_created(*.first, .cause))]
    Create {
        /// Whether it would have been the first one.
        first: bool,
        /// Why not.
        cause: CreateError,
    },
}

/// Why a Release was not created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// The version of its chart is not to be had any more.
    #[error(transparent)]
    Version(#[from] ResolutionError),
    /// The server refused it, or did not answer.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The generation of the newest one is the highest number there is.
    #[error("release {0}. Delete it.")]
    NoGeneration(#[from] NoNextNumber),
    /// The same was made again and again.
    #[error(
        "the last {made} releases of hash {hash} are not stored as they were made: something changes their \
         environment; the next one is made at {until:.0}"
    )]
    Repeated {
        /// How many of them.
        made: i64,
        /// The hash that they were made for.
        hash: String,
        /// When the next one is made.
        until: Timestamp,
    },
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// What the server said.
    pub message: String,
    /// Whether only a change of an object helps, and not to try again.
    pub is_permanent: bool,
}

/// Why a Release has no place in the history.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GenerationError {
    /// It has no generation.
    #[error("missing label \"{ANNOTATION_RELEASE_GENERATION}\" in release {}", Quoted(.release))]
    Missing {
        /// Name of the Release.
        release: String,
    },
    /// Its generation cannot be read.
    #[error(
        "invalid value for label \"{ANNOTATION_RELEASE_GENERATION}\" in release {}: {source}",
        Quoted(.release)
    )]
    Invalid {
        /// Name of the Release.
        release: String,
        /// Why not.
        source: NotANumber,
    },
}

impl SyncError {
    /// Whether only a change of the Application helps, and not to try again.
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
