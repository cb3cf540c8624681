//! Logs on standard error.

use std::io::{IsTerminal as _, stderr};

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};
use tracing_subscriber::{EnvFilter, Layer, fmt};

use crate::cli::values::{LogFilter, LogFormat};

/// Logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InitError {
    /// The filter is invalid.
    #[error("the log filter is not valid: {0}")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    /// A logger is set up already.
    #[error("logging is set up already: {0}")]
    Twice(#[from] TryInitError),
}

/// Sends logs to standard error, as text or as one JSON object per line. To be called once.
///
/// # Errors
///
/// Fails if it was called before.
pub(crate) fn init(filter: &LogFilter, format: LogFormat) -> Result<(), InitError> {
    let filter = EnvFilter::try_new(filter.directives())?;
    let layer = fmt::layer().with_writer(stderr);
    let layer = match format {
        LogFormat::Text => layer.with_ansi(stderr().is_terminal()).boxed(),
        LogFormat::Json => layer
            .json()
            .flatten_event(true)
            .with_span_list(false)
            .boxed(),
    };
    tracing_subscriber::registry()
        .with(filter)
        .with(layer)
        .try_init()?;
    Ok(())
}
