//! What the process tells about itself: logs, metrics, health, and the counted client.

pub mod client;
pub mod metrics;
pub mod object_sets;
pub mod outcomes;
mod process;
pub mod requests;
pub mod server;

use std::error::Error;
use std::fmt::Write as _;
use std::io::{IsTerminal as _, stderr};

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};
use tracing_subscriber::{EnvFilter, Layer, fmt};

use crate::cli::values::{LogFilter, LogFormat};

/// Logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// The filter was refused.
    #[error("the log filter is not valid: {0}")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    /// Something else logs already.
    #[error("logging is set up already: {0}")]
    Twice(#[from] TryInitError),
}

/// Sends logs to standard error, as text or as one JSON object per line. To be called once.
///
/// # Errors
///
/// Fails when it was called before.
pub fn init(filter: &LogFilter, format: LogFormat) -> Result<(), InitError> {
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

/// An error and its causes in one line, each said once.
///
/// Some libraries repeat a cause in the text of the error itself and some leave it to the reader, so a cause that was
/// said already is left out.
#[must_use]
pub fn one_line(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        if !line.contains(&text) {
            // Writing into a string cannot fail.
            let _ = write!(line, ": {text}");
        }
        source = cause.source();
    }
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Step {
        text: &'static str,
        source: Option<Box<Step>>,
    }

    fn chain(texts: &[&'static str]) -> Step {
        let (text, rest) = texts.split_first().unwrap();
        Step {
            text,
            source: (!rest.is_empty()).then(|| Box::new(chain(rest))),
        }
    }

    #[test]
    fn an_error_is_told_in_one_line_without_repeating_itself() {
        for (texts, expected) in [
            (&["a"][..], "a"),
            (&["a", "b", "c"], "a: b: c"),
            (
                &["cannot read: no such file", "no such file"],
                "cannot read: no such file",
            ),
            (&["two\n  lines", "cause"], "two lines: cause"),
        ] {
            assert_eq!(one_line(&chain(texts)), expected);
        }
    }
}
