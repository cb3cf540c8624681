//! The stored state of a cluster, and the link that follows from it.

use std::{collections::BTreeMap, sync::Arc};

use baton_apis::{UpgradeWindow, conditions::Reason};
use baton_kubernetes::target::Target;
use baton_sites::uptime::Uptime;
use jiff::Timestamp;

use super::ClusterLink;

/// The facts about a cluster before this process has observed it.
#[derive(Default)]
pub(super) struct Before {
    /// Time since which the manager before this one was in touch with it.
    pub online_since: Option<Timestamp>,
    pub traits: ClusterAttributes,
    pub usage: Usage,
}

/// The parts of a Cluster on which decisions of others depend.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ClusterAttributes {
    pub labels: Arc<BTreeMap<String, String>>,
    pub windows: Arc<[UpgradeWindow]>,
}

/// The use of a cluster, by the UIDs of all clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Usage {
    /// Its UID has not been compared with the others yet.
    Undecided,
    #[default]
    InUse,
    /// It receives nothing.
    Refused {
        /// One line for people.
        message: String,
        since: Timestamp,
    },
}

pub(super) struct Entry {
    /// Number of the task that may change the entry. A task that was ended may still be running.
    pub id: u64,
    /// The observed link, also if the cluster is not to be used.
    pub link: ClusterLink,
    /// See [`super::InventorySite::uptime`].
    pub uptime: Uptime,
    /// Time since which the manager before this one was in touch with the cluster. `None` once this
    /// process has observed the cluster.
    pub online_before: Option<Timestamp>,
    /// The watched cluster, also while the link is down.
    pub target: Option<Target>,
    pub traits: ClusterAttributes,
    usage: Usage,
}

impl Entry {
    /// The entry of a cluster that this process has not observed yet.
    pub fn new(id: u64, link: ClusterLink, before: Before, now: Timestamp) -> Self {
        Self {
            id,
            link,
            uptime: Uptime::since(now),
            online_before: before.online_since,
            target: None,
            traits: before.traits,
            usage: before.usage,
        }
    }

    /// The link for deliveries: down if the cluster is not to be used.
    pub fn link(&self) -> ClusterLink {
        match (&self.usage, &self.link) {
            (Usage::Refused { message, since }, ClusterLink::Up(_) | ClusterLink::Pull(_)) => {
                ClusterLink::Down {
                    reason: Reason::UidRefused,
                    message: message.clone(),
                    since: *since,
                }
            }
            (Usage::Undecided, ClusterLink::Up(_)) => ClusterLink::Down {
                reason: Reason::Connecting,
                message: "its UID has not been compared with those of other Clusters yet"
                    .to_owned(),
                since: self.uptime.in_touch_since.unwrap_or_default(),
            },
            (_, link) => link.clone(),
        }
    }

    /// Sets the use of the cluster. True if it differs from the one before. A refusal begins now,
    /// unless the cluster is refused already.
    pub fn set_usage(&mut self, mut usage: Usage, now: Timestamp) -> bool {
        let before = match &self.usage {
            Usage::Refused { since, .. } => Some(*since),
            Usage::Undecided | Usage::InUse => None,
        };
        match &mut usage {
            Usage::Refused { since, .. } => *since = before.unwrap_or(now),
            // The deadlines of a site begin again, as after an outage.
            Usage::InUse if before.is_some() => self.uptime = Uptime::since(now),
            Usage::Undecided | Usage::InUse => {}
        }
        let changes = self.usage != usage;
        self.usage = usage;
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::Contact;

    /// The uses of a cluster with an agent, the link for deliveries, and the second since which the
    /// cluster is online.
    #[test]
    fn a_refused_cluster_is_down_since_the_first_refusal_and_then_begins_again() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let refused = |message: &str| Usage::Refused {
            message: message.to_owned(),
            since: Timestamp::UNIX_EPOCH,
        };
        let reported = ClusterLink::Pull(Contact::Reported);
        let mut entry = Entry::new(1, reported, Before::default(), at(0));
        for (usage, second, changes, link, online) in [
            (Usage::Undecided, 1, true, "Pull(reported)", 0),
            (Usage::InUse, 2, true, "Pull(reported)", 0),
            (refused("a"), 3, true, "Down(UidRefused: a) since 3", 0),
            (refused("a"), 4, false, "Down(UidRefused: a) since 3", 0),
            (refused("b"), 5, true, "Down(UidRefused: b) since 3", 0),
            (Usage::InUse, 6, true, "Pull(reported)", 6),
            (Usage::InUse, 7, false, "Pull(reported)", 6),
            (refused("c"), 8, true, "Down(UidRefused: c) since 8", 6),
        ] {
            assert_eq!(entry.set_usage(usage, at(second)), changes, "{second}");
            let found = match entry.link() {
                ClusterLink::Down { since, .. } => {
                    format!("{:?} since {}", entry.link(), since.as_second())
                }
                link => format!("{link:?}"),
            };
            assert_eq!(found, link, "{second}");
            assert_eq!(entry.uptime, Uptime::since(at(online)), "{second}");
        }
        let down = |reason| ClusterLink::Down {
            reason,
            message: "m".to_owned(),
            since: at(1),
        };
        // A cluster that cannot be reached is not reached for its own reason.
        entry.link = down(Reason::NoSecret);
        assert!(entry.link().is_same(&down(Reason::NoSecret)));
    }
}
