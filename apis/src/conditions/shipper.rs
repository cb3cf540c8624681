//! Conditions of Shipper's kinds.

/// Of an application: it goes back to the release before one that was deleted.
pub const ABORTING: &str = "Aborting";
/// Of applications and releases: a block forbids changes.
pub const BLOCKED: &str = "Blocked";
/// Of an application: its template has its release.
pub const RELEASE_SYNCED: &str = "ReleaseSynced";
/// Of an application: a release replaces another.
pub const ROLLING_OUT: &str = "RollingOut";
/// Of an application: its releases can be put in order.
pub const VALID_HISTORY: &str = "ValidHistory";

/// Of a release: its last step was reached once. Never false.
pub const COMPLETE: &str = "Complete";
/// Of a release that is deleted, an addition of ours: others serve with what its pods have served with.
pub const REPLACED: &str = "Replaced";
/// Of a release: its clusters are chosen, and its targets are there.
pub const SCHEDULED: &str = "Scheduled";
/// Of a release: its strategy can be followed, which does not mean that a step was reached.
pub const STRATEGY_EXECUTED: &str = "StrategyExecuted";

/// Of targets, and of clusters in them: they can be worked on.
pub const OPERATIONAL: &str = "Operational";
/// Of targets, and of clusters in them: they are as wanted.
pub const READY: &str = "Ready";

/// Of a strategy: the objects of the release are installed.
pub const CONTENDER_ACHIEVED_INSTALLATION: &str = "ContenderAchievedInstallation";
/// Of a strategy: the release has the pods of the step.
pub const CONTENDER_ACHIEVED_CAPACITY: &str = "ContenderAchievedCapacity";
/// Of a strategy: the release has the traffic of the step.
pub const CONTENDER_ACHIEVED_TRAFFIC: &str = "ContenderAchievedTraffic";
/// Of a strategy: the release that is replaced has the pods of the step.
pub const INCUMBENT_ACHIEVED_CAPACITY: &str = "IncumbentAchievedCapacity";
/// Of a strategy: the release that is replaced has the traffic of the step.
pub const INCUMBENT_ACHIEVED_TRAFFIC: &str = "IncumbentAchievedTraffic";

/// Values of `status` of a cluster in the status of a target, as Shipper's documentation has them.
pub mod cluster_status {
    /// The objects are installed.
    pub const INSTALLED: &str = "Installed";
    /// Pods or traffic are as wanted.
    pub const SYNCED: &str = "Synced";
    /// Something failed.
    pub const FAILED: &str = "Failed";
}

/// Reasons of the conditions.
pub mod reasons {
    /// `Blocked=True`.
    pub const ROLLOUTS_BLOCKED: &str = "RolloutsBlocked";
    /// `ReleaseSynced=False`, `RollingOut=False`: the release cannot be created.
    pub const CREATE_RELEASE_FAILED: &str = "CreateReleaseFailed";
    /// `RollingOut=False`: no version of the chart was found.
    pub const CHART_VERSION_RESOLUTION_FAILED: &str = "ChartVersionResolutionFailed";
    /// `ValidHistory=False`: a release has no number, or none that can be read.
    pub const BROKEN_RELEASE_GENERATION: &str = "BrokenReleaseGeneration";
    /// `ValidHistory=False`: the highest number that was seen cannot be read.
    pub const BROKEN_APPLICATION_OBSERVED_GENERATION: &str = "BrokenApplicationObservedGeneration";

    /// `Scheduled=False`: no region is asked for.
    pub const NO_REGIONS_SPECIFIED: &str = "NoRegionsSpecified";
    /// `Scheduled=False`: a region has fewer clusters than asked for.
    pub const NOT_ENOUGH_CLUSTERS_IN_REGION: &str = "NotEnoughClustersInRegion";
    /// `Scheduled=False`: fewer clusters of a region than asked for offer what is asked for.
    pub const NOT_ENOUGH_CAPABLE_CLUSTERS_IN_REGION: &str = "NotEnoughCapableClustersInRegion";
    /// `Scheduled=False`: a capability is listed twice.
    pub const DUPLICATE_CAPABILITY_REQUIREMENT: &str = "DuplicateCapabilityRequirement";
    /// `Scheduled=False`: the chart cannot be fetched.
    pub const CHART_FETCH_FAILURE: &str = "ChartFetchFailure";
    /// `Scheduled=False`: the chart cannot be rendered.
    pub const BROKEN_CHART_SPEC: &str = "BrokenChartSpec";
    /// `Scheduled=False`: the chart has not the Deployments that it must have.
    pub const WRONG_CHART_DEPLOYMENTS: &str = "WrongChartDeployments";
    /// `Scheduled=False`: a block forbids changes.
    pub const ROLLOUT_BLOCK: &str = "RolloutBlock";
    /// `Scheduled=False`: the repository cannot be used.
    pub const CHART_REPO_INTERNAL: &str = "ChartRepoInternal";
    /// `Scheduled=False`: the repository has not answered, and no index of it is at hand.
    pub const NO_CACHED_CHART_REPO_INDEX: &str = "NoCachedChartRepoIndex";
    /// `Scheduled=False`: a request failed.
    pub const FAILED_API_CALL: &str = "FailedAPICall";
    /// `Replaced=False`: its pods keep their traffic until other releases have taken over.
    pub const STILL_SERVING: &str = "StillServing";
    /// `Replaced=False`: its pods are being taken out of service.
    pub const DRAINING: &str = "Draining";
    /// `StrategyExecuted=False`.
    pub const STRATEGY_EXECUTION_FAILED: &str = "StrategyExecutionFailed";

    /// `Ready=False` of a target, and of a strategy's conditions: of some clusters it is not true yet.
    pub const CLUSTERS_NOT_READY: &str = "ClustersNotReady";
    /// Of a target: the chart cannot be fetched or rendered, or breaks a rule. Of a cluster: an object cannot be read.
    pub const CHART_ERROR: &str = "ChartError";
    /// The cluster cannot be worked in, or it refused something: what Shipper writes where its documentation has
    /// [`SERVER_ERROR`] and others.
    pub const INTERNAL_ERROR: &str = "InternalError";
    /// The cluster refused something; documented.
    pub const SERVER_ERROR: &str = "ServerError";
    /// The cluster does not know a kind, or there is no client for it; documented.
    pub const CLIENT_ERROR: &str = "ClientError";
    /// There is no client for the cluster.
    pub const TARGET_CLUSTER_CLIENT_ERROR: &str = "TargetClusterClientError";
    /// Anything else, such as an object that belongs to another application.
    pub const UNKNOWN_ERROR: &str = "UnknownError";
    /// The cluster has no Deployment of the release; documented.
    pub const MISSING_DEPLOYMENT: &str = "MissingDeployment";
    /// The cluster has no Service to divide the traffic with; documented.
    pub const MISSING_SERVICE: &str = "MissingService";
    /// The number of pods is not as wanted; documented, for [`IN_PROGRESS`] and [`DEPLOYMENT_STUCK`].
    pub const WRONG_POD_COUNT: &str = "WrongPodCount";
    /// It takes some time.
    pub const IN_PROGRESS: &str = "InProgress";
    /// The Deployment does not get on.
    pub const DEPLOYMENT_STUCK: &str = "DeploymentStuck";
    /// Pods are not ready.
    pub const PODS_NOT_READY: &str = "PodsNotReady";
    /// Pods are not among the endpoints of the Service yet.
    pub const PODS_NOT_IN_ENDPOINTS: &str = "PodsNotInEndpoints";
}
