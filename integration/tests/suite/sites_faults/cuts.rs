//! Sites that are unreachable for a while: for seconds, for a wave, and for several versions.

use baton_integration::agent::Agent;
use baton_integration::fleet::{Fleet, version};
use baton_integration::prelude::*;
use baton_integration::proxy::{Mode, Proxy};
use baton_integration::sites::{Joined, PULL, PUSH, Site, join_hub};
use jiff::{SignedDuration, Timestamp};

use super::{assert_nothing_failed, follow, values, waits, watch, window};

/// The hub, a push cluster and a pull cluster, with a proxy between the hub and each of these two.
struct Lined {
    away: [Joined; 2],
    lines: [Proxy; 2],
    _agent: Agent,
    _hub: Joined,
}

impl Lined {
    async fn of(fleet: &Fleet<'_>) -> Self {
        let ns = fleet.ns;
        let (push, pull) = (Site::get(PUSH).await, Site::get(PULL).await);
        let hub = join_hub(ns, &push).await;
        let line = Proxy::start(push.address()).await;
        let pushed = push.join(ns).named("push").through(&line.url());
        let pushed = pushed.create().await;
        let pulled = pull.join(ns).named("pull").pull().create().await;
        let endpoint = pulled.hub_endpoint();
        let other = Proxy::start(endpoint.address).await;
        let agent = pulled.agent().hub(&endpoint.at(other.address()));
        let agent = agent.start().await;
        for site in [&hub, &pushed, &pulled] {
            site.becomes("Connected", "True").await;
            fleet.add(site).await;
        }
        Self {
            away: [pushed, pulled],
            lines: [line, other],
            _agent: agent,
            _hub: hub,
        }
    }

    async fn set(&self, mode: Mode) {
        for line in &self.lines {
            line.set(mode).await;
        }
    }

    /// Cuts both lines, and waits until the hub reports it.
    async fn cut(&self) {
        self.set(Mode::Cut).await;
        self.away[0].because("Connected", "Unreachable").await;
        self.away[1].because("Connected", "AgentSilent").await;
    }

    async fn watch(&self, ns: &TestNamespace) -> [Recording; 2] {
        let [pushed, pulled] = &self.away;
        [watch(ns, pushed).await, watch(ns, pulled).await]
    }
}

/// Fails unless both sites have had exactly these versions, in this order.
async fn had(recordings: &[Recording; 2], versions: &[&str]) {
    for recording in recordings {
        let recorded = recording.so_far().await;
        assert_eq!(values(&recorded, "settings", "version"), versions);
    }
}

fn rolling(healthy_time: &str) -> Value {
    json!({"strategy": {
        "type": "Rolling", "rolling": { "sitesInParallel": 1 }, "healthyTime": healthy_time,
    }})
}

/// In each wave both lines are cut for a few seconds, more than once.
#[tokio::test]
async fn a_connection_cut_for_seconds_fails_no_rollout() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let sites = Lined::of(&fleet).await;
    fleet.application(&version("1.0.0")).await;
    fleet.deployment("web", json!({})).await;
    fleet.complete("web", "1.0.0", 3).await;
    fleet.change("web", rolling("3s")).await;
    fleet.becomes("web", "observed", |_| true).await;
    let statuses = follow(&ns).await;
    let recordings = sites.watch(&ns).await;
    fleet.application(&version("1.1.0")).await;
    let disturb = async {
        loop {
            sites.set(Mode::Cut).await;
            tokio::time::sleep(Duration::from_millis(1500)).await;
            sites.set(Mode::Pass).await;
            tokio::time::sleep(Duration::from_millis(2500)).await;
        }
    };
    tokio::select! {
        _ = fleet.complete("web", "1.1.0", 3) => {}
        () = disturb => {}
    }
    sites.set(Mode::Pass).await;
    fleet.complete("web", "1.1.0", 3).await;
    assert_nothing_failed(&statuses.so_far().await);
    had(&recordings, &["1.1.0"]).await;
}

/// Both sites are offline for a wave, and then for several versions.
///
/// They get the missed versions in order, and only the last patch version if the application says
/// so. The hub reads all reports at once and reports no failure.
#[tokio::test]
async fn offline_sites_get_missed_versions_in_order() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let sites = Lined::of(&fleet).await;
    fleet.application(&version("1.0.0")).await;
    fleet.deployment("web", rolling("1s")).await;
    fleet.complete("web", "1.0.0", 3).await;
    let statuses = follow(&ns).await;
    let recordings = sites.watch(&ns).await;
    let rounds = [
        (false, vec!["1.1.0"], vec!["1.1.0"]),
        (
            false,
            vec!["1.1.1", "1.2.0", "1.2.1"],
            vec!["1.1.1", "1.2.0", "1.2.1"],
        ),
        (
            true,
            vec!["1.2.2", "1.2.3", "1.3.0", "1.3.1"],
            vec!["1.2.3", "1.3.1"],
        ),
    ];
    let at_once = json!({"strategy": { "type": "AllAtOnce", "rolling": null }});
    let mut expected = Vec::new();
    for (skip, versions, applied) in rounds {
        sites.cut().await;
        for number in &versions {
            let mut content = version(number);
            content["upgrade"] = json!({ "skipPatchVersions": skip });
            fleet.application(&content).await;
            let complete = fleet.complete("web", number, 1).await;
            assert_eq!(complete["status"]["counts"]["offline"], 2);
        }
        sites.set(Mode::Pass).await;
        fleet.complete("web", versions[versions.len() - 1], 3).await;
        expected.extend(applied);
        had(&recordings, &expected).await;
        // With the rolling strategy, sites that come last in a wave that ends without them get only
        // the version that is current when they return.
        fleet.change("web", at_once.clone()).await;
        fleet.becomes("web", "observed", |_| true).await;
    }
    assert_nothing_failed(&statuses.so_far().await);
}

/// A window opens in a site that cannot reach the hub, and the agent works through its queue. The
/// hub gets the reports of these versions after their deadline, and reports no failure.
#[tokio::test]
async fn a_window_that_opens_while_the_hub_is_away_is_used() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let pull = Site::get(PULL).await;
    let site = pull.join(&ns).pull().create().await;
    let hub = site.hub_endpoint();
    let line = Proxy::start(hub.address).await;
    let _agent = site.agent().hub(&hub.at(line.address())).start().await;
    site.becomes("Connected", "True").await;
    fleet.add(&site).await;
    fleet.application(&version("1.0.0")).await;
    fleet
        .deployment("web", json!({"strategy": { "progressDeadline": "15s" }}))
        .await;
    fleet.complete("web", "1.0.0", 1).await;
    let opens = Timestamp::now() + SignedDuration::from_secs(105);
    let opens = Timestamp::from_second(opens.as_second() / 60 * 60).unwrap();
    site.change_spec(&window(opens, SignedDuration::from_mins(30)))
        .await;
    for (number, text) in [
        ("1.1.0", "Waits for its upgrade window"),
        ("1.2.0", "Waits for version 1.1.0"),
        ("1.3.0", "Waits for version 1.2.0"),
    ] {
        fleet.application(&version(number)).await;
        waits(&fleet, &site, number, text).await;
    }
    let recording = watch(&ns, &site).await;
    let statuses = follow(&ns).await;
    line.set(Mode::Cut).await;
    assert!(Timestamp::now() < opens, "it took too long to get here");
    site.because("Connected", "AgentSilent").await;
    let is_open = async || Timestamp::now() >= opens;
    ns.eventually("the window to open", is_open).await;
    fleet.has_version(&site, Some("1.3.0")).await;
    let recorded = recording.so_far().await;
    assert_eq!(
        values(&recorded, "settings", "version"),
        ["1.1.0", "1.2.0", "1.3.0"]
    );
    line.set(Mode::Pass).await;
    fleet.complete("web", "1.3.0", 1).await;
    assert_nothing_failed(&statuses.so_far().await);
}
