//! Versions that stop their predecessor, and whose objects are refused.

use baton_integration::prelude::*;
use baton_integration::sites::{Joined, PUSH, Site};

use crate::sites_queue::{AVAILABLE, STARTED, STOPPING, namespace, pods, revision, workload};

const REFUSED: Expectation<'static> = Because("Available", "False", "PreflightError");

/// Creates revision `number` with one phase: the workload with an image of that number, and
/// additional objects.
async fn create_revision(
    ns: &TestNamespace,
    joined: &Joined,
    number: i64,
    stop: bool,
    objects: Vec<Entry>,
) {
    let mut entry = json!({ "phases": ["a"] });
    if stop {
        entry["stop"] = json!("All");
    }
    let mut all = objects;
    all.push(workload(&format!("web:{number}")));
    revision(ns, joined, number, &entry)
        .delegated("a", &joined.class(), all)
        .create()
        .await;
}

/// Waits until this number of pods stays, and this number is being deleted.
async fn pods_are(
    ns: &TestNamespace,
    joined: &Joined,
    wanted: (usize, usize),
    remove_finalizers: bool,
) {
    let text = format!("{wanted:?} pods");
    ns.eventually(&text, async || {
        pods(ns, joined, remove_finalizers).await == wanted
    })
    .await;
}

async fn image(ns: &TestNamespace, joined: &Joined) -> Value {
    let live = joined.site().live(ns, &workload("")).await;
    live["spec"]["template"]["spec"]["containers"][0]["image"].clone()
}

/// Returns an object of a kind that no site serves.
fn of_an_unknown_kind() -> Entry {
    object("nowhere.example/v1", "Thing", "thing")
}

/// A refused version stops nothing and blocks no successor. This applies to a version that stops
/// its predecessor, and to a version that has begun and has written the objects of other kinds.
#[tokio::test]
async fn a_refused_version_stops_nothing_and_can_be_replaced() {
    let ns = namespace().await;
    let joined = Site::get(PUSH).await.join(&ns).create().await;
    joined.becomes("Connected", "True").await;
    create_revision(&ns, &joined, 1, false, vec![]).await;
    ns.reaches("v1", &[AVAILABLE, STARTED]).await;
    pods_are(&ns, &joined, (1, 0), false).await;

    create_revision(&ns, &joined, 2, true, vec![of_an_unknown_kind()]).await;
    let before = [
        REFUSED,
        Says("Available", "nowhere.example"),
        Because("baton.run/Started", "False", "PreflightError"),
    ];
    ns.reaches("v2", &before).await;
    ns.reaches("v1", &[AVAILABLE]).await;
    assert_eq!(pods(&ns, &joined, false).await, (1, 0));

    create_revision(&ns, &joined, 3, false, vec![of_an_unknown_kind()]).await;
    ns.reaches("v3", &[REFUSED, STARTED]).await;
    pods_are(&ns, &joined, (1, 1), false).await;

    create_revision(&ns, &joined, 4, true, vec![]).await;
    ns.reaches("v4", &[STOPPING]).await;
    pods_are(&ns, &joined, (0, 2), false).await;
    pods_are(&ns, &joined, (1, 0), true).await;
    ns.reaches("v3", &[REFUSED, Is("baton.run/Stopped", "True")])
        .await;
    ns.reaches("v4", &[AVAILABLE, STARTED]).await;
    assert_eq!(image(&ns, &joined).await, "web:4");
    for name in ["v4", "v3", "v2", "v1"] {
        ns.set_lifecycle(name, "Archived").await;
    }
    pods_are(&ns, &joined, (0, 0), true).await;
}

/// A Pod without a workload as its controller stops by its deletion, and is created again if the
/// newer version is deleted.
#[tokio::test]
async fn pods_without_a_workload_stop_and_come_back() {
    let ns = namespace().await;
    let joined = Site::get(PUSH).await.join(&ns).create().await;
    joined.becomes("Connected", "True").await;
    let spec = json!({ "containers": [{ "name": "worker", "image": "worker:1" }] });
    let pod = object("v1", "Pod", "worker").with("/spec", spec);
    let entry = json!({ "phases": ["a"] });
    revision(&ns, &joined, 1, &entry)
        .delegated("a", &joined.class(), [pod.clone()])
        .create()
        .await;
    ns.reaches("v1", &[AVAILABLE]).await;
    let first = joined.site().live(&ns, &pod).await;
    let entry = json!({ "phases": ["a"], "stop": "All" });
    revision(&ns, &joined, 2, &entry)
        .delegated("a", &joined.class(), [configmap("next")])
        .probe(cel_probe("", "ConfigMap", "false", "never"))
        .create()
        .await;
    ns.reaches(
        "v2",
        &[Because("Available", "False", "ProbeFailure"), STARTED],
    )
    .await;
    assert_eq!(joined.site().read(&ns, &pod).await, None);
    ns.reaches("v1", &[Is("baton.run/Stopped", "True")]).await;
    ns.delete_set("v2", "Background").await;
    let is_back = async || {
        let live = joined.site().read(&ns, &pod).await;
        live.is_some_and(|live| live["metadata"]["uid"] != first["metadata"]["uid"])
    };
    ns.eventually("the Pod to be back", is_back).await;
    ns.reaches("v1", &[AVAILABLE]).await;
}
