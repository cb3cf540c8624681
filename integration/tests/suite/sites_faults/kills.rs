//! Many rollouts at once, whose manager is killed again and again: in each wave of each of them at least once.

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

/// How many seeds there are side by side. With many more a busy machine has no manager that lives until it has looked
/// at all of them.
const SEEDS: u64 = 10;

/// How long sites have to stay available: longer than a manager lives, so that one is killed meanwhile.
const HEALTHY_TIME: Duration = Duration::from_secs(8);

/// How long a version may take in a site: longer than a manager lives, so that none is late but those that are broken.
const DEADLINE: Duration = Duration::from_secs(15);

/// How long all of it may take.
const PATIENCE: Duration = Duration::from_mins(5);

/// The flags of a manager that is alone, and expects heartbeats as seldom as usual: the machine is busy.
const ALONE: &[&str] = &["--leader-elect=false"];

/// The longest life of a manager, however busy the machine is.
const LONGEST: Duration = Duration::from_secs(7);

/// Lives of managers: some end before they are ready, the next one then in the middle of its work.
struct Lives {
    random: StdRng,
    was_short: bool,
}

impl Lives {
    /// Lets one live.
    async fn live(&mut self, bed: &Exclusive) {
        let begun = Instant::now();
        self.was_short = !self.was_short && self.random.random_ratio(1, 3);
        if self.was_short {
            let life = self.random.random_range(0..=500);
            return sleep(Duration::from_millis(life)).await;
        }
        while !bed.manager().is_ready() && begun.elapsed() < LONGEST {
            sleep(Duration::from_millis(20)).await;
        }
        let life = Duration::from_millis(self.random.random_range(1000..=4000));
        sleep(life.min(LONGEST.saturating_sub(begun.elapsed()))).await;
    }

    /// Lets one live until something happens that no other one has seen: sites have their whole deadline from the start
    /// of a manager on.
    async fn live_until_late(&mut self, rollouts: &mut Rollouts<'_>, left: &Left) {
        let begun = Instant::now();
        while rollouts.look_and_act().await == *left && begun.elapsed() < PATIENCE {
            sleep(Duration::from_millis(200)).await;
        }
        let life = self.random.random_range(0..=2000);
        sleep(Duration::from_millis(life)).await;
    }
}

/// Each rollout ends as the planner has it when nothing is in its way, and the last manager has nothing to write.
#[tokio::test]
async fn managers_are_killed_in_every_wave_of_many_rollouts() {
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
    rollouts.bring().await;

    let mut lives = Lives {
        random: StdRng::seed_from_u64(first),
        was_short: false,
    };
    let mut kills = Vec::new();
    let asked = Instant::now();
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
            asked.elapsed() < PATIENCE,
            "{SEED}={first}: {}",
            left.texts.join("\n")
        );
    }
    println!(
        "{} managers were killed in {} s",
        kills.len(),
        asked.elapsed().as_secs()
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
