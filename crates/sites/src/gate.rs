//! Whether a phase of a site may begin, and what stops for it.
//!
//! Managers ask this for sites that they connect to, agents for their own. What clients can observe:
//! `docs/contract/sites.md`, "The queue of a site".

#[cfg(test)]
mod properties;
mod state;
#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use baton_apis::{SiteEntry, SiteStop};
use jiff::Timestamp;

use crate::{
    terms::{Hold, Terms},
    version::may_skip,
    window::{Windows, both},
};

pub use state::{Begun, PhaseState};

/// How long windows that never meet, as far as was searched, are left alone.
const NEVER: Duration = Duration::from_hours(24);

/// A revision of a site that is not archived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its uid.
    pub uid: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its number in the chain.
    pub number: i64,
    /// What it says of itself.
    pub entry: SiteEntry,
    /// How far its phases are, in the order of the entry.
    pub phases: Vec<PhaseState>,
    /// Whether it is being deleted, or is to be archived.
    pub is_leaving: bool,
}

/// Shows it as messages name it.
impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "version {} ({})", self.entry.version, self.name)
    }
}

impl Member {
    fn begun(&self) -> Begun {
        let first = self.phases.first();
        first.map_or(Begun::Yes(Timestamp::UNIX_EPOCH), |first| first.begun)
    }

    /// When it began, if it has.
    fn since(&self) -> Option<Timestamp> {
        self.begun().since()
    }

    fn is_available(&self) -> bool {
        self.phases.iter().all(|phase| phase.is_available)
    }

    /// Whether it failed without any deadline.
    fn is_refused(&self) -> bool {
        self.phases.iter().any(|phase| phase.is_refused)
    }

    /// Whether it takes part: it is neither on its way out nor left out.
    fn takes_part(&self) -> bool {
        !self.is_leaving && self.begun() != Begun::Skipped
    }

    /// What the older revisions say of their workloads when these have stopped for this one.
    pub fn stopped_for(&self) -> String {
        format!("Nothing of it runs any more, for {} [{}].", self, self.uid)
    }
}

/// What is to be done about a phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It begins, or goes on.
    Start,
    /// It begins, unless its site refuses it, and writes nothing before the workloads of older revisions have stopped.
    StopFirst {
        /// What it waits for.
        message: String,
    },
    /// It does not begin yet.
    Wait {
        /// What it waits for.
        message: String,
        /// When that may be over although nothing changes.
        until: Option<Timestamp>,
    },
    /// It never begins.
    Skip {
        /// Why.
        message: String,
    },
}

/// How long until what is held is looked at again: nobody may tell that it is not any more.
const HELD: Duration = Duration::from_secs(10);

fn wait(message: String) -> Decision {
    let until = None;
    Decision::Wait { message, until }
}

/// What about a phase of a site is to be decided.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The revisions of the chain that are not archived, the oldest first.
    pub chain: &'a [Member],
    /// Which of them it is about.
    pub own: usize,
    /// Which phase of it.
    pub phase: usize,
    /// Since when who asks has been in touch with the site: how revisions were before is not known, and they may have
    /// had no time to become available.
    pub in_touch_since: Timestamp,
}

/// What newer revisions ask an older one to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Which workloads.
    pub stop: SiteStop,
    /// What is to be said when they have stopped: see [`Member::stopped_for`].
    pub message: String,
    /// Since when the newest of those that ask has waited.
    pub since: Timestamp,
}

impl<'a> Question<'a> {
    fn member(self) -> &'a Member {
        &self.chain[self.own]
    }

    /// Those before it that take part, the newest first.
    fn older(self) -> impl Iterator<Item = &'a Member> {
        let older = self.chain[..self.own].iter().rev();
        older.filter(|member| member.takes_part())
    }

    /// Those after it that take part, the oldest first.
    fn newer(self) -> impl Iterator<Item = &'a Member> {
        let newer = self.chain[self.own + 1..].iter();
        newer.filter(|member| member.takes_part())
    }

    /// Decides.
    ///
    /// # Guarantees
    /// - The first phase of a revision begins only when the nearest one before it that takes part is available, or has
    ///   failed: so the order of the chain is the order of the site. What was refused before it began is in nobody's
    ///   way.
    /// - What has begun goes on, whatever the terms are.
    /// - Only what waits is left out, and only for a later version with the same major and minor number.
    pub fn decide(self, terms: &Terms, now: Timestamp) -> Decision {
        let own = self.member();
        let state = own.phases.get(self.phase);
        let begun = state.map_or(Begun::Not, |state| state.begun);
        if let Begun::Yes(_) = begun {
            return Decision::Start;
        }
        if own.begun() == Begun::Skipped || begun == Begun::Skipped {
            let message = "A later version was taken instead of it.".to_owned();
            return Decision::Skip { message };
        }
        if let Some(newer) = self.newer().find(|newer| newer.since().is_some()) {
            return wait(format!("Left to {newer}, which has begun."));
        }
        let message = |hold: Hold| hold.message(&own.entry.deployment);
        if let Begun::Stopping(_) = begun {
            let held = terms.owner.hold.filter(|hold| *hold == Hold::Leaving);
            let held = held.map(|hold| Decision::StopFirst {
                message: message(hold),
            });
            let held = held.or_else(|| self.stop_first());
            return held.unwrap_or(Decision::Start);
        }
        if let Some(hold) = terms.owner.hold.filter(|_| self.phase == 0) {
            return Decision::Wait {
                message: message(hold),
                until: Some(now + HELD),
            };
        }
        if let Some(before) = self.phase.checked_sub(1) {
            let is_available = own.phases.get(before).is_some_and(|it| it.is_available);
            if is_available {
                return Decision::Start;
            }
            let name = own.entry.phases.get(before).map_or("", String::as_str);
            return wait(format!("Waits for phase \"{name}\"."));
        }
        let is_first = self.older().all(|older| older.since().is_none());
        let held = self.held_by_order(terms, now);
        let held = held.or_else(|| self.held_by_windows(is_first, terms, now));
        held.or_else(|| self.left_out(terms))
            .or_else(|| self.stop_first())
            .unwrap_or(Decision::Start)
    }

    /// Whether an older revision has to come first.
    fn held_by_order(self, terms: &Terms, now: Timestamp) -> Option<Decision> {
        let is_in_the_way = |older: &&Member| older.since().is_some() || !older.is_refused();
        let nearest = self.older().find(is_in_the_way)?;
        let Some(since) = nearest.since() else {
            return Some(wait(format!("Waits for {nearest}, which waits itself.")));
        };
        let SiteEntry {
            is_edit,
            is_rollback,
            ..
        } = self.member().entry;
        // These put right what it does wrong.
        if nearest.is_available() || nearest.is_refused() || is_edit || is_rollback {
            return None;
        }
        let deadline = terms.owner.progress_deadline;
        let counted_from = since.max(self.in_touch_since);
        let until = deadline.map(|seconds| counted_from + Duration::from_secs(seconds.into()));
        if until.is_some_and(|until| until <= now) {
            return None;
        }
        let message = format!("Waits for {nearest}, which is not available yet.");
        Some(Decision::Wait { message, until })
    }

    /// Whether upgrade windows are closed. The first installation needs none, nor does what ends an upgrade that has
    /// begun.
    fn held_by_windows(self, is_first: bool, terms: &Terms, now: Timestamp) -> Option<Decision> {
        let entry = &self.member().entry;
        if is_first || entry.is_rollback {
            return None;
        }
        if entry.is_edit && !terms.owner.windows_apply_to_edits {
            return None;
        }
        if terms.owner.is_gone {
            return Some(wait(format!(
                "Waits for SiteApplication \"{}\", which is gone, and with it what it says of upgrade windows.",
                entry.application
            )));
        }
        let lists = [
            ("SiteApplication", &entry.application, &terms.owner.windows),
            ("Cluster", &entry.site, &terms.site_windows),
        ];
        let mut windows = Windows::default();
        let mut closed = Vec::new();
        for (kind, name, list) in lists {
            match Windows::compile(list) {
                Ok(list) => {
                    if !list.is_open(now) {
                        closed.push(format!("{kind} \"{name}\""));
                    }
                    windows = both(&windows, &list);
                }
                Err(error) => {
                    return Some(wait(format!(
                        "Nothing is upgraded before {kind} \"{name}\" is corrected: {error}."
                    )));
                }
            }
        }
        if closed.is_empty() {
            return None;
        }
        let (message, until) = if let Some(at) = windows.next_opening(now) {
            let closed = closed.join(" and ");
            (
                format!(
                    "Waits for its upgrade window, which opens at {at:.0}; those of {closed} are closed now."
                ),
                at,
            )
        } else {
            let text = "Waits for upgrade windows of the application and of the site that are open together; for \
                        the next year or so there are none.";
            (text.to_owned(), now + NEVER)
        };
        let until = Some(until);
        Some(Decision::Wait { message, until })
    }

    /// Whether a later version that waits is taken instead of this one.
    fn left_out(self, terms: &Terms) -> Option<Decision> {
        let entry = &self.member().entry;
        if !terms.owner.skip_patch_versions || entry.is_edit || entry.is_rollback {
            return None;
        }
        let mut waiting = self.newer().filter(|newer| newer.begun() == Begun::Not);
        let later = waiting.find(|later| {
            later.entry.application == entry.application
                && may_skip(&entry.version, &later.entry.version)
        })?;
        let message = format!("Left out for {later}.");
        Some(Decision::Skip { message })
    }

    /// Which workloads have to stop first, if there are any that have not.
    fn stop_first(self) -> Option<Decision> {
        let own = self.member();
        if own.entry.stop.is_none() {
            return None;
        }
        let done = own.stopped_for();
        let running = self.older().flat_map(|older| {
            let states = older.entry.phases.iter().zip(&older.phases);
            let running = states.filter(|(_, state)| {
                let runs = matches!(state.begun, Begun::Yes(_));
                runs && state.stopped.as_ref() != Some(&done)
            });
            running.map(move |(phase, _)| format!("phase \"{phase}\" of {older}"))
        });
        let running: Vec<_> = running.collect();
        (!running.is_empty()).then(|| Decision::StopFirst {
            message: format!(
                "Waits until the workloads have stopped: {}.",
                running.join(", ")
            ),
        })
    }

    /// What newer revisions that have begun ask this one to stop. It stays so until it is archived, or they are
    /// deleted.
    pub fn demand(self) -> Option<Demand> {
        let mut services = BTreeSet::new();
        let mut all = false;
        let mut newest = None;
        for newer in self.newer() {
            let Some(since) = newer.since() else { continue };
            match &newer.entry.stop {
                SiteStop::None => continue,
                SiteStop::All => all = true,
                SiteStop::Services(names) => services.extend(names.iter().cloned()),
            }
            newest = Some((newer, since));
        }
        let (newest, since) = newest?;
        Some(Demand {
            stop: if all {
                SiteStop::All
            } else {
                SiteStop::Services(services.into_iter().collect())
            },
            message: newest.stopped_for(),
            since,
        })
    }
}
