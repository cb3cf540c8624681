//! The reasons of Kubernetes Events.

use strum::{IntoStaticStr, VariantNames};

use super::Reason;

/// The reason of a Kubernetes Event that Baton publishes, as a closed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
pub enum EventReason {
    /// A condition has this reason now.
    #[strum(transparent)]
    Condition(Reason),

    /// A revision names a revision in `previous` that does not exist.
    PreviousNotFound,
    /// A pass took objects over.
    TookOver,
    /// Objects that differed were written again.
    Repaired,
    /// Objects were deleted, to be created again.
    Recreated,
    /// Objects were released instead of deleted.
    Kept,
    /// A deployment created a revision.
    NewRevision,
    /// A rollout over sites began a wave.
    WaveStarted,

    /// Conditions of an Application changed.
    ApplicationConditionChanged,
    /// Conditions of a Release changed.
    ReleaseConditionChanged,
    /// Conditions of an `InstallationTarget` changed.
    InstallationTargetConditionChanged,
    /// Conditions of a `CapacityTarget` changed.
    CapacityTargetConditionChanged,
    /// Conditions of a `TrafficTarget` changed.
    TrafficTargetConditionChanged,
    /// Conditions of a cluster of an `InstallationTarget` changed.
    ClusterInstallationConditionChanged,
    /// Conditions of a cluster of a `CapacityTarget` changed.
    ClusterCapacityConditionChanged,
    /// Conditions of a cluster of a `TrafficTarget` changed.
    ClusterTrafficConditionChanged,
    /// The clusters of a Release were chosen.
    ClustersSelected,
    /// A target of a Release was created, or got other clusters.
    ReleaseScheduled,
    /// A Release reached a step of its strategy.
    StrategyApplied,
    /// The state that a Release waits for changed.
    ReleaseStateTransitioned,
    /// A rollout block forbids changes.
    RolloutBlocked,
    /// A rollout block is overridden.
    RolloutBlockOverridden,
}

impl EventReason {
    /// The texts of all variants except [`Condition`](Self::Condition).
    pub fn own() -> impl Iterator<Item = &'static str> {
        Self::VARIANTS.iter().copied().skip(1)
    }

    /// The text in an event.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl From<Reason> for EventReason {
    fn from(reason: Reason) -> Self {
        Self::Condition(reason)
    }
}
