//! Objects that exist before the revision.

use baton_integration::manifest::foreign_controller;
use baton_integration::prelude::*;

alternating_scopes! {
    prevent_refuses_an_object_without_a_controller;
    prevent_refuses_an_object_of_a_foreign_controller;
    an_owner_reference_in_a_template_is_refused;
    if_no_controller_adopts_an_object_without_a_controller;
    if_no_controller_refuses_an_object_of_a_foreign_controller;
    none_adopts_an_object_without_a_controller;
    none_takes_an_object_from_a_foreign_controller;
    prevent_refuses_objects_of_an_unlisted_revision;
    two_revisions_of_one_number_collide;
    objects_of_the_package_manager_are_always_adopted;
}

fn settings() -> Entry {
    configmap("cm").data("k", "v")
}

/// Waits for the collision about `cm`, and checks that the object is unchanged. The message ends with
/// the revision that controls the object, if there is one.
async fn collides(ns: &TestNamespace, before: &Value, controller: &str) {
    let written = match ns.scope() {
        Scope::Namespaced => "",
        Scope::Cluster => ns.name(),
    };
    let message = format!(
        "object {written}/cm kind:ConfigMap: refusing adoption, \
         object /v1, Kind=ConfigMap {}/cm not owned by previous revision{controller}",
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

/// Creates an object, and then a revision of it.
async fn revision_of(scope: Scope, there: &Entry, entry: Entry) -> (TestNamespace, Value) {
    let ns = TestNamespace::new(scope).await;
    let before = ns.create(there).await;
    ns.revision(1).phase("a", [entry]).create().await;
    (ns, before)
}

async fn refused(scope: Scope, there: &Entry, entry: Entry) -> TestNamespace {
    let (ns, before) = revision_of(scope, there, entry).await;
    collides(&ns, &before, "").await;
    ns
}

async fn adopted(scope: Scope, there: &Entry, entry: Entry) -> TestNamespace {
    let (ns, before) = revision_of(scope, there, entry).await;
    is_taken(&ns, &before).await;
    ns
}

async fn prevent_refuses_an_object_without_a_controller(scope: Scope) {
    refused(scope, &settings(), settings().collision("Prevent")).await;
}

async fn prevent_refuses_an_object_of_a_foreign_controller(scope: Scope) {
    refused(
        scope,
        &settings().foreign(),
        settings().collision("Prevent"),
    )
    .await;
}

async fn an_owner_reference_in_a_template_is_refused(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let object = settings().foreign().collision("IfNoController");
    let set = ns
        .revision(1)
        .phase("a", [configmap("first"), object])
        .reaching(&[Because("Available", "False", "PreflightError")])
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

async fn if_no_controller_adopts_an_object_without_a_controller(scope: Scope) {
    adopted(scope, &settings(), settings().collision("IfNoController")).await;
}

async fn if_no_controller_refuses_an_object_of_a_foreign_controller(scope: Scope) {
    refused(
        scope,
        &settings().foreign(),
        settings().collision("IfNoController"),
    )
    .await;
}

async fn none_adopts_an_object_without_a_controller(scope: Scope) {
    adopted(scope, &settings(), settings().collision("None")).await;
}

/// The reference of the foreign controller stays, as a plain owner.
async fn none_takes_an_object_from_a_foreign_controller(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    // Garbage collection would remove an object whose only owner does not exist, so the owner is
    // created.
    let owner = ns.create(&configmap("owner")).await;
    let mut reference = foreign_controller();
    reference["apiVersion"] = "v1".into();
    reference["kind"] = "ConfigMap".into();
    reference["name"] = "owner".into();
    reference["uid"] = uid(&owner).into();
    let object = settings().with("/metadata/ownerReferences", json!([reference]));
    let before = ns.create(&object).await;
    ns.revision(1)
        .phase("a", [settings().collision("None")])
        .create()
        .await;
    let live = is_taken(&ns, &before).await;
    reference["controller"] = false.into();
    assert!(owners(&live).contains(&reference), "{live}");
}

/// `Prevent` takes over from revisions in `previous` only.
async fn prevent_refuses_objects_of_an_unlisted_revision(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    ns.set("v0")
        .revision(1)
        .phase("a", [settings()])
        .available()
        .await;
    let before = ns.live(&settings()).await;
    ns.set("v1")
        .revision(2)
        .phase("a", [settings()])
        .create()
        .await;
    let owner = ns.set_ref("v0");
    let [kind, name] = [&owner["kind"], &owner["metadata"]["name"]].map(|it| it.as_str().unwrap());
    collides(&ns, &before, &format!(", controlled by {kind} {name}")).await;
}

async fn two_revisions_of_one_number_collide(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    ns.set("v0")
        .revision(1)
        .phase("a", [settings()])
        .available()
        .await;
    let set = ns
        .revision(1)
        .previous(&["v0"])
        .phase("a", [settings()])
        .reaching(&[Because("Available", "False", "CollisionDetected")])
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

/// The package manager's own objects are adopted under every collision protection.
async fn objects_of_the_package_manager_are_always_adopted(scope: Scope) {
    let own = settings().label("package-operator.run/package", "package-operator");
    adopted(scope, &settings(), own).await;
}

/// A revision number on an object that no revision controls does not hide the collision.
#[tokio::test]
async fn a_stale_revision_annotation_does_not_hide_a_collision() {
    let stale = settings().annotation("package-operator.run/revision", "7");
    refused(Scope::Namespaced, &stale, settings()).await;
}

#[tokio::test]
async fn a_stale_revision_annotation_does_not_prevent_adoption() {
    let stale = settings().annotation("package-operator.run/revision", "7");
    let ns = adopted(
        Scope::Namespaced,
        &stale,
        settings().collision("IfNoController"),
    )
    .await;
    ns.reaches("v1", &[Is("Succeeded", "True"), No("InTransition")])
        .await;
}

/// A revision never merges into an object that appears between its read and its create.
#[tokio::test]
async fn a_create_never_merges_into_an_existing_object() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    for round in 0..12 {
        let (name, object) = (format!("v{round}"), configmap(&format!("cm-{round}")));
        let stranger = ns.reference(&object.clone().data("theirs", "1"));
        let set = ns
            .set(&name)
            .revision(1)
            .phase("a", [object.clone().data("ours", "1")]);
        let (_, theirs) = tokio::join!(set.create(), async {
            // Each round has a longer delay, to cover different moments of the pass.
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

/// The create of an object relies on this: no object has the resource version 1.
#[tokio::test]
async fn an_apply_with_resource_version_1_creates_but_never_changes() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let apply = async |value: &str| {
        let mut object = ns.reference(&configmap("cm").data("k", value));
        object["metadata"]["resourceVersion"] = "1".into();
        ns.cluster().apply(&object, "package-operator").await
    };
    let created = apply("v").await.unwrap();
    assert_eq!(created["data"], json!({"k": "v"}));
    for value in ["v", "w"] {
        assert_eq!(apply(value).await.unwrap_err().code, 409, "{value}");
    }
    assert_eq!(ns.live(&configmap("cm")).await["data"], created["data"]);
}

/// The revision is triggered by the deletion of the colliding object, and does not wait for 30 s.
#[tokio::test]
async fn a_collision_is_resolved_once_the_object_is_deleted() {
    let ns = refused(Scope::Namespaced, &settings(), settings()).await;
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
