//! Of several agents with one name, the hub accepts one.

use std::mem;

use baton_apis::constants::ANNOTATION_AGENT;
use baton_records::phase::PhaseRecord;
use tokio::sync::watch;
use tracing::{error, info};

/// The decision of the hub on this agent.
pub(crate) struct Acceptance {
    /// Name of the agent's cluster.
    cluster: String,
    /// Identity of this agent; empty if it is unknown.
    identity: String,
    /// False while the hub names another agent as the one that delivers.
    is_accepted: watch::Sender<bool>,
}

impl Acceptance {
    /// The state before the first observation of the hub.
    pub(super) fn new(cluster: &str, identity: &str) -> Self {
        Self {
            cluster: cluster.to_owned(),
            identity: identity.to_owned(),
            is_accepted: watch::Sender::new(true),
        }
    }

    /// Identity of this agent; empty if it is unknown.
    pub(crate) fn identity(&self) -> &str {
        &self.identity
    }

    /// A channel that is false while the hub refuses this agent: another one with its name delivers.
    pub(crate) fn subscribe(&self) -> watch::Receiver<bool> {
        self.is_accepted.subscribe()
    }

    /// True while the hub refuses this agent.
    pub(crate) fn is_refused(&self) -> bool {
        !*self.is_accepted.borrow()
    }

    /// Compares the identity that the hub has noted on the heartbeat object with that of this agent.
    pub(super) fn note(&self, heartbeat: Option<&PhaseRecord>) {
        let noted = heartbeat.and_then(|it| it.annotations.get(ANNOTATION_AGENT));
        let other = noted.filter(|it| !self.identity.is_empty() && **it != self.identity);
        let is_accepted = other.is_none();
        let is_new = |before: &mut bool| mem::replace(before, is_accepted) != is_accepted;
        if !self.is_accepted.send_if_modified(is_new) {
            return;
        }
        let cluster = &self.cluster;
        if let Some(other) = other {
            let own = &self.identity;
            error!(
                cluster,
                other,
                own,
                "another agent delivers for the cluster, so that this one is refused and changes nothing; end one of \
                 them, or join its cluster under another name"
            );
        } else {
            info!(cluster, "the hub accepts this agent");
        }
    }
}
