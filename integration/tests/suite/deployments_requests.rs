//! The number of a deployment's requests, and leader election.

use std::collections::BTreeMap;

use baton_integration::exclusive::Exclusive;
use baton_integration::manager::Manager;
use baton_integration::prelude::*;

use crate::requests::{Count, settle};

/// Number of objects of a revision, all of which an edit changes.
const OBJECTS: u64 = 4;

/// Number of status writes of the deployment per edit: a new revision exists, it is complete, and
/// history has lost a revision.
const STATUSES: usize = 3;

/// Edits a settled deployment in place, with a full history.
#[tokio::test]
async fn an_edit_costs_few_requests_and_an_idle_deployment_none() {
    let mut bed = Exclusive::acquire().await;
    let namespaces = [
        bed.namespace(Scope::Namespaced).await,
        bed.namespace(Scope::Cluster).await,
    ];
    for ns in &namespaces {
        let content = |version: u64| {
            let object = |at| configmap(&format!("cm-{at}")).data("k", &version.to_string());
            ns.content()
                .phase("a", (0..OBJECTS).map(object))
                .probe(fields_equal("", "ConfigMap", ".data.k", ".data.k"))
        };
        let web = ns
            .deployment("web")
            .spec("revisionHistoryLimit", 1)
            .content(content(1))
            .create()
            .await;
        web.concluded().await;
        web.edit(content(2)).await;
        web.concluded().await;
        web.set_reaches(1, &[Is("Archived", "True")]).await;
        settle(ns, &bed).await;

        let cluster = ns.cluster();
        let deployments = Recording::start(cluster, &web.reference(), "").await;
        let label = format!("package-operator.run/object-deployment={}", web.name());
        let sets = Recording::start(cluster, &ns.set_ref("any"), &label).await;
        let count = Count::start(&bed);
        web.edit(content(3)).await;
        web.concluded().await;
        let left = web.has_sets(&[2, 3]).await;
        web.set_reaches(2, &[Is("Archived", "True")]).await;
        settle(ns, &bed).await;

        let counts = count.so_far(&bed);
        let changes = deployments.so_far().await.changes();
        // The user's edit is one of the changes.
        let statuses = changes[web.name()] - 1;
        assert!(statuses <= STATUSES, "{statuses}: {counts:?}");
        assert_eq!(of(&counts, "create"), 1, "the revision: {counts:?}");
        assert_eq!(of(&counts, "delete"), 1, "history: {counts:?}");
        assert_eq!(of(&counts, "apply"), OBJECTS, "{counts:?}");
        // One object is written first, without a dry run.
        assert_eq!(of(&counts, "dry-run"), OBJECTS - 1, "{counts:?}");
        // Patches for pause, archival, and the finalizers of an archived and of a deleted revision,
        // and for the release of each object by its former owner. A pause or an archival may be
        // repeated if the revision has changed meanwhile.
        let patches = 4 + OBJECTS;
        assert!(
            (patches..=patches + 2).contains(&of(&counts, "patch")),
            "{counts:?}"
        );
        assert_eq!(of(&counts, "get"), 0, "{counts:?}");
        let recorded = sets.so_far().await.changes();
        // The revision is paused and archived, reports both, and reports its handover; then its
        // finalizer is removed.
        assert!(recorded[left[0].name()] <= 6, "{recorded:?}");
        // The revision is created, and becomes available.
        assert_eq!(recorded[left[1].name()], 2, "{recorded:?}");
    }
    let count = Count::start(&bed);
    // A settled manager has sent no request for a second, so all timers of debounced writes have
    // expired.
    settle(&namespaces[0], &bed).await;
    assert_eq!(
        count.so_far(&bed),
        BTreeMap::new(),
        "an idle manager sends nothing"
    );

    for end in ["killed", "terminated"] {
        let manager = bed.take_manager();
        if end == "killed" {
            manager.kill();
        } else {
            assert!(manager.terminate().success());
        }
        bed.start_manager();
        settle(&namespaces[0], &bed).await;
        let metrics = bed.manager().metrics();
        assert_eq!(metrics.writes(), 0, "after one was {end}");
        assert_eq!(metrics.requests("get"), 0, "after one was {end}");
    }
}

fn of(counts: &BTreeMap<&'static str, u64>, verb: &str) -> u64 {
    counts.get(verb).copied().unwrap_or_default()
}

/// One manager is the leader. The other one does nothing until the leader ends, and then continues
/// its work.
#[tokio::test]
async fn the_second_manager_waits_until_the_leader_ends() {
    let mut bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    let home = object("v1", "Namespace", "baton-system").manifest;
    bed.cluster().apply(&home, "tests").await.unwrap();
    let _ = bed.take_manager().terminate();
    let flags = ["--leader-elect", "--namespace=baton-system"];
    let first = Manager::spawn(bed.cluster().kubeconfig(), "first", &flags);
    let content = |version: i64| {
        ns.content()
            .phase("a", [configmap("cm").data("k", &version.to_string())])
            .phase("b", [configmap(&format!("own-{version}"))])
    };
    let web = ns.deployment("web").content(content(1)).create().await;
    web.concluded().await;
    bed.spawn_manager(&flags);
    ns.eventually("the second to be ready", async || bed.manager().is_ready())
        .await;
    web.edit(content(2)).await;
    web.concluded().await;
    web.set_reaches(1, &[Is("Archived", "True")]).await;
    assert_eq!(bed.manager().metrics().writes(), 0, "the second one waits");

    // The leader ends in the middle of a rollout, and the other manager completes it.
    let label = format!("package-operator.run/object-deployment={}", web.name());
    let sets = Recording::start(ns.cluster(), &ns.set_ref("any"), &label).await;
    web.edit(content(3)).await;
    ns.eventually("a new revision", async || {
        sets.so_far().await.count(Change::Added) == 1
    })
    .await;
    let ended = tokio::task::spawn_blocking(move || first.terminate());
    web.edit(content(4)).await;
    assert!(ended.await.unwrap().success());
    web.edit(content(5)).await;
    web.concluded().await;
    assert_eq!(ns.live(&configmap("cm")).await["data"]["k"], "5");
    let all = web.sets().await;
    let numbers: Vec<_> = all.iter().filter_map(Revision::number).collect();
    let newest = *numbers.last().unwrap();
    assert_eq!(numbers, (1..=newest).collect::<Vec<_>>());
    assert!((4..=5).contains(&newest), "{numbers:?}");
    for number in 1..newest {
        web.set_reaches(number, &[Is("Archived", "True")]).await;
    }
    assert!(bed.manager().metrics().writes() > 0, "the second one works");
}
