//! The allowed number of API requests, counted by the manager itself on a bed without other users.

use std::collections::BTreeMap;
use std::time::Instant;

use baton_integration::exclusive::Exclusive;
use baton_integration::prelude::*;

alternating_scopes! {
    a_rollout_costs_one_write_per_object_and_one_dry_run_less_per_phase;
    delegated_phases_cost_few_more_requests;
}

/// Number of objects in each of two phases.
const PER_PHASE: u64 = 5;

/// Number of objects of a revision.
const OBJECTS: u64 = 2 * PER_PHASE;
/// Number of dry runs. In each phase, one object is written first, without a dry run.
const DRY_RUNS: u64 = OBJECTS - 2;

/// Number of requests of a set, other than those about its objects: number and finalizers, status.
const PER_SET: u64 = 4;

/// A count of requests by verb between two moments.
pub(crate) struct Count {
    before: BTreeMap<&'static str, u64>,
}

const VERBS: [&str; 12] = [
    "get",
    "list",
    "watch",
    "create",
    "apply",
    "dry-run",
    "patch",
    "update",
    "status",
    "delete",
    "event",
    "discovery",
];

fn requests(bed: &Exclusive) -> BTreeMap<&'static str, u64> {
    let metrics = bed.manager().metrics();
    VERBS
        .into_iter()
        .map(|verb| (verb, metrics.requests(verb)))
        .collect()
}

impl Count {
    pub(crate) fn start(bed: &Exclusive) -> Self {
        Self {
            before: requests(bed),
        }
    }

    /// Counts all requests of a manager since its start.
    pub(crate) fn since_start() -> Self {
        Self {
            before: VERBS.into_iter().map(|verb| (verb, 0)).collect(),
        }
    }

    /// Returns the number of requests since the start of the count, without verbs that were not
    /// used.
    pub(crate) fn so_far(&self, bed: &Exclusive) -> BTreeMap<&'static str, u64> {
        let mut now = requests(bed);
        for (verb, count) in &mut now {
            *count -= self.before[verb];
        }
        now.retain(|_, count| *count > 0);
        now
    }
}

/// Waits until the manager is idle.
pub(crate) async fn settle(ns: &TestNamespace, bed: &Exclusive) {
    ns.eventually("the manager to be ready", async || bed.manager().is_ready())
        .await;
    let last = std::cell::RefCell::new((requests(bed), 0));
    ns.eventually("the manager to be idle", async || {
        let now = requests(bed);
        let (before, rounds) = &mut *last.borrow_mut();
        *rounds = if *before == now { *rounds + 1 } else { 0 };
        *before = now;
        // The rounds are 50 ms apart.
        *rounds >= 20
    })
    .await;
}

fn of(counts: &BTreeMap<&'static str, u64>, verb: &str) -> u64 {
    counts.get(verb).copied().unwrap_or_default()
}

/// Creates a revision of two phases, with a probe that matches every object.
async fn create(ns: &TestNamespace, name: &str, number: i64, previous: &[&str], value: &str) {
    create_of("", ns, name, number, previous, value).await;
}

/// As [`create`], but the phases are of a class.
async fn create_of(
    class: &str,
    ns: &TestNamespace,
    name: &str,
    number: i64,
    previous: &[&str],
    value: &str,
) {
    let phase = |phase: &str| {
        (0..PER_PHASE)
            .map(|at| configmap(&format!("{phase}-{at}")).data("k", value))
            .collect::<Vec<_>>()
    };
    ns.set(name)
        .revision(number)
        .previous(previous)
        .phase_of(class, "a", phase("a"))
        .phase_of(class, "b", phase("b"))
        .probe(fields_equal("", "ConfigMap", ".data.k", ".data.k"))
        .reaching(&[
            Is("Available", "True"),
            Is("Succeeded", "True"),
            No("InTransition"),
        ])
        .await;
}

/// Checks the requests of a first rollout: each object takes one write, and all but one of a phase
/// take a dry run.
fn check_first_writes(counts: &BTreeMap<&'static str, u64>, sets: u64) {
    assert_eq!(of(counts, "dry-run"), DRY_RUNS, "{counts:?}");
    assert_eq!(of(counts, "apply"), OBJECTS, "{counts:?}");
    assert_eq!(of(counts, "get"), 0, "{counts:?}");
    let rest: u64 = ["create", "patch", "update", "status", "event", "delete"]
        .into_iter()
        .map(|verb| of(counts, verb))
        .sum();
    assert!(rest <= PER_SET * sets, "{counts:?}");
}

async fn a_rollout_costs_one_write_per_object_and_one_dry_run_less_per_phase(scope: Scope) {
    let bed = Exclusive::acquire().await;
    let ns = bed.namespace(scope).await;
    // The first object of a kind also starts the watch of the kind.
    ns.set("v0")
        .revision(1)
        .phase("a", [configmap("cm")])
        .available()
        .await;
    settle(&ns, &bed).await;

    let count = Count::start(&bed);
    create(&ns, "v1", 1, &[], "1").await;
    settle(&ns, &bed).await;
    let counts = count.so_far(&bed);
    check_first_writes(&counts, 1);
    // The finalizers take one write; the number is given in the spec.
    assert_eq!(of(&counts, "patch"), 1, "{counts:?}");

    let count = Count::start(&bed);
    create(&ns, "v2", 2, &["v1"], "2").await;
    ns.reaches("v1", &[Controls(&[])]).await;
    settle(&ns, &bed).await;
    check_first_writes(&count.so_far(&bed), 2);

    let count = Count::start(&bed);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(
        count.so_far(&bed),
        BTreeMap::new(),
        "an idle manager sends nothing"
    );
}

/// Counts the requests of a rollout or an archival of phases of a class. Status writes are
/// debounced for a second, so on a slow machine there may be more of them.
struct Costs {
    count: Count,
    started: Instant,
}

impl Costs {
    fn start(bed: &Exclusive) -> Self {
        Self {
            count: Count::start(bed),
            started: Instant::now(),
        }
    }

    /// Checks the requests once the manager is idle: at most this number of reads, and exactly this
    /// number of the others.
    async fn check(self, ns: &TestNamespace, bed: &Exclusive, expected: &[(&'static str, u64)]) {
        let slack = self.started.elapsed().as_secs() * 2;
        settle(ns, bed).await;
        let mut counts = self.count.so_far(bed);
        // Events repeat the content of the statuses.
        counts.remove("event");
        let mut expected: BTreeMap<_, _> = expected.iter().copied().collect();
        let statuses = of(&counts, "status");
        let least = of(&expected, "status");
        assert!(
            (least..=least + slack).contains(&statuses),
            "{counts:?}, {slack} more would do"
        );
        expected.insert("status", statuses);
        // The number of reads in a teardown depends on the arrival of events.
        let most = of(&expected, "get");
        expected.retain(|verb, _| *verb != "get");
        assert!(of(&counts, "get") <= most, "{counts:?}");
        counts.remove("get");
        assert_eq!(counts, expected);
    }
}

/// Each phase takes the creation of its object, which includes its finalizer, and a status. The
/// revision takes as many writes as without a class.
async fn delegated_phases_cost_few_more_requests(scope: Scope) {
    const CLASS: &str = "default";
    let bed = Exclusive::acquire().await;
    let ns = bed.namespace(scope).await;
    ns.set("v0")
        .revision(1)
        .phase("a", [configmap("cm")])
        .available()
        .await;
    settle(&ns, &bed).await;
    let rollout = [
        ("create", 2),
        ("patch", 1),
        ("dry-run", DRY_RUNS),
        ("apply", OBJECTS),
    ];

    let costs = Costs::start(&bed);
    create_of(CLASS, &ns, "v1", 1, &[], "1").await;
    let statuses = ("status", 2 + 1);
    costs
        .check(&ns, &bed, &[&rollout[..], &[statuses]].concat())
        .await;

    let costs = Costs::start(&bed);
    create_of(CLASS, &ns, "v2", 2, &["v1"], "2").await;
    ns.reaches("v1", &[Controls(&[])]).await;
    // The older revision and its phases also report that they have lost all objects.
    let statuses = ("status", 2 * (2 + 1));
    costs
        .check(&ns, &bed, &[&rollout[..], &[statuses]].concat())
        .await;

    let costs = Costs::start(&bed);
    ns.set_lifecycle("v1", "Archived").await;
    ns.reaches("v1", &[Is("Archived", "True")]).await;
    let counts = [
        ("delete", 2),
        // A release of each object, and the finalizers of the phases and of the revision.
        ("patch", OBJECTS + 2 + 1),
        // Each pass reads the objects that should be gone from the server.
        ("get", 6),
        ("status", 1),
    ];
    costs.check(&ns, &bed, &counts).await;
}

/// A phase that no controller runs is reported once, shortly after its creation.
#[tokio::test]
async fn a_phase_that_no_controller_runs_costs_one_status_write() {
    let bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    settle(&ns, &bed).await;
    let count = Count::start(&bed);
    ns.revision(1)
        .delegated("a", "elsewhere", [configmap("cm")])
        .reaching(&[Says("Available", "no status reported")])
        .await;
    settle(&ns, &bed).await;
    let expected = [("create", 1), ("event", 1), ("patch", 1), ("status", 1)];
    assert_eq!(count.so_far(&bed), BTreeMap::from(expected));
}

/// Both finalizers and the computed number take one write, and the first status takes another one.
#[tokio::test]
async fn number_and_finalizers_take_one_write() {
    let bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    ns.set("v1")
        .phase("a", [configmap("cm").data("k", "1")])
        .reaching(&[Is("Succeeded", "True")])
        .await;
    settle(&ns, &bed).await;
    let count = Count::start(&bed);
    let set = ns
        .set("v2")
        .phase("a", [configmap("other")])
        .reaching(&[Is("Succeeded", "True")])
        .await;
    assert_eq!(set.number(), Some(1));
    assert_eq!(set.json["status"]["revision"], 1);
    settle(&ns, &bed).await;
    let counts = count.so_far(&bed);
    let expected = [("apply", 1), ("patch", 1), ("status", 1)];
    assert_eq!(counts, BTreeMap::from(expected));
}

/// A handover without a change of content needs no dry run.
#[tokio::test]
async fn handover_of_equal_content_needs_no_dry_run() {
    let bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    create(&ns, "v1", 1, &[], "same").await;
    settle(&ns, &bed).await;
    let count = Count::start(&bed);
    create(&ns, "v2", 2, &["v1"], "same").await;
    settle(&ns, &bed).await;
    let counts = count.so_far(&bed);
    assert_eq!(of(&counts, "apply"), OBJECTS, "{counts:?}");
    assert_eq!(of(&counts, "dry-run"), 0, "{counts:?}");
}

/// A repair takes one write of the object and one event, no matter which other revisions exist.
#[tokio::test]
async fn drift_costs_one_write() {
    let bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    create(&ns, "v1", 1, &[], "1").await;
    create(&ns, "v2", 2, &["v1"], "2").await;
    settle(&ns, &bed).await;
    let cm = configmap("a-0");
    let count = Count::start(&bed);
    ns.merge(&cm, &json!({ "data": { "k": "drifted" } })).await;
    ns.object_becomes(&cm, "repaired", |live| live["data"]["k"] == "2")
        .await;
    settle(&ns, &bed).await;
    let expected = BTreeMap::from([("apply", 1), ("event", 1)]);
    assert_eq!(count.so_far(&bed), expected);

    // A change of foreign fields causes no request.
    let count = Count::start(&bed);
    ns.merge(&cm, &json!({ "data": { "theirs": "1" } })).await;
    settle(&ns, &bed).await;
    assert_eq!(count.so_far(&bed), BTreeMap::new());
}

/// A teardown takes one delete per object, and one release per object that was handed over.
#[tokio::test]
async fn teardown_costs_one_write_per_object() {
    let bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    create(&ns, "v1", 1, &[], "1").await;
    create(&ns, "v2", 2, &["v1"], "2").await;
    settle(&ns, &bed).await;

    let count = Count::start(&bed);
    ns.set_lifecycle("v1", "Archived").await;
    ns.reaches("v1", &[Is("Archived", "True")]).await;
    settle(&ns, &bed).await;
    let counts = count.so_far(&bed);
    assert_eq!(of(&counts, "delete"), 0, "{counts:?}");
    assert_eq!(
        of(&counts, "apply") + of(&counts, "dry-run"),
        0,
        "{counts:?}"
    );
    // The finalizer of the set is removed by a patch as well.
    assert_eq!(of(&counts, "patch"), OBJECTS + 1, "{counts:?}");
    assert!(of(&counts, "status") <= 2, "{counts:?}");

    let count = Count::start(&bed);
    ns.set_lifecycle("v2", "Archived").await;
    ns.reaches("v2", &[Is("Archived", "True")]).await;
    settle(&ns, &bed).await;
    let counts = count.so_far(&bed);
    assert_eq!(of(&counts, "delete"), OBJECTS, "{counts:?}");
    assert_eq!(
        of(&counts, "apply") + of(&counts, "dry-run"),
        0,
        "{counts:?}"
    );
    assert!(of(&counts, "get") <= OBJECTS, "{counts:?}");
    assert!(of(&counts, "status") <= 3, "{counts:?}");
}

/// An object that waits for a finalizer is deleted once.
#[tokio::test]
async fn a_delete_is_sent_once() {
    let bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    let (blocked, free) = (configmap("blocked").blocked(), configmap("free"));
    ns.revision(1)
        .phase("a", [blocked.clone(), free.clone()])
        .available()
        .await;
    settle(&ns, &bed).await;
    let count = Count::start(&bed);
    ns.set_lifecycle("v1", "Archived").await;
    ns.gone(&free).await;
    // A change between the read and the delete would refuse the delete, which is then sent again.
    ns.object_becomes(&blocked, "being deleted", |live| {
        !live["metadata"]["deletionTimestamp"].is_null()
    })
    .await;
    for round in 0..5 {
        let patch = json!({ "metadata": { "annotations": { "round": round.to_string() } } });
        ns.merge(&blocked, &patch).await;
    }
    settle(&ns, &bed).await;
    let counts = count.so_far(&bed);
    assert_eq!(of(&counts, "delete"), 2, "{counts:?}");
    ns.unblock(&blocked).await;
    ns.reaches("v1", &[Is("Archived", "True")]).await;
    assert_eq!(of(&count.so_far(&bed), "delete"), 2);
}
