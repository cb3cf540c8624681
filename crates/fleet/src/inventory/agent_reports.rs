//! Publishes the state of a cluster from the reports of its agent.

use std::{collections::HashMap, sync::Arc, time::Duration};

use baton_apis::conditions::Reason;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use super::{ClusterLink, Shared, health::Health, text::excerpt};

/// Limit of the length of a message, in characters.
const MESSAGE: usize = 1_000;

/// Number of periods without a report after which an agent is lost.
const MISSED: u32 = 3;

/// The report of an agent about its API server: the version, or the reason that it cannot be
/// reached.
pub type AgentReport = Result<String, String>;

/// The last report of an agent.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Heartbeat {
    at: Instant,
    /// State of the API server, from this report or an earlier one.
    report: Option<AgentReport>,
}

/// The last reports of agents, by cluster, also of clusters that are not, or not yet, known.
#[derive(Default)]
pub(super) struct Heartbeats(Mutex<HashMap<String, watch::Sender<Option<Heartbeat>>>>);

impl Heartbeats {
    pub fn agent_reported(&self, cluster: &str, report: Option<AgentReport>) {
        let mut heartbeats = self.0.lock();
        let beat = heartbeats.entry(cluster.to_owned()).or_default();
        beat.send_modify(|beat| {
            let before = beat.take().and_then(|beat| beat.report);
            *beat = Some(Heartbeat {
                at: Instant::now(),
                report: report.or(before),
            });
        });
    }

    fn of(&self, cluster: &str) -> watch::Receiver<Option<Heartbeat>> {
        let mut heartbeats = self.0.lock();
        heartbeats
            .entry(cluster.to_owned())
            .or_default()
            .subscribe()
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
    let started = Instant::now();
    let silence = shared.heartbeat * MISSED;
    loop {
        let beat = heartbeats.borrow_and_update().clone();
        let deadline = beat.as_ref().map_or(started, |beat| beat.at) + silence;
        let now = health.borrow().clone();
        if let Some(now) = connection_state(
            now,
            beat.as_ref(),
            (Instant::now(), shared.clock.now()),
            silence,
            (started, was_known),
        ) {
            let link = ClusterLink::pull(&now);
            shared.publish((name, id), now, (link, None), &health);
        }
        let is_late = deadline <= Instant::now();
        tokio::select! {
            // The sender exists as long as `shared`.
            _ = heartbeats.changed() => {}
            () = sleep_until(deadline), if !is_late => {}
        }
    }
}

/// The state of a cluster by the last report since the start; `None` while there is none.
/// `was_known` is true if the agent reported before.
fn connection_state(
    before: Health,
    beat: Option<&Heartbeat>,
    (now, time): (Instant, Timestamp),
    silence: Duration,
    (started, was_known): (Instant, bool),
) -> Option<Health> {
    if now < beat.map_or(started, |beat| beat.at) + silence {
        return beat.map(|beat| match &beat.report {
            Some(Err(cause)) => {
                let text = format!("its agent cannot reach its API server: {cause}");
                before.disconnected(Reason::Unreachable, excerpt(&text, MESSAGE), time)
            }
            Some(Ok(version)) => before.answered(Some(version.clone()), time),
            None => before.answered(None, time),
        });
    }
    let text = if was_known || beat.is_some() {
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
        let shown = |beat: Option<(u64, Option<AgentReport>)>, now| {
            let beat = beat.map(|(second, report)| Heartbeat {
                at: at(second),
                report,
            });
            let time = Timestamp::UNIX_EPOCH;
            let first = Health::connecting(time);
            let now = (at(now), time);
            match connection_state(first, beat.as_ref(), now, silence, (started, true)) {
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
    fn a_heartbeat_without_a_report_keeps_the_last_report() {
        let heartbeats = Heartbeats::default();
        let beats = heartbeats.of("edge");
        let report = || beats.borrow().clone().and_then(|beat| beat.report);
        assert_eq!(report(), None);
        heartbeats.agent_reported("edge", Some(Err("refused".to_owned())));
        heartbeats.agent_reported("edge", None);
        assert_eq!(report(), Some(Err("refused".to_owned())));
        heartbeats.agent_reported("edge", Some(Ok("v1".to_owned())));
        heartbeats.agent_reported("other", Some(Ok("v2".to_owned())));
        assert_eq!(report(), Some(Ok("v1".to_owned())));
    }
}
