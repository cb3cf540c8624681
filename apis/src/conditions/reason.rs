//! The reasons of conditions.

use strum::{Display, EnumString, IntoStaticStr, VariantArray};

/// The reason of a condition that Baton writes, as a closed list.
///
/// The text of a reason is the name of its variant, except for the variants with a `serialize`
/// attribute. Conditions of other versions, of Shipper and of children can have other texts: such a
/// text cannot be parsed, and equals no reason.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Display,
    EnumString,
    IntoStaticStr,
    VariantArray,
)]
pub enum Reason {
    /// `Available=True`.
    Available,
    /// `Available=False`: a probe fails. The message names the first failing phase and the failure.
    ProbeFailure,
    /// The object of a delegated phase has no status yet. Only in `status.waitingFor`.
    NotReported,
    /// The condition `Available` has a reason that only another implementation writes. Only in
    /// `status.failing` of deployments to sites, and in metrics.
    Other,
    /// `Available=False`: a part of the spec or an object was refused before any write.
    PreflightError,
    /// `Available=False`: an object belongs to another owner.
    CollisionDetected,
    /// `Available=False`: the API server refused a write that its dry run had accepted.
    ///
    /// `Kept=False`: a version cannot be stored; the request is retried.
    WriteError,
    /// `Available=False`: the revision never rolled out, and its objects belong to a newer
    /// revision.
    NotInControl,
    /// `Available=False`: the content of an immutable revision was changed.
    SpecChanged,
    /// `Available=Unknown`: the cluster that the objects live in cannot be reached.
    ClusterUnreachable,
    /// A condition is unknown because objects that its decision depends on cannot be listed.
    ///
    /// The message names the kind and the cause. The conditions with this reason are `Available`,
    /// `Progressing` and `Kept`, and of Shipper's kinds `RollingOut` and `Scheduled`.
    ListFailed,
    /// `Available=False`: the revision waits in the queue of its site.
    Queued,
    /// `Available=False`: the revision was skipped in the queue of its site, and is never applied.
    Skipped,
    /// `Available=False`: workloads of the revision before are being stopped.
    Stopping,
    /// `InTransition=True`.
    InTransition,
    /// `Reconciling=True`: available, but not yet for long enough.
    SuccessDelay,
    /// `Succeeded=True`.
    RolloutSuccess,
    /// `Paused=True`.
    ///
    /// `Progressing=Unknown`: sites get no version while the deployment is paused.
    Paused,
    /// `Paused=Unknown`: spec and delegated phases disagree.
    PartiallyPaused,
    /// `Archived=False`.
    ArchivalInProgress,
    /// `Archived=True`.
    Archived,
    /// `Available=False` of a deployment: none of its revisions is available.
    ObjectSetUnready,
    /// `Progressing=True`: a new revision is about to be created.
    Progressing,
    /// `Progressing=True`: the current revision has not succeeded yet.
    LatestRevisionPendingSuccess,
    /// `Progressing=False`: there is nothing to do.
    Idle,
    /// `Progressing=False`: the current revision has exceeded its progress deadline. The rollout
    /// continues.
    ProgressDeadlineExceeded,
    /// `Progressing=False`: the API server refuses the next revision.
    ObjectSetCreateError,
    /// `Progressing=False` or `Kept=False`: the highest number is in use, so no higher one can be
    /// assigned and nothing is created.
    NumbersExhausted,
    /// `Progressing=False`: revisions were created from the template repeatedly, and the next one
    /// waits.
    RevisionRepeated,
    /// `Progressing=Unknown`: the deadline is suspended while the deployment is paused.
    DeploymentPaused,
    /// `baton.run/Disputed=True`: another manager changes or deletes objects as often as they are
    /// repaired, and repairs are delayed.
    Disputed,
    /// `Started=True` of a phase of a site.
    Started,
    /// `Stopped=True`.
    Stopped,
    /// `Progressing=True`: a version is being brought to sites.
    RollingOut,
    /// `Progressing=True`: the API server refuses a revision, or the record of a version or of the
    /// chosen sites; the request is retried.
    RevisionRefused,
    /// `Progressing=True`: the sites of a wave have to stay available for the healthy time.
    Soaking,
    /// `Progressing=False`: all reachable sites have the version.
    Complete,
    /// `Progressing=False`: the rollout was aborted.
    Aborted,
    /// `Aborted=True`: a site failed.
    SiteFailed,
    /// `Aborted=True`: the spec requests the abort.
    AbortedByUser,
    /// `Aborted=True`: a site failed, and the sites that had the version get their earlier version
    /// again.
    RolledBack,
    /// `Waiting=True`, `Progressing=False`: the version does not exist.
    VersionNotFound,
    /// `Waiting=True`, `Progressing=False`: the application does not exist.
    ApplicationNotFound,
    /// `Placed=True`.
    Placed,
    /// `Placed=False`: the expression cannot be parsed.
    InvalidExpression,
    /// `Placed=False`: no site matches.
    NoSites,
    /// `Placed=False`: another deployment of the application has some of the sites.
    Overlapping,
    /// `Available=False` of a deployment to sites: some reachable sites are not available.
    SitesUnavailable,
    /// `Progressing=False`: the strategy cannot be followed.
    InvalidStrategy,
    /// `Kept=True`.
    Kept,
    /// `Kept=False`: the template cannot be brought to sites.
    InvalidTemplate,
    /// `Kept=False`: an upgrade window is invalid, or never opens.
    InvalidWindow,
    /// `Connected=True`.
    Connected,
    /// `Connected=Unknown`: the cluster has not answered yet.
    Connecting,
    /// `Connected=False`: there is no Secret with credentials, or it cannot be read.
    NoSecret,
    /// `Connected=False`: the Secret has no usable credentials.
    InvalidSecret,
    /// `Connected=False`: the cluster refuses the credentials.
    Unauthorized,
    /// `Connected=False`: the cluster does not recognise the credentials, and treats requests as
    /// anonymous.
    Forbidden,
    /// `Connected=False`: there is no answer, or the answer is not from an API server.
    Unreachable,
    /// `Connected=False`: the agent has not reported for three of its periods.
    AgentSilent,
    /// `Connected=False`: the spec of the Cluster has no usable address.
    InvalidSpec,
    /// `Unique=False`: deliveries are not changed by it.
    UidInUse,
    /// `Unique=False`: the cluster receives nothing.
    UidRefused,
    /// `SecondAgent=True`.
    AgentRefused,
    /// `StateStored=True`.
    StateWritten,
    /// `StateStored=True`: the stored state was damaged when the agent started.
    StateWasDamaged,
    /// `StateStored=False`: the file of the agent cannot be written or read.
    StateNotWritten,
    /// `StateStored=False`: the file of the agent contains the state of another cluster.
    StateOfOtherCluster,
    /// `StateStored=False`: the file of the agent contains the state of another hub.
    StateOfOtherHub,
    /// `Blocked=True`, and `Progressing=Unknown` of a chain that obeys rollout blocks.
    RolloutsBlocked,
    /// `Blocked=False` of a chain that obeys rollout blocks.
    NotBlocked,
    /// `ReleaseSynced=False`, `RollingOut=False`: the release cannot be created.
    CreateReleaseFailed,
    /// `RollingOut=False`: no version of the chart was found.
    ChartVersionResolutionFailed,
    /// `ValidHistory=False`: a release has no number, or one that cannot be parsed.
    BrokenReleaseGeneration,
    /// `ValidHistory=False`: the highest observed number cannot be parsed.
    BrokenApplicationObservedGeneration,
    /// `Scheduled=False`: the release requests no region.
    NoRegionsSpecified,
    /// `Scheduled=False`: a region has fewer clusters than requested.
    NotEnoughClustersInRegion,
    /// `Scheduled=False`: fewer clusters of a region than requested have the required capabilities.
    NotEnoughCapableClustersInRegion,
    /// `Scheduled=False`: a capability is listed twice.
    DuplicateCapabilityRequirement,
    /// `Scheduled=False`: the chart cannot be fetched.
    ChartFetchFailure,
    /// `Scheduled=False`: the chart cannot be rendered.
    BrokenChartSpec,
    /// `Scheduled=False`: the chart does not have the Deployments that it must have.
    WrongChartDeployments,
    /// `Scheduled=False`: a rollout block forbids changes.
    RolloutBlock,
    /// `Scheduled=False`: the repository cannot be used.
    ChartRepoInternal,
    /// `Scheduled=False`: the repository has not answered, and no index of the repository is
    /// cached.
    NoCachedChartRepoIndex,
    /// `Scheduled=False`: a request failed.
    FailedAPICall,
    /// `Replaced=False`: the pods of the release keep their traffic until other releases have taken
    /// over.
    StillServing,
    /// `Replaced=False`: the pods of the release are being taken out of service.
    Draining,
    /// `StrategyExecuted=False`.
    StrategyExecutionFailed,
    /// `Ready=False` of a target, and of the conditions of a strategy: some clusters have not
    /// reached the state.
    ClustersNotReady,
    /// Targets: the chart cannot be fetched or rendered, or breaks a rule. Clusters: an object
    /// cannot be read.
    ChartError,
    /// The controller cannot work in the cluster, or the cluster refused a request. A reason of
    /// Shipper's implementation: its documentation has [`Reason::ServerError`] and others instead.
    InternalError,
    /// The cluster refused a request. A reason of Shipper's documentation, not of its implementation.
    ServerError,
    /// The cluster does not serve a kind, or there is no client for the kind. A reason of Shipper's
    /// documentation, not of its implementation.
    ClientError,
    /// There is no client for the cluster.
    TargetClusterClientError,
    /// Any other error, such as an object that belongs to another application.
    UnknownError,
    /// The cluster has no Deployment of the release. A reason of Shipper's documentation, not of its
    /// implementation.
    MissingDeployment,
    /// The cluster has no Service that divides the traffic. A reason of Shipper's documentation, not
    /// of its implementation.
    MissingService,
    /// The number of pods is not the wanted one. Shipper's documentation has this reason in place of
    /// [`Reason::InProgress`] and [`Reason::DeploymentStuck`].
    WrongPodCount,
    /// The change is in progress.
    InProgress,
    /// The Deployment makes no progress.
    DeploymentStuck,
    /// Pods are not ready.
    PodsNotReady,
    /// Pods are not among the endpoints of the Service yet.
    PodsNotInEndpoints,
    /// Pods that should get no traffic any more are still among the endpoints of the Service.
    PodsDraining,
    /// `Scheduled=False`: a target with the name of the Release has another owner. Shipper has no
    /// reason for this error.
    #[strum(serialize = "unknown error WrongOwner! tell Shipper devs to classify it")]
    WrongOwner,
    /// `Scheduled=False`: the repository lacks the version of the chart. Shipper has no reason for
    /// this error.
    #[strum(serialize = "unknown error NoSuchVersion! tell Shipper devs to classify it")]
    NoSuchVersion,
    /// `Scheduled=False`: several errors at once. Shipper has no reason for them.
    #[strum(serialize = "unknown error Several! tell Shipper devs to classify it")]
    Several,
}

impl Reason {
    /// All reasons.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// The text in a condition.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The reasons of the condition `Available`. `docs/contribute/architecture.md`, "How to add a
    /// reason", names the lists that depend on this one.
    pub const OF_AVAILABLE: [Self; 12] = [
        Self::Available,
        Self::ProbeFailure,
        Self::PreflightError,
        Self::CollisionDetected,
        Self::WriteError,
        Self::NotInControl,
        Self::SpecChanged,
        Self::ClusterUnreachable,
        Self::ListFailed,
        Self::Queued,
        Self::Skipped,
        Self::Stopping,
    ];

    /// Reasons of `Available=False` that stay until a user changes something. `WriteError` is not
    /// included, because the server may only be overloaded.
    pub const REFUSALS: [Self; 3] = [
        Self::PreflightError,
        Self::CollisionDetected,
        Self::SpecChanged,
    ];

    /// Parses a reason of the condition `Available`; `None` if it is not in
    /// [`OF_AVAILABLE`](Self::OF_AVAILABLE).
    pub fn of_available(text: &str) -> Option<Self> {
        let reason = text.parse().ok()?;
        Self::OF_AVAILABLE.contains(&reason).then_some(reason)
    }

    /// The state of a condition `Available` with this status and reason, in one word: `Available` if
    /// the status is `True`; otherwise the reason if it is in [`OF_AVAILABLE`](Self::OF_AVAILABLE);
    /// otherwise `Other`.
    pub fn of_state(status: &str, text: &str) -> Self {
        if status == "True" {
            return Self::Available;
        }
        let reason = Self::of_available(text);
        reason
            .filter(|reason| *reason != Self::Available)
            .unwrap_or(Self::Other)
    }

    /// True if the text of a condition is one of these reasons.
    pub fn is_in(text: &str, reasons: &[Self]) -> bool {
        reasons.iter().any(|reason| *text == *reason)
    }
}

impl PartialEq<Reason> for str {
    fn eq(&self, reason: &Reason) -> bool {
        self == reason.as_str()
    }
}

impl PartialEq<Reason> for String {
    fn eq(&self, reason: &Reason) -> bool {
        self == reason.as_str()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_parsed_and_others_are_no_reason() {
        for reason in Reason::ALL {
            assert_eq!(reason.as_str().parse(), Ok(*reason));
        }
        for other in ["", "available", "FromAnotherVersion"] {
            assert!(other.parse::<Reason>().is_err(), "{other}");
            assert!(!Reason::is_in(other, Reason::ALL), "{other}");
        }
    }

    #[test]
    fn a_reason_that_contradicts_the_status_is_other() {
        for (status, text, expected) in [
            ("True", "FromAnotherVersion", Reason::Available),
            ("False", "ProbeFailure", Reason::ProbeFailure),
            ("False", "Available", Reason::Other),
            ("False", "Idle", Reason::Other),
            ("Unknown", "FromAnotherVersion", Reason::Other),
        ] {
            assert_eq!(Reason::of_state(status, text), expected, "{status} {text}");
        }
    }
}
