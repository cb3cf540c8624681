//! The errors that end a process.

use std::{io, path::PathBuf};

use baton_charts::SetupError;
use baton_kubernetes::{
    client::ServerError,
    lease::{AcquireError, LeaseLost},
};
use baton_records::api::ApiError;
use baton_runtime::server::{BindError, https::HttpsError};
use baton_terminal::kubeconfig::ConfigError;

/// The reason that a process could not start, or had to stop.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// There is no usable kubeconfig.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// There is no usable kubeconfig for the hub of an agent.
    #[error("hub: {}", .0.with_flags("hub-"))]
    Hub(#[source] ConfigError),
    /// The client could not be built.
    #[error("cannot set up the client for the API server: {0}")]
    Client(#[source] kube::Error),
    /// The API server cannot be used.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// A CRD is missing.
    #[error(
        "the API server does not serve {resource}; install the CRDs first: kubectl apply --server-side -f config/crds"
    )]
    MissingCrd {
        /// Plural name and group.
        resource: String,
    },
    /// Revisions cannot be read.
    #[error(
        "cannot read {resource}: {source}; the manager's service account needs the rights in config/rbac"
    )]
    Access {
        /// Plural name and group.
        resource: String,
        /// The answer of the server.
        source: ApiError,
    },
    /// An address is in use.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The webhook cannot be served.
    #[error(transparent)]
    Webhook(#[from] HttpsError),
    /// The lease cannot be acquired.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// The lease was lost. If the process continued, two managers would write.
    #[error("stopping at once: {0}")]
    Lost(LeaseLost),
    /// Charts cannot be downloaded.
    #[error("cannot set up the client for chart repositories: {0}")]
    Charts(#[from] SetupError),
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
    /// Signals cannot be received.
    #[error("cannot listen to signals: {0}")]
    Signal(#[from] io::Error),
}

/// The state that an agent stores on disk cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StateError {
    /// The file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file, or its directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The last attempt to write has failed, and the next one is not due yet.
    #[error("{0}")]
    Failing(String),
    /// The file contains no state, or only a part of one.
    #[error("{} is damaged: {cause}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The problem.
        cause: String,
    },
    /// The file contains the state of an agent of another hub.
    #[error("{} is the state of an agent of the hub {found}, not of {expected}", path.display())]
    OtherHub {
        /// The file.
        path: PathBuf,
        /// UID of the hub in the file.
        found: String,
        /// UID of the hub of this agent.
        expected: String,
    },
    /// The file contains the state of another agent.
    #[error("{} is the state of the agent of cluster {found:?}, not of {expected:?}", path.display())]
    OtherCluster {
        /// The file.
        path: PathBuf,
        /// The cluster in the file.
        found: String,
        /// The cluster of this agent.
        expected: String,
    },
}
