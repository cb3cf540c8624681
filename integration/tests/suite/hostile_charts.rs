//! Charts, indexes and values of a tenant whose values take far more memory than their text.

use std::sync::Arc;
use std::time::Instant;

use baton_hack::charts::{Fault, Repository};
use baton_integration::application::{ALL_IN, TestApplication, condition, reason};
use baton_integration::exclusive::Exclusive;
use baton_integration::fleet::{self, Fleet};
use baton_integration::hostile::{aliases, chart};
use baton_integration::manager::Manager;
use baton_integration::prelude::*;
use futures::future::join_all;

use crate::releases_faults::repository::start;

const MIB: u64 = 1 << 20;
/// Limit in MiB of the memory above that at rest, once all objects are deleted.
const GIVEN_BACK: u64 = 16;
/// Time limit of an attack.
const PATIENCE: Duration = Duration::from_mins(4);

/// A manager of its own, and what its memory was before the first attack.
struct Bed {
    bed: Exclusive,
    rest: u64,
}

impl Bed {
    fn new(bed: Exclusive) -> Self {
        let rest = bed.manager().memory().0;
        println!("at rest: {} MiB", rest / MIB);
        Self { bed, rest }
    }

    fn manager(&self) -> &Manager {
        self.bed.manager()
    }

    /// Runs an attack. Fails if the memory of the manager rises by more than this number of MiB
    /// above that at rest.
    async fn within(&self, most: u64, what: &str, attack: impl Future<Output = ()>) {
        self.manager().forget_peak();
        let start = Instant::now();
        attack.await;
        let (now, peak) = self.manager().memory();
        let above = |bytes: u64| bytes.saturating_sub(self.rest) / MIB;
        println!(
            "{what}: {} MiB above rest at most, {} MiB afterwards, {:.1} s",
            above(peak),
            above(now),
            start.elapsed().as_secs_f64()
        );
        assert!(
            above(peak) <= most,
            "{what}: {} MiB above rest",
            above(peak)
        );
    }

    /// Waits until the memory of the attacks is given back.
    async fn gives_back(&self, ns: &TestNamespace) {
        let start = Instant::now();
        let above = || self.manager().memory().0.saturating_sub(self.rest) / MIB;
        ns.within(PATIENCE)
            .eventually("the memory to be given back", async || {
                above() <= GIVEN_BACK
            })
            .await;
        println!(
            "given back after {:.1} s: {} MiB above rest",
            start.elapsed().as_secs_f64(),
            above()
        );
    }
}

/// Creates an Application of a chart with values, in a cluster of a region.
async fn apply(
    app: &TestApplication<'_>,
    name: &str,
    region: &str,
    (chart, values): (Value, Value),
) {
    let mut environment = app.environment("1.0.0", 1, ALL_IN);
    environment["chart"] = chart;
    environment["values"] = values;
    environment["clusterRequirements"] = json!({ "regions": [{ "name": region, "replicas": 1 }] });
    let entry = TestApplication::kind("Application", name);
    let spec = json!({ "template": environment });
    app.ns.create(&entry.with("/spec", spec)).await;
}

/// Returns the Releases of an Application.
async fn releases(ns: &TestNamespace, application: &str) -> Vec<Value> {
    let like = ns.reference(&TestApplication::kind("Release", "any"));
    ns.cluster()
        .list(&like, &format!("shipper-app={application}"))
        .await
}

/// Waits until the Application or its Release reports a text.
async fn reports(ns: &TestNamespace, application: &str, text: &str) {
    let entry = TestApplication::kind("Application", application);
    let texts = async || {
        let releases = releases(ns, application).await;
        let mut texts: Vec<_> = releases
            .iter()
            .map(|it| reason(it, "Scheduled").join(": "))
            .collect();
        texts.push(reason(&ns.live(&entry).await, "RollingOut").join(": "));
        texts
    };
    let start = Instant::now();
    while !texts().await.iter().any(|found| found.contains(text)) {
        assert!(
            start.elapsed() < PATIENCE,
            "{application}: no {text:?} in {:#?}",
            texts().await
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Deletes Applications, and waits until they and their Releases are gone.
async fn forget(ns: &TestNamespace, applications: &[String]) {
    for application in applications {
        ns.delete(&TestApplication::kind("Application", application))
            .await;
    }
    for application in applications {
        let entry = TestApplication::kind("Application", application);
        let gone =
            async || ns.get(&entry).await.is_none() && releases(ns, application).await.is_empty();
        ns.within(PATIENCE)
            .eventually("the Application to be gone", gone)
            .await;
    }
}

/// A chart that is refused.
struct Case {
    name: &'static str,
    /// Limit in MiB.
    most: u64,
    /// Number of Applications of it.
    count: usize,
    archive: Vec<u8>,
    /// A part of the message.
    text: &'static str,
}

fn cases() -> [Case; 5] {
    let object = |at: usize| {
        let metadata = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{at}}}\n");
        format!("---\n{metadata}data: {{k: {}}}\n", "v".repeat(500))
    };
    let honest: String = (0..3_000).map(object).collect();
    let honest = chart("many", "", &[("templates/a.yaml", &honest)]);
    let maps = |map: &str| format!("kind: Map\na: [{}]\n", map.repeat(1_600_000 / map.len()));
    let crds = |name: &str, text: &str| chart(name, "", &[("crds/a.yaml", text)]);
    let case = |name, most, count, archive, text| Case {
        name,
        most,
        count,
        archive,
        text,
    };
    let aliases = aliases();
    let metadata = chart("metadata", &aliases, &[]);
    let (definitions, empty) = (crds("definitions", &aliases), crds("empty", &maps("{}, ")));
    let maps = crds("maps", &maps("{a: }, "));
    [
        case(
            "metadata",
            48,
            1,
            metadata,
            "the values take more than 8388608 bytes",
        ),
        case(
            "definitions",
            48,
            1,
            definitions,
            "the aliases expand to more than 16777216 bytes",
        ),
        case("empty", 64, 1, empty, "apiVersion is missing"),
        case(
            "maps",
            112,
            1,
            maps,
            "the values take more than 67108864 bytes",
        ),
        case(
            "many",
            112,
            12,
            honest,
            "should have exactly 1 Deployment object, but it has 0",
        ),
    ]
}

/// Each input is refused with its cause.
#[tokio::test]
async fn charts_and_indexes_take_little_memory() {
    let bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    let app = TestApplication::new(&ns, "honest").await;
    app.apply(app.environment("0.0.1", 1, ALL_IN)).await;
    app.completed(0).await;
    let bed = Bed::new(bed);
    let charts = start().await;
    for Case {
        name: case,
        most,
        count,
        archive,
        text,
    } in cases()
    {
        charts.add(case, "1.0.0", archive);
        let names: Vec<_> = (0..count).map(|at| format!("{case}-{at}")).collect();
        let chart = json!({ "name": case, "version": "1.0.0", "repoUrl": charts.url() });
        let attack = async {
            for name in &names {
                apply(&app, name, ns.name(), (chart.clone(), json!({}))).await;
            }
            join_all(names.iter().map(|name| reports(&ns, name, text))).await;
        };
        bed.within(most, case, attack).await;
        forget(&ns, &names).await;
    }
    indexes(&bed, &app).await;
    bed.gives_back(&ns).await;
}

/// Indexes without a version: first one of 2 MB, and then several of 1 MB at once.
async fn indexes(bed: &Bed, app: &TestApplication<'_>) {
    for (case, most, count, nulls) in [("index", 48, 1, 400_000), ("indexes", 64, 4, 200_000)] {
        let nulls = "null,".repeat(nulls);
        let nulls: Arc<str> = format!("apiVersion: v1\nentries: {{a: [{nulls}]}}").into();
        let mut repositories: Vec<Repository> = Vec::new();
        for _ in 0..count {
            let repository = start().await;
            repository.fail(Fault::Index(Arc::clone(&nulls)));
            repositories.push(repository);
        }
        let names: Vec<_> = (0..count).map(|at| format!("{case}-{at}")).collect();
        let attack = async {
            for (name, repository) in names.iter().zip(&repositories) {
                let chart = json!({ "name": "a", "version": "1.0.0", "repoUrl": repository.url() });
                apply(app, name, "nowhere", (chart, json!({}))).await;
            }
            let text = "no chart version found";
            join_all(names.iter().map(|name| reports(app.ns, name, text))).await;
        };
        bed.within(most, case, attack).await;
        forget(app.ns, &names).await;
    }
}

/// Number of zeros that have nearly a megabyte of text.
const LARGE: usize = 450_000;
/// Number of objects with them.
const COUNT: usize = 8;

fn zeros(count: usize) -> Value {
    json!(vec![0; count])
}

/// Values and manifests of a megabyte are honest, and used.
#[tokio::test]
async fn large_values_take_little_memory() {
    let bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    let app = TestApplication::new(&ns, "honest").await;
    app.apply(app.environment("0.0.1", 1, ALL_IN)).await;
    app.completed(0).await;
    let bed = Bed::new(bed);
    values(&bed, &app).await;
    manifests(&bed, &ns).await;
    bed.gives_back(&ns).await;
}

/// Applications with large values. Helm takes seconds for a megabyte, so that only smaller values are
/// rendered.
async fn values(bed: &Bed, app: &TestApplication<'_>) {
    let (ns, count) = (app.ns, 50_000);
    let chart = app.environment("0.0.1", 1, ALL_IN)["chart"].clone();
    let of = |name: &str, count: usize| {
        let values = json!({ "nameOverride": name, "zeros": zeros(count) });
        (chart.clone(), values)
    };
    apply(app, "small", ns.name(), of("small", count)).await;
    let names: Vec<_> = (0..COUNT).map(|at| format!("values-{at}")).collect();
    let released = async {
        for name in &names {
            apply(app, name, "nowhere", of(name, LARGE)).await;
        }
        for name in &names {
            let released = async || {
                let found = releases(ns, name).await;
                let values = found.first().map(|it| &it["spec"]["environment"]["values"]);
                let zeros = values.and_then(|values| values["zeros"].as_array());
                zeros.is_some_and(|zeros| zeros.len() == LARGE)
            };
            let patient = ns.within(PATIENCE);
            patient
                .eventually("a Release with all values", released)
                .await;
        }
    };
    bed.within(64, "values of Applications", released).await;
    forget(ns, &names).await;
    let complete = async || {
        let small = releases(ns, "small").await;
        let mut conditions = small.iter().map(|it| condition(it, "Complete"));
        conditions.any(|status| status == "True")
    };
    let patient = ns.within(PATIENCE);
    patient
        .eventually("a Release with values to be complete", complete)
        .await;
    forget(ns, &["small".to_owned()]).await;
}

/// Each `SiteApplication` has a large manifest, and its version is stored.
async fn manifests(bed: &Bed, ns: &TestNamespace) {
    let manifest = configmap("zeros").with("/zeros", zeros(LARGE));
    let spec = fleet::spec("1.0.0", &[manifest]);
    let entries = (0..COUNT).map(|at| Fleet::kind("SiteApplication", &format!("site-{at}")));
    let entries: Vec<_> = entries.collect();
    let stored = async {
        for entry in &entries {
            ns.create(&entry.clone().with("/spec", spec.clone())).await;
        }
        for entry in &entries {
            let kept = async || condition(&ns.live(entry).await, "Kept") == "True";
            let patient = ns.within(PATIENCE);
            patient.eventually("a version to be stored", kept).await;
        }
    };
    // Two of them may be parsed at a time: one takes 28 MiB as values, of which there are three copies.
    bed.within(160, "manifests of SiteApplications", stored)
        .await;
    for entry in &entries {
        ns.delete(entry).await;
    }
    let like = ns.reference(&object("apps/v1", "ControllerRevision", "any"));
    let gone = async || ns.cluster().list(&like, "").await.is_empty();
    let patient = ns.within(PATIENCE);
    patient.eventually("the versions to be gone", gone).await;
}
