//! A manager that is killed repeatedly in the middle of its work.

use baton_integration::exclusive::Exclusive;
use baton_integration::picture::{assert_same, forget};
use baton_integration::prelude::*;
use baton_integration::seed::{SEED, seeds};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::requests::settle;

/// Number of disturbed rollouts. In each of their five stages the manager is killed once or twice.
const ROUNDS: u64 = 4;

/// The square root of the longest delay of a kill in milliseconds. Most kills come early: a stage
/// takes a tenth of a second, and a new manager needs some time to start.
const LATEST: u64 = 20;

/// The disturbance of a rollout, if any.
struct Disturbance(Option<StdRng>);

impl Disturbance {
    /// Kills the manager at a random moment of the stage that has just begun, and starts another
    /// one.
    async fn kill_at_random_moments(&mut self, bed: &mut Exclusive) -> u64 {
        let Some(random) = &mut self.0 else {
            return 0;
        };
        let kills = random.random_range(1..=2);
        for _ in 0..kills {
            let moment = random.random_range(0..=LATEST);
            tokio::time::sleep(Duration::from_millis(moment * moment)).await;
            bed.take_manager().kill();
            bed.spawn_manager(&["--leader-elect=false"]);
        }
        kills
    }
}

/// Creates a revision. Each of its two phases has two objects that all revisions share, and one of
/// this revision only. The second phase follows a probe that passes at once.
async fn create(ns: &TestNamespace, number: i64) {
    let name = format!("r{number}");
    let phase = |phase: &str| {
        [
            configmap(&format!("in-place-{phase}-0")),
            configmap(&format!("in-place-{phase}-1")),
            configmap(&format!("{name}-{phase}")),
        ]
        .map(|cm| cm.data("from", &name).data(&name, "only here"))
    };
    let previous: Vec<String> = (1..number).map(|earlier| format!("r{earlier}")).collect();
    let previous: Vec<&str> = previous.iter().map(String::as_str).collect();
    let set = ns.set(&name).previous(&previous);
    set.phase("a", phase("a"))
        .phase("b", phase("b"))
        .probe(fields_equal("", "ConfigMap", ".data.from", ".data.from"))
        .create()
        .await;
}

/// Rolls out three revisions and archives each predecessor. Returns the number of kills.
async fn roll_out(ns: &TestNamespace, bed: &mut Exclusive, fate: &mut Disturbance) -> u64 {
    let done = [
        Is("Available", "True"),
        Is("Succeeded", "True"),
        No("InTransition"),
    ];
    let mut kills = 0;
    let mut identities = Vec::new();
    for number in 1..=3 {
        create(ns, number).await;
        kills += fate.kill_at_random_moments(bed).await;
        ns.reaches(&format!("r{number}"), &done).await;
        if number > 1 {
            let before = format!("r{}", number - 1);
            // An archived revision keeps its conditions, so this condition must be reported before
            // the archival in every run.
            ns.reaches(&before, &[Is("InTransition", "True")]).await;
            ns.set_lifecycle(&before, "Archived").await;
            kills += fate.kill_at_random_moments(bed).await;
            ns.reaches(&before, &[Is("Archived", "True"), Controls(&[])])
                .await;
        }
        let mut now = Vec::new();
        for name in [
            "in-place-a-0",
            "in-place-a-1",
            "in-place-b-0",
            "in-place-b-1",
        ] {
            now.push(uid(&ns.live(&configmap(name)).await).to_owned());
        }
        identities.push(now);
    }
    assert!(
        identities.iter().all(|uids| *uids == identities[0]),
        "an object was created again"
    );
    kills
}

/// Returns all objects and revisions, without the values that differ between any two runs.
async fn picture(ns: &TestNamespace) -> Vec<String> {
    let like = |api_version: &str, kind: &str| {
        json!({
            "apiVersion": api_version, "kind": kind, "metadata": { "namespace": ns.name() },
        })
    };
    let sets = ns
        .cluster()
        .list(&like("package-operator.run/v1alpha1", "ObjectSet"), "")
        .await;
    let mut objects = ns.cluster().list(&like("v1", "ConfigMap"), "").await;
    objects.retain(|object| object["metadata"]["name"] != "kube-root-ca.crt");
    objects.extend(sets.iter().cloned());
    let mut texts = Vec::new();
    for mut object in objects {
        forget(&mut object);
        let mut text = object.to_string().replace(ns.name(), "the-namespace");
        for set in &sets {
            text = text.replace(
                uid(set),
                set["metadata"]["name"].as_str().unwrap_or_default(),
            );
        }
        texts.push(text);
    }
    texts.sort();
    texts
}

/// There is at least one kill in each stage. Each rollout ends as an undisturbed one does, and a further restart
/// writes nothing.
#[tokio::test]
async fn rollouts_end_like_undisturbed_ones_when_managers_are_killed() {
    let mut bed = Exclusive::acquire().await;
    let calm = bed.namespace(Scope::Namespaced).await;
    roll_out(&calm, &mut bed, &mut Disturbance(None)).await;
    settle(&calm, &bed).await;
    let expected = picture(&calm).await;

    let mut kills = 0;
    // All namespaces are kept until the end: the deletion of one would be work for the next
    // manager.
    let mut namespaces = vec![calm];
    for seed in seeds(ROUNDS) {
        println!("{SEED}={seed}");
        let ns = bed.namespace(Scope::Namespaced).await;
        let mut fate = Disturbance(Some(StdRng::seed_from_u64(seed)));
        kills += roll_out(&ns, &mut bed, &mut fate).await;
        settle(&ns, &bed).await;
        assert_same(&picture(&ns).await, &expected, &format!("{SEED}={seed}"));

        bed.take_manager().kill();
        bed.start_manager();
        settle(&ns, &bed).await;
        assert_eq!(bed.manager().metrics().writes(), 0, "{SEED}={seed}");
        assert_same(&picture(&ns).await, &expected, &format!("{SEED}={seed}"));
        namespaces.push(ns);
    }
    println!("the manager was killed {kills} times in the middle of its work");
    assert!(kills >= 5 * ROUNDS, "{kills}");
}
