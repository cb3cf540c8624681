//! The end of a Release that is being deleted, because a newer one has superseded it unfinished, or
//! because a user has deleted it.
//!
//! The pods of the Release keep their traffic until the remaining Releases have the pods and the
//! traffic of their step. Then the pods are taken out of service, and the Release is released for
//! deletion.

use baton_apis::TrafficTarget;

use super::{
    ReleaseWithTargets, TargetPatch, Targets, name, release_in_step::ReleaseInStep, step_at, steps,
    target::Target as _,
};
use crate::{application::history::is_complete, texts::Quoted};

/// The next action for a Release that is being deleted.
#[derive(Clone, Debug, PartialEq)]
pub enum DeletionStep {
    /// The Release is released for deletion.
    Goes,
    /// The pods lose their traffic, by this patch or by one that was already sent.
    Drains(Option<TargetPatch>),
    /// The Release stays unchanged; the reason.
    Stays(String),
}

/// Decides about a Release that is being deleted. `head` and `previous` are the newest Release of
/// the application that is not being deleted, and the one before it.
///
/// # Guarantees
/// - A Release whose pods serve stays until the other Releases that get traffic in the step have
///   their pods and traffic.
/// - If there is no Release before the newest, the deleted Release serves the incumbent's part of
///   the step: it stays until a step without traffic for an incumbent.
/// - A Release that serves nothing is released for deletion at once. So is the only Release of an
///   application if it was never complete: the application creates it again.
pub fn departure(
    own: ReleaseWithTargets,
    head: Option<ReleaseWithTargets>,
    previous: Option<ReleaseWithTargets>,
) -> DeletionStep {
    if !serves(own) {
        return DeletionStep::Goes;
    }
    let missing = match head {
        Some(head) => lacks(head, previous),
        None if is_complete(own.release) => Some("there is another Release".to_owned()),
        None => return DeletionStep::Goes,
    };
    if let Some(missing) = missing {
        return DeletionStep::Stays(format!("pods keep their traffic until {missing}"));
    }
    let Ok(targets) = Targets::of(own) else {
        // The controller has no target by which it could remove the traffic first.
        return DeletionStep::Goes;
    };
    let drained = ReleaseInStep {
        targets,
        percent: 0,
        weight: 0,
    };
    let mut clusters = targets.traffic.spec.clusters.iter();
    let has_weight = clusters.any(|cluster| cluster.weight > 0);
    DeletionStep::Drains(has_weight.then(|| drained.traffic_patch()))
}

/// True if pods of a Release may have traffic.
fn serves(own: ReleaseWithTargets) -> bool {
    match own.traffic {
        Some(traffic) => !is_drained(traffic),
        // The pods still have the labels from before the target was deleted.
        None => own.capacity.is_some_and(|capacity| {
            let mut clusters = capacity.spec.clusters.iter();
            clusters.any(|cluster| cluster.percent > 0)
        }),
    }
}

/// True if no cluster should give traffic to the Release, and none does.
fn is_drained(traffic: &TrafficTarget) -> bool {
    let status = traffic.status.as_ref();
    let mut reported = status.iter().flat_map(|status| &status.clusters);
    traffic.spec.clusters.iter().all(|it| it.weight == 0)
        && (status.is_none() || traffic.is_observed())
        && reported.all(|cluster| cluster.achieved_traffic == 0)
}

/// The part of the step that the remaining Releases have not reached yet.
fn lacks(head: ReleaseWithTargets, previous: Option<ReleaseWithTargets>) -> Option<String> {
    let index = head.release.spec.target_step;
    let leader = Quoted(name(head.release)).to_string();
    let Ok(step) = step_at(steps(head.release), index, head.release) else {
        return Some(format!("Release {leader} has a target step that exists"));
    };
    let traffic = &step.values.traffic;
    if previous.is_none() && (traffic.incumbent > 0 || traffic.contender == 0) {
        return Some(format!(
            "Release {leader} is at a step with all of the traffic"
        ));
    }
    let missing = |party: Option<ReleaseInStep>, of: ReleaseWithTargets, step: &str| {
        let is_there = party.is_some_and(|party| party.is_there());
        let name = Quoted(name(of.release)).to_string();
        (!is_there).then(|| format!("Release {name} has the pods and the traffic of {step}"))
    };
    let incumbent = previous.filter(|_| traffic.incumbent > 0);
    let incumbent = incumbent.and_then(|member| {
        let targets = Targets::of(member).ok();
        let party = targets.map(|targets| ReleaseInStep::incumbent(targets, step.values));
        missing(party, member, &format!("step {index} of {leader}"))
    });
    incumbent.or_else(|| {
        let targets = Targets::of(head).ok();
        let party = targets.map(|targets| ReleaseInStep::contender(targets, step.values));
        missing(party, head, &format!("its step {index}")).filter(|_| traffic.contender > 0)
    })
}
