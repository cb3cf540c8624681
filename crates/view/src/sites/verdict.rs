//! The progress of a rollout over sites, by what was reported of the deployment: nothing else is read for that.

use std::fmt;

use baton_apis::{
    SiteDeployment,
    conditions::{ABORTED, AVAILABLE, PLACED, PROGRESSING, STALLED, WAITING, reasons},
};
use baton_engine::{condition_list::find, texts::collapse_whitespace};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Serialize;

use super::observed::status;
use crate::rollout::Outcome;

/// The progress of a rollout over sites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Done, underway or failed.
    pub outcome: Outcome,
    /// The state of the rollout.
    pub state: State,
    /// The cause of that state, or of the wait.
    pub reason: Reason,
}

/// The state of a rollout over sites, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum State {
    /// The deployment is being deleted.
    Deleting,
    /// Nothing is reported for the present spec.
    Pending,
    /// It was aborted.
    Aborted,
    /// Its version is not kept, or not yet.
    Waiting,
    /// Its sites could not be chosen.
    NotPlaced,
    /// It is paused.
    Paused,
    /// All sites that can be reached have the version and are available.
    Complete,
    /// All have the version, and some are not available.
    NotAvailable,
    /// The sites of a wave have to stay available for a while.
    Soaking,
    /// No further site gets the version.
    Stopped,
    /// Sites get the version.
    RollingOut,
}

/// In one word, as programs get it.
impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The cause of the state of a rollout over sites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The deployment is being deleted.
    Deleting,
    /// The status is not about the present spec.
    SpecUnobserved,
    /// There is no report on the rollout yet.
    Unobserved,
    /// Sites have the version, as many as can be reached.
    Complete {
        /// The version.
        version: String,
        /// How many sites have it.
        updated: i32,
        /// How many sites there are.
        sites: i32,
        /// How many of them cannot be reached.
        offline: i32,
    },
    /// A condition in the words of the manager, in one line.
    Reported(String),
}

/// Judges a deployment to sites.
///
/// # Guarantees
/// `Done` only for a status that was reported for the present spec, and when all sites that can be reached have the
/// version and are available.
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
        && placed.reason != reasons::OVERLAPPING
    {
        return verdict(Failed, State::NotPlaced, reported(placed));
    }
    let Some(progressing) = find(&status.conditions, PROGRESSING) else {
        return verdict(Underway, State::Pending, Reason::Unobserved);
    };
    if deployment.spec.paused {
        return verdict(Underway, State::Paused, reported(progressing));
    }
    if progressing.reason == reasons::COMPLETE {
        // Unknown when no site can be reached: then nothing was seen of the version.
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
    let state = match progressing.reason.as_str() {
        reasons::SOAKING => State::Soaking,
        _ if progressing.status == "False" => State::Stopped,
        _ => State::RollingOut,
    };
    match is(STALLED, "True") {
        Some(stalled) => verdict(Failed, state, reported(stalled)),
        None => verdict(Underway, state, reported(progressing)),
    }
}

/// The message of a condition, in one line; the reason where it has none.
fn reported(condition: &Condition) -> Reason {
    Reason::Reported(match collapse_whitespace(&condition.message) {
        message if message.is_empty() => condition.reason.clone(),
        message => message,
    })
}
