//! Many rollouts at once, whose manager is killed again and again: in each wave of each of them at least once.

mod fleet;
mod history;

use baton_integration::exclusive::Exclusive;
use baton_integration::prelude::*;
use baton_integration::seed::{SEED, first_seed};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use self::fleet::Rollouts;
use self::history::History;
use super::scenario::Scenario;
use crate::requests::settle;
use crate::site_rollouts::Sites;

/// How many seeds there are side by side.
const SEEDS: u64 = 30;

/// How long sites have to stay available: longer than the longest life of a manager, so that one is killed meanwhile.
const HEALTHY_TIME: Duration = Duration::from_secs(8);

/// How long a version may take in a site: longer than managers that are killed need for it.
const DEADLINE: Duration = Duration::from_secs(20);

/// How long all of it may take.
const PATIENCE: Duration = Duration::from_mins(5);

/// Lives of managers in milliseconds: some end before it is ready, some in the middle of its work.
struct Lives {
    random: StdRng,
    was_short: bool,
}

impl Lives {
    fn next(&mut self) -> Duration {
        self.was_short = !self.was_short && self.random.random_ratio(1, 3);
        let life = if self.was_short {
            self.random.random_range(0..=500)
        } else {
            self.random.random_range(1500..=5000)
        };
        Duration::from_millis(life)
    }
}

/// Each rollout ends as the planner has it when nothing is in its way, and the last manager has nothing to write.
#[tokio::test]
async fn managers_are_killed_in_every_wave_of_thirty_rollouts() {
    let first = first_seed();
    println!("{SEED}={first}");
    let mut bed = Exclusive::acquire().await;
    // One that expects heartbeats as seldom as in production: the machine is busy.
    bed.take_manager().kill();
    bed.spawn_manager(&["--leader-elect=false"]);
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
    let asked = std::time::Instant::now();
    loop {
        tokio::time::sleep(lives.next()).await;
        bed.take_manager().kill();
        kills.push(history::now(&ns).await);
        let left = rollouts.look_and_act().await;
        bed.spawn_manager(&["--leader-elect=false"]);
        if left.is_empty() {
            break;
        }
        assert!(
            asked.elapsed() < PATIENCE,
            "{SEED}={first}: {}",
            left.join("\n")
        );
    }
    println!(
        "{} managers were killed in {} s",
        kills.len(),
        asked.elapsed().as_secs()
    );
    settle(&ns, &bed).await;
    bed.take_manager().kill();
    bed.start_manager();
    for site in &sites.all {
        site.becomes("Connected", "True").await;
    }
    settle(&ns, &bed).await;
    assert_eq!(bed.manager().metrics().writes(), 0);
    assert_eq!(rollouts.look_and_act().await, Vec::<String>::new());
    rollouts.assert_objects(&sites).await;
    history.assert_orderly(&kills, &rollouts).await;
    rollouts.delete().await;
}
