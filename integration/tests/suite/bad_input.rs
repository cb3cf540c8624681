//! Revisions that cannot be rolled out. A condition names the object and the cause, nothing of the
//! phase is written, and a revision whose cause disappears recovers.

use baton_integration::hostile::maps;
use baton_integration::prelude::*;

alternating_scopes! {
    duplicate_objects_are_refused;
    an_unknown_kind_is_refused;
    an_invalid_manifest_is_refused;
    manifests_with_odd_metadata_are_refused;
    a_revision_that_is_its_own_previous_is_refused;
    numbers_decide_between_revisions_that_name_each_other;
    an_unknown_collision_protection_is_refused;
    a_renamed_key_of_a_template_is_refused;
    an_invalid_cel_rule_is_reported;
    a_missing_slice_is_reported;
    a_slice_that_is_named_twice_is_refused;
}

async fn refused(ns: &TestNamespace, name: &str, texts: &[&str]) -> Revision {
    let set = ns
        .reaches(name, &[Because("Available", "False", "PreflightError")])
        .await;
    for text in texts {
        set.assert(&[Says("Available", text)]);
    }
    set
}

/// Archives and deletes a bad revision, which must be possible.
async fn ends(ns: &TestNamespace, name: &str) {
    ns.set_lifecycle(name, "Archived").await;
    ns.reaches(
        name,
        &[Is("Archived", "True"), No("Available"), Controls(&[])],
    )
    .await;
    ns.delete_set(name, "Background").await;
}

async fn duplicate_objects_are_refused(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let (first, twice) = (configmap("first"), configmap("twice"));
    ns.create_slice("slice", [twice.clone()]).await;
    ns.revision(1)
        .phase("a", [first.clone(), twice.clone()])
        .phase_with_slices("b", [], &["slice"])
        .create()
        .await;
    refused(
        &ns,
        "v1",
        &["Phase \"b\", ConfigMap ", "/twice: Duplicate Object"],
    )
    .await;
    assert_eq!(ns.get(&first).await, None);
    ends(&ns, "v1").await;
}

/// The objects of a later phase are checked when the phase is reached. The unknown kind does not hold
/// back the other objects of its phase.
async fn an_unknown_kind_is_refused(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let first = configmap("first");
    let nothing = object("nobody.example/v1", "Nothing", "none");
    let beside = configmap("beside");
    ns.revision(1)
        .phase("a", [first.clone()])
        .phase("b", [nothing, beside.clone()])
        .phase("c", [configmap("later")])
        .create()
        .await;
    let text = "nobody.example/v1, Kind=Nothing not registered on the api server.";
    refused(&ns, "v1", &["Phase \"b\", Nothing ", "/none: ", text]).await;
    for object in [&first, &beside] {
        ns.live(object).await;
    }
    assert_eq!(ns.get(&configmap("later")).await, None);
    ends(&ns, "v1").await;
    for object in [&first, &beside] {
        assert_eq!(ns.get(object).await, None);
    }
}

/// The message of the server is passed on.
async fn an_invalid_manifest_is_refused(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let beside = configmap("beside");
    let wrong = configmap("wrong").with("/data", json!({ "not a key!": "v" }));
    ns.revision(1)
        .phase("a", [beside.clone(), wrong])
        .create()
        .await;
    refused(
        &ns,
        "v1",
        &["Phase \"a\", ConfigMap ", "/wrong: ", "not a key!"],
    )
    .await;
    assert_eq!(ns.get(&beside).await, None);
    let odd = object("v1", "ConfigMap", "odd").with("/data", json!(["not", "a", "map"]));
    ns.set("v2").revision(1).phase("a", [odd]).create().await;
    refused(&ns, "v2", &["/odd: "]).await;
    ends(&ns, "v1").await;
    ends(&ns, "v2").await;
}

/// The schema accepts these manifests: it would have to check each manifest on every write of the
/// revision.
async fn manifests_with_odd_metadata_are_refused(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let beside = configmap("beside");
    let odd = |path: &str, value: Value| configmap("odd").with(path, value);
    for (name, entry, text) in [
        (
            "v1",
            odd("/metadata/labels", json!("x")),
            "metadata.labels must be a map of strings.",
        ),
        (
            "v2",
            odd("/metadata/annotations", json!({ "a": 1 })),
            "metadata.annotations must be a map of strings.",
        ),
        (
            "v3",
            odd("/metadata/nothing", json!("x")),
            ".metadata.nothing",
        ),
        (
            "v4",
            odd("/metadata/labels", json!({ "not a label!": "x" })),
            "metadata.labels: Invalid value: a string of 12 bytes",
        ),
    ] {
        let set = ns.set(name).revision(1);
        set.phase("a", [beside.clone(), entry]).create().await;
        refused(&ns, name, &["/odd: ", text]).await;
        assert_eq!(ns.get(&beside).await, None);
        ends(&ns, name).await;
    }
    let object = "/spec/phases/0/objects/0/object";
    for value in [json!(5), json!("text"), json!(true), json!([{}])] {
        let set = ns.set("v5").revision(1).phase("a", [beside.clone()]);
        let mut sets = vec![set.manifest()];
        let deployment = ns.deployment("web");
        let content = ns.content().phase("a", [beside.clone()]);
        sets.push(deployment.content(content).manifest());
        for (manifest, within) in sets.iter_mut().zip(["", "/spec/template"]) {
            let path = format!("{within}{object}");
            *manifest.pointer_mut(&path).unwrap() = value.clone();
            let refused = ns.cluster().create(manifest).await.unwrap_err();
            assert_eq!(refused.reason, "Invalid", "{value}: {refused:?}");
            assert!(
                refused.message.contains("phases[0].objects[0].object"),
                "{refused:?}"
            );
        }
    }
}

async fn a_revision_that_is_its_own_previous_is_refused(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let cm = configmap("cm");
    ns.set("v1")
        .previous(&["v1"])
        .phase("a", [cm.clone()])
        .create()
        .await;
    refused(&ns, "v1", &["previous", &ns.set_name("v1")]).await;
    assert_eq!(ns.get(&cm).await, None);
    ends(&ns, "v1").await;
}

/// Revisions that name each other do not take each other's objects, because their numbers decide.
///
/// (Two such revisions without numbers are covered in `restart`, because a running manager numbers
/// the first one before the second one exists.)
async fn numbers_decide_between_revisions_that_name_each_other(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let cm = configmap("cm");
    ns.set("v1")
        .previous(&["v2"])
        .phase("a", [cm.clone().data("from", "v1")])
        .available()
        .await;
    ns.set("v2")
        .previous(&["v1"])
        .phase("a", [cm.clone().data("from", "v2")])
        .create()
        .await;
    let wanted = [
        Is("Available", "True"),
        Is("Succeeded", "True"),
        Controls(&["ConfigMap cm"]),
    ];
    let set = ns.reaches("v2", &wanted).await;
    assert_eq!(set.number(), Some(2));
    ns.reaches("v1", &[Is("InTransition", "True"), Controls(&[])])
        .await;
    let settled = ns.live(&cm).await;
    ns.stays(Duration::from_secs(2), "nothing is written", async || {
        ns.live(&cm).await == settled
    })
    .await;
}

async fn an_unknown_collision_protection_is_refused(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let entry = configmap("cm").collision("Sometimes");
    let refused = ns
        .set("v1")
        .phase("a", [entry])
        .try_create()
        .await
        .unwrap_err();
    assert!(
        refused.message.contains("collisionProtection"),
        "{refused:?}"
    );
}

/// A CEL rule cannot detect the change in a map of which only some fields are declared. Manifests
/// that such a schema has accepted are covered by tests in `crates/engine`.
async fn a_renamed_key_of_a_template_is_refused(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let cm = configmap("cm").data("k", "dGVzdA==");
    let set = ns.revision(1).phase("a", [cm.clone()]).available().await;
    let mut phases = set.json["spec"]["phases"].clone();
    let manifest = phases[0]["objects"][0]["object"].as_object_mut().unwrap();
    let data = manifest.remove("data").unwrap();
    manifest.insert("binaryData".to_owned(), data);
    let patched = ns
        .patch_set("v1", &json!({ "spec": { "phases": phases } }))
        .await;
    let refused = patched.unwrap_err();
    assert!(
        refused.message.contains("phases is immutable"),
        "{refused:?}"
    );
    let live = ns.live(&cm).await;
    assert_eq!(live["data"], json!({ "k": "dGVzdA==" }));
    assert!(live["binaryData"].is_null(), "{live}");
    ends(&ns, "v1").await;
    assert_eq!(ns.get(&cm).await, None);
}

async fn an_invalid_cel_rule_is_reported(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    for (name, rule) in [
        ("v1", "self.metadata.name =="),
        ("v2", "'not a bool'"),
        ("v3", "no_such_function(self)"),
    ] {
        let cm = configmap(name);
        let set = ns.set(name).revision(1).phase("a", [cm.clone()]);
        set.probe(cel_probe("", "ConfigMap", rule, "never"))
            .create()
            .await;
        refused(&ns, name, &[]).await;
        assert_eq!(ns.get(&cm).await, None);
    }
    // Other revisions are not affected.
    ns.set("v4")
        .revision(1)
        .phase("a", [configmap("v4")])
        .available()
        .await;
    for name in ["v1", "v2", "v3"] {
        ends(&ns, name).await;
    }
}

async fn a_missing_slice_is_reported(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let (inline, sliced) = (configmap("inline"), configmap("sliced"));
    let set = ns.revision(1);
    set.phase_with_slices("a", [inline.clone()], &["slice"])
        .create()
        .await;
    refused(&ns, "v1", &[&ns.set_name("slice")]).await;
    assert_eq!(ns.get(&inline).await, None);
    ns.create_slice("slice", [sliced.clone()]).await;
    let all = Controls(&["ConfigMap inline", "ConfigMap sliced"]);
    ns.reaches("v1", &[Is("Available", "True"), all]).await;
}

/// The scope of a kind is read from discovery, not from the manifest.
/// Every mention of a slice would take its memory again.
async fn a_slice_that_is_named_twice_is_refused(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    ns.create_slice("slice", [configmap("once")]).await;
    ns.revision(1)
        .phase_with_slices("a", [], &["slice"])
        .phase_with_slices("b", [], &["slice"])
        .create()
        .await;
    let slice = ns.set_name("slice");
    let text = format!("Phase \"b\": slice \"{slice}\" is named twice.");
    refused(&ns, "v1", &[&text]).await;
    assert_eq!(ns.get(&configmap("once")).await, None);
    ends(&ns, "v1").await;
}

#[tokio::test]
async fn manifests_that_take_too_much_memory_are_refused_and_can_be_deleted() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    ns.revision(1)
        .phase("a", [maps("bomb", 80_000)])
        .create()
        .await;
    let text = "the values of the manifests take more than 64 MiB of memory";
    refused(&ns, "v1", &[text]).await;
    ends(&ns, "v1").await;
}

/// The limit is for a revision as a whole.
#[tokio::test]
async fn slices_that_take_too_much_memory_together_are_refused() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    for name in ["first", "second"] {
        ns.create_slice(name, [maps(name, 45_000)]).await;
    }
    ns.revision(1)
        .phase_with_slices("a", [], &["first", "second"])
        .create()
        .await;
    let text = "slice \"second\": with this slice, the values of the manifests take more than";
    refused(&ns, "v1", &[text]).await;
    ends(&ns, "v1").await;
}

#[tokio::test]
async fn a_cluster_scoped_object_in_a_namespaced_revision_is_refused() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let text = "Must be namespaced scoped when part of an non-cluster-scoped API.";
    let role = |name: &str| {
        object(
            "rbac.authorization.k8s.io/v1",
            "ClusterRole",
            &ns.unique(name),
        )
    };
    let (plain, disguised) = (role("plain"), role("disguised").within(ns.name()));
    for (name, entry) in [("v1", plain), ("v2", disguised)] {
        ns.set(name)
            .revision(1)
            .phase("a", [entry.clone()])
            .create()
            .await;
        refused(
            &ns,
            name,
            &["Phase \"a\", ClusterRole ", entry.name(), text],
        )
        .await;
        assert_eq!(ns.get(&entry).await, None);
        ends(&ns, name).await;
    }
}

#[tokio::test]
async fn an_object_of_another_namespace_is_refused() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let away = configmap("cm").within("default");
    ns.revision(1).phase("a", [away.clone()]).create().await;
    let text = "Phase \"a\", ConfigMap default/cm: Must stay within the same namespace.";
    refused(&ns, "v1", &[text]).await;
    ends(&ns, "v1").await;
}

#[tokio::test]
async fn a_namespaced_object_without_namespace_in_a_cluster_revision_is_refused() {
    let ns = TestNamespace::new(Scope::Cluster).await;
    let phases = json!([{
        "name": "a", "objects": [{ "object": configmap("lost").manifest }],
    }]);
    ns.revision(1).spec("phases", phases).create().await;
    let text = "Object doesn't have a namespace and no default is provided.";
    refused(&ns, "v1", &["Phase \"a\", ConfigMap /lost: ", text]).await;
    ends(&ns, "v1").await;
}

#[tokio::test]
async fn a_missing_namespace_is_reported_until_it_exists() {
    let ns = TestNamespace::new(Scope::Cluster).await;
    let name = ns.unique("later");
    let cm = configmap("cm").within(&name);
    let set = ns
        .revision(1)
        .phase("a", [cm.clone()])
        .reaching(&[Is("Available", "False")])
        .await;
    set.assert(&[Says("Available", &name), Says("Available", "not found")]);
    ns.create_elsewhere(&object("v1", "Namespace", &name)).await;
    // Namespaces are not watched, so the retry after 30 s detects the new namespace.
    ns.within(Duration::from_secs(40))
        .reaches("v1", &[Is("Available", "True")])
        .await;
    ns.live(&cm).await;
}

/// A cluster-scoped revision may contain a namespace and the objects in it.
#[tokio::test]
async fn a_cluster_revision_may_contain_a_namespace_and_its_objects() {
    let ns = TestNamespace::new(Scope::Cluster).await;
    let name = ns.unique("own");
    let namespace = object("v1", "Namespace", &name);
    let cm = configmap("cm").within(&name);
    ns.revision(1)
        .phase("namespace", [namespace.clone()])
        .phase("content", [cm.clone()])
        .create()
        .await;
    let (first, second) = (format!("Namespace {name}"), "ConfigMap cm");
    let set = ns
        .reaches(
            "v1",
            &[Is("Available", "True"), Controls(&[&first, second])],
        )
        .await;
    let entry = &set.json["status"]["controllerOf"][0];
    assert!(entry.get("namespace").is_none(), "{entry}");
    assert_managed_by(&ns.live(&cm).await, &set);
    ns.set_lifecycle("v1", "Archived").await;
    // The deletion of a namespace takes time, and the revision waits for it.
    ns.eventually("the namespace to go", async || {
        ns.get(&namespace).await.is_none()
    })
    .await;
    ns.reaches("v1", &[Is("Archived", "True"), Controls(&[])])
        .await;
}

/// `previous` may name only revisions of the same kind.
#[tokio::test]
async fn a_previous_revision_of_another_kind_is_refused() {
    for (scope, other) in [
        (Scope::Namespaced, "ClusterObjectSet"),
        (Scope::Cluster, "ObjectSet"),
    ] {
        let ns = TestNamespace::new(scope).await;
        for previous in [
            json!([{ "name": "v0", "kind": other }]),
            json!([{ "name": "v0", "group": "apps" }]),
        ] {
            let set = ns
                .set("v1")
                .spec("previous", previous)
                .phase("a", [configmap("cm")]);
            assert_eq!(set.try_create().await.unwrap_err().reason, "Invalid");
        }
    }
}

/// Each entry has exactly one kind of probe.
#[tokio::test]
async fn a_probe_without_exactly_one_kind_is_refused() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let condition = json!({ "type": "Ready", "status": "True" });
    let equal = json!({ "fieldA": ".a", "fieldB": ".b" });
    for probe in [
        json!({}),
        json!({ "condition": condition, "fieldsEqual": equal }),
    ] {
        let selector = json!({ "kind": { "group": "", "kind": "ConfigMap" } });
        let set = ns
            .set("v1")
            .probe(json!({ "selector": selector, "probes": [probe] }));
        assert_eq!(set.try_create().await.unwrap_err().reason, "Invalid");
    }
}
