//! Forged revisions in the chains of an Application, which is rolled out in the hub and in a site.

use baton_integration::application::{ALL_IN, TestApplication, condition, name};
use baton_integration::exclusive::Exclusive;
use baton_integration::forged;
use baton_integration::prelude::*;

use super::observer::{Column, Findings, Observer};

/// The versions of the chart, in the order of their rollout. The last one is a rollback.
const VERSIONS: [&str; 3] = ["0.0.1", "0.0.2", "0.0.1"];

/// Rolls out three versions, the second one beside revisions with the highest number.
pub(super) async fn under_forged_numbers() -> Findings {
    let bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    let app = TestApplication::new(&ns, "web").await;
    let service = ns.reference(&object("v1", "Service", "any"));
    let mut observers = Vec::new();
    for (place, at) in ["hub", "site"].into_iter().zip(&app.clusters) {
        observers.push(Observer::start(place, at.cluster.clone(), service.clone()).await);
    }
    let mut forged = Vec::new();
    for (generation, version) in (0..).zip(VERSIONS) {
        app.apply(app.environment(version, 1, ALL_IN)).await;
        if !forged.is_empty() {
            // The Release may say that the revisions have to be deleted.
            let is_over = |release: &Value| {
                condition(release, "Complete") == "True" || forged::is_named(release)
            };
            app.becomes(generation, "complete or blocked", is_over)
                .await;
        }
        for object in forged.drain(..) {
            ns.cluster().delete(&object, "Background").await;
        }
        let release = app.completed(generation).await;
        app.has_pods(&release, 1).await;
        if generation == 0 {
            forged = forged::in_chains(&app, &release).await;
        }
    }
    let mut findings = Findings::default();
    let last = app.release(2).await;
    for (observer, service) in observers.iter_mut().zip(app.services().await) {
        if service["spec"]["selector"]["shipper-release"] != name(&last) {
            findings.add(Column::Skipped, format!("the traffic goes by {service}"));
        }
        observer.judge(&mut findings).await;
    }
    for pods in app.ready_pods(&app.release(1).await).await {
        if pods > 0 {
            let text = format!("{pods} pods of the second Release");
            findings.add(Column::LeftOver, text);
        }
    }
    findings
}
