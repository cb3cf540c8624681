//! The chains of revisions that deployments have in sites: names, and the state of each revision.

use std::sync::Arc;

use baton_apis::conditions::{ARCHIVED, AVAILABLE, STARTED, SUCCEEDED, availability, reasons};
use baton_engine::{
    chain_names::{self, begin, short_hash},
    condition_list::{find, find_true, is_true},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::rollout::{RevisionStart, RevisionState};

/// The prefix that distinguishes these chains from those of Releases.
const MAKER: &str = "site-deployment/";
/// Maximum length of the readable part of a name.
///
/// With the hash and a number of four digits, a name has 37 characters. So the name of a phase
/// object that has to be a label has 25 characters left for the phase.
const READABLE: usize = 23;
/// The part of these characters for the name of the deployment, if both names are long.
const OF_DEPLOYMENT: usize = 11;

/// The label of the chain of a deployment in a site.
pub fn label(deployment: &str, site: &str) -> String {
    chain_names::label(MAKER, deployment, site)
}

/// The name of a revision of a chain, with its number.
///
/// # Guarantees
/// - A name has at most 33 characters plus those of the number. Two chains share names only if two
///   hashes of 32 bits are equal.
/// - A name is a DNS label that starts with a letter, because the names of phase objects start with
///   it. Names of deployments and sites may contain dots, and start with a digit.
pub fn revision_name(deployment: &str, site: &str, number: i64) -> String {
    let hash = &short_hash(&format!("{deployment}/{site}"))[..8];
    let deployment = after_a_letter(without_dots(deployment));
    let site = without_dots(site);
    let short = begin(
        &deployment,
        OF_DEPLOYMENT.max(READABLE.saturating_sub(site.len() + 1)),
    );
    let site = begin(&site, READABLE - short.len() - 1);
    format!("{short}-{site}-{hash}-{number}")
}

fn without_dots(name: &str) -> String {
    name.replace('.', "-")
}

fn after_a_letter(name: String) -> String {
    if name.starts_with(|c: char| c.is_ascii_lowercase()) {
        name
    } else {
        format!("d-{name}")
    }
}

/// The report of a revision of a site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reported {
    /// True if the revision is archived.
    pub is_archived: bool,
    /// The condition `Available` in one word: `Available` or the reason; `None` before the first
    /// report.
    pub availability: Option<&'static str>,
    /// Time of the last change of the status of that condition.
    pub since: Option<Timestamp>,
    /// Message of that condition, unless it is true.
    pub message: Option<Arc<str>>,
    /// Start time of the first phase.
    pub started: Option<Timestamp>,
    /// True if the first phase still waits until older workloads have stopped.
    pub is_stopping: bool,
    /// Time at which the revision was available for the first time.
    pub succeeded: Option<Timestamp>,
    /// Creation time of the revision.
    pub created: Option<Timestamp>,
}

impl Reported {
    /// Reads the conditions of a revision.
    #[must_use]
    pub fn of(conditions: &[Condition], created: Option<Timestamp>) -> Self {
        let since = |condition: &Condition| condition.last_transition_time.0;
        let available = find(conditions, AVAILABLE);
        let started = find_true(conditions, STARTED);
        Self {
            is_archived: is_true(conditions, ARCHIVED),
            availability: available.map(|it| availability(&it.status, &it.reason)),
            since: available.map(since),
            message: available
                .filter(|it| it.status != "True")
                .map(|it| it.message.as_str().into()),
            started: started.map(since),
            is_stopping: started.is_some_and(|it| it.reason == reasons::STOPPING),
            succeeded: find_true(conditions, SUCCEEDED).map(since),
            created,
        }
    }

    /// Reports if the revision has begun in its site, even if it is archived now.
    pub fn beginning(&self) -> RevisionStart {
        let is_available = self.availability == Some(AVAILABLE);
        if self.is_stopping {
            RevisionStart::Stopping
        } else if self.started.is_some() || self.succeeded.is_some() || is_available {
            RevisionStart::Begun
        } else {
            RevisionStart::None
        }
    }

    /// The state of the revision, in a site that has been online without interruption since
    /// `online_since`.
    ///
    /// After an outage of the site, a revision that was available before counts as available since
    /// then. If it is not available again yet, it has the same time for this as a revision that has
    /// just begun.
    pub fn state(&self, online_since: Option<Timestamp>) -> RevisionState {
        if self.is_archived {
            return RevisionState::Archived;
        }
        let is_of_return = self.is_of_return(online_since);
        // Every report has a time, and so has every object.
        let begun = self.started.or(self.since).or(self.created);
        let begun = begun.unwrap_or_default();
        match self.availability {
            Some(AVAILABLE) => {
                let before = self.succeeded.filter(|_| is_of_return);
                RevisionState::Available(before.or(self.since).unwrap_or(begun))
            }
            Some(reasons::CLUSTER_UNREACHABLE | reasons::LIST_FAILED) => RevisionState::Unknown,
            Some(reasons::SKIPPED) => RevisionState::Skipped,
            // The phases behind the first are queued as well, after the revision has begun.
            None | Some(reasons::QUEUED) if self.started.is_none() => RevisionState::Queued,
            Some(reason)
                if reasons::REFUSALS.contains(&reason)
                    || (self.succeeded.is_some() && !is_of_return) =>
            {
                RevisionState::Failing {
                    reason,
                    message: self.message.clone().unwrap_or_default(),
                }
            }
            None | Some(_) => RevisionState::Started {
                since: begun,
                message: self.message.clone(),
            },
        }
    }

    /// True if the present report began after the site was back, and the revision was available
    /// before. The effect of an outage is no error of the version.
    fn is_of_return(&self, online_since: Option<Timestamp>) -> bool {
        let times = (self.succeeded, online_since, self.since);
        matches!(times, (Some(succeeded), Some(back), Some(since)) if succeeded < back && back <= since)
    }
}

#[cfg(test)]
mod tests {
    use baton_engine::delegated::{self, Delegated, name_to_make};

    use baton_apis::conditions::reasons::{
        ARCHIVED, CLUSTER_UNREACHABLE, LIST_FAILED, PREFLIGHT_ERROR, PROBE_FAILURE, QUEUED,
        SKIPPED, STOPPING, WRITE_ERROR,
    };

    use super::*;

    #[test]
    fn names_are_short_and_differ_between_chains() {
        let long = "very-long-name-of-something".repeat(3);
        for (deployment, site, readable) in [
            ("web", "eu", "web-eu-"),
            ("web", &long, "web-very-long-name-of-s-"),
            (&long, "eu-1", "very-long-name-of-eu-1-"),
            (&long, &long, "very-long-n-very-long-n-"),
        ] {
            let name = revision_name(deployment, site, 7);
            assert!(name.starts_with(readable), "{name}");
            assert!(name.len() <= 34, "{name}");
            assert_ne!(name, revision_name(deployment, &format!("{site}x"), 7));
        }
        assert_ne!(revision_name("a-b", "c", 1), revision_name("a", "b-c", 1));
        assert_ne!(label("a-b", "c"), label("a", "b-c"));
    }

    /// In Kubernetes, the names of deployments and push clusters may be any DNS subdomain.
    #[test]
    fn phases_of_a_revision_can_be_named_after_it() {
        let long = "2024.till".repeat(7);
        for (deployment, site, readable) in [
            ("till", "edge-1.eu", "till-edge-1-eu-"),
            ("2024-till", "edge", "d-2024-till-edge-"),
            ("7", "9", "d-7-9-"),
            ("till.v2", "0.eu", "till-v2-0-eu-"),
            (&long, &long, "d-2024-till-2024-till20-"),
            ("web", "very-long-site-name.eu", "web-very-long-site-name-"),
        ] {
            for number in [1, i64::MAX] {
                let revision = revision_name(deployment, site, number);
                assert!(revision.starts_with(readable), "{revision}");
                for phase in ["a", &"p".repeat(63), "0-to-9"] {
                    let names = delegated::names(&revision, phase);
                    let phase_object = Delegated {
                        kind: "ObjectSetPhase",
                        name: name_to_make(&names, true).to_owned(),
                        class: "cluster.edge".to_owned(),
                        ..Delegated::default()
                    };
                    assert_eq!(phase_object.violation(), None);
                }
            }
        }
    }

    /// Existing revisions are found by their names.
    #[test]
    fn valid_names_are_not_changed() {
        for (deployment, site, expected) in [
            ("web", "eu", "web-eu-"),
            ("web-2", "1-edge", "web-2-1-edge-"),
            (
                "web",
                "a-site-that-is-cut-here.eu",
                "web-a-site-that-is-cut-",
            ),
        ] {
            let hash = &short_hash(&format!("{deployment}/{site}"))[..8];
            let name = revision_name(deployment, site, 3);
            assert_eq!(name, format!("{expected}{hash}-3"));
        }
    }

    /// An interrupted connection ends no healthy time, and a site that starts up has not failed
    /// yet.
    #[test]
    fn an_outage_does_not_end_healthy_time_or_cause_a_failure() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let text: Arc<str> = "why".into();
        let available = |since| RevisionState::Available(at(since));
        let failing = |reason| RevisionState::Failing {
            reason,
            message: text.clone(),
        };
        let booting = || RevisionState::Started {
            since: at(10),
            message: Some(text.clone()),
        };
        for (availability, succeeded, back, since, expected) in [
            // The outage came before the revision was available at all.
            (AVAILABLE, Some(60), 50, 60, available(60)),
            (PROBE_FAILURE, Some(60), 50, 70, failing(PROBE_FAILURE)),
            // The outage came after the revision was available, and the present report began after
            // the outage.
            (AVAILABLE, Some(20), 50, 50, available(20)),
            (AVAILABLE, Some(20), 50, 60, available(20)),
            (PROBE_FAILURE, Some(20), 50, 60, booting()),
            (PREFLIGHT_ERROR, Some(20), 50, 60, failing(PREFLIGHT_ERROR)),
            // The report began before the outage; a manager that restarts does not know of earlier
            // outages.
            (AVAILABLE, Some(20), 50, 40, available(40)),
            (PROBE_FAILURE, Some(20), 50, 40, failing(PROBE_FAILURE)),
            (PROBE_FAILURE, None, 50, 60, booting()),
        ] {
            let reported = Reported {
                availability: Some(availability),
                since: Some(at(since)),
                message: Some(text.clone()),
                started: Some(at(10)),
                succeeded: succeeded.map(at),
                ..Reported::default()
            };
            assert_eq!(
                reported.state(Some(at(back))),
                expected,
                "{availability} {succeeded:?} {back} {since}"
            );
        }
    }

    #[test]
    fn the_state_of_a_revision_follows_from_its_report() {
        let [one, two, three] = [1, 2, 3].map(|it| Timestamp::from_second(it).unwrap());
        let text: Arc<str> = "why".into();
        let report = |availability, started: Option<Timestamp>, has_succeeded: bool| Reported {
            availability,
            since: availability.map(|_| two),
            message: Some(text.clone()),
            started,
            succeeded: has_succeeded.then_some(one),
            created: Some(three),
            ..Reported::default()
        };
        let failing = |reason| RevisionState::Failing {
            reason,
            message: text.clone(),
        };
        let started = |since| RevisionState::Started {
            since,
            message: Some(text.clone()),
        };
        let archived = |started| Reported {
            is_archived: true,
            ..report(Some(ARCHIVED), started, false)
        };
        let available = RevisionState::Available(two);
        let (unreachable, unlisted) = (Some(CLUSTER_UNREACHABLE), Some(LIST_FAILED));
        for (reported, expected, is_begun) in [
            (report(None, None, false), RevisionState::Queued, false),
            (report(None, Some(one), false), started(one), true),
            (
                report(Some(QUEUED), None, false),
                RevisionState::Queued,
                false,
            ),
            (report(Some(QUEUED), Some(one), false), started(one), true),
            (
                report(Some(SKIPPED), None, false),
                RevisionState::Skipped,
                false,
            ),
            (report(Some(STOPPING), Some(one), false), started(one), true),
            (
                report(Some(AVAILABLE), Some(one), true),
                available.clone(),
                true,
            ),
            (report(Some(AVAILABLE), None, false), available, true),
            (
                report(unreachable, None, false),
                RevisionState::Unknown,
                false,
            ),
            (
                report(unreachable, Some(one), false),
                RevisionState::Unknown,
                true,
            ),
            // A site that was available before has not failed because of this.
            (
                report(unlisted, Some(one), true),
                RevisionState::Unknown,
                true,
            ),
            (
                report(Some(PROBE_FAILURE), Some(one), false),
                started(one),
                true,
            ),
            // No controller has checked the phases of the revision yet, or the hub accepts none.
            (
                report(Some(PROBE_FAILURE), None, false),
                started(two),
                false,
            ),
            (report(Some(WRITE_ERROR), None, false), started(two), false),
            (
                report(Some(PROBE_FAILURE), Some(one), true),
                failing(PROBE_FAILURE),
                true,
            ),
            (
                report(Some(PREFLIGHT_ERROR), None, false),
                failing(PREFLIGHT_ERROR),
                false,
            ),
            (archived(Some(one)), RevisionState::Archived, true),
            (archived(None), RevisionState::Archived, false),
        ] {
            assert_eq!(reported.state(None), expected, "{reported:?}");
            let expected = if is_begun {
                RevisionStart::Begun
            } else {
                RevisionStart::None
            };
            assert_eq!(reported.beginning(), expected, "{reported:?}");
        }
    }
}
