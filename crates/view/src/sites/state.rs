//! The state of one site in the present rollout.

use std::sync::Arc;

use baton_apis::{FailingSite, conditions::Reason};
use baton_sites::rollout::{
    Site,
    current::CurrentRollout,
    standing::{SiteState, Standing, standing},
};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::revision::{Report, SiteRevision};

/// A site in the present rollout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SitePicture {
    /// Name of the site.
    pub name: String,
    /// State of the site.
    pub state: SiteState,
    /// Number of the wave of the site; `None` if it is in no wave yet.
    pub wave: Option<i32>,
    /// The version that runs at the site, if any.
    pub runs: Option<String>,
    /// Number of queued revisions at the site.
    pub queue: usize,
    /// The time since when the site has its state.
    pub since: Option<Timestamp>,
    /// The reason of the state; `None` when all is well.
    #[serde(skip)]
    pub note: Option<StateReason>,
}

/// The reason of the state of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateReason {
    /// The site is not selected any more, and its revisions are being removed.
    Leaving,
    /// A report of the manager.
    Reported(Report),
    /// The revision of the site was not available before this deadline.
    Late(SignedDuration, Report),
    /// The revision of the site was available, and is not any more.
    Lost(Report),
}

/// The facts of a rollout by which its sites are judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct RolloutFacts<'a> {
    pub(super) current: CurrentRollout<'a>,
    /// The sites that the status reports as failed.
    pub(super) failing: &'a [FailingSite],
}

impl RolloutFacts<'_> {
    /// Judges a site by its revisions, oldest first, and by other facts about it in `site`. The
    /// status of the deployment names at most twenty failed sites.
    pub(super) fn judge(&self, name: &str, chain: &[SiteRevision], mut site: Site) -> SitePicture {
        let online_since = site.uptime.online_since;
        site.chain = chain.iter().map(|one| one.planned(online_since)).collect();
        let name: Arc<str> = name.into();
        let standing = standing(&name, &site, &self.current);
        let own = standing
            .revision
            .and_then(|it| chain.iter().find(|one| one.name == *it.name));
        let (state, since, note) = match own {
            _ if standing.state == SiteState::Leaving => {
                (standing.state, None, Some(StateReason::Leaving))
            }
            None => (standing.state, None, None),
            Some(own) => self.revision(&name, own, chain, &standing),
        };
        SitePicture {
            state,
            wave: standing.wave,
            runs: runs(chain).map(str::to_owned),
            queue: chain.iter().filter(|one| one.is_queued()).count(),
            since,
            note,
            name: name.to_string(),
        }
    }

    fn revision(
        &self,
        name: &str,
        own: &SiteRevision,
        chain: &[SiteRevision],
        standing: &Standing<'_>,
    ) -> (SiteState, Option<Timestamp>, Option<StateReason>) {
        let (state, reported) = (standing.state, &own.reported);
        let message = || {
            StateReason::Reported(Report {
                message: own.message().to_owned(),
                ..Report::default()
            })
        };
        if own.is_queued() {
            let is_held = is_first(own, chain) && reported.availability.is_some();
            let is_queued = state == SiteState::Queued;
            let state = if is_queued && is_held {
                SiteState::Window
            } else {
                state
            };
            return (state, reported.created, is_queued.then(message));
        }
        if own.is_available() {
            return (state, reported.since, None);
        }
        if let Some(failing) = self.failing.iter().find(|failing| failing.name == name) {
            let report = Report {
                reason: failing.reason.clone(),
                message: failing.message.clone(),
            };
            return (
                SiteState::Failed,
                reported.since,
                Some(StateReason::Reported(report)),
            );
        }
        let (since, note) = match standing.failure {
            Some(failure) if failure.reason == Reason::ProgressDeadlineExceeded => (
                reported.since,
                StateReason::Late(self.current.deadline, own.report()),
            ),
            Some(_) if reported.succeeded.is_some() => {
                (reported.since, StateReason::Lost(own.report()))
            }
            Some(_) => (reported.since, StateReason::Reported(own.report())),
            None if state == SiteState::Offline => (reported.since, message()),
            None => {
                let since = reported.started.or(reported.created);
                (since, StateReason::Reported(own.report()))
            }
        };
        (state, since, Some(note))
    }
}

/// True if a queued revision waits for no other version.
fn is_first(own: &SiteRevision, chain: &[SiteRevision]) -> bool {
    let mut ahead = chain
        .iter()
        .filter(|one| one.number < own.number && !one.is_over());
    ahead.all(SiteRevision::is_available)
}

/// The version that a site runs: the newest available one, or else the newest that has begun.
pub(super) fn runs(chain: &[SiteRevision]) -> Option<&str> {
    let live = || chain.iter().rev().filter(|one| one.is_live());
    let found = live().find(|one| one.is_available()).or(live().next());
    found.map(|one| one.entry.version.as_str())
}

#[cfg(test)]
mod tests {
    use baton_apis::SiteDeployment;
    use baton_sites::uptime::Uptime;

    use super::*;
    use crate::sites::fixtures::{NOW, SiteRevisionFixture, deployment};

    const ONLINE: Site = Site {
        is_placed: true,
        is_online: true,
        uptime: Uptime {
            online_since: None,
            in_touch_since: None,
        },
        is_canary: false,
        chain: Vec::new(),
    };
    const OFFLINE: Site = Site {
        is_placed: true,
        is_online: false,
        uptime: Uptime {
            online_since: None,
            in_touch_since: None,
        },
        is_canary: false,
        chain: Vec::new(),
    };

    fn judged(chain: &[SiteRevisionFixture], facts: Site) -> SitePicture {
        let failing = [FailingSite {
            name: "listed".to_owned(),
            revision: None,
            reason: "ProgressDeadlineExceeded".to_owned(),
            message: "too late".to_owned(),
        }];
        // The second wave of the deployment soaks.
        let mut deployment: SiteDeployment = serde_json::from_value(deployment("shop")).unwrap();
        deployment.spec.strategy.progress_deadline = Some("10m".to_owned());
        let mut status = deployment.status.unwrap();
        status.conditions[0].reason = Reason::Soaking.to_string();
        let judge = RolloutFacts {
            current: CurrentRollout::reported(&deployment.spec, &status, NOW),
            failing: &failing,
        };
        let site = chain.first().map_or("eu-1", |given| given.site.as_str());
        let chain: Vec<_> = chain
            .iter()
            .map(|given| SiteRevision::read(&given.object()).unwrap())
            .collect();
        judge.judge(site, &chain, facts)
    }

    fn old() -> SiteRevisionFixture {
        SiteRevisionFixture::new("eu-1", 1, "1.1.0")
            .rollout(2, 1)
            .started()
            .available("True", "Available", "")
    }

    fn new() -> SiteRevisionFixture {
        SiteRevisionFixture::new("eu-1", 2, "1.2.0").rollout(3, 2)
    }

    /// Revisions, the other facts about their site, and the expected state, version, and part of
    /// the note.
    type Case<'a> = (
        Vec<SiteRevisionFixture>,
        Site,
        SiteState,
        Option<&'a str>,
        &'a str,
    );

    #[track_caller]
    fn check(cases: Vec<Case<'_>>) {
        for (chain, facts, state, runs, part) in cases {
            let text = format!("{chain:?}");
            let picture = judged(&chain, facts);
            assert_eq!(picture.state, state, "{text}");
            assert_eq!(picture.runs.as_deref(), runs, "{text}");
            let note = match &picture.note {
                Some(StateReason::Reported(report)) => {
                    format!("{}: {}", report.reason, report.message)
                }
                None => ": ".to_owned(),
                Some(note) => format!("{note:?}"),
            };
            assert!(note.contains(part), "{note}");
            assert_eq!(note == ": ", part.is_empty(), "{text}");
        }
    }

    fn probes(given: SiteRevisionFixture) -> SiteRevisionFixture {
        given.available("False", Reason::ProbeFailure, "no pods")
    }

    #[test]
    fn a_site_without_a_started_revision_waits() {
        use SiteState::{Leaving, Offline, Queued, ToCome, Window};
        let queued = || new().available("False", Reason::Queued, "opens at 02:00");
        let leaving = Site {
            is_placed: false,
            ..ONLINE
        };
        let runs = Some("1.1.0");
        check(vec![
            (vec![], ONLINE, ToCome, None, ""),
            (vec![old()], ONLINE, ToCome, runs, ""),
            (vec![old()], OFFLINE, Offline, runs, ""),
            (vec![old()], leaving, Leaving, runs, "Leaving"),
            // Nothing was reported yet.
            (vec![old(), new()], ONLINE, Queued, runs, ""),
            (vec![old(), new()], OFFLINE, Offline, runs, ""),
            (vec![old(), queued()], ONLINE, Window, runs, "opens at"),
            // The version before it has to become available first.
            (vec![probes(old()), queued()], ONLINE, Queued, runs, "opens"),
        ]);
    }

    #[test]
    fn a_site_has_the_state_of_its_newest_revision_in_the_rollout() {
        use SiteState::{Failed, InFlight, Offline, RolledBack, Soaking, Updated};
        let fine = |given: SiteRevisionFixture| given.available("True", "Available", "");
        let late = new().started_at("2026-01-01T00:00:00Z");
        let refused = new().available("False", Reason::PreflightError, "no kind");
        let gone = new().available("Unknown", Reason::ClusterUnreachable, "no answer");
        let listed = SiteRevisionFixture::new("listed", 2, "1.2.0")
            .rollout(3, 1)
            .started();
        let (before, now) = (Some("1.1.0"), Some("1.2.0"));
        let text = "ProbeFailure: no pods";
        let lost = "Lost";
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
                "Late(10m, ",
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

    /// The manager creates no revision for the site, as its version does not change.
    #[test]
    fn a_site_that_has_the_version_from_an_earlier_rollout_is_updated() {
        let given = SiteRevisionFixture::new("eu-1", 1, "1.2.0")
            .rollout(1, 1)
            .started();
        let fine = judged(&[given.clone().available("True", "Available", "")], ONLINE);
        assert_eq!((fine.state, fine.wave), (SiteState::Updated, None));
        assert_eq!(judged(&[probes(given)], ONLINE).state, SiteState::InFlight);
    }

    #[test]
    fn a_site_that_recovered_is_not_failed_any_more() {
        let recovered = SiteRevisionFixture::new("listed", 2, "1.2.0")
            .rollout(3, 1)
            .available("True", "Available", "");
        assert_eq!(judged(&[recovered], ONLINE).state, SiteState::Updated);
    }
}
