//! Many concurrent rollouts, whose manager is killed in each wave of each rollout at least once.

mod fleet;
mod history;

use std::time::Instant;

use baton_integration::exclusive::Exclusive;
use baton_integration::prelude::*;
use baton_integration::seed::{SEED, first_seed};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::time::sleep;

use self::fleet::{Left, Rollouts};
use self::history::History;
use super::scenario::Scenario;
use crate::requests::settle;
use crate::site_rollouts::Sites;

/// Number of concurrent seeds. With many more, no manager on a busy machine runs until it has
/// reconciled all of them.
const SEEDS: u64 = 6;

/// Time for which sites must stay available. It is longer than a manager runs, so that one is
/// killed meanwhile.
const HEALTHY_TIME: Duration = Duration::from_secs(8);

/// Progress deadline of a version in a site. A tenth of it is longer than a manager runs, unless the
/// test waits for a broken site, so only broken sites exceed it.
const DEADLINE: Duration = Duration::from_mins(1);

/// Time limit of the whole test.
const TIMEOUT: Duration = Duration::from_mins(5);

/// The flags of a manager that runs alone. The interval of heartbeats is the default, because the
/// machine is busy.
const ALONE: &[&str] = &["--leader-elect=false"];

/// Longest life of a manager, however busy the machine is.
const MAX_LIFE: Duration = Duration::from_secs(7);

/// The lives of managers. Some end before the manager is ready; the next manager then ends in the
/// middle of its work.
struct Lives {
    random: StdRng,
    was_short: bool,
}

impl Lives {
    /// Lets a manager live.
    async fn live(&mut self, bed: &Exclusive) {
        let begun = Instant::now();
        self.was_short = !self.was_short && self.random.random_ratio(1, 3);
        if self.was_short {
            let life = self.random.random_range(0..=500);
            return sleep(Duration::from_millis(life)).await;
        }
        while !bed.manager().is_ready() && begun.elapsed() < MAX_LIFE {
            sleep(Duration::from_millis(20)).await;
        }
        let life = Duration::from_millis(self.random.random_range(1000..=4000));
        sleep(life.min(MAX_LIFE.saturating_sub(begun.elapsed()))).await;
    }

    /// Lets a manager live until the state changes, because a manager observes a site for a tenth of
    /// the progress deadline before the site has failed.
    async fn live_until_late(&mut self, rollouts: &mut Rollouts<'_>, left: &Left) {
        let begun = Instant::now();
        while rollouts.look_and_act().await == *left && begun.elapsed() < TIMEOUT {
            sleep(Duration::from_millis(200)).await;
        }
        let life = self.random.random_range(0..=2000);
        sleep(Duration::from_millis(life)).await;
    }
}

/// Each rollout ends as the planner predicts for an undisturbed one, and the last manager has
/// nothing to write.
#[tokio::test]
async fn rollouts_of_managers_killed_in_every_wave_end_as_planned() {
    let first = first_seed();
    println!("{SEED}={first}");
    let mut bed = Exclusive::acquire().await;
    bed.take_manager().kill();
    bed.spawn_manager(ALONE);
    let ns = bed.namespace(Scope::Namespaced).await;
    let sites = Sites::of(&baton_integration::fleet::Fleet::new(&ns)).await;
    let scenarios = first..first + SEEDS;
    let scenarios = scenarios.map(|seed| Scenario::new(seed, 3, HEALTHY_TIME, DEADLINE));
    let mut rollouts = Rollouts::install(&ns, &sites, scenarios.collect()).await;
    let history = History::follow(&ns).await;
    rollouts.request_second_version().await;

    let mut lives = Lives {
        random: StdRng::seed_from_u64(first),
        was_short: false,
    };
    let mut kills = Vec::new();
    let start = Instant::now();
    let mut left = rollouts.look_and_act().await;
    while !left.texts.is_empty() {
        if left.is_late {
            lives.live_until_late(&mut rollouts, &left).await;
        } else {
            lives.live(&bed).await;
        }
        bed.take_manager().kill();
        kills.push(history::now(&ns).await);
        left = rollouts.look_and_act().await;
        bed.spawn_manager(ALONE);
        assert!(
            left.texts.is_empty() || start.elapsed() < TIMEOUT,
            "{SEED}={first}: {}",
            left.texts.join("\n")
        );
    }
    println!(
        "{} managers were killed in {} s",
        kills.len(),
        start.elapsed().as_secs()
    );
    settle(&ns, &bed).await;
    bed.take_manager().kill();
    bed.spawn_manager(ALONE);
    for site in &sites.all {
        site.becomes("Connected", "True").await;
    }
    settle(&ns, &bed).await;
    assert_eq!(bed.manager().metrics().writes(), 0);
    assert_eq!(rollouts.look_and_act().await.texts, [""; 0]);
    rollouts.assert_objects(&sites).await;
    history.assert_orderly(&kills, &rollouts).await;
    rollouts.delete().await;
}
