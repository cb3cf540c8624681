//! Networks of an agent that fail on either side, and API servers that restart.

use std::time::Instant;

use baton_integration::agent::Agent;
use baton_integration::prelude::*;
use baton_integration::proxy::{Mode, Proxy, Slow};
use baton_integration::seed::{SEED, seeds};
use baton_integration::sites::{PULL, Site, Stop};
use futures::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::{Side, pulled};
use crate::agent_offline::SILENT;
use crate::rollout::{Rollout, Stage, TIMEOUT, calm};

/// The lines of an agent to both sides.
struct Lines {
    hub: Proxy,
    site: Proxy,
}

impl Lines {
    async fn new(site: &Site) -> Self {
        let hub = Side::Hub.endpoint(site).await;
        Self {
            hub: Proxy::start(hub.address).await,
            site: Proxy::start(site.address()).await,
        }
    }

    fn line(&self, side: Side) -> &Proxy {
        match side {
            Side::Hub => &self.hub,
            Side::Site => &self.site,
        }
    }
}

/// Starts a rollout over these lines.
async fn rollout_over(lines: &Lines, site: &Site, recorded: bool) -> (Rollout, Agent) {
    let hub = Side::Hub.endpoint(site).await.at(lines.hub.address());
    let own = site.endpoint().at(lines.site.address());
    pulled(site, |setup| setup.hub(&hub).site(&own), recorded).await
}

/// The agent of a site starts without any other party. It waits for both API servers, and is not
/// ready until it can work.
#[tokio::test]
async fn an_agent_waits_for_both_servers_when_it_starts() {
    calm().await;
    let site = &Site::get(PULL).await;
    let lines = Lines::new(site).await;
    for side in Side::BOTH {
        lines.line(side).set(Mode::Cut).await;
    }
    let rollout = Rollout::without_agent(site).await;
    let hub = Side::Hub.endpoint(site).await.at(lines.hub.address());
    let own = site.endpoint().at(lines.site.address());
    let agent = rollout.joined.agent().hub(&hub).site(&own).start().await;
    for side in [Side::Site, Side::Hub] {
        let waits = async || !agent.is_ready();
        rollout
            .ns
            .stays(Duration::from_secs(2), "it waits", waits)
            .await;
        lines.line(side).set(Mode::Pass).await;
    }
    rollout.joined.becomes("Connected", "True").await;
    let rollout = rollout.recorded().await;
    rollout.run(async |_| {}).await;
    rollout.assert_calm("a start before anybody answers").await;
    assert!(agent.is_ready());
}

/// The hub reports the lost agent meanwhile, and the rollout is completed afterwards.
#[tokio::test]
async fn a_rollout_is_completed_after_a_cut_line_to_the_hub() {
    calm().await;
    let site = &Site::get(PULL).await;
    let lines = &Lines::new(site).await;
    let (rollout, _agent) = rollout_over(lines, site, true).await;
    let disturb = async |stage| {
        if stage != Stage::Second {
            return;
        }
        lines.hub.set(Mode::Cut).await;
        rollout.joined.because("Connected", SILENT).await;
        let lost = [Because("Available", "Unknown", "ClusterUnreachable")];
        rollout.ns.reaches("v1", &lost).await;
        lines.hub.set(Mode::Pass).await;
        rollout.joined.becomes("Connected", "True").await;
    };
    rollout.run(disturb).await;
    rollout.assert_calm("a cut to the hub").await;
}

/// An agent that cannot reach its own cluster reports it, so it is not taken for a healthy one.
#[tokio::test]
async fn a_rollout_is_completed_after_a_cut_line_to_the_site() {
    calm().await;
    let site = &Site::get(PULL).await;
    let lines = &Lines::new(site).await;
    let (rollout, _agent) = rollout_over(lines, site, true).await;
    let disturb = async |stage| {
        if stage != Stage::Second {
            return;
        }
        lines.site.set(Mode::Cut).await;
        let reported = rollout.joined.becomes("Connected", "False").await;
        assert_ne!(
            reported["reason"], SILENT,
            "the agent itself is there: {reported}"
        );
        let lost = [Because("Available", "Unknown", "ClusterUnreachable")];
        rollout.ns.reaches("v1", &lost).await;
        lines.site.set(Mode::Pass).await;
        rollout.joined.becomes("Connected", "True").await;
    };
    rollout.run(disturb).await;
    rollout.assert_calm("a cut to the site").await;
}

/// Connections break at random moments, in the middle of requests and of watches.
#[tokio::test]
async fn a_rollout_is_completed_when_connections_are_reset_at_any_moment() {
    let seeds = seeds(3);
    let rounds = seeds.end - seeds.start;
    calm().await;
    let site = &Site::get(PULL).await;
    let resets = join_all(seeds.map(async |seed| {
        let random = std::cell::RefCell::new(StdRng::seed_from_u64(seed));
        let lines = &Lines::new(site).await;
        let (rollout, _agent) = rollout_over(lines, site, true).await;
        println!("{}: {SEED}={seed}", rollout.ns.name());
        let disturb = async |_| {
            for _ in 0..3 {
                for side in Side::BOTH {
                    let (bytes, pause) = {
                        let mut random = random.borrow_mut();
                        (random.random_range(0..12_000), random.random_range(0..150))
                    };
                    let line = lines.line(side);
                    line.set(Mode::ResetLivingAfter(bytes)).await;
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                }
            }
        };
        rollout.run(disturb).await;
        rollout.assert_calm(&format!("{SEED}={seed}")).await;
        Side::BOTH.map(|side| lines.line(side).facts().resets)
    }))
    .await;
    println!("connections that were reset, to hub and site: {resets:?}");
    for side in [0, 1] {
        let sum: u64 = resets.iter().map(|resets| resets[side]).sum();
        assert!(sum >= 2 * rounds, "{resets:?}");
    }
}

/// Changes on the hub during an interruption of the watch are observed afterwards.
#[tokio::test]
async fn changes_are_observed_after_a_reset_of_the_hub_watch() {
    calm().await;
    let site = &Site::get(PULL).await;
    let lines = &Lines::new(site).await;
    let (rollout, _agent) = rollout_over(lines, site, true).await;
    rollout.run(async |_| {}).await;
    let (ns, object) = (&rollout.ns, configmap("in-place-1"));
    let before = site.live(ns, &object).await;
    let cluster = site.cluster().await;
    for round in 1..=3 {
        // The next byte is that of the event or of a heartbeat.
        let resets = lines.hub.facts().resets;
        lines.hub.set(Mode::ResetLivingAfter(1)).await;
        ns.set_lifecycle("v2", "Paused").await;
        lines
            .hub
            .until("the reset", |facts| facts.resets > resets)
            .await;
        ns.reaches("v2", &[Is("Paused", "True")]).await;
        let drift = json!({ "data": { "from": format!("drift {round}") } });
        let drifted = cluster.merge(&before, &drift).await.unwrap();
        let left = async || site.live(ns, &object).await["data"] == drifted["data"];
        ns.stays(Duration::from_millis(500), "it is paused", left)
            .await;
        ns.set_lifecycle("v2", "Active").await;
        ns.eventually("the drift to be undone", async || {
            site.live(ns, &object).await["data"] == before["data"]
        })
        .await;
        ns.reaches("v2", &[No("Paused"), Is("Available", "True")])
            .await;
    }
    assert_eq!(uid(&site.live(ns, &object).await), uid(&before));
}

/// On slow lines, nothing is done twice, and the agent is not reported as lost.
#[tokio::test]
async fn an_agent_with_slow_lines_is_not_reported_as_lost() {
    calm().await;
    let site = &Site::get(PULL).await;
    let lines = &Lines::new(site).await;
    let (rollout, _agent) = rollout_over(lines, site, true).await;
    let since = rollout.joined.becomes("Connected", "True").await;
    let slow = Slow {
        delay: Duration::from_millis(150),
        bytes_per_second: Some(100_000),
    };
    for side in Side::BOTH {
        lines.line(side).set(Mode::Slow(slow)).await;
    }
    let start = Instant::now();
    rollout.run(async |_| {}).await;
    // Otherwise the lines were not slow: each stage takes several requests one after the other.
    assert!(start.elapsed() > Duration::from_secs(2));
    rollout.assert_calm("slow lines").await;
    assert_eq!(rollout.joined.becomes("Connected", "True").await, since);
}

/// Connections die without a signal, on each side in a rollout of its own.
#[tokio::test]
async fn a_rollout_is_completed_after_half_open_connections() {
    calm().await;
    let site = &Site::get(PULL).await;
    join_all(Side::BOTH.map(async |side| {
        let lines = &Lines::new(site).await;
        let (rollout, _agent) = rollout_over(lines, site, true).await;
        let line = lines.line(side);
        let disturb = async |stage| {
            if stage == Stage::Second {
                line.set(Mode::BlackHole).await;
                line.until("a request", |facts| facts.swallowed > 0).await;
                // The old connections stay dead.
                line.set(Mode::Pass).await;
            }
        };
        rollout.run(disturb).await;
        let text = format!("half-open connections to the {side:?}");
        rollout.assert_calm(&text).await;
    }))
    .await;
}

/// The API server of the site restarts in every stage, orderly or abruptly, while the hub is
/// unreachable.
#[tokio::test]
async fn a_rollout_is_completed_although_the_site_server_restarts() {
    calm().await;
    let mut lone = Site::alone(PULL).await;
    let site = lone.clone();
    let lines = &Lines::new(&site).await;
    let (rollout, _agent) = rollout_over(lines, &site, false).await;
    let stops = [Stop::Abrupt, Stop::Orderly, Stop::Abrupt];
    let state = tokio::sync::Mutex::new((&mut lone, stops.into_iter()));
    let disturb = async |_| {
        let mut state = state.lock().await;
        let (site, stops) = &mut *state;
        lines.hub.set(Mode::Cut).await;
        site.restart(stops.next().unwrap()).await;
        lines.hub.set(Mode::Pass).await;
    };
    rollout.run(disturb).await;
    rollout.assert_pictured("restarts of the servers").await;
    let patient = rollout.ns.within(TIMEOUT);
    patient.reaches("v2", &[Is("Available", "True")]).await;
}
