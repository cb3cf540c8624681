//! Deployments with users who do not wait, and with a manager that is killed often.

use std::collections::{BTreeMap, BTreeSet};

use baton_integration::exclusive::Exclusive;
use baton_integration::prelude::*;
use baton_integration::seed::{SEED, first_seed};
use baton_integration::set::SetBuilder;
use futures::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::deployments::{workload, workload_probe};
use crate::requests::settle;

/// Number of deployments that are edited concurrently.
const CHAINS: u64 = 2;

alternating_scopes! {
    ten_edits_in_a_second_leave_one_chain;
}

/// Each edit may become a revision or be skipped, but the chain stays linear: no number occurs
/// twice, and each revision names all earlier ones.
async fn ten_edits_in_a_second_leave_one_chain(scope: Scope) {
    let ns = &TestNamespace::new(scope).await;
    let names: Vec<String> = (0..CHAINS).map(|at| format!("web-{at}")).collect();
    join_all(names.iter().map(|name| edit_ten_times(ns, name))).await;
    let expected = names
        .iter()
        .flat_map(|name| [format!("{name}-shared"), format!("{name}-10")]);
    assert_eq!(managed(ns).await, expected.collect());
}

async fn edit_ten_times(ns: &TestNamespace, name: &str) {
    let shared = configmap(&format!("{name}-shared"));
    let content = |version: u64| {
        ns.content()
            .phase("a", [shared.clone().data("version", &version.to_string())])
            .phase("b", [configmap(&format!("{name}-{version}"))])
    };
    let web = ns.deployment(name).content(content(0)).create().await;
    web.concluded().await;
    let before = ns.live(&shared).await;
    let label = format!("package-operator.run/object-deployment={}", web.name());
    let sets = Recording::start(ns.cluster(), &ns.set_ref("any"), &label).await;
    for version in 1..=10 {
        web.edit(content(version)).await;
    }
    web.concluded().await;
    let live = ns.live(&shared).await;
    assert_eq!(live["data"]["version"], "10");
    assert_eq!(uid(&live), uid(&before));

    let mut names = vec![web.set(1).await.name().to_owned()];
    for event in sets.so_far().await.events {
        if event.change == Change::Added {
            let set = Revision { json: event.object };
            let number = i64::try_from(names.len()).unwrap() + 1;
            assert_eq!(set.number(), Some(number), "{:#}", set.json);
            assert_eq!(previous(&set), names);
            names.push(set.name().to_owned());
        }
    }
    let newest = i64::try_from(names.len()).unwrap();
    for number in 1..newest {
        let archived = [Is("Archived", "True"), Controls(&[])];
        web.set_reaches(number, &archived).await;
    }
}

/// Returns the names of all config maps that revisions have written.
async fn managed(ns: &TestNamespace) -> BTreeSet<String> {
    let like = ns.reference(&configmap(""));
    let objects = ns
        .cluster()
        .list(&like, "package-operator.run/cache=True")
        .await;
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
    objects.iter().map(name).collect()
}

/// Number of edits of each chain's template.
const EDITS: u64 = 50;

/// Number of archived revisions that are kept.
const HISTORY: usize = 5;

/// Names of the config maps that contents choose from and change.
const POOL: [&str; 5] = ["cm-0", "cm-1", "cm-2", "cm-3", "cm-4"];

/// The reason that a content never becomes available.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// The content becomes available.
    None,
    /// An object never passes its probe.
    Probe,
    /// The server refuses an object.
    Invalid,
    /// The server does not serve the kind of an object.
    Unserved,
    /// A slice does not exist.
    Slice,
    /// The image of pods cannot be pulled.
    Image,
}

/// A content of the template.
#[derive(Clone, Debug, PartialEq)]
struct Shape {
    /// The number of the edit that created the content. It is in all objects.
    edit: u64,
    /// The phase of each object of the pool, one of three.
    pool: BTreeMap<&'static str, usize>,
    /// True if the content also has objects with unique names.
    beside: bool,
    fault: Fault,
}

impl Shape {
    fn random(edit: u64, random: &mut StdRng) -> Self {
        let mut pool = BTreeMap::new();
        for name in POOL {
            let phase = random.random_range(0..4);
            if phase < 3 {
                pool.insert(name, phase);
            }
        }
        let fault = match random.random_range(0..14) {
            0 => Fault::Probe,
            1 => Fault::Invalid,
            2 => Fault::Unserved,
            3 => Fault::Slice,
            4 => Fault::Image,
            _ => Fault::None,
        };
        Self {
            edit,
            pool,
            beside: random.random_range(0..2) == 0,
            fault,
        }
    }

    /// Returns the objects by their phase.
    fn objects(&self) -> [Vec<Entry>; 3] {
        let edit = self.edit.to_string();
        let mut phases: [Vec<Entry>; 3] = Default::default();
        for (name, phase) in &self.pool {
            phases[*phase].push(configmap(name).data("edit", &edit).data(&edit, "only here"));
        }
        if self.beside {
            phases[1].push(configmap(&format!("own-{edit}")).data("edit", &edit));
            phases[2].push(workload(&format!("app-{edit}"), "app:1"));
        }
        let faulty = format!("faulty-{edit}");
        match self.fault {
            Fault::None | Fault::Slice => {}
            Fault::Probe => phases[0].push(configmap(&faulty)),
            Fault::Invalid => phases[1].push(configmap(&faulty).data("no key!", &edit)),
            Fault::Unserved => phases[2].push(object("example.com/v1", "Nothing", &faulty)),
            Fault::Image => phases[0].push(workload(&faulty, "app:broken")),
        }
        phases
    }

    fn content<'a>(&self, ns: &'a TestNamespace) -> SetBuilder<'a> {
        let slices: &[&str] = match self.fault {
            Fault::Slice => &["nowhere"],
            _ => &[],
        };
        let [a, b, c] = self.objects();
        ns.content()
            .phase("a", a)
            .phase_with_slices("b", b, slices)
            .phase("c", c)
            .probe(fields_equal("", "ConfigMap", ".data.edit", ".data.edit"))
            .probe(workload_probe())
    }
}

/// A deployment that is edited repeatedly.
struct Chain<'a> {
    ns: &'a TestNamespace,
    web: TestDeployment<'a>,
    sets: Recording,
    shapes: Vec<Shape>,
    random: StdRng,
}

impl<'a> Chain<'a> {
    async fn new(ns: &'a TestNamespace, seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let shape = Shape::random(0, &mut random);
        let label = format!(
            "package-operator.run/object-deployment={}",
            ns.set_name("web")
        );
        let sets = Recording::start(ns.cluster(), &ns.set_ref("any"), &label).await;
        let web = ns
            .deployment("web")
            .spec("revisionHistoryLimit", HISTORY)
            .content(shape.content(ns))
            .create()
            .await;
        Self {
            ns,
            web,
            sets,
            shapes: vec![shape],
            random,
        }
    }

    /// Changes the template, and sometimes does something else that users do.
    async fn edit(&mut self, edit: u64) {
        match self.random.random_range(0..12) {
            0 => drop(self.web.pause().await),
            1..=3 => drop(self.web.resume().await),
            4 => {
                let name = POOL[self.random.random_range(0..POOL.len())];
                let reference = self.ns.reference(&configmap(name));
                self.ns.cluster().delete(&reference, "Background").await;
            }
            5 => {
                let time = json!({ "baton.run/restartedAt": edit.to_string() });
                let patch =
                    json!({ "spec": { "template": { "metadata": { "annotations": time } } } });
                self.web.patch(&patch).await;
            }
            _ => {}
        }
        let shape = match self.random.random_range(0..4) {
            0 => self.shapes[self.random.random_range(0..self.shapes.len())].clone(),
            _ => Shape::random(edit, &mut self.random),
        };
        self.apply(shape).await;
    }

    async fn apply(&mut self, shape: Shape) {
        self.web.edit(shape.content(self.ns)).await;
        self.shapes.push(shape);
    }

    /// Applies a last content, and fails unless exactly its objects are left.
    async fn settle(&mut self) {
        let last = Shape {
            fault: Fault::None,
            ..Shape::random(EDITS + 1, &mut self.random)
        };
        self.apply(last.clone()).await;
        self.web.resume().await;
        let reported = self.web.concluded().await;
        let newest = reported.json["status"]["revision"].as_i64().unwrap();
        let done = [
            Is("Available", "True"),
            Is("Succeeded", "True"),
            No("InTransition"),
            No("Paused"),
        ];
        let set = self.web.set_reaches(newest, &done).await;
        let hash = reported.json["status"]["templateHash"].as_str().unwrap();
        assert_eq!(set.name(), format!("{}-{hash}", self.web.name()));
        let ns = self.ns;
        ns.eventually(
            "all others to be archived, and as many as may be kept",
            async || {
                let sets = self.web.sets().await;
                let (last, others) = sets.split_last().unwrap();
                last.number() == Some(newest)
                    && others.len() == HISTORY
                    && others.iter().all(|old| {
                        old.has(&[Because("Archived", "True", "Archived"), Controls(&[])])
                    })
            },
        )
        .await;

        let wanted: Vec<Entry> = last.objects().into_iter().flatten().collect();
        let names = |kind: &str| -> BTreeSet<String> {
            let wanted = wanted.iter().filter(|entry| entry.kind() == kind);
            wanted.map(|entry| entry.name().to_owned()).collect()
        };
        for (api_version, kind) in [("v1", "ConfigMap"), ("apps/v1", "Deployment")] {
            let like = ns.reference(&object(api_version, kind, ""));
            let found = ns.cluster().list(&like, "").await;
            let found: BTreeSet<String> = found
                .iter()
                .filter_map(|found| found["metadata"]["name"].as_str())
                .filter(|name| *name != "kube-root-ca.crt")
                .map(str::to_owned)
                .collect();
            assert_eq!(found, names(kind), "leaked or lost");
        }
        for entry in &wanted {
            let live = ns.live(entry).await;
            assert_managed_by(&live, &set);
            assert_eq!(owner_names(&live), [set.name()]);
            if entry.kind() == "ConfigMap" {
                assert_eq!(live["data"], entry.manifest["data"]);
            }
        }
        self.check_numbers().await;
    }

    /// Fails unless each created revision had the next number, and named all earlier revisions that
    /// still existed.
    async fn check_numbers(&self) {
        let recorded = self.sets.so_far().await;
        let states = recorded.states();
        let mut number = 0;
        for (event, before) in recorded.events.iter().zip(&states) {
            if event.change != Change::Added {
                continue;
            }
            number += 1;
            let set = Revision {
                json: event.object.clone(),
            };
            assert_eq!(set.number(), Some(number), "{:#}", set.json);
            let named: BTreeSet<&str> = previous(&set).into_iter().collect();
            let missed = before.iter().find(|(name, old)| {
                // A revision that is being deleted may be gone for the manager already.
                old["metadata"]["deletionTimestamp"].is_null() && !named.contains(name.as_str())
            });
            assert_eq!(missed.map(|(name, _)| name), None, "{:#}", set.json);
        }
        println!("{} revisions in {:?}", number, self.ns.scope());
    }
}

/// Two chains, one of each scope, survive a manager that is killed at random moments.
#[tokio::test]
async fn a_long_chain_survives_random_edits_and_killed_managers() {
    let seed = first_seed();
    println!("{SEED}={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let mut bed = Exclusive::acquire().await;
    let namespaces = [
        bed.namespace(Scope::Namespaced).await,
        bed.namespace(Scope::Cluster).await,
    ];
    let mut chains = Vec::new();
    for (ns, at) in namespaces.iter().zip(0..) {
        chains.push(Chain::new(ns, 2 * seed + at).await);
    }
    let mut kills = 0;
    for edit in 1..=EDITS {
        for chain in &mut chains {
            chain.edit(edit).await;
        }
        // The next edit comes before the manager has observed this one, in the middle of its
        // rollout, or at its end.
        if random.random_range(0..2) == 0 {
            for chain in &chains {
                chain.web.observed().await;
            }
        }
        let moment = random.random_range(0..=20_u64);
        tokio::time::sleep(Duration::from_millis(moment * moment)).await;
        if random.random_range(0..4) == 0 {
            bed.take_manager().kill();
            bed.spawn_manager(&["--leader-elect=false"]);
            kills += 1;
        }
    }
    println!("the manager was killed {kills} times in the middle of its work");
    assert!(kills >= 5, "{kills}");
    for chain in &mut chains {
        chain.settle().await;
    }
    settle(&namespaces[0], &bed).await;

    let mut before = Vec::new();
    for chain in &chains {
        before.push((chain.web.read().await, chain.web.sets().await));
    }
    bed.take_manager().kill();
    bed.start_manager();
    settle(&namespaces[0], &bed).await;
    assert_eq!(bed.manager().metrics().writes(), 0, "{SEED}={seed}");
    for (chain, before) in chains.iter().zip(before) {
        assert_eq!((chain.web.read().await, chain.web.sets().await), before);
    }
}
