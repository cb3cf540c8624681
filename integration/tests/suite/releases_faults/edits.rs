//! Users who do not wait, and who change or delete objects of the manager in the middle of a
//! rollout.

use baton_integration::application::{ALL_IN, TestApplication, VANGUARD, name};
use baton_integration::prelude::*;

use super::watched::Watched;
use super::{APP, PODS};

const TARGETS: [&str; 3] = ["InstallationTarget", "CapacityTarget", "TrafficTarget"];

/// Starts with a complete first Release. If `is_half` is true, the second Release is at its second
/// step.
async fn started(ns: &TestNamespace, is_half: bool) -> (TestApplication<'_>, Watched) {
    let app = TestApplication::new(ns, APP).await;
    app.apply(app.environment("0.0.1", PODS, ALL_IN)).await;
    app.completed(0).await;
    let watched = Watched::start(&app).await;
    if is_half {
        app.apply(app.environment("0.0.2", PODS, VANGUARD)).await;
        app.at_step(1, 0).await;
        app.promote(1, 1).await;
        app.at_step(1, 1).await;
    }
    (app, watched)
}

/// Waits for the state of the second step: half of the pods for each Release, and all of them
/// served.
async fn is_half(app: &TestApplication<'_>) {
    let half = PODS as usize / 2;
    for generation in [0, 1] {
        let release = app.release(generation).await;
        app.has_pods(&release, half).await;
    }
    app.at_step(1, 1).await;
    served(app).await;
}

async fn served(app: &TestApplication<'_>) {
    app.ns
        .eventually("all pods to be served", async || {
            app.addresses().await == [PODS as usize; 2]
        })
        .await;
}

async fn finish(app: &TestApplication<'_>, generation: i64, watched: &Watched) {
    app.promote(generation, 2).await;
    let release = app.completed(generation).await;
    app.has_pods(&release, PODS as usize).await;
    served(app).await;
    watched.assert(PODS as usize).await;
}

/// The last of several edits is rolled out, starting from the complete Release, no matter which
/// edits became Releases.
#[tokio::test]
async fn the_last_of_several_edits_is_rolled_out() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let (app, watched) = started(&ns, false).await;
    let edit = |number: u32| {
        let mut environment = app.environment("0.0.2", PODS, VANGUARD);
        environment["values"]["edit"] = number.into();
        environment
    };
    // The edits are made at once, and then at each step of the previous one.
    for number in 0..4 {
        app.apply(edit(number)).await;
    }
    for (number, steps) in [(4, 1), (5, 2)] {
        let newest = newest_with(&app, number - 1).await;
        for step in 0..steps {
            app.at_step(newest, step).await;
            app.promote(newest, step + 1).await;
        }
        app.apply(edit(number)).await;
        app.apply(edit(number)).await;
    }
    let newest = newest_with(&app, 5).await;
    let first = app.release(0).await;
    for step in [0, 1] {
        let release = app.at_step(newest, step).await;
        app.has_pods(
            &release,
            [1, PODS as usize / 2][usize::try_from(step).unwrap()],
        )
        .await;
        if step == 0 {
            app.has_pods(&first, PODS as usize).await;
            app.promote(newest, 1).await;
        }
    }
    app.promote(newest, 2).await;
    let last = app.completed(newest).await;
    app.has_pods(&last, PODS as usize).await;
    served(&app).await;
    ns.eventually("the others to be gone", async || {
        app.releases().await.len() == 2
    })
    .await;
    // The pods of the second contender replace those of the first one. The first Release never had
    // less than half of its pods.
    watched.assert(PODS as usize / 2).await;
}

/// Returns the generation of the Release of an edit.
async fn newest_with(app: &TestApplication<'_>, edit: u32) -> i64 {
    let find = async || {
        let newest = app.releases().await.pop().unwrap();
        let is_it = newest["spec"]["environment"]["values"]["edit"] == edit;
        let annotations = &newest["metadata"]["annotations"];
        let generation = &annotations["shipper.booking.com/release.generation"];
        let generation: i64 = generation.as_str().unwrap().parse().unwrap();
        is_it.then_some(generation)
    };
    app.ns
        .eventually("a Release of the edit", async || find().await.is_some())
        .await;
    find().await.unwrap()
}

/// Covers the targets of the contender and of the incumbent.
#[tokio::test]
async fn targets_deleted_during_a_rollout_are_created_again() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let (app, watched) = started(&ns, true).await;
    for generation in [1, 0] {
        let release = app.release(generation).await;
        // The InstallationTarget is left out: without it a Release is not installed any more.
        for kind in &TARGETS[1..] {
            println!("{kind} of generation {generation}");
            let target = TestApplication::kind(kind, name(&release));
            let old = ns.live(&target).await;
            ns.delete(&target).await;
            ns.object_becomes(&target, "made again, as it was", |live| {
                uid(live) != uid(&old) && live["spec"] == old["spec"]
            })
            .await;
            is_half(&app).await;
        }
    }
    finish(&app, 1, &watched).await;
}

/// Numbers that a user has written into targets are reset.
#[tokio::test]
async fn targets_edited_during_a_rollout_are_restored() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let (app, watched) = started(&ns, true).await;
    for generation in [1, 0] {
        let release = app.release(generation).await;
        for (kind, field, number) in [
            ("CapacityTarget", "percent", 100),
            ("TrafficTarget", "weight", 7),
        ] {
            println!("{kind} of generation {generation}");
            let target = TestApplication::kind(kind, name(&release));
            let old = ns.live(&target).await;
            let mut clusters = old["spec"]["clusters"].clone();
            clusters[1][field] = number.into();
            ns.merge(&target, &json!({ "spec": { "clusters": clusters } }))
                .await;
            ns.object_becomes(&target, "put back", |live| {
                live["spec"] == old["spec"]
                    && live["metadata"]["generation"] != old["metadata"]["generation"]
            })
            .await;
            is_half(&app).await;
        }
    }
    // The same for an additional cluster that does not exist.
    let release = app.release(1).await;
    let target = TestApplication::kind("InstallationTarget", name(&release));
    let old = ns.live(&target).await;
    let added = json!([
        old["spec"]["clusters"][0],
        old["spec"]["clusters"][1],
        "nowhere"
    ]);
    ns.merge(&target, &json!({ "spec": { "clusters": added } }))
        .await;
    ns.object_becomes(&target, "put back", |live| {
        live["spec"]["clusters"] == old["spec"]["clusters"]
    })
    .await;
    let clusters = old["spec"]["clusters"].as_array().unwrap().iter();
    let clusters: Vec<_> = clusters.map(|it| it.as_str().unwrap()).collect();
    let text = format!(
        "Updated InstallationTarget \"{}/{}\" cluster set to [{}]",
        ns.name(),
        name(&release),
        clusters.join(",")
    );
    app.recorded(&release, ["Normal", "ReleaseScheduled", &text])
        .await;
    is_half(&app).await;
    finish(&app, 1, &watched).await;
}

/// Covers the workloads of both Releases.
#[tokio::test]
async fn workloads_scaled_during_a_rollout_are_scaled_back() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let (app, watched) = started(&ns, true).await;
    for generation in [1, 0] {
        let release = app.release(generation).await;
        let labels = format!("shipper-release={}", name(&release));
        let found = app.in_clusters("apps/v1", "Deployment", &labels).await;
        for (app_cluster, deployments) in app.clusters.iter().zip(&found) {
            let scaled = json!({ "spec": { "replicas": PODS + 3 } });
            let scaled = app_cluster
                .cluster
                .merge(&deployments[0], &scaled)
                .await
                .unwrap();
            ns.eventually("the Deployment to be scaled back", async || {
                let live = app_cluster.cluster.get(&deployments[0]).await.unwrap();
                live["spec"]["replicas"] == PODS / 2
                    && live["metadata"]["generation"] != scaled["metadata"]["generation"]
            })
            .await;
        }
        is_half(&app).await;
    }
    finish(&app, 1, &watched).await;
}

/// Nothing is left of either Release in any cluster.
#[tokio::test]
async fn an_application_deleted_during_a_rollout_leaves_nothing_behind() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let (app, _watched) = started(&ns, true).await;
    app.promote(1, 2).await;
    ns.delete(&app.entry()).await;
    ns.gone(&app.entry()).await;
    for (api, kind) in [("apps/v1", "Deployment"), ("v1", "Service"), ("v1", "Pod")] {
        ns.eventually("nothing to be left", async || {
            let found = app
                .in_clusters(api, kind, &format!("shipper-app={APP}"))
                .await;
            found.iter().all(Vec::is_empty)
        })
        .await;
    }
    for kind in TARGETS {
        let like = ns.reference(&TestApplication::kind(kind, "any"));
        assert!(ns.cluster().list(&like, "").await.is_empty(), "{kind}");
    }
}

/// The Release waits for the cluster, the workloads there keep running, and the rollout continues
/// once the Cluster exists again.
#[tokio::test]
async fn a_rollout_continues_when_a_deleted_cluster_is_created_again() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let (app, watched) = started(&ns, true).await;
    let joined = &app.clusters[1].joined;
    let cluster = joined.read().await.unwrap();
    ns.cluster().delete(&joined.reference(), "Background").await;
    ns.eventually("the Cluster to be gone", async || {
        joined.read().await.is_none()
    })
    .await;
    app.promote(1, 2).await;
    let stuck = app
        .becomes(1, "waiting", |release| {
            let state = &release["status"]["strategy"]["state"];
            state["waitingForCapacity"] == "True" || state["waitingForInstallation"] == "True"
        })
        .await;
    assert_eq!(stuck["status"]["achievedStep"]["step"], 1);
    watched.assert(PODS as usize).await;

    let mut again = joined.reference();
    again["metadata"]["labels"] = cluster["metadata"]["labels"].clone();
    again["spec"] = cluster["spec"].clone();
    ns.cluster().create(&again).await.unwrap();
    joined.becomes("Connected", "True").await;
    let release = app.completed(1).await;
    app.has_pods(&release, PODS as usize).await;
    served(&app).await;
    watched.assert(PODS as usize).await;
}
