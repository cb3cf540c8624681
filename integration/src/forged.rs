//! Objects that another client makes under names, labels and numbers of the controllers.

use baton_apis::limits;
use baton_sites::snapshot::{Content, content};
use serde_json::{Value, json};

use crate::application::{TestApplication, name};
use crate::fleet::{APPLICATION, settings};
use crate::manifest::{Entry, object};
use crate::namespace::TestNamespace;

/// The API group and version of slices and revisions.
pub const OWN_API: &str = "package-operator.run/v1alpha1";

/// Returns the content that the controller derives from a spec of the application.
#[must_use]
pub fn derived(ns: &TestNamespace, spec: &Value) -> Content {
    let spec = serde_json::from_value(spec.clone()).unwrap();
    content((ns.name(), APPLICATION), &spec).unwrap()
}

/// Returns a slice with the object of another version.
#[must_use]
pub fn slice(name: &str) -> Entry {
    let forged = settings().data("version", "forged").data("other", "forged");
    object(OWN_API, "ObjectSlice", name).with("/objects", json!([forged.into_json()]))
}

/// Returns a copy of an object that a client can create.
pub fn copied(live: &Value, name: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut copy = live.clone();
    if copy["kind"].is_null() {
        // Lists of Kubernetes' own kinds do not repeat the kind.
        copy["apiVersion"] = "apps/v1".into();
        copy["kind"] = "ControllerRevision".into();
    }
    copy.as_object_mut().unwrap().remove("status");
    let meta = copy["metadata"].as_object_mut().unwrap();
    meta.retain(|key, _| {
        ["namespace", "labels", "annotations", "ownerReferences"].contains(&&**key)
    });
    copy["metadata"]["name"] = name.into();
    change(&mut copy);
    copy
}

/// Returns copies of a revision with the highest number, with and without its controller.
#[must_use]
pub fn highest(name: &str, live: &Value) -> [Value; 2] {
    [true, false].map(|is_owned| {
        copied(live, &format!("{name}-{is_owned}"), |copy| {
            copy["spec"]["revision"] = limits::NUMBER.into();
            copy["spec"]["previous"].take();
            copy["spec"]["lifecycleState"] = "Paused".into();
            if !is_owned {
                copy["metadata"]["ownerReferences"].take();
            }
        })
    })
}

/// Creates revisions with the highest number in the chains of a Release in both clusters, and returns
/// them.
pub async fn in_chains(app: &TestApplication<'_>, release: &Value) -> Vec<Value> {
    let like = app.ns.reference(&object(OWN_API, "ObjectSet", "any"));
    let labels = format!("shipper-release={}", name(release));
    let mut forged = Vec::new();
    for mut set in app.ns.cluster().list(&like, &labels).await {
        set["apiVersion"] = like["apiVersion"].clone();
        set["kind"] = like["kind"].clone();
        forged.extend(highest(name(&set), &set));
    }
    assert_eq!(forged.len(), 2 * app.clusters.len());
    for object in &forged {
        app.ns.cluster().create(object).await.unwrap();
    }
    forged
}

/// True if a Release says that a revision with the highest number has to be deleted.
#[must_use]
pub fn is_named(release: &Value) -> bool {
    let conditions = &release["status"]["strategy"]["conditions"];
    conditions.to_string().contains("Delete it.")
}
