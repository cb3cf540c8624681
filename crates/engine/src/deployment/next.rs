//! The next revision of a deployment, and the obstacles to its creation.

use std::{cmp::Reverse, fmt};

use baton_apis::conditions::Reason;
use jiff::Timestamp;

use super::{DeploymentRevision, NewRevision, Snapshot};
use crate::{brake, chain_names::next_in_chain, conditions::Requeue};

/// The reason why no revision is created although the template requires one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// Rollout blocks forbid it, or cannot be listed: the reason and the text of the hold.
    Held(Reason, String),
    /// No higher number exists; the text names the object with the highest number, and the way out.
    NoNumber(String),
    /// Revisions were created from this template several times, and the newest still differs from it.
    Repeated {
        /// API kind of the revisions.
        kind: &'static str,
        /// Number of these revisions.
        made: usize,
        /// Name of the newest revision.
        newest: String,
        /// Time when the next revision is created.
        until: Timestamp,
    },
}

impl Obstacle {
    /// Status and reason of the condition `Progressing`.
    pub(super) fn condition(&self) -> (&'static str, Reason) {
        match self {
            Self::Held(reason, _) => ("Unknown", *reason),
            Self::NoNumber(_) => ("False", Reason::NumbersExhausted),
            Self::Repeated { .. } => ("False", Reason::RevisionRepeated),
        }
    }

    /// The requeue for the time when the obstacle may be gone without an event.
    pub(super) fn requeue(&self, now: Timestamp) -> Requeue {
        match self {
            Self::Held(..) | Self::NoNumber(_) => Requeue::OnEvent,
            Self::Repeated { until, .. } => {
                Requeue::After(until.duration_since(now).unsigned_abs())
            }
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held(_, text) | Self::NoNumber(text) => f.write_str(text),
            Self::Repeated {
                kind,
                made,
                newest,
                until,
            } => write!(
                f,
                "The last {made} revisions were created from the current template, but {kind} {newest}, the newest of \
                 them, does not match it: something changes or deletes revisions. The next one is created at \
                 {until:.0}."
            ),
        }
    }
}

impl Snapshot<'_> {
    /// The obstacle to the next revision, if one is to be created.
    pub(super) fn obstacle(&self) -> Option<Obstacle> {
        let is_wanted = self.wants_next() && !self.deployment.paused;
        is_wanted.then(|| self.next().err()).flatten()
    }

    /// True if no revision has the content of the template yet.
    pub(super) fn wants_next(&self) -> bool {
        self.current().is_none() && self.deployment.has_phases
    }

    /// The revision to create from the template.
    ///
    /// A name that is taken counts as a collision, such as the name of an archived revision that
    /// was created from the same content. The name of a member that is gone since the snapshot counts
    /// as well: a revision must not name itself as a previous one.
    ///
    /// # Errors
    /// If rollout blocks forbid the revision, if there is no number or no name for it, or if it was
    /// created repeatedly.
    pub(super) fn next(&self) -> Result<NewRevision, Obstacle> {
        if let Some((reason, text)) = self.deployment.blocks.hold() {
            return Err(Obstacle::Held(reason, text));
        }
        let numbers = self.members.iter().map(|it| (&it.name, it.number));
        let number = next_in_chain(numbers).map_err(|highest| {
            let kind = self.deployment.revision_kind;
            Obstacle::NoNumber(format!("{kind} {highest}. Delete it."))
        })?;
        let mut collision_count = self.deployment.status.collision_count;
        loop {
            let hash = (self.hash)(collision_count.unwrap_or(0));
            let name = self.named(&hash);
            let is_member = self.members.iter().any(|member| member.name == name);
            if !is_member && !(self.is_taken)(&name) {
                self.brake(collision_count)?;
                return Ok(NewRevision {
                    name,
                    hash,
                    collision_count,
                    number,
                    previous: self.members.iter().map(|m| m.name.clone()).collect(),
                });
            }
            let count = collision_count.map_or(Some(1), |count| count.checked_add(1));
            collision_count = Some(count.ok_or_else(|| {
                let text =
                    "status.collisionCount is the highest possible number. Set it to a lower one.";
                Obstacle::NoNumber(text.to_owned())
            })?);
        }
    }

    /// The name of the revision with the content of this hash.
    fn named(&self, hash: &str) -> String {
        format!("{}-{hash}", self.deployment.name)
    }

    /// Returns an error while the last members were all made from this template and the delay has
    /// not passed.
    ///
    /// A member made from the template is recognised by its name, which was a collision when the
    /// next one was created; its annotations do not count.
    fn brake(&self, collision_count: Option<i32>) -> Result<(), Obstacle> {
        let mut members: Vec<&DeploymentRevision> = self.members.iter().collect();
        members.sort_by_key(|member| Reverse((member.created, member.number)));
        let counts = (0..collision_count.unwrap_or(0)).rev();
        let made = members
            .iter()
            .zip(counts)
            .take_while(|(member, count)| member.name == self.named(&(self.hash)(*count)))
            .count();
        let Some(newest) = members.first() else {
            return Ok(());
        };
        match brake::until(made, newest.created, self.now) {
            None => Ok(()),
            Some(until) => Err(Obstacle::Repeated {
                kind: self.deployment.revision_kind,
                made,
                newest: newest.name.clone(),
                until,
            }),
        }
    }
}
