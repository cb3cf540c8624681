//! The state of an application, to compare the results of two runs.

use std::cell::RefCell;
use std::time::Instant;

use baton_integration::application::{TestApplication, name};
use baton_integration::namespace::TIMEOUT;
use baton_integration::picture::{assert_same, forget};
use baton_integration::prelude::*;

use super::APP;

const SHIPPER: &str = "shipper.booking.com/v1alpha1";
const BATON: &str = "package-operator.run/v1alpha1";

/// Fields that depend on the history, or that other controllers set. The raw version of a chart is
/// that of the last resolved range: an abort leaves it unchanged, and a kill may prevent its
/// update.
const IGNORED_FIELDS: [&str; 17] = [
    "clusterIP",
    "clusterIPs",
    "contentHash",
    "example",
    "generation",
    "lastUpdateTime",
    "managedFields",
    "observedGeneration",
    "previous",
    "revision",
    "terminatingReplicas",
    "deployment.kubernetes.io/revision",
    "package-operator.run/revision",
    "shipper.booking.com/app.chart.version.raw",
    "shipper.booking.com/app.highestObservedGeneration",
    "shipper.booking.com/release.generation",
    "shipper.booking.com/release.template.iteration",
];

/// Returns the Application and all its objects on the hub and in its clusters. Releases are named
/// by their age.
async fn picture(app: &TestApplication<'_>) -> Vec<String> {
    let ns = app.ns;
    let labels = format!("shipper-app={APP}");
    let list = async |api: &str, kind: &str, labels: &str| {
        let like = ns.reference(&object(api, kind, "any"));
        ns.cluster().list(&like, labels).await
    };
    let releases = app.releases().await;
    let sets = list(BATON, "ObjectSet", &labels).await;
    let phases = list(BATON, "ObjectSetPhase", "").await;
    let slices = list(BATON, "ObjectSlice", "").await;

    let mut words = Vec::new();
    let mut objects = list(SHIPPER, "Application", "").await;
    for kind in ["InstallationTarget", "CapacityTarget", "TrafficTarget"] {
        objects.extend(list(SHIPPER, kind, &labels).await);
    }
    for (age, release) in releases.iter().rev().enumerate() {
        words.push((name(release).to_owned(), format!("release{age}")));
        let hash = release["metadata"]["labels"]["shipper-release-hash"].as_str();
        words.push((hash.unwrap_or_default().to_owned(), "hash".to_owned()));
    }
    // The names of these objects end with a part that differs per object.
    for object in sets.iter().chain(&slices) {
        let begin = name(object).rsplit_once('-').map_or("", |(begin, _)| begin);
        words.push((name(object).to_owned(), begin.to_owned()));
    }
    objects.extend(releases);
    objects.extend(sets);
    objects.extend(phases);
    let mut texts = vec![format!("{} slices", slices.len())];
    for (at, app_cluster) in app.clusters.iter().enumerate() {
        words.push((app_cluster.joined.name().to_owned(), format!("cluster{at}")));
        for kind in ["Deployment", "StatefulSet"] {
            let like = ns.reference(&object("apps/v1", kind, "any"));
            for mut found in app_cluster.cluster.list(&like, "").await {
                found["status"]["conditions"].take();
                objects.push(found);
            }
        }
        let like = ns.reference(&object("v1", "Service", "any"));
        let services = app_cluster.cluster.list(&like, "").await;
        objects.extend(services);
    }
    texts.push(format!("served {:?}", app.addresses().await));
    for object in &objects {
        words.push((uid(object).to_owned(), name(object).to_owned()));
    }
    // A name may be the beginning of another one, so long words are replaced first. UIDs precede
    // all of them and become names.
    words.retain(|(from, _)| !from.is_empty());
    words.sort_by_key(|(from, _)| std::cmp::Reverse(from.len()));
    words.sort_by_key(|(from, _)| !objects.iter().any(|object| uid(object) == from));
    for mut object in objects {
        forget(&mut object);
        strip(&mut object);
        let mut text = object.to_string();
        for (from, to) in &words {
            text = text.replace(from.as_str(), to);
        }
        texts.push(text);
    }
    texts.sort();
    texts
}

/// As [`picture`], once no objects of deleted Releases are left, and nothing has changed in twenty
/// polls: objects that are handed back and the shares of traffic follow a moment later.
pub(crate) async fn settled_picture(app: &TestApplication<'_>) -> Vec<String> {
    let last = RefCell::new((Vec::new(), 0));
    app.ns
        .eventually("nothing to change any more", async || {
            let has_leftovers = has_leftovers(app).await;
            let now = picture(app).await;
            let (before, rounds) = &mut *last.borrow_mut();
            let is_same = *before == now && !has_leftovers;
            *rounds = if is_same { *rounds + 1 } else { 0 };
            *before = now;
            *rounds >= 20
        })
        .await;
    last.into_inner().0
}

async fn has_leftovers(app: &TestApplication<'_>) -> bool {
    let releases = app.releases().await;
    let labels = format!("shipper-app={APP}");
    let mut objects = releases.clone();
    for (api, kind) in [
        (SHIPPER, "InstallationTarget"),
        (SHIPPER, "CapacityTarget"),
        (SHIPPER, "TrafficTarget"),
        (BATON, "ObjectSet"),
        (BATON, "ObjectSetPhase"),
        (BATON, "ObjectSlice"),
    ] {
        let like = app.ns.reference(&object(api, kind, "any"));
        objects.extend(app.ns.cluster().list(&like, &labels).await);
    }
    let deployments = app.in_clusters("apps/v1", "Deployment", &labels).await;
    objects.extend(deployments.into_iter().flatten());
    objects.iter().any(|object| {
        let owner = &object["metadata"]["labels"]["shipper-release"];
        !object["metadata"]["deletionTimestamp"].is_null()
            || !releases.iter().any(|release| owner == name(release))
    })
}

/// Waits until an application has this state.
pub(crate) async fn becomes(app: &TestApplication<'_>, expected: &[String], text: &str) {
    let start = Instant::now();
    loop {
        let found = picture(app).await;
        if found == expected {
            return;
        }
        if start.elapsed() > TIMEOUT {
            assert_same(&found, expected, text);
            // An object occurs more often, or less often, than expected.
            assert_eq!(found, expected, "{text}");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|field, _| !IGNORED_FIELDS.contains(&field.as_str()));
            fields.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}
