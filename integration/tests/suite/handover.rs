//! Taking objects over from previous revisions: C1, F1, and what moves on the way.

use baton_integration::prelude::*;

both_scopes! {
    c1_handover_and_archival => c1;
    f1_missing_previous_is_tolerated => f1;
    an_object_moves_between_phases => moves_between_phases;
    a_dropped_field_is_removed => dropped_field;
    rollback_is_a_new_revision => rollback;
    improvement_05_old_revision_does_not_recreate => no_recreation;
}

async fn c1(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let deployment = "package-operator.run/object-deployment";
    let (cm1, cm2) = (configmap("cm-1"), configmap("cm-2"));
    let cm3 = configmap("cm-3").annotation("name", "cm-3");
    ns.set("r1")
        .label(deployment, "demo")
        .revision(1)
        .phase("phase-1", [cm1.clone()])
        .phase("phase-2", [cm2.clone()])
        .create()
        .await;
    ns.reaches(
        "r1",
        &[
            Is("Available", "True"),
            Is("Succeeded", "True"),
            Controls(&["ConfigMap cm-1", "ConfigMap cm-2"]),
        ],
    )
    .await;
    let before = ns.live(&cm1).await;

    ns.set("r2")
        .label(deployment, "demo")
        .revision(2)
        .previous(&["r1"])
        .phase("phase-1", [cm3.clone()])
        .phase("phase-2", [cm1.clone()])
        .probe(name_annotation_probe())
        .create()
        .await;
    let r2 = ns
        .reaches(
            "r2",
            &[
                Because("Available", "False", "ProbeFailure"),
                Controls(&["ConfigMap cm-3", "ConfigMap cm-1"]),
            ],
        )
        .await;
    ns.reaches(
        "r1",
        &[Is("InTransition", "True"), Controls(&["ConfigMap cm-2"])],
    )
    .await;
    ns.live(&cm2).await;
    ns.live(&cm3).await;
    let taken = ns.live(&cm1).await;
    assert_eq!(uid(&taken), uid(&before));
    assert_managed_by(&taken, &r2);
    let mut former = owners(&before)[0].clone();
    former["controller"] = false.into();
    assert!(owners(&taken).contains(&former), "{taken}");

    ns.annotate_with_name(&cm1).await;
    ns.reaches("r2", &[Is("Available", "True"), Is("Succeeded", "True")])
        .await;
    ns.set_lifecycle("r1", "Archived").await;
    ns.reaches("r1", &[Is("Archived", "True"), Controls(&[])])
        .await;
    assert_eq!(ns.get(&cm2).await, None);
    ns.live(&cm3).await;
    let left = ns.live(&cm1).await;
    assert_eq!(owner_names(&left), [ns.set_name("r2")]);
    assert!(is_labelled(&left), "{left}");
    ns.reaches("r2", &[Is("Available", "True"), No("InTransition")])
        .await;
}

async fn f1(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let cm = configmap("cm");
    ns.set("r1")
        .revision(1)
        .phase("a", [cm.clone()])
        .create()
        .await;
    ns.reaches("r1", &[Is("Available", "True")]).await;
    let previous = ["r1", "never-was"];
    ns.set("r2")
        .revision(2)
        .previous(&previous)
        .phase("a", [cm.clone()])
        .create()
        .await;
    let r2 = ns
        .reaches(
            "r2",
            &[Is("Available", "True"), Controls(&["ConfigMap cm"])],
        )
        .await;
    assert_eq!(r2.number(), Some(2));
    // Without a number it is computed, and stored where it would have been given.
    let previous = ["never-was", "r1", "r2"];
    ns.set("r3")
        .previous(&previous)
        .phase("a", [cm.clone()])
        .create()
        .await;
    let r3 = ns
        .reaches(
            "r3",
            &[Is("Available", "True"), Controls(&["ConfigMap cm"])],
        )
        .await;
    assert_eq!(r3.number(), Some(3));
    assert_eq!(r3.json["status"]["revision"], 3);
    assert_managed_by(&ns.live(&cm).await, &r3);
}

/// The example of the seed document, as it is written there.
#[tokio::test]
async fn seed_example_without_revision_numbers() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let cm = configmap("cm");
    let previous = |name: &str| json!([{ "name": name, "kind": "ObjectSet", "group": "package-operator.run" }]);
    ns.set("v1")
        .phase("a", [cm.clone().data("k", "1")])
        .create()
        .await;
    ns.reaches(
        "v1",
        &[Is("Available", "True"), Controls(&["ConfigMap cm"])],
    )
    .await;
    ns.set("v2")
        .spec("previous", previous("v1"))
        .phase("a", [cm.clone().data("k", "2")])
        .create()
        .await;
    let v2 = ns
        .reaches(
            "v2",
            &[Is("Available", "True"), Controls(&["ConfigMap cm"])],
        )
        .await;
    assert_eq!(v2.number(), Some(2));
    assert_eq!(v2.json["status"]["revision"], 2);
    assert_eq!(v2.json["spec"]["previous"], previous("v1"));
    assert_eq!(ns.live(&cm).await["data"]["k"], "2");
    ns.reaches("v1", &[Is("InTransition", "True"), Controls(&[])])
        .await;
}

/// Revisions without numbers may arrive in any order: each waits for those before it, and no timer.
#[tokio::test]
async fn improvement_40_numbers_follow_previous_revisions() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let cm = configmap("cm");
    let names = ["v1", "v2", "v3", "v4"];
    for name in names {
        // Each names all that are there already, and nobody waits in between.
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

async fn moves_between_phases(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let [a, b] = ["a", "b"].map(configmap);
    ns.set("r1")
        .revision(1)
        .phase("1", [a.clone()])
        .phase("2", [b.clone()])
        .create()
        .await;
    ns.reaches(
        "r1",
        &[
            Is("Available", "True"),
            Controls(&["ConfigMap a", "ConfigMap b"]),
        ],
    )
    .await;
    let before = (ns.live(&a).await, ns.live(&b).await);
    ns.set("r2")
        .revision(2)
        .previous(&["r1"])
        .phase("1", [b.clone()])
        .phase("2", [a.clone()])
        .create()
        .await;
    ns.reaches(
        "r2",
        &[
            Is("Available", "True"),
            No("InTransition"),
            Controls(&["ConfigMap b", "ConfigMap a"]),
        ],
    )
    .await;
    ns.reaches("r1", &[Is("InTransition", "True"), Controls(&[])])
        .await;
    assert_eq!(uid(&ns.live(&a).await), uid(&before.0));
    assert_eq!(uid(&ns.live(&b).await), uid(&before.1));
}

/// What only the old revision had goes, what somebody else has written stays.
async fn dropped_field(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let cm = configmap("cm");
    let old = cm
        .clone()
        .data("both", "1")
        .data("old", "1")
        .label("old", "1")
        .annotation("old", "1");
    ns.set("r1").revision(1).phase("a", [old]).create().await;
    ns.reaches("r1", &[Is("Available", "True")]).await;
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
    ns.set("r2")
        .revision(2)
        .previous(&["r1"])
        .phase("a", [new])
        .create()
        .await;
    let r2 = ns
        .reaches("r2", &[Is("Available", "True"), Is("Succeeded", "True")])
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
    assert_managed_by(&live, &r2);
}

async fn rollback(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let (shared, first, second) = (configmap("shared"), configmap("first"), configmap("second"));
    let old = [shared.clone().data("k", "1"), first.clone()];
    ns.set("r1")
        .revision(1)
        .phase("a", old.clone())
        .create()
        .await;
    ns.reaches("r1", &[Is("Available", "True")]).await;
    let before = ns.live(&shared).await;
    let new = [
        shared.clone().data("k", "2").data("only-2", ""),
        second.clone(),
    ];
    ns.set("r2")
        .revision(2)
        .previous(&["r1"])
        .phase("a", new)
        .create()
        .await;
    ns.reaches("r2", &[Is("Available", "True")]).await;
    ns.set_lifecycle("r1", "Archived").await;
    ns.reaches("r1", &[Is("Archived", "True")]).await;
    assert_eq!(ns.get(&first).await, None);

    // Archived revisions are tombstones: going back is going on.
    ns.set("r3")
        .revision(3)
        .previous(&["r1", "r2"])
        .phase("a", old)
        .create()
        .await;
    let controls = Controls(&["ConfigMap shared", "ConfigMap first"]);
    let r3 = ns
        .reaches(
            "r3",
            &[Is("Available", "True"), Is("Succeeded", "True"), controls],
        )
        .await;
    ns.set_lifecycle("r2", "Archived").await;
    ns.reaches("r2", &[Is("Archived", "True")]).await;
    assert_eq!(ns.get(&second).await, None);
    let live = ns.live(&shared).await;
    assert_eq!(live["data"], json!({ "k": "1" }));
    assert_eq!(uid(&live), uid(&before));
    assert_eq!(owner_names(&live), [r3.name()]);
    ns.reaches("r1", &[Is("Archived", "True")]).await;
}

/// Both revisions are active and contain the object; only the newer one makes it again.
async fn no_recreation(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let cm = configmap("cm");
    ns.set("r1")
        .revision(1)
        .phase("a", [cm.clone().data("from", "r1")])
        .create()
        .await;
    ns.reaches("r1", &[Is("Available", "True")]).await;
    let new = cm.clone().data("from", "r2");
    ns.set("r2")
        .revision(2)
        .previous(&["r1"])
        .phase("a", [new])
        .create()
        .await;
    ns.reaches("r2", &[Is("Available", "True"), Is("Succeeded", "True")])
        .await;
    for _ in 0..3 {
        // It is no owner of an object that was made again, and has to be told that it is there.
        ns.reaches("r1", &[Is("Available", "True")]).await;
        let before = ns.live(&cm).await;
        ns.delete(&cm).await;
        let live = ns
            .object_becomes(&cm, "made again", |live| uid(live) != uid(&before))
            .await;
        assert_eq!(owner_names(&live), [ns.set_name("r2")], "{live}");
        assert_eq!(live["data"]["from"], "r2");
    }
    ns.reaches("r2", &[Is("Available", "True")]).await;

    // Nor does it help out when the newer one may not.
    ns.set_lifecycle("r2", "Paused").await;
    ns.reaches("r2", &[Is("Paused", "True")]).await;
    ns.delete(&cm).await;
    ns.reaches("r2", &[Is("Available", "False")]).await;
    ns.stays(
        Duration::from_secs(3),
        "the object is missing",
        async || ns.get(&cm).await.is_none(),
    )
    .await;
}

/// Somebody writes to a shared object all the time; the older revision never gets it back.
#[tokio::test]
async fn improvement_04_old_revision_does_not_snatch_back() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let cm = configmap("cm");
    ns.set("r1")
        .revision(1)
        .phase("a", [cm.clone().data("from", "r1")])
        .create()
        .await;
    ns.reaches("r1", &[Is("Available", "True")]).await;
    let new = cm.clone().data("from", "r2");
    ns.set("r2")
        .revision(2)
        .previous(&["r1"])
        .phase("a", [new])
        .create()
        .await;
    ns.reaches("r2", &[Is("Available", "True")]).await;
    for round in 0..20 {
        let drift = json!({ "data": { "from": "a user", "round": round.to_string() } });
        let written = ns.merge(&cm, &drift).await;
        assert_eq!(controller(&written), "r2", "{written}");
        ns.object_becomes(&cm, "repaired by r2", |live| {
            assert_eq!(controller(live), "r2", "{live}");
            assert_ne!(live["data"]["from"], "r1", "{live}");
            live["data"]["from"] == "r2"
        })
        .await;
    }
    let settled = ns.live(&cm).await;
    ns.stays(Duration::from_secs(2), "nobody writes", async || {
        ns.live(&cm).await == settled
    })
    .await;
}

/// An absent `controllerOf` means two things; the one-word state tells them apart.
#[tokio::test]
async fn improvement_03_nothing_controlled_is_not_unreported() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let cm = configmap("cm");
    let fails = fields_equal("", "ConfigMap", ".data.never", ".data.never");
    let set = ns.set("r1").revision(1).phase("a", [cm.clone()]);
    set.probe(fails)
        .create()
        .await
        .assert(&[Phase("Pending"), Controls(&[])]);
    ns.reaches(
        "r1",
        &[Is("Available", "False"), Controls(&["ConfigMap cm"])],
    )
    .await;
    ns.set("r2")
        .revision(2)
        .previous(&["r1"])
        .phase("a", [cm])
        .create()
        .await;
    ns.reaches("r2", &[Is("Available", "True")]).await;
    let wanted = [
        Phase("NotReady"),
        Controls(&[]),
        Is("Available", "False"),
        Is("InTransition", "True"),
        No("Succeeded"),
    ];
    ns.reaches("r1", &wanted).await;
}

/// A revision that comes late, with a number below that of the owner, has nothing and says so.
#[tokio::test]
async fn improvement_09_available_needs_control() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let cm = configmap("cm");
    ns.set("r2")
        .revision(2)
        .phase("a", [cm.clone()])
        .create()
        .await;
    ns.reaches("r2", &[Is("Available", "True")]).await;
    let before = ns.live(&cm).await;
    ns.set("r1")
        .revision(1)
        .phase("a", [cm.clone()])
        .create()
        .await;
    ns.reaches(
        "r1",
        &[
            Is("Available", "False"),
            Is("InTransition", "True"),
            No("Succeeded"),
            Controls(&[]),
            Phase("NotReady"),
        ],
    )
    .await;
    assert_eq!(ns.live(&cm).await, before);
}
