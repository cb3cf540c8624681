//! Applications, deployments and the sites of a test.
//!
//! ```ignore
//! let fleet = Fleet::new(&ns);
//! let edge = site.join(&ns).named("edge").create().await;
//! fleet.add(&edge).await;                                  // selected by `Fleet::expression`
//! fleet.application(&version("1.0.0")).await;
//! fleet.deployment("web", json!({})).await;
//! fleet.becomes("web", "complete", |live| reason(live, "Progressing")[0] == "Complete").await;
//! ```

use serde_json::{Value, json};

use crate::application::reason;
use crate::endpoint::Endpoint;
use crate::manifest::{Entry, configmap, fields_equal, object};
use crate::namespace::{TIMEOUT, TestNamespace};
use crate::polls::Polls;
use crate::sites::Joined;

/// The API group and version of the kinds.
const API_VERSION: &str = "baton.run/v1alpha1";
/// The label that selects the sites of a test.
pub const LABEL: &str = "baton.run/test";
/// Name of the application of a test.
pub const APPLICATION: &str = "shop";

/// The sites of a test, and the versions that are rolled out to them.
#[derive(Clone, Copy)]
pub struct Fleet<'a> {
    /// The namespace of the fleet.
    pub ns: &'a TestNamespace,
}

/// Returns the object that each version has.
#[must_use]
pub fn settings() -> Entry {
    configmap("settings")
}

/// Returns a version of the application: one `ConfigMap`, which is available if both of its values
/// are equal.
#[must_use]
pub fn version(version: &str) -> Value {
    version_with(version, version)
}

/// As [`version`], with another second value.
#[must_use]
pub fn version_with(version: &str, other: &str) -> Value {
    let settings = settings().data("version", version).data("other", other);
    spec(version, &[settings])
}

/// Returns the objects of a version that has an object of its own beside the settings.
#[must_use]
pub fn with_own(version: &str) -> [Entry; 2] {
    let own = configmap(&format!("only-{version}"));
    [settings(), own].map(|entry| entry.data("version", version).data("other", version))
}

/// Returns a version of the application with these objects.
#[must_use]
pub fn spec(version: &str, objects: &[Entry]) -> Value {
    let objects: Vec<_> = objects.iter().map(|it| it.clone().into_json()).collect();
    json!({
        "version": version,
        "template": {"spec": {
            "phases": [{ "name": "objects", "objects": objects }],
            "availabilityProbes": [
                fields_equal("", "ConfigMap", ".data.version", ".data.other"),
            ],
        }},
    })
}

impl<'a> Fleet<'a> {
    /// Returns the fleet of a namespace.
    #[must_use]
    pub fn new(ns: &'a TestNamespace) -> Self {
        Self { ns }
    }

    /// Returns the expression that selects the sites of the test.
    #[must_use]
    pub fn expression(&self) -> String {
        format!("{LABEL} = {}", self.ns.name())
    }

    /// Sets a label of a site; `null` removes it.
    pub async fn label(&self, site: &Joined, key: &str, value: impl Into<Value>) {
        let patch = json!({ "metadata": { "labels": { key: value.into() } } });
        let cluster = self.ns.cluster();
        cluster.merge(&site.reference(), &patch).await.unwrap();
    }

    /// Makes a cluster a site of the test.
    pub async fn add(&self, site: &Joined) {
        self.label(site, LABEL, self.ns.name()).await;
    }

    /// Creates the application, or replaces its spec.
    pub async fn application(&self, spec: &Value) {
        let entry = Self::kind("SiteApplication", APPLICATION).with("/spec", spec.clone());
        let entry = self.ns.reference(&entry);
        let cluster = self.ns.cluster();
        cluster.apply(&entry, "tests").await.unwrap();
    }

    /// Creates a deployment to the sites of the test, with these additional fields of the spec.
    pub async fn deployment(&self, name: &str, fields: Value) {
        let mut spec = json!({
            "application": APPLICATION,
            "placement": { "matchSiteLabels": self.expression() },
        });
        for (field, value) in fields.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        self.ns
            .create(&Self::kind("SiteDeployment", name).with("/spec", spec))
            .await;
    }

    /// Changes the spec of a deployment.
    pub async fn change(&self, name: &str, spec: Value) {
        let entry = Self::kind("SiteDeployment", name);
        self.ns.merge(&entry, &json!({ "spec": spec })).await;
    }

    /// Returns an entry of one of the API group's kinds.
    #[must_use]
    pub fn kind(kind: &str, name: &str) -> Entry {
        object(API_VERSION, kind, name)
    }

    /// Waits until the deployment's status is current and a predicate holds, and returns the
    /// deployment.
    pub async fn becomes(&self, name: &str, text: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let polls = Polls::start();
        let entry = Self::kind("SiteDeployment", name);
        loop {
            let live = self.ns.live(&entry).await;
            let is_current = live["status"]["observedGeneration"] == live["metadata"]["generation"];
            if is_current && holds(&live) {
                return live;
            }
            if polls.elapsed() > TIMEOUT {
                let yaml = serde_saphyr::to_string(&live).unwrap();
                panic!("SiteDeployment {name} was to be {text}, and is\n{yaml}");
            }
            polls.pause().await;
        }
    }

    /// Waits until a version is complete in this number of sites.
    pub async fn complete(&self, name: &str, version: &str, healthy: i32) -> Value {
        let text = format!("complete with {version} in {healthy} sites");
        let holds = |live: &Value| {
            let status = &live["status"];
            reason(live, "Progressing")[0] == "Complete"
                && status["version"] == version
                && status["counts"]["healthy"] == healthy
        };
        self.becomes(name, &text, holds).await
    }

    /// Returns the revisions of a deployment in a site, the oldest first.
    pub async fn revisions(&self, deployment: &str, site: &Joined) -> Vec<Value> {
        let like = object("package-operator.run/v1alpha1", "ObjectSet", "");
        let selector = format!(
            "baton.run/site-deployment={deployment},baton.run/site={}",
            site.name()
        );
        let cluster = self.ns.cluster();
        let mut found = cluster.list(&self.ns.reference(&like), &selector).await;
        found.sort_by_key(|it| it["spec"]["revision"].as_i64());
        found
    }

    /// Returns the versions of the application that have a record, the oldest first.
    pub async fn kept(&self) -> Vec<String> {
        let mut records = self.records("baton.run/site-application").await;
        records.sort_by_key(|it| it["revision"].as_i64());
        let version = |it: &Value| it["data"]["version"].as_str().unwrap().to_owned();
        records.iter().map(version).collect()
    }

    /// Returns the `ControllerRevisions` with a label.
    pub async fn records(&self, label: &str) -> Vec<Value> {
        let like = object("apps/v1", "ControllerRevision", "");
        let like = self.ns.reference(&like);
        self.ns.cluster().list(&like, label).await
    }

    /// Returns the version of the object in a site, or `None` without an object. The site may be
    /// the hub under another name.
    pub async fn version_in(&self, site: &Joined) -> Option<String> {
        let cluster = site.read().await?;
        let hub = Endpoint::of_bed(self.ns.cluster().kubeconfig()).url();
        let is_hub = cluster["spec"]["apiMaster"] == hub;
        let live = if is_hub {
            self.ns.get(&settings()).await?
        } else {
            site.site().read(self.ns, &settings()).await?
        };
        live["data"]["version"].as_str().map(ToOwned::to_owned)
    }

    /// Waits until a site has the object of a version, or no object.
    pub async fn has_version(&self, site: &Joined, version: Option<&str>) {
        let text = format!("site {} to have version {version:?}", site.name());
        let has = async || self.version_in(site).await.as_deref() == version;
        self.ns.eventually(&text, has).await;
    }
}

/// Returns the annotation `baton.run/site` of a revision, which has its place in the site's queue.
#[must_use]
pub fn entry(revision: &Value) -> Value {
    let annotation = &revision["metadata"]["annotations"]["baton.run/site"];
    serde_json::from_str(annotation.as_str().unwrap()).unwrap()
}
