//! Objects that Package Operator wrote, in each of its ways, under another manager.

use std::collections::BTreeMap;

use baton_integration::exclusive::Exclusive;
use baton_integration::prelude::*;
use baton_integration::takeover::{MANAGER, PROCESS, Shape, entries};
use futures::future::join_all;

use crate::requests::{Count, settle};

alternating_scopes! {
    a_take_over_writes_nothing;
    a_dropped_field_is_removed_by_the_next_revision;
}

/// The managed fields of every object that this manager has applied.
const OURS: [(&str, &str); 1] = [(MANAGER, "Apply")];

fn settings(shape: Shape) -> Entry {
    configmap(&format!("settings-{}", shape.word()))
}

fn workload(shape: Shape) -> Entry {
    let name = format!("web-{}", shape.word());
    object("apps/v1", "Deployment", &name)
        .with("/spec/replicas", 2)
        .with("/spec/selector/matchLabels/app", name.as_str())
        .with("/spec/template/metadata/labels/app", name.as_str())
}

fn service(shape: Shape) -> Entry {
    let name = format!("web-{}", shape.word());
    object("v1", "Service", &name).with("/spec/selector/app", name)
}

fn set_name(shape: Shape) -> String {
    format!("{}-1", shape.word())
}

/// Returns the objects of the first revision of a chain.
fn first(shape: Shape) -> [Entry; 3] {
    let settings = settings(shape)
        .data("changes", "1")
        .data("goes", "1")
        .data("stays", "1")
        .label("goes", "1")
        .annotation("goes", "1");
    let container = json!({
        "name": "web", "image": "web:1", "args": ["--old"],
        "env": [{ "name": "CHANGES", "value": "1" }, { "name": "GOES", "value": "1" }],
        "ports": [{ "containerPort": 80 }, { "containerPort": 80, "protocol": "UDP" }],
        "volumeMounts": [{ "name": "v", "mountPath": "/v" }],
    });
    let workload = workload(shape)
        .with("/spec/template/spec/containers", json!([container]))
        .with(
            "/spec/template/spec/volumes",
            json!([{ "name": "v", "emptyDir": {} }]),
        );
    let ports = json!([{ "name": "http", "port": 80 }, { "name": "goes", "port": 81 }]);
    [
        settings,
        workload,
        service(shape).with("/spec/ports", ports),
    ]
}

/// Returns the same objects in the next revision. The new content of the deployment is not valid
/// together with the dropped content: a volume has one source.
fn second(shape: Shape) -> [Entry; 3] {
    let settings = settings(shape).data("changes", "2").data("stays", "1");
    let container = json!({
        "name": "web", "image": "web:2",
        "env": [{ "name": "CHANGES", "value": "2" }],
        "ports": [{ "containerPort": 80 }],
        "volumeMounts": [{ "name": "v", "mountPath": "/v" }],
    });
    let volume = json!({ "name": "v", "configMap": { "name": settings.name() } });
    let workload = workload(shape)
        .with("/spec/template/spec/containers", json!([container]))
        .with("/spec/template/spec/volumes", json!([volume]));
    let ports = json!([{ "name": "http", "port": 8080 }]);
    [
        settings,
        workload,
        service(shape).with("/spec/ports", ports),
    ]
}

/// Returns the identity of an object and the fields that change with every write or change of its
/// content.
fn state(live: &Value) -> [&Value; 5] {
    let metadata = &live["metadata"];
    let [name, uid] = [&metadata["name"], &metadata["uid"]];
    let [version, generation] = [&metadata["resourceVersion"], &metadata["generation"]];
    [&live["kind"], name, uid, version, generation]
}

async fn all_live(ns: &TestNamespace, entries: &[Entry]) -> Vec<Value> {
    join_all(entries.iter().map(|entry| ns.live(entry))).await
}

/// Fails unless the objects are unchanged.
async fn check_untouched(ns: &TestNamespace, entries: &[Entry], before: &[Value]) {
    let after = all_live(ns, entries).await;
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(state(after), state(before));
    }
}

/// Waits until a deployment is rolled out, so that only a manager changes it from then on.
async fn rolled_out(ns: &TestNamespace, entry: &Entry) {
    ns.object_becomes(entry, "rolled out", |live| {
        let status = &live["status"];
        let conditions = status["conditions"].as_array();
        let progressing = conditions
            .into_iter()
            .flatten()
            .find(|condition| condition["type"] == "Progressing");
        status["observedGeneration"] == live["metadata"]["generation"]
            && status["availableReplicas"] == live["spec"]["replicas"]
            && progressing.is_some_and(|it| it["reason"] == "NewReplicaSetAvailable")
    })
    .await;
}

/// Creates the first revision of a chain for each shape, and returns all their objects.
async fn leave_behind(ns: &TestNamespace) -> Vec<Entry> {
    let mut all = Vec::new();
    for shape in Shape::ALL {
        let set = ns
            .set(&set_name(shape))
            .revision(1)
            .phase("a", first(shape))
            .probe(condition_probe("apps", "Deployment", "Available"));
        ns.left_behind(set, shape).create().await;
        all.extend(first(shape));
    }
    for shape in Shape::ALL {
        rolled_out(ns, &workload(shape)).await;
    }
    all
}

/// Fails unless the requests only report the status of revisions.
fn check_quiet(counts: &BTreeMap<&'static str, u64>, sets: usize) {
    let mut counts = counts.clone();
    let written = counts.remove("status").unwrap_or_default();
    assert!(written <= sets as u64, "{written} of {sets}");
    for verb in ["list", "watch", "discovery", "event"] {
        counts.remove(verb);
    }
    assert_eq!(counts, BTreeMap::new(), "requests about objects");
}

/// The manager takes objects over without creating or rewriting one of them.
async fn a_take_over_writes_nothing(scope: Scope) {
    let mut bed = Exclusive::acquire().await;
    let ns = bed.namespace(scope).await;
    bed.take_manager().kill();
    let all = leave_behind(&ns).await;
    let before = all_live(&ns, &all).await;
    bed.start_manager();
    let count = Count::since_start();
    for shape in Shape::ALL {
        let set = ns
            .reaches(
                &set_name(shape),
                &[
                    Phase("Available"),
                    Is("Available", "True"),
                    Is("Succeeded", "True"),
                    No("InTransition"),
                ],
            )
            .await;
        assert_eq!(set.controller_of().len(), 3, "{}", set.status());
    }
    settle(&ns, &bed).await;
    check_untouched(&ns, &all, &before).await;
    check_quiet(&count.so_far(&bed), Shape::ALL.len());
    for shape in Shape::ALL {
        let live = ns.live(&settings(shape)).await;
        assert_eq!(entries(&live), shape.entries(), "{live}");
    }
}

/// The server stores some values in another format than the one that was sent. A manager that did
/// not apply them needs a dry run to compare them, and has nothing to write.
#[tokio::test]
async fn equivalent_forms_of_values_cause_no_write() {
    let mut bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    bed.take_manager().kill();
    let mut all = Vec::new();
    for shape in Shape::ALL {
        let container = json!({
            "name": "web", "image": "web:1", "args": [],
            "resources": { "limits": { "cpu": "1000m", "memory": "1024Mi" } },
        });
        let workload = workload(shape)
            .with("/spec/template/metadata/creationTimestamp", Value::Null)
            .with("/spec/template/spec/containers", json!([container]));
        let secret = secret(&format!("secret-{}", shape.word())).with("/stringData/k", "v");
        let objects = [workload, secret];
        let set = ns
            .set(&set_name(shape))
            .revision(1)
            .phase("a", objects.clone());
        ns.left_behind(set, shape).create().await;
        all.extend(objects);
    }
    for shape in Shape::ALL {
        rolled_out(&ns, &workload(shape)).await;
    }
    let before = all_live(&ns, &all).await;
    bed.start_manager();
    let count = Count::since_start();
    for shape in Shape::ALL {
        ns.reaches(&set_name(shape), &[Phase("Available"), No("InTransition")])
            .await;
    }
    settle(&ns, &bed).await;
    check_untouched(&ns, &all, &before).await;
    let mut counts = count.so_far(&bed);
    let dry_runs = counts.remove("dry-run").unwrap_or_default();
    assert!(dry_runs <= all.len() as u64, "{dry_runs} dry runs");
    check_quiet(&counts, Shape::ALL.len());
}

/// Adds fields of another client to the objects of a revision.
async fn add_theirs(ns: &TestNamespace, shape: Shape) {
    let theirs = json!({
        "metadata": { "labels": { "theirs": "1" }, "annotations": { "theirs": "1" } },
        "data": { "theirs": "1" },
    });
    ns.merge(&settings(shape), &theirs).await;
    let variable = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": workload(shape).name(), "namespace": ns.name() },
        "spec": { "template": { "spec": { "containers": [
            { "name": "web", "env": [{ "name": "THEIRS", "value": "1" }] },
        ] } } },
    });
    ns.cluster().apply(&variable, "somebody").await.unwrap();
}

/// Fails unless the objects have the content of the second revision and the fields of other
/// clients.
async fn check_second(ns: &TestNamespace, shape: Shape, revision: &Revision) {
    let live = ns.live(&settings(shape)).await;
    let data = json!({ "changes": "2", "stays": "1", "theirs": "1" });
    assert_eq!(live["data"], data, "{shape:?}");
    let labels = json!({ "theirs": "1", "package-operator.run/cache": "True" });
    assert_eq!(live["metadata"]["labels"], labels, "{shape:?}");
    let annotations = json!({ "theirs": "1", "package-operator.run/revision": "2" });
    assert_eq!(live["metadata"]["annotations"], annotations, "{shape:?}");
    assert_managed_by(&live, revision);
    assert_eq!(entries(&live), OURS, "{shape:?}");
    assert!(has_manager(&live, "a-user"), "{live}");

    let live = ns.live(&workload(shape)).await;
    let spec = &live["spec"]["template"]["spec"];
    let container = &spec["containers"][0];
    let theirs = json!([{ "name": "CHANGES", "value": "2" }, { "name": "THEIRS", "value": "1" }]);
    assert_eq!(container["env"], theirs, "{shape:?}");
    assert_eq!(container["args"], Value::Null, "{shape:?}");
    let ports = json!([{ "containerPort": 80, "protocol": "TCP" }]);
    assert_eq!(container["ports"], ports, "{shape:?}");
    let name = settings(shape).name().to_owned();
    let source = json!({ "name": name, "defaultMode": 420 });
    assert_eq!(
        spec["volumes"],
        json!([{ "name": "v", "configMap": source }]),
        "{shape:?}"
    );
    assert_eq!(entries(&live), OURS, "{shape:?}");
    assert!(has_manager(&live, "somebody"), "{live}");

    let live = ns.live(&service(shape)).await;
    let ports = json!([{ "name": "http", "port": 8080, "protocol": "TCP", "targetPort": 8080 }]);
    assert_eq!(live["spec"]["ports"], ports, "{shape:?}");
    assert_eq!(entries(&live), OURS, "{shape:?}");
}

/// Creates a revision of a chain that names all earlier ones as previous, and waits until it has
/// succeeded.
async fn roll_out(ns: &TestNamespace, shape: Shape, number: i64) -> Revision {
    let previous: Vec<String> = (1..number)
        .map(|number| format!("{}-{number}", shape.word()))
        .collect();
    let previous: Vec<&str> = previous.iter().map(String::as_str).collect();
    let name = format!("{}-{number}", shape.word());
    ns.set(&name)
        .revision(number)
        .previous(&previous)
        .phase("a", second(shape))
        .probe(condition_probe("apps", "Deployment", "Available"))
        .create()
        .await;
    ns.reaches(
        &name,
        &[
            Is("Available", "True"),
            Is("Succeeded", "True"),
            No("InTransition"),
        ],
    )
    .await
}

async fn a_dropped_field_is_removed_by_the_next_revision(scope: Scope) {
    let mut bed = Exclusive::acquire().await;
    let ns = bed.namespace(scope).await;
    bed.take_manager().kill();
    let all = leave_behind(&ns).await;
    for shape in Shape::ALL {
        add_theirs(&ns, shape).await;
        rolled_out(&ns, &workload(shape)).await;
    }
    let before = all_live(&ns, &all).await;
    bed.start_manager();
    let second = join_all(Shape::ALL.map(|shape| roll_out(&ns, shape, 2))).await;
    for (shape, revision) in Shape::ALL.into_iter().zip(&second) {
        check_second(&ns, shape, revision).await;
    }
    for (before, after) in before.iter().zip(&all_live(&ns, &all).await) {
        assert_eq!(uid(after), uid(before));
    }

    // Further rollouts of these objects cost the same as those of any other object.
    settle(&ns, &bed).await;
    let count = Count::start(&bed);
    join_all(Shape::ALL.map(|shape| roll_out(&ns, shape, 3))).await;
    settle(&ns, &bed).await;
    let counts = count.so_far(&bed);
    assert_eq!(counts.get("apply"), Some(&(all.len() as u64)), "{counts:?}");
    assert_eq!(counts.get("dry-run"), None, "{counts:?}");
    assert_eq!(counts.get("get"), None, "{counts:?}");
    // The finalizers of the new revisions.
    assert_eq!(
        counts.get("patch"),
        Some(&(Shape::ALL.len() as u64)),
        "{counts:?}"
    );
}

/// A repair is a write like any other: it removes fields that an older revision has left behind,
/// and fields of other clients stay.
#[tokio::test]
async fn a_repair_removes_fields_left_by_an_older_revision() {
    let mut bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    bed.take_manager().kill();
    let mut all = Vec::new();
    for shape in Shape::ALL {
        let cm = settings(shape).data("k", "v");
        let set = ns
            .set(&set_name(shape))
            .revision(1)
            .phase("a", [cm.clone()]);
        ns.left_behind(set, shape).create().await;
        let leftover = json!({ "data": { "leftover": "1" } });
        let reference = ns.reference(&cm);
        ns.cluster()
            .merge_as(&reference, &leftover, PROCESS)
            .await
            .unwrap();
        ns.merge(&cm, &json!({ "data": { "theirs": "1" } })).await;
        all.push(cm);
    }
    let before = all_live(&ns, &all).await;
    bed.start_manager();
    for shape in Shape::ALL {
        ns.reaches(&set_name(shape), &[Phase("Available")]).await;
    }
    settle(&ns, &bed).await;
    check_untouched(&ns, &all, &before).await;

    let count = Count::start(&bed);
    for cm in &all {
        ns.merge(cm, &json!({ "data": { "k": "drifted" } })).await;
    }
    for cm in &all {
        let live = ns
            .object_becomes(cm, "repaired", |live| live["data"]["k"] == "v")
            .await;
        assert_eq!(live["data"], json!({ "k": "v", "theirs": "1" }));
        assert_eq!(entries(&live), OURS, "{live}");
    }
    settle(&ns, &bed).await;
    let counts = count.so_far(&bed);
    let objects = Some(&(all.len() as u64));
    for verb in ["apply", "get", "patch"] {
        assert_eq!(counts.get(verb), objects, "{verb} of {counts:?}");
    }

    // The next repair costs one write per object, and there is no further event.
    let count = Count::start(&bed);
    for cm in &all {
        ns.merge(cm, &json!({ "data": { "k": "drifted" } })).await;
        ns.object_becomes(cm, "repaired", |live| live["data"]["k"] == "v")
            .await;
    }
    settle(&ns, &bed).await;
    assert_eq!(
        count.so_far(&bed),
        BTreeMap::from([("apply", all.len() as u64)])
    );
}

/// Two managers deliver a chain in turn, each after the other's last revision.
#[tokio::test]
async fn two_managers_deliver_a_chain_in_turn() {
    let mut bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    let cm = configmap("cm");
    let content = |number: i64| {
        cm.clone()
            .data("always", "1")
            .data(&format!("r{number}"), "1")
    };
    let mut previous = Vec::new();
    let mut uids = std::collections::BTreeSet::new();
    let mut number = 0;
    for shape in Shape::ALL {
        // A revision of this manager.
        number += 1;
        let name = format!("v{number}");
        let names: Vec<&str> = previous.iter().map(String::as_str).collect();
        let set = ns.set(&name).revision(number).previous(&names);
        set.phase("a", [content(number)]).create().await;
        ns.reaches(&name, &[Is("Available", "True"), No("InTransition")])
            .await;
        let live = ns.live(&cm).await;
        let only = json!({ "always": "1", format!("r{number}"): "1" });
        assert_eq!(live["data"], only, "after {shape:?}");
        assert_eq!(entries(&live), OURS);
        uids.insert(uid(&live).to_owned());
        previous.push(name);
        settle(&ns, &bed).await;
        bed.take_manager().kill();

        // A revision of Package Operator.
        number += 1;
        let name = format!("v{number}");
        let names: Vec<&str> = previous.iter().map(String::as_str).collect();
        let set = ns.set(&name).revision(number).previous(&names);
        ns.left_behind(set.phase("a", [content(number)]), shape)
            .create()
            .await;
        previous.push(name.clone());
        let before = ns.live(&cm).await;
        bed.start_manager();
        let count = Count::since_start();
        ns.reaches(&name, &[Phase("Available"), No("InTransition")])
            .await;
        settle(&ns, &bed).await;
        let live = ns.live(&cm).await;
        let only = json!({ "always": "1", format!("r{number}"): "1" });
        assert_eq!(live["data"], only, "{shape:?}");
        if shape == Shape::EarlyApply {
            // Package Operator could not drop the fields that this manager had applied under
            // another name, so this manager drops them.
            assert_eq!(entries(&live), OURS);
        } else {
            assert_eq!(state(&live), state(&before), "{shape:?}");
            check_quiet(&count.so_far(&bed), 2 * previous.len());
        }
    }
    assert_eq!(uids.len(), 1);
}

/// Number of foreign writes to each object during its handover.
const ROUNDS: usize = 10;

/// Another client writes to the objects meanwhile. The migration is bound to the version that was
/// read, and is repeated.
#[tokio::test]
async fn a_migration_survives_other_writers() {
    let mut bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    bed.take_manager().kill();
    let objects: Vec<Entry> = (0..10)
        .map(|at| {
            configmap(&format!("cm-{at}"))
                .data("changes", "1")
                .data("goes", "1")
        })
        .collect();
    let set = ns.revision(1).phase("a", objects.clone());
    ns.left_behind(set, Shape::Posted).create().await;
    bed.start_manager();
    let next = objects
        .iter()
        .map(|cm| configmap(cm.name()).data("changes", "2"));
    ns.revision(2).phase("a", next).create().await;
    for round in 0..ROUNDS {
        let patch = json!({ "data": { "theirs": round.to_string() } });
        for cm in &objects {
            ns.merge(cm, &patch).await;
        }
    }
    ns.reaches("v2", &[Is("Available", "True"), Is("Succeeded", "True")])
        .await;
    for cm in &objects {
        let live = ns.live(cm).await;
        let data = json!({ "changes": "2", "theirs": (ROUNDS - 1).to_string() });
        assert_eq!(live["data"], data, "{live}");
        assert_eq!(entries(&live), OURS, "{live}");
    }
}

/// The controller of an inner revision writes to it under the same field manager. The outer
/// revision, which contains the inner one, does not take these fields for its own.
#[tokio::test]
async fn a_nested_revision_keeps_what_its_controller_wrote() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let inner = |label: &str| {
        let cm = configmap("cm").manifest;
        object("package-operator.run/v1alpha1", "ObjectSet", "inner")
            .label("label", label)
            .with(
                "/spec/phases",
                json!([{ "name": "a", "objects": [{ "object": cm }] }]),
            )
    };
    let outer = |name: &str| {
        ns.set(name).probe(condition_probe(
            "package-operator.run",
            "ObjectSet",
            "Available",
        ))
    };
    outer("v1")
        .revision(1)
        .phase("a", [inner("1")])
        .create()
        .await;
    ns.reaches("v1", &[Is("Available", "True")]).await;
    let before = ns.live(&inner("1")).await;
    assert!(entries(&before).contains(&(MANAGER, "Update")), "{before}");
    outer("v2")
        .revision(2)
        .previous(&["v1"])
        .phase("a", [inner("2")])
        .create()
        .await;
    ns.reaches("v2", &[Is("Available", "True")]).await;
    let live = ns.live(&inner("2")).await;
    assert_eq!(live["metadata"]["labels"]["label"], "2", "{live}");
    assert_eq!(
        live["metadata"]["finalizers"],
        before["metadata"]["finalizers"]
    );
    assert_eq!(live["spec"]["revision"], 1);
    assert_eq!(entries(&live), entries(&before));
}
