//! The status of a deployment, and causes of delays.

use baton_integration::prelude::*;

use crate::deployments::{workload, workload_probe};

alternating_scopes! {
    a_late_revision_is_reported_until_it_is_available;
    a_rollout_paused_halfway_continues_in_the_same_state;
    mapped_conditions_come_from_the_current_revision;
    a_deployment_may_be_empty_first;
}

/// A revision exceeds its deadline, continues nevertheless, and becomes available. The next
/// revision has a deadline of its own.
async fn a_late_revision_is_reported_until_it_is_available(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let cm = configmap("cm");
    let content = |version: &str| {
        ns.content()
            .phase("a", [cm.clone().data("k", version)])
            .phase("b", [configmap("after").annotation("name", "after")])
            .probe(name_annotation_probe())
    };
    let web = ns
        .deployment("web")
        .spec("progressDeadlineSeconds", 1)
        .content(content("1"))
        .create()
        .await;
    let set = web.set_reaches(1, &[Is("Available", "False")]).await;
    let reported = web
        .reaches(&[
            Because("Progressing", "False", "ProgressDeadlineExceeded"),
            Says("Progressing", set.message("Available")),
            Because("Available", "False", "ObjectSetUnready"),
        ])
        .await;
    let expected = format!(
        "{} {} was not available within 1 seconds: {}",
        web.revision_kind(),
        set.name(),
        set.message("Available")
    );
    assert_eq!(reported.message("Progressing"), expected);
    assert_eq!(ns.get(&configmap("after")).await, None);

    // The deadline is extended.
    web.patch(&json!({ "spec": { "progressDeadlineSeconds": 600 } }))
        .await;
    web.reaches(&[Because(
        "Progressing",
        "True",
        "LatestRevisionPendingSuccess",
    )])
    .await;
    web.patch(&json!({ "spec": { "progressDeadlineSeconds": 1 } }))
        .await;
    let late = Because("Progressing", "False", "ProgressDeadlineExceeded");
    web.reaches(&[late]).await;

    // A pause does not count towards the deadline.
    web.pause().await;
    let paused = Because("Progressing", "Unknown", "DeploymentPaused");
    web.reaches(&[paused, Is("Paused", "True")]).await;
    web.resume().await;
    web.reaches(&[late, No("Paused")]).await;

    ns.annotate_with_name(&cm).await;
    web.concluded().await;
    ns.live(&configmap("after")).await;

    // The annotation is the user's and stays, so the next revision becomes available in time.
    web.edit(content("2")).await;
    web.concluded().await;
    ns.merge(
        &cm,
        &json!({ "metadata": { "annotations": { "name": null } } }),
    )
    .await;
    let unavailable = Because("Available", "False", "ObjectSetUnready");
    web.reaches(&[unavailable, Because("Progressing", "False", "Idle")])
        .await;
    web.edit(content("3")).await;
    web.reaches(&[late, unavailable]).await;
    ns.annotate_with_name(&cm).await;
    web.concluded().await;
    if scope == Scope::Namespaced {
        let events = ns.reference(&object("v1", "Event", ""));
        ns.eventually("an event", async || {
            let events = ns.cluster().list(&events, "").await;
            let is_reported = |event: &Value| {
                event["reason"] == "ProgressDeadlineExceeded"
                    && event["involvedObject"]["name"] == *web.name()
            };
            events.iter().any(is_reported)
        })
        .await;
    }
}

/// Two active revisions, one of which fails, are paused and continue in the same state.
async fn a_rollout_paused_halfway_continues_in_the_same_state(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let (shared, held) = (configmap("shared"), configmap("held"));
    let content = |version: &str, own: &str| {
        ns.content()
            .phase("a", [shared.clone().data("k", version), configmap(own)])
            .phase("b", [held.clone().data("k", version)])
            .probe(fields_equal("", "ConfigMap", ".data.k", ".data.k"))
    };
    let with = |own: &str| configmap(own).data("k", "");
    let first = ns.content().phase("a", [shared.clone(), with("own-1")]);
    let web = ns.deployment("web").content(first).create().await;
    web.concluded().await;
    web.edit(content("2", "own-2")).await;
    web.set_reaches(2, &[Because("Available", "False", "ProbeFailure")])
        .await;
    web.reaches(&[
        Is("Progressing", "True"),
        Is("Available", "True"),
        No("Paused"),
    ])
    .await;

    web.pause().await;
    for number in 1..=2 {
        let set = web.set_reaches(number, &[Is("Paused", "True")]).await;
        assert_eq!(annotation(&set.json, PAUSED_BY_PARENT), "true");
    }
    let reported = web
        .reaches(&[Is("Paused", "True"), Is("Progressing", "True")])
        .await;
    assert_eq!(reported.json["status"]["revision"], 2);
    // The template changes and changes back: the template at the end of the pause decides.
    web.edit(content("3", "own-3")).await;
    web.edit(content("2", "own-2")).await;
    web.observed().await.assert(&[Is("Paused", "True")]);
    web.resume().await;
    for number in 1..=2 {
        let set = web.set_reaches(number, &[No("Paused")]).await;
        assert_eq!(lifecycle(&set), "Active");
        assert_eq!(annotation(&set.json, PAUSED_BY_PARENT), "");
    }
    web.reaches(&[
        No("Paused"),
        Is("Progressing", "True"),
        Is("Available", "True"),
    ])
    .await;
    web.has_sets(&[1, 2]).await;
    ns.merge(&configmap("own-2"), &json!({ "data": { "k": "now" } }))
        .await;
    web.concluded().await;
    web.set_reaches(1, &[Is("Archived", "True")]).await;

    // An archived revision is not paused.
    web.pause().await;
    web.set_reaches(2, &[Is("Paused", "True")]).await;
    let first = web.set(1).await;
    assert_eq!(
        (lifecycle(&first), annotation(&first.json, PAUSED_BY_PARENT)),
        ("Archived", "")
    );
    first.assert(&[Is("Archived", "True")]);
}

const PAUSED_BY_PARENT: &str = "package-operator.run/paused-by-parent";

/// A user pauses the current revision. The deployment reports it, and does not end the pause until
/// the deployment itself is paused and resumed.
#[tokio::test]
async fn a_revision_paused_by_hand_stays_paused() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let cm = configmap("cm");
    let content = |version: &str| ns.content().phase("a", [cm.clone().data("k", version)]);
    let web = ns.deployment("web").content(content("1")).create().await;
    web.concluded().await;
    let first = web.set(1).await;
    ns.set_lifecycle(first.name(), "Paused").await;
    web.reaches(&[
        Because("Paused", "True", "Paused"),
        Because("Progressing", "False", "Idle"),
    ])
    .await;
    web.annotate("another", "pass").await;
    ns.merge(&cm, &json!({ "data": { "k": "drifted" } })).await;
    ns.stays(Duration::from_secs(1), "the pause", async || {
        lifecycle(&web.set(1).await) == "Paused" && ns.live(&cm).await["data"]["k"] == "drifted"
    })
    .await;
    assert_eq!(annotation(&web.set(1).await.json, PAUSED_BY_PARENT), "");

    web.pause().await;
    ns.eventually("the mark", async || {
        annotation(&web.set(1).await.json, PAUSED_BY_PARENT) == "true"
    })
    .await;
    web.resume().await;
    web.set_reaches(1, &[No("Paused"), Is("Available", "True")])
        .await;
    web.reaches(&[No("Paused")]).await;
    ns.object_becomes(&cm, "repaired", |live| live["data"]["k"] == "1")
        .await;

    // A revision that a user has paused is superseded like any other.
    ns.set_lifecycle(first.name(), "Paused").await;
    web.reaches(&[Is("Paused", "True")]).await;
    web.edit(content("2")).await;
    web.concluded().await.assert(&[No("Paused")]);
    web.set_reaches(1, &[Is("Archived", "True")]).await;
}

/// The deployment is paused before it creates its first revision.
#[tokio::test]
async fn a_deployment_may_be_created_paused() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let content = ns.content().phase("a", [configmap("cm")]);
    let web = ns
        .deployment("web")
        .spec("paused", true)
        .content(content)
        .create()
        .await;
    let wanted = [
        Because("Paused", "True", "Paused"),
        Is("Available", "False"),
    ];
    web.reaches(&wanted).await;
    web.has_sets(&[]).await;
    web.resume().await;
    web.concluded().await.assert(&[No("Paused")]);
}

async fn mapped_conditions_come_from_the_current_revision(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let app =
        |name: &str, image: &str| workload(name, image).map("Available", "example.com/Workload");
    let content = |app: Entry| ns.content().phase("a", [app]).probe(workload_probe());
    let web = ns
        .deployment("web")
        .content(content(app("one", "app:1")))
        .create()
        .await;
    web.concluded().await;
    let minimum = "MinimumReplicasAvailable";
    web.reaches(&[Because("example.com/Workload", "True", minimum)])
        .await;
    // The condition is that of the current revision, not that of an available older one.
    web.edit(content(app("two", "app:broken"))).await;
    let wanted = [
        Because(
            "example.com/Workload",
            "False",
            "MinimumReplicasUnavailable",
        ),
        Is("Available", "True"),
    ];
    web.reaches(&wanted).await;
    web.edit(content(workload("three", "app:3"))).await;
    web.concluded().await;
    web.reaches(&[No("example.com/Workload")]).await;
}

async fn a_deployment_may_be_empty_first(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let web = ns.deployment("web").create().await;
    let wanted = [
        Because("Available", "False", "ObjectSetUnready"),
        Because("Progressing", "False", "Idle"),
    ];
    web.reaches(&wanted).await;
    web.patch(&json!({ "spec": { "template": { "spec": { "phases": [] } } } }))
        .await;
    web.observed().await.assert(&wanted);
    web.has_sets(&[]).await;
    let cm = configmap("cm");
    web.edit(ns.content().phase("a", [cm.clone()])).await;
    web.concluded().await;
    // A template without phases has nothing to roll out later either, and the current revision
    // stays.
    web.patch(&json!({ "spec": { "template": { "spec": { "phases": [] } } } }))
        .await;
    web.observed().await.assert(&[
        Is("Available", "True"),
        Says("Available", "is still Available."),
        Because("Progressing", "False", "Idle"),
    ]);
    web.has_sets(&[1]).await;
    ns.live(&cm).await;
    web.edit(ns.content().phase("a", [cm.clone()])).await;
    web.concluded().await;
    web.has_sets(&[1]).await;
}

/// A deployment's name may have up to 253 characters, but it becomes the value of a label.
#[tokio::test]
async fn a_name_too_long_for_a_label_is_reported() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let content = || ns.content().phase("a", [configmap("cm")]);
    let (name, fits) = ("n".repeat(64), "f".repeat(63));
    let labels = json!({ "app": "long" });
    let deployment = |name: &str| {
        ns.deployment(name)
            .spec("selector", json!({ "matchLabels": labels }))
            .template_label("app", "long")
            .content(content())
    };
    let long = deployment(&name).create().await;
    let reported = long
        .reaches(&[
            Because("Progressing", "False", "ObjectSetCreateError"),
            Because("Available", "False", "ObjectSetUnready"),
            Says("Progressing", "63"),
            Says("Progressing", &name),
        ])
        .await;
    assert_eq!(reported.json["status"]["collisionCount"], Value::Null);
    assert_eq!(
        ns.cluster().list(&ns.set_ref("any"), "").await,
        [Value::Null; 0]
    );
    deployment(&fits).create().await.concluded().await;
}

/// Manifests that the server stores in another format have the same content, so each results in one
/// revision. An absent list equals an empty one, and an absent delay equals zero.
#[tokio::test]
async fn manifests_that_the_server_normalises_result_in_one_revision() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let odd = configmap("odd")
        .with("/metadata/creationTimestamp", Value::Null)
        .with("/metadata/labels", json!({}))
        .with("/metadata/annotations", json!({ "empty": "" }))
        .with("/data", json!({ "nothing": "", "text": "1.0" }))
        .with("/binaryData", Value::Null);
    let app = workload("app", "app:1")
        .with("/spec/minReadySeconds", 0)
        .with("/spec/template/spec/volumes", json!([]))
        .with("/spec/template/metadata/creationTimestamp", Value::Null)
        .with(
            "/spec/template/spec/terminationGracePeriodSeconds",
            json!(1.0),
        )
        .with("/status", json!({}));
    let content = || {
        ns.content()
            .phase("a", [odd.clone()])
            .phase("b", [app.clone()])
            .phase("empty", [])
            .probe(workload_probe())
            .spec("successDelaySeconds", 0)
    };
    let web = ns.deployment("web").content(content()).create().await;
    web.concluded().await;
    let before = web.has_sets(&[1]).await;
    web.annotate("another", "pass").await;
    let absent = json!({ "spec": { "template": { "spec": { "successDelaySeconds": null } } } });
    web.patch(&absent).await;
    let reported = web.concluded().await;
    assert_eq!(reported.json["status"]["collisionCount"], Value::Null);
    assert_eq!(web.has_sets(&[1]).await, before);
}

/// A quota forbids the next revision. The current one stays, and a raised quota is detected without
/// another change.
#[tokio::test]
async fn a_refused_revision_is_reported_and_created_later() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let quota = object("v1", "ResourceQuota", "quota");
    let hard = |count: &str| json!({ "spec": { "hard": { "count/objectsets.package-operator.run": count } } });
    let cm = configmap("cm");
    let content = |version: &str| ns.content().phase("a", [cm.clone().data("k", version)]);
    let web = ns.deployment("web").content(content("1")).create().await;
    web.concluded().await;
    let limited = quota.clone().with("/spec", hard("1")["spec"].clone());
    ns.create(&limited).await;
    ns.object_becomes(&quota, "counted", |live| {
        live["status"]["used"]["count/objectsets.package-operator.run"] == "1"
    })
    .await;

    web.edit(content("2")).await;
    let reported = web
        .reaches(&[
            Because("Progressing", "False", "ObjectSetCreateError"),
            Says("Progressing", "exceeded quota: quota"),
            Is("Available", "True"),
            Says("Available", "is still Available."),
        ])
        .await;
    assert_eq!(reported.json["status"]["revision"], 1);
    assert!(
        reported
            .message("Progressing")
            .starts_with("ObjectSet web-"),
        "{}",
        reported.status()
    );
    web.has_sets(&[1]).await;
    ns.merge(&quota, &hard("2")).await;
    web.concluded().await;
    web.set_reaches(1, &[Is("Archived", "True")]).await;
    assert_eq!(ns.live(&cm).await["data"]["k"], "2");
}

/// A webhook changes revisions when they are created, so none is stored as the template has it.
#[tokio::test]
async fn a_revision_changed_by_a_webhook_is_created_once() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let delay = "Object{spec: Object.spec{successDelaySeconds: 1}}";
    change_revisions(&ns, delay, |set| set["spec"]["successDelaySeconds"] == 1).await;

    let content = |version: &str| {
        ns.content()
            .phase("a", [configmap("cm").data("k", version)])
    };
    let web = ns.deployment("web").content(content("1")).create().await;
    web.concluded().await;
    web.edit(content("2")).await;
    web.concluded().await;
    web.edit(content("1")).await;
    let reported = web.concluded().await;
    assert_eq!(reported.json["status"]["collisionCount"], 1);
    web.annotate("another", "pass").await;
    web.set_reaches(2, &[Is("Archived", "True")]).await;
    let sets = web.has_sets(&[1, 2, 3]).await;
    assert_eq!(sets[2].json["spec"]["successDelaySeconds"], 1);
}

/// Makes the server change all revisions of a namespace at their creation.
pub(crate) async fn change_revisions(
    ns: &TestNamespace,
    expression: &str,
    is_changed: impl Fn(&Value) -> bool,
) {
    let group = "admissionregistration.k8s.io/v1";
    let name = ns.unique("changes");
    let policy = object(group, "MutatingAdmissionPolicy", &name).with(
        "/spec",
        json!({
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "matchConstraints": { "resourceRules": [{
                "apiGroups": ["package-operator.run"], "apiVersions": ["*"],
                "resources": ["objectsets"], "operations": ["CREATE"],
            }] },
            "mutations": [{
                "patchType": "ApplyConfiguration",
                "applyConfiguration": { "expression": expression },
            }],
        }),
    );
    let label = json!({ "kubernetes.io/metadata.name": ns.name() });
    let binding = object(group, "MutatingAdmissionPolicyBinding", &name).with(
        "/spec",
        json!({
            "policyName": name,
            "matchResources": { "namespaceSelector": { "matchLabels": label } },
        }),
    );
    ns.create_elsewhere(&policy).await;
    ns.create_elsewhere(&binding).await;
    let attempts = std::cell::Cell::new(0);
    ns.eventually("the policy to be at work", async || {
        attempts.set(attempts.get() + 1);
        let set = ns.set(&format!("probe-{}", attempts.get())).revision(1);
        is_changed(&set.phase("a", []).create().await.json)
    })
    .await;
}
