//! A deployment whose revision Package Operator made, for a hash that nobody else can compute.

use baton_integration::exclusive::Exclusive;
use baton_integration::prelude::*;
use baton_integration::set::SetBuilder;
use baton_integration::takeover::Shape;

use crate::requests::{Count, settle};

both_scopes! {
    a_foreign_hash_causes_no_new_revision;
}

/// What Package Operator computes is not known here; any text of its form will do.
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

/// The content of the revision is what the template asks for, so it stays the current one, and not
/// one of its objects is made anew or rewritten. The next change goes on from it.
async fn a_foreign_hash_causes_no_new_revision(scope: Scope) {
    let mut bed = Exclusive::acquire().await;
    let ns = bed.namespace(scope).await;
    bed.take_manager().kill();
    let content = || {
        ns.content()
            .phase("a", [objects()[0].clone()])
            .phase("b", [objects()[1].clone()])
            .probe(fields_equal(
                "",
                "ConfigMap",
                ".metadata.name",
                ".metadata.name",
            ))
    };
    let template = |content: SetBuilder<'_>| {
        let manifest = ns.deployment("web").content(content).manifest();
        manifest["spec"]["template"].clone()
    };
    let deployment = ns
        .deployment_left_behind("web", template(content()), HASH)
        .await
        .unwrap();
    let labels = deployment["spec"]["template"]["metadata"]["labels"].clone();
    let mut set = ns
        .set(&format!("web-{HASH}"))
        .revision(1)
        .phase("a", [objects()[0].clone()])
        .phase("b", [objects()[1].clone()])
        .probe(fields_equal(
            "",
            "ConfigMap",
            ".metadata.name",
            ".metadata.name",
        ));
    for (label, value) in labels.as_object().unwrap() {
        set = set.label(label, value.as_str().unwrap());
    }
    let set = ns
        .left_behind(set, Shape::Mixed)
        .made_by(&deployment, HASH)
        .create()
        .await;
    let before = states(&ns).await;

    bed.start_manager();
    let count = Count::since_start();
    let web = ns.existing("web");
    let current = web
        .set_reaches(1, &[Phase("Available"), Is("Succeeded", "True")])
        .await;
    settle(&ns, &bed).await;
    assert_eq!(web.has_sets(&[1]).await.len(), 1);
    assert_eq!(current.json["metadata"]["uid"], set.json["metadata"]["uid"]);
    assert_eq!(states(&ns).await, before);
    let reported = web.concluded().await;
    assert_eq!(reported.json["status"]["templateHash"], HASH);
    assert_eq!(reported.json["status"]["collisionCount"], Value::Null);
    let counts = count.so_far(&bed);
    let of = |verb: &str| counts.get(verb).copied().unwrap_or_default();
    // The mark of the template's metadata, and what the revision and the deployment are like.
    assert_eq!(
        (of("patch"), of("apply"), of("dry-run")),
        (1, 0, 0),
        "{counts:?}"
    );
    assert!(of("status") <= 3, "{counts:?}");

    // A restart of the same content is still a new revision, and the next content as well.
    let restart = json!({"spec": {"template": {"metadata": {
        "annotations": { "baton.run/restartedAt": "2026-01-01T00:00:00Z" },
    }}}});
    web.patch(&restart).await;
    let second = web.set_reaches(2, &[Is("Available", "True")]).await;
    assert_eq!(previous(&second), [set.name()]);
    assert_ne!(annotation(&second.json, "package-operator.run/hash"), HASH);
    web.set_reaches(1, &[Is("Archived", "True")]).await;
    web.edit(content().phase("c", [configmap("new")])).await;
    web.set_reaches(3, &[Is("Available", "True"), Is("Succeeded", "True")])
        .await;
    web.set_reaches(2, &[Is("Archived", "True")]).await;
    let after = states(&ns).await;
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(before[0], after[0], "an object was made anew");
    }
}
