//! The attacks. Each returns when the manager has reported it, and floods go on meanwhile.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use baton_hack::charts::Repository;
use baton_integration::application::{ALL_IN, TestApplication};
use baton_integration::faults::Faults;
use baton_integration::fleet::Fleet;
use baton_integration::hostile;
use baton_integration::manager::Manager;
use baton_integration::prelude::*;
use baton_integration::sites::{PUSH, Site, TemporaryKubeconfig};
use futures::future::join_all;
use futures::{StreamExt as _, stream};

use crate::repository::Repositories;

/// Time limit for the report of an attack.
const REPORTED: Duration = Duration::from_mins(5);

/// Duration of a flood.
const FLOOD: Duration = Duration::from_secs(20);

/// Number of requests that an attacker sends at the same time.
const CONCURRENT: usize = 4;

/// Number of maps in a manifest. A revision of one such manifest is below the limit, one of two is
/// not.
const MAPS: usize = 45_000;

/// The folder of the charts, a small file system, set by `cargo dev adversary`.
const DISK: &str = "ADVERSARY_DISK";

/// Means of the attackers.
pub(crate) struct Scene {
    site: Site,
    charts: Repository,
    repositories: Repositories,
    /// The folder of the manager's charts.
    disk: Option<PathBuf>,
}

impl Scene {
    pub(crate) async fn new(manager: &Manager) -> Self {
        let empty = tempfile::tempdir().unwrap();
        let charts = Repository::of(empty.path()).await.unwrap();
        let long = "x".repeat(600_000);
        let fixed = format!(
            "apiVersion: v1\nkind: Service\nmetadata:\n  name: fixed\n  annotations:\n    a: {long}\n"
        );
        let maps = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: maps\ndata: [{}]\n",
            vec!["{}"; 400_000].join(",")
        );
        let hungry = "a: {{ repeat 600000000 \"a\" }}";
        let aliases = hostile::aliases();
        for (name, metadata, files) in [
            ("keywords", &*aliases, vec![]),
            ("crds", "", vec![("crds/a.yaml", &*aliases)]),
            ("maps", "", vec![("templates/a.yaml", &*maps)]),
            ("fixed", "", vec![("templates/a.yaml", &*fixed)]),
            ("hungry", "", vec![("templates/a.yaml", hungry)]),
        ] {
            charts.add(name, "1.0.0", hostile::chart(name, metadata, &files));
        }
        let disk = std::env::var_os(DISK).map(PathBuf::from);
        let disk = disk.map(|folder| {
            let root = PathBuf::from(format!("/proc/{}/root", manager.id()));
            root.join(folder.strip_prefix("/").unwrap())
        });
        Self {
            site: Site::get(PUSH).await,
            charts,
            repositories: Repositories::start().await,
            disk,
        }
    }
}

/// Waits until all objects of a kind have a condition that is not true, with a text that contains one
/// of these.
async fn reported(ns: &TestNamespace, like: &Entry, count: usize, texts: &[&str]) {
    let like = ns.reference(like);
    let is_reported = |object: &&Value| {
        let conditions = object["status"]["conditions"].as_array().into_iter();
        conditions.flatten().any(|condition| {
            let message = condition["message"].as_str().unwrap_or_default();
            condition["status"] != "True" && texts.iter().any(|text| message.contains(text))
        })
    };
    let all = async || {
        let objects = ns.cluster().list(&like, "").await;
        objects.iter().filter(is_reported).count() >= count
    };
    ns.within(REPORTED).eventually("all reports", all).await;
}

/// Waits until a revision is available again, and deletes it.
async fn recovers(ns: &TestNamespace, set: &str) {
    let patient = ns.within(REPORTED);
    patient.reaches(set, &[Is("Succeeded", "True")]).await;
    ns.delete_set(set, "Background").await;
    let set = ns.set_ref(set);
    let gone = async || ns.cluster().get(&set).await.is_none();
    patient.eventually("a revision to be gone", gone).await;
}

/// Slices, revisions and deployments whose values take much more memory than their text.
pub(crate) async fn manifests(_: &Scene, ns: &TestNamespace) {
    const SLICES: usize = 8;
    const REVISIONS: usize = 6;
    let names: Vec<_> = (0..SLICES).map(|at| format!("slice-{at}")).collect();
    for name in &names {
        ns.create_slice(name, [hostile::maps(name, MAPS)]).await;
    }
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    for at in 0..REVISIONS {
        let set = ns.set(&format!("slices-{at}"));
        let set = set.phase_with_slices("a", [], &names);
        set.create().await;
        let set = ns.set(&format!("inline-{at}"));
        set.phase("a", [hostile::maps("inline", MAPS)])
            .create()
            .await;
    }
    let refused = ["more than 64 MiB", "data"];
    reported(
        ns,
        &object("package-operator.run/v1alpha1", "ObjectSet", "any"),
        2 * REVISIONS,
        &refused,
    )
    .await;
}

/// Applications and `SiteApplications` with values of a megabyte.
pub(crate) async fn values(scene: &Scene, ns: &TestNamespace) {
    const EACH: usize = 8;
    let app = TestApplication::through(ns, "web", &scene.site, &scene.site.url()).await;
    for at in 0..EACH {
        let mut environment = app.environment("0.0.1", 1, ALL_IN);
        environment["values"] = hostile::zeros(500_000);
        environment["values"]["replicaCount"] = 0.into();
        let name = format!("values-{at}");
        let application = TestApplication::kind("Application", &name);
        ns.create(&application.with("/spec", json!({ "template": environment })))
            .await;
        let manifest = configmap("zeros").with("/data", hostile::zeros(900_000));
        let spec = baton_integration::fleet::spec("1.0.0", &[manifest]);
        let application = Fleet::kind("SiteApplication", &name);
        ns.create(&application.with("/spec", spec)).await;
    }
    // Only the first one owns the Service of the chart; the others are rendered and collide.
    let like = object("package-operator.run/v1alpha1", "ObjectSet", "any");
    let like = ns.reference(&like);
    let rendered = async || ns.cluster().list(&like, "").await.len() == EACH * app.clusters.len();
    let patient = ns.within(REPORTED);
    patient.eventually("all renderings", rendered).await;
}

/// Hundreds of revisions that fail, and edits of them without an end.
pub(crate) async fn failing(_: &Scene, ns: &TestNamespace) {
    const FAILING: usize = 300;
    let create = async |at: usize| {
        let bad = configmap("bad").data("no valid key!", "v");
        let set = ns.set(&format!("bad-{at}"));
        set.phase("a", [bad]).create().await;
    };
    let create = stream::iter((0..FAILING).map(create)).buffer_unordered(CONCURRENT);
    create.collect::<()>().await;
    let start = Instant::now();
    let edit = async |task: usize| {
        for at in (task..).step_by(CONCURRENT) {
            if start.elapsed() > FLOOD {
                return;
            }
            let patch = json!({ "metadata": { "annotations": { "edit": at.to_string() } } });
            let name = format!("bad-{}", at % FAILING);
            ns.patch_set(&name, &patch).await.unwrap();
        }
    };
    join_all((0..CONCURRENT).map(edit)).await;
}

/// Traffic targets with a thousand unknown clusters each, and edits of them without an end.
pub(crate) async fn targets(_: &Scene, ns: &TestNamespace) {
    const TARGETS: usize = 12;
    const CLUSTERS: usize = 1_000;
    let clusters = |weight: usize| {
        let clusters =
            (0..CLUSTERS).map(|at| json!({ "name": format!("none-{at}"), "weight": weight }));
        clusters.collect::<Value>()
    };
    let target = |at: usize| {
        TestApplication::kind("TrafficTarget", &format!("target-{at}"))
            .label("shipper-app", "web")
            .label("shipper-release", &format!("target-{at}"))
    };
    for at in 0..TARGETS {
        let spec = json!({ "clusters": clusters(1) });
        ns.create(&target(at).with("/spec", spec)).await;
    }
    let start = Instant::now();
    for at in 0.. {
        if start.elapsed() > FLOOD {
            return;
        }
        let spec = json!({ "spec": { "clusters": clusters(at % 10) } });
        ns.merge(&target(at % TARGETS), &spec).await;
    }
}

/// Charts that expand, renderings that are refused, and indexes that are large, endless or missing.
pub(crate) async fn repository(scene: &Scene, ns: &TestNamespace) {
    const INDEXES: usize = 16;
    const RENDERINGS: usize = 12;
    let app = TestApplication::through(ns, "web", &scene.site, &scene.site.url()).await;
    let url = scene.charts.url();
    let charts = ["keywords", "crds", "maps", "fixed", "hungry"].map(|name| (name, url.clone()));
    let charts = (0..RENDERINGS).flat_map(|_| charts.clone());
    let of = |name: &'static str, count| {
        (0..count).map(move |at| (name, scene.repositories.url(name, at)))
    };
    let charts = charts.chain(of("large", INDEXES));
    let charts = charts.chain(of("endless", 2)).chain(of("silent", 2));
    let charts: Vec<_> = charts.collect();
    for (at, (name, url)) in charts.iter().enumerate() {
        let mut environment = app.environment("1.0.0", 1, ALL_IN);
        environment["chart"] = json!({ "name": name, "version": "1.0.0", "repoUrl": url });
        let application = TestApplication::kind("Application", &format!("{name}-{at}"));
        let spec = json!({ "template": environment });
        ns.create(&application.with("/spec", spec)).await;
    }
    // Charts are resolved before there is a Release; a rendering is refused at the Release.
    let kinds =
        ["Application", "Release"].map(|kind| ns.reference(&TestApplication::kind(kind, "any")));
    let is_reported = |object: &Value| {
        let conditions = object["status"]["conditions"].as_array().into_iter();
        conditions.flatten().any(|it| {
            it["status"] == "False" && !it["message"].as_str().unwrap_or_default().is_empty()
        })
    };
    let all = async || {
        let mut reported = std::collections::BTreeSet::new();
        for kind in &kinds {
            for object in ns.cluster().list(kind, "").await {
                let app = object["metadata"]["labels"]["shipper-app"].as_str();
                let name = app
                    .or(object["metadata"]["name"].as_str())
                    .unwrap()
                    .to_owned();
                if is_reported(&object) {
                    reported.insert(name);
                }
            }
        }
        reported.len() >= charts.len()
    };
    ns.within(REPORTED).eventually("all reports", all).await;
}

/// Joined clusters whose answers no API server sends.
pub(crate) async fn cluster(scene: &Scene, ns: &TestNamespace) {
    let attack = async |(at, hostile): (usize, hostile::HostileAnswer)| {
        let faults = Faults::start(scene.site.endpoint()).await;
        let joined = scene.site.join(ns).named(&format!("evil-{at}"));
        let joined = joined.through(&faults.url()).create().await;
        joined.becomes("Connected", "True").await;
        faults.inject(hostile.on, hostile.answer);
        let set = format!("evil-{at}");
        let object = configmap(&set);
        let revision = ns.set(&set).delegated("a", &joined.class(), [object]);
        revision.create().await;
        let report = [Says("Available", hostile.report)];
        ns.within(REPORTED).reaches(&set, &report).await;
        tokio::time::sleep(FLOOD).await;
        // The cluster has to answer for the removal of the revision.
        faults.heal();
        recovers(ns, &set).await;
    };
    join_all(hostile::answers().into_iter().enumerate().map(attack)).await;
}

/// The holder of an agent's token reports large statuses and heartbeats without an end.
pub(crate) async fn token(scene: &Scene, ns: &TestNamespace) {
    const PHASES: usize = 4;
    let joined = scene.site.join(ns).named("stolen");
    let joined = joined.pull().create().await;
    for at in 0..PHASES {
        let name = format!("stolen-{at}");
        let object = configmap(&name);
        let set = ns.set(&name);
        set.delegated("a", &joined.class(), [object]).create().await;
    }
    let token = joined.admit_agent().await.token().await;
    let kubeconfig = TemporaryKubeconfig::new(&joined.hub_endpoint().kubeconfig(&token.text));
    let mirrors = async || joined.mirrored().await.len() == PHASES;
    ns.eventually("the phases of the agent", mirrors).await;
    let start = Instant::now();
    let report = async |mirror: Value| {
        let thief = Cluster::connect(kubeconfig.path()).await;
        let generation = mirror["metadata"]["generation"].as_i64().unwrap();
        for number in 0.. {
            if start.elapsed() > FLOOD {
                return;
            }
            let mut status = hostile::forged_status(generation);
            status["conditions"][0]["message"] = number.to_string().into();
            status["conditions"][60]["message"] = number.to_string().into();
            let status = json!({ "status": status });
            thief.merge_status(&mirror, &status).await.unwrap();
        }
    };
    join_all(joined.mirrored().await.into_iter().map(report)).await;
    // The real agent replaces the reports.
    let _agent = joined.agent().start().await;
    join_all((0..PHASES).map(async |at| recovers(ns, &format!("stolen-{at}")).await)).await;
}

/// The disk below the chart folder is full, and then it is not.
pub(crate) async fn disk(scene: &Scene, ns: &TestNamespace) {
    let Some(disk) = &scene.disk else {
        println!("  left out: the variable {DISK} names no folder on a small file system");
        return;
    };
    let ballast = disk.join("fill");
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&ballast)
        .unwrap();
    let zeros = vec![0; 1 << 16];
    let full = loop {
        if let Err(error) = file.write_all(&zeros) {
            break error;
        }
    };
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull, "{full}");
    // An open file keeps its space after it is removed.
    drop(file);
    // A chart that is not in the folder yet.
    let name = format!("disk-{}", ns.name());
    let object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}'}\n";
    let chart = hostile::chart(&name, "", &[("templates/a.yaml", object)]);
    scene.charts.add(&name, "1.0.0", chart);
    let app = TestApplication::through(ns, "web", &scene.site, &scene.site.url()).await;
    let mut environment = app.environment("1.0.0", 1, ALL_IN);
    environment["chart"] =
        json!({ "name": name, "version": "1.0.0", "repoUrl": scene.charts.url() });
    app.apply(environment).await;
    let like = TestApplication::kind("Application", "any");
    reported(ns, &like, 1, &["chart-cache"]).await;
    tokio::time::sleep(FLOOD).await;
    fs::remove_file(&ballast).unwrap();
    let like = ns.reference(&TestApplication::kind("Release", "any"));
    let released = async || !ns.cluster().list(&like, "").await.is_empty();
    ns.within(REPORTED).eventually("a Release", released).await;
}
