//! The agents that report for a cluster: the one that delivers, and another one with its name.
//!
//! This module does no I/O and reads no clock.

use std::time::Duration;

use baton_apis::conditions::Reason;
use tokio::time::Instant;

/// The report of an agent about its API server: the version, or the reason that it cannot be
/// reached.
pub type ServerReport = Result<String, String>;

/// A report of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentReport {
    /// State of its API server. Only heartbeats have it.
    pub server: Option<ServerReport>,
    /// Identity of the agent: its cluster, and its namespace there. Empty if the report is no
    /// heartbeat, or the agent does not know it.
    pub identity: String,
    /// State of the file in which the agent stores its state. Only heartbeats have it.
    pub file: Option<FileReport>,
}

/// The report of an agent about the file in which it stores its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileReport {
    /// True if the state is stored.
    pub is_stored: bool,
    /// Reason of the condition.
    pub reason: Reason,
    /// One line for people; empty if there is nothing to do.
    pub message: String,
}

/// The agents of a cluster, by their reports since the start of this process.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Agents {
    /// Identity of the agent that delivers; empty while it is unknown.
    pub first: String,
    /// Time of the last report of that agent, if there was one.
    pub last: Option<Instant>,
    /// State of its API server, from its last report or an earlier one.
    pub server: Option<ServerReport>,
    /// State of its file, from its last report or an earlier one.
    pub file: Option<FileReport>,
    /// Identity of another agent with its name, and the time of the last report of that one.
    second: Option<(String, Instant)>,
    started: Instant,
}

impl Agents {
    /// The state before the first report to a process that started then.
    pub fn new(started: Instant) -> Self {
        Self {
            first: String::new(),
            last: None,
            server: None,
            file: None,
            second: None,
            started,
        }
    }

    /// Notes a report. `noted` is the identity of the agent that delivers, as the process before this
    /// one has noted it.
    ///
    /// # Guarantees
    /// Another agent takes the place of the one that delivers only when that one has been silent for
    /// the time `silence`.
    pub fn report(
        &mut self,
        noted: Option<&str>,
        report: AgentReport,
        now: Instant,
        silence: Duration,
    ) {
        if self.first.is_empty() {
            noted.unwrap_or_default().clone_into(&mut self.first);
        }
        let AgentReport {
            server,
            identity,
            file,
        } = report;
        if !identity.is_empty() && identity != self.first {
            let is_silent = self.last.unwrap_or(self.started) + silence <= now;
            if !self.first.is_empty() && !is_silent {
                self.second = Some((identity, now));
                return;
            }
            self.first = identity;
            self.second = None;
        }
        self.last = Some(now);
        self.server = server.or(self.server.take());
        self.file = file.or(self.file.take());
    }

    /// The identity of another agent that reports now, and the time at which it counts as ended.
    pub fn second(&self, now: Instant, silence: Duration) -> Option<(&str, Instant)> {
        let (identity, last) = self.second.as_ref()?;
        let end = *last + silence;
        (now < end).then_some((identity, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENCE: Duration = Duration::from_secs(30);

    /// Reports as `second:identity`, and the resulting agents as `first/second` at the end.
    #[test]
    fn a_second_agent_waits_until_the_first_one_is_silent() {
        let started = Instant::now();
        for (noted, reports, expected) in [
            ("", "1:a 5:b", "a/b"),
            ("", "1:a 5:b 34:a", "a/b"),
            ("", "1:a 5:b 35:a", "a/-"),
            ("", "1:a 5:b 30:b", "a/b"),
            ("", "1:a 5:b 31:b", "b/-"),
            ("", "1:a 5:b 31:b 32:a", "b/a"),
            // A report without an identity is one of the agent that delivers.
            ("", "1:a 5: 31:b", "a/b"),
            ("", "1: 2:a", "a/-"),
            // A restarted manager waits for the agent that was noted.
            ("a", "1:b 29:b", "a/b"),
            ("a", "1:b 30:b", "b/-"),
            ("a", "1:a", "a/-"),
        ] {
            let mut agents = Agents::new(started);
            let mut now = started;
            for report in reports.split(' ') {
                let (second, identity) = report.split_once(':').unwrap();
                now = started + Duration::from_secs(second.parse().unwrap());
                let report = AgentReport {
                    identity: identity.to_owned(),
                    ..AgentReport::default()
                };
                let noted = Some(noted).filter(|noted| !noted.is_empty());
                agents.report(noted, report, now, SILENCE);
            }
            let second = agents.second(now, SILENCE).map_or("-", |(it, _)| it);
            assert_eq!(
                format!("{}/{second}", agents.first),
                expected,
                "{noted} {reports}"
            );
        }
    }

    #[test]
    fn a_second_agent_does_not_report_for_the_first_one() {
        let now = Instant::now();
        let mut agents = Agents::new(now);
        let report = |identity: &str, server: Option<&str>| AgentReport {
            server: server.map(|version| Ok(version.to_owned())),
            identity: identity.to_owned(),
            file: None,
        };
        agents.report(None, report("a", Some("v1")), now, SILENCE);
        let before = agents.clone();
        agents.report(None, report("b", Some("v2")), now, SILENCE);
        assert_eq!((agents.last, &agents.server), (before.last, &before.server));
        // A report without a state keeps the last one.
        agents.report(None, report("a", None), now + SILENCE / 2, SILENCE);
        assert_eq!(agents.server, Some(Ok("v1".to_owned())));
    }
}
