//! Releases leave clusters that accept no Releases any more.

use baton_integration::application::{
    ALL_IN, Step, TestApplication, VANGUARD, condition, name, reason,
};
use baton_integration::prelude::*;
use baton_integration::proxy::{Mode, Proxy};
use baton_integration::sites::{PUSH, Site};
use tokio::time::sleep;

/// Returns an environment for one of the two clusters of an Application.
fn in_one_cluster(app: &TestApplication<'_>, version: &str, steps: &[Step]) -> Value {
    let mut environment = app.environment(version, 4, steps);
    environment["clusterRequirements"]["regions"][0]["replicas"] = 1.into();
    environment
}

/// Returns the clusters of a Release, separated by commas.
fn clusters(release: &Value) -> &str {
    let annotation = &release["metadata"]["annotations"]["shipper.booking.com/release.clusters"];
    annotation.as_str().unwrap_or_default()
}

/// Returns the name of the other cluster of an Application.
fn other(app: &TestApplication<'_>, first: &str) -> String {
    let mut names = app.clusters.iter().map(|it| it.joined.name().to_owned());
    names.find(|name| name != first).unwrap()
}

/// Waits for something while these Releases have at least this number of ready pods in all clusters.
async fn with_pods<T>(
    app: &TestApplication<'_>,
    releases: &[Value],
    least: usize,
    event: impl Future<Output = T>,
) -> T {
    let count = async || {
        let mut all = 0;
        for release in releases {
            all += app.ready_pods(release).await.into_iter().sum::<usize>();
        }
        all
    };
    let observed = async {
        loop {
            let pods = count().await;
            assert!(pods >= least, "{pods} pods");
            sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        () = observed => unreachable!("it never ends"),
        value = event => value,
    }
}

/// A complete Release moves with the one before it, and comes to rest.
#[tokio::test]
async fn a_complete_release_moves_without_a_loss_of_capacity() {
    let ns = &TestNamespace::new(Scope::Namespaced).await;
    let app = &TestApplication::new(ns, "web").await;
    app.apply(in_one_cluster(app, "0.0.1", ALL_IN)).await;
    app.completed(0).await;
    app.apply(in_one_cluster(app, "0.0.2", ALL_IN)).await;
    let second = app.completed(1).await;
    let drained = clusters(&second).to_owned();
    let target = other(app, &drained);
    let moved = async {
        ns.plugin(&["clusters", "drain", &drained]).done();
        app.becomes(1, "in the other cluster", |it| clusters(it) == target)
            .await;
    };
    with_pods(app, std::slice::from_ref(&second), 4, moved).await;
    let second = app.completed(1).await;
    let expected: Vec<_> = app
        .clusters
        .iter()
        .map(|it| if it.joined.name() == target { 4 } else { 0 })
        .collect();
    ns.eventually("pods in the other cluster only", async || {
        app.ready_pods(&second).await == expected
    })
    .await;
    assert_eq!(clusters(&app.release(0).await), target);
    // The next Release and the one before it use the other cluster.
    app.apply(in_one_cluster(app, "0.0.1", ALL_IN)).await;
    assert_eq!(clusters(&app.completed(2).await), target);
    ns.plugin(&["clusters", "undrain", &drained]).done();
}

/// A Release moves out of a cluster with an agent, which removes its objects there.
#[tokio::test]
async fn a_release_leaves_a_cluster_with_an_agent() {
    let ns = &TestNamespace::new(Scope::Namespaced).await;
    let site = Site::get(PUSH).await;
    let app = &TestApplication::with_agent(ns, "web", &site).await;
    let [hub, drained] = [0, 1].map(|at| &app.clusters[at].joined);
    let _agent = drained.agent().start().await;
    drained.becomes("Connected", "True").await;
    ns.plugin(&["clusters", "drain", hub.name()]).done();
    app.apply(in_one_cluster(app, "0.0.1", ALL_IN)).await;
    let first = app.completed(0).await;
    assert_eq!(app.ready_pods(&first).await, [0, 4]);
    ns.plugin(&["clusters", "undrain", hub.name()]).done();
    let moved = async {
        ns.plugin(&["clusters", "drain", drained.name()]).done();
        app.becomes(0, "in the other cluster", |it| clusters(it) == hub.name())
            .await;
    };
    with_pods(app, std::slice::from_ref(&first), 4, moved).await;
    ns.eventually("pods in the hub only", async || {
        app.ready_pods(&first).await == [4, 0]
    })
    .await;
    app.completed(0).await;
}

/// Two Releases share the traffic. Both move, and the rollout continues at its step.
#[tokio::test]
async fn both_releases_of_a_step_move() {
    let ns = &TestNamespace::new(Scope::Namespaced).await;
    let app = &TestApplication::new(ns, "web").await;
    app.apply(in_one_cluster(app, "0.0.1", ALL_IN)).await;
    let first = app.completed(0).await;
    app.apply(in_one_cluster(app, "0.0.2", VANGUARD)).await;
    app.at_step(1, 0).await;
    app.promote(1, 1).await;
    let second = app.at_step(1, 1).await;
    let drained = clusters(&second).to_owned();
    assert_eq!(clusters(&first), drained);
    let target = other(app, &drained);
    let moved = async {
        ns.plugin(&["clusters", "drain", &drained]).done();
        for generation in [1, 0] {
            app.becomes(generation, "in the other cluster", |it| {
                clusters(it) == target
            })
            .await;
        }
    };
    with_pods(app, &[first.clone(), second.clone()], 4, moved).await;
    app.at_step(1, 1).await;
    app.promote(1, 2).await;
    let second = app.completed(1).await;
    assert_eq!(app.ready_pods(&second).await.into_iter().sum::<usize>(), 4);
    ns.eventually("no pods of the older Release", async || {
        app.ready_pods(&first).await == [0, 0]
    })
    .await;
}

/// A cluster is drained at the time at which a new Release is created. The new one is in the other
/// cluster from its beginning. The older one is, or stays where it is; in both cases the rollout ends.
#[tokio::test]
async fn a_release_that_is_created_during_a_drain_replaces_the_older_one() {
    let ns = &TestNamespace::new(Scope::Namespaced).await;
    let app = &TestApplication::new(ns, "web").await;
    app.apply(in_one_cluster(app, "0.0.1", ALL_IN)).await;
    let drained = clusters(&app.completed(0).await).to_owned();
    let target = other(app, &drained);
    // Neither begins before the other.
    let pause =
        |value: Value| json!({ "metadata": { "annotations": { "baton.run/paused": value } } });
    ns.merge(&app.entry(), &pause("true".into())).await;
    app.becomes(0, "blocked", |it| condition(it, "Blocked") == "True")
        .await;
    ns.plugin(&["clusters", "drain", &drained]).done();
    app.apply(in_one_cluster(app, "0.0.2", VANGUARD)).await;
    ns.merge(&app.entry(), &pause(Value::Null)).await;
    let second = app.at_step(1, 0).await;
    assert_eq!(clusters(&second), target);
    for step in [1, 2] {
        app.promote(1, step).await;
        app.becomes(1, "at the step", |it| {
            it["status"]["achievedStep"]["step"] == step
        })
        .await;
    }
    let second = app.completed(1).await;
    assert_eq!(app.ready_pods(&second).await.into_iter().sum::<usize>(), 4);
}

/// Without another cluster, a Release stays, and says so. It moves when a cluster is used again.
#[tokio::test]
async fn a_release_without_another_cluster_stays() {
    let ns = &TestNamespace::new(Scope::Namespaced).await;
    let app = &TestApplication::new(ns, "web").await;
    app.apply(in_one_cluster(app, "0.0.1", ALL_IN)).await;
    let first = app.completed(0).await;
    let place = clusters(&first).to_owned();
    let target = other(app, &place);
    ns.plugin(&["clusters", "drain", &target, &place]).done();
    let stays = app
        .becomes(0, "reported to stay", |it| {
            reason(it, "Scheduled")[1].contains("there is no other one")
        })
        .await;
    assert_eq!(condition(&stays, "Scheduled"), "True");
    assert_eq!(clusters(&stays), place);
    let pods = app.ready_pods(&stays).await.into_iter().sum::<usize>();
    assert_eq!((pods, name(&stays)), (4, name(&first)));
    ns.plugin(&["clusters", "undrain", &target]).done();
    app.becomes(0, "in the other cluster", |it| {
        clusters(it) == target && reason(it, "Scheduled") == ["", ""]
    })
    .await;
}

/// Of two clusters, the namespace is assigned to one.
#[tokio::test]
async fn a_release_uses_only_clusters_of_its_namespace() {
    let ns = &TestNamespace::new(Scope::Namespaced).await;
    let app = &TestApplication::new(ns, "web").await;
    let foreign = app.clusters[1].joined.name();
    let assignment = object("baton.run/v1alpha1", "SiteAssignment", &ns.unique("others")).with(
        "/spec",
        json!({
            "clusters": { "names": [foreign] },
            "namespaces": { "names": ["another-namespace"] },
        }),
    );
    ns.create_elsewhere(&assignment).await;
    app.apply(in_one_cluster(app, "0.0.1", ALL_IN)).await;
    let first = app.completed(0).await;
    assert_eq!(clusters(&first), other(app, foreign));
    app.apply(app.environment("0.0.2", 1, ALL_IN)).await;
    let waits = app
        .becomes(1, "not scheduled", |it| {
            condition(it, "Scheduled") == "False"
        })
        .await;
    let [found, message] = reason(&waits, "Scheduled");
    assert_eq!(found, "NotEnoughClustersInRegion");
    let text = format!(
        "Namespace \"{}\" may not deliver into: {foreign}",
        ns.name()
    );
    assert!(message.contains(&text), "{message}");
    ns.delete(&assignment).await;
    app.completed(1).await;
}

/// A block holds the move of a Release as well.
#[tokio::test]
async fn a_release_under_a_block_moves_after_it() {
    let ns = &TestNamespace::new(Scope::Namespaced).await;
    let app = &TestApplication::new(ns, "web").await;
    app.apply(in_one_cluster(app, "0.0.1", ALL_IN)).await;
    let first = app.completed(0).await;
    let drained = clusters(&first).to_owned();
    let target = other(app, &drained);
    let block = TestApplication::block("frozen");
    ns.create(&block).await;
    app.becomes(0, "blocked", |it| condition(it, "Blocked") == "True")
        .await;
    ns.plugin(&["clusters", "drain", &drained]).done();
    ns.stays(Duration::from_secs(2), "the cluster", async || {
        clusters(&app.release(0).await) == drained
    })
    .await;
    assert_eq!(app.ready_pods(&first).await.into_iter().sum::<usize>(), 4);
    let moved = async {
        ns.delete(&block).await;
        app.becomes(0, "in the other cluster", |it| clusters(it) == target)
            .await;
    };
    with_pods(app, &[first], 4, moved).await;
}

/// A cluster is drained in the middle of a step, and its Cluster is deleted while it cannot be reached.
/// The rollout reports that, the next one goes to another cluster, and nothing waits for the deleted one.
#[tokio::test]
async fn a_drained_cluster_is_removed_while_it_is_offline() {
    let ns = &TestNamespace::new(Scope::Namespaced).await;
    let site = Site::get(PUSH).await;
    let proxy = Proxy::start(site.address()).await;
    let app = &TestApplication::through(ns, "web", &site, &proxy.url()).await;
    let [hub, gone] = [0, 1].map(|at| app.clusters[at].joined.name());
    ns.plugin(&["clusters", "drain", hub]).done();
    app.apply(in_one_cluster(app, "0.0.1", ALL_IN)).await;
    app.completed(0).await;
    app.apply(in_one_cluster(app, "0.0.2", VANGUARD)).await;
    app.at_step(1, 0).await;
    ns.plugin(&["clusters", "undrain", hub]).done();
    proxy.set(Mode::Cut).await;
    app.clusters[1].joined.becomes("Connected", "False").await;
    app.promote(1, 1).await;
    ns.plugin(&["clusters", "drain", gone]).done();
    let names_it = |it: &Value| {
        let conditions = it["status"]["strategy"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|it| it["status"] == "False" && it["message"].to_string().contains(gone))
    };
    app.becomes(1, "waiting for the cluster", names_it).await;
    let cluster = app.clusters[1].joined.reference();
    ns.cluster().delete(&cluster, "Background").await;
    ns.eventually("the Cluster to be gone", async || {
        ns.cluster().get(&cluster).await.is_none()
    })
    .await;
    let text = format!("clusters \"{gone}\" do not exist; ");
    let is_unknown = |it: &Value| reason(it, "Scheduled")[1].starts_with(&text);
    let waiting = app
        .becomes(1, "waiting for a missing Cluster", is_unknown)
        .await;
    assert_eq!(clusters(&waiting), gone);
    app.apply(in_one_cluster(app, "0.0.1", ALL_IN)).await;
    let third = app.completed(2).await;
    assert_eq!(
        (clusters(&third), app.ready_pods(&third).await[0]),
        (hub, 4)
    );
    // The command changes no Release that the newest one replaces.
    let clean = |clusters: &str| {
        let command = [
            "clean",
            "decommissioned-clusters",
            "--decommissionedClusters",
            clusters,
        ];
        ns.plugin(&[&command[..], &["-n", ns.name(), "--yes"]].concat())
    };
    let list = |words: &[&str]| {
        ns.plugin(&[&["list"], words, &["-n", ns.name()]].concat())
            .success()
    };
    let first = app.release(0).await;
    let kept = clean(gone).done();
    assert!(kept.stderr.contains(name(&first)), "{kept:?}");
    let listed = list(&["release", "--clusters", gone]);
    let lines: Vec<Vec<_>> = listed
        .lines()
        .map(|line| line.split("   ").collect())
        .collect();
    let cells = |line: &[&str]| {
        let cells = line.iter().map(|it| it.trim().to_owned());
        cells.filter(|it| !it.is_empty()).collect::<Vec<_>>()
    };
    assert_eq!(
        cells(&lines[0]),
        ["NAMESPACE", "NAME", "CLUSTERS ANNOTATION"]
    );
    assert_eq!(cells(&lines[1]), [ns.name(), name(&first), gone]);
    assert_eq!(lines.len(), 2);
    app.apply(in_one_cluster(app, "0.0.2", ALL_IN)).await;
    let fourth = app.completed(3).await;
    let cleaned = clean(gone).done();
    assert!(cleaned.stdout.contains(name(&first)), "{cleaned:?}");
    // The manager chooses clusters again once a Release has none (contract 3.2).
    assert_ne!(clusters(&app.release(0).await), gone);
    let contenders: Value = serde_json::from_str(&list(&["contender", "-o", "json"])).unwrap();
    let contender = json!({ "namespace": ns.name(), "name": name(&fourth), "clusters": [hub] });
    assert_eq!(contenders, json!([contender]));
    ns.delete(&app.entry()).await;
    ns.eventually("no Releases and targets", async || {
        let mut left = 0;
        for kind in [
            "Release",
            "InstallationTarget",
            "CapacityTarget",
            "TrafficTarget",
        ] {
            let like = ns.reference(&TestApplication::kind(kind, "any"));
            left += ns.cluster().list(&like, "").await.len();
        }
        left == 0
    })
    .await;
}
