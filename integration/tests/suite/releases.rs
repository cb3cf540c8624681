//! Shipper Applications that are rolled out over two clusters: the hub and a site.

use baton_integration::application::{ALL_IN, TestApplication, VANGUARD, condition, name, reason};
use baton_integration::prelude::*;

/// A Release replaces its predecessor in steps, with the pods of each step, and the Application
/// reports it as active.
#[tokio::test]
async fn a_release_replaces_another_step_by_step_in_two_clusters() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let app = TestApplication::new(&ns, "web").await;
    app.apply(app.environment("0.0.1", 4, ALL_IN)).await;
    let first = app.completed(0).await;
    app.has_pods(&first, 4).await;
    has_events_of_a_first_step(&app, &first).await;
    let before = app.services().await;
    let second = replaced_in_steps(&app, &first, 4, [(1, 4), (2, 2), (4, 0)]).await;
    // The Service was handed over, and selects the pods of the Release that has all traffic.
    let after = app.services().await;
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(uid(before), uid(after));
        assert_eq!(
            after["spec"]["selector"]["shipper-release"],
            name(&second),
            "{after}"
        );
        assert_eq!(
            after["metadata"]["labels"]["shipper-owned-by"],
            name(&second)
        );
    }
    // The slices of each Release are owned by it and by its revisions in both clusters.
    let slices = ns.reference(&object(
        "package-operator.run/v1alpha1",
        "ObjectSlice",
        "any",
    ));
    ns.eventually("the slices to be owned by the revisions", async || {
        let slices = ns.cluster().list(&slices, "shipper-app=web").await;
        let owners = slices.iter().map(|it| owner_names(it).len());
        slices.len() == 2 && owners.sum::<usize>() == 6
    })
    .await;
    let active = format!("Release \"{}\" is active", name(&second));
    let application = ns
        .object_becomes(&app.entry(), &active, |application| {
            reason(application, "RollingOut")[1] == active
        })
        .await;
    assert_eq!(
        application["status"]["history"],
        json!([name(&first), name(&second)])
    );
}

/// Rolls out a second Release in three steps, with these pods of contender and incumbent in each. Returns
/// the Release.
async fn replaced_in_steps(
    app: &TestApplication<'_>,
    first: &Value,
    replicas: u32,
    pods: [(usize, usize); 3],
) -> Value {
    app.apply(app.environment("0.0.2", replicas, VANGUARD))
        .await;
    for (step, (contender, incumbent)) in (0..).zip(pods) {
        if step > 0 {
            app.promote(1, step).await;
        }
        let second = match step {
            2 => app.completed(1).await,
            _ => app.at_step(1, step).await,
        };
        app.has_pods(&second, contender).await;
        app.has_pods(first, incumbent).await;
    }
    app.release(1).await
}

/// Cases R1 and R2.
async fn has_events_of_a_first_step(app: &TestApplication<'_>, release: &Value) {
    let full_name = format!("{}/{}", app.ns.name(), name(release));
    let clusters =
        release["metadata"]["annotations"]["shipper.booking.com/release.clusters"].clone();
    let clusters = clusters.as_str().unwrap();
    let set = format!("Set clusters for \"{full_name}\" to {clusters}");
    app.recorded(release, ["Normal", "ClustersSelected", &set])
        .await;
    for kind in ["InstallationTarget", "CapacityTarget", "TrafficTarget"] {
        let created = format!("Created {kind} \"{full_name}\"");
        app.recorded(release, ["Normal", "ReleaseScheduled", &created])
            .await;
    }
    app.recorded(release, ["Normal", "StrategyApplied", "step [0] finished"])
        .await;
    let conditions = "[] -> [Blocked False], [] -> [Scheduled True], [] -> [StrategyExecuted True]";
    app.recorded(release, ["Normal", "ReleaseConditionChanged", conditions])
        .await;
    assert_eq!(condition(release, "StrategyExecuted"), "True");
}

/// Case E13.
#[tokio::test]
async fn a_single_pod_is_replaced_in_steps() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let app = TestApplication::new(&ns, "web").await;
    app.apply(app.environment("0.0.1", 1, ALL_IN)).await;
    let first = app.completed(0).await;
    replaced_in_steps(&app, &first, 1, [(1, 1), (1, 1), (1, 0)]).await;
}

/// A paused Application makes no Release, and a Release of it takes no step; pods and traffic stay.
#[tokio::test]
async fn a_paused_application_keeps_its_step() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let app = TestApplication::new(&ns, "web").await;
    app.apply(app.environment("0.0.1", 4, ALL_IN)).await;
    let first = app.completed(0).await;
    app.apply(app.environment("0.0.2", 4, VANGUARD)).await;
    let second = app.at_step(1, 0).await;
    ns.plugin(&["pause", "app/web"]).done();
    app.promote(1, 1).await;
    let paused = "the Application is paused; `kubectl baton resume app/web` continues";
    app.becomes(1, "blocked", |release| {
        reason(release, "Blocked") == ["RolloutsBlocked", paused]
    })
    .await;
    app.apply(app.environment("0.0.2", 6, VANGUARD)).await;
    ns.object_becomes(&app.entry(), "blocked", |application| {
        reason(application, "Blocked") == ["RolloutsBlocked", paused]
    })
    .await;
    app.stays_at_step(1, 0).await;
    assert_eq!(app.releases().await.len(), 2);
    app.has_pods(&first, 4).await;
    app.has_pods(&second, 1).await;
    let status = ns.plugin(&["status", "app/web"]);
    assert!(status.stdout.contains("is paused"), "{status:?}");
    ns.plugin(&["resume", "app/web"]).done();
    app.at_step(2, 0).await;
}

/// The objects of the aborted Release are handed back, with the content of the previous Release.
#[tokio::test]
async fn an_abort_in_the_middle_of_a_step_hands_all_objects_back() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let app = TestApplication::new(&ns, "web").await;
    let environment = app.environment("0.0.1", 4, VANGUARD);
    app.apply(environment.clone()).await;
    app.at_step(0, 0).await;
    app.promote(0, 2).await;
    let first = app.completed(0).await;
    let before = app.services().await;

    app.apply(app.environment("0.0.2", 4, VANGUARD)).await;
    app.at_step(1, 0).await;
    app.promote(1, 1).await;
    let second = app.at_step(1, 1).await;
    app.delete_release(&second).await;
    app.completed(0).await;
    app.has_pods(&first, 4).await;
    app.has_pods(&second, 0).await;
    let text = "the installed objects to be those of the first Release again";
    ns.eventually(text, async || {
        let after = app.services().await;
        before.iter().zip(&after).all(|(before, after)| {
            uid(before) == uid(after)
                && after["metadata"]["labels"]["shipper-owned-by"] == name(&first)
        })
    })
    .await;
    ns.eventually("all pods to be served", async || {
        app.addresses().await == [4, 4]
    })
    .await;
    let application = ns.live(&app.entry()).await;
    assert_eq!(
        application["spec"]["template"]["chart"],
        environment["chart"]
    );
    assert_eq!(application["status"]["history"], json!([name(&first)]));
}

/// A first Release that is deleted is recreated under the same name.
#[tokio::test]
async fn a_deleted_first_release_is_created_again() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let app = TestApplication::new(&ns, "web").await;
    app.apply(app.environment("0.0.1", 4, VANGUARD)).await;
    app.at_step(0, 0).await;
    app.promote(0, 1).await;
    let before = app.at_step(0, 1).await;
    app.has_pods(&before, 2).await;
    app.delete_release(&before).await;
    ns.eventually("another Release", async || {
        let found = app.find(0).await;
        found.is_some_and(|found| uid(&found) != uid(&before))
    })
    .await;
    let after = app.at_step(0, 0).await;
    assert_eq!(name(&after), name(&before));
    app.has_pods(&after, 1).await;
}

/// Covers lost and scaled workloads, and the deletion of every target.
#[tokio::test]
async fn lost_and_changed_objects_are_restored() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let app = TestApplication::new(&ns, "web").await;
    app.apply(app.environment("0.0.1", 2, ALL_IN)).await;
    let release = app.completed(0).await;
    app.has_pods(&release, 2).await;

    let labels = format!("shipper-release={}", name(&release));
    let deployments = app.in_clusters("apps/v1", "Deployment", &labels).await;
    let old = deployments[1][0].clone();
    assert!(app.clusters[1].cluster.delete(&old, "Background").await);
    ns.eventually("another Deployment", async || {
        let found = app.in_clusters("apps/v1", "Deployment", &labels).await;
        found[1]
            .first()
            .is_some_and(|found| uid(found) != uid(&old))
    })
    .await;
    app.has_pods(&release, 2).await;
    app.completed(0).await;

    // A user scales the workload.
    let scaled = json!({ "spec": { "replicas": 5 } });
    let deployment = &deployments[0][0];
    app.clusters[0]
        .cluster
        .merge(deployment, &scaled)
        .await
        .unwrap();
    ns.eventually("as many pods as before", async || {
        let live = app.clusters[0].cluster.get(deployment).await.unwrap();
        live["spec"]["replicas"] == 2
    })
    .await;
    for kind in ["InstallationTarget", "CapacityTarget", "TrafficTarget"] {
        let target = TestApplication::kind(kind, name(&release));
        let old = ns.live(&target).await;
        ns.delete(&target).await;
        ns.eventually("another target", async || {
            let found = ns.get(&target).await;
            found.is_some_and(|found| uid(&found) != uid(&old))
        })
        .await;
        app.completed(0).await;
        app.has_pods(&release, 2).await;
        ns.eventually("all pods to be served", async || {
            app.addresses().await == [2, 2]
        })
        .await;
    }
    // Case C7: two are missing at once, and the third stays.
    let [kept, lost @ ..] = ["InstallationTarget", "CapacityTarget", "TrafficTarget"]
        .map(|kind| TestApplication::kind(kind, name(&release)));
    let before = ns.live(&kept).await;
    let old = [ns.live(&lost[0]).await, ns.live(&lost[1]).await];
    for target in &lost {
        ns.delete(target).await;
    }
    for (target, old) in lost.iter().zip(&old) {
        ns.eventually("another target", async || {
            let found = ns.get(target).await;
            found.is_some_and(|found| uid(&found) != uid(old) && found["spec"] == old["spec"])
        })
        .await;
    }
    app.completed(0).await;
    let after = ns.live(&kept).await;
    assert_eq!(
        (uid(&after), &after["spec"]),
        (uid(&before), &before["spec"])
    );
}

/// Nothing is left in any cluster.
#[tokio::test]
async fn an_application_is_deleted_with_all_its_objects() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let app = TestApplication::new(&ns, "web").await;
    app.apply(app.environment("0.0.1", 1, ALL_IN)).await;
    app.completed(0).await;
    app.apply(app.environment("0.0.2", 1, ALL_IN)).await;
    app.completed(1).await;
    ns.delete(&app.entry()).await;
    ns.gone(&app.entry()).await;
    for (api, kind) in [("apps/v1", "Deployment"), ("v1", "Service"), ("v1", "Pod")] {
        ns.eventually("nothing to be left", async || {
            let found = app.in_clusters(api, kind, "shipper-app=web").await;
            found.iter().all(Vec::is_empty)
        })
        .await;
    }
    let set = ns.reference(&object("package-operator.run/v1alpha1", "ObjectSet", "any"));
    ns.eventually("no revision to be left", async || {
        ns.cluster().list(&set, "shipper-app=web").await.is_empty()
    })
    .await;
}

/// A rollback applies an older template. It is the next generation, with the content of the older
/// Release.
#[tokio::test]
async fn a_rollback_creates_another_release() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let app = TestApplication::new(&ns, "web").await;
    let old = app.environment("0.0.1", 2, ALL_IN);
    app.apply(old.clone()).await;
    app.completed(0).await;
    app.apply(app.environment("0.0.2", 2, ALL_IN)).await;
    app.completed(1).await;
    app.apply(old).await;
    let third = app.completed(2).await;
    assert!(
        name(&third).ends_with("-1"),
        "of the same hash: {}",
        name(&third)
    );
    app.has_pods(&third, 2).await;
    for service in app.services().await {
        assert_eq!(
            service["metadata"]["labels"]["shipper-owned-by"],
            name(&third)
        );
    }
}

/// ObjectSets of another client have the next names of the chains of both clusters.
#[tokio::test]
async fn a_release_gets_revisions_beside_those_of_its_names() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let app = TestApplication::new(&ns, "web").await;
    let old = app.environment("0.0.1", 1, ALL_IN);
    app.apply(old.clone()).await;
    let first = app.completed(0).await;
    app.apply(app.environment("0.0.2", 1, ALL_IN)).await;
    app.completed(1).await;
    let third = name(&first).replace("-0", "-1");
    for cluster in &app.clusters {
        let name = format!("{third}-{}-3", cluster.joined.name());
        let taken = object("package-operator.run/v1alpha1", "ObjectSet", &name);
        let objects = json!([configmap(cluster.joined.name()).into_json()]);
        let phases = json!([{ "name": "a", "objects": objects }]);
        ns.create(&taken.with("/spec", json!({ "phases": phases })))
            .await;
    }
    app.apply(old).await;
    assert_eq!(name(&app.completed(2).await), third);
    let like = object("package-operator.run/v1alpha1", "ObjectSet", "any");
    let labels = format!("shipper-release={third}");
    let revisions = ns.cluster().list(&ns.reference(&like), &labels).await;
    let numbers = revisions.iter().map(|it| &it["spec"]["revision"]);
    assert_eq!(numbers.collect::<Vec<_>>(), [4, 4]);
}

/// Each error is reported by Shipper's reason, and the running Release is not affected.
#[tokio::test]
async fn bad_input_is_reported_and_changes_nothing() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let app = TestApplication::new(&ns, "web").await;
    let good = app.environment("0.0.1", 1, ALL_IN);
    app.apply(good.clone()).await;
    let first = app.completed(0).await;
    app.has_pods(&first, 1).await;

    // Neither the version nor the chart exists.
    for (field, value, cause) in [
        ("version", "9.9.9", "no chart version found"),
        ("name", "nobody", "no chart name found"),
    ] {
        let mut bad = good.clone();
        bad["chart"][field] = value.into();
        app.apply(bad).await;
        let reported = ns
            .object_becomes(&app.entry(), "refused", |application| {
                let [reason, message] = reason(application, "RollingOut");
                reason == "ChartVersionResolutionFailed" && message.ends_with(cause)
            })
            .await;
        assert_eq!(reported["status"]["history"], json!([name(&first)]));
        app.apply(good.clone()).await;
        ns.object_becomes(&app.entry(), "well", |application| {
            condition(application, "RollingOut") == "False"
                && reason(application, "RollingOut")[0].is_empty()
        })
        .await;
    }

    // The region has too few clusters.
    let mut bad = good.clone();
    bad["clusterRequirements"]["regions"][0]["replicas"] = 7.into();
    app.apply(bad).await;
    app.becomes(1, "refused", |release| {
        reason(release, "Scheduled")[0] == "NotEnoughClustersInRegion"
    })
    .await;

    // The strategy has no step.
    let mut bad = good.clone();
    bad["strategy"]["steps"] = json!([]);
    app.apply(bad).await;
    let reported = "failed to execute strategy: \"no step 0 in strategy for Release";
    app.ns
        .eventually("a Release without steps to be refused", async || {
            let newest = app.releases().await.pop().unwrap_or_default();
            reason(&newest, "StrategyExecuted")[1].starts_with(reported)
        })
        .await;
    assert_eq!(app.ready_pods(&first).await, [1, 1]);
    assert_eq!(app.addresses().await, [1, 1]);
}

/// A lost revision of an older Release is recreated with its number, so it does not become the
/// newest one.
#[tokio::test]
async fn a_recreated_older_revision_takes_no_object_from_a_newer_release() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let app = TestApplication::new(&ns, "web").await;
    app.apply(app.environment("0.0.1", 2, ALL_IN)).await;
    let first = app.completed(0).await;
    app.apply(app.environment("0.0.2", 2, VANGUARD)).await;
    let second = app.at_step(1, 0).await;
    let like = object("package-operator.run/v1alpha1", "ObjectSet", "any");
    let labels = format!("shipper-release={}", name(&first));
    let like = ns.reference(&like);
    let revisions = ns.cluster().list(&like, &labels).await;
    assert_eq!(revisions.len(), 2);
    for revision in &revisions {
        assert!(ns.cluster().delete(revision, "Background").await);
    }
    ns.eventually("both revisions to be back", async || {
        let found = ns.cluster().list(&like, &labels).await;
        let is_back = |old: &Value| {
            let mut found = found.iter();
            found.any(|new| {
                name(new) == name(old)
                    && uid(new) != uid(old)
                    && new["spec"]["revision"] == old["spec"]["revision"]
            })
        };
        revisions.iter().all(is_back)
    })
    .await;
    app.has_pods(&first, 2).await;
    let target = TestApplication::kind("InstallationTarget", name(&first));
    ns.object_becomes(&target, "ready", |target| {
        condition(target, "Ready") == "True"
    })
    .await;
    let is_owner = |service: &Value, release: &Value| {
        service["metadata"]["labels"]["shipper-owned-by"] == name(release)
    };
    let services = app.services().await;
    assert!(services.iter().all(|service| is_owner(service, &second)));
    app.at_step(1, 0).await;
    app.promote(1, 2).await;
    app.completed(1).await;
    app.has_pods(&second, 2).await;
    let services = app.services().await;
    assert!(services.iter().all(|service| is_owner(service, &second)));
}

/// A user who may write targets chooses their content, but a target reaches no further than the
/// revisions of its namespace.
#[tokio::test]
async fn a_namespace_that_may_not_deliver_into_a_cluster_scales_nothing_there() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let app = TestApplication::new(&ns, "web").await;
    app.apply(app.environment("0.0.1", 2, ALL_IN)).await;
    let release = app.completed(0).await;
    app.has_pods(&release, 2).await;
    let labels = format!("shipper-release={}", name(&release));
    let deployment = app.in_clusters("apps/v1", "Deployment", &labels).await[1][0].clone();
    let site = app.clusters[1].joined.name();
    let nobody = json!({ "namespaces": { "names": [] }, "clusters": { "names": [site] } });
    let closed = object("baton.run/v1alpha1", "SiteAssignment", &ns.unique("closed"));
    let closed = ns.create_elsewhere(&closed.with("/spec", nobody)).await;
    for kind in ["CapacityTarget", "TrafficTarget"] {
        let target = TestApplication::kind(kind, name(&release));
        ns.object_becomes(&target, "refused", |target| {
            reason(target, "Ready")[1].contains("may not deliver into Cluster")
        })
        .await;
    }
    let cluster = &app.clusters[1].cluster;
    let scaled = json!({ "spec": { "replicas": 5 } });
    cluster.merge(&deployment, &scaled).await.unwrap();
    ns.stays(Duration::from_secs(1), "scaled by hand", async || {
        cluster.get(&deployment).await.unwrap()["spec"]["replicas"] == 5
    })
    .await;
    let opened = json!({ "spec": { "namespaces": { "names": [ns.name()] } } });
    ns.cluster().merge(&closed, &opened).await.unwrap();
    ns.eventually("as many pods as before", async || {
        cluster.get(&deployment).await.unwrap()["spec"]["replicas"] == 2
    })
    .await;
    app.completed(0).await;
}
