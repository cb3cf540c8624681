//! The bare measurement of Releases: the same objects written without a manager.
//!
//! Each write that a rollout needs is sent once, by a plain request, and each waits for what it
//! depends on: the labels for the pods, the next step for the addresses of the Service.

mod fleet;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use baton_apis::constants::{API_VERSION, FIELD_MANAGER, shipper};
use futures::future::try_join_all;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::Client;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::core::Request;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use crate::error::Error;
use crate::figures::releases::Bare;
use crate::load::releases::{FIRST_VERSION, Releases, Strategy, Template, names};
use crate::process::Servers;
use crate::target::Target;
use crate::watch::{Condition, Watch, Watched};

pub(crate) use self::fleet::measure as measure_fleet;

/// Labels of the same length as the real ones, so that no manager selects these objects.
const LABEL_APP: &str = "xhipper-app";
const LABEL_RELEASE: &str = "xhipper-release";
const LABEL_TRAFFIC: &str = "xhipper-traffic-status";

/// The time that the pods or the addresses of an application may take.
const TIMEOUT: Duration = Duration::from_mins(1);

/// The target resources, in the order in which they are written.
const TARGETS: [(&str, &str); 3] = [
    ("installationtargets", "InstallationTarget"),
    ("traffictargets", "TrafficTarget"),
    ("capacitytargets", "CapacityTarget"),
];

/// The fields that are read of pods and `EndpointSlices`.
#[derive(Debug, Clone, Deserialize)]
struct ObservedObject {
    metadata: PartMeta,
    #[serde(default)]
    status: PartStatus,
    #[serde(default)]
    endpoints: Option<Vec<Address>>,
}

#[derive(Debug, Clone, Deserialize)]
struct PartMeta {
    name: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct PartStatus {
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Debug, Clone, Deserialize)]
struct Address {
    #[serde(default)]
    conditions: AddressConditions,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct AddressConditions {
    #[serde(default)]
    ready: Option<bool>,
}

impl Watched for ObservedObject {
    fn name(&self) -> &str {
        &self.metadata.name
    }
}

/// The observed state of an application.
#[derive(Debug, Clone, Default)]
struct ObservedApp {
    ready: BTreeSet<String>,
    /// Number of ready addresses, by `EndpointSlice`.
    addresses: BTreeMap<String, usize>,
}

/// The observed state of each application. The watches end when this is dropped.
struct AppWatches {
    apps: watch::Receiver<BTreeMap<String, ObservedApp>>,
    task: JoinHandle<()>,
}

impl AppWatches {
    fn follow(client: &Client, namespace: &Target) -> Self {
        let mut pods = Watch::<ObservedObject>::start(client, namespace.pods());
        let mut slices = Watch::<ObservedObject>::start(client, namespace.endpoint_slices());
        let (sender, apps) = watch::channel(BTreeMap::<String, ObservedApp>::new());
        let task = tokio::spawn(async move {
            loop {
                let sight = tokio::select! {
                    sight = pods.next() => sight,
                    sight = slices.next() => sight,
                };
                let Some(sight) = sight else { return };
                if let Some(part) = sight.object {
                    sender.send_modify(|apps| note(apps, part));
                }
            }
        });
        Self { apps, task }
    }

    /// Waits until the state of an application is as wanted. Returns the time that it took, and the
    /// pods that are ready.
    async fn until(
        &self,
        application: &str,
        what: &str,
        holds: impl Fn(&ObservedApp) -> bool,
    ) -> Result<(Duration, BTreeSet<String>), Error> {
        let started = Instant::now();
        let mut apps = self.apps.clone();
        let waiting = apps.wait_for(|all| all.get(application).is_some_and(&holds));
        let late = || Error::Bare {
            application: application.to_owned(),
            what: what.to_owned(),
        };
        let all = timeout(TIMEOUT, waiting).await;
        let all = all.map_err(|_| late())?.map_err(|_| late())?;
        let ready = all.get(application).map(|apps| apps.ready.clone());
        Ok((started.elapsed(), ready.unwrap_or_default()))
    }
}

impl Drop for AppWatches {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn note(apps: &mut BTreeMap<String, ObservedApp>, part: ObservedObject) {
    let Some(application) = part.metadata.labels.get(LABEL_APP) else {
        return;
    };
    let app = apps.entry(application.clone()).or_default();
    if let Some(addresses) = part.endpoints {
        let ready = addresses
            .iter()
            .filter(|it| it.conditions.ready == Some(true));
        app.addresses.insert(part.metadata.name, ready.count());
    } else if part.status.conditions.iter().any(Condition::is_ready) {
        app.ready.insert(part.metadata.name);
    }
}

/// A namespace of objects that only the bench writes.
struct BareNamespace {
    target: Target,
    parts: AppWatches,
}

/// Writes the objects of the Releases of all steps with a plain client, in namespaces of that
/// round, and returns the figures by step.
///
/// Objects that a manager would reconcile after its start are deleted again.
pub(crate) async fn measure(
    client: &Client,
    servers: &Servers,
    shape: &Releases,
    round: usize,
) -> Result<Vec<Bare>, Error> {
    let namespace = BareNamespace::create(client, &format!("bench-bare-{round}")).await?;
    let mut all = Vec::new();
    for strategy in [Strategy::AllIn, Strategy::ThreeSteps] {
        let template = Template {
            repository: "http://127.0.0.1/charts".to_owned(),
            strategy,
            pods: shape.pods,
            version: FIRST_VERSION,
            clusters: 1,
        };
        let prefix = |is_lone| match (strategy, is_lone) {
            (Strategy::AllIn, true) => "lone-all-in",
            (Strategy::AllIn, false) => "all-in",
            (Strategy::ThreeSteps, true) => "lone-steps",
            (Strategy::ThreeSteps, false) => "steps",
        };
        for (is_lone, count) in [(true, shape.lone_applications), (false, shape.applications)] {
            let names = names(prefix(is_lone), count);
            let server = servers.cpu();
            let started = Instant::now();
            let rollouts = stream::iter(&names).map(|name| namespace.roll_out(name, &template));
            let side_by_side = if is_lone { 1 } else { count };
            let rollouts: Vec<_> = rollouts
                .buffer_unordered(side_by_side)
                .try_collect()
                .await?;
            let elapsed = started.elapsed();
            let server = servers.cpu() - server;
            let bare = Bare::of((strategy, is_lone), &rollouts, elapsed, server);
            eprintln!(
                "bench: bare {round}: {}: {:.3} s, of which one waits {:.3} s for pods and addresses",
                bare.step, bare.seconds, bare.waited
            );
            all.push(bare);
        }
    }
    namespace.clean_up().await?;
    Ok(all)
}

impl BareNamespace {
    /// Creates the namespace, and follows its pods and addresses.
    async fn create(client: &Client, name: &str) -> Result<Self, Error> {
        let target = Target::create(client, name).await?;
        Ok(Self {
            parts: AppWatches::follow(client, &target),
            target,
        })
    }

    /// Writes all objects of one Application. Returns the time that it took, and the part of it
    /// that was spent on waiting for pods and addresses.
    async fn roll_out(
        &self,
        name: &str,
        template: &Template,
    ) -> Result<(Duration, Duration), Error> {
        let started = Instant::now();
        self.enter(name, template, &["hub".to_owned()]).await?;
        let mut app = self.install(name).await?;
        for (step, pods) in template.strategy.pods(template.pods).enumerate() {
            if step > 0 {
                self.promote(name, step).await?;
            }
            app.reach(pods).await?;
        }
        app.balance().await?;
        Ok((started.elapsed(), app.waited))
    }

    /// Creates the objects of an Application on the hub.
    async fn enter(
        &self,
        name: &str,
        template: &Template,
        clusters: &[String],
    ) -> Result<(), Error> {
        let target = &self.target;
        let post = |path: String, body: Value| async move {
            target.post::<IgnoredAny>(&path, &body).await.map(drop)
        };
        post(target.shipper("applications"), template.application(name)).await?;
        let release = release_of(name);
        let object = |kind: &str, spec: Value| {
            json!({
                "apiVersion": shipper::API_VERSION,
                "kind": kind,
                "metadata": {"name": release, "labels": labels(name, &release)},
                "spec": spec,
            })
        };
        let environment = json!({"environment": template.environment(name), "targetStep": 0});
        post(target.shipper("releases"), object("Release", environment)).await?;
        let of_each = |entry: &dyn Fn(&String) -> Value| {
            let entries: Vec<Value> = clusters.iter().map(entry).collect();
            json!({"clusters": entries})
        };
        let targets = TARGETS.map(|(plural, kind)| {
            let spec = match kind {
                "InstallationTarget" => json!({"clusters": clusters, "canOverride": true}),
                "TrafficTarget" => of_each(&|name| json!({"name": name, "weight": 0})),
                _ => of_each(
                    &|name| json!({"name": name, "percent": 0, "totalReplicaCount": template.pods}),
                ),
            };
            post(target.shipper(plural), object(kind, spec))
        });
        try_join_all(targets).await?;
        let children = [service(name, &release), deployment(name, &release)];
        post(target.slices(), slice(&release, &children)).await?;
        let sets = clusters.iter().map(|cluster| {
            post(
                target.sets(),
                set(&format!("{release}-{cluster}"), &release),
            )
        });
        try_join_all(sets).await?;
        Ok(())
    }

    /// Sends the Release of an Application to a step.
    async fn promote(&self, name: &str, step: usize) -> Result<(), Error> {
        let patch = json!({"spec": {"targetStep": step}});
        let releases = self.target.shipper("releases");
        self.merge(releases, &release_of(name), &patch).await
    }

    /// Creates the objects of an Application in a cluster.
    async fn install(&self, name: &str) -> Result<BareApp<'_>, Error> {
        let target = &self.target;
        let release = release_of(name);
        let children = [service(name, &release), deployment(name, &release)];
        let paths = [target.services(), target.deployments_of_apps()];
        let applied = paths
            .into_iter()
            .zip(&children)
            .map(|(path, child)| self.apply(path, child));
        try_join_all(applied).await?;
        Ok(BareApp {
            namespace: self,
            name: name.to_owned(),
            release,
            labelled: BTreeSet::new(),
            waited: Duration::ZERO,
        })
    }

    async fn apply(&self, path: String, child: &Value) -> Result<(), Error> {
        let name = child["metadata"]["name"].as_str().unwrap_or_default();
        let parameters = PatchParams::apply(FIELD_MANAGER);
        let request = Request::new(path).patch(name, &parameters, &Patch::Apply(child));
        let _: IgnoredAny = self.target.send(request).await?;
        Ok(())
    }

    async fn merge(&self, path: String, name: &str, body: &Value) -> Result<(), Error> {
        let parameters = PatchParams::default();
        let request = Request::new(path).patch(name, &parameters, &Patch::Merge(body));
        let _: IgnoredAny = self.target.send(request).await?;
        Ok(())
    }

    /// Deletes the objects of our kinds. The others are not deleted: the garbage collector would be
    /// busy for seconds.
    async fn clean_up(&self) -> Result<(), Error> {
        let target = &self.target;
        let kinds = ["applications", "releases"].into_iter();
        let kinds = kinds.chain(TARGETS.map(|(plural, _)| plural));
        let paths = kinds.map(|plural| target.shipper(plural));
        for path in paths.chain([target.sets(), target.slices()]) {
            let request = Request::new(path);
            let request =
                request.delete_collection(&DeleteParams::default(), &ListParams::default());
            let _: IgnoredAny = target.send(request).await?;
        }
        Ok(())
    }
}

/// The objects of an Application in a cluster.
struct BareApp<'a> {
    namespace: &'a BareNamespace,
    name: String,
    release: String,
    /// The pods with traffic.
    labelled: BTreeSet<String>,
    /// The time spent on waiting for pods and addresses.
    waited: Duration,
}

impl BareApp<'_> {
    /// Scales to a number of pods, and gives traffic to all of them.
    async fn reach(&mut self, pods: usize) -> Result<(), Error> {
        let BareNamespace { target, parts } = self.namespace;
        let replicas = json!({"spec": {"replicas": pods}});
        let deployments = target.deployments_of_apps();
        self.namespace
            .merge(deployments, &self.release, &replicas)
            .await?;
        let ready = parts.until(&self.name, "pods", |app| app.ready.len() >= pods);
        let (time, ready) = ready.await?;
        let patch = json!({"metadata": {"labels": {LABEL_TRAFFIC: "enabled"}}});
        let new: Vec<String> = ready.difference(&self.labelled).cloned().collect();
        let patches = new
            .iter()
            .map(|pod| self.namespace.merge(target.pods(), pod, &patch));
        try_join_all(patches).await?;
        let addresses = parts.until(&self.name, "addresses", |app| {
            app.addresses.values().sum::<usize>() >= pods
        });
        self.waited += time + addresses.await?.0;
        self.labelled.extend(new);
        Ok(())
    }

    /// Lets the Service select by traffic alone.
    async fn balance(&self) -> Result<(), Error> {
        let selector =
            json!({"spec": {"selector": {LABEL_RELEASE: self.release, LABEL_TRAFFIC: null}}});
        let services = self.namespace.target.services();
        self.namespace.merge(services, &self.name, &selector).await
    }
}

/// The name of the Release of an Application.
fn release_of(application: &str) -> String {
    format!("{application}-0123abcd-0")
}

fn labels(application: &str, release: &str) -> Value {
    json!({LABEL_APP: application, LABEL_RELEASE: release})
}

fn service(application: &str, release: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": application, "labels": labels(application, release)},
        "spec": {
            "selector": {LABEL_APP: application, LABEL_TRAFFIC: "enabled"},
            "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
        },
    })
}

fn deployment(application: &str, release: &str) -> Value {
    let labels = labels(application, release);
    let container = json!({
        "name": "nginx", "image": "nginx:stable", "ports": [{"name": "http", "containerPort": 80}],
    });
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": release, "labels": labels},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    })
}

fn slice(release: &str, children: &[Value]) -> Value {
    let objects: Vec<Value> = children.iter().map(|it| json!({"object": it})).collect();
    json!({
        "apiVersion": API_VERSION,
        "kind": "ObjectSlice",
        "metadata": {"name": release},
        "objects": objects,
    })
}

fn set(name: &str, slice: &str) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": "ObjectSet",
        "metadata": {"name": name},
        "spec": {"phases": [{"name": "objects", "slices": [slice]}]},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ready_pods_and_addresses_count_for_their_application() {
        let mut apps = BTreeMap::new();
        let part = |name: &str, rest: &str| -> ObservedObject {
            let text = format!(
                r#"{{"metadata": {{"name": "{name}", "labels": {{"{LABEL_APP}": "a"}}}}, {rest}}}"#
            );
            serde_json::from_str(&text).unwrap()
        };
        let ready = |status| {
            format!(r#""status": {{"conditions": [{{"type": "Ready", "status": "{status}"}}]}}"#)
        };
        for part in [
            part("one", &ready("False")),
            part("two", &ready("True")),
            part("two", &ready("True")),
            part(
                "slice",
                r#""endpoints": [{"conditions": {"ready": true}}, {"conditions": {"ready": false}}, {}]"#,
            ),
        ] {
            note(&mut apps, part);
        }
        let app = &apps["a"];
        assert_eq!(app.ready.iter().collect::<Vec<_>>(), ["two"]);
        assert_eq!(app.addresses["slice"], 1);
    }
}
