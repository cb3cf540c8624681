//! Reasons in the two vocabularies of Shipper: its documentation and its implementation use
//! different names.

use std::fmt::Display;

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
#[derive(Clone, Debug, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The cluster does not exist, or is not connected.
    NoClient,
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
    Inoperative(&'static str),
    /// `Ready=False`.
    Unready(&'static str),
}

impl Kind {
    /// The written reason of a cluster in which the controller could work; `reason` is that of the
    /// implementation.
    pub(super) fn reason(self, vocabulary: Vocabulary, reason: &str) -> &str {
        match (self, vocabulary, reason) {
            (Self::Capacity, Vocabulary::Documentation, "InProgress" | "DeploymentStuck") => {
                "WrongPodCount"
            }
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
            (Cause::NoClient, Self::Installation) => {
                Inoperative(either("TargetClusterClientError", "InternalError"))
            }
            (Cause::Missing, Self::Capacity) if documented => Unready("MissingDeployment"),
            (Cause::Missing, Self::Traffic) if documented => Unready("MissingService"),
            (Cause::NoClient | Cause::Read | Cause::Missing, Self::Capacity | Self::Traffic) => {
                Inoperative(either("ServerError", "InternalError"))
            }
            (Cause::Read | Cause::Missing, Self::Installation) | (Cause::Write, _) => {
                Unready(either("ServerError", "InternalError"))
            }
            (Cause::Discovery, _) => Unready(either("ClientError", "InternalError")),
            (Cause::UnknownKind, _) => Unready(either("ClientError", "UnknownError")),
            (Cause::Chart, _) => Unready("ChartError"),
            (Cause::Refused, _) => Unready("UnknownError"),
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
    pub(super) fn target_event(self) -> &'static str {
        match self {
            Self::Installation => "InstallationTargetConditionChanged",
            Self::Capacity => "CapacityTargetConditionChanged",
            Self::Traffic => "TrafficTargetConditionChanged",
        }
    }

    /// Reason of the event about conditions of a cluster.
    pub(super) fn cluster_event(self) -> &'static str {
        match self {
            Self::Installation => "ClusterInstallationConditionChanged",
            Self::Capacity => "ClusterCapacityConditionChanged",
            Self::Traffic => "ClusterTrafficConditionChanged",
        }
    }
}
