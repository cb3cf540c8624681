//! Why a chart is not there, or not rendered.

use baton_apis::Chart;
use baton_releases::{
    resolution::{Coordinates, ResolutionError},
    scheduling::error::ScheduleError,
};

/// Why a chart is not there, or not rendered. `ScheduleError` is made from it, with the reasons of section 3.7 of the
/// contract.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No index is at hand. To be retried: `NoCachedChartRepoIndex`.
    #[error("{0}")]
    NoIndex(String),
    /// The URL of the repository is none, or the folder of charts cannot be written: `ChartRepoInternal`.
    #[error("internal chart repo client error: {0}")]
    Repository(String),
    /// The index lacks the chart, or a version that is meant; or what is meant cannot be read.
    #[error(transparent)]
    NoSuchVersion(#[from] ResolutionError),
    /// The archive cannot be fetched. To be retried: `ChartFetchFailure`.
    #[error("failed to fetch chart {}: {cause}", Coordinates(.chart))]
    Fetch {
        /// The chart, with the URL of its archive in the place of that of its repository.
        chart: Chart,
        /// Why.
        cause: String,
    },
    /// The archive is not one of a chart, or one that would do harm. Not to be retried.
    #[error("chart {} data is corrupted: {cause}", Coordinates(.chart))]
    Corrupted {
        /// The chart.
        chart: Chart,
        /// What is wrong with it.
        cause: String,
    },
    /// The chart cannot be rendered with these values, or takes too much for it. Not to be retried: `BrokenChartSpec`.
    #[error("broken shipper chart spec {}: {cause}", Coordinates(.chart))]
    Broken {
        /// The chart.
        chart: Chart,
        /// What helm says, or which limit was reached.
        cause: String,
    },
    /// Helm is missing or cannot be run, whatever the chart. To be retried: `ChartRepoInternal`.
    #[error("internal chart repo client error: {0}")]
    Renderer(String),
}

impl Error {
    /// Whether only a change of the object helps, and not to try again.
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
