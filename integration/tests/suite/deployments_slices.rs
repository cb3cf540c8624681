//! Deployments whose revisions store the objects of large phases in slices.

use baton_integration::deployment::{TestDeployment, generation};
use baton_integration::exclusive::Exclusive;
use baton_integration::prelude::*;
use baton_integration::set::SetBuilder;

use crate::requests::{Count, settle};

alternating_scopes! {
    revisions_share_the_slices_of_phases_that_have_not_changed;
    a_lost_slice_of_the_current_revision_is_created_again;
    a_slice_whose_name_is_taken_gets_another_name;
    a_rollback_puts_the_objects_back_into_the_template;
}

/// Number of objects of a phase that is large enough for a slice.
const LARGE: usize = 20;

fn content<'a>(ns: &'a TestNamespace, large: &str, small: &str) -> SetBuilder<'a> {
    let object = |at| configmap(&format!("cm-{at}")).data("k", large);
    ns.content()
        .phase("large", (0..LARGE).map(object))
        .phase("small", [configmap("small").data("k", small)])
}

/// Creates a deployment whose first revision is rolled out, with the content "1" in both phases.
async fn rolled_out(ns: &TestNamespace) -> TestDeployment<'_> {
    let web = ns.deployment("web").content(content(ns, "1", "1"));
    let web = web.create().await;
    web.concluded_as(1).await;
    web
}

/// Returns the slices that a deployment has created.
async fn slices(ns: &TestNamespace, web: &TestDeployment<'_>) -> Vec<Value> {
    let label = format!("package-operator.run/object-deployment={}", web.name());
    ns.cluster().list(&ns.slice_ref("any"), &label).await
}

/// Returns the name of the slice with a revision's large phase.
fn slice_of(set: &Revision) -> String {
    let phases = &set.json["spec"]["phases"];
    assert_eq!(phases[0]["objects"], Value::Null, "{phases}");
    assert_eq!(phases[0]["slices"].as_array().unwrap().len(), 1, "{phases}");
    assert_eq!(phases[1]["slices"], Value::Null, "{phases}");
    assert_eq!(
        phases[1]["objects"].as_array().unwrap().len(),
        1,
        "{phases}"
    );
    phases[0]["slices"][0].as_str().unwrap().to_owned()
}

fn slice_ref(ns: &TestNamespace, name: &str) -> Value {
    let mut slice = ns.slice_ref("any");
    slice["metadata"]["name"] = name.into();
    slice
}

fn owners(slice: &Value) -> Vec<&str> {
    let mut names = owner_names(slice);
    names.sort_unstable();
    names
}

async fn revisions_share_the_slices_of_phases_that_have_not_changed(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let web = ns
        .deployment("web")
        .spec("revisionHistoryLimit", 1)
        .content(content(&ns, "1", "1"))
        .create()
        .await;
    web.concluded_as(1).await;
    let first = web.set(1).await;
    let name = slice_of(&first);
    let slice = slice_ref(&ns, &name);
    // The deployment has left the slice to the revision.
    assert_eq!(
        owners(&ns.cluster().get(&slice).await.unwrap()),
        [first.name()]
    );

    web.edit(content(&ns, "1", "2")).await;
    web.concluded_as(2).await;
    // Garbage collection retries with a growing delay if an owner is deleted before it has
    // discovered the owner's kind.
    ns.until_garbage_is_collected().await;
    let second = web.set(2).await;
    assert_eq!(slice_of(&second), name);
    let shared = ns.cluster().get(&slice).await.unwrap();
    let mut both = [first.name(), second.name()];
    both.sort_unstable();
    assert_eq!(owners(&shared), both);
    assert_eq!(generation(&shared), 1, "its content is never written again");

    web.edit(content(&ns, "2", "2")).await;
    web.concluded_as(3).await;
    let third = web.set(3).await;
    assert_ne!(slice_of(&third), name);
    web.has_sets(&[2, 3]).await;
    // Garbage collection removes the reference of the deleted revision asynchronously.
    ns.eventually("history alone to have it", async || {
        let left = ns.cluster().get(&slice).await.unwrap();
        owners(&left) == [second.name()]
    })
    .await;
    assert_eq!(ns.live(&configmap("cm-0")).await["data"]["k"], "2");

    web.delete("Background").await;
    web.gone().await;
    ns.gone(&configmap("cm-0")).await;
    ns.eventually("slices to go with their revisions", async || {
        slices(&ns, &web).await.is_empty()
    })
    .await;
}

async fn a_lost_slice_of_the_current_revision_is_created_again(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let web = rolled_out(&ns).await;
    let set = web.set(1).await;
    let slice = slice_ref(&ns, &slice_of(&set));
    let before = ns.live(&configmap("cm-0")).await;
    ns.cluster().delete(&slice, "Background").await;
    ns.eventually("the slice to be made again", async || {
        let slice = ns.cluster().get(&slice).await;
        slice.is_some_and(|slice| owners(&slice) == [set.name()])
    })
    .await;
    let set = web
        .set_reaches(1, &[Because("Available", "True", "Available")])
        .await;
    assert_eq!(set.controller_of().len(), LARGE + 1);
    let after = ns.live(&configmap("cm-0")).await;
    assert_eq!(
        before["metadata"]["resourceVersion"],
        after["metadata"]["resourceVersion"]
    );
    web.has_sets(&[1]).await;
}

/// A user who creates a slice under the name that a deployment would use cannot change the rolled
/// out content.
async fn a_slice_whose_name_is_taken_gets_another_name(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let web = rolled_out(&ns).await;
    let set = web.set(1).await;
    let mut taken = ns
        .cluster()
        .get(&slice_ref(&ns, &slice_of(&set)))
        .await
        .unwrap();
    web.delete("Background").await;
    web.gone().await;
    ns.eventually("the slice to go", async || {
        slices(&ns, &web).await.is_empty()
    })
    .await;
    let name = taken["metadata"]["name"].take();
    let labels = taken["metadata"]["labels"].take();
    taken["metadata"] = json!({ "name": name, "labels": labels });
    if scope == Scope::Namespaced {
        taken["metadata"]["namespace"] = ns.name().into();
    }
    taken["objects"][0]["object"]["data"]["k"] = "theirs".into();
    ns.cluster().create(&taken).await.unwrap();

    let web = rolled_out(&ns).await;
    assert_ne!(slice_of(&web.set(1).await), name.as_str().unwrap());
    assert_eq!(ns.live(&configmap("cm-0")).await["data"]["k"], "1");
    ns.cluster().delete(&taken, "Background").await;
}

async fn a_rollback_puts_the_objects_back_into_the_template(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let web = rolled_out(&ns).await;
    let first = web.read().await;
    web.edit(content(&ns, "2", "1")).await;
    web.concluded_as(2).await;
    let kind = match scope {
        Scope::Namespaced => "od",
        Scope::Cluster => "cod",
    };
    let target = format!("{kind}/{}", web.name());
    let history = ns.plugin(&["history", &target]).success();
    assert!(history.contains("*   2"), "{history}");
    let already = ns
        .plugin(&["rollback", &target, "--to-revision", "2"])
        .done();
    assert!(already.stdout.contains("not rolled back"), "{already:?}");
    ns.plugin(&["rollback", &target, "--to-revision", "1"])
        .done();
    let third = web.concluded_as(3).await;
    let phases = "/spec/template/spec/phases";
    assert_eq!(third.json.pointer(phases), first.json.pointer(phases));
    let (first, third) = (web.set(1).await, web.set(3).await);
    assert_eq!(slice_of(&third), slice_of(&first));
    assert_eq!(ns.live(&configmap("cm-0")).await["data"]["k"], "1");
}

/// A revision whose large phase has not changed creates no slice, and slices are not read one by
/// one.
#[tokio::test]
async fn slices_cost_few_requests() {
    let mut bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    let web = rolled_out(&ns).await;
    settle(&ns, &bed).await;

    let count = Count::start(&bed);
    web.edit(content(&ns, "1", "2")).await;
    web.concluded_as(2).await;
    web.set_reaches(1, &[Is("Archived", "True")]).await;
    settle(&ns, &bed).await;
    let counts = count.so_far(&bed);
    let of = |verb: &str| counts.get(verb).copied().unwrap_or_default();
    assert_eq!(of("create"), 1, "the revision: {counts:?}");
    assert_eq!(of("get"), 0, "{counts:?}");
    // One patch per object, because the former owner releases it; three for pause, archival and the
    // finalizer; and one for the new owner of the slice.
    let patches = LARGE as u64 + 1 + 3 + 1;
    assert!((patches..=patches + 2).contains(&of("patch")), "{counts:?}");

    let count = Count::start(&bed);
    web.edit(content(&ns, "2", "2")).await;
    web.concluded_as(3).await;
    web.set_reaches(2, &[Is("Archived", "True")]).await;
    settle(&ns, &bed).await;
    let counts = count.so_far(&bed);
    let of = |verb: &str| counts.get(verb).copied().unwrap_or_default();
    assert_eq!(of("create"), 2, "the revision and a slice: {counts:?}");
    assert_eq!(of("get"), 0, "{counts:?}");

    assert!(bed.take_manager().terminate().success());
    bed.start_manager();
    settle(&ns, &bed).await;
    let metrics = bed.manager().metrics();
    assert_eq!((metrics.writes(), metrics.requests("get")), (0, 0));
}
