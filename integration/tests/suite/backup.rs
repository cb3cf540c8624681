//! A backup of the objects of a hub, and its restore into an empty hub.

use std::path::PathBuf;

use baton_integration::application::{ALL_IN, Step, TestApplication, VANGUARD, name};
use baton_integration::exclusive::Exclusive;
use baton_integration::fleet::{Fleet, settings, version};
use baton_integration::manager::HEARTBEAT;
use baton_integration::prelude::*;
use baton_integration::program::temporary;

/// Returns the arguments of a command about a backup in a file.
fn command<'a>(words: &[&'a str], file: &'a str) -> Vec<&'a str> {
    [&["backup"][..], words, &["-f", file]].concat()
}

fn file(ns: &TestNamespace) -> String {
    let path: PathBuf = temporary(&format!("{}-backup", ns.name()));
    path.display().to_string()
}

/// Kind, name, UID and content of the objects that the manager delivers into a cluster.
async fn delivered(app: &TestApplication<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for (api, kind) in [
        ("apps/v1", "Deployment"),
        ("v1", "Pod"),
        ("v1", "Service"),
        ("v1", "ConfigMap"),
    ] {
        let of_site = app.in_clusters(api, kind, "").await.remove(1);
        let line = |it: &Value| {
            let content = [&it["spec"], &it["data"]];
            format!("{kind} {} {} {content:?}", name(it), uid(it))
        };
        found.extend(of_site.iter().map(line));
    }
    found.sort();
    found
}

/// The hub is wiped in the middle of a step of an Application, and after a rollout to a site. The
/// manager runs during the backup and at the beginning of the restore.
#[tokio::test]
async fn rollouts_continue_in_a_hub_that_was_wiped() {
    let mut bed = Exclusive::acquire().await;
    let ns = &bed.namespace(Scope::Namespaced).await;
    let app = TestApplication::new(ns, "web").await;
    let fleet = Fleet::new(ns);
    fleet.add(&app.clusters[1].joined).await;
    // Nodes do not continue after a restart of the servers of the hub.
    let hub = app.clusters[0].joined.name();
    ns.plugin(&["clusters", "drain", hub]).done();
    let environment = |version: &str, steps: &[Step]| {
        let mut environment = app.environment(version, 2, steps);
        environment["clusterRequirements"]["regions"][0]["replicas"] = 1.into();
        environment
    };
    let empty = bed.snapshot().await;
    app.apply(environment("0.0.1", ALL_IN)).await;
    let first = app.completed(0).await;
    app.apply(environment("0.0.2", VANGUARD)).await;
    let second = app.at_step(1, 0).await;
    for number in ["1.0.0", "1.1.0"] {
        fleet.application(&version(number)).await;
        if number == "1.0.0" {
            fleet.deployment("shop", json!({})).await;
        }
        fleet.complete("shop", number, 1).await;
    }
    let before = delivered(&app).await;
    let statuses = async || {
        let mut of_kinds = Vec::new();
        for kind in ["Release", "CapacityTarget", "TrafficTarget"] {
            let like = ns.reference(&TestApplication::kind(kind, "any"));
            let found = ns.cluster().list(&like, "").await;
            of_kinds.extend(found.into_iter().map(|mut it| {
                // Generations begin again.
                it["status"]["observedGeneration"].take();
                json!([name(&it), it["spec"], it["status"]])
            }));
        }
        of_kinds
    };
    let file = file(ns);
    ns.plugin(&command(&["create"], &file)).done();
    let backed_up = statuses().await;

    // A manager that observes the wipe could still write for a moment.
    bed.take_manager().kill();
    bed.restore(&empty).await;
    bed.spawn_manager(&[HEARTBEAT]);
    assert_eq!(app.releases().await, Vec::<Value>::new());
    ns.plugin(&command(&["restore", "--yes"], &file)).done();
    assert_eq!(statuses().await, backed_up);
    // It has lost its lease.
    bed.take_manager().kill();
    bed.spawn_manager(&[HEARTBEAT]);
    ns.plugin(&command(&["restore", "--yes"], &file)).done();
    bed.take_manager().kill();
    bed.spawn_manager(&[HEARTBEAT]);

    app.at_step(1, 0).await;
    fleet.complete("shop", "1.1.0", 1).await;
    assert_eq!(delivered(&app).await, before);
    app.promote(1, 1).await;
    app.at_step(1, 1).await;
    app.promote(1, 2).await;
    assert_eq!(name(&app.completed(1).await), name(&second));
    ns.eventually("pods of the newest Release only", async || {
        app.ready_pods(&first).await[1] == 0 && app.ready_pods(&second).await[1] == 2
    })
    .await;
    fleet.application(&version("1.2.0")).await;
    fleet.complete("shop", "1.2.0", 1).await;
    let live = app.clusters[1].joined.site().live(ns, &settings()).await;
    assert_eq!(live["data"]["version"], "1.2.0");
    std::fs::remove_file(file).unwrap();
}

/// Nothing is created from a file that is not whole, into a hub with other objects, or without a right.
#[tokio::test]
async fn a_restore_is_refused_before_anything_is_created() {
    let bed = Exclusive::acquire().await;
    let ns = &bed.namespace(Scope::Namespaced).await;
    let empty = bed.snapshot().await;
    ns.revision(1)
        .phase("a", [configmap("a")])
        .available()
        .await;
    let file = file(ns);
    ns.plugin(&command(&["create", "--format", "json"], &file))
        .done();
    let restore = command(&["restore", "--yes"], &file);
    let text = std::fs::read_to_string(&file).unwrap();
    let refused = ns.plugin(&restore).failed();
    assert!(
        refused.contains("objects that are not of this backup: ObjectSets: 1"),
        "{refused}"
    );

    bed.restore(&empty).await;
    let damages = [
        (text[..text.len() / 2].to_owned(), "is cut off"),
        (text.replacen("\"phases\"", "\"phasen\"", 1), "is damaged"),
        (
            text.replacen("\"version\": 1", "\"version\": 2", 1),
            "format version 2",
        ),
    ];
    for (damaged, cause) in damages {
        std::fs::write(&file, damaged).unwrap();
        let refused = ns.plugin(&restore).failed();
        assert!(refused.contains(cause), "{refused}");
    }
    std::fs::write(&file, text).unwrap();
    // The user may take the lease, and create nothing else.
    ns.grant(
        "restorer",
        json!([{ "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"] }]),
    )
    .await;
    let everything = json!([{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"] }]);
    let rbac = "rbac.authorization.k8s.io/v1";
    let role = object(rbac, "ClusterRole", &ns.unique("reader")).with("/rules", everything);
    let binding = object(rbac, "ClusterRoleBinding", role.name())
        .with(
            "/roleRef",
            json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role.name() }),
        )
        .with("/subjects", json!([{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "restorer" }]));
    ns.create_elsewhere(&role).await;
    ns.create_elsewhere(&binding).await;
    let as_user = [
        &restore[..],
        &["--as", "restorer", "--manager-namespace", ns.name()],
    ]
    .concat();
    ns.eventually("the roles to be in force", async || {
        ns.plugin(&as_user).code == 3
    })
    .await;
    let refused = ns.plugin(&as_user).stderr;
    assert!(
        refused.contains("ObjectSet") && refused.contains("cannot create resource"),
        "{refused}"
    );
    assert!(
        ns.get(&object("package-operator.run/v1alpha1", "ObjectSet", "v1"))
            .await
            .is_none()
    );
    std::fs::remove_file(file).unwrap();
}
