//! Why a process could not start, or had to stop.

use baton_charts::SetupError;
use baton_kubernetes::{
    client::ServerError,
    lease::{AcquireError, Lost},
};
use baton_records::api::ApiError;
use baton_runtime::server::BindError;
use baton_terminal::kubeconfig::ConfigError;

use crate::agent::state::StateError;

/// Why the manager could not start, or had to stop.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// No usable kubeconfig.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// No usable kubeconfig for the hub of an agent.
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
        /// What the server says.
        source: ApiError,
    },
    /// An address is taken.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The lease cannot be had.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// The lease was lost; going on would mean two managers at work.
    #[error("stopping at once: {0}")]
    Lost(Lost),
    /// The state of an agent has no place.
    #[error("{0}; --state-dir names a directory that the agent can write to")]
    State(#[from] StateError),
    /// Charts cannot be fetched from anywhere.
    #[error("cannot set up the client for chart repositories: {0}")]
    Charts(#[from] SetupError),
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] std::io::Error),
    /// Signals cannot be listened to.
    #[error("cannot listen to signals: {0}")]
    Signal(#[from] std::io::Error),
}
