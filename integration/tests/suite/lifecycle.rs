//! The life of a revision: rollout phase by phase, pause, and archival, with the phase in its
//! status.

use baton_integration::prelude::*;

alternating_scopes! {
    a_revision_is_rolled_out_paused_and_archived;
    a_revision_of_delegated_phases_is_rolled_out_paused_and_archived;
    a_paused_revision_reports_and_writes_nothing;
    a_revision_created_paused_writes_nothing;
    a_later_probe_failure_is_reported;
    a_revision_without_objects_is_available;
}

/// Returns a probe that selects `cm-4` only.
fn labelled_probe() -> Value {
    let mut probe = name_annotation_probe();
    probe["selector"]["selector"] = json!({ "matchLabels": { "probed": "yes" } });
    probe
}

async fn a_revision_is_rolled_out_paused_and_archived(scope: Scope) {
    goes_through_life_cycle(scope, "").await;
}

/// The same for phases that the controller of the class `default` runs.
async fn a_revision_of_delegated_phases_is_rolled_out_paused_and_archived(scope: Scope) {
    goes_through_life_cycle(scope, "default").await;
}

async fn goes_through_life_cycle(scope: Scope, class: &str) {
    let ns = TestNamespace::new(scope).await;
    let cm4 = configmap("cm-4").label("probed", "yes").data("k", "v");
    let cm5 = configmap("cm-5");
    rolls_out(&ns, class, &cm4, &cm5).await;
    pauses(&ns, class, &cm4).await;
    is_archived(&ns, &cm4, &cm5).await;
}

async fn rolls_out(ns: &TestNamespace, class: &str, cm4: &Entry, cm5: &Entry) {
    let set = ns
        .revision(1)
        .phase_of(class, "phase-1", [cm4.clone()])
        .phase_of(class, "phase-2", [cm5.clone()]);
    set.probe(labelled_probe())
        .create()
        .await
        .assert(&[Phase("Pending")]);
    let wanted = [
        Because("Available", "False", "ProbeFailure"),
        Because("InTransition", "True", "InTransition"),
        Controls(&["ConfigMap cm-4"]),
        Phase("NotReady"),
    ];
    let set = ns.reaches("v1", &wanted).await;
    set.assert(&[No("Succeeded"), No("Paused"), No("Archived")]);
    let object = format!("ConfigMap {}/cm-4", ns.name());
    assert_eq!(
        set.message("Available"),
        format!("Phase \"phase-1\" failed:  {object}: \".metadata.annotations.name\" missing")
    );
    assert_eq!(
        set.message("InTransition"),
        "ObjectSet is still rolling out or is being replaced by a newer version."
    );
    is_managed(ns, class, "phase-1", cm4).await;
    assert_eq!(ns.get(cm5).await, None);

    ns.annotate_with_name(cm4).await;
    let wanted = [
        Because("Available", "True", "Available"),
        Because("Succeeded", "True", "RolloutSuccess"),
        No("InTransition"),
        Controls(&["ConfigMap cm-4", "ConfigMap cm-5"]),
        Phase("Available"),
    ];
    let set = ns.reaches("v1", &wanted).await;
    assert_eq!(
        set.message("Available"),
        "Object is available and passes all probes."
    );
    assert_eq!(
        set.message("Succeeded"),
        "ObjectSet rolled out all objects successfully and was Available at least once."
    );
    is_managed(ns, class, "phase-2", cm5).await;
    assert_eq!(set.json["status"]["revision"], 1);
}

/// Fails unless the object has the metadata of its owner: the revision or its delegated phase.
async fn is_managed(ns: &TestNamespace, class: &str, phase: &str, entry: &Entry) {
    let live = ns.live(entry).await;
    if class.is_empty() {
        return assert_managed_by(&live, &ns.read_set("v1").await);
    }
    let owner = ns.phase_object("v1", phase).await.unwrap();
    assert_eq!(controller(&live), owner.name());
    let labels = &live["metadata"]["labels"];
    assert_eq!(labels["package-operator.run/cache"], "True");
    assert_eq!(labels["app.kubernetes.io/managed-by"], "boxcutter");
    assert_eq!(annotation(&live, "package-operator.run/revision"), "1");
}

async fn pauses(ns: &TestNamespace, class: &str, cm4: &Entry) {
    ns.set_lifecycle("v1", "Paused").await;
    let wanted = [Because("Paused", "True", "Paused"), Is("Available", "True")];
    let set = ns.reaches("v1", &wanted).await;
    assert_eq!(set.message("Paused"), "Lifecycle state set to paused.");
    ns.merge(cm4, &json!({ "data": { "k": "drifted" } })).await;
    if !class.is_empty() {
        // A delegated phase that has something left to write is not available.
        let wanted = [Is("Paused", "True"), Is("Available", "False")];
        ns.reaches("v1", &wanted).await;
    }
    ns.stays(
        Duration::from_secs(5),
        "the drift of a paused revision",
        async || ns.live(cm4).await["data"]["k"] == "drifted",
    )
    .await;
    ns.set_lifecycle("v1", "Active").await;
    ns.reaches("v1", &[No("Paused"), Is("Available", "True")])
        .await;
    ns.object_becomes(cm4, "reset", |live| live["data"]["k"] == "v")
        .await;
}

async fn is_archived(ns: &TestNamespace, cm4: &Entry, cm5: &Entry) {
    let block = json!({ "metadata": { "finalizers": ["baton.run/test-blocks"] } });
    ns.merge(cm4, &block).await;
    ns.set_lifecycle("v1", "Archived").await;
    let in_progress = [
        Because("Archived", "False", "ArchivalInProgress"),
        No("Available"),
    ];
    let set = ns.reaches("v1", &in_progress).await;
    assert_eq!(set.message("Archived"), "Object teardown in progress.");
    ns.gone(cm5).await;
    ns.object_becomes(cm4, "deleted", |live| {
        !live["metadata"]["deletionTimestamp"].is_null()
    })
    .await;
    ns.reaches("v1", &in_progress).await;
    ns.unblock(cm4).await;
    let wanted = [
        Because("Archived", "True", "Archived"),
        Phase("Archived"),
        Controls(&[]),
    ];
    let set = ns.reaches("v1", &wanted).await;
    assert_eq!(set.message("Archived"), "");
    assert_eq!(ns.get(cm4).await, None);
    // The condition is kept as history.
    assert!(set.condition("Succeeded").is_some(), "{}", set.status());
    assert!(
        set.json["status"].get("controllerOf").is_none(),
        "{}",
        set.status()
    );
}

/// Drift and deletions are reported, but not repaired.
async fn a_paused_revision_reports_and_writes_nothing(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let (kept, deleted) = (configmap("kept").data("k", "v"), configmap("deleted"));
    ns.revision(1)
        .phase("a", [kept.clone(), deleted.clone()])
        .available()
        .await;
    ns.set_lifecycle("v1", "Paused").await;
    ns.reaches("v1", &[Is("Paused", "True"), Is("Available", "True")])
        .await;

    ns.delete(&deleted).await;
    ns.merge(&kept, &json!({ "data": { "k": "drifted" } }))
        .await;
    let set = ns
        .reaches(
            "v1",
            &[
                Because("Available", "False", "ProbeFailure"),
                Is("InTransition", "True"),
                Controls(&["ConfigMap kept"]),
            ],
        )
        .await;
    set.assert(&[Says(
        "Available",
        &format!("ConfigMap {}/deleted: not found", ns.name()),
    )]);
    ns.stays(
        Duration::from_secs(3),
        "the change of a user to a paused revision",
        async || ns.get(&deleted).await.is_none() && ns.live(&kept).await["data"]["k"] == "drifted",
    )
    .await;

    ns.set_lifecycle("v1", "Active").await;
    ns.reaches(
        "v1",
        &[
            Is("Available", "True"),
            No("Paused"),
            No("InTransition"),
            Controls(&["ConfigMap kept", "ConfigMap deleted"]),
        ],
    )
    .await;
    assert_eq!(ns.live(&kept).await["data"]["k"], "v");
}

async fn a_revision_created_paused_writes_nothing(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let cm = configmap("cm");
    ns.revision(1)
        .phase("a", [cm.clone()])
        .lifecycle("Paused")
        .reaching(&[
            Is("Paused", "True"),
            Is("Available", "False"),
            Controls(&[]),
        ])
        .await;
    ns.stays(Duration::from_secs(2), "no object", async || {
        ns.get(&cm).await.is_none()
    })
    .await;
    ns.set_lifecycle("v1", "Active").await;
    ns.reaches(
        "v1",
        &[
            Is("Available", "True"),
            No("Paused"),
            Is("Succeeded", "True"),
        ],
    )
    .await;
}

/// `Succeeded` stays, and so do the objects of the second phase.
async fn a_later_probe_failure_is_reported(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let (first, second) = (
        configmap("cm-1"),
        configmap("cm-2").annotation("name", "cm-2"),
    );
    ns.revision(1)
        .phase("a", [first.clone()])
        .phase("b", [second.clone()])
        .probe(name_annotation_probe())
        .reaching(&[Is("Available", "False")])
        .await;
    ns.annotate_with_name(&first).await;
    ns.reaches("v1", &[Is("Available", "True"), Is("Succeeded", "True")])
        .await;
    ns.merge(
        &first,
        &json!({ "metadata": { "annotations": { "name": "other" } } }),
    )
    .await;
    let set = ns
        .reaches(
            "v1",
            &[
                Because("Available", "False", "ProbeFailure"),
                Phase("NotReady"),
            ],
        )
        .await;
    set.assert(&[
        Is("Succeeded", "True"),
        No("InTransition"),
        Controls(&["ConfigMap cm-1", "ConfigMap cm-2"]),
        Says(
            "Available",
            "\".metadata.name\" != \".metadata.annotations.name\"",
        ),
        Says(
            "Available",
            "expected: a string of 4 bytes got: a string of 5 bytes",
        ),
    ]);
    ns.annotate_with_name(&first).await;
    ns.reaches("v1", &[Is("Available", "True")]).await;
}

async fn a_revision_without_objects_is_available(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let mut without_spec = ns.set("v1").manifest();
    if let Some(fields) = without_spec.as_object_mut() {
        fields.remove("spec");
    }
    ns.cluster().create(&without_spec).await.unwrap();
    ns.set("v2")
        .revision(2)
        .spec("phases", json!([{ "name": "nothing" }]))
        .create()
        .await;
    for name in ["v1", "v2"] {
        let wanted = [
            Is("Available", "True"),
            Is("Succeeded", "True"),
            No("InTransition"),
        ];
        ns.reaches(name, &wanted).await;
    }
    let set = ns.reaches("v1", &[Phase("Available")]).await;
    assert_eq!(set.number(), Some(1));
    assert_eq!(set.json["status"]["revision"], 1);
    // The content cannot be set afterwards.
    let patch = json!({ "spec": { "phases": [{ "name": "late" }] } });
    let refused = ns.patch_set("v1", &patch).await.unwrap_err();
    assert!(
        refused.message.contains("phases is immutable"),
        "{refused:?}"
    );
}
