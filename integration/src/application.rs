//! Shipper Applications, which the manager of the test rolls out over the hub and a site.
//!
//! ```ignore
//! let ns = TestNamespace::new(Scope::Namespaced).await;
//! let app = TestApplication::new(&ns, "web").await;         // two clusters, no Application yet
//! app.apply(app.environment("0.0.1", 4, VANGUARD)).await;
//! app.at_step(0, 0).await;                                  // generation 0 waits at step 0
//! app.promote(0, 1).await;
//! ```

use std::time::Duration;

use baton_hack::charts::Repository;
use baton_hack::paths::Dirs;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::cluster::Cluster;
use crate::endpoint::Endpoint;
use crate::manifest::{Entry, object};
use crate::namespace::{TIMEOUT, TestNamespace};
use crate::network::network;
use crate::polls::Polls;
use crate::sites::{Joined, PUSH, Site};

const API_VERSION: &str = "shipper.booking.com/v1alpha1";
/// A step: its name, capacity and traffic of the incumbent and of the contender.
pub type Step = (&'static str, [u32; 2], [u32; 2]);

/// Everything in one step.
pub const ALL_IN: &[Step] = &[("full on", [0, 100], [0, 100])];

/// One pod, half of the pods, all pods.
pub const VANGUARD: &[Step] = &[
    ("staging", [100, 1], [100, 0]),
    ("50/50", [50, 50], [50, 50]),
    ("full on", [0, 100], [0, 100]),
];

static CHARTS: OnceCell<Repository> = OnceCell::const_new();

/// Returns the repository that all tests share.
pub async fn charts() -> &'static Repository {
    CHARTS
        .get_or_init(async || {
            // The repository outlives the runtime of the first test that needs it.
            let dirs = Dirs::from_env().unwrap();
            let started = network().spawn(async move { Repository::start(&dirs).await });
            started.await.unwrap().unwrap()
        })
        .await
}

/// One of the clusters of an application.
pub struct TestCluster {
    /// The Cluster.
    pub joined: Joined,
    /// A connection to the cluster.
    pub cluster: Cluster,
}

/// An Application and its clusters: the hub and a site.
pub struct TestApplication<'a> {
    /// The namespace of the Application.
    pub ns: &'a TestNamespace,
    /// The clusters, the hub first.
    pub clusters: Vec<TestCluster>,
    name: String,
    region: String,
    repository: String,
}

impl<'a> TestApplication<'a> {
    /// Joins the clusters. Their region is unique to the test, so that the Releases of other tests
    /// are not scheduled there.
    pub async fn new(ns: &'a TestNamespace, name: &str) -> Self {
        let site = Site::get(PUSH).await;
        let url = site.url();
        Self::through(ns, name, &site, &url).await
    }

    /// As [`TestApplication::new`], but the hub reaches this site at `url`, through a network of
    /// the test.
    pub async fn through(ns: &'a TestNamespace, name: &str, site: &Site, url: &str) -> Self {
        let local = join_itself(ns, site).await;
        let remote = site.join(ns).named(&ns.unique("site")).through(url);
        let remote = remote.spec("region", ns.name()).create().await;
        remote.becomes("Connected", "True").await;
        Self::of(ns, name, [local, remote]).await
    }

    /// As [`TestApplication::new`], but an agent serves the site. The caller starts it.
    pub async fn with_agent(ns: &'a TestNamespace, name: &str, site: &Site) -> Self {
        let local = join_itself(ns, site).await;
        let remote = site.join(ns).named(&ns.unique("site")).pull();
        let remote = remote.spec("region", ns.name()).create().await;
        Self::of(ns, name, [local, remote]).await
    }

    /// The Application of these clusters: the hub and a site.
    async fn of(ns: &'a TestNamespace, name: &str, [hub, site]: [Joined; 2]) -> Self {
        let hub_cluster = Cluster::connect(ns.cluster().kubeconfig()).await;
        let site_cluster = site.site().cluster().await;
        let places = [(hub, hub_cluster), (site, site_cluster)];
        let places = places.map(|(joined, cluster)| TestCluster { joined, cluster });
        Self {
            ns,
            clusters: places.into(),
            name: name.to_owned(),
            region: ns.name().to_owned(),
            repository: charts().await.url(),
        }
    }

    /// Returns the Application as an entry, for reads and changes by other clients.
    #[must_use]
    pub fn entry(&self) -> Entry {
        object(API_VERSION, "Application", &self.name)
    }

    /// Returns an entry of one of Shipper's kinds.
    #[must_use]
    pub fn kind(kind: &str, name: &str) -> Entry {
        object(API_VERSION, kind, name)
    }

    /// Returns a `RolloutBlock`.
    #[must_use]
    pub fn block(name: &str) -> Entry {
        let spec = json!({ "message": "holidays", "author": { "type": "user", "name": "jane" } });
        Self::kind("RolloutBlock", name).with("/spec", spec)
    }

    /// Returns the environment of a template: a version of the test chart, the pods per cluster,
    /// and the steps.
    #[must_use]
    pub fn environment(&self, version: &str, replicas: u32, steps: &[Step]) -> Value {
        let step = |(name, capacity, traffic): &Step| {
            json!({
                "name": name,
                "capacity": { "incumbent": capacity[0], "contender": capacity[1] },
                "traffic": { "incumbent": traffic[0], "contender": traffic[1] },
            })
        };
        json!({
            "chart": { "name": "test-nginx", "version": version, "repoUrl": self.repository },
            "values": { "replicaCount": replicas },
            "clusterRequirements": { "regions": [{ "name": self.region, "replicas": self.clusters.len() }] },
            "strategy": { "steps": steps.iter().map(step).collect::<Vec<_>>() },
        })
    }

    /// Creates the Application, or changes its template.
    pub async fn apply(&self, environment: Value) {
        let spec = json!({ "template": environment });
        if self.ns.get(&self.entry()).await.is_some() {
            self.ns.merge(&self.entry(), &json!({ "spec": spec })).await;
        } else {
            self.ns.create(&self.entry().with("/spec", spec)).await;
        }
    }

    /// Returns the Releases, the oldest first.
    pub async fn releases(&self) -> Vec<Value> {
        let like = self.ns.reference(&Self::kind("Release", "any"));
        let labels = format!("shipper-app={}", self.name);
        let mut releases = self.ns.cluster().list(&like, &labels).await;
        releases.sort_by_key(generation);
        releases
    }

    /// Returns the Releases that are not being deleted, the oldest first.
    pub async fn living(&self) -> Vec<Value> {
        let mut releases = self.releases().await;
        releases.retain(|release| release["metadata"]["deletionTimestamp"].is_null());
        releases
    }

    /// Returns the Release of a generation, unless it is being deleted or does not exist.
    pub async fn find(&self, wanted: i64) -> Option<Value> {
        let releases = self.living().await.into_iter();
        let mut releases = releases.filter(|release| generation(release) == wanted);
        releases.next_back()
    }

    /// Returns the Release of a generation, which must exist.
    pub async fn release(&self, wanted: i64) -> Value {
        let found = self.find(wanted).await;
        found.unwrap_or_else(|| panic!("no Release of generation {wanted}"))
    }

    /// Waits until the Release of a generation satisfies a predicate, and returns it.
    pub async fn becomes(&self, wanted: i64, text: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let polls = Polls::start();
        loop {
            let release = self.find(wanted).await;
            if let Some(release) = release.as_ref().filter(|release| holds(release)) {
                return release.clone();
            }
            if polls.elapsed() > TIMEOUT {
                let yaml = serde_saphyr::to_string(&release).unwrap();
                panic!(
                    "Release {wanted} of {} was to become {text}, and is\n{yaml}",
                    self.name
                );
            }
            polls.pause().await;
        }
    }

    /// Waits until a Release has achieved a step and waits for a command.
    pub async fn at_step(&self, wanted: i64, step: i64) -> Value {
        let text = format!("waiting at step {step}");
        self.becomes(wanted, &text, |release| {
            release["status"]["achievedStep"]["step"] == step
                && release["spec"]["targetStep"] == step
                && release["status"]["strategy"]["state"]["waitingForCommand"] == "True"
        })
        .await
    }

    /// Waits until a Release is complete and waits for nothing.
    pub async fn completed(&self, wanted: i64) -> Value {
        self.becomes(wanted, "complete", |release| {
            let state = release["status"]["strategy"]["state"].as_object();
            condition(release, "Complete") == "True"
                && state.is_some_and(|state| state.values().all(|value| value == "False"))
        })
        .await
    }

    /// Fails if a Release leaves a step within two seconds, or the pods that it is to have change. For a
    /// Release that was promoted and must wait.
    pub async fn stays_at_step(&self, wanted: i64, step: i64) {
        let target = Self::kind("CapacityTarget", name(&self.release(wanted).await));
        let before = self.ns.live(&target).await["spec"].clone();
        self.ns
            .stays(Duration::from_secs(2), "the step", async || {
                let status = self.release(wanted).await["status"].take();
                status["achievedStep"]["step"] == step
                    && status["strategy"]["state"]["waitingForCommand"] == "True"
                    && self.ns.live(&target).await["spec"] == before
            })
            .await;
    }

    /// Waits until an event of an object was recorded: its type, its reason and its message.
    pub async fn recorded(&self, about: &Value, wanted: [&str; 3]) {
        let like = self.ns.reference(&object("v1", "Event", "any"));
        self.ns
            .eventually(&format!("the event {wanted:?}"), async || {
                let events = self.ns.cluster().list(&like, "").await;
                events.iter().any(|event| {
                    event["involvedObject"]["uid"] == about["metadata"]["uid"]
                        && ["type", "reason", "message"].map(|field| &event[field]) == wanted
                })
            })
            .await;
    }

    /// Sets the target step of a Release.
    pub async fn promote(&self, wanted: i64, step: i64) {
        let release = self.release(wanted).await;
        let patch = json!({ "spec": { "targetStep": step } });
        self.ns.cluster().merge(&release, &patch).await.unwrap();
    }

    /// Returns the number of ready pods of a Release in each cluster.
    pub async fn ready_pods(&self, release: &Value) -> Vec<usize> {
        let labels = format!("shipper-release={}", name(release));
        let mut counts = Vec::new();
        for pods in self.in_clusters("v1", "Pod", &labels).await {
            let is_ready = |pod: &&Value| {
                pod["metadata"]["deletionTimestamp"].is_null() && condition(pod, "Ready") == "True"
            };
            counts.push(pods.iter().filter(is_ready).count());
        }
        counts
    }

    /// Waits until a Release has this number of ready pods in each cluster.
    pub async fn has_pods(&self, release: &Value, count: usize) {
        let text = format!("{count} pods of {}", name(release));
        let wanted = vec![count; self.clusters.len()];
        self.ns
            .eventually(&text, async || self.ready_pods(release).await == wanted)
            .await;
    }

    /// Returns the objects of a kind in the test's namespace, per cluster.
    pub async fn in_clusters(&self, api: &str, kind: &str, labels: &str) -> Vec<Vec<Value>> {
        let like = object(api, kind, "any");
        let like = self.ns.reference(&like);
        let mut found = Vec::new();
        for app_cluster in &self.clusters {
            let mut objects = app_cluster.cluster.list(&like, labels).await;
            for object in &mut objects {
                // The server omits these fields in the lists of built-in kinds.
                object["apiVersion"] = api.into();
                object["kind"] = kind.into();
            }
            found.push(objects);
        }
        found
    }

    /// Returns the labels of the load-balancing Service.
    fn balancing(&self) -> String {
        format!("shipper-app={},shipper-lb=production", self.name)
    }

    /// Returns the load-balancing Service of each cluster.
    pub async fn services(&self) -> Vec<Value> {
        let services = self.in_clusters("v1", "Service", &self.balancing()).await;
        let one = |mut services: Vec<Value>| {
            assert_eq!(services.len(), 1, "{services:?}");
            services.remove(0)
        };
        services.into_iter().map(one).collect()
    }

    /// Returns the number of ready endpoints of the load-balancing Service in each cluster. A
    /// Service that is being recreated counts as 0.
    pub async fn addresses(&self) -> Vec<usize> {
        let mut counts = Vec::new();
        let balancing = self.in_clusters("v1", "Service", &self.balancing()).await;
        for (services, app_cluster) in balancing.iter().zip(&self.clusters) {
            let Some(service) = services.first() else {
                counts.push(0);
                continue;
            };
            let like = object("discovery.k8s.io/v1", "EndpointSlice", "any");
            let like = self.ns.reference(&like);
            let labels = format!("kubernetes.io/service-name={}", name(service));
            let slices = app_cluster.cluster.list(&like, &labels).await;
            let endpoints = slices
                .iter()
                .filter_map(|slice| slice["endpoints"].as_array());
            let ready = endpoints
                .flatten()
                .filter(|it| it["conditions"]["ready"] == true);
            counts.push(ready.count());
        }
        counts
    }

    /// Deletes a Release, as a user does to abort it.
    pub async fn delete_release(&self, release: &Value) {
        let deleted = self.ns.cluster().delete(release, "Background").await;
        assert!(deleted, "{} was gone", name(release));
    }
}

/// Joins the hub to itself, as a cluster of the region of the test.
async fn join_itself(ns: &TestNamespace, site: &Site) -> Joined {
    let hub = Endpoint::of_bed(ns.cluster().kubeconfig());
    let account = object("v1", "ServiceAccount", "application-cluster");
    ns.create(&account).await;
    let admin = json!({
        "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin",
    });
    let subject = json!({
        "kind": "ServiceAccount", "name": account.name(), "namespace": ns.name(),
    });
    let binding = object(
        "rbac.authorization.k8s.io/v1",
        "ClusterRoleBinding",
        &ns.unique("application-cluster"),
    );
    let binding = binding
        .with("/roleRef", admin)
        .with("/subjects", json!([subject]));
    ns.create_elsewhere(&binding).await;
    let token = ns.cluster().token(ns.name(), account.name()).await;
    let local = site
        .join(ns)
        .named(&ns.unique("hub"))
        .spec("region", ns.name())
        .spec("apiMaster", hub.url())
        .secret(json!({ "token": token, "ca.crt": hub.ca }))
        .create()
        .await;
    local.becomes("Connected", "True").await;
    local
}

/// Returns the status of a condition, or an empty text without the condition.
#[must_use]
pub fn condition<'v>(object: &'v Value, type_: &str) -> &'v str {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let found = conditions.find(|condition| condition["type"] == type_);
    found
        .and_then(|it| it["status"].as_str())
        .unwrap_or_default()
}

/// Returns the reason and the message of a condition.
#[must_use]
pub fn reason<'v>(object: &'v Value, type_: &str) -> [&'v str; 2] {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let found = conditions.find(|condition| condition["type"] == type_);
    ["reason", "message"].map(|field| {
        let text = found.and_then(|it| it[field].as_str());
        text.unwrap_or_default()
    })
}

/// Returns the name of an object.
#[must_use]
pub fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Returns the generation of a Release, or -1 if it has none.
fn generation(release: &Value) -> i64 {
    let annotation = &release["metadata"]["annotations"]["shipper.booking.com/release.generation"];
    let number = annotation.as_str().and_then(|text| text.parse().ok());
    number.unwrap_or(-1)
}
