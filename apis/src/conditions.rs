//! Condition types, reasons and fixed messages. Clients compare them, so they never change.

pub mod shipper;

/// All objects of a revision were written and pass their probes.
pub const AVAILABLE: &str = "Available";
/// The revision does not (or no longer) control every object of its spec.
pub const IN_TRANSITION: &str = "InTransition";
/// The revision was available once while it controlled all of its objects. Never removed.
pub const SUCCEEDED: &str = "Succeeded";
/// No object is written or deleted.
pub const PAUSED: &str = "Paused";
/// The revision's objects are, or are being, torn down.
pub const ARCHIVED: &str = "Archived";
/// A deployment rolls out a new revision.
pub const PROGRESSING: &str = "Progressing";

/// The requested state is reached; the condition that general tools wait for (kstatus).
pub const READY: &str = "Ready";
/// The requested state is not reached, and work continues; absent otherwise (kstatus).
pub const RECONCILING: &str = "Reconciling";
/// The requested state is not reached, and is not reached without a change by a user; absent
/// otherwise (kstatus).
pub const STALLED: &str = "Stalled";

/// The three conditions for general tools; they repeat the other conditions.
pub const GENERAL: [&str; 3] = [READY, RECONCILING, STALLED];

/// The state of a condition `Available` in one word: `Available` if the condition is true, else its
/// reason as [`reasons::OF_AVAILABLE`] has it, else `Other`.
pub fn availability(status: &str, reason: &str) -> &'static str {
    if status == "True" {
        return AVAILABLE;
    }
    let known = reasons::of_available(reason);
    known.filter(|known| *known != AVAILABLE).unwrap_or("Other")
}

/// A Cluster can be reached and accepts the credentials.
pub const CONNECTED: &str = "Connected";

/// The sites of a deployment were chosen.
pub const PLACED: &str = "Placed";
/// No further site gets the version of a deployment.
pub const ABORTED: &str = "Aborted";
/// The application or the version that a deployment names does not exist. The reason for a version
/// that waits in a site is [`reasons::QUEUED`].
pub const WAITING: &str = "Waiting";
/// A version of an application is kept, and can be brought to sites.
pub const KEPT: &str = "Kept";
/// A phase of a site has begun; from then on nothing holds it back. The type has a prefix, so it is
/// copied to the revision.
pub const STARTED: &str = "baton.run/Started";
/// The workloads of a phase of a site that had to stop for a newer revision have no pods left.
pub const STOPPED: &str = "baton.run/Stopped";

/// Reasons of conditions.
pub mod reasons {
    /// `Available=True`.
    pub const AVAILABLE: &str = "Available";
    /// `Available=False`: a probe fails. The message names the first failing phase and the failure.
    pub const PROBE_FAILURE: &str = "ProbeFailure";
    /// The object of a delegated phase has no status yet. Only in `status.waitingFor`.
    pub const NOT_REPORTED: &str = "NotReported";
    /// `Available=False`: a part of the spec or an object was refused before any write.
    pub const PREFLIGHT_ERROR: &str = "PreflightError";
    /// `Available=False`: an object belongs to another owner.
    pub const COLLISION_DETECTED: &str = "CollisionDetected";
    /// `Available=False`: the API server refused a write that its dry run had accepted.
    pub const WRITE_ERROR: &str = "WriteError";
    /// `Available=False`: the revision never rolled out, and its objects belong to a newer
    /// revision.
    pub const NOT_IN_CONTROL: &str = "NotInControl";
    /// `Available=False`: the content of an immutable revision was changed.
    pub const SPEC_CHANGED: &str = "SpecChanged";
    /// `Available=Unknown`: the cluster that the objects live in cannot be reached.
    pub const CLUSTER_UNREACHABLE: &str = "ClusterUnreachable";
    /// A condition is unknown because objects that its decision depends on cannot be listed.
    ///
    /// The message names the kind and the cause. The conditions with this reason are `Available`,
    /// `Progressing` and `Kept`, and of Shipper's kinds `RollingOut` and `Scheduled`.
    pub const LIST_FAILED: &str = "ListFailed";
    /// `Available=False`: the revision waits in the queue of its site.
    pub const QUEUED: &str = "Queued";
    /// `Available=False`: the revision was skipped in the queue of its site, and is never applied.
    pub const SKIPPED: &str = "Skipped";
    /// `Available=False`: workloads of the revision before are being stopped.
    pub const STOPPING: &str = "Stopping";
    /// The reasons of the condition `Available`. `docs/contribute/architecture.md`, "How to add a
    /// reason", names the lists that depend on this one.
    pub const OF_AVAILABLE: [&str; 12] = [
        AVAILABLE,
        PROBE_FAILURE,
        PREFLIGHT_ERROR,
        COLLISION_DETECTED,
        WRITE_ERROR,
        NOT_IN_CONTROL,
        SPEC_CHANGED,
        CLUSTER_UNREACHABLE,
        LIST_FAILED,
        QUEUED,
        SKIPPED,
        STOPPING,
    ];
    /// The constant of a reason, if the reason is in [`OF_AVAILABLE`].
    pub fn of_available(reason: &str) -> Option<&'static str> {
        OF_AVAILABLE.into_iter().find(|known| *known == reason)
    }

    /// Reasons of `Available=False` that stay until a user changes something. `WriteError` is not
    /// included, because the server may only be overloaded.
    pub const REFUSALS: [&str; 3] = [PREFLIGHT_ERROR, COLLISION_DETECTED, SPEC_CHANGED];
    /// `InTransition=True`.
    pub const IN_TRANSITION: &str = "InTransition";
    /// `Reconciling=True`: available, but not yet for long enough.
    pub const SUCCESS_DELAY: &str = "SuccessDelay";
    /// `Succeeded=True`.
    pub const ROLLOUT_SUCCESS: &str = "RolloutSuccess";
    /// `Paused=True`.
    pub const PAUSED: &str = "Paused";
    /// `Paused=Unknown`: spec and delegated phases disagree.
    pub const PARTIALLY_PAUSED: &str = "PartiallyPaused";
    /// `Archived=False`.
    pub const ARCHIVAL_IN_PROGRESS: &str = "ArchivalInProgress";
    /// `Archived=True`.
    pub const ARCHIVED: &str = "Archived";
    /// `Available=False` of a deployment: none of its revisions is available.
    pub const OBJECT_SET_UNREADY: &str = "ObjectSetUnready";
    /// `Progressing=True`: a new revision is about to be created.
    pub const PROGRESSING: &str = "Progressing";
    /// `Progressing=True`: the current revision has not succeeded yet.
    pub const LATEST_REVISION_PENDING_SUCCESS: &str = "LatestRevisionPendingSuccess";
    /// `Progressing=False`: there is nothing to do.
    pub const IDLE: &str = "Idle";
    /// `Progressing=False`: the current revision is late. The rollout goes on.
    pub const PROGRESS_DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
    /// `Progressing=False`: the API server refuses the next revision.
    pub const OBJECT_SET_CREATE_ERROR: &str = "ObjectSetCreateError";
    /// `Progressing=False` or `Kept=False`: the highest number is in use, so no higher one can be
    /// assigned and nothing is created.
    pub const NUMBERS_EXHAUSTED: &str = "NumbersExhausted";
    /// `Progressing=False`: revisions were created from the template repeatedly, and the next one
    /// waits.
    pub const REVISION_REPEATED: &str = "RevisionRepeated";
    /// `Progressing=Unknown`: the deadline is suspended while the deployment is paused.
    pub const DEPLOYMENT_PAUSED: &str = "DeploymentPaused";
    /// `Started=True` of a phase of a site.
    pub const STARTED: &str = "Started";
    /// `Stopped=True`.
    pub const STOPPED: &str = "Stopped";
    /// `Progressing=True`: a version is being brought to sites.
    pub const ROLLING_OUT: &str = "RollingOut";
    /// `Progressing=True`: the API server refuses a revision; the request is retried.
    pub const REVISION_REFUSED: &str = "RevisionRefused";
    /// `Progressing=True`: the sites of a wave have to stay available for the healthy time.
    pub const SOAKING: &str = "Soaking";
    /// `Progressing=False`: all reachable sites have the version.
    pub const COMPLETE: &str = "Complete";
    /// `Progressing=False`: the rollout was aborted.
    pub const ABORTED: &str = "Aborted";
    /// `Progressing=Unknown`: sites get no version while the deployment is paused.
    pub const SITES_PAUSED: &str = "Paused";
    /// `Aborted=True`: a site failed.
    pub const SITE_FAILED: &str = "SiteFailed";
    /// `Aborted=True`: the spec asks for it.
    pub const ABORTED_BY_USER: &str = "AbortedByUser";
    /// `Aborted=True`: a site failed, and the sites that had the version get the one before it.
    pub const ROLLED_BACK: &str = "RolledBack";
    /// `Waiting=True`, `Progressing=False`: the version does not exist.
    pub const VERSION_NOT_FOUND: &str = "VersionNotFound";
    /// `Waiting=True`, `Progressing=False`: the application does not exist.
    pub const APPLICATION_NOT_FOUND: &str = "ApplicationNotFound";
    /// `Placed=True`.
    pub const PLACED: &str = "Placed";
    /// `Placed=False`: the expression cannot be parsed.
    pub const INVALID_EXPRESSION: &str = "InvalidExpression";
    /// `Placed=False`: no site matches.
    pub const NO_SITES: &str = "NoSites";
    /// `Placed=False`: another deployment of the application has some of the sites.
    pub const OVERLAPPING: &str = "Overlapping";
    /// `Available=False` of a deployment to sites: some reachable sites are not available.
    pub const SITES_UNAVAILABLE: &str = "SitesUnavailable";
    /// `Progressing=False`: the strategy cannot be followed.
    pub const INVALID_STRATEGY: &str = "InvalidStrategy";
    /// `Kept=True`.
    pub const KEPT: &str = "Kept";
    /// `Kept=False`: the template cannot be brought to sites.
    pub const INVALID_TEMPLATE: &str = "InvalidTemplate";
    /// `Kept=False`: an upgrade window is invalid, or never opens.
    pub const INVALID_WINDOW: &str = "InvalidWindow";
    /// `Connected=True`.
    pub const CONNECTED: &str = "Connected";
    /// `Connected=Unknown`: the cluster has not answered yet.
    pub const CONNECTING: &str = "Connecting";
    /// `Connected=False`: there is no Secret with credentials, or it cannot be read.
    pub const NO_SECRET: &str = "NoSecret";
    /// `Connected=False`: the Secret has no usable credentials.
    pub const INVALID_SECRET: &str = "InvalidSecret";
    /// `Connected=False`: the cluster refuses the credentials.
    pub const UNAUTHORIZED: &str = "Unauthorized";
    /// `Connected=False`: the cluster does not recognise the credentials, and treats requests as
    /// anonymous.
    pub const FORBIDDEN: &str = "Forbidden";
    /// `Connected=False`: there is no answer, or the answer is not from an API server.
    pub const UNREACHABLE: &str = "Unreachable";
    /// `Connected=False`: the agent has not reported for three of its periods.
    pub const AGENT_SILENT: &str = "AgentSilent";
    /// `Connected=False`: the spec of the Cluster has no usable address.
    pub const INVALID_SPEC: &str = "InvalidSpec";
}

/// Fixed messages of conditions.
pub mod messages {
    /// `Available=True`.
    pub const AVAILABLE: &str = "Object is available and passes all probes.";
    /// `InTransition=True`.
    pub const IN_TRANSITION: &str =
        "ObjectSet is still rolling out or is being replaced by a newer version.";
    /// `Succeeded=True`.
    pub const ROLLOUT_SUCCESS: &str =
        "ObjectSet rolled out all objects successfully and was Available at least once.";
    /// `Reconciling=True` during the success delay, and until the revision controls all of its
    /// objects.
    pub const SUCCESS_DELAY: &str =
        "Available; succeeds if it stays available for its success delay.";
    /// `Paused=True`.
    pub const PAUSED: &str = "Lifecycle state set to paused.";
    /// `Paused=Unknown`.
    pub const PARTIALLY_PAUSED: &str = "Waiting for ObjectSetPhases.";
    /// `Archived=False`.
    pub const ARCHIVAL_IN_PROGRESS: &str = "Object teardown in progress.";
    /// `Available=True` of a deployment.
    pub const LATEST_AVAILABLE: &str = "Latest Revision is Available.";
    /// `Available=False` of a deployment.
    pub const NONE_AVAILABLE: &str = "No ObjectSet is available.";
    /// `Progressing=True`: a new revision is about to be created.
    pub const PROGRESSING: &str = "Progressing to a new ObjectSet.";
    /// `Progressing=False`.
    pub const UPDATE_CONCLUDED: &str = "Update concluded.";
}

/// Longest condition message that the schema admits, in bytes. The server counts characters; there
/// are never fewer bytes than characters.
pub const MAX_MESSAGE_LENGTH: usize = 32_768;
