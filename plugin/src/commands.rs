//! The commands: one file each, with its arguments, what it does, and a pure function that renders what it shows.

pub(crate) mod abort;
pub(crate) mod adopt;
pub(crate) mod complete;
pub(crate) mod completion;
pub(crate) mod diff;
pub(crate) mod drift;
pub(crate) mod events;
pub(crate) mod history;
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
pub(crate) mod wait;

use std::time::Duration;

use baton_view::rollout::Outcome;

use crate::{
    error::Error,
    output::{Output, report},
    text::rollout::failure,
};

/// How a command ends when it could do its work. Errors are exit code 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Fine,
    /// Code 1, a negative answer: there are differences, it is not rolled out, the time was up.
    Negative,
    /// Code 3, for `diff` and `adopt`: the server or the manager would refuse something.
    Refused,
}

impl Exit {
    fn of(is_fine: bool) -> Self {
        if is_fine { Self::Fine } else { Self::Negative }
    }
}

/// Says how a wait for a rollout has ended, after this time.
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
