//! Condition types, reasons and fixed messages. Clients compare them, so they never change.

mod event_reason;
mod reason;
pub mod shipper;

pub use event_reason::EventReason;
pub use reason::Reason;

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

/// A Cluster can be reached and accepts the credentials.
pub const CONNECTED: &str = "Connected";

/// Another agent has the name of the Cluster, and is refused; absent otherwise.
pub const SECOND_AGENT: &str = "SecondAgent";
/// Condition of a Cluster: false if another cluster has the UID of its API server. An addition to
/// Package Operator.
pub const UNIQUE: &str = "Unique";
/// The agent of a Cluster stores its state on its disk. Only for clusters with an agent.
pub const STATE_STORED: &str = "StateStored";
/// The identity of an agent, as the message of a condition of its heartbeat.
pub const AGENT: &str = "Agent";
/// The version of an agent, as the message of a condition of its heartbeat.
pub const VERSION: &str = "Version";
/// The report of an agent about the rollout of an Application in its cluster, as the message of a
/// condition.
pub const ROLLOUT_REPORT: &str = "baton.run/RolloutReport";

/// The sites of a deployment were chosen.
pub const PLACED: &str = "Placed";
/// No further site gets the version of a deployment.
pub const ABORTED: &str = "Aborted";
/// The application or the version that a deployment names does not exist. The reason for a version
/// that waits in a site is [`Reason::Queued`].
pub const WAITING: &str = "Waiting";
/// A version of an application is kept, and can be brought to sites.
pub const KEPT: &str = "Kept";
/// A phase of a site has begun; from then on nothing holds it back. The type has a prefix, so it is
/// copied to the revision.
pub const STARTED: &str = "baton.run/Started";
/// The workloads of a phase of a site that had to stop for a newer revision have no pods left.
pub const STOPPED: &str = "baton.run/Stopped";

/// Another manager changes or deletes objects as often as they are repaired, and repairs are
/// delayed; absent otherwise. The type has a prefix, so it is copied to revision and deployment.
pub const DISPUTED: &str = "baton.run/Disputed";

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
