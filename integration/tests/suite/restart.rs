//! A manager that ends, and its successor.

use baton_integration::exclusive::Exclusive;
use baton_integration::manager::Manager;
use baton_integration::prelude::*;

use crate::requests::settle;

/// Returns everything about objects and revisions that a restart could change.
async fn picture(ns: &TestNamespace) -> Vec<Value> {
    let like = |api_version: &str, kind: &str| {
        json!({
            "apiVersion": api_version, "kind": kind, "metadata": { "namespace": ns.name() },
        })
    };
    let mut all = ns.cluster().list(&like("v1", "ConfigMap"), "").await;
    let group = "package-operator.run/v1alpha1";
    for kind in ["ObjectSet", "ClusterObjectSet"] {
        all.extend(ns.cluster().list(&like(group, kind), "").await);
    }
    all
}

/// Creates a chain with all situations that a new manager could misjudge: objects handed over, a
/// failing probe, a collision, a paused and an archived revision, slices.
async fn populate(ns: &TestNamespace) {
    let [shared, old, sliced] = ["shared", "old", "sliced"].map(configmap);
    ns.create_slice("slice", [sliced.clone()]).await;
    ns.revision(1)
        .phase("a", [shared.clone().data("k", "1"), old])
        .available()
        .await;
    ns.set("v2")
        .previous(&["v1"])
        .phase_with_slices("a", [shared.data("k", "2")], &["slice"])
        .phase("b", [configmap("failing")])
        .phase("c", [configmap("never")])
        .probe(fields_equal("", "ConfigMap", ".data.x", ".data.k"))
        .reaching(&[Is("Available", "False")])
        .await;
    ns.create(&configmap("taken")).await;
    ns.set("collides")
        .revision(1)
        .phase("a", [configmap("taken")])
        .reaching(&[Because("Available", "False", "CollisionDetected")])
        .await;
    ns.set("paused")
        .revision(1)
        .phase("a", [configmap("paused")])
        .available()
        .await;
    ns.set_lifecycle("paused", "Paused").await;
    ns.reaches("paused", &[Is("Paused", "True"), Is("Available", "True")])
        .await;
    ns.set("archived")
        .revision(1)
        .phase("a", [configmap("archived")])
        .available()
        .await;
    ns.set_lifecycle("archived", "Archived").await;
    ns.reaches("archived", &[Is("Archived", "True")]).await;
}

/// After a restart nothing differs, so the manager writes nothing and reads no object that its
/// cache contains.
#[tokio::test]
async fn a_restart_writes_nothing() {
    let mut bed = Exclusive::acquire().await;
    let namespaces = [
        bed.namespace(Scope::Namespaced).await,
        bed.namespace(Scope::Cluster).await,
    ];
    for ns in &namespaces {
        populate(ns).await;
    }
    let mut before = Vec::new();
    settle(&namespaces[0], &bed).await;
    for ns in &namespaces {
        before.push(picture(ns).await);
    }
    for end in ["killed", "terminated"] {
        let manager = bed.take_manager();
        if end == "killed" {
            manager.kill();
        } else {
            let status = manager.terminate();
            assert!(status.success(), "{status}");
        }
        bed.start_manager();
        settle(&namespaces[0], &bed).await;
        let metrics = bed.manager().metrics();
        assert_eq!(metrics.writes(), 0, "after one was {end}");
        // The object of the collision is read from the server, because the cache contains labelled
        // objects only.
        assert!(
            metrics.requests("get") <= 4,
            "{} after one was {end}",
            metrics.requests("get")
        );
        for (ns, before) in namespaces.iter().zip(&before) {
            assert_eq!(picture(ns).await, *before, "after one was {end}");
        }
        // The manager works, it is not only silent.
        let object = configmap("shared");
        namespaces[0]
            .merge(&object, &json!({ "data": { "k": "drifted" } }))
            .await;
        namespaces[0]
            .object_becomes(&object, "repaired", |live| live["data"]["k"] == "2")
            .await;
        before[0] = picture(&namespaces[0]).await;
    }
}

/// A new manager observes the changes that happened while no manager ran.
#[tokio::test]
async fn a_new_manager_observes_changes_made_while_none_ran() {
    let mut bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    let [drifts, vanishes, handed, torn] =
        ["drifts", "vanishes", "handed", "torn"].map(|name| configmap(name).data("k", "v"));
    let all = [drifts.clone(), vanishes.clone(), handed.clone()];
    ns.revision(1).phase("a", all).create().await;
    ns.set("other")
        .revision(1)
        .phase("a", [torn.clone()])
        .create()
        .await;
    ns.reaches("v1", &[Is("Available", "True")]).await;
    ns.reaches("other", &[Is("Available", "True")]).await;

    bed.take_manager().kill();
    ns.merge(&drifts, &json!({ "data": { "k": "drifted" } }))
        .await;
    ns.delete(&vanishes).await;
    ns.set("v2")
        .previous(&["v1"])
        .phase("a", [handed.clone()])
        .create()
        .await;
    assert!(
        ns.cluster()
            .delete(&ns.set_ref("other"), "Background")
            .await
    );
    // Two revisions without numbers that name each other are reported instead of waiting forever.
    ns.set("x")
        .previous(&["y"])
        .phase("a", [configmap("x")])
        .create()
        .await;
    ns.set("y")
        .previous(&["x"])
        .phase("a", [configmap("y")])
        .create()
        .await;

    bed.start_manager();
    ns.object_becomes(&drifts, "repaired", |live| live["data"]["k"] == "v")
        .await;
    let text = format!(
        "Repaired 2 object(s) that differed: ConfigMap {ns}/drifts (.data.k by a-user), ConfigMap {ns}/vanishes \
         (deleted)",
        ns = ns.name()
    );
    ns.has_event("Normal", &text).await;
    ns.object_becomes(&vanishes, "made again", |live| !live.is_null())
        .await;
    ns.reaches(
        "v2",
        &[Is("Available", "True"), Controls(&["ConfigMap handed"])],
    )
    .await;
    let left = Controls(&["ConfigMap drifts", "ConfigMap vanishes"]);
    ns.reaches("v1", &[Is("Available", "True"), left]).await;
    ns.gone(&torn).await;
    for name in ["x", "y"] {
        let wanted = [
            Because("Available", "False", "PreflightError"),
            Says("Available", "cycle"),
        ];
        ns.reaches(name, &wanted).await;
        assert_eq!(ns.get(&configmap(name)).await, None);
    }
}

/// Of two managers one is the leader, and a handover of the leadership takes no time.
#[tokio::test]
async fn the_second_manager_takes_over_at_once() {
    let mut bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    let home = bed
        .cluster()
        .apply(&object("v1", "Namespace", "baton-system").manifest, "tests")
        .await;
    home.unwrap();
    let _ = bed.take_manager().terminate();
    let flags = ["--leader-elect", "--namespace=baton-system"];
    let first = Manager::spawn(bed.cluster().kubeconfig(), "exclusive", &flags);
    let cm = configmap("cm").data("k", "v");
    ns.revision(1).phase("a", [cm.clone()]).available().await;
    bed.spawn_manager(&flags);
    ns.eventually("the second to be ready", async || bed.manager().is_ready())
        .await;
    ns.merge(&cm, &json!({ "data": { "k": "drifted" } })).await;
    ns.object_becomes(&cm, "repaired", |live| live["data"]["k"] == "v")
        .await;
    assert_eq!(bed.manager().metrics().writes(), 0, "the second one waits");

    assert!(first.terminate().success());
    let ended = std::time::Instant::now();
    ns.merge(&cm, &json!({ "data": { "k": "drifted" } })).await;
    ns.object_becomes(&cm, "repaired", |live| live["data"]["k"] == "v")
        .await;
    assert!(
        ended.elapsed() < Duration::from_secs(5),
        "{:?}",
        ended.elapsed()
    );
    // The manager counts a request when it has the answer, so the effect may be visible earlier.
    ns.eventually("its write to be counted", async || {
        bed.manager().metrics().writes() > 0
    })
    .await;
    assert_eq!(bed.manager().metrics().writes(), 1);
}
