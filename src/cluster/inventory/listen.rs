//! Waits to hear of an agent, and tells how it stands with its cluster.

use std::{collections::HashMap, sync::Arc, time::Duration};

use baton_apis::conditions::reasons;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use super::{Link, Shared, health::Health, text::excerpt};

/// The longest message, in characters.
const MESSAGE: usize = 1_000;

/// An agent that was not heard of for so many of its periods is lost.
const MISSED: u32 = 3;

/// What an agent says of its API server: the version, or why it cannot reach it.
pub type Word = Result<String, String>;

/// When an agent was heard of last.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Beat {
    at: Instant,
    /// What it said last, if anything.
    word: Option<Word>,
}

/// What was heard of agents, by cluster. Also of clusters that are not known, or not yet.
#[derive(Default)]
pub(super) struct Beats(Mutex<HashMap<String, watch::Sender<Option<Beat>>>>);

impl Beats {
    pub fn heard(&self, cluster: &str, word: Option<Word>) {
        let mut beats = self.0.lock();
        let beat = beats.entry(cluster.to_owned()).or_default();
        beat.send_modify(|beat| {
            let before = beat.take().and_then(|beat| beat.word);
            *beat = Some(Beat {
                at: Instant::now(),
                word: word.or(before),
            });
        });
    }

    fn of(&self, cluster: &str) -> watch::Receiver<Option<Beat>> {
        let mut beats = self.0.lock();
        beats.entry(cluster.to_owned()).or_default().subscribe()
    }
}

/// Tells how it stands with a cluster for as long as anybody wants to know. `was_known`: its agent was
/// heard of before this process was started.
pub(super) async fn run(
    shared: Arc<Shared>,
    (name, id): (&str, u64),
    was_known: bool,
    health: watch::Sender<Health>,
) {
    let mut beats = shared.beats.of(name);
    let started = Instant::now();
    let silence = shared.heartbeat * MISSED;
    loop {
        let beat = beats.borrow_and_update().clone();
        let deadline = beat.as_ref().map_or(started, |beat| beat.at) + silence;
        let now = health.borrow().clone();
        if let Some(now) = standing(
            now,
            beat.as_ref(),
            Instant::now(),
            silence,
            (started, was_known),
        ) {
            let link = Link::pull(&now);
            shared.tell((name, id), now, (link, None), &health);
        }
        let is_late = deadline <= Instant::now();
        tokio::select! {
            // The sender lives as long as `shared`.
            _ = beats.changed() => {}
            () = sleep_until(deadline), if !is_late => {}
        }
    }
}

/// How it stands with a cluster when its agent was heard of like this since the start; `None` while there
/// is nothing to say. `was_known`: it was heard of before.
fn standing(
    before: Health,
    beat: Option<&Beat>,
    now: Instant,
    silence: Duration,
    (started, was_known): (Instant, bool),
) -> Option<Health> {
    let time = Timestamp::now();
    if now < beat.map_or(started, |beat| beat.at) + silence {
        return beat.map(|beat| match &beat.word {
            Some(Err(cause)) => {
                let text = format!("its agent cannot reach its API server: {cause}");
                before.lost(reasons::UNREACHABLE, excerpt(&text, MESSAGE), time)
            }
            Some(Ok(version)) => before.answered(Some(version.clone()), time),
            None => before.answered(None, time),
        });
    }
    let text = if was_known || beat.is_some() {
        let seconds = silence.as_secs();
        format!(
            "nothing was heard of its agent for {seconds} s; is it running, and can it reach this cluster?"
        )
    } else {
        "nothing was heard of an agent yet; `baton cluster join --pull` makes what it needs"
            .to_owned()
    };
    Some(before.lost(reasons::AGENT_SILENT, text, time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::inventory::health::Standing;

    #[test]
    fn an_agent_is_lost_when_it_is_silent() {
        let started = Instant::now();
        let silence = Duration::from_secs(30);
        let at = |seconds| started + Duration::from_secs(seconds);
        let shown = |beat: Option<(u64, Option<Word>)>, now| {
            let beat = beat.map(|(second, word)| Beat {
                at: at(second),
                word,
            });
            let first = Health::connecting(Timestamp::now());
            match standing(first, beat.as_ref(), at(now), silence, (started, true)) {
                None => "nothing",
                Some(health) => match health.standing {
                    Standing::Connecting => "connecting",
                    Standing::Up => "up",
                    Standing::Down { reason, .. } => reason,
                },
            }
        };
        let version = || Some(Ok("v1.36.3".to_owned()));
        let fault = || Some(Err("refused".to_owned()));
        assert_eq!(shown(None, 29), "nothing");
        assert_eq!(shown(None, 30), "AgentSilent");
        assert_eq!(shown(Some((20, None)), 49), "up");
        assert_eq!(shown(Some((20, version())), 49), "up");
        assert_eq!(shown(Some((20, version())), 50), "AgentSilent");
        assert_eq!(shown(Some((20, fault())), 49), "Unreachable");
        assert_eq!(shown(Some((20, fault())), 50), "AgentSilent");
    }

    #[test]
    fn a_word_holds_until_the_next_one() {
        let beats = Beats::default();
        let told = beats.of("edge");
        let word = || told.borrow().clone().and_then(|beat| beat.word);
        assert_eq!(word(), None);
        beats.heard("edge", Some(Err("refused".to_owned())));
        beats.heard("edge", None);
        assert_eq!(word(), Some(Err("refused".to_owned())));
        beats.heard("edge", Some(Ok("v1".to_owned())));
        beats.heard("other", Some(Ok("v2".to_owned())));
        assert_eq!(word(), Some(Ok("v1".to_owned())));
    }
}
