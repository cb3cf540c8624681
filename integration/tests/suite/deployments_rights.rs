//! Deployments with the rights that the manager ships with, and with fewer rights.

use baton_integration::exclusive::Exclusive;
use baton_integration::prelude::*;

use crate::rights::{ACCOUNT, NAMESPACE, apply_shipped_rights};

/// Covers everything that a deployment requires, and then a manager without the right to create
/// revisions.
#[tokio::test]
async fn the_shipped_rights_are_enough_and_a_missing_one_is_reported() {
    let mut bed = Exclusive::acquire().await;
    apply_shipped_rights(bed.cluster()).await;
    bed.take_manager().kill();
    bed.start_manager_as(NAMESPACE, ACCOUNT).await;
    let namespaces = [
        bed.namespace(Scope::Namespaced).await,
        bed.namespace(Scope::Cluster).await,
    ];
    let content = |ns: &TestNamespace, version: &str| {
        let set = ns.set("content");
        set.phase("a", [configmap("cm").data("k", version)])
            .manifest()
    };
    let edit = async |web: &TestDeployment<'_>, ns: &TestNamespace, version: &str| {
        let spec = json!({ "phases": content(ns, version)["spec"]["phases"] });
        web.patch(&json!({ "spec": { "template": { "spec": spec } } }))
            .await;
    };
    for ns in &namespaces {
        let web = ns
            .deployment("web")
            .spec("revisionHistoryLimit", 0)
            .content(ns.content().phase("a", [configmap("cm").data("k", "1")]))
            .create()
            .await;
        web.concluded().await;
        // A revision is created, paused, archived and deleted; paused and resumed; orphaned and
        // adopted.
        edit(&web, ns, "2").await;
        web.concluded().await;
        let sets = web.has_sets(&[2]).await;
        web.pause().await;
        web.set_reaches(2, &[Is("Paused", "True")]).await;
        web.resume().await;
        web.set_reaches(2, &[No("Paused")]).await;
        // Garbage collection would delete a revision that it has not observed as a dependent yet.
        ns.until_owners_are_observed().await;
        web.delete("Orphan").await;
        web.gone().await;
        ns.deployment("web")
            .spec("revisionHistoryLimit", 0)
            .content(ns.content().phase("a", [configmap("cm").data("k", "2")]))
            .create()
            .await;
        web.concluded().await;
        assert_eq!(web.has_sets(&[2]).await[0].uid(), sets[0].uid());
        let namespace = match ns.scope() {
            Scope::Namespaced => ns.name(),
            Scope::Cluster => "default",
        };
        let events = object("v1", "Event", "").within(namespace).manifest;
        ns.eventually("an event about the new revision", async || {
            let events = ns.cluster().list(&events, "").await;
            let is_reported = |event: &Value| {
                event["reason"] == "NewRevision" && event["involvedObject"]["name"] == *web.name()
            };
            events.iter().any(is_reported)
        })
        .await;
    }

    forbid_creation(bed.cluster()).await;
    for ns in &namespaces {
        let web = ns.existing("web");
        let version = std::cell::Cell::new(2);
        // Changed rights take effect with a delay; until then a revision is still created.
        ns.eventually("a refusal", async || {
            version.set(version.get() + 1);
            edit(&web, ns, &version.get().to_string()).await;
            let reported = web.observed().await;
            reported.has(&[Because("Progressing", "False", "ObjectSetCreateError")])
        })
        .await;
        web.reaches(&[
            Because("Progressing", "False", "ObjectSetCreateError"),
            Says("Progressing", "forbidden"),
            Says(
                "Progressing",
                &format!("{}s", web.revision_kind().to_lowercase()),
            ),
            Is("Available", "True"),
        ])
        .await;
    }
    apply_shipped_rights(bed.cluster()).await;
    for ns in &namespaces {
        let web = ns.existing("web");
        ns.eventually("the right to make revisions", async || {
            web.annotate("asked", &jiff::Timestamp::now().to_string())
                .await;
            web.read().await.has(&[
                Is("Progressing", "False"),
                Because("Progressing", "False", "Idle"),
            ])
        })
        .await;
        web.concluded().await;
    }
}

/// Removes the manager's right to create objects, except for config maps.
async fn forbid_creation(cluster: &Cluster) {
    let group = "rbac.authorization.k8s.io/v1";
    let children = object(group, "ClusterRole", "baton-children").manifest;
    let rules = json!({ "rules": [{
        "apiGroups": [""], "resources": ["configmaps"],
        "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
    }] });
    cluster.merge(&children, &rules).await.unwrap();
    let own = object(group, "ClusterRole", "baton-manager").manifest;
    let mut rules = cluster.get(&own).await.unwrap()["rules"].take();
    for rule in rules.as_array_mut().unwrap() {
        let verbs = rule["verbs"].as_array_mut().unwrap();
        verbs.retain(|verb| verb != "create");
    }
    cluster
        .merge(&own, &json!({ "rules": rules }))
        .await
        .unwrap();
}
