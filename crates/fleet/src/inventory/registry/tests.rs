use std::collections::BTreeSet;
use std::time::Duration;

use baton_apis::conditions::Reason;
use http::Uri;
use jiff::Timestamp;
use kube::Config;
use parking_lot::{Mutex, RwLock};
use serde_json::{Value, json};
use tokio::{
    sync::{Semaphore, mpsc},
    time::{Instant, sleep},
};

use super::*;
use crate::inventory::Contact;
use crate::inventory::agents::AgentReport;
use baton_kubernetes::client::instrumented_client;
use baton_kubernetes::collection::Extent;
use baton_kubernetes::fence::Fence;
use baton_kubernetes::request_metrics::RequestMetrics;
use baton_kubernetes::target::{Target, Watcher};
use baton_runtime::clock::Clock;

/// A registry without an API server, and the names that it reported as changed. Its clock follows
/// tokio's, and starts at the beginning of 1970.
fn registry() -> (Registry, Arc<Mutex<Vec<String>>>) {
    // Nothing listens on the port of a dropped listener.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url: Uri = format!("http://{}", listener.local_addr().unwrap())
        .parse()
        .unwrap();
    drop(listener);
    let metrics = RequestMetrics::default();
    let changes = Arc::new(Mutex::new(Vec::new()));
    let names = Arc::clone(&changes);
    let started = Instant::now();
    let clock = Clock::new(move || {
        (
            Timestamp::UNIX_EPOCH + started.elapsed(),
            started.into_std(),
        )
    });
    let shared = Shared {
        hub: instrumented_client(Config::new(url), &metrics, &Fence::closed()).unwrap(),
        namespace: "baton-system".to_owned(),
        metrics,
        fence: Fence::closed(),
        children: Watcher {
            events: mpsc::unbounded_channel().0,
            is_owner: Arc::new(|_| false),
        },
        changed: Box::new(move |name| names.lock().push(name.to_owned())),
        heartbeat: Duration::from_mins(1),
        is_strict: false,
        heartbeats: crate::inventory::Heartbeats::new(Duration::from_mins(1)),
        links: RwLock::default(),
        created: clock.now(),
        clock,
        requested_early: Mutex::new(Some(BTreeSet::new())),
        permits: Semaphore::new(1),
        extent: watch::Sender::new(Extent::Nothing),
        leading: watch::Sender::new(false),
        twins: crate::inventory::Twins::new(false),
    };
    (Registry::new(Arc::new(shared)), changes)
}

fn raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap()
}

fn cluster(name: &str, uid: &str, spec: &Value) -> Box<RawValue> {
    raw(&json!({
        "metadata": {"name": name, "uid": uid, "resourceVersion": "7"},
        "spec": spec,
    }))
}

fn push(address: &str) -> Value {
    json!({"region": "eu", "apiMaster": address})
}

fn pull() -> Value {
    json!({"region": "eu", "connection": "Pull"})
}

fn link(registry: &Registry, name: &str) -> String {
    let links = registry.shared.links.read();
    links
        .get(name)
        .map_or_else(|| "none".to_owned(), |entry| format!("{:?}", entry.link))
}

const DONE: Event<'_> = Event::ListDone {
    resource_version: 9,
};
const FIRST: &str = "Down(Connecting: there is no answer yet)";

#[tokio::test]
async fn links_follow_the_watch_of_clusters() {
    let (mut registry, changes) = registry();
    let a = cluster("a", "1", &push("https://a"));
    let b = cluster("b", "2", &pull());
    let b_push = cluster("b", "2", &push("https://b"));
    let a_again = cluster("a", "3", &pull());
    let steps = [
        (Event::ListStarted, "none", "none", ""),
        (Event::Failed("busy"), "none", "none", ""),
        (Event::ListStarted, "none", "none", ""),
        (Event::Listed(&a), FIRST, "none", "a"),
        // The list failed half-way.
        (Event::ListStarted, FIRST, "none", ""),
        (Event::Listed(&a), FIRST, "none", ""),
        (Event::Listed(&b), FIRST, "Pull", "b"),
        (DONE, FIRST, "Pull", ""),
        (Event::Upsert(&b), FIRST, "Pull", ""),
        (Event::Upsert(&b_push), FIRST, FIRST, "b"),
        (Event::Upsert(&b), FIRST, "Pull", "b"),
        (Event::Failed("forbidden"), FIRST, "Pull", ""),
        (Event::Deleted(&b), FIRST, "none", "b"),
        (Event::Upsert(&a_again), "Pull", "none", "a"),
        (Event::ListStarted, "Pull", "none", ""),
        (Event::Listed(&b), "Pull", "Pull", "b"),
        (DONE, "none", "Pull", "a"),
        (Event::Unserved, "none", "none", "b"),
    ];
    for (number, (event, a, b, changed)) in steps.into_iter().enumerate() {
        let extent = registry.shared.extent.borrow().clone();
        registry.cluster_event(&event);
        assert_eq!(link(&registry, "a"), a, "step {number}");
        assert_eq!(link(&registry, "b"), b, "step {number}");
        assert_eq!(
            changes.lock().drain(..).collect::<Vec<_>>().join(" "),
            changed
        );
        let expected = match event {
            Event::ListDone { .. } => Extent::All,
            // After the first list the watch fails, and is resumed.
            Event::Failed(cause) if extent != Extent::All => Extent::Unavailable(cause.into()),
            _ => extent,
        };
        assert_eq!(*registry.shared.extent.borrow(), expected, "step {number}");
    }
}

/// A name requested before the list is complete is reported if the list lacks it.
#[tokio::test]
async fn a_missing_cluster_is_unknown_only_after_the_list_is_complete() {
    const EARLY: &str = "Down(Connecting: the Clusters have not been listed yet)";
    let (mut registry, changes) = registry();
    let ask = |registry: &Registry, name| format!("{:?}", registry.shared.link(name));
    registry.cluster_event(&Event::Failed("forbidden"));
    assert_eq!(ask(&registry, "a"), EARLY);
    assert_eq!(ask(&registry, "ghost"), EARLY);
    registry.cluster_event(&Event::ListStarted);
    registry.cluster_event(&Event::Listed(&cluster("a", "1", &pull())));
    assert_eq!(ask(&registry, "a"), "Pull");
    assert_eq!(ask(&registry, "b"), EARLY);
    registry.cluster_event(&DONE);
    assert_eq!(*changes.lock(), ["a", "b", "ghost"]);
    assert_eq!(ask(&registry, "ghost"), "Unknown");
    registry.cluster_event(&Event::ListStarted);
    registry.cluster_event(&DONE);
    assert_eq!(*changes.lock(), ["a", "b", "ghost", "a"]);
    assert_eq!(ask(&registry, "a"), "Unknown");
}

/// The agent of the cluster `a` reports.
fn reported(registry: &Registry) {
    let report = AgentReport {
        server: Some(Ok("v1.36.3".to_owned())),
        ..AgentReport::default()
    };
    registry.shared.heartbeats.agent_reported("a", None, report);
}

#[tokio::test(start_paused = true)]
async fn an_agent_is_lost_since_the_end_of_its_third_period() {
    let (mut registry, _) = registry();
    registry.cluster_event(&Event::Upsert(&cluster("a", "1", &pull())));
    sleep(Duration::from_secs(100)).await;
    reported(&registry);
    sleep(Duration::from_secs(1_000)).await;
    let link = registry.shared.link("a");
    let ClusterLink::Pull(Contact::Lost { since, .. }) = link else {
        panic!("{link:?}");
    };
    assert_eq!(since.as_second(), 100 + 3 * 60);
}

/// A cluster may be reachable before its agent has reported; after a report it certainly is.
#[tokio::test(start_paused = true)]
async fn a_cluster_is_online_since_its_last_loss_of_contact() {
    let (mut registry, _) = registry();
    let since = |registry: &Registry| {
        let links = registry.shared.links.read();
        links["a"].uptime.online_since.map(Timestamp::as_second)
    };
    sleep(Duration::from_secs(10)).await;
    registry.cluster_event(&Event::Upsert(&cluster("a", "1", &pull())));
    assert_eq!(since(&registry), Some(10));
    sleep(Duration::from_secs(20)).await;
    // The pauses between reports, and the time since which the cluster is online after each. A
    // pause of three minutes loses it.
    for (pause, expected) in [(0, 30), (100, 30), (100, 30), (1_000, 1_230)] {
        sleep(Duration::from_secs(pause)).await;
        reported(&registry);
        sleep(Duration::from_millis(1)).await;
        assert_eq!(since(&registry), Some(expected));
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_is_in_touch_since_the_end_of_its_last_outage() {
    let (registry, _) = registry();
    let shared = &registry.shared;
    let target = Target::new(shared.hub.clone(), shared.children.clone());
    let down = || ClusterLink::Down {
        reason: Reason::Unreachable,
        message: String::new(),
        since: Timestamp::UNIX_EPOCH,
    };
    shared.insert("a", 1, down(), Before::default());
    let mut times = Vec::new();
    for link in [
        down(),
        ClusterLink::Up(target.clone()),
        ClusterLink::Up(target.clone()),
        down(),
        ClusterLink::Up(target),
    ] {
        sleep(Duration::from_secs(100)).await;
        shared.set("a", 1, link, None);
        sleep(Duration::from_secs(1)).await;
        let since = shared.uptime("a").and_then(|uptime| uptime.in_touch_since);
        times.push(since.map(Timestamp::as_second));
    }
    assert_eq!(times, [None, Some(201), Some(201), None, Some(504)]);
}

#[tokio::test]
async fn there_are_no_clusters_without_their_definition() {
    let (mut registry, _) = registry();
    registry.cluster_event(&Event::Unserved);
    assert_eq!(*registry.shared.extent.borrow(), Extent::All);
}

#[tokio::test]
async fn a_task_sees_the_version_of_its_own_secret_only() {
    let (mut registry, _) = registry();
    registry.cluster_event(&Event::Upsert(&cluster("a", "1", &push("https://a"))));
    let secret = |name: &str, version: &str| {
        raw(&json!({"metadata": {"name": name, "resourceVersion": version}}))
    };
    let version = |registry: &Registry| {
        let serving = &registry.entries["a"].serving;
        serving.wanted.borrow().secret
    };
    let (mine, newer, other) = (secret("a", "3"), secret("a", "5"), secret("b", "4"));
    for (event, expected) in [
        (Event::ListStarted, 0),
        (Event::Listed(&other), 0),
        (Event::Listed(&mine), 0),
        (DONE, 3),
        (Event::Upsert(&other), 3),
        (Event::Upsert(&newer), 5),
        // The Secret was deleted while it was not watched.
        (Event::ListStarted, 5),
        (Event::Listed(&other), 5),
        (DONE, 9),
        (Event::Deleted(&newer), 5),
    ] {
        registry.secret_event(&event);
        assert_eq!(version(&registry), expected, "{event:?}");
        assert!(!registry.secrets_listed.contains_key("b"));
    }
}

#[tokio::test]
async fn a_secret_that_cannot_be_read_is_reported_in_the_link() {
    let (mut registry, _) = registry();
    registry.cluster_event(&Event::Upsert(&cluster("a", "1", &push("https://a"))));
    let health = registry.shared.clone();
    let failed = async {
        while link(&registry, "a") == FIRST {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), failed)
        .await
        .unwrap();
    let links = health.links.read();
    let link = &links["a"].link;
    let ClusterLink::Down {
        reason, message, ..
    } = link
    else {
        panic!("{link:?}");
    };
    assert_eq!(*reason, Reason::NoSecret);
    assert!(
        message.starts_with("cannot read Secret baton-system/a: no answer from the API server")
            && message.contains("Connection refused"),
        "{message}"
    );
}

#[test]
fn the_readable_fields_of_a_malformed_cluster_are_used() {
    let read = |spec: &Value| Cluster::read(&cluster("a", "1", spec)).unwrap();
    for (spec, connection, api_master) in [
        (json!({}), ClusterConnection::Push, ""),
        (
            json!({"apiMaster": null, "connection": null, "capabilities": null}),
            ClusterConnection::Push,
            "",
        ),
        (
            json!({"apiMaster": "https://a", "scheduler": 7}),
            ClusterConnection::Push,
            "https://a",
        ),
        (pull(), ClusterConnection::Pull, ""),
    ] {
        let read = read(&spec);
        assert_eq!(read.connection, connection, "{spec}");
        assert_eq!(read.api_master, Ok(api_master.to_owned()), "{spec}");
        assert_eq!(read.recorded.version, 7);
    }
    let error = read(&json!({"connection": "Carrier pigeon"}))
        .api_master
        .unwrap_err();
    assert!(
        error.contains("unknown variant a value, expected `Push` or `Pull`"),
        "{error}"
    );
    assert_eq!(Cluster::read(&raw(&json!({"spec": {}}))), None);
    let odd_status = raw(&json!({"metadata": {"name": "a"}, "status": {"conditions": 7}}));
    assert_eq!(
        Cluster::read(&odd_status).unwrap().recorded.status,
        ClusterStatus::default()
    );
}

/// Known objects stay, and missing ones may exist: a failed list reports nothing about them.
#[tokio::test]
async fn a_cluster_is_not_unknown_while_the_list_fails() {
    let (mut registry, changes) = registry();
    registry.cluster_event(&Event::ListStarted);
    registry.cluster_event(&Event::Listed(&cluster("a", "1", &pull())));
    registry.cluster_event(&DONE);
    let ask = |registry: &Registry, name| format!("{:?}", registry.shared.link(name));
    let is_complete = |registry: &Registry| *registry.shared.extent.borrow() == Extent::All;
    // A watch that breaks continues where it was.
    registry.cluster_event(&Event::Failed("busy"));
    assert!(is_complete(&registry));
    assert_eq!(ask(&registry, "b"), "Unknown");
    registry.cluster_event(&Event::ListStarted);
    registry.cluster_event(&Event::Failed("forbidden"));
    assert!(!is_complete(&registry));
    assert_eq!(ask(&registry, "a"), "Pull");
    assert_eq!(
        ask(&registry, "b"),
        "Down(Connecting: the Clusters have not been listed yet)"
    );
    registry.cluster_event(&Event::ListStarted);
    registry.cluster_event(&Event::Listed(&cluster("a", "1", &pull())));
    registry.cluster_event(&DONE);
    assert!(is_complete(&registry));
    assert_eq!(ask(&registry, "b"), "Unknown");
    assert_eq!(*changes.lock(), ["a", "b"]);
}
