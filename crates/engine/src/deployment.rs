//! A chain of revisions made from a template: when to create, pause, archive and delete revisions.
//!
//! A pass requests [`Action`]s until there are none, and then the status. Both are derived from
//! the same [`Snapshot`], which the caller updates after each action.
//!
//! Observable behaviour: `docs/contract/deployments.md`.

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
    rollout_blocks::Effect,
};

/// The wanted state of a deployment.
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
    /// True if no revision may be created, archived or deleted.
    pub paused: bool,
    /// Number of archived revisions that are kept.
    pub history_limit: usize,
    /// Seconds that a new revision may take to become available.
    pub progress_deadline_seconds: Option<i32>,
    /// Reason for the last change of its content, as its author wrote it.
    pub change_cause: Option<String>,
    /// Extent of the preflight checks of a revision, as its author wrote it.
    pub preflight: Option<String>,
    /// UIDs of the hubs that its author has declared lost.
    pub lost_hubs: Option<String>,
    /// True if the template has any phase; a deployment may be created empty first.
    pub has_phases: bool,
    /// The effect of rollout blocks on it.
    pub blocks: Effect,
    /// The last reported status.
    pub status: ObjectDeploymentStatus,
}

/// One revision of a deployment.
#[derive(Clone, Debug, Default)]
pub struct DeploymentRevision {
    /// Name.
    pub name: String,
    /// Revision number, if one is assigned.
    pub number: Option<i64>,
    /// `metadata.generation`.
    pub generation: i64,
    /// Creation time.
    pub created: Option<Timestamp>,
    /// Wanted lifecycle state.
    pub lifecycle: LifecycleState,
    /// True if the deployment, and not a person, paused the revision.
    pub paused_by_parent: bool,
    /// True if the condition `Archived` is true, which is final.
    pub is_archived: bool,
    /// True if the revision is being deleted.
    pub is_deleting: bool,
    /// Hash of the template that the revision was created from, as its creator computed it.
    pub hash: Option<String>,
    /// Digest of that template's metadata, if known.
    pub digest: Option<String>,
    /// The reason why the revision was created.
    pub change_cause: Option<String>,
    /// Extent of the preflight checks of the revision.
    pub preflight: Option<String>,
    /// UIDs of the hubs that are declared lost for the revision.
    pub lost_hubs: Option<String>,
    /// The status that its controller reported.
    pub status: ObjectSetStatus,
}

/// Identities of objects.
pub type Objects = BTreeSet<ControlledObjectReference>;

/// A deployment and all state that decisions about it depend on.
pub struct Snapshot<'a> {
    /// The deployment.
    pub deployment: Deployment,
    /// The revisions of the deployment, oldest first: see [`sort`].
    pub members: Vec<DeploymentRevision>,
    /// True if the newest revision has the content of the template.
    pub newest_fits: bool,
    /// Identities of the objects in the manifests of live revisions, slices included; revisions
    /// whose content is unknown are missing. Needed for the revisions that
    /// [`archival::wanted_contents`] names.
    pub contents: BTreeMap<String, Objects>,
    /// True if a revision with the name exists, whoever owns it.
    pub is_taken: Box<dyn Fn(&str) -> bool + Send + Sync + 'a>,
    /// The template's hash by the number of collisions.
    pub hash: Box<dyn Fn(i32) -> String + Send + Sync + 'a>,
    /// The reason that the revisions cannot be listed; `None` if they can.
    pub unlisted: Option<String>,
    /// The present time.
    pub now: Timestamp,
}

/// A revision to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRevision {
    /// Name: the deployment's name, a hyphen and the hash.
    pub name: String,
    /// The template's hash.
    pub hash: String,
    /// Number of collisions of names, including this one; `None` if there were none.
    pub collision_count: Option<i32>,
    /// Revision number.
    pub number: i64,
    /// The revisions whose objects it takes over, oldest first.
    pub previous: Vec<String>,
}

/// A write that a deployment needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Creates the next revision.
    Create(NewRevision),
    /// Pauses a revision, either because the deployment is paused (it resumes with the deployment),
    /// or because the revision is to be archived.
    Pause {
        /// Name of the revision.
        name: String,
        /// True if the pause is marked as that of the deployment.
        by_parent: bool,
    },
    /// Ends a pause that came from the deployment.
    Resume(String),
    /// Archives a revision.
    Archive(String),
    /// Updates annotations of the current revision to those of the deployment.
    Annotate(String),
    /// Deletes an archived revision.
    Delete(String),
}

/// Sorts revisions by their numbers, oldest first.
pub fn sort(members: &mut [DeploymentRevision]) {
    members.sort_by(|a, b| {
        let key = |m: &DeploymentRevision| (m.number.unwrap_or(0), m.created);
        key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name))
    });
}

impl DeploymentRevision {
    /// Returns a condition if it was observed at the present generation.
    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        find_current(&self.status.conditions, type_, self.generation)
    }

    fn is(&self, type_: &str) -> bool {
        self.condition(type_)
            .is_some_and(|condition| condition.status == "True")
    }

    /// True if the revision is available now.
    pub fn is_available(&self) -> bool {
        self.is_live() && self.is(AVAILABLE)
    }

    /// True if the revision was ever available while it controlled all of its objects.
    pub fn has_succeeded(&self) -> bool {
        is_true(&self.status.conditions, SUCCEEDED)
    }

    /// True if the revision is paused and its controller has observed this.
    pub fn is_known_paused(&self) -> bool {
        self.lifecycle == LifecycleState::Paused && self.is(PAUSED)
    }

    /// True if the revision takes part in the chain: it is neither archived nor being deleted, and
    /// not about to be archived.
    pub fn is_live(&self) -> bool {
        !self.is_archived && !self.is_deleting && self.lifecycle != LifecycleState::Archived
    }

    /// The objects that the revision controls, if this was reported for its present generation.
    ///
    /// An empty list differs from a missing report. The content hash shows that the report covers
    /// all phases, not only those up to the first that failed.
    pub fn observed_objects(&self) -> Option<&[ControlledObjectReference]> {
        let reported = self.condition(AVAILABLE).is_some() && self.status.content_hash.is_some();
        reported.then_some(self.status.controller_of.as_slice())
    }
}

impl Snapshot<'_> {
    /// The revision with the highest number.
    pub fn newest(&self) -> Option<&DeploymentRevision> {
        self.members.last()
    }

    /// The revision with the content of the template, if it was created already.
    pub fn current(&self) -> Option<&DeploymentRevision> {
        self.newest()
            .filter(|newest| self.newest_fits && !newest.is_deleting)
    }

    /// A revision that has no number yet but will get one; no decision is possible before.
    pub fn unnumbered(&self) -> Option<&DeploymentRevision> {
        self.members
            .iter()
            .find(|member| member.number.is_none() && member.is_live())
    }

    /// The writes to do now; empty when none is left.
    ///
    /// # Guarantees
    /// - While the deployment is paused, the only actions are pauses.
    /// - A revision is archived only after its controller has observed the pause, and deleted only
    ///   when it is archived.
    /// - At most one new revision is created per call, and only if no other action is pending. Its
    ///   number is higher than all others; if there is no such number, none is created. Repeated
    ///   creation of the same revision is delayed ever longer.
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

    /// Pauses or resumes the live revisions as the deployment is paused or not.
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

    fn annotation(&self, current: &DeploymentRevision) -> Option<Action> {
        let own = &self.deployment;
        let preflight = current.preflight.as_deref();
        let agrees = |wanted: Option<&str>, current| wanted.is_none() || wanted == current;
        let in_step = current.digest.is_some()
            && own.lost_hubs == current.lost_hubs
            && agrees(own.change_cause.as_deref(), current.change_cause.as_deref())
            && agrees(
                preflight::wanted(own.preflight.as_deref(), preflight),
                preflight,
            );
        (!in_step && !current.is_archived).then(|| Action::Annotate(current.name.clone()))
    }
}
