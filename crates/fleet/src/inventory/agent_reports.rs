//! Publishes the state of a cluster from the reports of its agent.

use std::{collections::HashMap, sync::Arc, time::Duration};

use baton_apis::conditions::Reason;
use baton_runtime::pace::Pace;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};

use super::{
    ClusterLink, Shared,
    agents::{AgentReport, Agents},
    health::{AgentHealth, Health},
    text::excerpt,
};

/// Limit of the length of a message, in characters.
const MESSAGE: usize = 1_000;

/// Number of periods without a report after which an agent is lost.
const MISSED: u32 = 3;

/// The agents that report, by cluster, also of clusters that are not, or not yet, known.
pub(super) struct Heartbeats {
    clusters: Mutex<HashMap<String, watch::Sender<Agents>>>,
    started: Instant,
    silence: Duration,
}

impl Heartbeats {
    /// No reports yet; agents report once in a period.
    pub fn new(period: Duration) -> Self {
        Self {
            clusters: Mutex::default(),
            started: Instant::now(),
            silence: period * MISSED,
        }
    }

    /// Notes a report. `noted` is the identity of the agent that delivers, as noted before.
    pub fn agent_reported(&self, cluster: &str, noted: Option<&str>, report: AgentReport) {
        self.with(cluster, |agents| {
            agents.send_modify(|agents| {
                agents.report(noted, report, Instant::now(), self.silence);
            });
        });
    }

    /// Identity of the agent that delivers; empty while it is unknown.
    pub fn agent(&self, cluster: &str) -> String {
        self.with(cluster, |agents| agents.borrow().first.clone())
    }

    fn of(&self, cluster: &str) -> watch::Receiver<Agents> {
        self.with(cluster, watch::Sender::subscribe)
    }

    fn with<T>(&self, cluster: &str, use_it: impl FnOnce(&watch::Sender<Agents>) -> T) -> T {
        let mut clusters = self.clusters.lock();
        if let Some(agents) = clusters.get(cluster) {
            return use_it(agents);
        }
        let agents = watch::Sender::new(Agents::new(self.started));
        use_it(clusters.entry(cluster.to_owned()).or_insert(agents))
    }
}

/// Publishes the state of a cluster until it is dropped. `was_known` is true if the agent reported
/// before this process started.
pub(super) async fn run(
    shared: Arc<Shared>,
    (name, id): (&str, u64),
    was_known: bool,
    health: watch::Sender<Health>,
) {
    let mut heartbeats = shared.heartbeats.of(name);
    // Anybody with the token of the agent may report in a loop, and each state may be written to the
    // Cluster and wake all of its phases.
    let pace = Pace::default();
    let started = Instant::now();
    let silence = shared.heartbeats.silence;
    loop {
        let agents = heartbeats.borrow_and_update().clone();
        let instant = Instant::now();
        let lost = agents.last.unwrap_or(started) + silence;
        let second = agents.second(instant, silence);
        let now = health.borrow().clone();
        if let Some(mut now) = connection_state(
            now,
            &agents,
            (instant, shared.clock.now()),
            silence,
            (started, was_known),
        ) {
            // Only heartbeats have an identity.
            if agents.server.is_some() {
                let uid = agents.first.split_once('/').map(|(uid, _)| uid);
                shared.twins.set(name, uid);
            }
            let second = second.map(|(identity, _)| identity);
            now.agent = Some(agent_health(&agents, second));
            let link = ClusterLink::pull(&now);
            shared.publish((name, id), now, (link, None), &health);
        }
        let ends = [Some(lost), second.map(|(_, end)| end)];
        let next = ends
            .into_iter()
            .flatten()
            .filter(|end| *end > instant)
            .min();
        tokio::select! {
            // The sender exists as long as `shared`.
            _ = heartbeats.changed() => sleep(pace.delay((), shared.clock.instant())).await,
            () = sleep_until(next.unwrap_or(instant)), if next.is_some() => {}
        }
    }
}

/// The reports that the status of the Cluster shows beside the state of the connection.
fn agent_health(agents: &Agents, second: Option<&str>) -> AgentHealth {
    let second = second.map(|identity| {
        let text = format!(
            "an agent in another cluster or namespace ({identity}) has the name of this cluster, and is refused; it \
             delivers nothing. End it, or join its cluster under another name. If it is to replace the agent {}, end \
             that one",
            agents.first
        );
        excerpt(&text, MESSAGE)
    });
    let mut file = agents.file.clone();
    if let Some(file) = &mut file {
        file.message = excerpt(&file.message, MESSAGE);
    }
    AgentHealth { second, file }
}

/// The state of a cluster by the last report since the start; `None` while there is none.
/// `was_known` is true if the agent reported before.
fn connection_state(
    before: Health,
    agents: &Agents,
    (now, time): (Instant, Timestamp),
    silence: Duration,
    (started, was_known): (Instant, bool),
) -> Option<Health> {
    if now < agents.last.unwrap_or(started) + silence {
        agents.last?;
        return Some(match &agents.server {
            Some(Err(cause)) => {
                let text = format!("its agent cannot reach its API server: {cause}");
                before.disconnected(Reason::Unreachable, excerpt(&text, MESSAGE), time)
            }
            Some(Ok(version)) => before.answered(Some(version.clone()), time),
            None => before.answered(None, time),
        });
    }
    let text = if was_known || agents.last.is_some() {
        let seconds = silence.as_secs();
        format!(
            "its agent has not reported for {seconds} s; check that it runs and can reach this cluster"
        )
    } else {
        "no agent has reported yet; run `baton cluster join --pull` to set one up".to_owned()
    };
    Some(before.disconnected(Reason::AgentSilent, text, time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::health::ConnectionState;

    #[test]
    fn an_agent_without_a_recent_heartbeat_is_lost() {
        let started = Instant::now();
        let silence = Duration::from_secs(30);
        let at = |seconds| started + Duration::from_secs(seconds);
        let shown = |beat: Option<(u64, Option<Result<String, String>>)>, now| {
            let mut agents = Agents::new(started);
            if let Some((second, server)) = beat {
                let report = AgentReport {
                    server,
                    ..AgentReport::default()
                };
                agents.report(None, report, at(second), silence);
            }
            let time = Timestamp::UNIX_EPOCH;
            let first = Health::connecting(time);
            let now = (at(now), time);
            match connection_state(first, &agents, now, silence, (started, true)) {
                None => "nothing",
                Some(health) => match health.state {
                    ConnectionState::Connecting => "connecting",
                    ConnectionState::Up => "up",
                    ConnectionState::Down { reason, .. } => reason.as_str(),
                },
            }
        };
        let version = || Some(Ok("v1.36.3".to_owned()));
        let failure = || Some(Err("refused".to_owned()));
        assert_eq!(shown(None, 29), "nothing");
        assert_eq!(shown(None, 30), "AgentSilent");
        assert_eq!(shown(Some((20, None)), 49), "up");
        assert_eq!(shown(Some((20, version())), 49), "up");
        assert_eq!(shown(Some((20, version())), 50), "AgentSilent");
        assert_eq!(shown(Some((20, failure())), 49), "Unreachable");
        assert_eq!(shown(Some((20, failure())), 50), "AgentSilent");
    }

    #[test]
    fn each_cluster_has_its_own_agents() {
        let heartbeats = Heartbeats::new(Duration::from_mins(1));
        let report = |identity: &str| AgentReport {
            identity: identity.to_owned(),
            ..AgentReport::default()
        };
        heartbeats.agent_reported("edge", None, report("a"));
        heartbeats.agent_reported("other", None, report("b"));
        assert_eq!(heartbeats.agent("edge"), "a");
        assert_eq!(heartbeats.agent("other"), "b");
        assert_eq!(heartbeats.agent("none"), "");
    }
}
