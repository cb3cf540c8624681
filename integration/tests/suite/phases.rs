//! Phases of the class `default`: adoption, handover in any combination with in-process phases, and
//! the life of phase objects. Pause and archival are covered in `lifecycle`.

use baton_integration::manifest::BLOCKING_FINALIZER;
use baton_integration::prelude::*;

alternating_scopes! {
    prevent_refuses_an_object_without_a_controller;
    prevent_refuses_an_object_of_a_foreign_controller;
    if_no_controller_adopts_an_object_without_a_controller;
    none_adopts_an_object_without_a_controller;
    handover_between_processes_and_classes_in_any_combination;
    phases_with_the_same_deployment_label_hand_over;
    phase_objects_whose_names_collide_get_different_ones;
    a_deleted_phase_object_is_created_again;
    teardown_goes_in_reverse_order;
    orphaned_phase_objects_stay;
    a_later_phase_waits_for_a_delegated_one;
    an_unknown_class_is_reported;
    invalid_objects_are_reported;
    a_changed_slice_is_detected_before_the_status_is_written;
}

const CLASS: &str = "default";

fn settings() -> Entry {
    configmap("cm").data("k", "v")
}

/// Waits until the phase object controls the object, and the revision and the phase object report
/// it.
async fn is_taken(ns: &TestNamespace, set: &str, entry: &Entry) -> Value {
    let name = format!(
        "ConfigMap {}",
        entry.manifest["metadata"]["name"].as_str().unwrap()
    );
    let wanted = [Is("Available", "True"), Controls(&[&name])];
    let reported = ns.reaches(set, &wanted).await;
    let phase = ns.phase_object(set, "a").await.unwrap();
    phase.assert(&[
        Because("Available", "True", "Available"),
        Controls(&[&name]),
    ]);
    let live = ns.live(entry).await;
    assert_eq!(controller(&live), phase.name());
    assert_eq!(
        reported.json["status"]["remotePhases"],
        json!([{ "name": phase.name(), "uid": phase.uid() }])
    );
    live
}

async fn refused(scope: Scope, there: Entry) {
    let ns = TestNamespace::new(scope).await;
    let before = ns.create(&there).await;
    let reported = ns
        .revision(1)
        .delegated("a", CLASS, [settings()])
        .reaching(&[Because("Available", "False", "CollisionDetected")])
        .await;
    let message = reported.message("Available");
    let expected = format!(
        "Phase \"a\" failed: object {0}/cm kind:ConfigMap: refusing adoption, \
         object /v1, Kind=ConfigMap {0}/cm not owned by previous revision",
        ns.name()
    );
    assert_eq!(message, expected);
    assert_eq!(ns.live(&settings()).await, before);
    // The deletion of the object triggers the phase, without polling.
    ns.delete(&there).await;
    is_taken(&ns, "v1", &settings()).await;
}

async fn prevent_refuses_an_object_without_a_controller(scope: Scope) {
    refused(scope, settings()).await;
}

async fn prevent_refuses_an_object_of_a_foreign_controller(scope: Scope) {
    refused(scope, settings().foreign()).await;
}

async fn taken(scope: Scope, protection: &str) {
    let ns = TestNamespace::new(scope).await;
    let before = ns.create(&settings()).await;
    let set = ns.revision(1);
    let entry = settings().collision(protection);
    set.delegated("a", CLASS, [entry.clone()]).create().await;
    let live = is_taken(&ns, "v1", &entry).await;
    assert_eq!(uid(&live), uid(&before));
}

async fn if_no_controller_adopts_an_object_without_a_controller(scope: Scope) {
    taken(scope, "IfNoController").await;
}

async fn none_adopts_an_object_without_a_controller(scope: Scope) {
    taken(scope, "None").await;
}

/// The same objects move from in-process phases to delegated ones, to other delegated ones, and
/// back.
async fn handover_between_processes_and_classes_in_any_combination(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let kept = |version: &str| configmap("kept").data("k", version);
    let moved = |version: &str| configmap("moved").data("k", version);
    let chain = [
        ("v1", "", ""),
        ("v2", CLASS, ""),
        ("v3", CLASS, CLASS),
        ("v4", "", CLASS),
        ("v5", "", ""),
    ];
    let mut uids = Vec::new();
    for (at, (name, first, second)) in chain.into_iter().enumerate() {
        let number = i64::try_from(at).unwrap() + 1;
        let own = configmap(&format!("own-{number}"));
        // The moved object changes its phase in each revision.
        let (a, b) = if at % 2 == 0 {
            (vec![kept(name), own.clone()], vec![moved(name)])
        } else {
            (vec![moved(name), kept(name)], vec![own.clone()])
        };
        let mut set = ns.set(name).revision(number);
        if at > 0 {
            set = set.previous(&[chain[at - 1].0]);
        }
        set.phase_of(first, "a", a)
            .phase_of(second, "b", b)
            .create()
            .await;
        ns.reaches(name, &[Is("Succeeded", "True"), No("InTransition")])
            .await;
        let now = [ns.live(&kept(name)).await, ns.live(&moved(name)).await];
        for (live, class) in now.iter().zip(if at % 2 == 0 {
            [first, second]
        } else {
            [first, first]
        }) {
            let phase = if class.is_empty() { "" } else { "-" };
            let controller = controller(live);
            assert!(
                controller.starts_with(&format!("{}{phase}", ns.set_name(name))),
                "{name}: {controller}"
            );
            assert_eq!(live["data"]["k"], name);
        }
        uids.push(now.each_ref().map(|live| uid(live).to_owned()));
        if at > 0 {
            let before = chain[at - 1].0;
            let left = format!("ConfigMap own-{at}");
            ns.reaches(before, &[Is("InTransition", "True"), Controls(&[&left])])
                .await;
            ns.set_lifecycle(before, "Archived").await;
            ns.reaches(before, &[Is("Archived", "True")]).await;
            ns.gone(&configmap(&format!("own-{at}"))).await;
        }
    }
    assert!(uids.iter().all(|uid| *uid == uids[0]), "{uids:?}");
    for phase in ["v2-a", "v3-a", "v3-b", "v4-b"] {
        let (set, phase) = phase.split_once('-').unwrap();
        assert!(ns.phase_object(set, phase).await.is_none());
    }
}

/// Without a deployment, delegated phases find their siblings by the label alone.
async fn phases_with_the_same_deployment_label_hand_over(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let label = "package-operator.run/object-deployment";
    let set = |name: &'static str, number, value: &'static str| {
        ns.set(name).revision(number).label(label, value).delegated(
            "a",
            CLASS,
            [settings().data("k", name)],
        )
    };
    set("v1", 1, "web").create().await;
    let before = is_taken(&ns, "v1", &settings()).await;
    set("other", 2, "another").create().await;
    ns.reaches(
        "other",
        &[Because("Available", "False", "CollisionDetected")],
    )
    .await;
    set("v2", 2, "web").create().await;
    let live = is_taken(&ns, "v2", &settings()).await;
    assert_eq!(
        (uid(&live), &live["data"]["k"]),
        (uid(&before), &json!("v2"))
    );
    ns.reaches("v1", &[Is("InTransition", "True"), Controls(&[])])
        .await;
}

/// The set `a-b` with phase `c` results in the same name as the set `a` with phase `b-c`.
async fn phase_objects_whose_names_collide_get_different_ones(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let [one, two] = ["one", "two"].map(configmap);
    ns.set("a-b")
        .revision(1)
        .delegated("c", CLASS, [one.clone()])
        .reaching(&[Is("Succeeded", "True")])
        .await;
    let reported = ns
        .set("a")
        .revision(1)
        .delegated("b-c", CLASS, [two.clone()])
        .reaching(&[Is("Succeeded", "True"), Controls(&["ConfigMap two"])])
        .await;
    let name = reported.json["status"]["remotePhases"][0]["name"].clone();
    let name = name.as_str().unwrap();
    let plain = ns.phase_ref("a", "b-c")["metadata"]["name"].clone();
    assert!(
        name.starts_with(plain.as_str().unwrap()) && name != plain,
        "{name}"
    );
    assert_eq!(controller(&ns.live(&two).await), name);
    // The name stays when the plain name becomes free.
    ns.delete_set("a-b", "Background").await;
    ns.gone(&one).await;
    let patch = json!({ "spec": { "lifecycleState": "Paused" } });
    ns.patch_set("a", &patch).await.unwrap();
    ns.reaches("a", &[Is("Paused", "True")]).await;
    let reported = ns.reaches("a", &[Is("Available", "True")]).await;
    assert_eq!(reported.json["status"]["remotePhases"][0]["name"], name);
    assert_eq!(controller(&ns.live(&two).await), name);
}

/// The objects of a deleted phase object are removed first, and then the revision recreates the
/// phase object.
async fn a_deleted_phase_object_is_created_again(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let set = ns.revision(1);
    set.delegated("a", CLASS, [settings()]).create().await;
    let before = is_taken(&ns, "v1", &settings()).await;
    let phase = ns.phase_object("v1", "a").await.unwrap();
    assert!(
        ns.cluster()
            .delete(&ns.phase_ref("v1", "a"), "Background")
            .await
    );
    ns.object_becomes(&settings(), "created again", |live| {
        uid(live) != uid(&before)
    })
    .await;
    ns.eventually("another phase object", async || {
        let now = ns.phase_object("v1", "a").await;
        now.is_some_and(|now| now.uid() != phase.uid())
    })
    .await;
    is_taken(&ns, "v1", &settings()).await;
}

async fn teardown_goes_in_reverse_order(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let [first, second, third] = ["first", "second", "third"].map(configmap);
    let blocked = second.clone().blocked();
    // A manifest of a delegated phase must not have finalizers.
    ns.revision(1)
        .phase("a", [first.clone()])
        .delegated("b", CLASS, [second.clone()])
        .delegated("c", CLASS, [third.clone()])
        .reaching(&[Is("Succeeded", "True")])
        .await;
    let block = json!({ "metadata": { "finalizers": blocked.manifest["metadata"]["finalizers"] } });
    ns.merge(&second, &block).await;
    ns.set_lifecycle("v1", "Archived").await;
    ns.gone(&third).await;
    let is_going = |live: &Value| !live["metadata"]["deletionTimestamp"].is_null();
    ns.object_becomes(&second, "deleted", is_going).await;
    ns.reaches("v1", &[Because("Archived", "False", "ArchivalInProgress")])
        .await;
    ns.live(&first).await;
    let phase = ns.phase_ref("v1", "b")["metadata"]["name"].clone();
    let text = format!(
        "ConfigMap {}/second: being deleted, held by {BLOCKING_FINALIZER}",
        ns.name()
    );
    // The phase "c" before it may still be the one that is waited for.
    ns.eventually("the object to be named", async || {
        let waits = &ns.read_set("v1").await.json["status"]["waitingFor"][0];
        waits["name"] == phase && waits["message"] == text.as_str()
    })
    .await;
    ns.unblock(&second).await;
    ns.reaches("v1", &[Is("Archived", "True"), Controls(&[])])
        .await;
    ns.gone(&first).await;
    assert!(ns.phase_object("v1", "b").await.is_none());
}

async fn orphaned_phase_objects_stay(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let set = ns.revision(1);
    set.delegated("a", CLASS, [settings()]).create().await;
    let before = is_taken(&ns, "v1", &settings()).await;
    ns.until_garbage_is_collected().await;
    ns.delete_set("v1", "Orphan").await;
    ns.eventually("the phase object to be an orphan", async || {
        let phase = ns.phase_object("v1", "a").await.unwrap();
        owners(&phase.json).is_empty()
    })
    .await;
    assert_eq!(ns.live(&settings()).await, before);
    // If the phase object is orphaned as well, its object stays.
    assert!(
        ns.cluster()
            .delete(&ns.phase_ref("v1", "a"), "Orphan")
            .await
    );
    ns.object_becomes(&settings(), "left without a controller", |live| {
        owners(live).is_empty()
    })
    .await;
    // A delegated phase does not adopt the object, for any collision protection.
    ns.set("v2")
        .revision(2)
        .delegated("a", CLASS, [settings().collision("None")])
        .reaching(&[Because("Available", "False", "CollisionDetected")])
        .await;
}

async fn a_later_phase_waits_for_a_delegated_one(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let gate = configmap("gate");
    let reported = ns
        .revision(1)
        .delegated("a", CLASS, [gate.clone()])
        .phase("b", [configmap("after").annotation("name", "after")])
        .probe(name_annotation_probe())
        .reaching(&[Because("Available", "False", "ProbeFailure")])
        .await;
    let expected = format!(
        "Phase \"a\" failed:  ConfigMap {}/gate: \".metadata.annotations.name\" missing",
        ns.name()
    );
    assert!(
        [expected.as_str(), "Phase \"a\" failed: no status reported"]
            .contains(&reported.message("Available")),
        "{}",
        reported.status()
    );
    ns.reaches("v1", &[Says("Available", &expected)]).await;
    assert_eq!(ns.get(&configmap("after")).await, None);
    ns.annotate_with_name(&gate).await;
    ns.reaches(
        "v1",
        &[
            Is("Succeeded", "True"),
            Controls(&["ConfigMap gate", "ConfigMap after"]),
        ],
    )
    .await;
}

/// No controller acts on the phase, and the revision reports it.
async fn an_unknown_class_is_reported(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let reported = ns
        .revision(1)
        .delegated("a", "elsewhere", [settings()])
        .reaching(&[Because("Available", "False", "ProbeFailure")])
        .await;
    assert_eq!(
        reported.message("Available"),
        "Phase \"a\" failed: no status reported"
    );
    let phase = ns.phase_object("v1", "a").await.unwrap();
    let labels = &phase.json["metadata"]["labels"];
    assert_eq!(labels["package-operator.run/phase-class"], "elsewhere");
    assert_eq!(phase.json["status"], Value::Null);
    assert_eq!(ns.get(&settings()).await, None);
    // The revision can be deleted, because the phase object has no finalizer.
    ns.delete_set("v1", "Background").await;
    assert!(ns.phase_object("v1", "a").await.is_none());
}

/// Invalid objects of a delegated phase are reported by the phase object and by the revision.
async fn invalid_objects_are_reported(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let cases = [
        (
            "uid",
            "a",
            vec![settings().with("/metadata/uid", "b7a2")],
            "metadata.uid must not be set.",
        ),
        (
            "finalizer",
            "a",
            vec![settings().blocked()],
            "metadata.finalizers must not be set.",
        ),
        (
            "kind",
            "a",
            vec![object("example.com/v1", "Nothing", "x")],
            "not registered on the api server.",
        ),
        ("capital", "A", vec![settings()], "must be a DNS label"),
    ];
    for (name, phase, objects, text) in cases {
        ns.set(name)
            .revision(1)
            .delegated(phase, CLASS, objects)
            .reaching(&[
                Because("Available", "False", "PreflightError"),
                Says("Available", text),
            ])
            .await;
        ns.delete_set(name, "Background").await;
    }
    if scope == Scope::Namespaced {
        let far = settings().within("elsewhere");
        let set = ns.set("far").revision(1);
        set.delegated("a", CLASS, [far]).create().await;
        let text = format!(
            "object must be in namespace \"{}\", actual \"elsewhere\"",
            ns.name()
        );
        ns.reaches("far", &[Says("Available", &text)]).await;
    }
}

/// The status that records the content is debounced; a change of the content is detected
/// nevertheless. The rules of the API server do not cover a recreated slice.
async fn a_changed_slice_is_detected_before_the_status_is_written(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    ns.create_slice("slice", [settings().data("k", "1")]).await;
    let phase = json!({ "name": "a", "class": "elsewhere", "slices": [ns.set_name("slice")] });
    let set = ns.revision(1).spec("phases", json!([phase]));
    set.create().await;
    ns.eventually("the phase object", async || {
        ns.phase_object("v1", "a").await.is_some()
    })
    .await;
    ns.cluster()
        .delete(&ns.slice_ref("slice"), "Background")
        .await;
    ns.create_slice("slice", [settings().data("k", "2")]).await;
    ns.reaches("v1", &[Because("Available", "False", "SpecChanged")])
        .await;
}
