//! Taking objects away and keeping the revision as history.

use baton_integration::prelude::*;

both_scopes! {
    archival_goes_in_reverse_order => reverse_order;
    improvement_01_slices_are_torn_down => slices_torn_down;
    created_archived => created_archived_writes_nothing;
    archived_is_final => archived_is_final;
    improvement_07_release_keeps_the_cache_label => release_keeps_label;
}

/// Each phase waits until the objects of the one after it are gone for good.
async fn reverse_order(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let [first, second, third] = ["cm-1", "cm-2", "cm-3"].map(|name| configmap(name).blocked());
    ns.set("v1")
        .revision(1)
        .phase("1", [first.clone(), configmap("free-1")])
        .phase("2", [second.clone()])
        .phase("3", [third.clone(), configmap("free-3")])
        .create()
        .await;
    ns.reaches("v1", &[Is("Available", "True")]).await;
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

async fn slices_torn_down(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let [inline, sliced, later] = ["inline", "sliced", "later"].map(configmap);
    ns.create_slice("slice", [sliced.clone()]).await;
    ns.set("v1")
        .revision(1)
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
    // The revision owns the slice without controlling it.
    let slice = ns.cluster().get(&ns.slice_ref("slice")).await.unwrap();
    assert_eq!(owner_names(&slice), [set.name()]);
    assert_eq!(controller(&slice), "");

    ns.set_lifecycle("v1", "Archived").await;
    ns.reaches("v1", &[Is("Archived", "True")]).await;
    for object in [&inline, &sliced, &later] {
        assert_eq!(ns.get(object).await, None);
    }
}

async fn created_archived_writes_nothing(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let cm = configmap("cm");
    ns.set("v1")
        .revision(1)
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

/// Later wishes are ignored.
async fn archived_is_final(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let cm = configmap("cm");
    ns.set("v1")
        .revision(1)
        .phase("a", [cm.clone()])
        .create()
        .await;
    ns.reaches("v1", &[Is("Available", "True")]).await;
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
    // Deleting the tombstone touches nothing, even if an object of that name has appeared since.
    ns.create(&cm).await;
    ns.delete_set("v1", "Background").await;
    ns.live(&cm).await;
}

/// Before the archival is over there is a way back.
#[tokio::test]
async fn archival_can_be_called_off() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let (first, second) = (configmap("cm-1"), configmap("cm-2").blocked());
    let set = ns.set("v1").revision(1);
    set.phase("1", [first.clone()])
        .phase("2", [second.clone()])
        .create()
        .await;
    ns.reaches("v1", &[Is("Available", "True")]).await;
    let before = ns.live(&first).await;
    ns.set_lifecycle("v1", "Archived").await;
    ns.reaches("v1", &[Is("Archived", "False"), No("Available")])
        .await;
    ns.set_lifecycle("v1", "Active").await;
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

/// The watch of the new owner selects by the label, and nobody has to put it back.
async fn release_keeps_label(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let cm = configmap("cm");
    ns.set("r1")
        .revision(1)
        .phase("a", [cm.clone()])
        .create()
        .await;
    ns.reaches("r1", &[Is("Available", "True")]).await;
    ns.set("r2")
        .revision(2)
        .previous(&["r1"])
        .phase("a", [cm.clone()])
        .create()
        .await;
    ns.reaches(
        "r2",
        &[Is("Available", "True"), Controls(&["ConfigMap cm"])],
    )
    .await;
    ns.reaches("r1", &[Controls(&[])]).await;
    let before = ns.live(&cm).await;
    // A later owner that somebody else wrote must survive the removal of ours.
    ns.set_lifecycle("r1", "Archived").await;
    let released = ns
        .object_becomes(&cm, "released by r1", |live| {
            assert!(is_labelled(live), "{live}");
            owner_names(live) == [ns.set_name("r2")]
        })
        .await;
    let generation = |live: &Value| live["metadata"]["resourceVersion"].clone();
    assert_ne!(generation(&released), generation(&before));
    ns.reaches("r1", &[Is("Archived", "True")]).await;
    assert_eq!(
        generation(&ns.live(&cm).await),
        generation(&released),
        "one write was enough"
    );
}

/// With the slice gone nobody knows what else there is to remove, and that is said.
#[tokio::test]
async fn a_missing_slice_holds_up_archival() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let sliced = configmap("sliced");
    ns.create_slice("slice", [sliced.clone()]).await;
    ns.set("v1")
        .revision(1)
        .phase_with_slices("a", [], &["slice"])
        .create()
        .await;
    ns.reaches("v1", &[Is("Available", "True")]).await;
    assert!(
        ns.cluster()
            .delete(&ns.slice_ref("slice"), "Background")
            .await
    );
    ns.set_lifecycle("v1", "Archived").await;
    ns.eventually("the missing slice to be named", async || {
        ns.read_set("v1").await.json["status"]
            .to_string()
            .contains("\\\"slice\\\"")
    })
    .await;
    ns.read_set("v1").await.assert(&[Phase("NotReady")]);
    ns.create_slice("slice", [sliced.clone()]).await;
    ns.reaches("v1", &[Is("Archived", "True")]).await;
    assert_eq!(ns.get(&sliced).await, None);
}
