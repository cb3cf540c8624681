//! Archival: objects are removed and the revision stays as history.

use baton_integration::prelude::*;

alternating_scopes! {
    archival_goes_in_reverse_order;
    archival_deletes_the_objects_of_slices;
    an_object_annotated_to_be_kept_stays_without_an_owner;
    a_revision_created_archived_writes_nothing;
    an_archived_revision_stays_archived;
    a_released_object_keeps_the_cache_label;
}

/// Each phase waits until the objects of the following phase are gone.
async fn archival_goes_in_reverse_order(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let [first, second, third] = ["cm-1", "cm-2", "cm-3"].map(|name| configmap(name).blocked());
    ns.revision(1)
        .phase("1", [first.clone(), configmap("free-1")])
        .phase("2", [second.clone()])
        .phase("3", [third.clone(), configmap("free-3")])
        .available()
        .await;
    ns.set_lifecycle("v1", "Archived").await;
    let is_going = |live: &Value| !live["metadata"]["deletionTimestamp"].is_null();
    let in_progress = [Because("Archived", "False", "ArchivalInProgress")];

    ns.object_becomes(&third, "deleted", is_going).await;
    ns.gone(&configmap("free-3")).await;
    ns.reaches("v1", &in_progress).await;
    ns.stays(
        Duration::from_secs(2),
        "earlier phases are untouched",
        async || !is_going(&ns.live(&second).await) && !is_going(&ns.live(&first).await),
    )
    .await;

    ns.unblock(&third).await;
    ns.object_becomes(&second, "deleted", is_going).await;
    assert_eq!(ns.get(&third).await, None);
    ns.stays(
        Duration::from_secs(1),
        "the first phase is untouched",
        async || !is_going(&ns.live(&first).await) && ns.get(&configmap("free-1")).await.is_some(),
    )
    .await;

    ns.unblock(&second).await;
    ns.object_becomes(&first, "deleted", is_going).await;
    ns.reaches("v1", &in_progress).await;
    ns.unblock(&first).await;
    ns.reaches(
        "v1",
        &[Because("Archived", "True", "Archived"), Controls(&[])],
    )
    .await;
    assert_eq!(ns.get(&first).await, None);
    assert_eq!(ns.get(&configmap("free-1")).await, None);
}

async fn archival_deletes_the_objects_of_slices(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let [inline, sliced, later] = ["inline", "sliced", "later"].map(configmap);
    ns.create_slice("slice", [sliced.clone()]).await;
    ns.revision(1)
        .phase_with_slices("a", [inline.clone()], &["slice"])
        .phase("b", [later.clone()])
        .create()
        .await;
    let all = Controls(&["ConfigMap inline", "ConfigMap sliced", "ConfigMap later"]);
    let set = ns
        .reaches(
            "v1",
            &[Is("Available", "True"), Is("Succeeded", "True"), all],
        )
        .await;
    let phases = &set.json["spec"]["phases"];
    assert_eq!(
        phases[0]["objects"].as_array().map(Vec::len),
        Some(1),
        "{phases}"
    );
    // The revision is an owner of the slice, but not its controller.
    let slice = ns.cluster().get(&ns.slice_ref("slice")).await.unwrap();
    assert_eq!(owner_names(&slice), [set.name()]);
    assert_eq!(controller(&slice), "");

    ns.set_lifecycle("v1", "Archived").await;
    ns.reaches("v1", &[Is("Archived", "True")]).await;
    for object in [&inline, &sliced, &later] {
        assert_eq!(ns.get(object).await, None);
    }
}

/// Objects with either annotation stay after an archival and after a deletion, also if a user has
/// added the annotation to the live object.
async fn an_object_annotated_to_be_kept_stays_without_an_owner(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let annotated = |name: &str, annotation: &str, value: &str| {
        let mut object = configmap(name);
        object.manifest["metadata"]["annotations"] = json!({ annotation: value });
        object
    };
    for (version, archives) in [(1, true), (2, false)] {
        let name = |what: &str| format!("{what}-{version}");
        let ours = annotated(&name("ours"), "baton.run/deletion", "keep");
        let helms = annotated(&name("helms"), "helm.sh/resource-policy", "keep");
        let marked = configmap(&name("marked"));
        let other = configmap(&name("other"));
        let objects = [&ours, &helms, &marked, &other];
        ns.revision(version)
            .phase("a", objects.map(Clone::clone))
            .available()
            .await;
        let keep = json!({ "metadata": { "annotations": { "baton.run/deletion": "keep" } } });
        ns.merge(&marked, &keep).await;
        let set = format!("v{version}");
        if archives {
            ns.set_lifecycle(&set, "Archived").await;
            ns.reaches(&set, &[Is("Archived", "True"), Controls(&[])])
                .await;
        } else {
            ns.delete_set(&set, "Background").await;
        }
        assert_eq!(ns.get(&other).await, None);
        for kept in [&ours, &helms, &marked] {
            let live = ns.live(kept).await;
            assert_eq!(owner_names(&live), [""; 0]);
            assert!(live["metadata"]["deletionTimestamp"].is_null(), "{live}");
        }
        let text = format!(
            "Left 3 object(s) behind that are to be kept: ConfigMap {0}/helms-{version}, \
             ConfigMap {0}/marked-{version}, ConfigMap {0}/ours-{version}",
            ns.name()
        );
        ns.has_event("Normal", &text).await;
    }
}

async fn a_revision_created_archived_writes_nothing(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let cm = configmap("cm");
    ns.revision(1)
        .phase("a", [cm.clone()])
        .lifecycle("Archived")
        .create()
        .await;
    let wanted = [
        Because("Archived", "True", "Archived"),
        No("Available"),
        Phase("Archived"),
    ];
    let set = ns.reaches("v1", &wanted).await;
    assert_eq!(ns.get(&cm).await, None);
    let finalizers = set.json["metadata"]["finalizers"].to_string();
    assert!(
        !finalizers.contains("package-operator.run/cached"),
        "{finalizers}"
    );
    ns.delete_set("v1", "Background").await;
}

/// A later change of the life cycle state has no effect.
async fn an_archived_revision_stays_archived(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let cm = configmap("cm");
    ns.revision(1).phase("a", [cm.clone()]).available().await;
    ns.set_lifecycle("v1", "Archived").await;
    ns.reaches("v1", &[Is("Archived", "True")]).await;
    ns.set_lifecycle("v1", "Active").await;
    ns.stays(Duration::from_secs(2), "archived for good", async || {
        let set = ns.read_set("v1").await;
        set.has(&[No("Available"), Phase("Archived")])
            && set
                .condition("Archived")
                .is_some_and(|archived| archived["status"] == "True")
            && ns.get(&cm).await.is_none()
    })
    .await;
    // The deletion of an archived revision removes nothing, even if an object of the same name
    // exists by then.
    ns.create(&cm).await;
    ns.delete_set("v1", "Background").await;
    ns.live(&cm).await;
}

/// An archival can be cancelled before it is complete.
#[tokio::test]
async fn an_archival_can_be_cancelled() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let (first, second) = (configmap("cm-1"), configmap("cm-2").blocked());
    ns.revision(1)
        .phase("1", [first.clone()])
        .phase("2", [second.clone()])
        .available()
        .await;
    let before = ns.live(&first).await;
    ns.set_lifecycle("v1", "Archived").await;
    ns.reaches("v1", &[Is("Archived", "False"), No("Available")])
        .await;
    ns.set_lifecycle("v1", "Active").await;
    // Until the manager has observed the change, it may continue with the previous phase.
    ns.reaches("v1", &[Because("Available", "False", "ProbeFailure")])
        .await;
    ns.unblock(&second).await;
    ns.reaches(
        "v1",
        &[
            Is("Available", "True"),
            Controls(&["ConfigMap cm-1", "ConfigMap cm-2"]),
        ],
    )
    .await;
    assert_eq!(uid(&ns.live(&first).await), uid(&before));
}

/// The released object keeps the label that the new owner's watch selects by.
async fn a_released_object_keeps_the_cache_label(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let cm = configmap("cm");
    ns.revision(1).phase("a", [cm.clone()]).available().await;
    ns.revision(2)
        .phase("a", [cm.clone()])
        .reaching(&[Is("Available", "True"), Controls(&["ConfigMap cm"])])
        .await;
    ns.reaches("v1", &[Controls(&[])]).await;
    let before = ns.live(&cm).await;
    // The older revision releases the object with one write.
    ns.set_lifecycle("v1", "Archived").await;
    let released = ns
        .object_becomes(&cm, "released by v1", |live| {
            assert!(is_labelled(live), "{live}");
            owner_names(live) == [ns.set_name("v2")]
        })
        .await;
    let generation = |live: &Value| live["metadata"]["resourceVersion"].clone();
    assert_ne!(generation(&released), generation(&before));
    ns.reaches("v1", &[Is("Archived", "True")]).await;
    assert_eq!(
        generation(&ns.live(&cm).await),
        generation(&released),
        "one write was enough"
    );
}

/// Without the slice the objects of the revision are not known, so the archival waits, and the
/// status names the slice.
#[tokio::test]
async fn archival_waits_for_a_missing_slice() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let sliced = configmap("sliced");
    ns.create_slice("slice", [sliced.clone()]).await;
    ns.revision(1)
        .phase_with_slices("a", [], &["slice"])
        .available()
        .await;
    assert!(
        ns.cluster()
            .delete(&ns.slice_ref("slice"), "Background")
            .await
    );
    // Until the manager has observed the deletion of the slice, it may use the slice's content.
    ns.reaches("v1", &[Because("Available", "False", "PreflightError")])
        .await;
    ns.set_lifecycle("v1", "Archived").await;
    ns.eventually("the missing slice to be named", async || {
        let status = &ns.read_set("v1").await.json["status"];
        status["observedGeneration"] == 2 && status.to_string().contains("\\\"slice\\\"")
    })
    .await;
    ns.read_set("v1").await.assert(&[Phase("NotReady")]);
    ns.create_slice("slice", [sliced.clone()]).await;
    ns.reaches("v1", &[Is("Archived", "True")]).await;
    assert_eq!(ns.get(&sliced).await, None);
}
