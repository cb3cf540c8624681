//! How a site is, as far as the present rollout is concerned.

use baton_apis::{FailingSite, conditions::reasons};
use baton_terminal::time::duration;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::revision::{Report, SiteRevision};
use crate::tree::Health;

/// How a site is. Those that people want to see first come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum SiteState {
    /// It was refused, took too long, or is not available any more.
    Failed,
    /// It has begun, and is not available yet.
    InFlight,
    /// It has the version in its queue, or nothing of it, and cannot be reached.
    Offline,
    /// First in the queue, and held until an upgrade window opens.
    Window,
    /// It waits for a version ahead, or nobody has reported on it yet.
    Queued,
    /// It is not placed any more, and its revisions go.
    Leaving,
    /// No revision of the rollout was given to it yet.
    ToCome,
    /// Available, and the healthy time of its wave is not over.
    Soaking,
    /// It has the version from before the rollout again, and is available.
    RolledBack,
    /// Available.
    Updated,
}

impl SiteState {
    /// In a sentence.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::InFlight => "in flight",
            Self::Offline => "offline",
            Self::Window => "waiting for a window",
            Self::Queued => "queued",
            Self::Leaving => "leaving",
            Self::ToCome => "to come",
            Self::Soaking => "soaking",
            Self::RolledBack => "rolled back",
            Self::Updated => "updated",
        }
    }

    /// Whether it has the version, and is available.
    pub(crate) fn is_updated(self) -> bool {
        matches!(self, Self::Soaking | Self::Updated)
    }

    /// Whether somebody may want to look at it: something is waited for there, and not only its turn.
    pub(crate) fn is_open(self) -> bool {
        !self.is_settled() && self != Self::ToCome
    }

    /// Whether nothing is waited for there any more.
    pub(crate) fn is_settled(self) -> bool {
        matches!(self, Self::Soaking | Self::Updated | Self::RolledBack)
    }
}

/// A site, as far as the present rollout is concerned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SitePicture {
    pub(crate) name: String,
    pub(crate) state: SiteState,
    /// The wave that it is in; `None` before it is in one.
    pub(crate) wave: Option<i32>,
    /// The version that is there, if any is.
    pub(crate) runs: Option<String>,
    /// How many revisions wait there.
    pub(crate) queue: usize,
    /// Since when it is as it is.
    pub(crate) since: Option<Timestamp>,
    /// What is to be said about it; empty when all is well.
    pub(crate) message: String,
}

/// What a site is judged by besides its revisions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rollout<'a> {
    /// Its number; `None` before the first.
    pub(crate) number: Option<i64>,
    /// The wave whose sites have to stay available for a while, if there is one.
    pub(crate) soaking: Option<i32>,
    /// How long a site may take.
    pub(crate) deadline: SignedDuration,
    /// The sites that are reported to have failed.
    pub(crate) failing: &'a [FailingSite],
    pub(crate) now: Timestamp,
}

/// What is known of a site besides its revisions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    /// Whether it can be reached; `None` where nobody can tell.
    pub(crate) is_online: Option<bool>,
    /// Since when, if it can.
    pub(crate) online_since: Option<Timestamp>,
    /// Whether it is placed; `None` where nobody can tell.
    pub(crate) is_placed: Option<bool>,
}

impl Rollout<'_> {
    /// Judges a site by its revisions, the oldest first.
    pub(crate) fn judge(&self, site: &str, chain: &[SiteRevision], known: Known) -> SitePicture {
        let own = self.own(chain);
        let (state, since, message) = match own {
            _ if known.is_placed == Some(false) => (
                SiteState::Leaving,
                None,
                "not placed any more: it is being taken down there".to_owned(),
            ),
            None if known.is_online == Some(false) => (SiteState::Offline, None, String::new()),
            None => (SiteState::ToCome, None, String::new()),
            Some(own) => self.revision(site, own, chain, known),
        };
        SitePicture {
            name: site.to_owned(),
            state,
            wave: own.map(|own| own.entry.batch).filter(|wave| *wave > 0),
            runs: runs(chain).map(str::to_owned),
            queue: chain.iter().filter(|one| one.is_queued()).count(),
            since,
            message,
        }
    }

    /// The newest revision of the rollout.
    fn own<'r>(&self, chain: &'r [SiteRevision]) -> Option<&'r SiteRevision> {
        let is_own = |one: &&SiteRevision| {
            let is_over = one.is_deleting || one.is_archived || one.is_skipped();
            !is_over && Some(one.entry.rollout) == self.number
        };
        chain.iter().rev().find(is_own)
    }

    fn revision(
        &self,
        site: &str,
        own: &SiteRevision,
        chain: &[SiteRevision],
        known: Known,
    ) -> (SiteState, Option<Timestamp>, String) {
        let begun = own.started.or(own.created);
        let report = own.available.clone().unwrap_or_default();
        if own.is_available() {
            let state = match self.soaking {
                _ if own.entry.is_rollback => SiteState::RolledBack,
                Some(wave) if own.entry.batch >= wave => SiteState::Soaking,
                _ => SiteState::Updated,
            };
            return (state, report.since, String::new());
        }
        if own.is_queued() {
            return match known.is_online {
                Some(false) => (SiteState::Offline, own.created, String::new()),
                _ if is_first(own, chain) && own.available.is_some() => {
                    (SiteState::Window, own.created, report.message)
                }
                _ => (SiteState::Queued, own.created, report.message),
            };
        }
        if let Some(failing) = self.failing.iter().find(|failing| failing.name == site) {
            let why = Report {
                reason: failing.reason.clone(),
                message: failing.message.clone(),
                ..report.clone()
            };
            return (SiteState::Failed, report.since, why.why());
        }
        if let Some(why) = self.failure(own, &report, known.online_since) {
            return (SiteState::Failed, report.since, why);
        }
        let is_offline = known.is_online == Some(false) || report.status == Health::Unknown;
        if is_offline && own.available.is_some() {
            return (SiteState::Offline, report.since, report.message);
        }
        (SiteState::InFlight, begun, report.why())
    }

    /// Why a revision has failed, if it has: judged as the manager does. The manager names twenty.
    fn failure(
        &self,
        own: &SiteRevision,
        report: &Report,
        online_since: Option<Timestamp>,
    ) -> Option<String> {
        let state = own.state(online_since);
        let failure = state.failure(self.deadline, online_since, self.now)?;
        if failure.reason == reasons::PROGRESS_DEADLINE_EXCEEDED {
            let deadline = duration(self.deadline.unsigned_abs());
            return Some(format!("not available after {deadline}: {}", report.why()));
        }
        if own.succeeded.is_some() {
            return Some(format!("not available any more: {}", report.why()));
        }
        Some(report.why())
    }
}

/// Whether no other version is ahead of a revision that waits.
fn is_first(own: &SiteRevision, chain: &[SiteRevision]) -> bool {
    let mut ahead = chain.iter().filter(|one| {
        one.number < own.number && !one.is_archived && !one.is_deleting && !one.is_skipped()
    });
    ahead.all(SiteRevision::is_available)
}

/// The version that a site runs: the newest that is available, or else the newest that has begun.
pub(crate) fn runs(chain: &[SiteRevision]) -> Option<&str> {
    let live = || chain.iter().rev().filter(|one| one.is_live());
    let found = live().find(|one| one.is_available()).or(live().next());
    found.map(|one| one.entry.version.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sites::fixtures::{Given, NOW};

    const ONLINE: Known = Known {
        is_online: Some(true),
        online_since: None,
        is_placed: Some(true),
    };
    const OFFLINE: Known = Known {
        is_online: Some(false),
        online_since: None,
        is_placed: Some(true),
    };

    fn judged(chain: &[Given], known: Known) -> SitePicture {
        let failing = [FailingSite {
            name: "listed".to_owned(),
            reason: "ProgressDeadlineExceeded".to_owned(),
            message: "too late".to_owned(),
        }];
        let rollout = Rollout {
            number: Some(3),
            soaking: Some(2),
            deadline: SignedDuration::from_mins(10),
            failing: &failing,
            now: NOW,
        };
        let site = chain.first().map_or("eu-1", |given| given.site.as_str());
        let chain: Vec<_> = chain
            .iter()
            .map(|given| SiteRevision::read(&given.object()).unwrap())
            .collect();
        rollout.judge(site, &chain, known)
    }

    fn old() -> Given {
        Given::new("eu-1", 1, "1.1.0")
            .rollout(2, 1)
            .started()
            .available("True", "Available", "")
    }

    fn new() -> Given {
        Given::new("eu-1", 2, "1.2.0").rollout(3, 2)
    }

    /// A chain, what is known of its site, and how that is judged: the state, what runs there, a part of the message.
    type Case<'a> = (Vec<Given>, Known, SiteState, Option<&'a str>, &'a str);

    #[track_caller]
    fn check(cases: Vec<Case<'_>>) {
        for (chain, known, state, runs, message) in cases {
            let text = format!("{chain:?}");
            let picture = judged(&chain, known);
            assert_eq!(picture.state, state, "{text}");
            assert_eq!(picture.runs.as_deref(), runs, "{text}");
            assert!(picture.message.contains(message), "{}", picture.message);
            assert_eq!(picture.message.is_empty(), message.is_empty(), "{text}");
        }
    }

    fn probes(given: Given) -> Given {
        given.available("False", reasons::PROBE_FAILURE, "no pods")
    }

    #[test]
    fn a_site_without_a_revision_that_has_begun_waits() {
        use SiteState::{Leaving, Offline, Queued, ToCome, Window};
        let queued = || new().available("False", reasons::QUEUED, "opens at 02:00");
        let leaving = Known {
            is_placed: Some(false),
            ..ONLINE
        };
        let runs = Some("1.1.0");
        check(vec![
            (vec![], ONLINE, ToCome, None, ""),
            (vec![old()], ONLINE, ToCome, runs, ""),
            (vec![old()], OFFLINE, Offline, runs, ""),
            (vec![old()], leaving, Leaving, runs, "not placed"),
            // Nobody has reported on it yet.
            (vec![old(), new()], ONLINE, Queued, runs, ""),
            (vec![old(), new()], OFFLINE, Offline, runs, ""),
            (vec![old(), queued()], ONLINE, Window, runs, "opens at"),
            // What is ahead of it has to come up first.
            (vec![probes(old()), queued()], ONLINE, Queued, runs, "opens"),
        ]);
    }

    #[test]
    fn a_site_is_what_its_newest_revision_of_the_rollout_is() {
        use SiteState::{Failed, InFlight, Offline, RolledBack, Soaking, Updated};
        let fine = |given: Given| given.available("True", "Available", "");
        let late = new().started_at("2026-01-01T00:00:00Z");
        let refused = new().available("False", reasons::PREFLIGHT_ERROR, "no kind");
        let gone = new().available("Unknown", reasons::CLUSTER_UNREACHABLE, "no answer");
        let listed = Given::new("listed", 2, "1.2.0").rollout(3, 1).started();
        let (before, now) = (Some("1.1.0"), Some("1.2.0"));
        let text = "ProbeFailure: no pods";
        let lost = "not available any more";
        check(vec![
            (
                vec![old(), probes(new().started())],
                ONLINE,
                InFlight,
                before,
                text,
            ),
            (
                vec![old(), probes(late)],
                ONLINE,
                Failed,
                before,
                "not available after 10m",
            ),
            (
                vec![refused],
                ONLINE,
                Failed,
                now,
                "PreflightError: no kind",
            ),
            (vec![probes(new().succeeded())], ONLINE, Failed, now, lost),
            (vec![probes(listed)], ONLINE, Failed, now, "too late"),
            (
                vec![old(), gone.started()],
                ONLINE,
                Offline,
                before,
                "no answer",
            ),
            (vec![old(), fine(new())], ONLINE, Soaking, now, ""),
            (vec![fine(new().rollout(3, 1))], ONLINE, Updated, now, ""),
            (
                vec![old().archived(), fine(new().rollback())],
                ONLINE,
                RolledBack,
                now,
                "",
            ),
        ]);
    }

    #[test]
    fn a_site_that_recovered_is_not_failed_any_more() {
        let recovered =
            Given::new("listed", 2, "1.2.0")
                .rollout(3, 1)
                .available("True", "Available", "");
        assert_eq!(judged(&[recovered], ONLINE).state, SiteState::Updated);
    }
}
