//! How far a phase of a site is, as its conditions say.

use baton_apis::conditions::{AVAILABLE, STARTED, STOPPED, reasons};
use baton_engine::condition_list::{find, find_current, find_true};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// Whether a phase has begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Begun {
    /// Not yet.
    #[default]
    Not,
    /// It was left out, for good.
    Skipped,
    /// It has since then, and waits until the workloads of older revisions have stopped. It has written nothing.
    Stopping(Timestamp),
    /// It has, the revision since then.
    Yes(Timestamp),
}

impl Begun {
    /// Since when, if it has begun.
    pub fn since(self) -> Option<Timestamp> {
        match self {
            Self::Stopping(since) | Self::Yes(since) => Some(since),
            Self::Not | Self::Skipped => None,
        }
    }

    /// Whether the same phase can only have come to this after `before`: none goes back.
    pub fn is_after(self, before: Self) -> bool {
        match before {
            Self::Not => self != Self::Not,
            Self::Stopping(_) => matches!(self, Self::Yes(_)),
            Self::Skipped | Self::Yes(_) => false,
        }
    }
}

/// How far a phase is. The default is that of one that nothing is known of, or that is not there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PhaseState {
    /// Whether it has begun.
    pub begun: Begun,
    /// Whether it is available in the form that it has now.
    pub is_available: bool,
    /// Whether its site refuses it in that form, and will until somebody changes something.
    pub is_refused: bool,
    /// What it says if its workloads have stopped.
    pub stopped: Option<String>,
}

impl PhaseState {
    /// Reads the conditions of a phase of a generation.
    #[must_use]
    pub fn of(conditions: &[Condition], generation: i64) -> Self {
        let started = find(conditions, STARTED);
        let begun = started.map_or(Begun::Not, |started| {
            let since = started.last_transition_time.0;
            match (&*started.status, &*started.reason) {
                ("True", reasons::STOPPING) => Begun::Stopping(since),
                ("True", _) => Begun::Yes(since),
                (_, reasons::SKIPPED) => Begun::Skipped,
                _ => Begun::Not,
            }
        });
        // One that has not begun may be refused for reasons that are none of its own, as that its cluster is closed.
        let is_checked = begun != Begun::Not
            || started.is_some_and(|started| started.reason == reasons::PREFLIGHT_ERROR);
        let available = find_current(conditions, AVAILABLE, generation);
        let is_refusal = |it: &Condition| {
            it.status == "False" && reasons::REFUSALS.contains(&it.reason.as_str())
        };
        Self {
            begun,
            is_available: available.is_some_and(|it| it.status == "True"),
            is_refused: is_checked && available.is_some_and(is_refusal),
            stopped: find_true(conditions, STOPPED).map(|it| it.message.clone()),
        }
    }
}
