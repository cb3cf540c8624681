//! Condition types, reasons and fixed messages. Clients compare them, so they never change.

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
/// A deployment rolls a new revision out.
pub const PROGRESSING: &str = "Progressing";

/// Reasons of the conditions.
pub mod reasons {
    /// `Available=True`.
    pub const AVAILABLE: &str = "Available";
    /// `Available=False`: the first failing phase and why.
    pub const PROBE_FAILURE: &str = "ProbeFailure";
    /// `Available=False`: something about the spec or an object was refused before any write.
    pub const PREFLIGHT_ERROR: &str = "PreflightError";
    /// `Available=False`: an object belongs to somebody else.
    pub const COLLISION_DETECTED: &str = "CollisionDetected";
    /// `Available=False`: the API server refused a write that its dry run had accepted.
    pub const WRITE_ERROR: &str = "WriteError";
    /// `Available=False`: the revision never rolled out and its objects belong to a newer one.
    pub const NOT_IN_CONTROL: &str = "NotInControl";
    /// `Available=False`: the content of an immutable revision was changed.
    pub const SPEC_CHANGED: &str = "SpecChanged";
    /// The reasons of the condition `Available`.
    pub const OF_AVAILABLE: [&str; 7] = [
        AVAILABLE,
        PROBE_FAILURE,
        PREFLIGHT_ERROR,
        COLLISION_DETECTED,
        WRITE_ERROR,
        NOT_IN_CONTROL,
        SPEC_CHANGED,
    ];
    /// `InTransition=True`.
    pub const IN_TRANSITION: &str = "InTransition";
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
}

/// Fixed messages of the conditions.
pub mod messages {
    /// `Available=True`.
    pub const AVAILABLE: &str = "Object is available and passes all probes.";
    /// `InTransition=True`.
    pub const IN_TRANSITION: &str =
        "ObjectSet is still rolling out or is being replaced by a newer version.";
    /// `Succeeded=True`.
    pub const ROLLOUT_SUCCESS: &str =
        "ObjectSet rolled out all objects successfully and was Available at least once.";
    /// `Paused=True`.
    pub const PAUSED: &str = "Lifecycle state set to paused.";
    /// `Paused=Unknown`.
    pub const PARTIALLY_PAUSED: &str = "Waiting for ObjectSetPhases.";
    /// `Archived=False`.
    pub const ARCHIVAL_IN_PROGRESS: &str = "Object teardown in progress.";
}

/// Longest condition message the schema admits, in bytes. The server counts characters; bytes are never fewer.
pub const MAX_MESSAGE_LENGTH: usize = 32_768;
