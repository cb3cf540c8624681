//! `cargo dev adversary`: the large forms of the attacks of `docs/operate/security.md`, one after the
//! other and all at once, against a manager with the memory limit of `config/install.yaml`; then state
//! that lies (module `lies`).
//!
//! A victim, another tenant, rolls out lone revisions meanwhile. The table has a row for each attack:
//! the highest memory of the manager with its helm processes, and the part of the manager; the time of
//! the victim's revisions; and the writes to an object of the victim that nobody has changed.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests panic with the expected state, as tests do"
)]

mod attacks;
mod gauge;
mod lies;
mod repository;
mod victim;

use std::time::Instant;

use baton_integration::manager::Manager;
use baton_integration::namespace::{EMPTIED, LABEL_TEST};
use baton_integration::prelude::*;
use futures::FutureExt as _;
use futures::future::{LocalBoxFuture, join_all};

use self::attacks::Scene;
use self::gauge::{Gauge, Reading};
use self::victim::{Latencies, Victim};

/// Part of the memory limit that the manager may take.
const SHARE: f64 = 0.75;

/// Limit of the time of a lone revision.
const LATENCY: Duration = Duration::from_secs(1);

/// The variable with the names of the attacks that run, set by `cargo dev adversary`: all if it is empty.
const CHOSEN: &str = "ADVERSARY_ATTACKS";

/// Minimum duration of an attack.
const DURATION: Duration = Duration::from_secs(15);

/// Time limit for the removal of the objects of an attack.
const REMOVAL: Duration = Duration::from_mins(3);

/// Time after which the memory of an attack has to be free: the allocator returns memory in a second.
const RETURN: Duration = Duration::from_secs(10);

/// Name and function of an attack. The function returns when the attack has been reported.
type Attack = (
    &'static str,
    for<'a> fn(&'a Scene, &'a TestNamespace) -> LocalBoxFuture<'a, ()>,
);

const ATTACKS: &[Attack] = &[
    ("large manifests", |scene, ns| {
        attacks::manifests(scene, ns).boxed_local()
    }),
    ("large values", |scene, ns| {
        attacks::values(scene, ns).boxed_local()
    }),
    ("failing revisions", |scene, ns| {
        attacks::failing(scene, ns).boxed_local()
    }),
    ("unknown clusters", |scene, ns| {
        attacks::targets(scene, ns).boxed_local()
    }),
    ("evil repository", |scene, ns| {
        attacks::repository(scene, ns).boxed_local()
    }),
    ("evil cluster", |scene, ns| {
        attacks::cluster(scene, ns).boxed_local()
    }),
    ("stolen token", |scene, ns| {
        attacks::token(scene, ns).boxed_local()
    }),
    ("full disk", |scene, ns| {
        attacks::disk(scene, ns).boxed_local()
    }),
];

/// The name of all attacks at the same time.
const TOGETHER: &str = "all at once";

/// Returns the names of the chosen attacks and lies: all if none is named.
fn chosen() -> Vec<String> {
    let chosen = std::env::var(CHOSEN).unwrap_or_default();
    let attacks = ATTACKS.iter().map(|(name, _)| *name);
    let all: Vec<_> = attacks.chain([TOGETHER]).chain(lies::names()).collect();
    if chosen.is_empty() {
        return all.into_iter().map(ToOwned::to_owned).collect();
    }
    let chosen: Vec<_> = chosen.split(',').map(ToOwned::to_owned).collect();
    for name in &chosen {
        assert!(
            all.contains(&name.as_str()),
            "no attack has the name {name:?}; the names are {all:?}"
        );
    }
    chosen
}

/// The result of an attack. Memory in MiB.
struct Row {
    name: &'static str,
    peak: Reading,
    after: f64,
    latencies: Latencies,
    writes: usize,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_manager_withstands_all_attacks() {
    let chosen = chosen();
    let is_chosen = |name: &str| chosen.iter().any(|it| it == name);
    let mut missed = attack(is_chosen).await;
    missed.extend(lies::run(is_chosen).await);
    assert!(missed.is_empty(), "missed goals: {}", missed.join("; "));
}

/// Runs the attacks with a name, prints the table, and returns the goals that were missed.
async fn attack(is_chosen: impl Fn(&str) -> bool) -> Vec<String> {
    let attacks: Vec<_> = ATTACKS.iter().filter(|(name, _)| is_chosen(name)).collect();
    if attacks.is_empty() && !is_chosen(TOGETHER) {
        return Vec::new();
    }
    let victim = Victim::new().await;
    let manager = Manager::shared(victim.ns().cluster().kubeconfig());
    let gauge = Gauge::start(manager.id());
    let scene = Scene::new(manager).await;
    victim.rolled_out(DURATION).await;
    let rest = gauge.now().all;
    println!(
        "memory at rest: {rest:.0} MiB; limit: {}",
        gauge::limit_text()
    );
    let mut rows = Vec::new();
    for attack in attacks {
        rows.push(measure(&scene, &victim, &gauge, &[*attack]).await);
    }
    if is_chosen(TOGETHER) {
        rows.push(measure(&scene, &victim, &gauge, ATTACKS).await);
    }
    assert!(manager.exited().is_none(), "the manager has ended");
    print(&rows)
}

/// Runs attacks at the same time, each in a namespace of its own, and removes their objects.
async fn measure(scene: &Scene, victim: &Victim, gauge: &Gauge, attacks: &[Attack]) -> Row {
    let name = match attacks {
        [(name, _)] => name,
        _ => TOGETHER,
    };
    println!("{name}");
    gauge.reset();
    let namespaces = attacks
        .iter()
        .map(|_| TestNamespace::new(Scope::Namespaced));
    let namespaces = join_all(namespaces).await;
    let recording = victim.recording().await;
    let start = Instant::now();
    let attack = async {
        let attacks = attacks.iter().zip(&namespaces);
        join_all(attacks.map(|((_, attack), ns)| attack(scene, ns))).await;
        tokio::time::sleep(DURATION.saturating_sub(start.elapsed())).await;
    };
    let latencies = victim.while_under(attack).await;
    let writes = recording.so_far().await.events.len();
    let peak = gauge.peak();
    println!("  {:.0} s", start.elapsed().as_secs_f64());
    for ns in namespaces {
        let (name, cluster) = (ns.name().to_owned(), ns.cluster().clone());
        drop(ns);
        let gone = async || {
            let namespace = json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name },
            });
            // An emptied namespace stays.
            let found = cluster.get(&namespace).await;
            found.is_none_or(|found| found["metadata"]["labels"][LABEL_TEST] == EMPTIED)
        };
        let removed = victim.ns().within(REMOVAL);
        removed
            .eventually("the removal of the attacker's objects", gone)
            .await;
    }
    tokio::time::sleep(RETURN).await;
    Row {
        name,
        peak,
        after: gauge.now().all,
        latencies,
        writes,
    }
}

/// Prints the table, and returns the goals that were missed.
fn print(rows: &[Row]) -> Vec<String> {
    println!(
        "| attack | peak, MiB | without helm, MiB | after, MiB | revisions | median, s | worst, s | worst request, s | \
         writes |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|");
    let most = gauge::limit().unwrap_or(f64::INFINITY) * SHARE;
    let mut missed = Vec::new();
    for row in rows {
        let Latencies {
            revisions,
            requests,
        } = &row.latencies;
        let worst = victim::worst(revisions);
        println!(
            "| {} | {:.0} | {:.0} | {:.0} | {} | {:.2} | {:.2} | {:.2} | {} |",
            row.name,
            row.peak.all,
            row.peak.own,
            row.after,
            revisions.len(),
            victim::median(revisions).as_secs_f64(),
            worst.as_secs_f64(),
            victim::worst(requests).as_secs_f64(),
            row.writes
        );
        let mut miss = |what: &str, is_missed: bool| {
            if is_missed {
                missed.push(format!("{}: {what}", row.name));
            }
        };
        miss("memory", row.peak.all > most);
        miss("latency", worst > LATENCY);
        miss("writes to the victim", row.writes > 0);
    }
    missed
}
