//! Clusters whose API servers have one UID: they are one cluster under several names, or one of them
//! reports a false UID.
//!
//! They are reported. No delivery depends on it, unless the administrator requires unique clusters:
//! then the oldest Cluster with a UID is used, and the others receive nothing. This is not the
//! default, as users join one API server under several names on purpose.
//!
//! One task compares the UIDs of all clusters, at most once per second. A text stays while it is true,
//! so that a cluster that joins or leaves causes few writes to the status of the others.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use baton_apis::{
    ClusterStatus,
    conditions::{Reason, UNIQUE},
};
use baton_engine::condition_list::find;
use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::Condition};
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    time::{sleep, timeout},
};

use super::{entry::Usage, health::UidReport};

/// The namespace whose UID is that of a cluster.
const SYSTEM_NAMESPACE: &str = "kube-system";
/// Limit of the time in which a cluster has to return its UID.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Time after a start in which most clusters are connected. Before it, a cluster might appear to be
/// the only one with its UID.
const SETTLE: Duration = Duration::from_secs(10);
/// Time between two comparisons.
const PERIOD: Duration = Duration::from_secs(1);
/// Number of other clusters that a text names.
const NAMED: usize = 3;
/// Limit of the length of a UID.
const MAX_UID: usize = 100;
/// The name of the hub among the clusters.
const HUB: &str = "";

/// The clusters by age, each with the time of its creation. The hub comes first.
type Group<'a> = BTreeSet<(Timestamp, &'a str)>;
/// The results of a comparison, by cluster. Clusters with an unknown UID have none.
pub(super) type Results = HashMap<String, Twin>;

/// The UIDs of all clusters.
pub(super) struct Twins {
    /// True if only the oldest cluster with a UID is used.
    is_required: bool,
    clusters: Mutex<HashMap<String, Joined>>,
    changed: Notify,
    results: watch::Sender<Arc<Results>>,
}

/// A cluster, or the hub.
struct Joined {
    created: Timestamp,
    uid: Uid,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Uid {
    /// The cluster has not answered yet.
    Unknown,
    /// The cluster has returned none, for instance because the right is missing.
    Unreadable,
    Known(String),
}

/// The result of a comparison for a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Twin {
    /// Others with its UID, at most [`NAMED`]. Of a refused cluster, the first one is in use.
    others: Vec<String>,
    role: Role,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Role {
    /// Its use does not depend on its UID.
    #[default]
    Any,
    /// It is used instead of the others.
    Oldest,
    /// It receives nothing.
    Refused,
}

impl Twins {
    /// No clusters yet.
    pub fn new(is_required: bool) -> Self {
        Self {
            is_required,
            clusters: Mutex::default(),
            changed: Notify::new(),
            results: watch::Sender::default(),
        }
    }

    /// Adds a cluster, or replaces one, with a UID that is not known yet. Returns its use until then:
    /// one that was refused by its recorded status stays so.
    pub fn add(&self, cluster: &str, created: Timestamp, recorded: &ClusterStatus) -> Usage {
        let joined = Joined {
            created,
            uid: Uid::Unknown,
        };
        self.clusters.lock().insert(cluster.to_owned(), joined);
        self.changed.notify_one();
        match refusal(recorded) {
            Some(before) if self.is_required => Usage::Refused {
                message: before.message.clone(),
                since: before.last_transition_time.0,
            },
            _ => self.undecided(),
        }
    }

    /// The use of a cluster while its UID is unknown.
    pub fn undecided(&self) -> Usage {
        if self.is_required {
            Usage::Undecided
        } else {
            Usage::InUse
        }
    }

    /// Sets the UID of the hub.
    pub fn set_hub(&self, uid: &str) {
        self.add(HUB, Timestamp::MIN, &ClusterStatus::default());
        self.set(HUB, Some(uid));
    }

    /// Sets the UID that a cluster has returned. `None`, or a text that is no UID, does not replace
    /// one that is known.
    pub fn set(&self, cluster: &str, uid: Option<&str>) {
        let mut clusters = self.clusters.lock();
        let Some(joined) = clusters.get_mut(cluster) else {
            return;
        };
        let now = match uid.filter(|uid| is_uid(uid)) {
            Some(uid) => Uid::Known(uid.to_owned()),
            None if joined.uid == Uid::Unknown => Uid::Unreadable,
            None => return,
        };
        if joined.uid != now {
            joined.uid = now;
            self.changed.notify_one();
        }
    }

    /// Forgets the UID of a cluster. False if it is unknown already: then a recorded refusal stays.
    pub fn forget(&self, cluster: &str) -> bool {
        let mut clusters = self.clusters.lock();
        let joined = clusters.get_mut(cluster);
        let Some(joined) = joined.filter(|joined| joined.uid != Uid::Unknown) else {
            return false;
        };
        joined.uid = Uid::Unknown;
        self.changed.notify_one();
        true
    }

    /// Removes a cluster that does not exist any more.
    pub fn remove(&self, cluster: &str) {
        self.clusters.lock().remove(cluster);
        self.changed.notify_one();
    }

    /// A channel that changes with the results of [`Twins::report`].
    pub fn subscribe(&self) -> watch::Receiver<Arc<Results>> {
        self.results.subscribe()
    }

    /// The report about a cluster; `None` while its UID is unknown. A refusal in the recorded status
    /// ends at once if clusters need not be unique.
    pub fn report(&self, cluster: &str, recorded: &ClusterStatus) -> Option<UidReport> {
        let known = self.results.borrow().get(cluster).map(Twin::report);
        let ends = !self.is_required && refusal(recorded).is_some();
        known.or_else(|| ends.then(UidReport::default))
    }

    /// Compares the UIDs whenever one has changed, forever. Calls `apply` with the use of each
    /// cluster; it must not block.
    pub async fn run(&self, apply: impl Fn(&str, Usage)) {
        sleep(SETTLE).await;
        loop {
            let before = self.results.borrow().clone();
            let now = {
                // With the lock, as the UID of a cluster may be forgotten at any time.
                let clusters = self.clusters.lock();
                let now = compare(&clusters, &before, self.is_required);
                if self.is_required {
                    for (name, twin) in &now {
                        apply(name, twin.usage());
                    }
                }
                now
            };
            if now != *before {
                self.results.send_replace(Arc::new(now));
            }
            self.changed.notified().await;
            sleep(PERIOD).await;
        }
    }
}

impl Twin {
    fn report(&self) -> UidReport {
        UidReport {
            message: self.message(),
            is_refused: self.role == Role::Refused,
        }
    }

    fn usage(&self) -> Usage {
        match self.role {
            Role::Any | Role::Oldest => Usage::InUse,
            Role::Refused => Usage::Refused {
                message: self.message(),
                since: Timestamp::default(),
            },
        }
    }

    fn message(&self) -> String {
        let Some(first) = self.others.first() else {
            return String::new();
        };
        let named = |name: &String| match name.as_str() {
            HUB => "the hub".to_owned(),
            name => format!("Cluster \"{name}\""),
        };
        let list: Vec<_> = self.others.iter().map(named).collect();
        let end = match self.role {
            Role::Any => "Deliveries are not changed by it".to_owned(),
            Role::Oldest => "This Cluster is the oldest of them, and stays in use".to_owned(),
            Role::Refused if first == HUB => "It receives nothing".to_owned(),
            Role::Refused => format!("It receives nothing, as {} is older", list[0]),
        };
        format!(
            "its API server has the UID of {}: they are one cluster under several names, or one of them reports a \
             false UID. {end}",
            list.join(", ")
        )
    }
}

/// The condition by which a cluster receives nothing.
fn refusal(recorded: &ClusterStatus) -> Option<&Condition> {
    let condition = find(&recorded.conditions, UNIQUE)?;
    (condition.reason == Reason::UidRefused.as_str()).then_some(condition)
}

/// Reads the UID of a cluster: one request. `None` if the cluster does not return it in time, or the
/// right is missing.
pub(super) async fn read(client: Client) -> Option<String> {
    let namespaces: Api<Namespace> = Api::all(client);
    let read = timeout(TIMEOUT, namespaces.get_metadata(SYSTEM_NAMESPACE));
    read.await.ok()?.ok()?.metadata.uid
}

fn is_uid(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
    (1..=MAX_UID).contains(&text.len()) && text.chars().all(is_part)
}

/// The others of each cluster. Those of before stay while all of them still have the UID, and the
/// first one, if it is used instead of this cluster, still is the oldest.
fn compare(clusters: &HashMap<String, Joined>, before: &Results, is_required: bool) -> Results {
    let mut groups: HashMap<&str, Group<'_>> = HashMap::new();
    for (name, joined) in clusters {
        if let Uid::Known(uid) = &joined.uid {
            groups
                .entry(uid)
                .or_default()
                .insert((joined.created, name));
        }
    }
    let twin = |name: &str, uid: &Uid| {
        let Uid::Known(uid) = uid else {
            return Twin::default();
        };
        let group = &groups[&**uid];
        let oldest = group.first().map_or(HUB, |(_, oldest)| oldest);
        let role = match (is_required && group.len() > 1, oldest == name) {
            (false, _) => Role::Any,
            (true, true) => Role::Oldest,
            (true, false) => Role::Refused,
        };
        let has_uid = |other: &String| {
            let other = clusters
                .get(other)
                .map(|joined| (joined.created, other.as_str()));
            other.is_some_and(|other| group.contains(&other))
        };
        let is_true = |others: &&Vec<String>| {
            others
                .first()
                .is_some_and(|first| role != Role::Refused || first == oldest)
                && others.iter().all(has_uid)
        };
        let others = before
            .get(name)
            .map(|twin| &twin.others)
            .filter(is_true)
            .cloned();
        let others = others.unwrap_or_else(|| {
            let others = group.iter().filter(|(_, other)| *other != name).take(NAMED);
            others.map(|(_, other)| (*other).to_owned()).collect()
        });
        Twin { others, role }
    };
    let clusters = clusters
        .iter()
        .filter(|(name, joined)| *name != HUB && joined.uid != Uid::Unknown);
    let results = clusters.map(|(name, joined)| (name.clone(), twin(name, &joined.uid)));
    results.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Clusters from texts `name=uid`, all created at one time.
    fn joined(text: &str) -> HashMap<String, Joined> {
        let known = text
            .split_whitespace()
            .map(|it| it.split_once('=').unwrap());
        let known = known.map(|(name, uid)| {
            let created = if name == HUB { Timestamp::MIN } else { at(0) };
            let uid = Uid::Known(uid.to_owned());
            (name.to_owned(), Joined { created, uid })
        });
        known.collect()
    }

    /// Clusters as `name=uid` and the others that are named for each as `name:others`.
    #[test]
    fn clusters_with_one_uid_are_named() {
        let mut before = Results::new();
        for (uids, expected) in [
            ("", ""),
            ("a=1 b=2", "a: b:"),
            ("a=1 b=1 c=2", "a:b b:a c:"),
            // A text stays while it is true.
            ("a=1 b=1 c=1 d=1 e=1", "a:b b:a c:a,b,d d:a,b,c e:a,b,c"),
            ("a=1 c=1 d=1 e=1", "a:c,d,e c:a,d,e d:a,c,e e:a,c,d"),
            ("a=1 c=2", "a: c:"),
            // The hub comes first, and has no condition itself.
            ("=1 a=1 b=1 c=2", "a:,b b:,a c:"),
            ("=1 a=2 b=2 c=2", "a:b,c b:a,c c:a,b"),
        ] {
            before = compare(&joined(uids), &before, false);
            let mut found: Vec<_> = before
                .iter()
                .map(|(name, twin)| format!("{name}:{}", twin.others.join(",")))
                .collect();
            found.sort();
            assert_eq!(found.join(" "), expected, "{uids}");
        }
    }

    /// All histories of two states of the hub and three clusters: each is created at one of two times,
    /// and has one of two UIDs or none that can be read.
    #[test]
    fn of_the_clusters_with_one_uid_only_the_oldest_is_used() {
        const NAMES: [&str; 4] = [HUB, "a", "b", "c"];
        let states: Vec<HashMap<String, Joined>> = (0..3_usize.pow(4) * 8)
            .map(|number| {
                let joined = |(place, name): (usize, &&str)| {
                    let uid = match number / 8 / 3_usize.pow(u32::try_from(place).unwrap()) % 3 {
                        0 => Uid::Unreadable,
                        uid => Uid::Known(uid.to_string()),
                    };
                    let created = match place {
                        0 => Timestamp::MIN,
                        place => at(i64::from(number >> (place - 1) & 1 == 1)),
                    };
                    ((*name).to_owned(), Joined { created, uid })
                };
                NAMES.iter().enumerate().map(joined).collect()
            })
            .collect();
        let check = |state: &HashMap<String, Joined>, before: &Results| {
            let found = compare(state, before, true);
            for name in &NAMES[1..] {
                let own = &state[*name];
                let has_uid =
                    |other: &&&str| own.uid != Uid::Unreadable && state[**other].uid == own.uid;
                let mut all: Vec<_> = NAMES.iter().filter(has_uid).collect();
                all.sort_by_key(|other| (state[**other].created, **other));
                let role = match all.iter().position(|other| *other == name) {
                    _ if all.len() < 2 => Role::Any,
                    Some(0) => Role::Oldest,
                    _ => Role::Refused,
                };
                let twin = &found[*name];
                assert_eq!(twin.role, role, "{name}: {found:?}");
                assert_eq!(twin.others.is_empty(), role == Role::Any);
                assert!(
                    twin.others
                        .iter()
                        .all(|other| all.contains(&&&**other) && other != name)
                );
                let refuses = matches!(twin.usage(), Usage::Refused { .. });
                assert_eq!(refuses, role == Role::Refused);
                assert!(!refuses || twin.others[0] == **all[0], "{found:?}");
            }
            found
        };
        for (number, before) in states.iter().enumerate() {
            let before = check(before, &Results::new());
            for after in states.iter().skip(number % 8).step_by(8) {
                check(after, &before);
            }
        }
    }

    #[test]
    fn a_text_names_clusters_and_the_use() {
        for (others, role, start, end) in [
            (&[][..], Role::Any, "", ""),
            (
                &[HUB, "b"],
                Role::Any,
                "the hub, Cluster \"b\": they",
                "UID. Deliveries are not changed by it",
            ),
            (
                &["b"],
                Role::Oldest,
                "Cluster \"b\": they",
                "UID. This Cluster is the oldest of them, and stays in use",
            ),
            (
                &["b", "c"],
                Role::Refused,
                "Cluster \"b\", Cluster \"c\": they",
                "UID. It receives nothing, as Cluster \"b\" is older",
            ),
            (
                &[HUB],
                Role::Refused,
                "the hub: they",
                "UID. It receives nothing",
            ),
        ] {
            let others = others.iter().map(ToString::to_string).collect();
            let text = Twin { others, role }.message();
            let rest = text
                .strip_prefix("its API server has the UID of ")
                .unwrap_or_default();
            assert!(rest.starts_with(start) && text.ends_with(end), "{text}");
        }
    }

    /// 10,000 clusters: half of them on one server.
    #[test]
    fn many_clusters_are_compared_in_linear_time() {
        let uid = |number: usize| if number.is_multiple_of(2) { 0 } else { number };
        let uids: Vec<_> = (0..10_000).map(|n| format!("c{n}={}", uid(n))).collect();
        let clusters = joined(&uids.join(" "));
        let first = compare(&clusters, &Results::new(), true);
        assert_eq!(first["c9998"].others, ["c0", "c10", "c100"]);
        assert!(first["c9999"].others.is_empty());
        assert_eq!(compare(&clusters, &first, true), first);
    }

    #[tokio::test(start_paused = true)]
    async fn only_changes_are_published_and_a_known_uid_stays() {
        let twins = Twins::new(true);
        let status = ClusterStatus::default();
        let message = |cluster| Some(twins.report(cluster, &status)?.message);
        let mut published = twins.subscribe();
        for cluster in ["a", "b"] {
            assert_eq!(twins.add(cluster, at(0), &status), Usage::Undecided);
        }
        twins.set("a", Some("1"));
        let usages = Mutex::new(HashMap::new());
        let apply = |name: &str, usage| drop(usages.lock().insert(name.to_owned(), usage));
        let steps = async {
            assert_eq!(message("a"), None, "it is not known yet");
            published.changed().await.unwrap();
            assert_eq!(message("a").as_deref(), Some(""));
            assert_eq!(message("b"), None);
            assert_eq!(usages.lock().get("b"), None);
            twins.set("a", Some("1"));
            sleep(PERIOD * 5).await;
            assert!(!published.has_changed().unwrap());
            twins.set("b", Some("1"));
            published.changed().await.unwrap();
            assert!(message("a").unwrap().contains("Cluster \"b\""));
            assert_eq!(usages.lock()["a"], Usage::InUse);
            assert!(matches!(usages.lock()["b"], Usage::Refused { .. }));
            for text in [None, Some("1 2"), Some(&*"1".repeat(101))] {
                twins.set("b", text);
            }
            sleep(PERIOD * 5).await;
            assert!(!published.has_changed().unwrap());
            twins.remove("a");
            published.changed().await.unwrap();
            assert_eq!(message("b").as_deref(), Some(""));
            assert_eq!(usages.lock()["b"], Usage::InUse);
            assert!(twins.forget("b") && !twins.forget("b"));
            published.changed().await.unwrap();
            assert_eq!(message("b"), None);
        };
        tokio::select! {
            () = twins.run(apply) => {}
            () = steps => {}
        }
    }

    /// The recorded refusal counts until the UID is known, unless clusters need not be unique.
    #[test]
    fn a_refused_cluster_stays_refused_over_a_restart() {
        let mut status = ClusterStatus::default();
        let text = r#"{"type": "Unique", "status": "False", "reason": "UidRefused", "message": "m",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}"#;
        status.conditions.push(serde_json::from_str(text).unwrap());
        let since = status.conditions[0].last_transition_time.0;
        let message = "m".to_owned();
        let required = Twins::new(true);
        assert_eq!(
            required.add("a", at(0), &status),
            Usage::Refused { message, since }
        );
        assert_eq!(required.report("a", &status), None);
        let optional = Twins::new(false);
        assert_eq!(optional.add("a", at(0), &status), Usage::InUse);
        assert_eq!(optional.report("a", &status), Some(UidReport::default()));
    }
}
