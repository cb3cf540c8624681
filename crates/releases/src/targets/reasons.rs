//! Reasons in the two vocabularies of Shipper: its documentation and its implementation use
//! different names.

use std::fmt::Display;

use baton_apis::conditions::{EventReason, Reason};
use serde::{Deserialize, Serialize};

/// The vocabulary of the reasons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Vocabulary {
    /// Reasons of the documentation.
    #[default]
    Documentation,
    /// Reasons of the implementation.
    Implementation,
}

/// The targets of a Release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Installation,
    Capacity,
    Traffic,
}

/// The reason that the controller could not work in a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Failure {
    /// Kind of the failure.
    pub cause: Cause,
    /// Message for people.
    pub message: String,
}

impl Failure {
    /// A failure of this kind.
    #[must_use]
    pub fn new(cause: Cause, message: impl Display) -> Self {
        Self {
            cause,
            message: message.to_string(),
        }
    }

    /// The failure before any work in the cluster was tried.
    pub(super) fn untried() -> Self {
        Self::new(Cause::NoClient, "the cluster was not tried yet")
    }
}

/// The kind of a failure in a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Cause {
    /// The Cluster does not exist.
    NoCluster,
    /// The cluster is not connected.
    NoClient,
    /// The agent of the cluster is not connected.
    AgentLost,
    /// The cluster has not answered yet since the start of this process, or the namespaces that may
    /// deliver into it have not been listed yet.
    NotObserved,
    /// The agent of the cluster has not reported on the Release yet.
    Unreported,
    /// An object could not be read.
    Read,
    /// The workload, or the Service that balances, is missing or exists twice.
    Missing,
    /// An object could not be written.
    Write,
    /// The kinds of the cluster are not known.
    Discovery,
    /// The cluster does not have a kind.
    UnknownKind,
    /// The chart breaks a rule.
    Chart,
    /// An object has another owner, or another error that a retry does not solve.
    Refused,
}

/// The condition that reports a failure, with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailureCondition {
    /// `Operational=False`, and `Ready` is unknown.
    Inoperative(Reason),
    /// `Ready=False`.
    Unready(Reason),
}

impl Kind {
    /// The written reason of a cluster in which the controller could work; `reason` is that of the
    /// implementation.
    pub(super) fn reason(self, vocabulary: Vocabulary, reason: Reason) -> Reason {
        match (self, vocabulary, reason) {
            (
                Self::Capacity,
                Vocabulary::Documentation,
                Reason::InProgress | Reason::DeploymentStuck,
            ) => Reason::WrongPodCount,
            _ => reason,
        }
    }

    /// The condition and reason that report a failure.
    pub(super) fn failure(self, vocabulary: Vocabulary, cause: Cause) -> FailureCondition {
        use FailureCondition::{Inoperative, Unready};
        let documented = vocabulary == Vocabulary::Documentation;
        let either = |documentation, implementation| {
            if documented {
                documentation
            } else {
                implementation
            }
        };
        match (cause, self) {
            (
                Cause::NoCluster | Cause::NoClient | Cause::AgentLost | Cause::NotObserved,
                Self::Installation,
            ) => Inoperative(either(
                Reason::TargetClusterClientError,
                Reason::InternalError,
            )),
            (Cause::Missing, Self::Capacity) if documented => Unready(Reason::MissingDeployment),
            (Cause::Missing, Self::Traffic) if documented => Unready(Reason::MissingService),
            (
                Cause::NoCluster
                | Cause::NoClient
                | Cause::AgentLost
                | Cause::NotObserved
                | Cause::Read
                | Cause::Missing,
                Self::Capacity | Self::Traffic,
            ) => Inoperative(either(Reason::ServerError, Reason::InternalError)),
            (Cause::Read | Cause::Missing, Self::Installation) | (Cause::Write, _) => {
                Unready(either(Reason::ServerError, Reason::InternalError))
            }
            (Cause::Unreported, _) => Unready(Reason::InProgress),
            (Cause::Discovery, _) => Unready(either(Reason::ClientError, Reason::InternalError)),
            (Cause::UnknownKind, _) => Unready(either(Reason::ClientError, Reason::UnknownError)),
            (Cause::Chart, _) => Unready(Reason::ChartError),
            (Cause::Refused, _) => Unready(Reason::UnknownError),
        }
    }

    /// The status of a cluster that is as in the spec.
    pub(super) fn done(self) -> &'static str {
        match self {
            Self::Installation => "Installed",
            Self::Capacity | Self::Traffic => "Synced",
        }
    }

    /// Reason of the event about conditions of a target.
    pub(super) fn target_event(self) -> EventReason {
        match self {
            Self::Installation => EventReason::InstallationTargetConditionChanged,
            Self::Capacity => EventReason::CapacityTargetConditionChanged,
            Self::Traffic => EventReason::TrafficTargetConditionChanged,
        }
    }

    /// Reason of the event about conditions of a cluster.
    pub(super) fn cluster_event(self) -> EventReason {
        match self {
            Self::Installation => EventReason::ClusterInstallationConditionChanged,
            Self::Capacity => EventReason::ClusterCapacityConditionChanged,
            Self::Traffic => EventReason::ClusterTrafficConditionChanged,
        }
    }
}
