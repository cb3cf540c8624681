//! A chain of revisions made from a template: when to make the next one, which ones to pause, to
//! archive and to delete.
//!
//! A pass asks for [`Action`]s until there are none, and then for the status. Both are derived
//! from the same [`Snapshot`], which the caller brings up to date after each action.
//!
//! What clients can observe of it: `docs/contract/deployments.md`.

pub mod archival;
mod next;
#[cfg(test)]
mod properties;
pub mod slices;
pub mod status;
pub mod template;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use baton_apis::{
    ControlledObjectReference, LifecycleState, ObjectDeploymentStatus, ObjectSetStatus,
    conditions::{AVAILABLE, PAUSED, SUCCEEDED},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::{
    condition_list::{find_current, is_true},
    preflight,
};

/// What is wanted of a deployment.
#[derive(Clone, Debug, Default)]
pub struct Deployment {
    /// Name; names of revisions start with it.
    pub name: String,
    /// Namespace; empty for the cluster scope.
    pub namespace: String,
    /// API kind of its revisions.
    pub revision_kind: &'static str,
    /// `metadata.generation`, the `observedGeneration` of its conditions.
    pub generation: i64,
    /// Whether nothing may be written or deleted.
    pub paused: bool,
    /// How many archived revisions stay.
    pub history_limit: usize,
    /// Seconds that a new revision may take to become available.
    pub progress_deadline_seconds: Option<i32>,
    /// Why its content was changed, as its author wrote it.
    pub change_cause: Option<String>,
    /// How much a revision checks before its first write, as its author wrote it.
    pub preflight: Option<String>,
    /// Whether the template has any phase: a deployment may be made empty first.
    pub has_phases: bool,
    /// The status as it was reported last.
    pub status: ObjectDeploymentStatus,
}

/// One revision of a deployment.
#[derive(Clone, Debug, Default)]
pub struct Member {
    /// Name.
    pub name: String,
    /// Number, if it has one yet.
    pub number: Option<i64>,
    /// `metadata.generation`.
    pub generation: i64,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// Wanted life cycle state.
    pub lifecycle: LifecycleState,
    /// Whether the deployment, and not a person, paused it.
    pub paused_by_parent: bool,
    /// Whether its condition `Archived` is true: final.
    pub is_archived: bool,
    /// Whether it is on its way out.
    pub is_deleting: bool,
    /// Hash of its template, as whoever made it computed it.
    pub hash: Option<String>,
    /// Digest of its template's metadata, if it is known.
    pub digest: Option<String>,
    /// Why it was made.
    pub change_cause: Option<String>,
    /// How much it checks before its first write.
    pub preflight: Option<String>,
    /// What its controller reported.
    pub status: ObjectSetStatus,
}

/// Identities of objects.
pub type Objects = BTreeSet<ControlledObjectReference>;

/// A deployment and everything that decisions about it depend on.
pub struct Snapshot<'a> {
    /// The deployment.
    pub deployment: Deployment,
    /// Its revisions, oldest first: see [`sort`].
    pub members: Vec<Member>,
    /// Whether the newest revision has the content that the template asks for.
    pub newest_fits: bool,
    /// What the manifests of live revisions name, slices included, as far as it is known. Needed
    /// for those that [`archival::wanted_contents`] names.
    pub contents: BTreeMap<String, Objects>,
    /// Whether a revision of any owner has a name.
    pub is_taken: Box<dyn Fn(&str) -> bool + Send + Sync + 'a>,
    /// The template's hash, by the number of collisions.
    pub hash: Box<dyn Fn(i32) -> String + Send + Sync + 'a>,
    /// The present time.
    pub now: Timestamp,
}

/// A revision to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRevision {
    /// Name: the deployment's name, a hyphen and the hash.
    pub name: String,
    /// The template's hash.
    pub hash: String,
    /// How often a name was taken, this time included; `None` if never.
    pub collision_count: Option<i32>,
    /// Its number.
    pub number: i64,
    /// The revisions it takes objects over from, oldest first.
    pub previous: Vec<String>,
}

/// Something to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Makes the next revision.
    Create(NewRevision),
    /// Pauses a revision, because the deployment is paused (and it is to be resumed with it), or
    /// because it is about to be archived.
    Pause {
        /// Name of the revision.
        name: String,
        /// Whether it is marked as paused by the deployment.
        by_parent: bool,
    },
    /// Ends a pause that came from the deployment.
    Resume(String),
    /// Archives a revision.
    Archive(String),
    /// Brings annotations of the current revision in step with the deployment.
    Annotate(String),
    /// Deletes an archived revision.
    Delete(String),
}

/// Puts revisions into the order of their numbers, oldest first.
pub fn sort(members: &mut [Member]) {
    members.sort_by(|a, b| {
        let key = |m: &Member| (m.number.unwrap_or(0), m.created);
        key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name))
    });
}

impl Member {
    /// A condition, if it was observed at the present generation.
    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        find_current(&self.status.conditions, type_, self.generation)
    }

    fn is(&self, type_: &str) -> bool {
        self.condition(type_)
            .is_some_and(|condition| condition.status == "True")
    }

    /// Whether it is available now.
    pub fn is_available(&self) -> bool {
        self.is_live() && self.is(AVAILABLE)
    }

    /// Whether it was ever available while it controlled all of its objects.
    pub fn has_succeeded(&self) -> bool {
        is_true(&self.status.conditions, SUCCEEDED)
    }

    /// Whether its controller has seen that it is paused.
    pub fn is_known_paused(&self) -> bool {
        self.lifecycle == LifecycleState::Paused && self.is(PAUSED)
    }

    /// Whether it takes part in the chain and will go on to.
    pub fn is_live(&self) -> bool {
        !self.is_archived && !self.is_deleting && self.lifecycle != LifecycleState::Archived
    }

    /// The objects it controls, if that was observed since its last change. An empty list
    /// is not the same as no report. The content hash shows that the report covers all phases, not
    /// only those up to the first that failed.
    pub fn observed_objects(&self) -> Option<&[ControlledObjectReference]> {
        let reported = self.condition(AVAILABLE).is_some() && self.status.content_hash.is_some();
        reported.then_some(self.status.controller_of.as_slice())
    }
}

impl Snapshot<'_> {
    /// The revision with the highest number.
    pub fn newest(&self) -> Option<&Member> {
        self.members.last()
    }

    /// The revision that the template asks for, if it was made already.
    pub fn current(&self) -> Option<&Member> {
        self.newest()
            .filter(|newest| self.newest_fits && !newest.is_deleting)
    }

    /// A revision whose number is not known yet, but will be: nothing can be decided before.
    pub fn unnumbered(&self) -> Option<&Member> {
        self.members
            .iter()
            .find(|member| member.number.is_none() && member.is_live())
    }

    /// What to write now; empty when there is nothing left to do.
    ///
    /// # Guarantees
    /// - While the deployment is paused nothing but pauses is asked for.
    /// - A revision is archived only after its controller has seen that it is paused, and deleted
    ///   only when it is archived.
    /// - A new revision is made at most once per answer, and only if no other action is pending. It has a higher number
    ///   than any other, or is not made. If the same was made again and again, it waits ever longer.
    pub fn actions(&self) -> Vec<Action> {
        if self.unnumbered().is_some() {
            return Vec::new();
        }
        let mut actions = self.lifecycle();
        if self.deployment.paused || !actions.is_empty() {
            return actions;
        }
        let current = self.current();
        actions.extend(current.and_then(|current| self.annotation(current)));
        actions.extend(archival::steps(&archival::superseded(self)));
        let surplus = archival::surplus(self).into_iter();
        actions.extend(surplus.map(|member| Action::Delete(member.name.clone())));
        if actions.is_empty() && self.wants_next() {
            actions.extend(self.next().ok().map(Action::Create));
        }
        actions
    }

    /// Pauses or resumes the revisions as the deployment is.
    fn lifecycle(&self) -> Vec<Action> {
        let live = self.members.iter().filter(|member| member.is_live());
        live.filter_map(|member| {
            let name = member.name.clone();
            let paused = member.lifecycle == LifecycleState::Paused && member.paused_by_parent;
            match (self.deployment.paused, paused) {
                (true, false) => Some(Action::Pause {
                    name,
                    by_parent: true,
                }),
                (false, true) => Some(Action::Resume(name)),
                (true, true) | (false, false) => None,
            }
        })
        .collect()
    }

    fn annotation(&self, current: &Member) -> Option<Action> {
        let own = &self.deployment;
        let preflight = current.preflight.as_deref();
        let agrees = |wanted: Option<&str>, current| wanted.is_none() || wanted == current;
        let in_step = current.digest.is_some()
            && agrees(own.change_cause.as_deref(), current.change_cause.as_deref())
            && agrees(
                preflight::wanted(own.preflight.as_deref(), preflight),
                preflight,
            );
        (!in_step && !current.is_archived).then(|| Action::Annotate(current.name.clone()))
    }
}
