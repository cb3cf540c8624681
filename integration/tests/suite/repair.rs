//! Changes of managed objects by users and other controllers, and their repair.

use baton_integration::prelude::*;

alternating_scopes! {
    drift_is_repaired;
    a_deleted_child_is_created_again;
    a_removed_cache_label_is_restored;
    an_object_that_lost_its_controller_is_not_adopted;
    fields_of_others_are_kept;
}

async fn one_object(scope: Scope, entry: &Entry) -> TestNamespace {
    let ns = TestNamespace::new(scope).await;
    ns.revision(1)
        .phase("a", [entry.clone()])
        .reaching(&[Is("Available", "True"), Is("Succeeded", "True")])
        .await;
    ns
}

async fn drift_is_repaired(scope: Scope) {
    let cm = configmap("cm")
        .data("k", "v")
        .label("app", "demo")
        .annotation("note", "1");
    let ns = one_object(scope, &cm).await;
    for patch in [
        json!({ "data": { "k": "other" } }),
        json!({ "data": null }),
        json!({ "data": { "k": null } }),
        json!({ "metadata": { "labels": { "app": "other" } } }),
        json!({ "metadata": { "annotations": { "note": null } } }),
        json!({ "metadata": { "annotations": { "package-operator.run/revision": "0" } } }),
        json!({ "metadata": { "annotations": { "package-operator.run/revision": null } } }),
    ] {
        ns.merge(&cm, &patch).await;
        ns.object_becomes(&cm, &format!("as it was before {patch}"), |live| {
            let metadata = &live["metadata"];
            live["data"] == json!({ "k": "v" })
                && metadata["labels"]["app"] == "demo"
                && metadata["annotations"]["note"] == "1"
                && revision_annotation(live) == "1"
        })
        .await;
    }
    let set = ns
        .reaches("v1", &[Is("Available", "True"), No("InTransition")])
        .await;
    assert_managed_by(&ns.live(&cm).await, &set);
    let text = format!(
        "Repaired 1 object(s) that differed: ConfigMap {}/cm (.data.k by a-user)",
        ns.name()
    );
    ns.has_event("Normal", &text).await;
}

async fn a_deleted_child_is_created_again(scope: Scope) {
    let cm = configmap("cm").data("k", "v");
    let ns = one_object(scope, &cm).await;
    let before = ns.live(&cm).await;
    ns.delete(&cm).await;
    let live = ns
        .object_becomes(&cm, "made again", |live| uid(live) != uid(&before))
        .await;
    let set = ns
        .reaches(
            "v1",
            &[Is("Available", "True"), Controls(&["ConfigMap cm"])],
        )
        .await;
    assert_managed_by(&live, &set);
    assert_eq!(live["data"], json!({ "k": "v" }));
}

/// To the manager's watch, the change looks like a deletion.
async fn a_removed_cache_label_is_restored(scope: Scope) {
    let cm = configmap("cm").data("k", "v");
    let ns = one_object(scope, &cm).await;
    let before = ns.live(&cm).await;
    for patch in [
        json!({ "metadata": { "labels": { "package-operator.run/cache": null } } }),
        json!({ "metadata": { "labels": null } }),
        json!({ "metadata": { "labels": { "package-operator.run/cache": "False" } } }),
    ] {
        ns.merge(&cm, &patch).await;
        let live = ns.object_becomes(&cm, "labelled again", is_labelled).await;
        assert_eq!(uid(&live), uid(&before));
    }
    ns.reaches(
        "v1",
        &[Is("Available", "True"), Controls(&["ConfigMap cm"])],
    )
    .await;
}

/// Under `Prevent` an object without a controller is not adopted, even if a revision has created it.
async fn an_object_that_lost_its_controller_is_not_adopted(scope: Scope) {
    let cm = configmap("cm").data("k", "v");
    let ns = one_object(scope, &cm).await;
    let before = ns.live(&cm).await;
    ns.merge(&cm, &json!({ "metadata": { "ownerReferences": null } }))
        .await;
    let wanted = [
        Because("Available", "False", "CollisionDetected"),
        Says("Available", "not owned by previous revision"),
    ];
    ns.reaches("v1", &wanted).await;
    let owners =
        json!({ "metadata": { "ownerReferences": before["metadata"]["ownerReferences"] } });
    ns.merge(&cm, &owners).await;
    ns.reaches(
        "v1",
        &[Is("Available", "True"), Controls(&["ConfigMap cm"])],
    )
    .await;
}

/// Neither a repair nor a handover removes fields that were never ours.
async fn fields_of_others_are_kept(scope: Scope) {
    let cm = configmap("cm").data("k", "1");
    let ns = one_object(scope, &cm).await;
    let theirs = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": "cm", "namespace": ns.name(),
            "labels": { "theirs": "1" },
            "annotations": { "theirs": "1" },
            "finalizers": ["baton.run/test-blocks"],
        },
        "data": { "theirs": "1" },
    });
    ns.cluster().apply(&theirs, "somebody").await.unwrap();
    let keeps = |live: &Value, k: &str| {
        live["data"] == json!({ "k": k, "theirs": "1" })
            && live["metadata"]["labels"]["theirs"] == "1"
            && live["metadata"]["annotations"]["theirs"] == "1"
            && live["metadata"]["finalizers"] == json!(["baton.run/test-blocks"])
    };
    ns.stays(Duration::from_secs(1), "all that is theirs", async || {
        keeps(&ns.live(&cm).await, "1")
    })
    .await;
    ns.merge(&cm, &json!({ "data": { "k": "drifted" } })).await;
    ns.object_becomes(&cm, "repaired with all that is theirs", |live| {
        keeps(live, "1")
    })
    .await;
    let new = cm.clone().data("k", "2");
    ns.revision(2).phase("a", [new]).available().await;
    let live = ns.live(&cm).await;
    assert!(keeps(&live, "2"), "{live}");
    assert!(has_manager(&live, "somebody"), "{live}");
    ns.merge(&cm, &json!({ "metadata": { "finalizers": null } }))
        .await;
}

/// Another client takes a field with a forced apply, and the manager takes it back.
#[tokio::test]
async fn a_field_taken_by_force_is_taken_back() {
    let cm = configmap("cm").data("k", "v");
    let ns = one_object(Scope::Namespaced, &cm).await;
    let theirs = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "cm", "namespace": ns.name() },
        "data": { "k": "theirs" },
    });
    ns.cluster().apply(&theirs, "somebody").await.unwrap();
    ns.object_becomes(&cm, "repaired", |live| live["data"]["k"] == "v")
        .await;
    // The value is the same, so there is nothing to repair, although the field has a second owner.
    let same = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "cm", "namespace": ns.name() },
        "data": { "k": "v" },
    });
    ns.cluster().apply(&same, "somebody").await.unwrap();
    ns.reaches("v1", &[Is("Available", "True")]).await;
    assert_eq!(ns.live(&cm).await["data"]["k"], "v");
}

/// `createOnlyFields` are sent only at creation; other clients may change them afterwards.
#[tokio::test]
async fn create_only_fields_are_left_to_others() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let deployment = |image: &str| {
        object("apps/v1", "Deployment", "web")
            .with("/spec/replicas", 1)
            .with("/spec/selector/matchLabels/app", "web")
            .with("/spec/template/metadata/labels/app", "web")
            .with(
                "/spec/template/spec/containers",
                json!([{ "name": "web", "image": image }]),
            )
            .create_only(&[".spec.replicas"])
    };
    let web = deployment("image:1");
    ns.revision(1)
        .phase("a", [web.clone()])
        .reaching(&[Is("Available", "True"), Controls(&["Deployment.apps web"])])
        .await;
    assert_eq!(ns.live(&web).await["spec"]["replicas"], 1);
    ns.merge(&web, &json!({ "spec": { "replicas": 3 } })).await;
    let scaled = async || ns.live(&web).await["spec"]["replicas"] == 3;
    ns.stays(Duration::from_secs(2), "the number of replicas", scaled)
        .await;
    // Neither a repair nor the next revision resets the field.
    let label = json!({ "metadata": { "labels": { "package-operator.run/cache": null } } });
    ns.merge(&web, &label).await;
    ns.object_becomes(&web, "labelled again", is_labelled).await;
    assert!(scaled().await);
    ns.revision(2)
        .phase("a", [deployment("image:2")])
        .reaching(&[Is("Available", "True"), Controls(&["Deployment.apps web"])])
        .await;
    let live = ns.live(&web).await;
    assert_eq!(
        live["spec"]["template"]["spec"]["containers"][0]["image"],
        "image:2"
    );
    assert_eq!(live["spec"]["replicas"], 3);
}
