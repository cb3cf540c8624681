//! Deployments: rollout, failure, recovery, pause and ownership.

use baton_integration::deployment::{generation, is_owner};
use baton_integration::prelude::*;

alternating_scopes! {
    a_deployment_creates_its_first_revision;
    a_deployment_recovers_from_failing_revisions;
    changes_of_a_paused_deployment_wait_until_it_is_resumed;
    owner_references_and_controller_of_agree;
}

/// Returns a probe that passes for a `ConfigMap` whose data contains its own name.
fn name_in_data_probe() -> Value {
    fields_equal("", "ConfigMap", ".metadata.name", ".data.name")
}

/// Returns a `ConfigMap` that passes the probe.
fn passing(name: &str) -> Entry {
    configmap(name).data("name", name)
}

/// Returns a `Deployment` of two pods. Pods of certain images never become ready.
pub(crate) fn workload(name: &str, image: &str) -> Entry {
    let labels = json!({ "workload": name });
    object("apps/v1", "Deployment", name).with(
        "/spec",
        json!({
            "replicas": 2,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "main", "image": image }] },
            },
        }),
    )
}

/// Returns the usual probes of a `Deployment`.
pub(crate) fn workload_probe() -> Value {
    json!({
        "selector": { "kind": { "group": "apps", "kind": "Deployment" } },
        "probes": [
            { "condition": { "type": "Available", "status": "True" } },
            { "fieldsEqual": { "fieldA": ".status.updatedReplicas", "fieldB": ".status.replicas" } },
        ],
    })
}

async fn a_deployment_creates_its_first_revision(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    ns.set("unrelated")
        .revision(1)
        .phase("a", [configmap("unrelated")])
        .lifecycle("Paused")
        .reaching(&[Is("Paused", "True")])
        .await;
    let content = ns
        .content()
        .phase("phase-1", [passing("cm-1")])
        .phase("phase-2", [passing("cm-2")])
        .probe(name_in_data_probe());
    let web = ns.deployment("web").content(content).create().await;

    let reported = web.concluded().await;
    let sets = web.has_sets(&[1]).await;
    let set = web.set_reaches(1, &[Is("Available", "True")]).await;
    let hash = reported.json["status"]["templateHash"].as_str().unwrap();
    assert_eq!(set.name(), format!("{}-{hash}", web.name()));
    assert_eq!(annotation(&set.json, "package-operator.run/hash"), hash);
    let is_hash = |byte: u8| b"456789bcdf".contains(&byte);
    assert!(
        (1..=10).contains(&hash.len()) && hash.bytes().all(is_hash),
        "{hash}"
    );
    assert_eq!(generation(&reported.json), 1);
    assert_eq!(reported.json["status"]["revision"], 1);
    assert_eq!(reported.json["status"]["collisionCount"], Value::Null);
    assert_eq!(lifecycle(&sets[0]), "Active");
    assert_eq!(previous(&set), [""; 0]);
    let labels = &set.json["metadata"]["labels"];
    assert_eq!(
        *labels,
        json!({ "app": web.name(), "package-operator.run/object-deployment": web.name() })
    );
    reported.assert(&[No("Paused")]);
    ns.reaches("unrelated", &[Is("Paused", "True")]).await;
    assert_managed_by(&ns.live(&configmap("cm-1")).await, &set);
}

/// Rolls out a chain of four revisions: one fails, one with the same objects passes, one with other
/// objects never becomes ready, and one passes again.
async fn a_deployment_recovers_from_failing_revisions(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let content = |cm: Entry, workload: Entry| {
        ns.content()
            .phase("phase-1", [cm])
            .phase("phase-2", [workload])
            .probe(name_in_data_probe())
            .probe(workload_probe())
    };
    // The first phase fails.
    let failing = content(configmap("cm"), workload("app", "app:1"));
    let web = ns.deployment("web").content(failing).create().await;
    web.reaches(&[
        Because("Available", "False", "ObjectSetUnready"),
        Because("Progressing", "True", "LatestRevisionPendingSuccess"),
        Says(
            "Progressing",
            "Latest Revision is Unavailable: Phase \"phase-1\" failed",
        ),
    ])
    .await;
    let set = web.set_reaches(1, &[Is("Available", "False")]).await;
    assert_eq!(lifecycle(&set), "Active");
    web.has_sets(&[1]).await;
    assert_eq!(ns.get(&workload("app", "")).await, None);

    // The objects are the same, and they pass.
    web.edit(content(passing("cm"), workload("app", "app:1")))
        .await;
    web.concluded().await;
    let second = web.set_reaches(2, &[Is("Available", "True")]).await;
    assert_eq!(lifecycle(&second), "Active");
    let first = web.set_reaches(1, &[Is("Archived", "True")]).await;
    assert_eq!(previous(&second), [first.name()]);
    web.has_sets(&[1, 2]).await;

    // All objects differ, and one of them never becomes ready.
    web.edit(content(passing("cm-b"), workload("app-b", "app:invalid")))
        .await;
    let third = web
        .set_reaches(3, &[Because("Available", "False", "ProbeFailure")])
        .await;
    let still = format!("Previous Revision '{}' is still Available.", second.name());
    let reported = web
        .reaches(&[
            Because("Available", "True", "Available"),
            Says("Available", &still),
            Is("Progressing", "True"),
            Says("Progressing", "app-b"),
        ])
        .await;
    assert_eq!(reported.json["status"]["revision"], 3);
    assert_eq!(previous(&third), [first.name(), second.name()]);
    // A wrong archival would have happened by now: the manager has nothing left to do.
    ns.stays(
        Duration::from_secs(2),
        "the second revision is at work",
        async || {
            let second = web.set(2).await;
            second.has(&[Is("Available", "True")]) && lifecycle(&second) == "Active"
        },
    )
    .await;
    web.set(1).await.assert(&[Is("Archived", "True")]);
    web.has_sets(&[1, 2, 3]).await;

    // The objects differ again, and they pass.
    web.edit(content(passing("cm-c"), workload("app-c", "app:2")))
        .await;
    web.concluded().await;
    web.set_reaches(
        4,
        &[
            Is("Available", "True"),
            Controls(&["ConfigMap cm-c", "Deployment.apps app-c"]),
        ],
    )
    .await;
    for number in 1..=3 {
        web.set_reaches(number, &[Is("Archived", "True"), Controls(&[])])
            .await;
    }
    for gone in [
        workload("app", ""),
        workload("app-b", ""),
        configmap("cm"),
        configmap("cm-b"),
    ] {
        ns.gone(&gone).await;
    }
}

async fn changes_of_a_paused_deployment_wait_until_it_is_resumed(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let (first, second) = (passing("cm-1"), passing("cm-2"));
    let content = || ns.content().probe(name_in_data_probe());
    let web = ns.deployment("web");
    let web = web
        .content(content().phase("a", [first.clone()]))
        .create()
        .await;
    web.concluded().await;

    web.pause().await;
    let set = web
        .set_reaches(1, &[Because("Paused", "True", "Paused")])
        .await;
    assert_eq!(lifecycle(&set), "Paused");
    assert_eq!(
        annotation(&set.json, "package-operator.run/paused-by-parent"),
        "true"
    );
    let message = "Latest revision is paused: Lifecycle state set to paused.";
    web.reaches(&[Because("Paused", "True", "Paused"), Says("Paused", message)])
        .await;
    // No pass repairs the drift of the paused revision.
    ns.merge(&first, &json!({ "data": { "name": "drifted" } }))
        .await;

    web.edit(content().phase("a", [first.clone(), second.clone()]))
        .await;
    // The change is observed, so a new revision would exist by now.
    web.observed().await.assert(&[Is("Paused", "True")]);
    ns.stays(Duration::from_secs(2), "all is paused", async || {
        let sets = web.sets().await;
        sets.len() == 1
            && lifecycle(&sets[0]) == "Paused"
            && sets[0].has(&[Is("Paused", "True"), No("Archived")])
    })
    .await;
    assert_eq!(ns.live(&first).await["data"]["name"], "drifted");
    assert_eq!(ns.get(&second).await, None);

    web.resume().await;
    web.concluded().await.assert(&[No("Paused")]);
    web.has_sets(&[1, 2]).await;
    ns.live(&second).await;
    assert_eq!(ns.live(&first).await["data"]["name"], "cm-1");
    let old = web.set_reaches(1, &[Is("Archived", "True")]).await;
    assert_eq!(
        annotation(&old.json, "package-operator.run/paused-by-parent"),
        ""
    );
}

async fn owner_references_and_controller_of_agree(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let app = workload("app", "app:1");
    let content = ns
        .content()
        .phase("a", [app.clone()])
        .probe(workload_probe());
    let web = ns.deployment("web").content(content).create().await;
    let reported = web.concluded().await;
    let set = web
        .set_reaches(
            1,
            &[Is("Available", "True"), Controls(&["Deployment.apps app"])],
        )
        .await;
    let entry = format!(
        "{}.package-operator.run {}",
        web.revision_kind(),
        set.name()
    );
    reported.assert(&[Controls(&[&entry])]);
    let chain = [reported.json, set.json, ns.live(&app).await];
    for (above, owner) in chain.iter().enumerate() {
        for (below, object) in chain.iter().enumerate() {
            let neighbours = above + 1 == below;
            assert_eq!(is_owner(owner, object), neighbours, "{above} and {below}");
        }
    }
}
