//! Delivery into another cluster over a network that fails, or with an API server that fails.
//!
//! A disturbed rollout must end as an undisturbed one does: nothing is lost, and no object changes
//! more often than necessary.

use std::cell::OnceCell;
use std::time::Instant;

use baton_integration::faults::{Answer, Faults, On, Status, Verb};
use baton_integration::prelude::*;
use baton_integration::proxy::{Mode, Proxy, Slow};
use baton_integration::seed::{SEED, seeds};
use baton_integration::sites::{PULL, PUSH, Site, Stop};
use futures::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::rollout::{Rollout, Script, Stage, TIMEOUT, calm, is_done, watch_scripts};

/// Rolls out over API servers with these faults, one concurrent rollout per fault.
async fn roll_out_with_each(scripts: Vec<Script>) {
    calm().await;
    let site = &Site::get(PUSH).await;
    join_all(scripts.into_iter().map(async |(text, on, answer, least)| {
        let faults = Faults::start(site.endpoint()).await;
        let url = faults.url();
        let rollout = Rollout::new(site, |join| join.through(&url)).await;
        println!("{}: {text}", rollout.ns.name());
        let injection = faults.inject(on, answer);
        let start = Instant::now();
        rollout.run(async |_| {}).await;
        let took = start.elapsed().as_secs_f32();
        assert!(injection.count() >= least, "{text}: {}", injection.count());
        faults.heal();
        rollout.assert_calm(text).await;
        // A write that was carried out without an answer may be sent once more, without an effect.
        let requests = faults.requests();
        let lost = requests
            .iter()
            .filter(|request| request.injected && is_done(request));
        let most = calm().await.1 + lost.count();
        let done = requests.iter().filter(|request| is_done(request));
        let done: Vec<_> = done.map(|request| (request.verb, &*request.path)).collect();
        let (met, writes) = (injection.count(), done.len());
        println!("{text}: {took:.1} s, {met} met, {writes} writes of {most}");
        assert!(writes <= most, "{text}: not {most} at most: {done:#?}");
    }))
    .await;
}

/// The paths of the rollout's objects, and of their watches and lists.
const OBJECTS: &str = "/configmaps(/|$)";

#[tokio::test]
async fn a_rollout_is_completed_however_watches_end() {
    roll_out_with_each(watch_scripts(OBJECTS)).await;
}

#[tokio::test]
async fn a_rollout_is_completed_after_failed_requests() {
    let apply = |times| On::verb(Verb::Apply).dry_run(false).times(times);
    let dry_run = |times| On::verb(Verb::Apply).dry_run(true).times(times);
    let list = On::verb(Verb::List).path(OBJECTS).times(2);
    let writes = || On::writes().after(2).times(4);
    roll_out_with_each(vec![
        ("409 to an apply", apply(4), Answer::conflict(), 4),
        (
            "429 to everything",
            On::any().times(8),
            Answer::too_many_requests(1),
            8,
        ),
        ("500 to an apply", apply(4), Answer::internal_error(), 4),
        ("503 to writes", writes(), Answer::unavailable(), 4),
        ("500 to a dry run", dry_run(2), Answer::internal_error(), 2),
        ("503 to a dry run", dry_run(2), Answer::unavailable(), 2),
        ("500 to a list", list.clone(), Answer::internal_error(), 2),
        ("410 to a list", list.clone(), Answer::gone(), 2),
        ("a list that is cut", list, Answer::CutBody(20), 2),
        (
            "500 to the deletion",
            On::verb(Verb::Delete).times(2),
            Answer::internal_error(),
            1,
        ),
        (
            "409 to the deletion",
            On::verb(Verb::Delete).times(2),
            Answer::conflict(),
            1,
        ),
    ])
    .await;
}

/// The server has carried out the request, and the manager does not know.
#[tokio::test]
async fn a_rollout_is_completed_after_lost_answers() {
    let lost = |status| Answer::Lost(status);
    let hung_up = || Answer::HangUp { carried_out: true };
    let deletion = || On::verb(Verb::Delete).times(1);
    let writes = |skip| On::writes().after(skip).times(4);
    roll_out_with_each(vec![
        (
            "500 for the first writes",
            writes(0),
            lost(Status::internal_error()),
            4,
        ),
        (
            "503 for the first writes",
            writes(0),
            lost(Status::unavailable()),
            4,
        ),
        ("no answer to the first writes", writes(0), hung_up(), 4),
        ("no answer to later writes", writes(5), hung_up(), 4),
        (
            "half an answer to writes",
            writes(2),
            Answer::CutBody(100),
            4,
        ),
        (
            "500 for the deletion",
            deletion(),
            lost(Status::internal_error()),
            1,
        ),
        ("no answer to the deletion", deletion(), hung_up(), 1),
        (
            "nothing reaches the server",
            writes(1),
            Answer::HangUp { carried_out: false },
            4,
        ),
    ])
    .await;
}

/// An unreachable site is reported, and other revisions are delivered.
#[tokio::test]
async fn a_site_that_is_cut_off_blocks_no_other_revision() {
    calm().await;
    let site = &Site::get(PUSH).await;
    let proxy = &Proxy::start(site.address()).await;
    let url = proxy.url();
    let rollout = &Rollout::new(site, |join| join.through(&url)).await;
    let ns = &rollout.ns;
    let disturb = async |stage| {
        if stage != Stage::Second {
            return;
        }
        proxy.set(Mode::Cut).await;
        rollout.joined.because("Connected", "Unreachable").await;
        let lost = [Because("Available", "Unknown", "ClusterUnreachable")];
        ns.reaches("v1", &lost).await;
        ns.set("local")
            .revision(1)
            .phase("a", [configmap("local")])
            .reaching(&[Is("Succeeded", "True")])
            .await;
        ns.delete_set("local", "Background").await;
        proxy.set(Mode::Pass).await;
        rollout.joined.becomes("Connected", "True").await;
    };
    rollout.run(disturb).await;
    rollout.assert_calm("a cut").await;
}

/// Connections break at random moments, in the middle of requests and of watches.
#[tokio::test]
async fn a_rollout_is_completed_when_connections_are_reset_at_any_moment() {
    let seeds = seeds(3);
    let rounds = seeds.end - seeds.start;
    calm().await;
    let site = &Site::get(PUSH).await;
    let resets = join_all(seeds.map(async |seed| {
        let random = std::cell::RefCell::new(StdRng::seed_from_u64(seed));
        let proxy = Proxy::start(site.address()).await;
        let url = proxy.url();
        let rollout = Rollout::new(site, |join| join.through(&url)).await;
        println!("{}: {SEED}={seed}", rollout.ns.name());
        let disturb = async |_| {
            for _ in 0..3 {
                let (bytes, pause) = {
                    let mut random = random.borrow_mut();
                    (random.random_range(0..12_000), random.random_range(0..150))
                };
                proxy.set(Mode::ResetLivingAfter(bytes)).await;
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
        };
        rollout.run(disturb).await;
        rollout.assert_calm(&format!("{SEED}={seed}")).await;
        proxy.facts().resets
    }))
    .await;
    println!("connections that were reset: {resets:?}");
    assert!(resets.iter().sum::<u64>() >= 2 * rounds, "{resets:?}");
}

/// Changes during an interruption of the watch are observed afterwards.
#[tokio::test]
async fn changes_are_observed_after_a_reset_of_a_watch() {
    calm().await;
    let site = &Site::get(PUSH).await;
    let proxy = Proxy::start(site.address()).await;
    let url = proxy.url();
    let rollout = Rollout::new(site, |join| join.through(&url)).await;
    rollout.run(async |_| {}).await;
    let ns = &rollout.ns;
    let cluster = site.cluster().await;
    let object = configmap("in-place-1");
    let before = site.live(ns, &object).await;
    for round in 1..=3 {
        proxy.set(Mode::ResetLivingAfter(1)).await;
        let drift = json!({ "data": { "from": format!("drift {round}") } });
        cluster.merge(&before, &drift).await.unwrap();
        proxy
            .until("the reset", |facts| facts.resets >= round)
            .await;
        ns.eventually("the drift to be undone", async || {
            site.live(ns, &object).await["data"] == before["data"]
        })
        .await;
    }
    assert_eq!(uid(&site.live(ns, &object).await), uid(&before));
    let rest = json!({ "data": { "from": "v2" } });
    let last = configmap("in-place-last");
    assert_eq!(site.live(ns, &last).await["data"], rest["data"]);
}

/// On a slow line, nothing is done twice, and the site is not reported as lost.
#[tokio::test]
async fn a_site_with_a_slow_line_is_not_reported_as_lost() {
    calm().await;
    let site = &Site::get(PUSH).await;
    let proxy = &Proxy::start(site.address()).await;
    let url = proxy.url();
    let rollout = &Rollout::new(site, |join| join.through(&url)).await;
    let since = rollout.joined.becomes("Connected", "True").await;
    let slow = Slow {
        delay: Duration::from_millis(150),
        bytes_per_second: Some(100_000),
    };
    proxy.set(Mode::Slow(slow)).await;
    let start = Instant::now();
    rollout.run(async |_| {}).await;
    // Otherwise the line was not slow: each stage takes several requests one after the other.
    assert!(start.elapsed() > Duration::from_secs(2));
    rollout.assert_calm("a slow line").await;
    assert_eq!(rollout.joined.becomes("Connected", "True").await, since);
}

/// Three slow cases run concurrently: requests on dead connections time out after a minute, and
/// servers cache tokens for ten seconds.
#[tokio::test]
async fn a_rollout_survives_dead_connections_restarts_and_expired_tokens() {
    tokio::join!(
        half_open_connections(),
        restarts_of_the_server(),
        expired_credentials(),
    );
}

/// Connections die without a signal, so the manager must detect it.
async fn half_open_connections() {
    calm().await;
    let site = &Site::get(PUSH).await;
    let proxy = &Proxy::start(site.address()).await;
    let url = proxy.url();
    let rollout = &Rollout::new(site, |join| join.through(&url)).await;
    rollout
        .run(async |stage| {
            if stage == Stage::Second {
                proxy.set(Mode::BlackHole).await;
                proxy.until("a request", |facts| facts.swallowed > 0).await;
                // The old connections stay dead.
                proxy.set(Mode::Pass).await;
            }
        })
        .await;
    rollout.assert_calm("half-open connections").await;
}

/// The API server of the site restarts in every stage, orderly or abruptly.
async fn restarts_of_the_server() {
    calm().await;
    let mut lone = Site::alone(PULL).await;
    let site = lone.clone();
    let rollout = Rollout::unrecorded(&site, |join| join).await;
    let stop = [Stop::Abrupt, Stop::Orderly, Stop::Abrupt];
    let mut next = stop.into_iter();
    let lone = tokio::sync::Mutex::new((&mut lone, &mut next));
    rollout
        .run(async |_| {
            let mut guard = lone.lock().await;
            let (site, next) = &mut *guard;
            site.restart(next.next().unwrap()).await;
        })
        .await;
    rollout.assert_pictured("restarts of the server").await;
}

/// A token expires, and a new one follows later.
async fn expired_credentials() {
    calm().await;
    let site = &Site::get(PUSH).await;
    let account = site.account().await;
    let expiring = OnceCell::new();
    // The first connection of a slow machine takes some seconds.
    let token = || account.expiring_token(Duration::from_secs(20));
    let rollout = &Rollout::new(site, |join| join.token(expiring.get_or_init(token))).await;
    site.until_refused(expiring.get().unwrap()).await;
    rollout
        .run(async |stage| {
            if stage != Stage::First {
                return;
            }
            let patient = rollout.ns.within(TIMEOUT);
            let lost = [Because("Available", "Unknown", "ClusterUnreachable")];
            patient.reaches("v1", &lost).await;
            let reported = rollout.joined.because("Connected", "Unauthorized").await;
            assert_eq!(reported["status"], "False");
            let token = account.token().await.text;
            rollout
                .joined
                .change_secret(&json!({ "token": token }))
                .await;
            rollout.joined.becomes("Connected", "True").await;
        })
        .await;
    rollout.assert_calm("credentials that expire").await;
}
