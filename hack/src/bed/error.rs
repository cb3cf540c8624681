//! The errors of a bed.

use super::{Ended, LeaseError, Name, PortsError, ProcessesError, TIMEOUT};
use crate::{exec, tools};

/// The reason that there is no bed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages state it")]
pub enum Error {
    #[error(transparent)]
    Lease(#[from] LeaseError),
    #[error(transparent)]
    Tools(#[from] tools::Error),
    #[error(transparent)]
    Ports(#[from] PortsError),
    #[error("bed `{name}`: {source}")]
    Processes { name: Name, source: ProcessesError },
    #[error("bed `{name}`: {component} ended while starting; its log ends with:\n{log}")]
    Died {
        name: Name,
        component: &'static str,
        log: String,
    },
    #[error("bed `{name}`: {source}")]
    Exec { name: Name, source: exec::Error },
    #[error("bed `{name}` is not ready after {} s; the log of kube-apiserver ends with:\n{log}", TIMEOUT.as_secs())]
    NotReady { name: Name, log: String },
    #[error("{path}: {source}")]
    File {
        path: std::path::PathBuf,
        source: std::io::Error,
    },
    #[error("bed `{name}` is not running: start it with `cargo dev up {name}`")]
    NotRunning { name: Name },
    #[error("{ended}\nstart the bed again with `cargo dev up {name}`")]
    Ended { name: Name, ended: Ended },
}
