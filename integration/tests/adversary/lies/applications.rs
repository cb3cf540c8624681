//! A hub with many rollouts that is wiped, and gets its objects back from a file.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use baton_integration::application::{
    ALL_IN, Step, TestApplication, VANGUARD, condition, name, reason,
};
use baton_integration::exclusive::Exclusive;
use baton_integration::fleet::{Fleet, spec};
use baton_integration::manager::HEARTBEAT;
use baton_integration::prelude::*;
use baton_integration::program::temporary;
use baton_integration::sites::{Joined, PULL, PUSH, Site};
use tokio::time::sleep;

use super::observer::{Column, Findings};

/// Number of Applications.
const APPLICATIONS: usize = 50;

/// Time limit of a step of all rollouts.
const PATIENCE: Duration = Duration::from_mins(8);

/// Number of deployments to sites, each with an application of its own.
const DEPLOYMENTS: usize = 5;

/// The kinds of the objects that Baton and Kubernetes create in the clusters.
const KINDS: [(&str, &str); 4] = [
    ("apps/v1", "Deployment"),
    ("v1", "Pod"),
    ("v1", "Service"),
    ("v1", "ConfigMap"),
];

/// UID and resource version of each object in the clusters.
type Objects = BTreeMap<String, [String; 2]>;

/// The rollouts, in the two API servers of four Clusters.
struct Rollouts<'a> {
    ns: &'a TestNamespace,
    app: TestApplication<'a>,
    servers: [Cluster; 2],
    /// Three more Clusters. They end with this value.
    _joined: Vec<Joined>,
}

/// Wipes the hub while all Applications wait at a step, restores it, and completes the rollouts.
pub(super) async fn in_a_wiped_hub() -> Findings {
    let mut bed = Exclusive::acquire().await;
    let ns = &bed.namespace(Scope::Namespaced).await;
    let rollouts = Rollouts::new(ns).await;
    let empty = bed.snapshot().await;
    rollouts.begin().await;
    let before = rollouts.settled().await;
    let file = temporary(&format!("{}-backup", ns.name()));
    let file = file.display().to_string();
    ns.plugin(&["backup", "create", "-f", &file]).done();

    let mut findings = Findings::default();
    bed.take_manager().kill();
    bed.restore(&empty).await;
    bed.spawn_manager(&[HEARTBEAT]);
    ns.plugin(&["backup", "restore", "--yes", "-f", &file])
        .done();
    bed.take_manager().kill();
    bed.spawn_manager(&[HEARTBEAT]);
    rollouts.wait_at(0, &mut findings).await;
    rollouts.sites_have("1.1.0", &mut findings).await;
    rollouts.compare(&before, &mut findings).await;

    rollouts.promote(2).await;
    rollouts.wait_at(2, &mut findings).await;
    rollouts.version("1.2.0").await;
    rollouts.sites_have("1.2.0", &mut findings).await;
    std::fs::remove_file(file).unwrap();
    findings
}

impl<'a> Rollouts<'a> {
    async fn new(ns: &'a TestNamespace) -> Self {
        let app = TestApplication::new(ns, "web").await;
        // Nodes of the hub do not continue after a restart of its servers.
        let hub = app.clusters[0].joined.name();
        ns.plugin(&["clusters", "drain", hub]).done();
        let (push, pull) = (Site::get(PUSH).await, Site::get(PULL).await);
        let mut joined = Vec::new();
        for other in ["site-b", "site-c"] {
            let other = push.join(ns).named(other).spec("region", ns.name());
            joined.push(other.create().await);
        }
        joined.push(pull.join(ns).named("edge").create().await);
        for other in &joined {
            other.becomes("Connected", "True").await;
        }
        let fleet = Fleet::new(ns);
        for site in [&app.clusters[1].joined, &joined[2]] {
            fleet.add(site).await;
        }
        let servers = [push.cluster().await, pull.cluster().await];
        Self {
            ns,
            app,
            servers,
            _joined: joined,
        }
    }

    fn application(&self, at: usize, version: &str, steps: &[Step]) -> Entry {
        let name = format!("web-{at}");
        let mut template = self.app.environment(version, 1, steps);
        template["values"]["nameOverride"] = name.as_str().into();
        template["clusterRequirements"]["regions"][0]["replicas"] = 1.into();
        TestApplication::kind("Application", &name).with("/spec", json!({ "template": template }))
    }

    /// Completes a first version of everything, and the first step of the second one.
    async fn begin(&self) {
        let mut findings = Findings::default();
        for at in 0..APPLICATIONS {
            self.ns.create(&self.application(at, "0.0.1", ALL_IN)).await;
        }
        self.version("1.0.0").await;
        for at in 0..DEPLOYMENTS {
            let placement = json!({ "matchSiteLabels": Fleet::new(self.ns).expression() });
            let spec = json!({ "application": shop(at), "placement": placement });
            let deployment = Fleet::kind("SiteDeployment", &shop(at));
            self.ns.create(&deployment.with("/spec", spec)).await;
        }
        self.sites_have("1.0.0", &mut findings).await;
        let is_complete = |it: &Value| condition(it, "Complete") == "True";
        self.releases_become("complete", 0, is_complete, &mut findings)
            .await;
        self.version("1.1.0").await;
        for at in 0..APPLICATIONS {
            let entry = self.application(at, "0.0.2", VANGUARD);
            let spec = json!({ "spec": entry.manifest["spec"] });
            self.ns.merge(&entry, &spec).await;
        }
        self.wait_at(0, &mut findings).await;
        self.sites_have("1.1.0", &mut findings).await;
        assert!(findings.0.is_empty(), "the rollouts before the wipe");
    }

    /// Creates or changes the applications of the deployments to sites.
    async fn version(&self, version: &str) {
        for at in 0..DEPLOYMENTS {
            let settings = configmap(&format!("settings-{at}")).data("version", version);
            let settings = settings.data("other", version);
            let application = Fleet::kind("SiteApplication", &shop(at));
            let application = application.with("/spec", spec(version, &[settings]));
            let application = self.ns.reference(&application);
            self.ns
                .cluster()
                .apply(&application, "tests")
                .await
                .unwrap();
        }
    }

    /// Waits until all deployments to sites are complete with a version.
    async fn sites_have(&self, version: &str, findings: &mut Findings) {
        let like = self.ns.reference(&Fleet::kind("SiteDeployment", "any"));
        let is_complete = |it: &Value| {
            reason(it, "Progressing")[0] == "Complete" && it["status"]["version"] == version
        };
        let wanted = format!("deployments with {version}");
        self.all_become(&like, &wanted, DEPLOYMENTS, is_complete, findings)
            .await;
    }

    /// Waits until the newest Releases wait at a step, or are complete at the last one.
    async fn wait_at(&self, step: usize, findings: &mut Findings) {
        let is_there = |it: &Value| {
            let is_waiting = it["status"]["strategy"]["state"]["waitingForCommand"] == "True";
            it["status"]["achievedStep"]["step"] == step
                && (is_waiting || condition(it, "Complete") == "True")
        };
        self.releases_become(&format!("at step {step}"), 1, is_there, findings)
            .await;
    }

    /// Waits until the Releases of a generation, one for each Application, satisfy a predicate.
    async fn releases_become(
        &self,
        text: &str,
        generation: usize,
        holds: impl Fn(&Value) -> bool,
        findings: &mut Findings,
    ) {
        let like = self.ns.reference(&TestApplication::kind("Release", "any"));
        let wanted = format!("Releases of generation {generation} {text}");
        let holds = |it: &Value| of_generation(it, generation) && holds(it);
        self.all_become(&like, &wanted, APPLICATIONS, holds, findings)
            .await;
    }

    async fn all_become(
        &self,
        like: &Value,
        text: &str,
        count: usize,
        holds: impl Fn(&Value) -> bool,
        findings: &mut Findings,
    ) {
        let start = Instant::now();
        loop {
            let objects = self.ns.cluster().list(like, "").await;
            let found = objects.iter().filter(|it| holds(it)).count();
            if found == count {
                println!("  {count} {text}: {:.0} s", start.elapsed().as_secs_f64());
                return;
            }
            if start.elapsed() > PATIENCE {
                findings.add(Column::StoodStill, format!("{found} of {count} {text}"));
                return;
            }
            sleep(Duration::from_secs(1)).await;
        }
    }

    /// Sets the target step of all newest Releases.
    async fn promote(&self, step: usize) {
        let like = self.ns.reference(&TestApplication::kind("Release", "any"));
        let releases = self.ns.cluster().list(&like, "").await;
        for release in releases.iter().filter(|it| of_generation(it, 1)) {
            let mut release = release.clone();
            release["apiVersion"] = like["apiVersion"].clone();
            release["kind"] = like["kind"].clone();
            let patch = json!({ "spec": { "targetStep": step } });
            self.ns.cluster().merge(&release, &patch).await.unwrap();
        }
    }

    async fn objects(&self) -> Objects {
        let mut found = Objects::new();
        for (server, cluster) in self.servers.iter().enumerate() {
            for (api, kind) in KINDS {
                let like = self.ns.reference(&object(api, kind, "any"));
                for live in cluster.list(&like, "").await {
                    let version = live["metadata"]["resourceVersion"].as_str().unwrap();
                    let value = [uid(&live), version].map(ToOwned::to_owned);
                    found.insert(format!("{server} {kind} {}", name(&live)), value);
                }
            }
        }
        found
    }

    /// Returns the objects once Kubernetes has written their statuses: two reads are equal.
    async fn settled(&self) -> Objects {
        let mut before = self.objects().await;
        loop {
            sleep(Duration::from_secs(5)).await;
            let now = self.objects().await;
            if now == before {
                return now;
            }
            before = now;
        }
    }

    /// Adds each object that was changed since then.
    async fn compare(&self, before: &Objects, findings: &mut Findings) {
        let after = self.objects().await;
        println!("  {} objects in the clusters", before.len());
        for (object, [uid, version]) in before {
            match after.get(object) {
                None => findings.add(Column::Lost, object.clone()),
                Some([other, _]) if other != uid => {
                    findings.add(Column::Recreated, object.clone());
                }
                Some([_, other]) if other != version => {
                    findings.add(Column::AppliedTwice, object.clone());
                }
                Some(_) => {}
            }
        }
        for object in after.keys().filter(|it| !before.contains_key(*it)) {
            findings.add(Column::LeftOver, object.clone());
        }
    }
}

/// Name of a deployment to sites, and of its application.
fn shop(at: usize) -> String {
    format!("shop-{at}")
}

/// True for the Release of a generation, counted from 0.
fn of_generation(release: &Value, generation: usize) -> bool {
    let annotation = &release["metadata"]["annotations"]["shipper.booking.com/release.generation"];
    annotation == generation.to_string().as_str()
}
