//! Conditions of Shipper's kinds.

/// Applications: the template goes back to the release before a deleted one.
pub const ABORTING: &str = "Aborting";
/// Applications and releases: a rollout block forbids changes.
pub const BLOCKED: &str = "Blocked";
/// Applications: the template has its release.
pub const RELEASE_SYNCED: &str = "ReleaseSynced";
/// Applications: a release replaces another.
pub const ROLLING_OUT: &str = "RollingOut";
/// Applications: the releases can be put in order.
pub const VALID_HISTORY: &str = "ValidHistory";

/// Releases: the last step was reached once. Never false.
pub const COMPLETE: &str = "Complete";
/// Deleted releases, an addition to Shipper: other releases serve in place of this one.
pub const REPLACED: &str = "Replaced";
/// Releases: the clusters are chosen, and the targets exist.
pub const SCHEDULED: &str = "Scheduled";
/// Releases: the strategy can be followed. It does not say that a step was reached.
pub const STRATEGY_EXECUTED: &str = "StrategyExecuted";

/// Targets, and clusters in them: the controller can work on them.
pub const OPERATIONAL: &str = "Operational";
/// Targets, and clusters in them: the wanted state is reached.
pub const READY: &str = "Ready";

/// Strategies: the objects of the release are installed.
pub const CONTENDER_ACHIEVED_INSTALLATION: &str = "ContenderAchievedInstallation";
/// Strategies: the release has the pods of the step.
pub const CONTENDER_ACHIEVED_CAPACITY: &str = "ContenderAchievedCapacity";
/// Strategies: the release has the traffic of the step.
pub const CONTENDER_ACHIEVED_TRAFFIC: &str = "ContenderAchievedTraffic";
/// Strategies: the release that is replaced has the pods of the step.
pub const INCUMBENT_ACHIEVED_CAPACITY: &str = "IncumbentAchievedCapacity";
/// Strategies: the release that is replaced has the traffic of the step.
pub const INCUMBENT_ACHIEVED_TRAFFIC: &str = "IncumbentAchievedTraffic";

/// Values of `status` of a cluster in the status of a target, as in Shipper's documentation.
pub mod cluster_status {
    /// The objects are installed.
    pub const INSTALLED: &str = "Installed";
    /// The number of pods or the traffic is as wanted.
    pub const SYNCED: &str = "Synced";
    /// Something failed.
    pub const FAILED: &str = "Failed";
}
