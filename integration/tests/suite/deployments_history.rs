//! The history of revisions, and rollbacks.

use baton_integration::prelude::*;

use crate::deployments::{workload, workload_probe};

alternating_scopes! {
    a_history_limit_of_zero_keeps_no_archived_revision;
    a_rollback_to_an_archived_template_is_a_new_revision;
    a_restart_is_a_revision_of_the_same_content;
}

const CREATED: &str = "package_operator_object_set_created_timestamp_seconds";
const SUCCEEDED: &str = "package_operator_object_set_succeeded_timestamp_seconds";

/// The predecessor and its metrics are removed once its successor has settled.
async fn a_history_limit_of_zero_keeps_no_archived_revision(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let (shared, own) = (configmap("shared"), configmap("own"));
    let first = ns
        .content()
        .phase("a", [shared.clone().data("k", "1"), own.clone()]);
    let web = ns
        .deployment("web")
        .spec("revisionHistoryLimit", 0)
        .content(first)
        .create()
        .await;
    web.concluded().await;
    let first = web.set(1).await;
    let before = ns.live(&shared).await;
    let namespace = match scope {
        Scope::Namespaced => ns.name(),
        Scope::Cluster => "",
    };
    let series = |set: &Revision| {
        let labels = [("pko_name", set.name()), ("pko_namespace", namespace)];
        let metrics = ns.metrics();
        [CREATED, SUCCEEDED].map(|name| metrics.sum(name, &labels).is_some())
    };
    assert_eq!(series(&first), [true, true]);

    web.edit(ns.content().phase("a", [shared.clone().data("k", "2")]))
        .await;
    web.concluded().await;
    let sets = web.has_sets(&[2]).await;
    let entry = format!(
        "{}.package-operator.run {}",
        web.revision_kind(),
        sets[0].name()
    );
    web.reaches(&[Controls(&[&entry])]).await;
    assert_eq!(previous(&sets[0]), [first.name()]);
    let live = ns.live(&shared).await;
    assert_eq!(uid(&live), uid(&before));
    assert_eq!(owner_names(&live), [sets[0].name()]);
    assert_eq!(ns.get(&own).await, None);
    assert_eq!(series(&sets[0]), [true, true]);
    ns.eventually("the end of the series", async || {
        series(&first) == [false, false]
    })
    .await;
}

/// A changed limit applies in the next pass, and only to archived revisions.
#[tokio::test]
async fn a_lowered_history_limit_applies_at_once() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let cm = configmap("cm");
    let content = |version: i64| {
        ns.content()
            .phase("a", [cm.clone().data("k", &version.to_string())])
    };
    let web = ns
        .deployment("web")
        .spec("revisionHistoryLimit", 1)
        .content(content(1))
        .create()
        .await;
    web.concluded().await;
    let limit = async |limit: i64| {
        web.patch(&json!({ "spec": { "revisionHistoryLimit": limit } }))
            .await;
    };
    // With a limit of one, a predecessor is removed one rollout later.
    for version in 2..=3 {
        web.edit(content(version)).await;
        web.concluded().await;
        web.has_sets(&[version - 1, version]).await;
    }
    limit(10).await;
    for version in 4..=6 {
        web.edit(content(version)).await;
        web.concluded().await;
    }
    web.set_reaches(5, &[Is("Archived", "True")]).await;
    web.has_sets(&[2, 3, 4, 5, 6]).await;
    limit(3).await;
    web.has_sets(&[3, 4, 5, 6]).await;
    // A revision whose finalizers a user has removed is deleted like the others.
    let third = web.set(3).await;
    let robbed = json!({ "metadata": { "finalizers": null } });
    ns.patch_set(third.name(), &robbed).await.unwrap();
    limit(2).await;
    let sets = web.has_sets(&[4, 5, 6]).await;
    let entries: Vec<_> = sets
        .iter()
        .map(|set| format!("ObjectSet.package-operator.run {}", set.name()))
        .collect();
    let entries: Vec<_> = entries.iter().map(String::as_str).collect();
    web.reaches(&[Controls(&entries), Because("Progressing", "False", "Idle")])
        .await;

    // A revision that is not archived yet does not count as history, however long its archival
    // takes.
    let held = configmap("held").blocked();
    web.edit(ns.content().phase("a", [cm.clone(), held.clone()]))
        .await;
    web.concluded().await;
    limit(0).await;
    web.has_sets(&[7]).await;
    web.edit(content(8)).await;
    web.concluded().await;
    web.set_reaches(7, &[Because("Archived", "False", "ArchivalInProgress")])
        .await;
    web.annotate("another", "pass").await;
    ns.stays(
        Duration::from_secs(1),
        "the revision is still there",
        async || web.set(7).await.json["metadata"]["deletionTimestamp"].is_null(),
    )
    .await;
    ns.unblock(&held).await;
    web.has_sets(&[8]).await;
    let errors = ns.log().about("reconcile failed", 100);
    assert!(!errors.contains(ns.name()), "{errors}");
}

async fn a_rollback_to_an_archived_template_is_a_new_revision(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let (shared, first, second) = (configmap("shared"), configmap("first"), configmap("second"));
    let one = || {
        ns.content()
            .phase("a", [shared.clone().data("k", "1"), first.clone()])
    };
    let two = || {
        ns.content()
            .phase("a", [shared.clone().data("k", "2"), second.clone()])
    };
    let web = ns.deployment("web").content(one()).create().await;
    web.concluded().await;
    let before = ns.live(&shared).await;
    web.edit(two()).await;
    web.concluded().await;
    let tombstone = web.set_reaches(1, &[Is("Archived", "True")]).await;
    let mut names = vec![
        web.set(1).await.name().to_owned(),
        web.set(2).await.name().to_owned(),
    ];

    // Each rollback is the next revision under a new name. The collision count is part of the name,
    // so it increases only if the name exists already.
    for (content, number, collisions) in [(one(), 3, 1), (two(), 4, 1), (one(), 5, 2)] {
        web.edit(content).await;
        let reported = web.concluded().await;
        assert_eq!(reported.json["status"]["revision"], number);
        assert_eq!(reported.json["status"]["collisionCount"], collisions);
        web.set_reaches(number - 1, &[Is("Archived", "True")]).await;
        let set = web.set_reaches(number, &[Is("Succeeded", "True")]).await;
        let hash = reported.json["status"]["templateHash"].as_str().unwrap();
        assert_eq!(set.name(), format!("{}-{hash}", web.name()));
        assert_eq!(annotation(&set.json, "package-operator.run/hash"), hash);
        assert_eq!(previous(&set), names);
        assert!(!names.iter().any(|name| name == set.name()));
        names.push(set.name().to_owned());
        let live = ns.live(&shared).await;
        assert_eq!(uid(&live), uid(&before));
        assert_eq!(live["data"]["k"], if number % 2 == 1 { "1" } else { "2" });
        assert_managed_by(&live, &set);
    }
    ns.live(&first).await;
    assert_eq!(ns.get(&second).await, None);
    assert_eq!(web.set(1).await, tombstone, "nothing is used again");

    // The count never decreases.
    web.edit(ns.content().phase("a", [shared.clone()])).await;
    assert_eq!(web.concluded().await.json["status"]["collisionCount"], 2);
    web.set_reaches(5, &[Is("Archived", "True")]).await;
    web.has_sets(&[1, 2, 3, 4, 5, 6]).await;
}

/// Returns an object without the fields that depend on its owner. A `Deployment` counts annotations
/// as part of its specification, so its generation is left out as well.
fn content_of(live: &Value) -> Value {
    let mut live = live.clone();
    live["status"]["observedGeneration"].take();
    let metadata = live["metadata"].as_object_mut().unwrap();
    for field in [
        "ownerReferences",
        "managedFields",
        "resourceVersion",
        "generation",
    ] {
        metadata.remove(field);
    }
    metadata["annotations"]
        .as_object_mut()
        .unwrap()
        .remove("package-operator.run/revision");
    live
}

async fn a_restart_is_a_revision_of_the_same_content(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let (cm, app) = (configmap("cm").data("k", "v"), workload("app", "app:1"));
    let content = ns
        .content()
        .phase("a", [cm.clone()])
        .phase("b", [app.clone()])
        .probe(workload_probe());
    let web = ns.deployment("web").content(content).create().await;
    web.concluded().await;
    let pods = ns.reference(&object("v1", "Pod", ""));
    let names = async || -> Vec<Value> {
        let pods = ns.cluster().list(&pods, "").await;
        pods.iter()
            .map(|pod| pod["metadata"]["name"].clone())
            .collect()
    };
    let before = (ns.live(&cm).await, ns.live(&app).await, names().await);
    for (number, time) in [(2, "2026-01-02T03:04:05Z"), (3, "2026-01-02T03:04:06Z")] {
        let annotations = json!({ "baton.run/restartedAt": time });
        let patch =
            json!({ "spec": { "template": { "metadata": { "annotations": annotations } } } });
        web.patch(&patch).await;
        let reported = web.concluded().await;
        assert_eq!(reported.json["status"]["revision"], number);
        assert_eq!(reported.json["status"]["collisionCount"], Value::Null);
        let old = web.set_reaches(number - 1, &[Is("Archived", "True")]).await;
        let own = ["ConfigMap cm", "Deployment.apps app"];
        let new = web
            .set_reaches(
                number,
                &[Is("Succeeded", "True"), No("InTransition"), Controls(&own)],
            )
            .await;
        for field in ["phases", "availabilityProbes"] {
            assert_eq!(new.json["spec"][field], old.json["spec"][field]);
        }
        let after = [ns.live(&cm).await, ns.live(&app).await];
        for (before, after) in [&before.0, &before.1].into_iter().zip(&after) {
            assert_eq!(content_of(before), content_of(after));
            assert_managed_by(after, &new);
        }
    }
    assert_eq!(names().await, before.2, "no pod was replaced");
}

/// Revisions have the annotations of the deployment, except for those that only record how it was
/// applied. A changed reason is updated on the current revision.
#[tokio::test]
async fn revisions_carry_annotations_and_the_change_cause() {
    const CAUSE: &str = "kubernetes.io/change-cause";
    const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let cm = configmap("cm");
    let content = |version: &str| ns.content().phase("a", [cm.clone().data("k", version)]);
    let web = ns
        .deployment("web")
        .annotation(CAUSE, "first")
        .annotation(LAST_APPLIED, "{\"long\": true}")
        .annotation("example.com/team", "shop")
        .content(content("1"))
        .create()
        .await;
    web.concluded().await;
    let first = web.set(1).await;
    assert_eq!(annotation(&first.json, CAUSE), "first");
    assert_eq!(annotation(&first.json, "example.com/team"), "shop");
    assert_eq!(annotation(&first.json, LAST_APPLIED), "");
    let before = ns.live(&cm).await;
    let of_first = async || annotation(&web.set(1).await.json, CAUSE).to_owned();

    // A changed reason creates no revision, and changes nothing in the objects.
    web.annotate(CAUSE, "better words").await;
    ns.eventually("the new words", async || of_first().await == "better words")
        .await;
    let again = web.set(1).await;
    assert_eq!(
        again.json["metadata"]["generation"],
        first.json["metadata"]["generation"]
    );
    assert_eq!(again.json["spec"], first.json["spec"]);
    // Other annotations keep the value from the creation of the revision.
    web.annotate("example.com/team", "warehouse").await;

    // The reason is set together with the change, or afterwards as by kubectl.
    let mut patch = json!({ "metadata": { "annotations": { CAUSE: "second" } } });
    patch["spec"] = json!({ "template": { "spec": content("2").manifest()["spec"] } });
    web.patch(&patch).await;
    web.concluded().await;
    let second = web.set_reaches(2, &[Is("Succeeded", "True")]).await;
    assert_eq!(annotation(&second.json, CAUSE), "second");
    assert_eq!(annotation(&second.json, "example.com/team"), "warehouse");
    assert_eq!(annotation(&second.json, LAST_APPLIED), "");
    web.edit(content("3")).await;
    web.annotate(CAUSE, "third").await;
    web.concluded().await;
    ns.eventually("the new words", async || {
        annotation(&web.set(3).await.json, CAUSE) == "third"
    })
    .await;
    web.set_reaches(2, &[Is("Archived", "True")]).await;
    assert_eq!(
        annotation(&web.set(1).await.json, "example.com/team"),
        "shop"
    );
    assert_eq!(of_first().await, "better words");
    assert_eq!(uid(&ns.live(&cm).await), uid(&before));
    web.has_sets(&[1, 2, 3]).await;
}
