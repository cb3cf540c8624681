//! Objects of a delegated phase that are written to another cluster after the phase has ended.

use baton_integration::prelude::*;
use baton_integration::sites::{PUSH, Site};

use crate::agent::{OWNERS, Pulled};

alternating_scopes! {
    objects_created_late_in_a_push_cluster_are_deleted;
    objects_created_late_in_a_pull_cluster_are_deleted;
}

async fn objects_created_late_in_a_push_cluster_are_deleted(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let site = Site::get(PUSH).await;
    let joined = site.join(&ns).create().await;
    late_objects_go(&ns, &site, &joined.class()).await;
}

async fn objects_created_late_in_a_pull_cluster_are_deleted(scope: Scope) {
    let pulled = Pulled::new(scope).await;
    late_objects_go(&pulled.ns, pulled.joined.site(), &pulled.class()).await;
}

/// Returns an object with a phase as owner, and with another controller if one is given.
fn late_object(name: &str, phase: &Revision, controller: Option<&str>) -> Entry {
    let mut owners = vec![json!({
        "apiVersion": "package-operator.run/v1alpha1", "kind": phase.json["kind"], "name": phase.name(),
        "namespace": phase.json["metadata"]["namespace"].as_str().unwrap_or_default(), "uid": phase.uid(),
        "controller": controller.is_none(),
    })];
    owners.extend(controller.map(|uid| {
        json!({
            "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSetPhase", "name": "other",
            "namespace": "other", "uid": uid, "controller": true,
        })
    }));
    configmap(name)
        .label("package-operator.run/cache", "True")
        .annotation(OWNERS, &Value::from(owners).to_string())
}

/// Objects of the ended phase are deleted. Objects that a phase has orphaned stay, and so do
/// objects with another controller.
async fn late_objects_go(ns: &TestNamespace, site: &Site, class: &str) {
    let there = site.cluster().await;
    let create = async |entry: &Entry| {
        let entry = entry.clone().within(ns.name());
        there.create(&entry.manifest).await.unwrap()
    };
    let deliver = async |set: &str, object: &str| {
        let set = ns.set(set).delegated("a", class, [configmap(object)]);
        set.reaching(&[Is("Succeeded", "True")]).await
    };
    // Another phase has the same kind, so the kind is watched all the time.
    deliver("other", "other").await;
    deliver("left", "left").await;
    deliver("ended", "cm").await;
    let phase = ns.phase_object("ended", "a").await.unwrap();

    ns.until_garbage_is_collected().await;
    ns.delete_set("left", "Orphan").await;
    ns.eventually("the phase object to be an orphan", async || {
        let phase = ns.phase_object("left", "a").await.unwrap();
        owners(&phase.json).is_empty()
    })
    .await;
    assert!(
        ns.cluster()
            .delete(&ns.phase_ref("left", "a"), "Orphan")
            .await
    );
    ns.eventually("the phase object to be gone", async || {
        ns.phase_object("left", "a").await.is_none()
    })
    .await;
    ns.set_lifecycle("ended", "Archived").await;
    ns.reaches("ended", &[Is("Archived", "True")]).await;

    let shared = late_object("shared", &phase, Some("of-another-hub"));
    let stray = late_object("cm", &phase, None);
    create(&shared).await;
    create(&stray).await;
    let gone = async |entry: &Entry| {
        let text = format!("{} to be gone", entry.name());
        ns.eventually(&text, async || site.read(ns, entry).await.is_none())
            .await;
    };
    gone(&stray).await;
    ns.eventually("the other controller to be the only owner", async || {
        let live = site.live(ns, &shared).await;
        let owners = annotation(&live, OWNERS);
        owners.contains("of-another-hub") && !owners.contains(phase.uid())
    })
    .await;

    let left = ns.reference(&configmap("left"));
    let touched = json!({ "metadata": { "labels": { "touched": "true" } } });
    there.merge(&left, &touched).await.unwrap();
    // Late objects are deleted after the deletion of the revision as well.
    ns.delete_set("ended", "Background").await;
    create(&stray).await;
    gone(&stray).await;
    for kept in ["left", "other", "shared"] {
        let live = site.live(ns, &configmap(kept)).await;
        assert_eq!(live["metadata"]["deletionTimestamp"], Value::Null, "{live}");
    }
}
