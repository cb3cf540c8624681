//! Applications that Shipper has rolled out.

use baton_integration::application::{ALL_IN, TestApplication, VANGUARD, condition, name};
use baton_integration::prelude::*;
use baton_integration::sites::{PUSH, Site};

use super::PODS;
use super::watched::Watched;
use crate::plugin_diff::kubeconfig;

/// An Application in the middle of a step is taken over: nothing is created again, all pods stay in
/// service, and the rollout continues. The objects do not depend on the anchors any more.
#[tokio::test]
async fn a_hub_of_shipper_is_taken_over_in_the_middle_of_a_step() {
    let (mut bed, ns) = super::bed_with_releases().await;
    let app = TestApplication::new(&ns, super::APP).await;
    let [first, second] = in_mid_step(&app).await;

    assert!(bed.take_manager().terminate().success());
    app.left_by_shipper().await;
    let before = installed(&app).await;
    let watched = Watched::start(&app).await;
    bed.start_manager();
    ns.eventually("all Releases to be installed by revisions", async || {
        for release in [&first, &second] {
            let target = ns
                .live(&TestApplication::kind("InstallationTarget", name(release)))
                .await;
            if condition(&target, "Ready") != "True" {
                return false;
            }
        }
        numbers(&app).await == [[1, 2], [1, 2]] && are_all_taken(&app).await
    })
    .await;
    app.at_step(1, 1).await;
    assert_eq!(installed(&app).await, before);

    app.collect_anchors().await;
    assert_eq!(installed(&app).await, before);
    app.has_pods(&first, 2).await;
    watched.assert_served(4).await;
    app.promote(1, 2).await;
    let second = app.completed(1).await;
    app.has_pods(&second, 4).await;
    app.has_pods(&first, 0).await;
    watched.assert_served(3).await;
    // The fields of Shipper belong to the revisions: a field that a later chart drops is removed.
    for service in app.services().await {
        assert!(!has_manager(&service, "shipper"), "{service:#}");
    }
}

/// The role of shipperctl has no right to `EndpointSlices`: the condition names the right and the
/// command that grants it, and traffic is shifted once the right is granted.
#[tokio::test]
async fn a_right_that_shipperctl_does_not_grant_is_named() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let app = TestApplication::new(&ns, super::APP).await;
    let rbac = "rbac.authorization.k8s.io";
    let role = object(&format!("{rbac}/v1"), "ClusterRole", &ns.unique("shipper"));
    let verbs = [
        "get",
        "list",
        "watch",
        "patch",
        "delete",
        "update",
        "create",
        "deletecollection",
    ];
    let resources = [
        "pods",
        "pods/log",
        "services",
        "deployments",
        "replicasets",
        "statefulsets",
        "secrets",
        "configmaps",
        "jobs",
        "cronjobs",
        "persistentvolumeclaims",
        "endpoints",
        "rolebindings",
        "roles",
        "serviceaccounts",
    ];
    let rules = json!([
        { "apiGroups": ["", "extensions", "apps", "batch", rbac], "resources": resources, "verbs": verbs },
        { "apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list"] },
    ]);
    ns.create_elsewhere(&role.clone().with("/rules", rules))
        .await;
    let admin = ns.unique("application-cluster");
    let binding = object(&format!("{rbac}/v1"), "ClusterRoleBinding", &admin);
    let admin = ns.live(&binding).await;
    ns.delete(&binding).await;
    let subjects = admin["subjects"].clone();
    let reference = json!({ "apiGroup": rbac, "kind": "ClusterRole", "name": role.name() });
    let limited = binding
        .clone()
        .with("/subjects", subjects.clone())
        .with("/roleRef", reference);
    ns.create(&limited).await;

    app.apply(app.environment("0.0.1", PODS, ALL_IN)).await;
    let release = app
        .becomes(0, "installed", |release| {
            condition(release, "Scheduled") == "True"
        })
        .await;
    let target = TestApplication::kind("TrafficTarget", name(&release));
    let command = format!(
        "; `baton cluster join {}` grants the rights of Baton",
        app.clusters[0].joined.name()
    );
    ns.object_becomes(&target, "blocked by the missing right", |target| {
        let text = target["status"].to_string();
        text.contains("cannot list endpointslices: ") && text.contains(&command)
    })
    .await;
    ns.delete(&limited).await;
    ns.create(
        &binding
            .with("/subjects", subjects)
            .with("/roleRef", admin["roleRef"].clone()),
    )
    .await;
    app.completed(0).await;
}

/// An Application goes back to Shipper: all objects stay, with the owners and marks of Shipper, and
/// Baton writes nothing any more. It can be taken again.
#[tokio::test]
async fn an_application_is_given_back_and_taken_again() {
    let (mut bed, ns) = super::bed_with_releases().await;
    let app = TestApplication::new(&ns, super::APP).await;
    let [first, second] = in_mid_step(&app).await;
    let before = installed(&app).await;
    let watched = Watched::start(&app).await;

    let config = kubeconfig(&ns, &Site::get(PUSH).await);
    let context = format!("--cluster-context={}=site", app.clusters[1].joined.name());
    let run = async |args: &[&str]| {
        let mut command = ns.plugin_command(&[&["give-back", "app/web"], args].concat());
        command.env("KUBECONFIG", config.path());
        let ended = tokio::task::spawn_blocking(move || command.output().unwrap()).await;
        let output = ended.unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (
            output.status.code().unwrap(),
            text(output.stdout),
            text(output.stderr),
        )
    };
    let (code, _, stderr) = run(&[]).await;
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("--cluster-context"), "{stderr}");
    let (code, stdout, stderr) = run(&[&context]).await;
    assert_eq!(code, 0, "{stderr}");
    let mut names = [name(&first), name(&second)];
    names.sort_unstable();
    let anchors = format!("given to the anchors of {}", names.join(", "));
    assert!(stdout.contains(&anchors), "{stdout}");
    assert!(are_all_taken(&app).await);

    let (code, stdout, stderr) = run(&[&context, "--apply"]).await;
    assert_eq!(code, 0, "{stdout}{stderr}");
    assert_eq!(installed(&app).await, before);
    has_marks_of_shipper(&app).await;
    watched.assert_served(4).await;

    // Another pass over everything, and other work of the manager.
    let versions = written(&app).await;
    assert!(bed.take_manager().terminate().success());
    bed.start_manager();
    let beside = bed.namespace(Scope::Namespaced).await;
    let other = TestApplication::new(&beside, "other").await;
    other.apply(other.environment("0.0.1", 1, ALL_IN)).await;
    other.completed(0).await;
    assert_eq!(written(&app).await, versions);

    let again = json!({ "metadata": { "annotations": { "baton.run/given-back": null } } });
    ns.merge(&app.entry(), &again).await;
    ns.eventually("all objects to be taken again", async || {
        are_all_taken(&app).await
    })
    .await;
    app.promote(1, 2).await;
    app.completed(1).await;
    app.has_pods(&second, 4).await;
    // The Service selects the only Release with traffic by its name, which Shipper does not do.
    let before = installed(&app).await;
    let (code, stdout, stderr) = run(&[&context, "--apply"]).await;
    assert_eq!(code, 0, "{stdout}{stderr}");
    assert_eq!(installed(&app).await, before);
    has_marks_of_shipper(&app).await;
    watched.assert_served(3).await;
}

/// Rolls a second Release out to the middle of its strategy. Returns both Releases.
async fn in_mid_step(app: &TestApplication<'_>) -> [Value; 2] {
    app.apply(app.environment("0.0.1", PODS, VANGUARD)).await;
    app.at_step(0, 0).await;
    app.promote(0, 2).await;
    let first = app.completed(0).await;
    app.apply(app.environment("0.0.2", PODS, VANGUARD)).await;
    app.at_step(1, 0).await;
    app.promote(1, 1).await;
    [first, app.at_step(1, 1).await]
}

/// Requires that the objects have the owners and marks that Shipper gives them, and that nothing of
/// Baton is left.
async fn has_marks_of_shipper(app: &TestApplication<'_>) {
    let releases = app.releases().await;
    let anchor = |release: &str| format!("{release}-anchor");
    let mut all: Vec<String> = releases.iter().map(|it| anchor(name(it))).collect();
    all.sort_unstable();
    for (api, kind) in [("apps/v1", "Deployment"), ("v1", "Service")] {
        let found = app.in_clusters(api, kind, "shipper-app=web").await;
        for object in found.iter().flatten() {
            let owners = object["metadata"]["ownerReferences"].as_array().unwrap();
            let owners: Vec<_> = owners
                .iter()
                .map(|owner| name_of(owner).to_owned())
                .collect();
            let release = object["metadata"]["labels"]["shipper-release"].as_str();
            let expected = match kind {
                "Service" => all.clone(),
                _ => vec![anchor(release.unwrap())],
            };
            assert_eq!(owners, expected, "{object:#}");
            let text = object["metadata"].to_string();
            assert!(!text.contains("package-operator"), "{object:#}");
            assert!(
                !is_labelled(object) && has_manager(object, "shipper"),
                "{object:#}"
            );
            if kind == "Service" {
                assert_eq!(
                    object["spec"]["selector"]["shipper-traffic-status"],
                    "enabled"
                );
                assert_eq!(object["spec"]["selector"]["shipper-release"], Value::Null);
            }
        }
    }
    let anchors = app.in_clusters("v1", "ConfigMap", "shipper-app=web").await;
    for anchors in anchors {
        let mut names: Vec<_> = anchors.iter().map(|it| name(it).to_owned()).collect();
        names.sort_unstable();
        assert_eq!(names, all);
    }
    for release in &releases {
        assert_eq!(
            release["metadata"]["finalizers"],
            Value::Null,
            "{release:#}"
        );
    }
    for kind in ["ObjectSet", "ObjectSetPhase", "ObjectSlice"] {
        let like = object("package-operator.run/v1alpha1", kind, "any");
        let left = app
            .ns
            .cluster()
            .list(&app.ns.reference(&like), "shipper-app=web")
            .await;
        assert!(left.is_empty(), "{left:#?}");
    }
}

fn name_of(owner: &Value) -> &str {
    owner["name"].as_str().unwrap()
}

/// Returns the versions of all objects of an Application that Baton could write.
async fn written(app: &TestApplication<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for (api, kind) in [("apps/v1", "Deployment"), ("v1", "Service"), ("v1", "Pod")] {
        let objects = app.in_clusters(api, kind, "shipper-app=web").await;
        found.extend(objects.into_iter().flatten());
    }
    let api = "shipper.booking.com/v1alpha1";
    for kind in [
        "Release",
        "InstallationTarget",
        "CapacityTarget",
        "TrafficTarget",
    ] {
        let like = app.ns.reference(&object(api, kind, "any"));
        found.extend(app.ns.cluster().list(&like, "shipper-app=web").await);
    }
    found.push(app.ns.live(&app.entry()).await);
    let version = |it: &Value| format!("{} {}", name(it), it["metadata"]["resourceVersion"]);
    found.iter().map(version).collect()
}

/// Returns the uids of workloads, Services and pods, by cluster and name.
async fn installed(app: &TestApplication<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for (api, kind) in [("apps/v1", "Deployment"), ("v1", "Service"), ("v1", "Pod")] {
        for (index, objects) in app
            .in_clusters(api, kind, "shipper-app=web")
            .await
            .iter()
            .enumerate()
        {
            let line = |it: &Value| format!("{index} {kind} {} {}", name(it), uid(it));
            found.extend(objects.iter().map(line));
        }
    }
    found.sort_unstable();
    found
}

/// True if all objects of the chart belong to revisions.
async fn are_all_taken(app: &TestApplication<'_>) -> bool {
    for (api, kind) in [("apps/v1", "Deployment"), ("v1", "Service")] {
        let found = app.in_clusters(api, kind, "shipper-app=web").await;
        if !found.iter().flatten().all(is_labelled) {
            return false;
        }
    }
    true
}

/// Returns the numbers of the revisions in each cluster, the hub first.
async fn numbers(app: &TestApplication<'_>) -> Vec<Vec<i64>> {
    let like = app
        .ns
        .reference(&object("package-operator.run/v1alpha1", "ObjectSet", "any"));
    let revisions = app.ns.cluster().list(&like, "shipper-app=web").await;
    let mut all = Vec::new();
    for app_cluster in &app.clusters {
        let part = format!("-{}-", app_cluster.joined.name());
        let of_cluster = revisions.iter().filter(|it| name(it).contains(&part));
        let mut numbers: Vec<_> = of_cluster
            .filter_map(|it| it["spec"]["revision"].as_i64())
            .collect();
        numbers.sort_unstable();
        all.push(numbers);
    }
    all
}
