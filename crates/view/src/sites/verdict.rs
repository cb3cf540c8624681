//! The progress of a rollout over sites. Only the status of the deployment is read.

use std::fmt;

use baton_apis::{
    SiteDeployment,
    conditions::{self, ABORTED, AVAILABLE, PLACED, PROGRESSING, STALLED, WAITING},
};
use baton_engine::{condition_list::find, texts::collapse_whitespace};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Serialize;

use super::observed::status;
use crate::rollout::Outcome;

/// The progress of a rollout over sites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The outcome of the rollout: done, underway or failed.
    pub outcome: Outcome,
    /// The state of the rollout.
    pub state: State,
    /// The reason of the state.
    pub reason: Reason,
}

/// The state of a rollout over sites, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum State {
    /// The deployment is being deleted.
    Deleting,
    /// Nothing was reported for the present spec.
    Pending,
    /// The rollout was aborted.
    Aborted,
    /// The version is not kept, or not kept yet.
    Waiting,
    /// The sites could not be selected.
    NotPlaced,
    /// The deployment is paused.
    Paused,
    /// All sites that can be reached have the version, and it is available there.
    Complete,
    /// All sites have the version, and it is not available at some of them.
    NotAvailable,
    /// The sites of a wave have to stay available for a while.
    Soaking,
    /// No further site gets the version.
    Stopped,
    /// Sites get the version.
    RollingOut,
}

/// Prints the state in one word, as programs read it.
impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The reason of the state of a rollout over sites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The deployment is being deleted.
    Deleting,
    /// The status was not reported for the present spec.
    SpecUnobserved,
    /// The rollout was not reported yet.
    Unobserved,
    /// All sites that can be reached have the version.
    Complete {
        /// The version.
        version: String,
        /// Number of sites with the version.
        updated: i32,
        /// Number of all sites.
        sites: i32,
        /// Number of sites that cannot be reached.
        offline: i32,
    },
    /// The message of a condition, in one line.
    Reported(String),
}

/// Judges a deployment to sites.
///
/// # Guarantees
/// `Done` only for a status that was reported for the present spec, and when all sites that can be
/// reached have the version and it is available there.
pub fn judge(deployment: &SiteDeployment) -> Verdict {
    use Outcome::{Done, Failed, Underway};
    let verdict = |outcome, state, reason| Verdict {
        outcome,
        state,
        reason,
    };
    if deployment.metadata.deletion_timestamp.is_some() {
        return verdict(Failed, State::Deleting, Reason::Deleting);
    }
    let status = status(deployment);
    if status.observed_generation != deployment.metadata.generation {
        return verdict(Underway, State::Pending, Reason::SpecUnobserved);
    }
    let is = |type_: &str, value: &str| {
        let found = find(&status.conditions, type_);
        found.filter(|condition| condition.status == value)
    };
    if let Some(aborted) = is(ABORTED, "True") {
        return verdict(Failed, State::Aborted, reported(aborted));
    }
    if let Some(waiting) = is(WAITING, "True") {
        return verdict(Underway, State::Waiting, reported(waiting));
    }
    if let Some(placed) = is(PLACED, "False")
        && placed.reason != conditions::Reason::Overlapping
    {
        return verdict(Failed, State::NotPlaced, reported(placed));
    }
    let Some(progressing) = find(&status.conditions, PROGRESSING) else {
        return verdict(Underway, State::Pending, Reason::Unobserved);
    };
    if deployment.spec.paused {
        return verdict(Underway, State::Paused, reported(progressing));
    }
    if progressing.reason == conditions::Reason::Complete {
        // The status is unknown if no site can be reached: the version was not observed anywhere.
        return match is(AVAILABLE, "False").or_else(|| is(AVAILABLE, "Unknown")) {
            None => {
                let complete = Reason::Complete {
                    version: status.version.unwrap_or_default(),
                    updated: status.counts.updated,
                    sites: status.counts.sites,
                    offline: status.counts.offline,
                };
                verdict(Done, State::Complete, complete)
            }
            Some(available) => verdict(Underway, State::NotAvailable, reported(available)),
        };
    }
    let state = if progressing.reason == conditions::Reason::Soaking {
        State::Soaking
    } else if progressing.status == "False" {
        State::Stopped
    } else {
        State::RollingOut
    };
    match is(STALLED, "True") {
        Some(stalled) => verdict(Failed, state, reported(stalled)),
        None => verdict(Underway, state, reported(progressing)),
    }
}

/// The message of a condition, in one line; the reason if the message is empty.
fn reported(condition: &Condition) -> Reason {
    Reason::Reported(match collapse_whitespace(&condition.message) {
        message if message.is_empty() => condition.reason.clone(),
        message => message,
    })
}
