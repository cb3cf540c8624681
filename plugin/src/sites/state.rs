//! How a site is, as far as the present rollout is concerned, for people.

use std::sync::Arc;

use baton_apis::{FailingSite, conditions::reasons};
use baton_sites::rollout::{
    Site,
    lens::Lens,
    standing::{SiteState, Standing, standing},
};
use baton_terminal::time::duration;
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

use super::revision::{SiteRevision, why};

/// A state in a sentence.
pub(crate) fn words(state: SiteState) -> &'static str {
    match state {
        SiteState::Failed => "failed",
        SiteState::InFlight => "in flight",
        SiteState::Offline => "offline",
        SiteState::Window => "waiting for a window",
        SiteState::Queued => "queued",
        SiteState::Leaving => "leaving",
        SiteState::ToCome => "to come",
        SiteState::Soaking => "soaking",
        SiteState::RolledBack => "rolled back",
        SiteState::Updated => "updated",
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

/// The rules by which a site is judged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rollout<'a> {
    pub(crate) lens: Lens<'a>,
    /// The sites that are reported to have failed.
    pub(crate) failing: &'a [FailingSite],
}

impl Rollout<'_> {
    /// Judges a site by its revisions, the oldest first; `site` is what is known of it besides. The manager names
    /// twenty sites that fail.
    pub(crate) fn judge(&self, name: &str, chain: &[SiteRevision], mut site: Site) -> SitePicture {
        let online_since = site.online_since;
        site.chain = chain.iter().map(|one| one.seen(online_since)).collect();
        let name: Arc<str> = name.into();
        let standing = standing(&name, &site, &self.lens);
        let own = standing
            .revision
            .and_then(|it| chain.iter().find(|one| one.name == *it.name));
        let (state, since, message) = match own {
            _ if standing.state == SiteState::Leaving => (
                SiteState::Leaving,
                None,
                "not placed any more: it is being taken down there".to_owned(),
            ),
            None => (standing.state, None, String::new()),
            Some(own) => self.revision(&name, own, chain, &standing),
        };
        SitePicture {
            state,
            wave: standing.wave,
            runs: runs(chain).map(str::to_owned),
            queue: chain.iter().filter(|one| one.is_queued()).count(),
            since,
            message,
            name: name.to_string(),
        }
    }

    fn revision(
        &self,
        name: &str,
        own: &SiteRevision,
        chain: &[SiteRevision],
        standing: &Standing<'_>,
    ) -> (SiteState, Option<Timestamp>, String) {
        let reported = &own.reported;
        let (state, message) = (standing.state, own.message().to_owned());
        if own.is_queued() {
            let is_held = is_first(own, chain) && reported.availability.is_some();
            let (state, message) = match state {
                SiteState::Queued if is_held => (SiteState::Window, message),
                SiteState::Queued => (state, message),
                _ => (state, String::new()),
            };
            return (state, reported.created, message);
        }
        if own.is_available() {
            return (state, reported.since, String::new());
        }
        if let Some(failing) = self.failing.iter().find(|failing| failing.name == name) {
            let why = why(&failing.reason, &failing.message);
            return (SiteState::Failed, reported.since, why);
        }
        match standing.failure {
            Some(failure) => {
                let text = if failure.reason == reasons::PROGRESS_DEADLINE_EXCEEDED {
                    let deadline = duration(self.lens.deadline.unsigned_abs());
                    format!("not available after {deadline}: {}", own.why())
                } else if reported.succeeded.is_some() {
                    format!("not available any more: {}", own.why())
                } else {
                    own.why()
                };
                (state, reported.since, text)
            }
            None if state == SiteState::Offline => (state, reported.since, message),
            None => (state, reported.started.or(reported.created), own.why()),
        }
    }
}

/// Whether no other version is ahead of a revision that waits.
fn is_first(own: &SiteRevision, chain: &[SiteRevision]) -> bool {
    let mut ahead = chain
        .iter()
        .filter(|one| one.number < own.number && !one.is_over());
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
    use baton_apis::SiteDeployment;

    use super::*;
    use crate::sites::fixtures::{Given, NOW, deployment};

    const ONLINE: Site = Site {
        is_placed: true,
        is_online: true,
        online_since: None,
        is_canary: false,
        chain: Vec::new(),
    };
    const OFFLINE: Site = Site {
        is_placed: true,
        is_online: false,
        online_since: None,
        is_canary: false,
        chain: Vec::new(),
    };

    fn judged(chain: &[Given], known: Site) -> SitePicture {
        let failing = [FailingSite {
            name: "listed".to_owned(),
            reason: "ProgressDeadlineExceeded".to_owned(),
            message: "too late".to_owned(),
        }];
        // Its second wave soaks.
        let mut deployment: SiteDeployment = serde_json::from_value(deployment("shop")).unwrap();
        deployment.spec.strategy.progress_deadline = Some("10m".to_owned());
        let mut status = deployment.status.unwrap();
        status.conditions[0].reason = reasons::SOAKING.to_owned();
        let rollout = Rollout {
            lens: Lens::reported(&deployment.spec, &status, NOW),
            failing: &failing,
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
    type Case<'a> = (Vec<Given>, Site, SiteState, Option<&'a str>, &'a str);

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
        let leaving = Site {
            is_placed: false,
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

    /// The manager gives it nothing, as there is nothing to give.
    #[test]
    fn a_site_that_has_the_version_from_an_earlier_rollout_is_updated() {
        let given = Given::new("eu-1", 1, "1.2.0").rollout(1, 1).started();
        let fine = judged(&[given.clone().available("True", "Available", "")], ONLINE);
        assert_eq!((fine.state, fine.wave), (SiteState::Updated, None));
        assert_eq!(judged(&[probes(given)], ONLINE).state, SiteState::InFlight);
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
