//! Objects that another client makes under names, labels and numbers of the controllers of Releases.

use baton_integration::application::{ALL_IN, TestApplication, condition, name};
use baton_integration::forged::{self, OWN_API, copied};
use baton_integration::prelude::*;

const HIGHEST: i64 = i64::MAX;
const TARGETS: [&str; 3] = ["InstallationTarget", "CapacityTarget", "TrafficTarget"];

/// Returns the objects of a kind in the namespace of the test.
async fn all(ns: &TestNamespace, (api, kind): (&str, &str)) -> Vec<Value> {
    let like = ns.reference(&object(api, kind, "any"));
    ns.cluster().list(&like, "").await
}

/// Slices with other content have the names of those of the Release.
#[tokio::test]
async fn slices_with_other_content_are_not_used() {
    let ns = &TestNamespace::new(Scope::Namespaced).await;
    let app = TestApplication::new(ns, "web").await;
    let environment = app.environment("0.0.1", 1, ALL_IN);
    app.apply(environment.clone()).await;
    app.completed(0).await;
    let slices = all(ns, (OWN_API, "ObjectSlice")).await;
    assert!(!slices.is_empty());
    ns.delete(&app.entry()).await;
    for slice in &slices {
        let entry = object(OWN_API, "ObjectSlice", name(slice));
        ns.gone(&entry).await;
        let objects = json!([configmap("forged").into_json()]);
        ns.create(&entry.with("/objects", objects)).await;
    }
    app.apply(environment).await;
    app.has_pods(&app.completed(0).await, 1).await;
    assert_eq!(ns.get(&configmap("forged")).await, None);
}

/// A Release that another client has made has the highest generation, and no pods.
#[tokio::test]
async fn a_release_with_the_highest_generation_is_named() {
    let ns = &TestNamespace::new(Scope::Namespaced).await;
    let app = TestApplication::new(ns, "web").await;
    app.apply(app.environment("0.0.1", 1, ALL_IN)).await;
    let first = app.completed(0).await;
    let forged = copied(&first, "forged", |copy| {
        let meta = &mut copy["metadata"];
        meta["annotations"]["shipper.booking.com/release.generation"] = json!(HIGHEST.to_string());
        meta["labels"]["shipper-release"] = json!("forged");
        copy["spec"]["environment"]["values"]["replicaCount"] = json!(0);
    });
    ns.cluster().create(&forged).await.unwrap();
    // An Application can be observed before a Release that is older.
    let target = TestApplication::kind("InstallationTarget", "forged");
    ns.eventually("the forged one to be observed", async || {
        ns.get(&target).await.is_some()
    })
    .await;
    app.apply(app.environment("0.0.2", 1, ALL_IN)).await;
    ns.object_becomes(&app.entry(), "blocked by the forged one", |live| {
        live["status"]["conditions"].to_string().contains("forged")
    })
    .await;
    assert_eq!(app.living().await.len(), 2, "no Release is made beside it");
    // The deletion of the newest Release is an abort: the Application returns to the one before.
    ns.cluster().delete(&forged, "Background").await;
    ns.object_becomes(&app.entry(), "back at the first", |live| {
        live["spec"]["template"]["chart"]["version"] == "0.0.1"
    })
    .await;
    app.apply(app.environment("0.0.2", 1, ALL_IN)).await;
    app.has_pods(&app.completed(1).await, 1).await;
}

/// Targets of another client have the name of the next Release.
#[tokio::test]
async fn targets_of_another_client_are_named_and_not_used() {
    let ns = &TestNamespace::new(Scope::Namespaced).await;
    let app = TestApplication::new(ns, "web").await;
    let environment = app.environment("0.0.1", 1, ALL_IN);
    app.apply(environment.clone()).await;
    let first = app.completed(0).await;
    let mut forged = Vec::new();
    for kind in TARGETS {
        let live = ns.live(&TestApplication::kind(kind, name(&first))).await;
        forged.push(copied(&live, name(&first), |copy| {
            copy["metadata"]["ownerReferences"] = json!([]);
        }));
    }
    ns.delete(&app.entry()).await;
    for target in &forged {
        ns.gone(&TestApplication::kind(
            target["kind"].as_str().unwrap(),
            name(target),
        ))
        .await;
        ns.cluster().create(target).await.unwrap();
    }
    app.apply(environment).await;
    for target in &forged {
        let (kind, name) = (target["kind"].as_str().unwrap(), name(target));
        let text = format!("{kind} \"{}/{name}\" does not belong to Release", ns.name());
        app.becomes(0, "blocked by the target", |release| {
            condition(release, "Scheduled") == "False"
                && release["status"]["conditions"]
                    .to_string()
                    .contains(&text.replace('"', "\\\""))
        })
        .await;
        ns.cluster().delete(target, "Background").await;
    }
    app.has_pods(&app.completed(0).await, 1).await;
}

/// Revisions of another client in the chains of the Releases have the highest number.
#[tokio::test]
async fn revisions_with_the_highest_number_are_named() {
    let ns = &TestNamespace::new(Scope::Namespaced).await;
    let app = TestApplication::new(ns, "web").await;
    app.apply(app.environment("0.0.1", 1, ALL_IN)).await;
    let forged = forged::in_chains(&app, &app.completed(0).await).await;
    app.apply(app.environment("0.0.2", 1, ALL_IN)).await;
    app.becomes(1, "blocked by a forged one", forged::is_named)
        .await;
    for object in &forged {
        ns.cluster().delete(object, "Background").await;
    }
    app.has_pods(&app.completed(1).await, 1).await;
}
