//! The decision whether a phase of a site may begin, and which workloads stop for it.
//!
//! Managers use it for sites that they connect to, agents for their own site. The behaviour that
//! clients can observe is in `docs/contract/sites.md`, "The queue of a site".

#[cfg(test)]
mod properties;
mod state;
#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use baton_apis::{SiteEntry, SiteStop};
use jiff::{SignedDuration, Timestamp};

use crate::{
    terms::{StartObstacle, Terms},
    uptime::Uptime,
    version::may_skip,
    window::{Windows, both},
};

pub use state::{PhaseStart, PhaseState};

/// Time until windows that never open together, as far as the search goes, are checked again.
const NEVER: Duration = Duration::from_hours(24);

/// A revision of a site that is not archived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveRevision {
    /// UID of the revision.
    pub uid: Arc<str>,
    /// Name of the revision.
    pub name: Arc<str>,
    /// Number of the revision in the chain.
    pub number: i64,
    /// Entry of the revision.
    pub entry: SiteEntry,
    /// State of the phases, in the order of the entry.
    pub phases: Vec<PhaseState>,
    /// True if the revision is being deleted, or is about to be archived.
    pub is_leaving: bool,
}

/// Prints the revision in the form of messages.
impl fmt::Display for ActiveRevision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "version {} ({})", self.entry.version, self.name)
    }
}

impl ActiveRevision {
    fn begun(&self) -> PhaseStart {
        let first = self.phases.first();
        first.map_or(PhaseStart::Yes(Timestamp::UNIX_EPOCH), |first| first.begun)
    }

    /// Time at which the revision began, if it has begun.
    fn since(&self) -> Option<Timestamp> {
        self.begun().since()
    }

    fn is_available(&self) -> bool {
        self.phases.iter().all(|phase| phase.is_available)
    }

    /// True if the revision is refused, which is a failure without any deadline.
    fn is_refused(&self) -> bool {
        self.phases.iter().any(|phase| phase.is_refused)
    }

    /// True if the revision takes part in the queue: it is neither leaving nor skipped.
    fn takes_part(&self) -> bool {
        !self.is_leaving && self.begun() != PhaseStart::Skipped
    }
}

/// The decision if a phase of a site may begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The phase begins, or continues.
    Start,
    /// The phase begins, unless its site refuses it, and writes nothing before the workloads of
    /// older revisions have stopped.
    StopFirst {
        /// The state that the phase waits for.
        message: String,
    },
    /// The phase does not begin yet.
    Wait {
        /// The state that the phase waits for.
        message: String,
        /// Time at which the wait may end without another event.
        until: Option<Timestamp>,
    },
    /// The phase never begins.
    Skip {
        /// Reason of the decision.
        message: String,
    },
}

/// True if a revision must not begin in its site behind one that has `begun`: that one is of a later
/// rollout, or has the same content.
///
/// A deployment gives waiting revisions again, behind an edit, before it withdraws them. If it ends
/// in between, or is paused, the site has them twice, and the edit behind them.
pub(crate) fn is_overtaken(own: &SiteEntry, begun: &SiteEntry) -> bool {
    let is_same = own.rollout == begun.rollout
        && own.is_rollback == begun.is_rollback
        && (&own.application, &own.version, &own.edit)
            == (&begun.application, &begun.version, &begun.edit);
    own.rollout < begun.rollout || is_same
}

/// Requeue time for a phase that is held: the end of the hold may cause no event.
const REQUEUE: Duration = Duration::from_secs(10);

fn wait(message: String) -> Decision {
    let until = None;
    Decision::Wait { message, until }
}

/// The input of a decision about a phase of a site.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The revisions of the chain that are not archived, the oldest first.
    pub chain: &'a [ActiveRevision],
    /// Index of the revision in the chain.
    pub own: usize,
    /// Index of the phase in the revision.
    pub phase: usize,
    /// The times since which the caller can reach the site. Revisions may have had no time to become
    /// available before.
    pub uptime: Uptime,
}

/// The request of newer revisions that an older one stops its workloads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopRequest {
    /// Workloads to stop.
    pub stop: SiteStop,
    /// UID of the newest of the requesting revisions.
    pub uid: Arc<str>,
    /// Message to report when the workloads have stopped.
    pub message: String,
    /// Time since which the newest of the requesting revisions waits.
    pub since: Timestamp,
}

impl<'a> Question<'a> {
    fn member(self) -> &'a ActiveRevision {
        &self.chain[self.own]
    }

    /// The older revisions that take part in the queue, the newest first.
    fn older(self) -> impl Iterator<Item = &'a ActiveRevision> {
        let older = self.chain[..self.own].iter().rev();
        older.filter(|member| member.takes_part())
    }

    /// The newer revisions that take part in the queue, the oldest first.
    fn newer(self) -> impl Iterator<Item = &'a ActiveRevision> {
        let newer = self.chain[self.own + 1..].iter();
        newer.filter(|member| member.takes_part())
    }

    /// Decides about the phase.
    ///
    /// # Guarantees
    /// - The first phase of a revision begins only when the nearest older revision that takes part
    ///   is available, or has failed. So the order of the chain is the order in the site. A
    ///   revision that was refused before it began is passed over.
    /// - A phase that has begun continues, for any terms.
    /// - No content of a rollout begins twice, and none behind a later rollout.
    /// - Only revisions that wait are skipped, and only for a version of a later rollout with the
    ///   same major and minor number.
    pub fn decide(self, terms: &Terms, now: Timestamp) -> Decision {
        let own = self.member();
        let state = own.phases.get(self.phase);
        let begun = state.map_or(PhaseStart::Not, |state| state.begun);
        if let PhaseStart::Yes(_) = begun {
            return Decision::Start;
        }
        if own.begun() == PhaseStart::Skipped || begun == PhaseStart::Skipped {
            let message =
                "This version is skipped, because a later version replaces it.".to_owned();
            return Decision::Skip { message };
        }
        if let Some(newer) = self.newer().find(|newer| newer.since().is_some()) {
            return wait(format!("Does not begin: {newer} has begun already."));
        }
        let message = |hold: StartObstacle| hold.message(&own.entry.deployment);
        if let PhaseStart::Stopping(_) = begun {
            let held = terms
                .owner
                .hold
                .filter(|hold| *hold == StartObstacle::Leaving);
            let held = held.map(|hold| Decision::StopFirst {
                message: message(hold),
            });
            let held = held.or_else(|| self.stop_first());
            return held.unwrap_or(Decision::Start);
        }
        if let Some(hold) = terms.owner.hold.filter(|_| self.phase == 0) {
            return Decision::Wait {
                message: message(hold),
                until: Some(now + REQUEUE),
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
        let running = self.older().find(|older| older.since().is_some());
        if let Some(running) = running.filter(|it| is_overtaken(&own.entry, &it.entry)) {
            return wait(format!(
                "Does not begin: {running}, which has begun, has the same content or is of a later rollout."
            ));
        }
        let is_first = running.is_none();
        let held = self.held_by_order(terms, now);
        let held = held.or_else(|| self.held_by_windows(is_first, terms, now));
        held.or_else(|| self.left_out(terms))
            .or_else(|| self.stop_first())
            .unwrap_or(Decision::Start)
    }

    /// The decision to wait, if an older revision has to come first.
    fn held_by_order(self, terms: &Terms, now: Timestamp) -> Option<Decision> {
        let is_in_the_way =
            |older: &&ActiveRevision| older.since().is_some() || !older.is_refused();
        let nearest = self.older().find(is_in_the_way)?;
        let Some(since) = nearest.since() else {
            return Some(wait(format!("Waits for {nearest}, which has not begun.")));
        };
        let SiteEntry {
            is_edit,
            is_rollback,
            ..
        } = self.member().entry;
        // An edit and a rollback correct the older revision.
        if nearest.is_available() || nearest.is_refused() || is_edit || is_rollback {
            return None;
        }
        let deadline = terms.owner.progress_deadline;
        let deadline = deadline.map(|seconds| SignedDuration::from_secs(seconds.into()));
        let until = deadline.map(|deadline| self.uptime.end_of(since, deadline));
        if until.is_some_and(|until| until <= now) {
            return None;
        }
        let message = format!("Waits for {nearest}, which is not available yet.");
        Some(Decision::Wait { message, until })
    }

    /// The decision to wait, if upgrade windows are closed. The first installation, a rollback and,
    /// by default, an edit need no window.
    fn held_by_windows(self, is_first: bool, terms: &Terms, now: Timestamp) -> Option<Decision> {
        let entry = &self.member().entry;
        if is_first || entry.is_rollback {
            return None;
        }
        let owner = &terms.owner;
        // Without the application it is not known if its windows apply to edits.
        if entry.is_edit && !owner.windows_apply_to_edits && !owner.is_gone {
            return None;
        }
        if owner.is_gone {
            return Some(wait(format!(
                "Waits for SiteApplication \"{}\", which does not exist, so its upgrade windows are unknown.",
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
                        "No upgrade begins before {kind} \"{name}\" is corrected: {error}."
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
                    "Waits for its upgrade window, which opens at {at:.0}; the windows of {closed} are closed now."
                ),
                at,
            )
        } else {
            let text = "Waits for upgrade windows of the application and of the site that are open together; there are \
                        none within about a year.";
            (text.to_owned(), now + NEVER)
        };
        let until = Some(until);
        Some(Decision::Wait { message, until })
    }

    /// The decision to skip this revision, if a later version waits that replaces it.
    fn left_out(self, terms: &Terms) -> Option<Decision> {
        let entry = &self.member().entry;
        if !terms.owner.skip_patch_versions || entry.is_edit || entry.is_rollback {
            return None;
        }
        let mut waiting = self
            .newer()
            .filter(|newer| newer.begun() == PhaseStart::Not);
        let later = waiting.find(|later| {
            later.entry.application == entry.application
                && later.entry.rollout > entry.rollout
                && may_skip(&entry.version, &later.entry.version)
        })?;
        let message = format!("This version is skipped, because {later} replaces it.");
        Some(Decision::Skip { message })
    }

    /// The decision to stop workloads first, if some have not stopped.
    fn stop_first(self) -> Option<Decision> {
        let own = self.member();
        if own.entry.stop.is_none() {
            return None;
        }
        let running = self.older().flat_map(|older| {
            let states = older.entry.phases.iter().zip(&older.phases);
            let running = states.filter(|(_, state)| {
                let runs = matches!(state.begun, PhaseStart::Yes(_));
                runs && state.stopped_for.as_deref() != Some(&*own.uid)
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

    /// The request of newer revisions that have begun. It stays until this revision is archived, or
    /// the newer ones are deleted.
    pub fn stop_request(self) -> Option<StopRequest> {
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
        Some(StopRequest {
            stop: if all {
                SiteStop::All
            } else {
                SiteStop::Services(services.into_iter().collect())
            },
            uid: Arc::clone(&newest.uid),
            message: format!("Its workloads have stopped for {newest}."),
            since,
        })
    }
}
