//! Reasons, in the two vocabularies that Shipper has: its documentation and its implementation name them differently
//! (S4 of the contract).

use std::fmt::Display;

/// Which reasons are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Vocabulary {
    /// Those of the documentation.
    #[default]
    Documentation,
    /// Those of the implementation.
    Implementation,
}

/// The targets of a Release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Installation,
    Capacity,
    Traffic,
}

/// Why a cluster could not be worked in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// In what way.
    pub cause: Cause,
    /// What happened, for people.
    pub message: String,
}

impl Failure {
    /// A failure in some way.
    #[must_use]
    pub fn new(cause: Cause, message: impl Display) -> Self {
        Self {
            cause,
            message: message.to_string(),
        }
    }

    /// Nobody has looked at the cluster.
    pub(super) fn untried() -> Self {
        Self::new(Cause::NoClient, "the cluster was not tried yet")
    }
}

/// In what way a cluster could not be worked in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// There is no such cluster, or no connection to it.
    NoClient,
    /// Something could not be read.
    Read,
    /// The workload, or the Service that balances, is not there, or is there twice.
    Missing,
    /// Something could not be written.
    Write,
    /// It is not known which kinds the cluster has.
    Discovery,
    /// The cluster does not have a kind.
    UnknownKind,
    /// The chart breaks a rule.
    Chart,
    /// An object is somebody else's, or something else that trying again does not help.
    Refused,
}

/// How a failure is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Words {
    /// `Operational=False`, and nothing is said of `Ready`.
    Inoperative(&'static str),
    /// `Ready=False`.
    Unready(&'static str),
}

impl Kind {
    /// The reason of a cluster that is worked in, as it is written; `reason` is the implementation's.
    pub(super) fn reason(self, vocabulary: Vocabulary, reason: &str) -> &str {
        match (self, vocabulary, reason) {
            (Self::Capacity, Vocabulary::Documentation, "InProgress" | "DeploymentStuck") => {
                "WrongPodCount"
            }
            _ => reason,
        }
    }

    /// How a failure is told.
    pub(super) fn failure(self, vocabulary: Vocabulary, cause: Cause) -> Words {
        use Words::{Inoperative, Unready};
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

    /// The status of a cluster that is as it is to be (S5).
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

    /// Reason of the event about conditions of a cluster in it.
    pub(super) fn cluster_event(self) -> &'static str {
        match self {
            Self::Installation => "ClusterInstallationConditionChanged",
            Self::Capacity => "ClusterCapacityConditionChanged",
            Self::Traffic => "ClusterTrafficConditionChanged",
        }
    }
}
