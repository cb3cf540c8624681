//! What cannot be rolled out: each time a condition names the object and the cause, nothing of the
//! phase is written, and what can heal does.

use baton_integration::prelude::*;

both_scopes! {
    duplicate_objects => duplicates;
    unknown_kind => unknown;
    invalid_manifest => invalid;
    self_reference_in_previous => selfish;
    cycle_in_previous => cycle;
    improvement_13_unknown_collision_protection => unknown_protection;
    improvement_21_content_cannot_be_swapped => swapped_key;
    improvement_23_bad_cel_is_told => bad_cel;
    improvement_23_missing_slice_is_told => missing_slice;
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

/// However bad a revision is, it can be archived and deleted.
async fn ends(ns: &TestNamespace, name: &str) {
    ns.set_lifecycle(name, "Archived").await;
    ns.reaches(
        name,
        &[Is("Archived", "True"), No("Available"), Controls(&[])],
    )
    .await;
    ns.delete_set(name, "Background").await;
}

async fn duplicates(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let (first, twice) = (configmap("first"), configmap("twice"));
    ns.create_slice("slice", [twice.clone()]).await;
    ns.set("v1")
        .revision(1)
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

/// Later phases are looked at when they are reached.
async fn unknown(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let first = configmap("first");
    let nothing = object("nobody.example/v1", "Nothing", "none");
    let beside = configmap("beside");
    ns.set("v1")
        .revision(1)
        .phase("a", [first.clone()])
        .phase("b", [beside.clone(), nothing])
        .create()
        .await;
    let text = "nobody.example/v1, Kind=Nothing not registered on the api server.";
    refused(&ns, "v1", &["Phase \"b\", Nothing ", "/none: ", text]).await;
    ns.live(&first).await;
    assert_eq!(ns.get(&beside).await, None);
    ends(&ns, "v1").await;
    assert_eq!(ns.get(&first).await, None);
}

/// The server's own words are passed on.
async fn invalid(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let beside = configmap("beside");
    let wrong = configmap("wrong").with("/data", json!({ "not a key!": "v" }));
    ns.set("v1")
        .revision(1)
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

async fn selfish(scope: Scope) {
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

/// Numbers decide, so revisions that name each other do not fight. (Two without numbers are met in
/// `restart`, because a running manager numbers the first before the second is there.)
async fn cycle(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let cm = configmap("cm");
    ns.set("v1")
        .previous(&["v2"])
        .phase("a", [cm.clone().data("from", "v1")])
        .create()
        .await;
    ns.reaches("v1", &[Is("Available", "True")]).await;
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
    ns.stays(Duration::from_secs(2), "nobody writes", async || {
        ns.live(&cm).await == settled
    })
    .await;
}

async fn unknown_protection(scope: Scope) {
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

/// CEL's equality does not see this change; the manager does.
async fn swapped_key(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let cm = configmap("cm").data("k", "dGVzdA==");
    ns.set("v1")
        .revision(1)
        .phase("a", [cm.clone()])
        .create()
        .await;
    let set = ns.reaches("v1", &[Is("Available", "True")]).await;
    let mut phases = set.json["spec"]["phases"].clone();
    let manifest = phases[0]["objects"][0]["object"].as_object_mut().unwrap();
    let data = manifest.remove("data").unwrap();
    manifest.insert("binaryData".to_owned(), data);
    let patched = ns
        .patch_set("v1", &json!({ "spec": { "phases": phases } }))
        .await;
    if let Err(refused) = patched {
        assert!(
            refused.message.contains("phases is immutable"),
            "{refused:?}"
        );
    } else {
        let wanted = [
            Because("Available", "False", "SpecChanged"),
            Says("Available", "immutable"),
        ];
        ns.reaches("v1", &wanted).await;
    }
    let live = ns.live(&cm).await;
    assert_eq!(live["data"], json!({ "k": "dGVzdA==" }));
    assert!(live["binaryData"].is_null(), "{live}");
    ends(&ns, "v1").await;
    assert_eq!(ns.get(&cm).await, None);
}

async fn bad_cel(scope: Scope) {
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
    // The others go on.
    ns.set("v4")
        .revision(1)
        .phase("a", [configmap("v4")])
        .create()
        .await;
    ns.reaches("v4", &[Is("Available", "True")]).await;
    for name in ["v1", "v2", "v3"] {
        ends(&ns, name).await;
    }
}

async fn missing_slice(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let (inline, sliced) = (configmap("inline"), configmap("sliced"));
    let set = ns.set("v1").revision(1);
    set.phase_with_slices("a", [inline.clone()], &["slice"])
        .create()
        .await;
    refused(&ns, "v1", &[&ns.set_name("slice")]).await;
    assert_eq!(ns.get(&inline).await, None);
    ns.create_slice("slice", [sliced.clone()]).await;
    let all = Controls(&["ConfigMap inline", "ConfigMap sliced"]);
    ns.reaches("v1", &[Is("Available", "True"), all]).await;
}

/// The scope of a kind is known from discovery, whatever the manifest says.
#[tokio::test]
async fn improvement_17_cluster_scoped_object_in_a_namespaced_set() {
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
async fn object_of_another_namespace() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let away = configmap("cm").within("default");
    ns.set("v1")
        .revision(1)
        .phase("a", [away.clone()])
        .create()
        .await;
    let text = "Phase \"a\", ConfigMap default/cm: Must stay within the same namespace.";
    refused(&ns, "v1", &[text]).await;
    ends(&ns, "v1").await;
}

#[tokio::test]
async fn improvement_23_namespaced_object_without_namespace_in_a_cluster_set() {
    let ns = TestNamespace::new(Scope::Cluster).await;
    let phases = json!([{
        "name": "a", "objects": [{ "object": configmap("lost").manifest }],
    }]);
    ns.set("v1")
        .revision(1)
        .spec("phases", phases)
        .create()
        .await;
    let text = "Object doesn't have a namespace and no default is provided.";
    refused(&ns, "v1", &["Phase \"a\", ConfigMap /lost: ", text]).await;
    ends(&ns, "v1").await;
}

#[tokio::test]
async fn improvement_23_missing_namespace_is_told_and_heals() {
    let ns = TestNamespace::new(Scope::Cluster).await;
    let name = ns.unique("later");
    let cm = configmap("cm").within(&name);
    ns.set("v1")
        .revision(1)
        .phase("a", [cm.clone()])
        .create()
        .await;
    let set = ns.reaches("v1", &[Is("Available", "False")]).await;
    set.assert(&[Says("Available", &name), Says("Available", "not found")]);
    ns.create_elsewhere(&object("v1", "Namespace", &name)).await;
    // There is no watch of namespaces, only the retry after 30 s.
    ns.within(Duration::from_secs(40))
        .reaches("v1", &[Is("Available", "True")])
        .await;
    ns.live(&cm).await;
}

/// What a cluster-scoped revision is for.
#[tokio::test]
async fn cluster_set_with_its_own_namespace() {
    let ns = TestNamespace::new(Scope::Cluster).await;
    let name = ns.unique("own");
    let namespace = object("v1", "Namespace", &name);
    let cm = configmap("cm").within(&name);
    ns.set("v1")
        .revision(1)
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
    // The cluster takes its time for a namespace, and the revision waits for it.
    ns.within(Duration::from_mins(2))
        .eventually("the namespace to go", async || {
            ns.get(&namespace).await.is_none()
        })
        .await;
    ns.reaches("v1", &[Is("Archived", "True"), Controls(&[])])
        .await;
}

/// `previous` names revisions of the own kind only.
#[tokio::test]
async fn previous_of_another_kind() {
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

/// Exactly one kind of probe per entry.
#[tokio::test]
async fn ambiguous_probes() {
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
