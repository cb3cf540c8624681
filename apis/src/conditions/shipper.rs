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

/// Reasons of conditions.
pub mod reasons {
    /// `Blocked=True`.
    pub const ROLLOUTS_BLOCKED: &str = "RolloutsBlocked";
    /// `ReleaseSynced=False`, `RollingOut=False`: the release cannot be created.
    pub const CREATE_RELEASE_FAILED: &str = "CreateReleaseFailed";
    /// `RollingOut=False`: no version of the chart was found.
    pub const CHART_VERSION_RESOLUTION_FAILED: &str = "ChartVersionResolutionFailed";
    /// `ValidHistory=False`: a release has no number, or one that cannot be parsed.
    pub const BROKEN_RELEASE_GENERATION: &str = "BrokenReleaseGeneration";
    /// `ValidHistory=False`: the highest observed number cannot be parsed.
    pub const BROKEN_APPLICATION_OBSERVED_GENERATION: &str = "BrokenApplicationObservedGeneration";

    /// `Scheduled=False`: the release requests no region.
    pub const NO_REGIONS_SPECIFIED: &str = "NoRegionsSpecified";
    /// `Scheduled=False`: a region has fewer clusters than requested.
    pub const NOT_ENOUGH_CLUSTERS_IN_REGION: &str = "NotEnoughClustersInRegion";
    /// `Scheduled=False`: fewer clusters of a region than requested have the required capabilities.
    pub const NOT_ENOUGH_CAPABLE_CLUSTERS_IN_REGION: &str = "NotEnoughCapableClustersInRegion";
    /// `Scheduled=False`: a capability is listed twice.
    pub const DUPLICATE_CAPABILITY_REQUIREMENT: &str = "DuplicateCapabilityRequirement";
    /// `Scheduled=False`: the chart cannot be fetched.
    pub const CHART_FETCH_FAILURE: &str = "ChartFetchFailure";
    /// `Scheduled=False`: the chart cannot be rendered.
    pub const BROKEN_CHART_SPEC: &str = "BrokenChartSpec";
    /// `Scheduled=False`: the chart does not have the Deployments that it must have.
    pub const WRONG_CHART_DEPLOYMENTS: &str = "WrongChartDeployments";
    /// `Scheduled=False`: a rollout block forbids changes.
    pub const ROLLOUT_BLOCK: &str = "RolloutBlock";
    /// `Scheduled=False`: the repository cannot be used.
    pub const CHART_REPO_INTERNAL: &str = "ChartRepoInternal";
    /// `Scheduled=False`: the repository has not answered, and no index of the repository is
    /// cached.
    pub const NO_CACHED_CHART_REPO_INDEX: &str = "NoCachedChartRepoIndex";
    /// `Scheduled=False`: a request failed.
    pub const FAILED_API_CALL: &str = "FailedAPICall";
    /// `Replaced=False`: the pods of the release keep their traffic until other releases have taken
    /// over.
    pub const STILL_SERVING: &str = "StillServing";
    /// `Replaced=False`: the pods of the release are being taken out of service.
    pub const DRAINING: &str = "Draining";
    /// `StrategyExecuted=False`.
    pub const STRATEGY_EXECUTION_FAILED: &str = "StrategyExecutionFailed";

    /// `Ready=False` of a target, and of the conditions of a strategy: some clusters have not
    /// reached the state.
    pub const CLUSTERS_NOT_READY: &str = "ClustersNotReady";
    /// Targets: the chart cannot be fetched or rendered, or breaks a rule. Clusters: an object
    /// cannot be read.
    pub const CHART_ERROR: &str = "ChartError";
    /// The controller cannot work in the cluster, or the cluster refused a request. Shipper writes
    /// this reason where its documentation has [`SERVER_ERROR`] and others.
    pub const INTERNAL_ERROR: &str = "InternalError";
    /// The cluster refused a request. In Shipper's documentation.
    pub const SERVER_ERROR: &str = "ServerError";
    /// The cluster does not serve a kind, or there is no client for the kind. In Shipper's
    /// documentation.
    pub const CLIENT_ERROR: &str = "ClientError";
    /// There is no client for the cluster.
    pub const TARGET_CLUSTER_CLIENT_ERROR: &str = "TargetClusterClientError";
    /// Any other error, such as an object that belongs to another application.
    pub const UNKNOWN_ERROR: &str = "UnknownError";
    /// The cluster has no Deployment of the release. In Shipper's documentation.
    pub const MISSING_DEPLOYMENT: &str = "MissingDeployment";
    /// The cluster has no Service that divides the traffic. In Shipper's documentation.
    pub const MISSING_SERVICE: &str = "MissingService";
    /// The number of pods is not as wanted. Shipper's documentation has it for [`IN_PROGRESS`] and
    /// [`DEPLOYMENT_STUCK`].
    pub const WRONG_POD_COUNT: &str = "WrongPodCount";
    /// The change is in progress.
    pub const IN_PROGRESS: &str = "InProgress";
    /// The Deployment makes no progress.
    pub const DEPLOYMENT_STUCK: &str = "DeploymentStuck";
    /// Pods are not ready.
    pub const PODS_NOT_READY: &str = "PodsNotReady";
    /// Pods are not among the endpoints of the Service yet.
    pub const PODS_NOT_IN_ENDPOINTS: &str = "PodsNotInEndpoints";
}
