//! Objects that another client changes or deletes as often as they are repaired.

use baton_integration::prelude::*;
use tokio::{task::JoinHandle, time::sleep};

alternating_scopes! {
    a_field_that_is_changed_again_at_once_is_disputed;
}

/// The class of phases that the manager runs itself.
const CLASS: &str = "default";

/// The change that another client makes.
#[derive(Clone, Copy)]
enum Foreign {
    Field,
    Deletion,
}

/// Time between two reads of a client that waits for a repair.
const INTERVAL: Duration = Duration::from_millis(50);

/// A client that reverts each repair at once, until it is aborted.
fn intruder(ns: &TestNamespace, entry: &Entry, change: Foreign) -> JoinHandle<()> {
    let (cluster, reference) = (ns.cluster().clone(), ns.reference(entry));
    tokio::spawn(async move {
        loop {
            let live = cluster.get(&reference).await;
            match (&change, live) {
                (Foreign::Field, Some(live)) if live["data"]["k"] == "v" => {
                    let mut theirs = reference.clone();
                    theirs["data"] = json!({ "k": "theirs" });
                    cluster.apply(&theirs, "intruder").await.unwrap();
                }
                (Foreign::Deletion, Some(_)) => {
                    cluster.delete(&reference, "Background").await;
                }
                _ => sleep(INTERVAL).await,
            }
        }
    })
}

/// Waits until the repairs are counted: those before the dispute, and one after it.
async fn repairs_are_few(ns: &TestNamespace) {
    let labels = [("baton_namespace", ns.name())];
    let sum = || ns.metrics().sum("baton_repaired_objects_total", &labels);
    ns.eventually("the last repair to be counted", async || {
        sum() >= Some(21.0)
    })
    .await;
    assert!(sum() <= Some(23.0), "{:?}", sum());
}

/// The condition names the object, the field, the manager, and the way out. The other objects are
/// repaired as before. When the other client has stopped, the object is repaired.
async fn a_field_that_is_changed_again_at_once_is_disputed(scope: Scope) {
    let (fought, calm) = (
        configmap("fought").data("k", "v"),
        configmap("calm").data("k", "v"),
    );
    for class in ["", CLASS] {
        let ns = TestNamespace::new(scope).await;
        ns.set("v1")
            .revision(1)
            .phase_of(class, "a", [fought.clone(), calm.clone()])
            .create()
            .await;
        ns.reaches("v1", &[Is("Available", "True"), Is("Succeeded", "True")])
            .await;
        let client = intruder(&ns, &fought, Foreign::Field);
        let text = format!(
            "ConfigMap {}/fought: .data.k is changed by intruder as soon as",
            ns.name()
        );
        ns.reaches(
            "v1",
            &[
                Because("baton.run/Disputed", "True", "Disputed"),
                Says("baton.run/Disputed", &text),
                Says("baton.run/Disputed", "list the field in createOnlyFields"),
                Is("Available", "True"),
            ],
        )
        .await;
        ns.object_becomes(&fought, "changed by the intruder", |live| {
            live["data"]["k"] == "theirs"
        })
        .await;
        // The delay of the next repair has begun: nothing is written for ten seconds.
        let version = ns.live(&fought).await["metadata"]["resourceVersion"].clone();
        ns.merge(&calm, &json!({ "data": { "k": "other" } })).await;
        ns.object_becomes(&calm, "repaired", |live| live["data"]["k"] == "v")
            .await;
        let live = ns.live(&fought).await;
        assert_eq!(live["metadata"]["resourceVersion"], version);
        client.abort();
        ns.object_becomes(&fought, "repaired", |live| live["data"]["k"] == "v")
            .await;
        // All tests share the series of the cluster scope.
        if scope == Scope::Namespaced {
            repairs_are_few(&ns).await;
        }
    }
}

/// A deletion is drift: it has an event, is counted, and `kubectl baton drift` lists it.
#[tokio::test]
async fn an_object_that_is_deleted_again_at_once_is_disputed() {
    let cm = configmap("cm").data("k", "v");
    let ns = TestNamespace::new(Scope::Namespaced).await;
    ns.revision(1)
        .phase("a", [cm.clone()])
        .reaching(&[Is("Available", "True"), Is("Succeeded", "True")])
        .await;
    let client = intruder(&ns, &cm, Foreign::Deletion);
    let text = format!(
        "ConfigMap {}/cm is deleted as soon as it is created",
        ns.name()
    );
    ns.reaches(
        "v1",
        &[
            Says("baton.run/Disputed", &text),
            Says(
                "Available",
                "not found: it is deleted as soon as it is created",
            ),
        ],
    )
    .await;
    client.abort();
    ns.object_becomes(&cm, "created again", |live| !live.is_null())
        .await;
    ns.reaches(
        "v1",
        &[Is("Available", "True"), Is("baton.run/Disputed", "True")],
    )
    .await;
    repairs_are_few(&ns).await;
}
