//! A manager that is killed at random moments of rollouts and aborts.

use baton_integration::application::{ALL_IN, TestApplication, VANGUARD};
use baton_integration::exclusive::Exclusive;
use baton_integration::prelude::*;
use baton_integration::seed::{SEED, seeds};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::PODS;
use super::state::{becomes, settled_picture};
use super::watched::Watched;
use crate::requests::settle;

/// Number of seeds of each of the two tests.
const ROUNDS: u64 = 5;

/// The square root of the longest delay of a kill in milliseconds. Most kills come early in a
/// stage.
const LATEST: u64 = 24;

/// The disturbance of a rollout, if any.
struct Disturbance {
    random: Option<StdRng>,
    kills: u64,
}

impl Disturbance {
    fn none() -> Self {
        Self {
            random: None,
            kills: 0,
        }
    }

    fn of(seed: u64) -> Self {
        Self {
            random: Some(StdRng::seed_from_u64(seed)),
            kills: 0,
        }
    }

    /// In two of three cases, kills the manager at a random moment of the stage that has just
    /// begun, and starts another one.
    async fn maybe_kill(&mut self, bed: &mut Exclusive) {
        let Some(random) = &mut self.random else {
            return;
        };
        if random.random_range(0..3) == 0 {
            return;
        }
        let moment = random.random_range(0..=LATEST);
        tokio::time::sleep(Duration::from_millis(moment * moment)).await;
        bed.take_manager().kill();
        bed.spawn_manager(&["--leader-elect=false"]);
        self.kills += 1;
    }
}

/// Rolls out a version in three steps.
async fn roll_out(
    app: &TestApplication<'_>,
    bed: &mut Exclusive,
    generation: i64,
    fate: &mut Disturbance,
) {
    let version = ["0.0.1", "0.0.2"][usize::try_from(generation % 2).unwrap()];
    app.apply(app.environment(version, PODS, VANGUARD)).await;
    fate.maybe_kill(bed).await;
    app.at_step(generation, 0).await;
    app.promote(generation, 1).await;
    fate.maybe_kill(bed).await;
    app.at_step(generation, 1).await;
    app.promote(generation, 2).await;
    fate.maybe_kill(bed).await;
    app.completed(generation).await;
}

/// Rolls out two steps, and aborts.
async fn abort(app: &TestApplication<'_>, bed: &mut Exclusive, fate: &mut Disturbance) {
    app.apply(app.environment("0.0.2", PODS, VANGUARD)).await;
    fate.maybe_kill(bed).await;
    app.at_step(1, 0).await;
    app.promote(1, 1).await;
    fate.maybe_kill(bed).await;
    app.becomes(1, "on the way to the second step", |release| {
        release["spec"]["targetStep"] == 1
    })
    .await;
    // A deletion counts as an abort once the Application has observed the Release.
    let highest = "shipper.booking.com/app.highestObservedGeneration";
    app.ns
        .eventually("the Release to be noted", async || {
            app.ns.live(&app.entry()).await["metadata"]["annotations"][highest] == "1"
        })
        .await;
    let contender = app.release(1).await;
    app.delete_release(&contender).await;
    fate.maybe_kill(bed).await;
    app.completed(0).await;
}

/// Fails if a restarted manager writes anything.
async fn writes_nothing_after_restart(ns: &TestNamespace, bed: &mut Exclusive) {
    settle(ns, bed).await;
    bed.take_manager().kill();
    bed.start_manager();
    settle(ns, bed).await;
    assert_eq!(bed.manager().metrics().writes(), 0);
}

/// Each rollout ends as an undisturbed one, and the incumbent keeps its pods until the contender
/// has its own.
#[tokio::test]
async fn rollouts_of_a_killed_manager_end_like_undisturbed_ones() {
    let (mut bed, ns) = super::bed_with_releases().await;
    let app = TestApplication::new(&ns, super::APP).await;
    app.apply(app.environment("0.0.1", PODS, ALL_IN)).await;
    let limit = json!({ "spec": { "revisionHistoryLimit": 1 } });
    ns.merge(&app.entry(), &limit).await;
    app.completed(0).await;
    let watched = Watched::start(&app).await;
    // The first rollout starts from another Release than all following ones, so it is not compared.
    let mut expected = Vec::new();
    for generation in 1..=3 {
        roll_out(&app, &mut bed, generation, &mut Disturbance::none()).await;
        if generation > 1 {
            settle(&ns, &bed).await;
            expected.push(settled_picture(&app).await);
        }
    }
    let mut kills = 0;
    for (generation, seed) in (4..).zip(seeds(ROUNDS)) {
        let text = format!("{SEED}={seed}");
        println!("{text}");
        let mut fate = Disturbance::of(seed);
        roll_out(&app, &mut bed, generation, &mut fate).await;
        kills += fate.kills;
        let like = &expected[usize::try_from(generation % 2).unwrap()];
        becomes(&app, like, &text).await;
        watched.assert(PODS as usize).await;
    }
    println!("the manager was killed {kills} times in the middle of its work");
    assert!(kills >= ROUNDS, "{kills}");
    writes_nothing_after_restart(&ns, &mut bed).await;
}

/// After an abort the state is the previous one, no matter when the manager is killed, and the
/// incumbent keeps its pods.
#[tokio::test]
async fn aborts_of_a_killed_manager_end_like_undisturbed_ones() {
    let (mut bed, ns) = super::bed_with_releases().await;
    let app = TestApplication::new(&ns, super::APP).await;
    app.apply(app.environment("0.0.1", PODS, ALL_IN)).await;
    app.completed(0).await;
    let watched = Watched::start(&app).await;
    abort(&app, &mut bed, &mut Disturbance::none()).await;
    settle(&ns, &bed).await;
    let expected = settled_picture(&app).await;
    let mut kills = 0;
    for seed in seeds(ROUNDS) {
        let text = format!("{SEED}={seed}");
        println!("{text}");
        let mut fate = Disturbance::of(seed);
        abort(&app, &mut bed, &mut fate).await;
        kills += fate.kills;
        becomes(&app, &expected, &text).await;
        // Half of the incumbent's pods had made room for the contender.
        watched.assert(PODS as usize / 2).await;
    }
    println!("the manager was killed {kills} times in the middle of its work");
    assert!(kills >= ROUNDS, "{kills}");
    writes_nothing_after_restart(&ns, &mut bed).await;
}
