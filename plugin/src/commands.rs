//! The commands: one file each, with its arguments, its requests, and a pure function that renders
//! its output.

pub(crate) mod abort;
pub(crate) mod adopt;
pub(crate) mod backup;
pub(crate) mod chart;
pub(crate) mod clean;
pub(crate) mod clusters;
pub(crate) mod complete;
pub(crate) mod completion;
pub(crate) mod dashboard;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod drift;
pub(crate) mod events;
pub(crate) mod give_back;
pub(crate) mod history;
pub(crate) mod list;
pub(crate) mod orphans;
pub(crate) mod pack;
pub(crate) mod pause;
pub(crate) mod promote;
pub(crate) mod redeploy;
pub(crate) mod restart;
pub(crate) mod resume;
pub(crate) mod rollback;
pub(crate) mod sites;
pub(crate) mod status;
pub(crate) mod tree;
pub(crate) mod uninstall;
pub(crate) mod version;
pub(crate) mod wait;

use std::time::Duration;

use baton_terminal::output::{Print as _, report};
use baton_text::{output::Output, rollout::failure};
use baton_view::rollout::Outcome;

use crate::{error::Error, wait::applied::AppliedEnd};

/// The exit codes of commands that did their work. Errors have exit code 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Fine,
    /// Code 1, a negative answer: there are differences, the rollout is not done, or the time is
    /// up.
    Negative,
    /// Code 3: the server or the manager would refuse something. As an error, [`Error::Foreseen`]
    /// or [`Error::ForeseenObjects`].
    Refused,
    /// Code 4, after a wait for applied content: other content was applied meanwhile. As an error,
    /// [`Error::Overtaken`].
    Superseded,
}

impl Exit {
    fn of(is_fine: bool) -> Self {
        if is_fine { Self::Fine } else { Self::Negative }
    }
}

impl From<AppliedEnd> for Exit {
    fn from(end: AppliedEnd) -> Self {
        match end {
            AppliedEnd::RolledOut => Self::Fine,
            AppliedEnd::NotRolledOut => Self::Negative,
            AppliedEnd::Superseded => Self::Superseded,
        }
    }
}

/// Reports the end of a wait for a rollout, after this time.
fn conclude(
    outcome: Outcome,
    message: &str,
    timeout: Duration,
    output: Output,
) -> Result<Exit, Error> {
    if outcome == Outcome::Done {
        output.print(message)?;
    } else {
        report(&format!("error: {}", failure(outcome, message, timeout)));
    }
    Ok(Exit::of(outcome == Outcome::Done))
}
