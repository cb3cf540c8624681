//! The state of a phase of a site, read from its conditions.

use baton_apis::{
    ObjectSetPhaseStatus,
    conditions::{AVAILABLE, STARTED, STOPPED, reasons},
};
use baton_engine::condition_list::{find, find_current, find_true};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// The progress of a phase of a site until it begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PhaseStart {
    /// The phase has not begun.
    #[default]
    Not,
    /// The phase was skipped, for good.
    Skipped,
    /// The phase has begun at this time, and waits until the workloads of older revisions have
    /// stopped. It has written nothing.
    Stopping(Timestamp),
    /// The phase has begun. The time is that of its revision.
    Yes(Timestamp),
}

impl PhaseStart {
    /// Time at which the phase began, if it has begun.
    pub fn since(self) -> Option<Timestamp> {
        match self {
            Self::Stopping(since) | Self::Yes(since) => Some(since),
            Self::Not | Self::Skipped => None,
        }
    }

    /// True if the state of a phase can have followed on `before`; no phase goes back.
    pub fn is_after(self, before: Self) -> bool {
        match before {
            Self::Not => self != Self::Not,
            Self::Stopping(_) => matches!(self, Self::Yes(_)),
            Self::Skipped | Self::Yes(_) => false,
        }
    }
}

/// The state of a phase. The default is that of a phase that is unknown or does not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PhaseState {
    /// Reports if the phase has begun.
    pub begun: PhaseStart,
    /// True if the phase is available in its present form.
    pub is_available: bool,
    /// True if the site refuses the phase in its present form, and will do so until a user changes
    /// something.
    pub is_refused: bool,
    /// UID of the newer revision for which the workloads of the phase have stopped.
    pub stopped_for: Option<String>,
}

impl PhaseState {
    /// Reads the status of a phase of this generation.
    #[must_use]
    pub fn of(status: &ObjectSetPhaseStatus, generation: i64) -> Self {
        let conditions = &status.conditions;
        let started = find(conditions, STARTED);
        let begun = started.map_or(PhaseStart::Not, |started| {
            let since = started.last_transition_time.0;
            match (&*started.status, &*started.reason) {
                ("True", reasons::STOPPING) => PhaseStart::Stopping(since),
                ("True", _) => PhaseStart::Yes(since),
                (_, reasons::SKIPPED) => PhaseStart::Skipped,
                _ => PhaseStart::Not,
            }
        });
        // A phase that has not begun may be refused for a reason that is not its own, such as a
        // closed cluster.
        let is_checked = begun != PhaseStart::Not
            || started.is_some_and(|started| started.reason == reasons::PREFLIGHT_ERROR);
        let available = find_current(conditions, AVAILABLE, generation);
        let is_refusal = |it: &Condition| {
            it.status == "False" && reasons::REFUSALS.contains(&it.reason.as_str())
        };
        Self {
            begun,
            is_available: available.is_some_and(|it| it.status == "True"),
            is_refused: is_checked && available.is_some_and(is_refusal),
            stopped_for: find_true(conditions, STOPPED).and_then(|_| status.stopped_for.clone()),
        }
    }
}
