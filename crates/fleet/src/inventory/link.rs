//! The way to a cluster, and what is known of it without asking.

use std::{collections::BTreeMap, fmt, sync::Arc};

use baton_apis::conditions::reasons;
use baton_kubernetes::target::Target;
use jiff::Timestamp;

use super::health::{Health, Standing};

/// The way to a cluster.
#[derive(Clone)]
pub enum ClusterLink {
    /// There is no such Cluster.
    Unknown,
    /// An agent serves it.
    Pull(Contact),
    /// The manager connects to it, but not successfully at present.
    Down {
        /// Reason of the condition `Connected`.
        reason: &'static str,
        /// One line for people, with the cause.
        message: String,
        /// Since when it has been so, also over a restart of the manager.
        since: Timestamp,
    },
    /// The manager is connected to it.
    Up(Target),
}

impl ClusterLink {
    /// Whether the cluster turned out not to be reachable.
    pub(super) fn is_lost(&self) -> bool {
        match self {
            Self::Unknown | Self::Pull(Contact::Lost { .. }) => true,
            Self::Down { .. } => !self.is_connecting(),
            Self::Pull(Contact::Expected | Contact::Reported) | Self::Up(_) => false,
        }
    }

    /// Whether the cluster answers, or its agent reports.
    pub(super) fn is_reached(&self) -> bool {
        matches!(self, Self::Up(_) | Self::Pull(Contact::Reported))
    }

    /// Whether the cluster has not answered yet since this process, or its Cluster, came. It will, or turns out to be
    /// lost, and that is a change of its link.
    pub fn is_connecting(&self) -> bool {
        matches!(self, Self::Down { reason, .. } if *reason == reasons::CONNECTING)
    }
}

/// What is known of a Cluster without asking it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InventorySite {
    /// Its labels.
    pub labels: Arc<BTreeMap<String, String>>,
    /// Whether it cannot be reached. One that has not answered yet is not lost so far.
    pub is_lost: bool,
    /// Unless it is lost: since when it has not been, as far as this process knows, which is later than the true time
    /// after a restart. What was to happen there before may have been held up.
    pub online_since: Timestamp,
}

/// The state of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contact {
    /// It has not reported yet, for a short time.
    Expected,
    /// It reports, and can reach its API server.
    Reported,
    /// It is silent, or cannot reach its API server.
    Lost {
        /// One line for people.
        message: String,
        /// Since when it has been so, also over a restart of the manager.
        since: Timestamp,
    },
}

impl ClusterLink {
    /// The link to a cluster that an agent serves.
    pub(super) fn pull(health: &Health) -> Self {
        Self::Pull(match &health.standing {
            Standing::Connecting => Contact::Expected,
            Standing::Up => Contact::Reported,
            Standing::Down { message, .. } => Contact::Lost {
                message: message.clone(),
                since: health.since,
            },
        })
    }

    /// The link to a cluster that is not up.
    pub(super) fn down(health: &Health) -> Self {
        let (reason, message) = match &health.standing {
            Standing::Down { reason, message } => (*reason, message.clone()),
            Standing::Connecting | Standing::Up => {
                (reasons::CONNECTING, "there is no answer yet".to_owned())
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
