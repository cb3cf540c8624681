//! The link to a cluster, and the state of the cluster as last observed.

use std::{collections::BTreeMap, fmt, sync::Arc};

use baton_apis::conditions::Reason;
use baton_kubernetes::target::Target;
use baton_sites::uptime::Uptime;
use jiff::Timestamp;

use super::health::{ConnectionState, Health};

/// The link to a cluster.
#[derive(Clone)]
pub enum ClusterLink {
    /// There is no such Cluster.
    Unknown,
    /// An agent delivers in the cluster.
    Pull(Contact),
    /// The manager is to connect to the cluster, but is not connected now; or the cluster receives
    /// nothing because of its UID.
    Down {
        /// Reason of the condition `Connected` or `Unique`.
        reason: Reason,
        /// One line for people, with the cause.
        message: String,
        /// Start of this state, also across a restart of the manager.
        since: Timestamp,
    },
    /// The manager is connected to the cluster.
    Up(Target),
}

impl ClusterLink {
    /// True if the cluster was observed to be unreachable.
    pub(super) fn is_lost(&self) -> bool {
        match self {
            Self::Unknown | Self::Pull(Contact::Lost { .. }) => true,
            Self::Down { .. } => !self.is_connecting(),
            Self::Pull(Contact::Expected | Contact::Reported) | Self::Up(_) => false,
        }
    }

    /// True if the cluster responds, or its agent reports.
    pub(super) fn is_reached(&self) -> bool {
        matches!(self, Self::Up(_) | Self::Pull(Contact::Reported))
    }

    /// True if the cluster has not responded yet since the start of this process, or the creation
    /// of its Cluster. The first response, or the loss of the cluster, changes the link.
    pub fn is_connecting(&self) -> bool {
        matches!(self, Self::Down { reason, .. } if *reason == Reason::Connecting)
    }
}

/// The observed state of a Cluster as a site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InventorySite {
    /// Labels of the Cluster.
    pub labels: Arc<BTreeMap<String, String>>,
    /// True if the cluster cannot be reached. A cluster that has not responded yet is not lost.
    pub is_lost: bool,
    /// The times since which the cluster can be reached; without meaning while `is_lost` is true.
    pub uptime: Uptime,
}

/// The state of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contact {
    /// The agent has not reported yet, for a short time.
    Expected,
    /// The agent reports, and can reach its API server.
    Reported,
    /// The agent is silent, or cannot reach its API server.
    Lost {
        /// One line for people.
        message: String,
        /// Start of this state, also across a restart of the manager.
        since: Timestamp,
    },
}

impl ClusterLink {
    /// The link to a cluster with an agent.
    pub(super) fn pull(health: &Health) -> Self {
        Self::Pull(match &health.state {
            ConnectionState::Connecting => Contact::Expected,
            ConnectionState::Up => Contact::Reported,
            ConnectionState::Down { message, .. } => Contact::Lost {
                message: message.clone(),
                since: health.since,
            },
        })
    }

    /// The link to a cluster that is not up.
    pub(super) fn down(health: &Health) -> Self {
        let (reason, message) = match &health.state {
            ConnectionState::Down { reason, message } => (*reason, message.clone()),
            ConnectionState::Connecting | ConnectionState::Up => {
                (Reason::Connecting, "there is no answer yet".to_owned())
            }
        };
        Self::Down {
            reason,
            message,
            since: health.since,
        }
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Unknown, Self::Unknown) => true,
            (Self::Pull(one), Self::Pull(other)) => one == other,
            (Self::Up(one), Self::Up(other)) => one.is_same(other),
            (
                Self::Down {
                    reason,
                    message,
                    since,
                },
                Self::Down {
                    reason: other_reason,
                    message: other_message,
                    since: other_since,
                },
            ) => (reason, message, since) == (other_reason, other_message, other_since),
            _ => false,
        }
    }
}

impl fmt::Debug for ClusterLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("Unknown"),
            Self::Pull(Contact::Expected) => f.write_str("Pull"),
            Self::Pull(Contact::Reported) => f.write_str("Pull(reported)"),
            Self::Pull(Contact::Lost { message, .. }) => write!(f, "Pull(lost: {message})"),
            Self::Down {
                reason, message, ..
            } => write!(f, "Down({reason}: {message})"),
            Self::Up(_) => f.write_str("Up"),
        }
    }
}
