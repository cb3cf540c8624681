//! Handover of objects from previous revisions.

use baton_integration::prelude::*;

alternating_scopes! {
    objects_move_to_the_next_revision_before_the_old_one_is_archived;
    a_missing_previous_revision_is_tolerated;
    an_object_moves_between_phases;
    a_dropped_field_is_removed;
    rollback_is_a_new_revision;
    only_the_newer_revision_creates_a_deleted_object_again;
    an_object_of_a_slice_is_left_to_a_paused_newer_revision;
    an_object_is_left_to_a_revision_paused_before_its_success;
    objects_are_handed_back_on_deletion;
    an_object_in_a_slice_is_handed_back_to_an_older_revision;
}

async fn objects_move_to_the_next_revision_before_the_old_one_is_archived(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let deployment = "package-operator.run/object-deployment";
    let (cm1, cm2) = (configmap("cm-1"), configmap("cm-2"));
    let cm3 = configmap("cm-3").annotation("name", "cm-3");
    ns.set("v1")
        .label(deployment, "demo")
        .revision(1)
        .phase("phase-1", [cm1.clone()])
        .phase("phase-2", [cm2.clone()])
        .reaching(&[
            Is("Available", "True"),
            Is("Succeeded", "True"),
            Controls(&["ConfigMap cm-1", "ConfigMap cm-2"]),
        ])
        .await;
    let before = ns.live(&cm1).await;

    let v2 = ns
        .set("v2")
        .label(deployment, "demo")
        .revision(2)
        .previous(&["v1"])
        .phase("phase-1", [cm3.clone()])
        .phase("phase-2", [cm1.clone()])
        .probe(name_annotation_probe())
        .reaching(&[
            Because("Available", "False", "ProbeFailure"),
            Controls(&["ConfigMap cm-3", "ConfigMap cm-1"]),
        ])
        .await;
    ns.reaches(
        "v1",
        &[Is("InTransition", "True"), Controls(&["ConfigMap cm-2"])],
    )
    .await;
    ns.live(&cm2).await;
    ns.live(&cm3).await;
    let taken = ns.live(&cm1).await;
    assert_eq!(uid(&taken), uid(&before));
    assert_managed_by(&taken, &v2);
    let mut former = owners(&before)[0].clone();
    former["controller"] = false.into();
    assert!(owners(&taken).contains(&former), "{taken}");

    ns.annotate_with_name(&cm1).await;
    ns.reaches("v2", &[Is("Available", "True"), Is("Succeeded", "True")])
        .await;
    ns.set_lifecycle("v1", "Archived").await;
    ns.reaches("v1", &[Is("Archived", "True"), Controls(&[])])
        .await;
    assert_eq!(ns.get(&cm2).await, None);
    ns.live(&cm3).await;
    let left = ns.live(&cm1).await;
    assert_eq!(owner_names(&left), [ns.set_name("v2")]);
    assert!(is_labelled(&left), "{left}");
    ns.reaches("v2", &[Is("Available", "True"), No("InTransition")])
        .await;
}

async fn a_missing_previous_revision_is_tolerated(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let cm = configmap("cm");
    ns.revision(1).phase("a", [cm.clone()]).available().await;
    let previous = ["v1", "never-was"];
    let v2 = ns
        .set("v2")
        .revision(2)
        .previous(&previous)
        .phase("a", [cm.clone()])
        .reaching(&[Is("Available", "True"), Controls(&["ConfigMap cm"])])
        .await;
    assert_eq!(v2.number(), Some(2));
    let kind = match scope {
        Scope::Namespaced => "ObjectSet",
        Scope::Cluster => "ClusterObjectSet",
    };
    let missing = ns.set_name("never-was");
    let text = format!("previous: there is no {kind} {missing}, so nothing is taken over from it");
    ns.has_event("Warning", &text).await;
    // A missing number is computed and stored in `spec.revision`.
    let previous = ["never-was", "v1", "v2"];
    let v3 = ns
        .set("v3")
        .previous(&previous)
        .phase("a", [cm.clone()])
        .reaching(&[Is("Available", "True"), Controls(&["ConfigMap cm"])])
        .await;
    assert_eq!(v3.number(), Some(3));
    assert_eq!(v3.json["status"]["revision"], 3);
    assert_managed_by(&ns.live(&cm).await, &v3);
}

/// `previous` may contain a kind and a group, as users write it.
#[tokio::test]
async fn revisions_without_numbers_are_numbered() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let cm = configmap("cm");
    let previous = |name: &str| json!([{ "name": name, "kind": "ObjectSet", "group": "package-operator.run" }]);
    ns.set("v1")
        .phase("a", [cm.clone().data("k", "1")])
        .reaching(&[Is("Available", "True"), Controls(&["ConfigMap cm"])])
        .await;
    let v2 = ns
        .set("v2")
        .spec("previous", previous("v1"))
        .phase("a", [cm.clone().data("k", "2")])
        .reaching(&[Is("Available", "True"), Controls(&["ConfigMap cm"])])
        .await;
    assert_eq!(v2.number(), Some(2));
    assert_eq!(v2.json["status"]["revision"], 2);
    assert_eq!(v2.json["spec"]["previous"], previous("v1"));
    assert_eq!(ns.live(&cm).await["data"]["k"], "2");
    ns.reaches("v1", &[Is("InTransition", "True"), Controls(&[])])
        .await;
}

/// Revisions without numbers may be created in any order. Each waits for its predecessors and is
/// triggered by them, not by a timer.
#[tokio::test]
async fn numbers_follow_those_of_previous_revisions() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let cm = configmap("cm");
    let names = ["v1", "v2", "v3", "v4"];
    for name in names {
        // Each revision names all earlier ones, and is created without a wait.
        let previous: Vec<_> = names
            .into_iter()
            .take_while(|earlier| *earlier != name)
            .collect();
        let set = ns
            .set(name)
            .previous(&previous)
            .phase("a", [cm.clone().data("from", name)]);
        set.create().await;
    }
    ns.reaches("v4", &[Is("Available", "True"), Is("Succeeded", "True")])
        .await;
    for (name, number) in names.into_iter().zip(1..) {
        assert_eq!(ns.read_set(name).await.number(), Some(number), "{name}");
    }
    assert_eq!(ns.live(&cm).await["data"]["from"], "v4");
}

async fn an_object_moves_between_phases(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let [a, b] = ["a", "b"].map(configmap);
    ns.revision(1)
        .phase("1", [a.clone()])
        .phase("2", [b.clone()])
        .reaching(&[
            Is("Available", "True"),
            Controls(&["ConfigMap a", "ConfigMap b"]),
        ])
        .await;
    let before = (ns.live(&a).await, ns.live(&b).await);
    ns.revision(2)
        .phase("1", [b.clone()])
        .phase("2", [a.clone()])
        .reaching(&[
            Is("Available", "True"),
            No("InTransition"),
            Controls(&["ConfigMap b", "ConfigMap a"]),
        ])
        .await;
    ns.reaches("v1", &[Is("InTransition", "True"), Controls(&[])])
        .await;
    assert_eq!(uid(&ns.live(&a).await), uid(&before.0));
    assert_eq!(uid(&ns.live(&b).await), uid(&before.1));
}

/// Fields that only the old revision has are removed, and fields of other clients stay.
async fn a_dropped_field_is_removed(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let cm = configmap("cm");
    let old = cm
        .clone()
        .data("both", "1")
        .data("old", "1")
        .label("old", "1")
        .annotation("old", "1");
    ns.revision(1).phase("a", [old]).available().await;
    let theirs = json!({
        "data": { "theirs": "1" },
        "metadata": { "labels": { "theirs": "1" }, "annotations": { "theirs": "1" } },
    });
    ns.merge(&cm, &theirs).await;
    let new = cm
        .clone()
        .data("both", "2")
        .data("new", "2")
        .label("new", "2");
    let v2 = ns
        .revision(2)
        .phase("a", [new])
        .reaching(&[Is("Available", "True"), Is("Succeeded", "True")])
        .await;
    let live = ns.live(&cm).await;
    assert_eq!(
        live["data"],
        json!({ "both": "2", "new": "2", "theirs": "1" })
    );
    let (labels, annotations) = (
        &live["metadata"]["labels"],
        &live["metadata"]["annotations"],
    );
    assert_eq!(
        *labels,
        json!({ "new": "2", "theirs": "1", "package-operator.run/cache": "True" })
    );
    assert_eq!(
        *annotations,
        json!({ "theirs": "1", "package-operator.run/revision": "2" })
    );
    assert_managed_by(&live, &v2);
}

async fn rollback_is_a_new_revision(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let (shared, first, second) = (configmap("shared"), configmap("first"), configmap("second"));
    let old = [shared.clone().data("k", "1"), first.clone()];
    ns.revision(1).phase("a", old.clone()).available().await;
    let before = ns.live(&shared).await;
    let new = [
        shared.clone().data("k", "2").data("only-2", ""),
        second.clone(),
    ];
    ns.revision(2).phase("a", new).available().await;
    ns.set_lifecycle("v1", "Archived").await;
    ns.reaches("v1", &[Is("Archived", "True")]).await;
    assert_eq!(ns.get(&first).await, None);

    // An archived revision stays archived, so a rollback is a new revision.
    ns.set("v3")
        .revision(3)
        .previous(&["v1", "v2"])
        .phase("a", old)
        .create()
        .await;
    let controls = Controls(&["ConfigMap shared", "ConfigMap first"]);
    let v3 = ns
        .reaches(
            "v3",
            &[Is("Available", "True"), Is("Succeeded", "True"), controls],
        )
        .await;
    ns.set_lifecycle("v2", "Archived").await;
    ns.reaches("v2", &[Is("Archived", "True")]).await;
    assert_eq!(ns.get(&second).await, None);
    let live = ns.live(&shared).await;
    assert_eq!(live["data"], json!({ "k": "1" }));
    assert_eq!(uid(&live), uid(&before));
    assert_eq!(owner_names(&live), [v3.name()]);
    ns.reaches("v1", &[Is("Archived", "True")]).await;
}

/// Both revisions are active and contain the object, but only the newer one recreates it.
async fn only_the_newer_revision_creates_a_deleted_object_again(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let cm = configmap("cm");
    ns.revision(1)
        .phase("a", [cm.clone().data("from", "v1")])
        .available()
        .await;
    let new = cm.clone().data("from", "v2");
    ns.revision(2)
        .phase("a", [new])
        .reaching(&[Is("Available", "True"), Is("Succeeded", "True")])
        .await;
    for _ in 0..3 {
        // The older revision does not own the recreated object, but must observe it.
        ns.reaches("v1", &[Is("Available", "True")]).await;
        let before = ns.live(&cm).await;
        ns.delete(&cm).await;
        let live = ns
            .object_becomes(&cm, "made again", |live| uid(live) != uid(&before))
            .await;
        assert_eq!(owner_names(&live), [ns.set_name("v2")], "{live}");
        assert_eq!(live["data"]["from"], "v2");
    }
    ns.reaches("v2", &[Is("Available", "True")]).await;

    // The older revision does not recreate the object either if the newer one is paused.
    ns.set_lifecycle("v2", "Paused").await;
    ns.reaches("v2", &[Is("Paused", "True")]).await;
    ns.delete(&cm).await;
    ns.reaches("v2", &[Is("Available", "False")]).await;
    ns.stays(
        Duration::from_secs(3),
        "the object is missing",
        async || ns.get(&cm).await.is_none(),
    )
    .await;
}

/// The newer revision was paused before it succeeded, and shows no longer that it had the object. The
/// older one does not create it, also when it looks again.
async fn an_object_is_left_to_a_revision_paused_before_its_success(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let cm = configmap("cm");
    let from = |set: &str| [cm.clone().data("from", set)];
    ns.revision(1).phase("a", from("v1")).available().await;
    ns.reaches("v1", &[Is("Succeeded", "True")]).await;
    let newer = ns.revision(2).spec("successDelaySeconds", 3600);
    newer.phase("a", from("v2")).available().await;
    ns.reaches("v1", &[Is("InTransition", "True")]).await;
    ns.set_lifecycle("v2", "Paused").await;
    ns.reaches("v2", &[Is("Paused", "True")]).await;
    ns.delete(&cm).await;
    ns.reaches("v2", &[Is("Available", "False"), Controls(&[])])
        .await;
    ns.set_lifecycle("v1", "Paused").await;
    ns.reaches("v1", &[Is("Paused", "True")]).await;
    ns.set_lifecycle("v1", "Active").await;
    let left = format!("left to revision {}", ns.set_name("v2"));
    ns.reaches("v1", &[No("Paused"), Says("Available", &left)])
        .await;
    ns.stays(
        Duration::from_secs(2),
        "the object is missing",
        async || ns.get(&cm).await.is_none(),
    )
    .await;
    ns.set_lifecycle("v2", "Active").await;
    ns.reaches("v2", &[Is("Available", "True")]).await;
    assert_eq!(ns.live(&cm).await["data"], json!({ "from": "v2" }));
}

/// The older revision does not create an object if the newer one has its manifest. It does not create
/// it either while a slice of the newer one is missing, because the content is unknown then.
async fn an_object_of_a_slice_is_left_to_a_paused_newer_revision(scope: Scope) {
    for (older, newer) in [("", ""), ("default", ""), ("", "default")] {
        let case = format!("from {older:?} to {newer:?}");
        let ns = TestNamespace::new(scope).await;
        let cm = configmap("cm");
        let from = |set: &str| [cm.clone().data("from", set)];
        ns.revision(1)
            .phase_of(older, "a", from("v1"))
            .available()
            .await;
        // Objects of delegated phases name their namespace.
        let in_slice = from("v2").map(|entry| entry.with("/metadata/namespace", ns.name()));
        ns.create_slice("slice", in_slice).await;
        ns.revision(2)
            .phase_with_slices("a", [], &["slice"])
            .class(newer)
            .reaching(&[Is("Available", "True"), Is("Succeeded", "True")])
            .await;
        let left = format!("left to revision {}", ns.set_name("v2"));
        let slice = ns.slice_ref("slice");
        let doubt = format!(
            "{left}, whose content is not known: slice \"{}\": not found",
            ns.set_name("slice")
        );
        let is_missing = async |text: &str| {
            ns.eventually(&format!("{case}: {text}"), async || {
                let v1 = ns.read_set("v1").await;
                v1.message("Available").ends_with(text)
            })
            .await;
            ns.stays(Duration::from_secs(2), &case, async || {
                ns.get(&cm).await.is_none()
            })
            .await;
        };

        let look_again = async || {
            ns.set_lifecycle("v1", "Paused").await;
            ns.reaches("v1", &[Is("Paused", "True")]).await;
            ns.set_lifecycle("v1", "Active").await;
            ns.reaches("v1", &[No("Paused")]).await;
        };

        ns.set_lifecycle("v2", "Paused").await;
        ns.reaches("v2", &[Is("Paused", "True")]).await;
        ns.delete(&cm).await;
        ns.reaches("v2", &[Is("Available", "False"), Controls(&[])])
            .await;
        look_again().await;
        is_missing(&left).await;

        let lost = ns.cluster().get(&slice).await.unwrap();
        assert!(ns.cluster().delete(&slice, "Background").await);
        ns.reaches("v2", &[Because("Available", "False", "PreflightError")])
            .await;
        look_again().await;
        // The phase object has the manifests as well.
        is_missing(if newer.is_empty() { &doubt } else { &left }).await;

        let mut again = slice.clone();
        again["objects"] = lost["objects"].clone();
        ns.cluster().create(&again).await.unwrap();
        is_missing(&left).await;

        ns.set_lifecycle("v2", "Active").await;
        ns.reaches("v2", &[Is("Available", "True")]).await;
        assert_eq!(ns.live(&cm).await["data"], json!({ "from": "v2" }));
        ns.reaches("v1", &[Is("Available", "True")]).await;
    }
}

/// A revision hands back objects that two older active revisions contain.
///
/// The newer of the two gets all of them. At no time is an object deleted, recreated or without a
/// controller, and no object gets the content of the oldest revision.
async fn objects_are_handed_back_on_deletion(scope: Scope) {
    for (older, deleted) in [
        ("", ""),
        ("default", "default"),
        ("", "default"),
        ("default", ""),
    ] {
        let case = format!("from {deleted:?} to {older:?}");
        let ns = TestNamespace::new(scope).await;
        let [cm, fresh, own] = ["cm", "fresh", "own"].map(configmap);
        let from = |set: &str| {
            [
                cm.clone().data("from", set),
                fresh.clone().data("from", set),
            ]
        };
        ns.revision(1)
            .phase_of(older, "a", from("v1"))
            .available()
            .await;
        ns.revision(2)
            .phase_of(older, "a", from("v2"))
            .available()
            .await;
        let v3 = ns
            .revision(3)
            .annotation("baton.run/on-deletion", "hand-back");
        let [own_cm, own_fresh] = from("v3");
        v3.phase_of(deleted, "a", [own_cm, own.clone()])
            .phase_of(deleted, "b", [own_fresh])
            .reaching(&[Is("Available", "True"), Is("Succeeded", "True")])
            .await;
        ns.reaches("v2", &[Is("InTransition", "True"), Controls(&[])])
            .await;
        // No older revision is an owner of the recreated object.
        let before = ns.live(&fresh).await;
        ns.delete(&fresh).await;
        let again = ns
            .object_becomes(&fresh, "made again", |live| uid(live) != uid(&before))
            .await;
        assert_eq!(owners(&again).len(), 1, "{case}: {again}");
        ns.reaches("v3", &[Is("Available", "True")]).await;
        let before = [ns.live(&cm).await, again];

        let label = "package-operator.run/cache=True";
        let recording = Recording::start(ns.cluster(), &before[0], label).await;
        ns.delete_set("v3", "Background").await;
        let controls = Controls(&["ConfigMap cm", "ConfigMap fresh"]);
        let wanted = [Is("Available", "True"), No("InTransition"), controls];
        ns.reaches("v2", &wanted).await;
        ns.gone(&own).await;
        let recorded = recording.so_far().await;
        for state in recorded.states() {
            for before in &before {
                let live = &state[before["metadata"]["name"].as_str().unwrap()];
                assert_eq!(uid(live), uid(before), "{case}");
                let mut controllers = owners(live).iter();
                assert!(
                    controllers.any(|o| o["controller"] == true),
                    "{case}: {live}"
                );
                let from = live["data"]["from"].as_str().unwrap();
                assert!(["v2", "v3"].contains(&from), "{case}: {live}");
                assert!(live["metadata"]["deletionTimestamp"].is_null(), "{case}");
            }
        }
        let name = match older {
            "" => ns.set_name("v2"),
            _ => ns.phase_object("v2", "a").await.unwrap().name().to_owned(),
        };
        for entry in [&cm, &fresh] {
            let live = ns.live(entry).await;
            assert_eq!(controller(&live), name, "{case}: {live}");
            assert_eq!(live["data"], json!({ "from": "v2" }), "{case}");
            assert_eq!(revision_annotation(&live), "2", "{case}");
        }
        // The oldest revision still exists, and the next revision continues the chain.
        ns.revision(3)
            .phase_of(older, "a", from("v3"))
            .reaching(&[Is("Available", "True"), Is("Succeeded", "True")])
            .await;
        assert_eq!(ns.live(&cm).await["data"], json!({ "from": "v3" }));
        assert_eq!(uid(&ns.live(&cm).await), uid(&before[0]));
    }
}

/// The deleted revision does not name the older revision as previous, but an archived revision in
/// between does.
async fn an_object_in_a_slice_is_handed_back_to_an_older_revision(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let cm = configmap("cm");
    let from = |set: &str| [cm.clone().data("from", set)];
    ns.create_slice("slice", from("v1")).await;
    ns.revision(1)
        .phase_with_slices("a", [], &["slice"])
        .available()
        .await;
    ns.revision(2).phase("a", from("v2")).available().await;
    ns.revision(3)
        .annotation("baton.run/on-deletion", "hand-back")
        .phase("a", from("v3"))
        .reaching(&[Is("Available", "True"), Is("Succeeded", "True")])
        .await;
    ns.set_lifecycle("v2", "Archived").await;
    ns.reaches("v2", &[Is("Archived", "True")]).await;
    let before = ns.live(&cm).await;
    ns.delete_set("v3", "Background").await;
    let wanted = [Is("Available", "True"), Controls(&["ConfigMap cm"])];
    let v1 = ns.reaches("v1", &wanted).await;
    let live = ns.live(&cm).await;
    assert_eq!(
        (uid(&live), &live["data"]["from"]),
        (uid(&before), &json!("v1"))
    );
    assert_managed_by(&live, &v1);
    assert_eq!(owner_names(&live), [v1.name()]);
}

/// Another client writes to a shared object repeatedly, but the older revision never takes it back.
#[tokio::test]
async fn the_old_revision_never_takes_an_object_back() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let cm = configmap("cm");
    ns.revision(1)
        .phase("a", [cm.clone().data("from", "v1")])
        .available()
        .await;
    let new = cm.clone().data("from", "v2");
    ns.revision(2).phase("a", [new]).available().await;
    for round in 0..20 {
        let drift = json!({ "data": { "from": "a user", "round": round.to_string() } });
        let written = ns.merge(&cm, &drift).await;
        assert_eq!(controller(&written), "v2", "{written}");
        ns.object_becomes(&cm, "repaired by v2", |live| {
            assert_eq!(controller(live), "v2", "{live}");
            assert_ne!(live["data"]["from"], "v1", "{live}");
            live["data"]["from"] == "v2"
        })
        .await;
    }
    let settled = ns.live(&cm).await;
    ns.stays(Duration::from_secs(2), "nothing is written", async || {
        ns.live(&cm).await == settled
    })
    .await;
}

/// `controllerOf` may be absent for two reasons; `status.phase` distinguishes them.
#[tokio::test]
async fn the_status_phase_explains_an_empty_controller_of() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let cm = configmap("cm");
    let fails = fields_equal("", "ConfigMap", ".data.never", ".data.never");
    let set = ns.revision(1).phase("a", [cm.clone()]);
    set.probe(fails)
        .create()
        .await
        .assert(&[Phase("Pending"), Controls(&[])]);
    ns.reaches(
        "v1",
        &[Is("Available", "False"), Controls(&["ConfigMap cm"])],
    )
    .await;
    ns.revision(2).phase("a", [cm]).available().await;
    let wanted = [
        Phase("NotReady"),
        Controls(&[]),
        Is("Available", "False"),
        Is("InTransition", "True"),
        No("Succeeded"),
    ];
    ns.reaches("v1", &wanted).await;
}

/// A revision that is created late, behind its successor in the chain, controls nothing and reports
/// it.
#[tokio::test]
async fn a_revision_without_control_is_not_available() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let cm = configmap("cm");
    ns.set("v2")
        .revision(2)
        .previous(&["v1"])
        .phase("a", [cm.clone()])
        .available()
        .await;
    let before = ns.live(&cm).await;
    ns.revision(1)
        .phase("a", [cm.clone()])
        .reaching(&[
            Because("Available", "False", "NotInControl"),
            Is("InTransition", "True"),
            No("Succeeded"),
            Controls(&[]),
            Phase("NotReady"),
        ])
        .await;
    assert_eq!(ns.live(&cm).await, before);
}
