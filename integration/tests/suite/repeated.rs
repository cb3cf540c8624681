//! A program deletes each new object of a kind at once. Baton stops to create it, and says so.

use std::collections::BTreeSet;
use std::time::Instant;

use baton_apis::constants::{LABEL_CHAIN, LABEL_SITE_APPLICATION, LABEL_SITE_DEPLOYMENT};
use baton_integration::application::{ALL_IN, TestApplication, name};
use baton_integration::fleet::{APPLICATION, Fleet, version};
use baton_integration::prelude::*;
use baton_integration::sites::{PUSH, Site, join_hub};
use tokio::time::sleep;

use crate::agent::Pulled;

const OWN_API: &str = "package-operator.run/v1alpha1";

/// The time for which the program runs.
const TIME: Duration = Duration::from_secs(30);
/// The time between two looks of the program.
const INTERVAL: Duration = Duration::from_millis(100);
/// Five creations without a delay, one after ten seconds, and one after 20 more; the first one may be
/// older than the program.
const MOST: usize = 8;

/// Runs the program, and checks that a status says that the object is created no more.
async fn is_braked(ns: &TestNamespace, (api, kind): (&str, &str), labels: &str, owner: &Entry) {
    let like = ns.reference(&object(api, kind, ""));
    is_bounded(ns, &like, labels, |_| true).await;
    ns.object_becomes(owner, "said to wait", is_said).await;
}

/// True if a status says that the next creation waits.
fn is_said(live: &Value) -> bool {
    live["status"].to_string().contains("times in a row")
}

/// Runs the program, and checks the number of objects that it has deleted.
async fn is_bounded(
    ns: &TestNamespace,
    like: &Value,
    labels: &str,
    is_meant: impl Fn(&Value) -> bool,
) {
    let (start, mut seen) = (Instant::now(), BTreeSet::new());
    while start.elapsed() < TIME {
        for found in ns.cluster().list(like, labels).await {
            let metadata = &found["metadata"];
            if metadata["deletionTimestamp"].is_null() && is_meant(&found) {
                seen.insert(uid(&found).to_owned());
                let mut reference = like.clone();
                reference["metadata"]["name"] = metadata["name"].clone();
                ns.cluster().delete(&reference, "Background").await;
            }
        }
        sleep(INTERVAL).await;
    }
    let kind = &like["kind"];
    println!("{kind}: {} deleted", seen.len());
    assert!((5..=MOST).contains(&seen.len()), "{kind}: {}", seen.len());
}

async fn fleet(ns: &TestNamespace) -> Fleet<'_> {
    let fleet = Fleet::new(ns);
    let hub = join_hub(ns, &Site::get(PUSH).await).await;
    fleet.add(&hub).await;
    fleet.application(&version("1.0.0")).await;
    fleet.deployment("web", json!({})).await;
    fleet.complete("web", "1.0.0", 1).await;
    fleet
}

#[tokio::test]
async fn revisions_of_a_deployment() {
    let ns = &TestNamespace::new(Scope::Namespaced).await;
    let content = ns.content().phase("a", [configmap("cm")]);
    let web = ns.deployment("web").content(content).create().await;
    web.concluded_as(1).await;
    let owner = object(OWN_API, "ObjectDeployment", "web");
    is_braked(ns, (OWN_API, "ObjectSet"), "", &owner).await;
}

#[tokio::test]
async fn phases_of_a_revision() {
    let ns = &TestNamespace::new(Scope::Namespaced).await;
    let revision = ns.revision(1).delegated("a", "default", [configmap("cm")]);
    revision.reaching(&[Is("Available", "True")]).await;
    let owner = object(OWN_API, "ObjectSet", "v1");
    is_braked(ns, (OWN_API, "ObjectSetPhase"), "", &owner).await;
}

#[tokio::test]
async fn mirrors_for_an_agent() {
    let pulled = Pulled::new(Scope::Namespaced).await;
    pulled.deliver([configmap("cm")]).await;
    let mirrors = pulled.joined.mirrored().await;
    let mut like = json!({ "apiVersion": OWN_API, "kind": "ObjectSetPhase" });
    like["metadata"] = json!({ "namespace": mirrors[0]["metadata"]["namespace"], "name": "" });
    let name = &mirrors[0]["metadata"]["name"];
    let is_mirror = |found: &Value| found["metadata"]["name"] == *name;
    is_bounded(&pulled.ns, &like, "", is_mirror).await;
    let phase = object(OWN_API, "ObjectSetPhase", "v1-a");
    pulled
        .ns
        .object_becomes(&phase, "said to wait", is_said)
        .await;
}

#[tokio::test]
async fn revisions_of_a_site() {
    let ns = &TestNamespace::new(Scope::Namespaced).await;
    fleet(ns).await;
    let owner = Fleet::kind("SiteDeployment", "web");
    is_braked(ns, (OWN_API, "ObjectSet"), LABEL_SITE_DEPLOYMENT, &owner).await;
}

#[tokio::test]
async fn versions_of_an_application() {
    let ns = &TestNamespace::new(Scope::Namespaced).await;
    fleet(ns).await;
    let owner = Fleet::kind("SiteApplication", APPLICATION);
    let record = ("apps/v1", "ControllerRevision");
    is_braked(ns, record, LABEL_SITE_APPLICATION, &owner).await;
}

#[tokio::test]
async fn slices_of_an_application() {
    let ns = &TestNamespace::new(Scope::Namespaced).await;
    fleet(ns).await;
    let owner = Fleet::kind("SiteApplication", APPLICATION);
    is_braked(ns, (OWN_API, "ObjectSlice"), "", &owner).await;
}

#[tokio::test]
async fn chosen_sites_of_a_deployment() {
    let ns = &TestNamespace::new(Scope::Namespaced).await;
    fleet(ns).await;
    let owner = Fleet::kind("SiteDeployment", "web");
    let record = ("apps/v1", "ControllerRevision");
    is_braked(ns, record, LABEL_SITE_DEPLOYMENT, &owner).await;
}

/// Rolls a chart out in the hub and in a site, and returns the Release.
async fn release(ns: &TestNamespace) -> Value {
    let app = TestApplication::new(ns, "web").await;
    app.apply(app.environment("0.0.1", 1, ALL_IN)).await;
    app.completed(0).await
}

#[tokio::test]
async fn targets_of_a_release() {
    let ns = &TestNamespace::new(Scope::Namespaced).await;
    let owner = TestApplication::kind("Release", name(&release(ns).await));
    let target = ("shipper.booking.com/v1alpha1", "CapacityTarget");
    is_braked(ns, target, "", &owner).await;
}

/// Only the revisions of one cluster are deleted.
#[tokio::test]
async fn revisions_of_a_release() {
    let ns = &TestNamespace::new(Scope::Namespaced).await;
    let owner = TestApplication::kind("InstallationTarget", name(&release(ns).await));
    let like = ns.reference(&object(OWN_API, "ObjectSet", "any"));
    let revisions = ns.cluster().list(&like, "").await;
    let chain = revisions[0]["metadata"]["labels"][LABEL_CHAIN].as_str();
    let labels = format!("{LABEL_CHAIN}={}", chain.unwrap());
    is_braked(ns, (OWN_API, "ObjectSet"), &labels, &owner).await;
}
