//! A site whose clock is off by an hour.

use baton_integration::fleet::{Fleet, entry, version};
use baton_integration::prelude::*;
use baton_integration::sites::{Joined, PULL, Site, join_hub};
use jiff::{SignedDuration, Timestamp};

use super::{assert_nothing_failed, follow, waits, window};

/// Number of seconds for which sites must stay available.
const HEALTHY: i64 = 5;

/// Returns the time at which a revision became available, by the clock of the hub.
fn available(revision: &Value) -> Timestamp {
    let conditions = revision["status"]["conditions"].as_array().unwrap();
    let available = conditions
        .iter()
        .find(|it| it["type"] == "Available")
        .unwrap();
    available["lastTransitionTime"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap()
}

fn created(revision: &Value) -> Timestamp {
    let created = revision["metadata"]["creationTimestamp"].as_str().unwrap();
    created.parse().unwrap()
}

/// Fails unless the second of two waves began when the first one had been available for the healthy
/// time, by the clock of the hub.
async fn assert_healthy_time(fleet: &Fleet<'_>, sites: [&Joined; 2]) {
    let mut newest = Vec::new();
    for site in sites {
        newest.extend(fleet.revisions("web", site).await.pop());
    }
    newest.sort_by_key(|it| entry(it)["batch"].as_i64());
    // Both times have whole seconds.
    let between = created(&newest[1])
        .duration_since(available(&newest[0]))
        .as_secs();
    assert!(
        (HEALTHY - 1..HEALTHY + 20).contains(&between),
        "{between} s"
    );
}

/// A site evaluates its windows by its own clock. The hub measures the healthy time of waves and
/// the progress deadline: no version is aborted, passes early or waits for an hour.
async fn off_by(seconds: i64) {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let pull = Site::get(PULL).await;
    let hub = join_hub(&ns, &pull).await;
    let site = pull.join(&ns).named("off").pull().create().await;
    let agent = site.agent().clock(seconds).start().await;
    site.becomes("Connected", "True").await;
    for site in [&hub, &site] {
        fleet.add(site).await;
    }
    let statuses = follow(&ns).await;
    fleet.application(&version("1.0.0")).await;
    let strategy = json!({
        "type": "Rolling", "rolling": { "sitesInParallel": 1 },
        "healthyTime": format!("{HEALTHY}s"), "progressDeadline": "30s",
    });
    fleet
        .deployment("web", json!({ "strategy": strategy }))
        .await;
    fleet.complete("web", "1.0.0", 2).await;
    assert_healthy_time(&fleet, [&hub, &site]).await;

    // One window is open now by the clock of the hub, the other one by the clock of the site.
    let open = SignedDuration::from_mins(30);
    let [of_hub, of_site] = [0, seconds].map(|shift| {
        let opened = Timestamp::now() + SignedDuration::from_secs(shift) - open / 2;
        window(opened, open)
    });
    site.change_spec(&of_site).await;
    fleet.application(&version("1.1.0")).await;
    fleet.complete("web", "1.1.0", 2).await;
    assert_healthy_time(&fleet, [&hub, &site]).await;
    fleet.has_version(&site, Some("1.1.0")).await;

    site.change_spec(&of_hub).await;
    fleet.application(&version("1.2.0")).await;
    waits(&fleet, &site, "1.2.0", "Waits for its upgrade window").await;
    fleet.has_version(&site, Some("1.1.0")).await;
    assert_nothing_failed(&statuses.so_far().await);
    drop(agent);
}

#[tokio::test]
async fn the_healthy_time_is_kept_with_a_site_clock_an_hour_ahead() {
    off_by(3600).await;
}

#[tokio::test]
async fn the_healthy_time_is_kept_with_a_site_clock_an_hour_behind() {
    off_by(-3600).await;
}
