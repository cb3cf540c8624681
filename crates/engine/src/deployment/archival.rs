//! Selection of the revisions that are superseded, and of those beyond the history limit.

use std::collections::BTreeSet;

use baton_apis::LifecycleState;

use super::{Action, DeploymentRevision, Objects, Snapshot};

/// The live revisions whose contents decide if older ones are superseded.
pub fn wanted_contents<'a>(snapshot: &'a Snapshot<'_>) -> Vec<&'a str> {
    if snapshot.deployment.paused || snapshot.current().is_none() {
        return Vec::new();
    }
    let mut names = Vec::new();
    let mut wanted = 0;
    let mut live = snapshot.members.iter().rev().filter(|m| m.is_live());
    while let Some(member) = live.next() {
        if may_be_skipped(member) {
            wanted = names.len();
        }
        if supersedes(member) {
            if live.next().is_some() {
                wanted = names.len();
            }
            break;
        }
        names.push(member.name.as_str());
    }
    names.truncate(wanted);
    names
}

/// The live revisions that are superseded, oldest first.
///
/// - An available revision supersedes all older ones. Its condition must have been observed at the
///   present generation, and it must control all of its objects, or have done so once and still
///   control some. An older revision is not superseded while it controls an object that a revision
///   newer than the available one contains; that one has to take the object over first.
/// - A revision that is not available is skipped if no newer live revision contains any object that
///   it controls, slices included. The last revision that ever succeeded is not skipped while it
///   controls an object: its objects may be all that works.
///
/// # Guarantees
/// The current revision is never superseded. Without a current revision none is.
pub fn superseded<'a>(snapshot: &'a Snapshot<'_>) -> Vec<&'a DeploymentRevision> {
    let Some(current) = snapshot.current() else {
        return Vec::new();
    };
    let mut candidates = Vec::new();
    // `None` after the first newer revision whose contents are unknown.
    let mut newer = Some(Objects::new());
    let mut newer_succeeded = false;
    let mut live = snapshot.members.iter().rev().filter(|m| m.is_live());
    while let Some(member) = live.next() {
        let is_current = member.name == current.name;
        if !is_current && is_skipped(member, newer.as_ref(), newer_succeeded) {
            candidates.push(member);
        }
        if supersedes(member) {
            candidates.extend(live.filter(|older| has_nothing_of(older, newer.as_ref())));
            break;
        }
        newer_succeeded |= member.has_succeeded();
        newer = newer.and_then(|mut newer| {
            newer.extend(snapshot.contents.get(&member.name)?.iter().cloned());
            Some(newer)
        });
    }
    candidates.reverse();
    candidates
}

/// True if a revision is skipped, given the contents of the newer live ones.
fn is_skipped(member: &DeploymentRevision, newer: Option<&Objects>, newer_succeeded: bool) -> bool {
    let Some(objects) = member.observed_objects().filter(|_| may_be_skipped(member)) else {
        return false;
    };
    let is_last_resort = member.has_succeeded() && !newer_succeeded;
    objects.is_empty() || (!is_last_resort && has_nothing_of(member, newer))
}

/// True if it is certain that a revision controls nothing that newer ones contain.
fn has_nothing_of(member: &DeploymentRevision, newer: Option<&Objects>) -> bool {
    newer.is_some_and(|newer| {
        let mut objects = member.status.controller_of.iter();
        objects.all(|object| !newer.contains(object))
    })
}

/// True if a revision supersedes the older ones. A revision that has lost all of its objects to
/// others is available because of their content, which does not show that its own content works.
fn supersedes(member: &DeploymentRevision) -> bool {
    let is_empty_handed = member.status.controller_of.is_empty()
        && member
            .condition(baton_apis::conditions::IN_TRANSITION)
            .is_some();
    member.is_available() && has_controlled_all(member) && !is_empty_handed
}

/// True if a revision is skipped in case newer ones contain nothing that it controls.
fn may_be_skipped(member: &DeploymentRevision) -> bool {
    !member.is_available() && member.observed_objects().is_some()
}

fn has_controlled_all(member: &DeploymentRevision) -> bool {
    member.has_succeeded()
        || member
            .condition(baton_apis::conditions::IN_TRANSITION)
            .is_none()
}

/// The next step of each superseded revision towards archival: first a pause, then, when its
/// controller has observed the pause, archival.
pub fn steps(superseded: &[&DeploymentRevision]) -> Vec<Action> {
    superseded
        .iter()
        .filter_map(|member| {
            let name = member.name.clone();
            match member.lifecycle {
                LifecycleState::Active => Some(Action::Pause {
                    name,
                    by_parent: false,
                }),
                LifecycleState::Paused if member.is_known_paused() => Some(Action::Archive(name)),
                LifecycleState::Paused | LifecycleState::Archived => None,
            }
        })
        .collect()
}

/// The archived revisions beyond the history limit, oldest first. Only archived revisions are
/// counted and deleted.
pub fn surplus<'a>(snapshot: &'a Snapshot<'_>) -> Vec<&'a DeploymentRevision> {
    let current: BTreeSet<_> = snapshot.current().map(|m| &m.name).into_iter().collect();
    let archived: Vec<_> = snapshot
        .members
        .iter()
        .filter(|m| m.is_archived && !m.is_deleting && !current.contains(&m.name))
        .collect();
    let surplus = archived
        .len()
        .saturating_sub(snapshot.deployment.history_limit);
    archived[..surplus].to_vec()
}
