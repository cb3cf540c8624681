//! Rollouts to sites while networks are cut, managers and agents are killed, clocks are wrong, and
//! versions fail in a site.
//!
//! Each site must end with the version of the strategy, and get no other version meanwhile.

mod agents;
mod clocks;
mod cuts;
mod kills;
mod managers;
mod recreation;
mod refusal;
mod scenario;

use baton_integration::application::{condition, reason};
use baton_integration::fleet::{Fleet, entry};
use baton_integration::prelude::*;
use baton_integration::sites::Joined;
use jiff::{SignedDuration, Timestamp};

/// Returns the `ConfigMaps` that a test has delivered into a cluster.
async fn configmaps(cluster: &Cluster, ns: &TestNamespace) -> Vec<Value> {
    let like = ns.reference(&configmap("any"));
    let mut found = cluster.list(&like, "").await;
    found.retain(|it| it["metadata"]["name"] != "kube-root-ca.crt");
    found
}

/// Fails if a recorded deployment was aborted, or reported that a site failed.
fn assert_nothing_failed(recorded: &Recorded) {
    for event in &recorded.events {
        let status = &event.object["status"];
        assert_ne!(condition(&event.object, "Aborted"), "True", "{status:#}");
        assert_eq!(status["failing"], Value::Null, "{status:#}");
    }
}

/// Records the deployments of a namespace.
async fn follow(ns: &TestNamespace) -> Recording {
    let like = ns.reference(&Fleet::kind("SiteDeployment", "any"));
    Recording::start(ns.cluster(), &like, "").await
}

/// Returns the values that a key of an object had in a site, each once, in their order.
fn values(recorded: &Recorded, name: &str, key: &str) -> Vec<String> {
    let of = recorded
        .events
        .iter()
        .filter(|it| it.object["metadata"]["name"] == name);
    let values = of.filter_map(|event| event.object["data"][key].as_str());
    let mut values: Vec<_> = values.map(ToOwned::to_owned).collect();
    values.dedup();
    values
}

/// Records the `ConfigMaps` of a test in a site.
async fn watch(ns: &TestNamespace, site: &Joined) -> Recording {
    let like = ns.reference(&configmap("any"));
    Recording::start(&site.site().cluster().await, &like, "").await
}

/// Returns windows of a site: one window that opens at this time, for this duration.
fn window(opens: Timestamp, open: SignedDuration) -> Value {
    let cron = opens.strftime("%-M %-H * * *").to_string();
    let duration = format!("{}m", open.as_mins());
    json!({ "upgradeWindows": [{ "cron": cron, "duration": duration }] })
}

/// Waits until the revision of a version in a site gives this reason for being unavailable.
pub(crate) async fn waits(fleet: &Fleet<'_>, site: &Joined, version: &str, text: &str) {
    let wanted = format!("version {version} to say {text:?}");
    let says = async || {
        let revisions = fleet.revisions("web", site).await;
        let mut of_version = revisions
            .iter()
            .filter(|it| entry(it)["version"] == version);
        of_version.any(|it| reason(it, "Available")[1].contains(text))
    };
    fleet.ns.eventually(&wanted, says).await;
}
