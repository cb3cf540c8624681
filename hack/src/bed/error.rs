//! Why there is no bed.

use super::{LeaseError, Name, PATIENCE, PortsError, ProcessesError};
use crate::{exec, tools};

/// Why there is no bed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another task uses it.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// Its programs are missing.
    #[error(transparent)]
    Tools(#[from] tools::Error),
    /// There are no ports for it.
    #[error(transparent)]
    Ports(#[from] PortsError),
    /// Its processes are out of control.
    #[error("bed `{name}`: {source}")]
    Processes {
        /// The bed.
        name: Name,
        /// What went wrong.
        source: ProcessesError,
    },
    /// A server ended during the start.
    #[error("bed `{name}`: {component} ended while starting; its log ends with:\n{log}")]
    Died {
        /// The bed.
        name: Name,
        /// The server.
        component: &'static str,
        /// The end of its log.
        log: String,
    },
    /// A command against the bed failed.
    #[error("bed `{name}`: {source}")]
    Exec {
        /// The bed.
        name: Name,
        /// What went wrong.
        source: exec::Error,
    },
    /// The servers run and are not ready.
    #[error("bed `{name}` is not ready after {} s; the log of kube-apiserver ends with:\n{log}", PATIENCE.as_secs())]
    NotReady {
        /// The bed.
        name: Name,
        /// The end of the log.
        log: String,
    },
    /// A file of the bed cannot be written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: std::path::PathBuf,
        /// What went wrong.
        source: std::io::Error,
    },
    /// There is no such bed.
    #[error("bed `{name}` is not running: start it with `cargo dev up {name}`")]
    NotRunning {
        /// The bed.
        name: Name,
    },
}
