//! RolloutBlocks stop the rollouts of a namespace, or of all.

use std::cell::{Cell, RefCell};

use baton_apis::constants::shipper::{
    ANNOTATION_BLOCK_OVERRIDE, ENVIRONMENT_IS_CONSTANT, NAMESPACE_GLOBAL_BLOCKS,
};
use baton_hack::paths::Dirs;
use baton_integration::application::{ALL_IN, TestApplication, VANGUARD, condition, name, reason};
use baton_integration::exclusive::Exclusive;
use baton_integration::namespace::LABEL_TEST;
use baton_integration::prelude::*;

/// Creates a block in the namespace of a test, and returns its full name.
pub(crate) async fn blocked(ns: &TestNamespace, name: &str) -> String {
    ns.create(&TestApplication::block(name)).await;
    format!("{}/{name}", ns.name())
}

/// Sets the override of an object.
pub(crate) async fn set_override(ns: &TestNamespace, object: &Value, blocks: &str) {
    let annotations = json!({ ANNOTATION_BLOCK_OVERRIDE: blocks });
    let patch = json!({ "metadata": { "annotations": annotations } });
    ns.cluster().merge(object, &patch).await.unwrap();
}

/// Waits until the status of a block names these objects.
async fn is_overridden_by(ns: &TestNamespace, block: &Entry, application: &str, release: &str) {
    let wanted = json!({
        "application": application, "applications": application, "release": release,
    });
    ns.object_becomes(block, "overridden", |live| {
        live["status"]["overrides"] == wanted
    })
    .await;
}

/// Returns a predicate that holds for an object to which a block applies.
fn is_blocked_by(block: &str) -> impl Fn(&Value) -> bool {
    let text = format!("rollout block(s) with name(s) \"{block}\" exist");
    move |live: &Value| reason(live, "Blocked") == ["RolloutsBlocked", &text]
}

/// The Application exists before the block, whose creation and deletion wake it.
#[tokio::test]
async fn a_block_stops_the_next_release_until_it_is_deleted() {
    let ns = &TestNamespace::new(Scope::Namespaced).await;
    let app = TestApplication::new(ns, "web").await;
    let block_name = blocked(ns, "frozen").await;
    is_overridden_by(ns, &TestApplication::block("frozen"), "", "").await;
    app.apply(app.environment("0.0.1", 1, ALL_IN)).await;
    ns.object_becomes(&app.entry(), "blocked", is_blocked_by(&block_name))
        .await;
    assert_eq!(app.living().await, Vec::<Value>::new());
    ns.delete(&TestApplication::block("frozen")).await;
    app.completed(0).await;
    let is_free = |live: &Value| condition(live, "Blocked") == "False";
    ns.object_becomes(&app.entry(), "free", is_free).await;
    ns.create(&TestApplication::block("frozen")).await;
    ns.object_becomes(&app.entry(), "blocked again", is_blocked_by(&block_name))
        .await;
    app.becomes(0, "blocked", is_blocked_by(&block_name)).await;
}

/// Cases E15, R7, R12 and R14.
#[tokio::test]
async fn a_block_holds_a_release_at_its_step() {
    let ns = &TestNamespace::new(Scope::Namespaced).await;
    let app = TestApplication::new(ns, "web").await;
    app.apply(app.environment("0.0.1", 4, ALL_IN)).await;
    let first = app.completed(0).await;
    app.apply(app.environment("0.0.2", 4, VANGUARD)).await;
    app.at_step(1, 0).await;
    let block_name = blocked(ns, "frozen").await;
    app.becomes(1, "blocked", is_blocked_by(&block_name)).await;
    app.promote(1, 1).await;
    app.stays_at_step(1, 0).await;
    let second = app.release(1).await;
    assert!(is_blocked_by(&block_name)(&second), "{second}");
    app.recorded(&second, ["Warning", "RolloutBlocked", &block_name])
        .await;
    app.has_pods(&first, 4).await;
    app.has_pods(&second, 1).await;
    // Cases R12 and R14: each Release has the part of the step by hand, except for the next change.
    let target = |kind: &str, release: &Value| TestApplication::kind(kind, name(release));
    let [capacity, traffic] = ["CapacityTarget", "TrafficTarget"].map(|kind| target(kind, &first));
    set_all(ns, &target("CapacityTarget", &second), "percent", 50).await;
    set_all(ns, &target("TrafficTarget", &second), "weight", 50).await;
    app.has_pods(&second, 2).await;
    keeps(ns, &traffic, "weight").await;
    set_all(ns, &traffic, "weight", 50).await;
    keeps(ns, &capacity, "percent").await;
    assert!(is_blocked_by(&block_name)(&app.release(1).await));
    ns.delete(&TestApplication::block("frozen")).await;
    app.at_step(1, 1).await;
}

/// Sets a field of all clusters of a target.
async fn set_all(ns: &TestNamespace, target: &Entry, field: &str, value: i64) {
    let mut clusters = ns.live(target).await["spec"]["clusters"].clone();
    for cluster in clusters.as_array_mut().unwrap() {
        cluster[field] = value.into();
    }
    let patch = json!({ "spec": { "clusters": clusters } });
    ns.merge(target, &patch).await;
}

/// Fails if a target does not want everything in all clusters during the next two seconds.
async fn keeps(ns: &TestNamespace, target: &Entry, field: &str) {
    ns.stays(Duration::from_secs(2), field, async || {
        let live = ns.live(target).await;
        let clusters = live["spec"]["clusters"].as_array().unwrap();
        clusters.iter().all(|it| it[field] == 100)
    })
    .await;
}

/// Cases E4, E8, E17, E19, R6, R9, R11, B1, B2 and B4; then the block is deleted.
#[tokio::test]
async fn an_application_overrides_a_block() {
    let ns = &TestNamespace::new(Scope::Namespaced).await;
    let app = TestApplication::new(ns, "web").await;
    let block_name = blocked(ns, "frozen").await;
    let application = app
        .entry()
        .annotation(ANNOTATION_BLOCK_OVERRIDE, &block_name)
        .with(
            "/spec",
            json!({ "template": app.environment("0.0.1", 4, ALL_IN) }),
        );
    ns.create(&application).await;
    let first = app.completed(0).await;
    app.has_pods(&first, 4).await;
    let event = ["Normal", "RolloutBlockOverridden", &block_name];
    app.recorded(&first, event).await;
    let app_name = format!("{}/web", ns.name());
    let release_name = format!("{}/{}", ns.name(), name(&first));
    let frozen = TestApplication::block("frozen");
    is_overridden_by(ns, &frozen, &app_name, &release_name).await;
    set_override(ns, &first, "").await;
    is_overridden_by(ns, &frozen, &app_name, "").await;
    let live = ns.live(&app.entry()).await;
    set_override(ns, &live, "").await;
    is_overridden_by(ns, &frozen, "", "").await;
    // Of two blocks, the Release names the second one before it exists.
    set_override(ns, &first, &format!("{block_name},{}/later", ns.name())).await;
    is_overridden_by(ns, &frozen, "", &release_name).await;
    ns.create(&TestApplication::block("later")).await;
    is_overridden_by(ns, &TestApplication::block("later"), "", &release_name).await;
    ns.delete(&TestApplication::block("later")).await;
    // Its name is removed from the annotation before.
    ns.gone(&TestApplication::block("later")).await;
    set_override(ns, &first, "").await;
    is_overridden_by(ns, &frozen, "", "").await;

    set_override(ns, &live, &block_name).await;
    app.apply(app.environment("0.0.2", 4, ALL_IN)).await;
    let second = app.completed(1).await;
    app.recorded(&second, event).await;
    app.has_pods(&second, 4).await;
    let history = json!([name(&first), name(&second)]);
    ns.object_becomes(&app.entry(), "with both Releases", |live| {
        live["status"]["history"] == history
    })
    .await;
    let release_name = format!("{}/{}", ns.name(), name(&second));
    is_overridden_by(ns, &frozen, &app_name, &release_name).await;
    let version = |live: Value| live["metadata"]["resourceVersion"].clone();
    let written = version(ns.live(&frozen).await);
    ns.stays(Duration::from_secs(2), "the block", async || {
        version(ns.live(&frozen).await) == written
    })
    .await;
    ns.delete(&frozen).await;
    let is_empty = |live: &Value| {
        live["metadata"]["annotations"][ANNOTATION_BLOCK_OVERRIDE] == ""
            && condition(live, "Blocked") == "False"
    };
    ns.object_becomes(&app.entry(), "without an override", is_empty)
        .await;
    app.becomes(1, "without an override", is_empty).await;
}

/// Cases E9 to E11 and E14: steps of an Application that overrides a block, forwards and back.
#[tokio::test]
async fn a_release_takes_its_steps_under_an_overridden_block() {
    let ns = &TestNamespace::new(Scope::Namespaced).await;
    let app = TestApplication::new(ns, "web").await;
    let block_name = blocked(ns, "frozen").await;
    for (replicas, pods) in [(3, [1, 2, 3]), (1, [1, 1, 1])] {
        let template = app.environment("0.0.1", replicas, VANGUARD);
        let application = app
            .entry()
            .annotation(ANNOTATION_BLOCK_OVERRIDE, &block_name)
            .with("/spec", json!({ "template": template }));
        ns.create(&application).await;
        for (at, step) in [0, 1, 0, 1].into_iter().enumerate() {
            if at > 0 {
                app.promote(0, i64::try_from(step).unwrap()).await;
            }
            let release = app.at_step(0, i64::try_from(step).unwrap()).await;
            app.has_pods(&release, pods[step]).await;
        }
        app.promote(0, 2).await;
        let release = app.completed(0).await;
        app.has_pods(&release, pods[2]).await;
        ns.delete(&app.entry()).await;
        ns.gone(&app.entry()).await;
        ns.eventually("the Release to be gone", async || {
            app.releases().await.is_empty()
        })
        .await;
    }
}

/// An override of a block that does not exist is an error, with names that nobody would choose.
#[tokio::test]
async fn an_override_of_an_unknown_block_is_named() {
    let ns = &TestNamespace::new(Scope::Namespaced).await;
    let app = TestApplication::new(ns, "web").await;
    let many: Vec<_> = (0..1_000).map(|at| format!("nowhere/{at:04}")).collect();
    for overrides in [" a/b,,no slash,a/b,".to_owned(), many.join(",")] {
        let application = app
            .entry()
            .annotation(ANNOTATION_BLOCK_OVERRIDE, &overrides)
            .with(
                "/spec",
                json!({ "template": app.environment("0.0.1", 1, ALL_IN) }),
            );
        ns.create(&application).await;
        ns.object_becomes(&app.entry(), "blocked", |live| {
            let [reason, message] = reason(live, "Blocked");
            reason == "RolloutsBlocked" && message.starts_with("rollout block with name \"")
        })
        .await;
        assert_eq!(app.living().await, Vec::<Value>::new());
        ns.delete(&app.entry()).await;
        ns.gone(&app.entry()).await;
    }
}

/// Case E18: a block of the global namespace applies to all others. Its overrides are removed after its
/// deletion, by the next manager.
#[tokio::test]
async fn a_global_block_applies_to_all_namespaces() {
    let mut bed = Exclusive::acquire().await;
    let ns = &bed.namespace(Scope::Namespaced).await;
    let app = TestApplication::new(ns, "web").await;
    let namespace = object("v1", "Namespace", NAMESPACE_GLOBAL_BLOCKS)
        .with("/metadata/labels", json!({ LABEL_TEST: "true" }));
    ns.create_elsewhere(&namespace).await;
    let mut global = TestApplication::block("frozen").manifest;
    global["metadata"]["namespace"] = NAMESPACE_GLOBAL_BLOCKS.into();
    ns.cluster().create(&global).await.unwrap();
    app.apply(app.environment("0.0.1", 1, ALL_IN)).await;
    let block_name = format!("{NAMESPACE_GLOBAL_BLOCKS}/frozen");
    let live = ns
        .object_becomes(&app.entry(), "blocked", is_blocked_by(&block_name))
        .await;
    set_override(ns, &live, &block_name).await;
    let release = app.completed(0).await;
    ns.eventually("the status of the block", async || {
        let live = ns.cluster().get(&global).await.unwrap();
        live["status"]["overrides"]["application"] == format!("{}/web", ns.name())
            && live["status"]["overrides"]["release"] == format!("{}/{}", ns.name(), name(&release))
    })
    .await;
    // The block is deleted while no manager runs.
    bed.take_manager().kill();
    ns.cluster().delete(&global, "Background").await;
    bed.start_manager();
    app.becomes(0, "without an override", |live| {
        live["metadata"]["annotations"][ANNOTATION_BLOCK_OVERRIDE] == ""
    })
    .await;
}

/// Applications are created in the same moment as a block. Those that were created before the manager
/// observed it may begin their first step. From then on none of them goes on.
#[tokio::test]
async fn applications_of_the_moment_of_a_block_create_nothing_after_it_is_observed() {
    let ns = &TestNamespace::new(Scope::Namespaced).await;
    let app = TestApplication::new(ns, "web").await;
    let entry = |at: usize| {
        let name = format!("web-{at}");
        let mut template = app.environment("0.0.1", 1, ALL_IN);
        template["values"]["nameOverride"] = name.as_str().into();
        TestApplication::kind("Application", &name).with("/spec", json!({ "template": template }))
    };
    let entries: Vec<_> = (0..6).map(entry).collect();
    let created = entries.iter().enumerate().map(async |(at, entry)| {
        let pause = u64::try_from(at).unwrap() * 15;
        tokio::time::sleep(Duration::from_millis(pause)).await;
        ns.create(entry).await;
    });
    let begun = async {
        tokio::time::sleep(Duration::from_millis(40)).await;
        blocked(ns, "frozen").await
    };
    let (_, block_name) = tokio::join!(futures::future::join_all(created), begun);
    is_overridden_by(ns, &TestApplication::block("frozen"), "", "").await;
    for entry in &entries {
        ns.object_becomes(entry, "blocked", is_blocked_by(&block_name))
            .await;
    }
    let releases = ns.reference(&TestApplication::kind("Release", "any"));
    let releases = async || ns.cluster().list(&releases, "").await;
    let is_blocked = is_blocked_by(&block_name);
    ns.eventually("all Releases to be blocked", async || {
        releases().await.iter().all(&is_blocked)
    })
    .await;
    // Case E6. An Application has the name of its chart's objects, not of a Release.
    for entry in &entries {
        let labels = format!("shipper-release={}", entry.name());
        let pods = ns.reference(&object("v1", "Pod", "any"));
        assert_eq!(ns.cluster().list(&pods, &labels).await, [] as [Value; 0]);
    }
    let before = releases().await.len();
    ns.stays(Duration::from_secs(3), "the Releases", async || {
        let now = releases().await;
        now.len() == before && now.iter().all(&is_blocked)
    })
    .await;
    ns.delete(&TestApplication::block("frozen")).await;
    ns.eventually("one complete Release of each", async || {
        let now = releases().await;
        let is_complete = |it: &Value| condition(it, "Complete") == "True";
        now.len() == entries.len() && now.iter().all(is_complete)
    })
    .await;
}

/// Puts a policy of the installation in force, for the namespace of the test only.
async fn enforce(ns: &TestNamespace, policy: &str) {
    let folder = Dirs::from_env().unwrap().workspace.join("config/policy");
    let text = std::fs::read_to_string(folder.join(format!("{policy}.yaml"))).unwrap();
    let selector = json!({ "matchLabels": { "kubernetes.io/metadata.name": ns.name() } });
    for document in text.split("---\n").skip(1) {
        let manifest: Value = serde_saphyr::from_str(document).unwrap();
        let [api, kind, old] = ["/apiVersion", "/kind", "/metadata/name"]
            .map(|pointer| manifest.pointer(pointer).unwrap().as_str().unwrap());
        let mut copy = object(api, kind, &ns.unique(old)).with("/spec", manifest["spec"].clone());
        if kind == "ValidatingAdmissionPolicyBinding" {
            let policy = manifest["spec"]["policyName"].as_str().unwrap();
            copy = copy.with("/spec/policyName", ns.unique(policy)).with(
                "/spec/matchResources",
                json!({ "namespaceSelector": selector.clone() }),
            );
        }
        ns.create_elsewhere(&copy).await;
    }
}

/// Returns the refusal of an edit, once the server uses policies and their parameters. `patch` returns
/// another edit for each number.
pub(crate) async fn refusal(
    ns: &TestNamespace,
    object: &Value,
    patch: impl Fn(u64) -> Value,
) -> String {
    let (refused, round) = (RefCell::new(String::new()), Cell::new(1));
    ns.eventually("the policy to be in force", async || {
        round.set(round.get() % 20 + 1);
        let answer = ns.cluster().merge(object, &patch(round.get())).await;
        answer.is_err_and(|it| {
            refused.replace(it.message);
            true
        })
    })
    .await;
    refused.into_inner()
}

/// Case E2.
#[tokio::test]
async fn the_environment_of_a_release_is_not_changed() {
    let ns = &TestNamespace::new(Scope::Namespaced).await;
    let app = TestApplication::new(ns, "web").await;
    app.apply(app.environment("0.0.1", 1, ALL_IN)).await;
    let release = app.completed(0).await;
    let environment = |environment: Value| json!({ "spec": { "environment": environment } });
    for chart in [json!({ "version": "0.0.2" }), json!({ "name": "another" })] {
        let chart = environment(json!({ "chart": chart }));
        let refused = ns.cluster().merge(&release, &chart).await.unwrap_err();
        assert!(
            refused.message.contains(ENVIRONMENT_IS_CONSTANT),
            "{refused:?}"
        );
    }
    // Values are no part of the schema.
    enforce(ns, "release-environment").await;
    let values = |round: u64| environment(json!({ "values": { "round": round } }));
    let refused = refusal(ns, &release, values).await;
    assert!(refused.contains(ENVIRONMENT_IS_CONSTANT), "{refused}");
    app.promote(0, 0).await;
}

/// Cases E3 to E5. The policy also holds while no manager runs.
#[tokio::test]
async fn the_api_server_refuses_changes_under_a_block() {
    let ns = &TestNamespace::new(Scope::Namespaced).await;
    let app = TestApplication::new(ns, "web").await;
    app.apply(app.environment("0.0.1", 1, ALL_IN)).await;
    let first = app.completed(0).await;
    enforce(ns, "rollout-blocks").await;
    let block_name = blocked(ns, "frozen").await;
    let template = |version: &str| json!({ "template": app.environment(version, 1, ALL_IN) });
    let live = ns.live(&app.entry()).await;
    let limit = |round: u64| json!({ "spec": { "revisionHistoryLimit": round } });
    let refused = refusal(ns, &live, limit).await;
    let text = format!("rollout block(s) with name(s) \"{block_name}\" exist: holidays");
    assert!(refused.contains(&text), "{refused}");
    // Other Applications are not created, Releases are not deleted; metadata may be edited.
    let other = TestApplication::kind("Application", "other").with("/spec", template("0.0.1"));
    let other = ns.reference(&other);
    let refused = ns.cluster().create(&other).await.unwrap_err().message;
    assert!(refused.contains(&text), "{refused}");
    let refused = ns.cluster().try_delete(&first).await.unwrap_err().message;
    assert!(refused.contains(&text), "{refused}");
    let mut overriding = other.clone();
    overriding["metadata"]["annotations"] = json!({ ANNOTATION_BLOCK_OVERRIDE: block_name });
    ns.cluster().create(&overriding).await.unwrap();
    ns.cluster().delete(&overriding, "Background").await;
    set_override(ns, &live, &block_name).await;
    app.apply(app.environment("0.0.2", 1, ALL_IN)).await;
    app.has_pods(&app.completed(1).await, 1).await;

    // A block that is being deleted applies no more.
    let held_by = |finalizers: Value| json!({ "metadata": { "finalizers": finalizers } });
    let frozen = TestApplication::block("frozen");
    ns.merge(&frozen, &held_by(json!(["example.com/held"])))
        .await;
    ns.cluster()
        .delete(&ns.reference(&frozen), "Background")
        .await;
    set_override(ns, &live, "").await;
    ns.eventually("the edit to be admitted", async || {
        let edit = json!({ "spec": { "revisionHistoryLimit": 7 } });
        ns.cluster().merge(&live, &edit).await.is_ok()
    })
    .await;
    ns.merge(&frozen, &held_by(Value::Null)).await;
    ns.gone(&frozen).await;
}
