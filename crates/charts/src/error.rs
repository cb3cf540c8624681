//! Errors of fetching and rendering charts.

use baton_apis::Chart;
use baton_releases::{
    resolution::{Coordinates, ResolutionError},
    scheduling::error::ScheduleError,
};

/// The reason that a chart is not available, or not rendered. It is converted to a `ScheduleError`,
/// whose reasons are those of Shipper; the texts below name them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no index yet; a retry may succeed. Reason: `NoCachedChartRepoIndex`.
    #[error("{0}")]
    NoIndex(String),
    /// The URL of the repository is not valid, or the folder of charts cannot be written; a retry
    /// may succeed. Reason: `ChartRepoInternal`.
    #[error("internal chart repo client error: {0}")]
    Repository(String),
    /// The index lacks the chart or a matching version, or the version expression cannot be read.
    #[error(transparent)]
    NoSuchVersion(#[from] ResolutionError),
    /// The archive cannot be fetched; a retry may succeed. Reason: `ChartFetchFailure`.
    #[error("failed to fetch chart {}: {cause}", Coordinates(.chart))]
    Fetch {
        /// The chart, with the URL of its archive in the place of the URL of its repository.
        chart: Chart,
        /// The cause of the failure.
        cause: String,
    },
    /// The archive contains no chart, or is unsafe; a retry cannot succeed.
    #[error("chart {} data is corrupted: {cause}", Coordinates(.chart))]
    Corrupted {
        /// The chart whose archive is refused.
        chart: Chart,
        /// The reason that the archive is refused.
        cause: String,
    },
    /// The chart cannot be rendered with these values, or exceeds a limit; a retry cannot succeed.
    /// Reason: `BrokenChartSpec`.
    #[error("broken shipper chart spec {}: {cause}", Coordinates(.chart))]
    Broken {
        /// The chart that is not rendered.
        chart: Chart,
        /// The message of helm, or the exceeded limit.
        cause: String,
    },
    /// Helm is missing or cannot be run, for any chart; a retry may succeed. Reason:
    /// `ChartRepoInternal`.
    #[error("internal chart repo client error: {0}")]
    Renderer(String),
}

impl Error {
    /// True if no retry can succeed until the object that names the chart is changed.
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Corrupted { .. } | Self::Broken { .. } => true,
            Self::NoSuchVersion(error) => error.is_permanent(),
            Self::NoIndex(_) | Self::Repository(_) | Self::Fetch { .. } | Self::Renderer(_) => {
                false
            }
        }
    }
}

impl From<Error> for ScheduleError {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        match error {
            Error::NoIndex(_) => Self::NoIndex(text),
            Error::Repository(_) | Error::Renderer(_) => Self::Repository(text),
            Error::NoSuchVersion(_) => Self::NoSuchVersion(text),
            Error::Fetch { .. } => Self::ChartFetch(text),
            Error::Corrupted { .. } => Self::CorruptedChart(text),
            Error::Broken { chart, cause } => Self::BrokenChart { chart, cause },
        }
    }
}
