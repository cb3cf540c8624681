//! The next revision of a deployment, and what may be in its way.

use std::{cmp::Reverse, fmt};

use baton_apis::conditions::reasons;
use jiff::Timestamp;

use super::{Member, NewRevision, Snapshot};
use crate::{brake, chain_names::next_number, conditions::Requeue};

/// Why no revision is made although the template asks for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// A number was to be one more than the highest there is; the text says which, and what to do.
    NoNumber(String),
    /// Revisions were made from this template again and again, and the newest is still not what it asks for.
    Repeated {
        /// API kind of the revisions.
        kind: &'static str,
        /// How many of them.
        made: usize,
        /// Name of the newest.
        newest: String,
        /// When the next one is made.
        until: Timestamp,
    },
}

impl Obstacle {
    /// The reason of the condition `Progressing`.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::NoNumber(_) => reasons::NUMBERS_EXHAUSTED,
            Self::Repeated { .. } => reasons::REVISION_REPEATED,
        }
    }

    /// When it may be gone although nothing changes.
    pub(super) fn requeue(&self, now: Timestamp) -> Requeue {
        match self {
            Self::NoNumber(_) => Requeue::OnEvent,
            Self::Repeated { until, .. } => {
                Requeue::After(until.duration_since(now).unsigned_abs())
            }
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNumber(text) => f.write_str(text),
            Self::Repeated {
                kind,
                made,
                newest,
                until,
            } => write!(
                f,
                "The last {made} revisions were made from this very template, and {kind} {newest}, the newest of \
                 them, is not what it asks for: something changes or deletes revisions. The next one is made at \
                 {until:.0}."
            ),
        }
    }
}

impl Snapshot<'_> {
    /// The obstacle to the next revision, where one is to be made.
    pub(super) fn obstacle(&self) -> Option<Obstacle> {
        let is_wanted = self.wants_next() && !self.deployment.paused;
        is_wanted.then(|| self.next().err()).flatten()
    }

    /// Whether the template asks for a revision that was not made yet.
    pub(super) fn wants_next(&self) -> bool {
        self.current().is_none() && self.deployment.has_phases
    }

    /// The revision that the template asks for. A name that is taken counts as a collision, for
    /// instance that of the archived revision that an earlier content was made as. So does that of a
    /// member which has gone since it was observed: a revision must not name itself as a previous one.
    ///
    /// # Errors
    /// When it has no number or no name, or the same was made again and again.
    pub(super) fn next(&self) -> Result<NewRevision, Obstacle> {
        let numbers = self.members.iter().map(|it| (&it.name, it.number));
        let number = next_number(numbers).map_err(|highest| {
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
                let text = "status.collisionCount is the highest number there is. Lower it.";
                Obstacle::NoNumber(text.to_owned())
            })?);
        }
    }

    /// The name of a revision.
    fn named(&self, hash: &str) -> String {
        format!("{}-{hash}", self.deployment.name)
    }

    /// Whether the members that were made last were all made from this template. Each of them has the name that was
    /// taken when the one after it was made, whatever became of its annotations.
    fn brake(&self, collision_count: Option<i32>) -> Result<(), Obstacle> {
        let mut members: Vec<&Member> = self.members.iter().collect();
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
