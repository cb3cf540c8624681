//! Derives the status of a deployment from its revisions.

use baton_apis::{
    ControlledObjectReference, ObjectDeploymentStatus, ObjectDeploymentStatusPhase,
    conditions::{
        AVAILABLE, IN_TRANSITION, PAUSED, PROGRESSING, Reason, STALLED, messages, shipper::BLOCKED,
    },
    constants::GROUP,
};
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{DeploymentRevision, NewRevision, Snapshot};
use crate::{
    condition_list::Conditions,
    conditions::Requeue,
    readiness,
    stored_time::{end_of, not_in_future},
};

/// The result of the attempt to create the next revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Creation {
    /// No revision is to be created now.
    None,
    /// The server created this revision.
    Done(NewRevision),
    /// The server refused the revision; the text is for people.
    Refused(String),
}

/// The status to write, and the requeue.
///
/// # Guarantees
/// A status that reports the same as before is equal to the previous one and needs no write.
pub fn report(snapshot: &Snapshot<'_>, creation: &Creation) -> (ObjectDeploymentStatus, Requeue) {
    let deployment = &snapshot.deployment;
    let old = &deployment.status;
    let mut conditions = Conditions::new(&old.conditions, deployment.generation, snapshot.now);
    if let Some(waiting) = snapshot.unnumbered() {
        let text = format!(
            "Waiting for the revision number of {} {}.",
            deployment.revision_kind, waiting.name
        );
        conditions.set(PROGRESSING, "True", Reason::Progressing, &text);
        let status = ObjectDeploymentStatus {
            observed_generation: Some(deployment.generation),
            phase: readiness::set_of_deployment(&mut conditions, None, None),
            conditions: conditions.into_list(),
            ..old.clone()
        };
        return (status, Requeue::OnEvent);
    }
    let current = snapshot.current();
    available(&mut conditions, snapshot, current);
    let mut requeue = progress(&mut conditions, snapshot, current, creation);
    paused(&mut conditions, snapshot);
    match deployment.blocks.condition() {
        Some((status, reason, text)) => conditions.set(BLOCKED, status, reason, &text),
        None => conditions.remove(BLOCKED),
    }
    mapped(&mut conditions, current);
    let made = match creation {
        Creation::Done(made) => Some(made),
        Creation::None => None,
        Creation::Refused(_) => {
            requeue = Requeue::After(crate::conditions::MISCONFIGURATION_RETRY);
            None
        }
    };
    let collision_count = made.and_then(|made| made.collision_count);
    let phase = readiness(&mut conditions, current);
    let status = ObjectDeploymentStatus {
        observed_generation: Some(deployment.generation),
        phase,
        conditions: conditions.into_list(),
        revision: made
            .map(|made| made.number)
            .or_else(|| snapshot.newest().and_then(|newest| newest.number)),
        template_hash: Some(template_hash(snapshot, current, made)),
        collision_count: collision_count.max(old.collision_count),
        controller_of: controller_of(snapshot, made),
    };
    (status, requeue)
}

/// Sets the conditions for general tools, and returns the state in one word.
fn readiness(
    conditions: &mut Conditions,
    current: Option<&DeploymentRevision>,
) -> ObjectDeploymentStatusPhase {
    let stalled = current.and_then(|current| current.condition(STALLED));
    // An archived revision reports no `Available`; the deployment's own condition stands in for it.
    let own = conditions.get(AVAILABLE).cloned();
    let available = current.and_then(|current| current.condition(AVAILABLE).or(own.as_ref()));
    readiness::set_of_deployment(conditions, stalled, available)
}

/// True if the status reports only that the current revision has not reported yet. The revision
/// reports soon, and the next status replaces this one.
pub fn is_interim(snapshot: &Snapshot<'_>, status: &ObjectDeploymentStatus) -> bool {
    let old = &snapshot.deployment.status;
    let current = snapshot.current().filter(|current| current.is_live());
    !snapshot.deployment.paused
        && status.collision_count == old.collision_count
        && current.is_some_and(|current| current.status.conditions.is_empty())
}

/// Sets `Available`: true if the current revision or a previous one is available.
fn available(
    conditions: &mut Conditions,
    snapshot: &Snapshot<'_>,
    current: Option<&DeploymentRevision>,
) {
    if current.is_some_and(DeploymentRevision::is_available) {
        let text = messages::LATEST_AVAILABLE;
        return conditions.set(AVAILABLE, "True", Reason::Available, text);
    }
    // The current revision has not reported yet: the previous condition stays.
    let is_unknown = current.is_some_and(|current| current.condition(AVAILABLE).is_none());
    if is_unknown && conditions.get(AVAILABLE).is_some() {
        return;
    }
    let previous = || {
        let others = snapshot.members.iter();
        others.filter(|member| {
            current.is_none_or(|current| current.name != member.name)
                && member.is_available()
                // A revision that controls nothing is available because of objects that newer ones
                // own.
                && !member.status.controller_of.is_empty()
        })
    };
    let whole = previous().find(|member| member.condition(IN_TRANSITION).is_none());
    if let Some(member) = whole.or_else(|| previous().next()) {
        let mut text = format!("Previous Revision '{}' is still Available.", member.name);
        if whole.is_none() {
            text.push_str(" Some of its objects have been taken over already.");
        }
        return conditions.set(AVAILABLE, "True", Reason::Available, &text);
    }
    let reported = current.and_then(|current| current.condition(AVAILABLE));
    let (status, text) = match reported {
        Some(reported) if reported.status == "Unknown" => ("Unknown", &*reported.message),
        _ => ("False", messages::NONE_AVAILABLE),
    };
    conditions.set(AVAILABLE, status, Reason::ObjectSetUnready, text);
}

/// Sets `Progressing`; returns the requeue for the end of the deadline.
fn progress(
    conditions: &mut Conditions,
    snapshot: &Snapshot<'_>,
    current: Option<&DeploymentRevision>,
    creation: &Creation,
) -> Requeue {
    if let Creation::Refused(text) = creation {
        conditions.set(PROGRESSING, "False", Reason::ObjectSetCreateError, text);
        return Requeue::OnEvent;
    }
    if let Some(obstacle) = snapshot.obstacle() {
        let (status, reason) = obstacle.condition();
        conditions.set(PROGRESSING, status, reason, &obstacle.to_string());
        return obstacle.requeue(snapshot.now);
    }
    let (status, reason, text) = match current {
        None if !snapshot.deployment.has_phases => {
            let text = "The template has no phases: there is nothing to roll out.".to_owned();
            ("False", Reason::Idle, text)
        }
        None => (
            "True",
            Reason::Progressing,
            messages::PROGRESSING.to_owned(),
        ),
        Some(current) if current.is_archived => {
            let text = "Latest Revision is archived.".to_owned();
            ("False", Reason::Idle, text)
        }
        Some(current) if current.has_succeeded() => {
            let text = messages::UPDATE_CONCLUDED.to_owned();
            ("False", Reason::Idle, text)
        }
        Some(current) => {
            let text = match current.condition(AVAILABLE) {
                None => "Latest Revision Status Unknown".to_owned(),
                Some(available) if available.status == "True" => {
                    "Latest Revision is Available: pending success delay period".to_owned()
                }
                Some(available) => format!("Latest Revision is Unavailable: {}", available.message),
            };
            ("True", Reason::LatestRevisionPendingSuccess, text)
        }
    };
    // The revision may have reported more than is known.
    if let Some(cause) = snapshot
        .unlisted
        .as_ref()
        .filter(|_| reason != Reason::Idle)
    {
        conditions.set(PROGRESSING, "Unknown", Reason::ListFailed, cause);
        return Requeue::OnEvent;
    }
    let is_complete =
        current.is_some_and(|c| c.is_archived || c.has_succeeded() || c.is_available());
    let deadline = snapshot.deployment.progress_deadline_seconds;
    let deadline = deadline.filter(|_| !is_complete);
    if deadline.is_some() && snapshot.deployment.paused {
        let text = "Deployment is paused.";
        conditions.set(PROGRESSING, "Unknown", Reason::DeploymentPaused, text);
        return Requeue::OnEvent;
    }
    if let (Some(seconds), Some(current)) = (deadline, current) {
        let limit = SignedDuration::from_secs(i64::from(seconds));
        // If the deadline was raised beyond the revision's age, the revision is within it again.
        // The clock of the server may be ahead. The time since which the rollout is reported counts then.
        let created = current.created;
        let created = created.filter(|it| not_in_future(*it, snapshot.now) == *it);
        let is_older = created.is_none_or(|created| end_of(created, limit) <= snapshot.now);
        if is_older && is_reported_late(conditions, snapshot, current) {
            return late(conditions, snapshot, current, seconds);
        }
        conditions.set(PROGRESSING, status, reason, &text);
        // The rollout began when the revision was created, or when a paused rollout was resumed.
        let reported = conditions.get(PROGRESSING);
        let began = created
            .max(reported.map(|reported| reported.last_transition_time.0))
            .unwrap_or(snapshot.now);
        let left = end_of(began, limit).duration_since(snapshot.now);
        if left.is_positive() {
            return Requeue::After(left.unsigned_abs());
        }
        return late(conditions, snapshot, current, seconds);
    }
    conditions.set(PROGRESSING, status, reason, &text);
    Requeue::OnEvent
}

/// True if the status already reports this revision as late.
fn is_reported_late(
    conditions: &Conditions,
    snapshot: &Snapshot<'_>,
    current: &DeploymentRevision,
) -> bool {
    conditions.get(PROGRESSING).is_some_and(|reported| {
        reported.reason == Reason::ProgressDeadlineExceeded
            && reported.message.starts_with(&too_late(snapshot, current))
    })
}

/// The start of the report of a revision that is late.
fn too_late(snapshot: &Snapshot<'_>, current: &DeploymentRevision) -> String {
    let kind = snapshot.deployment.revision_kind;
    format!("{kind} {} was not available within ", current.name)
}

/// Reports that a revision is late. The rollout continues.
fn late(
    conditions: &mut Conditions,
    snapshot: &Snapshot<'_>,
    current: &DeploymentRevision,
    seconds: i32,
) -> Requeue {
    let why = current
        .condition(AVAILABLE)
        .map_or(String::new(), |available| {
            format!(": {}", available.message)
        });
    let text = too_late(snapshot, current);
    let text = format!("{text}{seconds} seconds{why}");
    let reason = Reason::ProgressDeadlineExceeded;
    conditions.set(PROGRESSING, "False", reason, &text);
    Requeue::OnEvent
}

/// Sets `Paused`, independent of the state of the rollout.
fn paused(conditions: &mut Conditions, snapshot: &Snapshot<'_>) {
    let latest: Option<&Condition> = snapshot
        .newest()
        .and_then(|newest| newest.condition(PAUSED))
        .filter(|condition| condition.status == "True");
    match latest {
        Some(latest) => {
            let text = format!("Latest revision is paused: {}", latest.message);
            conditions.set(PAUSED, "True", Reason::Paused, &text);
        }
        None if snapshot.deployment.paused && snapshot.members.is_empty() => {
            let text = "Paused before the first revision.";
            conditions.set(PAUSED, "True", Reason::Paused, text);
        }
        None => conditions.remove(PAUSED),
    }
}

/// Copies mapped conditions, those with a prefix in their type, from the current revision.
fn mapped(conditions: &mut Conditions, current: Option<&DeploymentRevision>) {
    let Some(current) = current else { return };
    let from = current.status.conditions.iter();
    conditions.copy_mapped(from.filter(|condition| condition.type_.contains('/')));
}

fn template_hash(
    snapshot: &Snapshot<'_>,
    current: Option<&DeploymentRevision>,
    made: Option<&NewRevision>,
) -> String {
    if let Some(made) = made {
        return made.hash.clone();
    }
    // A revision's name ends with its hash.
    let prefix = format!("{}-", snapshot.deployment.name);
    let of_current = current.and_then(|current| {
        let of_name = || current.name.strip_prefix(&prefix).map(ToOwned::to_owned);
        current.hash.clone().or_else(of_name)
    });
    let collision_count = snapshot.deployment.status.collision_count.unwrap_or(0);
    of_current.unwrap_or_else(|| (snapshot.hash)(collision_count))
}

/// All existing revisions, oldest first, without those that are being deleted.
fn controller_of(
    snapshot: &Snapshot<'_>,
    made: Option<&NewRevision>,
) -> Vec<ControlledObjectReference> {
    let deployment = &snapshot.deployment;
    let namespace = (!deployment.namespace.is_empty()).then(|| deployment.namespace.clone());
    let reference = |name: &str| ControlledObjectReference {
        kind: deployment.revision_kind.to_owned(),
        group: GROUP.to_owned(),
        name: name.to_owned(),
        version: String::new(),
        namespace: namespace.clone(),
    };
    let existing = snapshot.members.iter().filter(|m| !m.is_deleting);
    let names = existing.map(|member| member.name.as_str());
    // The snapshot may contain the new revision already.
    let made = made
        .map(|made| made.name.as_str())
        .filter(|made| snapshot.members.iter().all(|m| m.name != *made));
    names.chain(made).map(reference).collect()
}
