//! A deployment whose revision Package Operator has created, with a hash that no other program can
//! compute.

use baton_integration::endpoint::Endpoint;
use baton_integration::exclusive::Exclusive;
use baton_integration::faults::{Answer, Faults, Gate, ObservedRequest, On, Verb};
use baton_integration::manager::Manager;
use baton_integration::namespace::TIMEOUT;
use baton_integration::prelude::*;
use baton_integration::set::SetBuilder;
use baton_integration::takeover::Shape;

use crate::requests::settle;

alternating_scopes! {
    a_foreign_hash_causes_no_new_revision;
}

/// A text with the format of Package Operator's hash, which cannot be computed here.
const HASH: &str = "7c5d9bf6c4";

fn objects() -> [Entry; 2] {
    ["settings", "more-settings"].map(|name| configmap(name).data("colour", "blue"))
}

async fn states(ns: &TestNamespace) -> Vec<Value> {
    let mut states = Vec::new();
    for entry in objects() {
        let live = ns.live(&entry).await;
        let metadata = &live["metadata"];
        states.push(json!([metadata["uid"], metadata["resourceVersion"]]));
    }
    states
}

fn content(ns: &TestNamespace) -> SetBuilder<'_> {
    ns.content()
        .phase("a", [objects()[0].clone()])
        .phase("b", [objects()[1].clone()])
        .probe(passing())
}

fn passing() -> Value {
    fields_equal("", "ConfigMap", ".metadata.name", ".metadata.name")
}

/// Creates a deployment with a revision that Package Operator has rolled out.
async fn rolled_out_by_package_operator(ns: &TestNamespace) -> Revision {
    let manifest = ns.deployment("web").content(content(ns)).manifest();
    let template = manifest["spec"]["template"].clone();
    let deployment = ns
        .deployment_left_behind("web", template, HASH)
        .await
        .unwrap();
    let labels = deployment["spec"]["template"]["metadata"]["labels"].clone();
    let mut set = ns
        .set(&format!("web-{HASH}"))
        .revision(1)
        .phase("a", [objects()[0].clone()])
        .phase("b", [objects()[1].clone()])
        .probe(passing());
    for (label, value) in labels.as_object().unwrap() {
        set = set.label(label, value.as_str().unwrap());
    }
    ns.left_behind(set, Shape::Mixed)
        .made_by(&deployment, HASH)
        .create()
        .await
}

/// Waits for the fields that only the manager writes. All other fields have their final values from
/// the start.
async fn until_taken_over(web: &TestDeployment<'_>) {
    let wanted = [Phase("Available"), Is("Succeeded", "True")];
    let is_observed =
        |live: &Value| live["status"]["observedGeneration"] == live["metadata"]["generation"];
    let start = std::time::Instant::now();
    loop {
        let set = web.set_reaches(1, &wanted).await;
        let is_marked = !annotation(&set.json, "baton.run/template-metadata").is_empty();
        if is_marked && is_observed(&set.json) && is_observed(&web.read().await.json) {
            return;
        }
        let set = &set.json;
        assert!(start.elapsed() <= TIMEOUT, "not taken over yet: {set:#}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Fails unless a manager has made only the necessary changes since its start: the mark of the
/// template's metadata, and the statuses of the revision and of the deployment.
///
/// The deployment's controller writes the mark, and the revision's controller writes the first
/// status. If both write at the same time, the later write is refused and decided again, so only
/// successful writes are counted.
fn assert_cost(manager: &Manager) {
    let metrics = manager.metrics();
    let done = |verb| metrics.successes(verb);
    assert_eq!(
        (done("patch"), done("apply"), metrics.requests("dry-run")),
        (1, 0, 0),
        "{metrics:#?}"
    );
    assert!(done("status") <= 3, "{metrics:#?}");
    assert_eq!(
        done("create") + done("update") + done("delete"),
        0,
        "{metrics:#?}"
    );
}

/// The content of the revision matches the template, so the revision stays current, and none of its
/// objects is recreated or rewritten. The next change replaces this revision.
async fn a_foreign_hash_causes_no_new_revision(scope: Scope) {
    let mut bed = Exclusive::acquire().await;
    let ns = bed.namespace(scope).await;
    bed.take_manager().kill();
    let set = rolled_out_by_package_operator(&ns).await;
    let before = states(&ns).await;

    bed.start_manager();
    let web = ns.existing("web");
    until_taken_over(&web).await;
    settle(&ns, &bed).await;
    assert_cost(bed.manager());
    let current = web.has_sets(&[1]).await;
    assert_eq!(current[0].uid(), set.uid());
    assert_eq!(states(&ns).await, before);
    let reported = web.concluded().await;
    assert_eq!(reported.json["status"]["templateHash"], HASH);
    assert_eq!(reported.json["status"]["collisionCount"], Value::Null);

    // A restart of the same content is a new revision nevertheless, and so is the next content.
    let restart = json!({"spec": {"template": {"metadata": {
        "annotations": { "baton.run/restartedAt": "2026-01-01T00:00:00Z" },
    }}}});
    web.patch(&restart).await;
    let second = web.set_reaches(2, &[Is("Available", "True")]).await;
    assert_eq!(previous(&second), [set.name()]);
    assert_ne!(annotation(&second.json, "package-operator.run/hash"), HASH);
    web.set_reaches(1, &[Is("Archived", "True")]).await;
    web.edit(content(&ns).phase("c", [configmap("new")])).await;
    web.set_reaches(3, &[Is("Available", "True"), Is("Succeeded", "True")])
        .await;
    web.set_reaches(2, &[Is("Archived", "True")]).await;
    let after = states(&ns).await;
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(before[0], after[0], "an object was created again");
    }
}

/// The mark is in transit while the first status of the revision is written.
#[tokio::test]
async fn the_mark_of_a_takeover_may_overlap_a_status_write() {
    let mut bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    bed.take_manager().kill();
    let set = rolled_out_by_package_operator(&ns).await;
    let before = states(&ns).await;
    let faults = Faults::start(&Endpoint::of_bed(bed.cluster().kubeconfig())).await;
    let gate = Gate::default();
    let mark = On::verb(Verb::Patch).path(&format!("/objectsets/{}$", set.name()));
    let held = faults.inject(mark.times(1), Answer::Held(gate.clone()));
    let manager = bed
        .manager_through(&faults, &["--leader-elect=false"])
        .await;
    held.used(1).await;
    let status = format!("/objectsets/{}/status", set.name());
    let is_reported =
        |request: &ObservedRequest| request.path.ends_with(&status) && request.carried_out;
    faults
        .until("the first status", |requests| {
            requests.iter().any(is_reported)
        })
        .await;
    gate.open();
    until_taken_over(&ns.existing("web")).await;
    let refused = faults.requests();
    let refused = refused
        .iter()
        .filter(|request| request.is_write() && request.status == 409);
    let refused: Vec<_> = refused.map(|request| request.verb).collect();
    assert_eq!(refused, [Verb::Patch]);
    assert_cost(&manager);
    assert_eq!(states(&ns).await, before);
}
