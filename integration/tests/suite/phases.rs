//! Phases of the class `default`: A2, A4, A7, A9 (B2 is in `lifecycle`), handover in any combination
//! with in-process phases, and the life of the phase objects.

use baton_integration::prelude::*;

both_scopes! {
    a2_prevent_refuses_unowned => a2;
    a4_prevent_refuses_foreign_controller => a4;
    a7_if_no_controller_takes_unowned => a7;
    a9_none_takes_unowned => a9;
    handover_in_any_combination => combinations;
    siblings_of_the_deployment_label_hand_over => siblings;
    improvement_20_names_that_collide => names;
    a_deleted_phase_object_is_made_again => made_again;
    teardown_in_reverse_order => reverse;
    orphans_keep_their_phase_objects => orphans;
    a_later_phase_waits_for_a_delegated_one => order;
    an_unknown_class_is_told => unknown;
    faults_are_told => faults;
    contents_count_from_the_first_write => contents;
}

const CLASS: &str = "default";

fn settings() -> Entry {
    configmap("cm").data("k", "v")
}

/// The object is controlled by the phase object, and the revision and the phase object tell so.
async fn is_taken(ns: &TestNamespace, set: &str, entry: &Entry) -> Value {
    let name = format!(
        "ConfigMap {}",
        entry.manifest["metadata"]["name"].as_str().unwrap()
    );
    let wanted = [Is("Available", "True"), Controls(&[&name])];
    let told = ns.reaches(set, &wanted).await;
    let phase = ns.phase_object(set, "a").await.unwrap();
    phase.assert(&[
        Because("Available", "True", "Available"),
        Controls(&[&name]),
    ]);
    let live = ns.live(entry).await;
    assert_eq!(controller(&live), phase.name());
    assert_eq!(
        told.json["status"]["remotePhases"],
        json!([{ "name": phase.name(), "uid": phase.uid() }])
    );
    live
}

async fn refused(scope: Scope, there: Entry) {
    let ns = TestNamespace::new(scope).await;
    let before = ns.create(&there).await;
    let set = ns.set("v1").revision(1);
    set.delegated("a", CLASS, [settings()]).create().await;
    let told = ns
        .reaches("v1", &[Because("Available", "False", "CollisionDetected")])
        .await;
    let message = told.message("Available");
    let expected = format!(
        "Phase \"a\" failed: object {0}/cm kind:ConfigMap: refusing adoption, object /v1, Kind=ConfigMap {0}/cm not owned by previous revision",
        ns.name()
    );
    assert_eq!(message, expected);
    assert_eq!(ns.live(&settings()).await, before);
    // Nobody polls: once it is gone, the phase goes on.
    ns.delete(&there).await;
    is_taken(&ns, "v1", &settings()).await;
}

async fn a2(scope: Scope) {
    refused(scope, settings()).await;
}

async fn a4(scope: Scope) {
    refused(scope, settings().foreign()).await;
}

async fn taken(scope: Scope, protection: &str) {
    let ns = TestNamespace::new(scope).await;
    let before = ns.create(&settings()).await;
    let set = ns.set("v1").revision(1);
    let entry = settings().collision(protection);
    set.delegated("a", CLASS, [entry.clone()]).create().await;
    let live = is_taken(&ns, "v1", &entry).await;
    assert_eq!(uid(&live), uid(&before));
}

async fn a7(scope: Scope) {
    taken(scope, "IfNoController").await;
}

async fn a9(scope: Scope) {
    taken(scope, "None").await;
}

/// The same objects go from in-process phases to delegated ones, on to other delegated ones and back.
async fn combinations(scope: Scope) {
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
        // The moved object changes its phase each time.
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

/// Contract 6.4: standalone revisions hand delegated phases over by the label alone.
async fn siblings(scope: Scope) {
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

/// `a-b` and `c` give the same name as `a` and `b-c`.
async fn names(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let [one, two] = ["one", "two"].map(configmap);
    let set = ns.set("a-b").revision(1);
    set.delegated("c", CLASS, [one.clone()]).create().await;
    ns.reaches("a-b", &[Is("Succeeded", "True")]).await;
    let set = ns.set("a").revision(1);
    set.delegated("b-c", CLASS, [two.clone()]).create().await;
    let told = ns
        .reaches(
            "a",
            &[Is("Succeeded", "True"), Controls(&["ConfigMap two"])],
        )
        .await;
    let name = told.json["status"]["remotePhases"][0]["name"].clone();
    let name = name.as_str().unwrap();
    let plain = ns.phase_ref("a", "b-c")["metadata"]["name"].clone();
    assert!(
        name.starts_with(plain.as_str().unwrap()) && name != plain,
        "{name}"
    );
    assert_eq!(controller(&ns.live(&two).await), name);
    // It stays when the better name becomes free.
    ns.delete_set("a-b", "Background").await;
    ns.gone(&one).await;
    let patch = json!({ "spec": { "lifecycleState": "Paused" } });
    ns.patch_set("a", &patch).await.unwrap();
    ns.reaches("a", &[Is("Paused", "True")]).await;
    let told = ns.reaches("a", &[Is("Available", "True")]).await;
    assert_eq!(told.json["status"]["remotePhases"][0]["name"], name);
    assert_eq!(controller(&ns.live(&two).await), name);
}

/// Contract 2.13: its objects go first, then the revision makes it again.
async fn made_again(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let set = ns.set("v1").revision(1);
    set.delegated("a", CLASS, [settings()]).create().await;
    let before = is_taken(&ns, "v1", &settings()).await;
    let phase = ns.phase_object("v1", "a").await.unwrap();
    assert!(
        ns.cluster()
            .delete(&ns.phase_ref("v1", "a"), "Background")
            .await
    );
    ns.object_becomes(&settings(), "made anew", |live| uid(live) != uid(&before))
        .await;
    ns.eventually("another phase object", async || {
        let now = ns.phase_object("v1", "a").await;
        now.is_some_and(|now| now.uid() != phase.uid())
    })
    .await;
    is_taken(&ns, "v1", &settings()).await;
}

async fn reverse(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let [first, second, third] = ["first", "second", "third"].map(configmap);
    let blocked = second.clone().blocked();
    // A manifest of a delegated phase must not have finalizers.
    ns.set("v1")
        .revision(1)
        .phase("a", [first.clone()])
        .delegated("b", CLASS, [second.clone()])
        .delegated("c", CLASS, [third.clone()])
        .create()
        .await;
    ns.reaches("v1", &[Is("Succeeded", "True")]).await;
    let block = json!({ "metadata": { "finalizers": blocked.manifest["metadata"]["finalizers"] } });
    ns.merge(&second, &block).await;
    ns.set_lifecycle("v1", "Archived").await;
    ns.gone(&third).await;
    let is_going = |live: &Value| !live["metadata"]["deletionTimestamp"].is_null();
    ns.object_becomes(&second, "deleted", is_going).await;
    let told = ns
        .reaches("v1", &[Because("Archived", "False", "ArchivalInProgress")])
        .await;
    ns.live(&first).await;
    let waits = &told.json["status"]["waitingFor"][0];
    assert_eq!(waits["name"], ns.phase_ref("v1", "b")["metadata"]["name"]);
    let text = format!("ConfigMap {}/second: being deleted", ns.name());
    ns.eventually("the object to be named", async || {
        ns.read_set("v1").await.json["status"]["waitingFor"][0]["message"] == text.as_str()
    })
    .await;
    ns.unblock(&second).await;
    ns.reaches("v1", &[Is("Archived", "True"), Controls(&[])])
        .await;
    ns.gone(&first).await;
    assert!(ns.phase_object("v1", "b").await.is_none());
}

async fn orphans(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let set = ns.set("v1").revision(1);
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
    // Orphaned as well, it leaves its object behind.
    assert!(
        ns.cluster()
            .delete(&ns.phase_ref("v1", "a"), "Orphan")
            .await
    );
    ns.object_becomes(&settings(), "left to nobody", |live| {
        owners(live).is_empty()
    })
    .await;
    // Which a delegated phase does not take, whatever its protection (contract 6.4).
    ns.set("v2")
        .revision(2)
        .delegated("a", CLASS, [settings().collision("None")])
        .create()
        .await;
    ns.reaches("v2", &[Because("Available", "False", "CollisionDetected")])
        .await;
}

async fn order(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let gate = configmap("gate");
    ns.set("v1")
        .revision(1)
        .delegated("a", CLASS, [gate.clone()])
        .phase("b", [configmap("after").annotation("name", "after")])
        .probe(name_annotation_probe())
        .create()
        .await;
    let told = ns
        .reaches("v1", &[Because("Available", "False", "ProbeFailure")])
        .await;
    let expected = format!(
        "Phase \"a\" failed:  ConfigMap {}/gate: \".metadata.annotations.name\" missing",
        ns.name()
    );
    assert!(
        [expected.as_str(), "Phase \"a\" failed: no status reported"]
            .contains(&told.message("Available")),
        "{}",
        told.status()
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

/// Nobody acts on the phase, and the revision says so.
async fn unknown(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let set = ns.set("v1").revision(1);
    set.delegated("a", "elsewhere", [settings()]).create().await;
    let told = ns
        .reaches("v1", &[Because("Available", "False", "ProbeFailure")])
        .await;
    assert_eq!(
        told.message("Available"),
        "Phase \"a\" failed: no status reported"
    );
    let phase = ns.phase_object("v1", "a").await.unwrap();
    let labels = &phase.json["metadata"]["labels"];
    assert_eq!(labels["package-operator.run/phase-class"], "elsewhere");
    assert_eq!(phase.json["status"], Value::Null);
    assert_eq!(ns.get(&settings()).await, None);
    // It can be taken back: nothing holds the phase object.
    ns.delete_set("v1", "Background").await;
    assert!(ns.phase_object("v1", "a").await.is_none());
}

/// What is wrong with the objects of a delegated phase is told by the phase object and the revision.
async fn faults(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let long = "x".repeat(70);
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
        ("long", &long, vec![settings()], "must be a DNS label"),
    ];
    for (name, phase, objects, text) in cases {
        let set = ns.set(name).revision(1);
        set.delegated(phase, CLASS, objects).create().await;
        ns.reaches(
            name,
            &[
                Because("Available", "False", "PreflightError"),
                Says("Available", text),
            ],
        )
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

/// The status that notes the contents waits for a moment; a change of them is seen all the same. The API
/// server's own rule does not see this one.
async fn contents(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let cm = settings().data("k", "dGVzdA==");
    let set = ns.set("v1").revision(1);
    let set = set.delegated("a", "elsewhere", [cm]).create().await;
    ns.eventually("the phase object", async || {
        ns.phase_object("v1", "a").await.is_some()
    })
    .await;
    let mut phases = set.json["spec"]["phases"].clone();
    let manifest = phases[0]["objects"][0]["object"].as_object_mut().unwrap();
    let data = manifest.remove("data").unwrap();
    manifest.insert("binaryData".to_owned(), data);
    let patch = json!({ "spec": { "phases": phases } });
    match ns.patch_set("v1", &patch).await {
        Ok(_) => {
            let wanted = [Because("Available", "False", "SpecChanged")];
            ns.reaches("v1", &wanted).await;
        }
        Err(refused) => assert!(
            refused.message.contains("phases is immutable"),
            "{refused:?}"
        ),
    }
}
