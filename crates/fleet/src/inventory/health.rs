//! The state of the connection to a cluster, and the status of the Cluster that reports it.
//!
//! This module does no I/O and reads no clock.

use baton_apis::{
    ClusterStatus,
    conditions::{CONNECTED, Reason, SECOND_AGENT, STATE_STORED, UNIQUE},
};
use baton_engine::{condition_list::find, stored_time::not_in_future};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::{agents::FileReport, text::excerpt};

/// Limit of the length of a version, in characters: a cluster may report any text.
const MAX_VERSION: usize = 100;
/// Age at which the time of the last contact in the status is updated, while nothing else changes.
const CONTACT_AGE: SignedDuration = SignedDuration::from_mins(5);

/// The state of the connection to a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ConnectionState {
    /// There is no response yet.
    Connecting,
    /// The cluster responds and accepts the credentials.
    Up,
    /// The cluster cannot be used.
    Down {
        /// Reason for the condition `Connected`.
        reason: Reason,
        message: String,
    },
}

/// Longest time since the last recorded contact after which a cluster counts as reached without a
/// break by the manager before this one. The contact is recorded when it is [`CONTACT_AGE`] old.
const GAP: SignedDuration = SignedDuration::from_mins(6);

/// Time since which the manager before this one was in touch with a cluster, if it was until now,
/// by the recorded status. A restart of the manager is no outage of the cluster, and neither is a clock
/// that went back meanwhile: the result is not in the future.
pub(super) fn online_before(recorded: &ClusterStatus, now: Timestamp) -> Option<Timestamp> {
    let contact = recorded.last_contact_time.as_ref()?;
    let condition = connected(recorded).filter(|it| it.status == "True")?;
    (now.duration_since(contact.0) < GAP).then(|| kept_time(condition, now).0)
}

/// The transition time of a condition whose status stays.
fn kept_time(before: &Condition, now: Timestamp) -> Time {
    Time(not_in_future(before.last_transition_time.0, now))
}

/// The observed state of the connection to a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Health {
    pub state: ConnectionState,
    /// Start of the state; for [`ConnectionState::Down`] its reason may have changed since.
    pub since: Timestamp,
    /// Time of the last response of the cluster, if there was one.
    contact: Option<Timestamp>,
    version: Option<String>,
    /// Time since which the cluster was down before this process started.
    down_before: Option<Timestamp>,
    /// The reports of the agent; `None` for a cluster without one, and before its first report.
    pub agent: Option<AgentHealth>,
    /// The report about other clusters with the UID of this one. `None` while that is unknown: the
    /// recorded state stays.
    pub twins: Option<UidReport>,
}

/// The report about other clusters with the UID of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct UidReport {
    /// One line for people; empty if there are no others.
    pub message: String,
    pub is_refused: bool,
}

impl UidReport {
    /// Reason of the condition.
    pub fn reason(&self) -> Reason {
        if self.is_refused {
            Reason::UidRefused
        } else {
            Reason::UidInUse
        }
    }
}

/// The reports of an agent beside the state of its connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AgentHealth {
    /// Message about another agent with the name of the cluster, while one reports.
    pub second: Option<String>,
    /// State of the agent's file. `None` if there is no report since the start of this process: the
    /// recorded state stays.
    pub file: Option<FileReport>,
}

impl AgentHealth {
    /// The conditions, with a transition time in `now` unless they were recorded with this status.
    fn conditions(&self, recorded: &[Condition], now: Timestamp) -> Vec<Condition> {
        let condition = |type_: &str, is_true: bool, reason: Reason, message: &str| {
            let status = if is_true { "True" } else { "False" };
            let before = find(recorded, type_).filter(|before| before.status == status);
            Condition {
                type_: type_.to_owned(),
                status: status.to_owned(),
                reason: reason.to_string(),
                message: message.to_owned(),
                observed_generation: None,
                last_transition_time: before.map_or(Time(now), |before| kept_time(before, now)),
            }
        };
        let second = self.second.as_deref();
        let second = second.map(|text| condition(SECOND_AGENT, true, Reason::AgentRefused, text));
        let file = self.file.as_ref();
        let file = file.map(|it| condition(STATE_STORED, it.is_stored, it.reason, &it.message));
        let kept = file
            .is_none()
            .then(|| find(recorded, STATE_STORED).cloned());
        second
            .into_iter()
            .chain(file)
            .chain(kept.flatten())
            .collect()
    }
}

impl Health {
    /// The state before the first response; `recorded` is the earlier status of the Cluster.
    pub fn first(recorded: &ClusterStatus, now: Timestamp) -> Self {
        let condition = connected(recorded);
        let is_down = condition.filter(|condition| condition.status == "False");
        Self {
            down_before: is_down.map(|condition| condition.last_transition_time.0),
            ..Self::connecting(now)
        }
    }

    /// The state before the first response from another address.
    pub fn connecting(now: Timestamp) -> Self {
        Self {
            state: ConnectionState::Connecting,
            since: now,
            contact: None,
            version: None,
            down_before: None,
            agent: None,
            twins: None,
        }
    }

    /// The state after a response, which may contain the version.
    pub fn answered(self, version: Option<String>, now: Timestamp) -> Self {
        let was_up = self.state == ConnectionState::Up;
        let version = version.map(|version| excerpt(&version, MAX_VERSION));
        Self {
            state: ConnectionState::Up,
            since: if was_up { self.since } else { now },
            contact: Some(now),
            version: version.or(self.version),
            down_before: None,
            agent: self.agent,
            twins: self.twins,
        }
    }

    /// The state after a loss of the cluster.
    pub fn disconnected(self, reason: Reason, message: String, now: Timestamp) -> Self {
        let was_down = matches!(self.state, ConnectionState::Down { .. });
        let since = if was_down {
            self.since
        } else {
            self.down_before.unwrap_or(now)
        };
        Self {
            state: ConnectionState::Down { reason, message },
            since,
            down_before: None,
            ..self
        }
    }

    /// The condition about other clusters with the UID of this one; `None` if there are none.
    fn unique(&self, recorded: &ClusterStatus, now: Timestamp) -> Option<Condition> {
        let before = find(&recorded.conditions, UNIQUE);
        let Some(report) = &self.twins else {
            return before.cloned();
        };
        let since = before.filter(|before| before.status == "False");
        (!report.message.is_empty()).then(|| Condition {
            type_: UNIQUE.to_owned(),
            status: "False".to_owned(),
            reason: report.reason().to_string(),
            message: report.message.clone(),
            observed_generation: None,
            last_transition_time: since.map_or(Time(now), |before| kept_time(before, now)),
        })
    }

    /// The status that should replace `recorded`; `None` if it is up to date.
    ///
    /// While there is no response yet, the recorded state stays: a starting manager has observed
    /// nothing new.
    pub fn status_update(&self, recorded: &ClusterStatus, now: Timestamp) -> Option<ClusterStatus> {
        let before = connected(recorded);
        let (status, reason, message) = match &self.state {
            ConnectionState::Connecting if before.is_some() => return None,
            ConnectionState::Connecting => ("Unknown", Reason::Connecting, ""),
            ConnectionState::Up => ("True", Reason::Connected, ""),
            ConnectionState::Down { reason, message } => ("False", *reason, message.as_str()),
        };
        let same_status = before.filter(|before| before.status == status);
        let condition = Condition {
            type_: CONNECTED.to_owned(),
            status: status.to_owned(),
            reason: reason.to_string(),
            message: message.to_owned(),
            observed_generation: None,
            last_transition_time: same_status
                .map_or(Time(self.since), |before| kept_time(before, now)),
        };
        let version = self.version.clone().or(recorded.server_version.clone());
        let contact_is_old = self.contact.is_some_and(|contact| {
            let written = recorded.last_contact_time.as_ref();
            self.state == ConnectionState::Up
                && written.is_none_or(|written| contact.duration_since(written.0) >= CONTACT_AGE)
                // A time from a clock that was ahead does not stay forever.
                || written.is_some_and(|written| written.0.duration_since(now) >= CONTACT_AGE)
        });
        let own = [CONNECTED, SECOND_AGENT, STATE_STORED, UNIQUE];
        let others = recorded
            .conditions
            .iter()
            .filter(|it| !own.contains(&&*it.type_));
        let agent = self.agent.as_ref();
        let agent = agent.map(|agent| agent.conditions(&recorded.conditions, now));
        let agent = agent
            .into_iter()
            .flatten()
            .chain(self.unique(recorded, now));
        let mut conditions: Vec<_> = others.cloned().chain([condition]).chain(agent).collect();
        sort(&mut conditions);
        let mut written = recorded.conditions.clone();
        sort(&mut written);
        if conditions == written && version == recorded.server_version && !contact_is_old {
            return None;
        }
        Some(ClusterStatus {
            in_service: recorded.in_service,
            conditions,
            last_contact_time: self
                .contact
                .map(Time)
                .or(recorded.last_contact_time.clone()),
            server_version: version,
        })
    }
}

fn sort(conditions: &mut [Condition]) {
    conditions.sort_by(|a, b| a.type_.cmp(&b.type_));
}

fn connected(status: &ClusterStatus) -> Option<&Condition> {
    find(&status.conditions, CONNECTED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    /// The status as the API server stores it: in whole seconds.
    fn stored(status: &ClusterStatus) -> ClusterStatus {
        serde_json::from_str(&serde_json::to_string(status).unwrap()).unwrap()
    }

    fn text_of(status: &ClusterStatus) -> String {
        let seconds = |time: &Time| time.0.as_second() - at(0).as_second();
        let condition = connected(status).unwrap();
        format!(
            "{}/{} {:?} since {} contact {:?} version {:?}",
            condition.status,
            condition.reason,
            condition.message,
            seconds(&condition.last_transition_time),
            status.last_contact_time.as_ref().map(seconds),
            status.server_version,
        )
    }

    /// Replays a history; each step has the second and the written status, if any.
    #[test]
    fn only_changes_are_written() {
        type Step = fn(Health, Timestamp) -> Health;
        let up: Step = |health, now| health.answered(Some("v1".to_owned()), now);
        let mute: Step = |health, now| health.answered(None, now);
        let down: Step =
            |health, now| health.disconnected(Reason::Unreachable, "refused".to_owned(), now);
        let other: Step =
            |health, now| health.disconnected(Reason::NoSecret, "none".to_owned(), now);
        let moved: Step = |_, now| Health::connecting(now);
        let restart: Step = |health, _| health;
        let table: [(Step, i64, &str); 16] = [
            (
                restart,
                0,
                r#"Unknown/Connecting "" since 0 contact None version None"#,
            ),
            (restart, 1, ""),
            (
                up,
                2,
                r#"True/Connected "" since 2 contact Some(2) version Some("v1")"#,
            ),
            (up, 32, ""),
            (mute, 299, ""),
            (
                up,
                302,
                r#"True/Connected "" since 2 contact Some(302) version Some("v1")"#,
            ),
            (up, 332, ""),
            (
                down,
                362,
                r#"False/Unreachable "refused" since 362 contact Some(332) version Some("v1")"#,
            ),
            (down, 363, ""),
            (
                other,
                364,
                r#"False/NoSecret "none" since 362 contact Some(332) version Some("v1")"#,
            ),
            (other, 9_000, ""),
            (
                up,
                9_001,
                r#"True/Connected "" since 9001 contact Some(9001) version Some("v1")"#,
            ),
            (moved, 9_002, ""),
            (up, 9_003, ""),
            (moved, 9_004, ""),
            (
                down,
                9_005,
                r#"False/Unreachable "refused" since 9005 contact Some(9001) version Some("v1")"#,
            ),
        ];
        let mut health = Health::first(&ClusterStatus::default(), at(0));
        let mut status = ClusterStatus::default();
        for (number, (step, second, expected)) in table.into_iter().enumerate() {
            health = step(health, at(second));
            let due = health.status_update(&status, at(second));
            let written = due.as_ref().map(text_of).unwrap_or_default();
            assert_eq!(written, expected, "step {number}");
            status = due.as_ref().map_or(status, stored);
        }
    }

    /// Conditions as `type=status/reason`.
    #[test]
    fn the_reports_of_an_agent_are_conditions() {
        let file = |is_stored, reason| {
            Some(FileReport {
                is_stored,
                reason,
                message: "m".to_owned(),
            })
        };
        let agent = |second: Option<&str>, file| {
            let second = second.map(ToOwned::to_owned);
            Some(AgentHealth { second, file })
        };
        let mut status = ClusterStatus::default();
        let up = Health::first(&status, at(0)).answered(None, at(0));
        let failed = "StateStored=False/StateNotWritten";
        for (second, reported, expected) in [
            (0, agent(None, None), ""),
            (
                1,
                agent(None, file(true, Reason::StateWritten)),
                "StateStored=True/StateWritten",
            ),
            (2, agent(None, file(false, Reason::StateNotWritten)), failed),
            // A restarted manager knows no report yet.
            (3, agent(None, None), failed),
            (
                4,
                agent(Some("b"), None),
                &format!("SecondAgent=True/AgentRefused {failed}"),
            ),
            (
                5,
                agent(None, file(true, Reason::StateWritten)),
                "StateStored=True/StateWritten",
            ),
            // The manager connects now.
            (6, None, ""),
        ] {
            let health = Health {
                agent: reported,
                ..up.clone()
            };
            if let Some(due) = health.status_update(&status, at(second)) {
                status = stored(&due);
            }
            assert_eq!(
                health.status_update(&status, at(second + 1)),
                None,
                "{second}"
            );
            let own = status.conditions.iter().filter(|it| it.type_ != CONNECTED);
            let own = own.map(|it| format!("{}={}/{}", it.type_, it.status, it.reason));
            assert_eq!(own.collect::<Vec<_>>().join(" "), expected, "{second}");
        }
    }

    /// The report at a second, and the written condition as `reason: message since second`.
    #[test]
    fn a_shared_uid_is_a_condition_while_it_is_shared() {
        let mut status = ClusterStatus::default();
        let up = Health::first(&status, at(0)).answered(None, at(0));
        let report = |message: &str, is_refused| {
            Some(UidReport {
                message: message.to_owned(),
                is_refused,
            })
        };
        for (second, twins, expected) in [
            (0, None, None),
            (1, report("", false), None),
            (2, report("as b", false), Some("UidInUse: as b since 2")),
            (3, report("as c", false), Some("UidInUse: as c since 2")),
            // A restarted manager does not know the UIDs yet.
            (4, None, Some("UidInUse: as c since 2")),
            (5, report("", false), None),
            (6, report("as b", true), Some("UidRefused: as b since 6")),
        ] {
            let health = Health {
                twins,
                ..up.clone()
            };
            if let Some(due) = health.status_update(&status, at(second)) {
                status = stored(&due);
            }
            let again = health.status_update(&status, at(second + 1));
            assert_eq!(again, None, "{second}");
            let found = find(&status.conditions, UNIQUE).map(|it| {
                assert_eq!(it.status, "False");
                let since = it.last_transition_time.0.as_second() - at(0).as_second();
                format!("{}: {} since {since}", it.reason, it.message)
            });
            assert_eq!(found.as_deref(), expected, "{second}");
        }
    }

    #[test]
    fn a_version_is_one_short_line() {
        let fresh = Health::first(&ClusterStatus::default(), at(0));
        let up = fresh.answered(Some("v1\n".repeat(1_000)), at(1));
        let written = up.status_update(&ClusterStatus::default(), at(1)).unwrap();
        let version = written.server_version.unwrap();
        assert!(version.starts_with("v1 v1 ") && version.len() <= MAX_VERSION + 3);
    }

    #[test]
    fn a_short_absence_of_the_manager_is_no_outage() {
        let up = Health::first(&ClusterStatus::default(), at(0)).answered(None, at(1));
        let up = up.status_update(&ClusterStatus::default(), at(1)).unwrap();
        assert_eq!(online_before(&up, at(300)), Some(at(1)));
        assert_eq!(online_before(&up, at(361)), None);
        assert_eq!(
            online_before(&up, at(-3600)),
            Some(at(-3600)),
            "the clock went back"
        );
        let down = Health::first(&up, at(2));
        let down = down.disconnected(Reason::Unreachable, String::new(), at(3));
        let down = down.status_update(&up, at(3)).unwrap();
        assert_eq!(online_before(&down, at(4)), None);
        assert_eq!(online_before(&ClusterStatus::default(), at(4)), None);
    }

    #[test]
    fn an_unchanged_cluster_causes_no_write_after_a_restart() {
        let fresh = Health::first(&ClusterStatus::default(), at(0));
        let up = fresh.clone().answered(Some("v1".to_owned()), at(1));
        let up = stored(&up.status_update(&ClusterStatus::default(), at(1)).unwrap());
        let again = Health::first(&up, at(100));
        assert_eq!(again.status_update(&up, at(100)), None);
        let again = again.answered(Some("v1".to_owned()), at(101));
        assert_eq!(again.status_update(&up, at(101)), None);

        let down = fresh.disconnected(Reason::Unreachable, "refused".to_owned(), at(1));
        let down = stored(
            &down
                .status_update(&ClusterStatus::default(), at(1))
                .unwrap(),
        );
        let again = Health::first(&down, at(100));
        assert_eq!(again.status_update(&down, at(100)), None);
        let again = again.disconnected(Reason::Unreachable, "refused".to_owned(), at(101));
        assert_eq!(again.since, at(1));
        assert_eq!(again.status_update(&down, at(101)), None);
    }

    #[test]
    fn conditions_of_other_writers_are_kept_and_sorted() {
        let other = |type_: &str| Condition {
            type_: type_.to_owned(),
            status: "True".to_owned(),
            reason: "Given".to_owned(),
            message: String::new(),
            observed_generation: None,
            last_transition_time: Time(at(0)),
        };
        let recorded = ClusterStatus {
            in_service: Some(true),
            conditions: vec![other("Audited"), other("Zoned")],
            ..ClusterStatus::default()
        };
        let health = Health::first(&recorded, at(0)).answered(None, at(0));
        let due = health.status_update(&recorded, at(0)).unwrap();
        let types: Vec<&str> = due.conditions.iter().map(|c| c.type_.as_str()).collect();
        assert_eq!(types, ["Audited", "Connected", "Zoned"]);
        assert_eq!(due.in_service, Some(true));
    }

    #[test]
    fn a_contact_time_in_the_future_is_corrected() {
        let health = Health::first(&ClusterStatus::default(), at(0)).answered(None, at(9_000));
        let ahead = health
            .status_update(&ClusterStatus::default(), at(9_000))
            .unwrap();
        let health = Health::first(&ahead, at(0)).answered(None, at(1));
        let due = health.status_update(&ahead, at(1)).unwrap();
        assert_eq!(due.last_contact_time, Some(Time(at(1))));
    }
}
