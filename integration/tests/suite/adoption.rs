//! Objects that are there before the revision: A1, A3, A5, A6, A8 and what goes with them.

use baton_integration::manifest::foreign_controller;
use baton_integration::prelude::*;

both_scopes! {
    a1_prevent_refuses_unowned => a1;
    a3_prevent_refuses_foreign_controller => a3;
    a5_owner_reference_in_template_is_refused => a5;
    a6_if_no_controller_takes_unowned => a6;
    if_no_controller_refuses_foreign_controller => if_no_controller_refuses_foreign;
    a8_none_takes_unowned => a8;
    none_takes_from_foreign_controller => none_takes_from_foreign;
    objects_of_an_unlisted_revision_are_refused => unlisted;
    the_same_number_is_a_collision => same_number;
    objects_of_the_package_manager_are_always_taken => own_package;
}

fn settings() -> Entry {
    configmap("cm").data("k", "v")
}

/// Waits for the collision about `cm`, and checks that the object was left as it was.
async fn collides(ns: &TestNamespace, before: &Value) {
    let written = match ns.scope() {
        Scope::Namespaced => "",
        Scope::Cluster => ns.name(),
    };
    let message = format!(
        "object {written}/cm kind:ConfigMap: refusing adoption, object /v1, Kind=ConfigMap {}/cm not owned by previous revision",
        ns.name()
    );
    let set = ns
        .reaches("v1", &[Because("Available", "False", "CollisionDetected")])
        .await;
    assert_eq!(set.message("Available"), message);
    assert!(set.controller_of().is_empty());
    assert_eq!(ns.live(&settings()).await, *before);
}

/// Waits until `cm` is controlled, and checks how the revision reports it.
async fn is_taken(ns: &TestNamespace, before: &Value) -> Value {
    let set = ns
        .reaches(
            "v1",
            &[Is("Available", "True"), Controls(&["ConfigMap cm"])],
        )
        .await;
    let entry = json!([{
        "kind": "ConfigMap", "group": "", "name": "cm", "namespace": ns.name(), "version": "",
    }]);
    assert_eq!(set.json["status"]["controllerOf"], entry);
    let live = ns.live(&settings()).await;
    assert_managed_by(&live, &set);
    assert_eq!(uid(&live), uid(before));
    live
}

async fn a1(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let before = ns.create(&settings()).await;
    ns.set("v1")
        .revision(1)
        .phase("a", [settings().collision("Prevent")])
        .create()
        .await;
    collides(&ns, &before).await;
}

async fn a3(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let before = ns.create(&settings().foreign()).await;
    ns.set("v1")
        .revision(1)
        .phase("a", [settings().collision("Prevent")])
        .create()
        .await;
    collides(&ns, &before).await;
}

async fn a5(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let object = settings().foreign().collision("IfNoController");
    ns.set("v1")
        .revision(1)
        .phase("a", [configmap("first"), object])
        .create()
        .await;
    let set = ns
        .reaches("v1", &[Because("Available", "False", "PreflightError")])
        .await;
    let text = "/cm: Object must not have a owner reference.";
    set.assert(&[
        Says("Available", "Phase \"a\", ConfigMap "),
        Says("Available", text),
    ]);
    assert_eq!(ns.get(&settings()).await, None);
    assert_eq!(
        ns.get(&configmap("first")).await,
        None,
        "nothing of the phase may be written"
    );
}

async fn a6(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let before = ns.create(&settings()).await;
    ns.set("v1")
        .revision(1)
        .phase("a", [settings().collision("IfNoController")])
        .create()
        .await;
    is_taken(&ns, &before).await;
}

async fn if_no_controller_refuses_foreign(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let before = ns.create(&settings().foreign()).await;
    ns.set("v1")
        .revision(1)
        .phase("a", [settings().collision("IfNoController")])
        .create()
        .await;
    collides(&ns, &before).await;
}

async fn a8(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let before = ns.create(&settings()).await;
    ns.set("v1")
        .revision(1)
        .phase("a", [settings().collision("None")])
        .create()
        .await;
    is_taken(&ns, &before).await;
}

/// The other reference stays, and does not control any more.
async fn none_takes_from_foreign(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    // Garbage collection would remove an object whose only owner it does not find, so it gets one
    // that exists.
    let owner = ns.create(&configmap("owner")).await;
    let mut reference = foreign_controller();
    reference["apiVersion"] = "v1".into();
    reference["kind"] = "ConfigMap".into();
    reference["name"] = "owner".into();
    reference["uid"] = uid(&owner).into();
    let object = settings().with("/metadata/ownerReferences", json!([reference]));
    let before = ns.create(&object).await;
    ns.set("v1")
        .revision(1)
        .phase("a", [settings().collision("None")])
        .create()
        .await;
    let live = is_taken(&ns, &before).await;
    reference["controller"] = false.into();
    assert!(owners(&live).contains(&reference), "{live}");
}

/// `Prevent` takes over from listed previous revisions only.
async fn unlisted(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    ns.set("v0")
        .revision(1)
        .phase("a", [settings()])
        .create()
        .await;
    ns.reaches("v0", &[Is("Available", "True")]).await;
    let before = ns.live(&settings()).await;
    ns.set("v1")
        .revision(2)
        .phase("a", [settings()])
        .create()
        .await;
    collides(&ns, &before).await;
}

async fn same_number(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    ns.set("v0")
        .revision(1)
        .phase("a", [settings()])
        .create()
        .await;
    ns.reaches("v0", &[Is("Available", "True")]).await;
    ns.set("v1")
        .revision(1)
        .previous(&["v0"])
        .phase("a", [settings()])
        .create()
        .await;
    let set = ns
        .reaches("v1", &[Because("Available", "False", "CollisionDetected")])
        .await;
    let text = format!(
        "refusing adoption, revision collision on /v1, Kind=ConfigMap {}/cm",
        ns.name()
    );
    set.assert(&[Says("Available", &text)]);
    ns.reaches(
        "v0",
        &[Is("Available", "True"), Controls(&["ConfigMap cm"])],
    )
    .await;
}

/// Contract 2.7, row 3.
async fn own_package(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let before = ns.create(&settings()).await;
    let own = settings().label("package-operator.run/package", "package-operator");
    ns.set("v1").revision(1).phase("a", [own]).create().await;
    is_taken(&ns, &before).await;
}

/// A number left behind on an object that no revision controls hides nothing.
#[tokio::test]
async fn improvement_08_stale_revision_annotation_is_a_collision() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let stale = settings().annotation("package-operator.run/revision", "7");
    let before = ns.create(&stale).await;
    ns.set("v1")
        .revision(1)
        .phase("a", [settings()])
        .create()
        .await;
    collides(&ns, &before).await;
}

#[tokio::test]
async fn improvement_08_stale_revision_annotation_does_not_keep_from_adoption() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let stale = settings().annotation("package-operator.run/revision", "7");
    let before = ns.create(&stale).await;
    ns.set("v1")
        .revision(1)
        .phase("a", [settings().collision("IfNoController")])
        .create()
        .await;
    is_taken(&ns, &before).await;
    ns.reaches("v1", &[Is("Succeeded", "True"), No("InTransition")])
        .await;
}

/// An object that appears between the look and the create is not merged into.
#[tokio::test]
async fn improvement_06_create_never_merges_into_a_stranger() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    for round in 0..12 {
        let (name, object) = (format!("v{round}"), configmap(&format!("cm-{round}")));
        let stranger = ns.reference(&object.clone().data("theirs", "1"));
        let set = ns
            .set(&name)
            .revision(1)
            .phase("a", [object.clone().data("ours", "1")]);
        let (_, theirs) = tokio::join!(set.create(), async {
            // Later in each round, to meet different moments of the pass.
            tokio::time::sleep(Duration::from_millis(round)).await;
            ns.cluster().create(&stranger).await
        });
        if theirs.is_err() {
            ns.reaches(&name, &[Is("Available", "True")]).await;
            continue;
        }
        ns.reaches(&name, &[Because("Available", "False", "CollisionDetected")])
            .await;
        let live = ns.live(&object).await;
        assert_eq!(live["data"], json!({ "theirs": "1" }), "round {round}");
        assert!(
            owners(&live).is_empty() && !is_labelled(&live),
            "round {round}: {live}"
        );
        assert_eq!(revision_annotation(&live), "", "round {round}");
        assert!(
            !has_manager(&live, "package-operator"),
            "round {round}: {live}"
        );
    }
}

/// No 30 s of waiting: the revision reacts to what happens to the object in its way.
#[tokio::test]
async fn improvement_39_collision_is_resolved_at_once() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let before = ns.create(&settings()).await;
    ns.set("v1")
        .revision(1)
        .phase("a", [settings()])
        .create()
        .await;
    collides(&ns, &before).await;
    ns.delete(&settings()).await;
    let gone = std::time::Instant::now();
    ns.reaches(
        "v1",
        &[Is("Available", "True"), Controls(&["ConfigMap cm"])],
    )
    .await;
    assert!(
        gone.elapsed() < Duration::from_secs(10),
        "{:?}",
        gone.elapsed()
    );
}
