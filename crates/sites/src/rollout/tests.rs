use baton_apis::{
    AfterCanary, CanaryStrategy, OnError, RollingStrategy, SiteStrategy, StrategyType,
    conditions::{ABORTED, AVAILABLE, PLACED, PROGRESSING, READY, RECONCILING, STALLED, WAITING},
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{
    world::{DEADLINE, Outcome, World},
    *,
};

fn rolling(parallel: IntOrString) -> SiteStrategy {
    SiteStrategy {
        type_: StrategyType::Rolling,
        rolling: Some(RollingStrategy {
            sites_in_parallel: parallel,
        }),
        ..SiteStrategy::default()
    }
}

fn by(parallel: i32) -> SiteStrategy {
    rolling(IntOrString::Int(parallel))
}

fn canary(sites: i32, then: AfterCanary) -> SiteStrategy {
    SiteStrategy {
        type_: StrategyType::Canary,
        canary: Some(CanaryStrategy {
            sites: Some(sites),
            match_site_labels: None,
            then,
        }),
        ..by(2)
    }
}

fn canary_by(labels: &str) -> SiteStrategy {
    SiteStrategy {
        canary: Some(CanaryStrategy {
            sites: None,
            match_site_labels: Some(labels.to_owned()),
            then: AfterCanary::AllAtOnce,
        }),
        ..canary(1, AfterCanary::AllAtOnce)
    }
}

/// A world in which version 1 is everywhere.
fn settled(sites: usize, strategy: SiteStrategy) -> World {
    let mut world = World::new(sites);
    world.run();
    world.sample.spec.strategy = strategy;
    world.given.clear();
    world
}

fn with(mut strategy: SiteStrategy, change: impl FnOnce(&mut SiteStrategy)) -> SiteStrategy {
    change(&mut strategy);
    strategy
}

/// Strategy, and how many sites of 10 are in each batch.
#[test]
fn sites_get_a_version_in_the_batches_of_the_strategy() {
    for (strategy, expected) in [
        (SiteStrategy::default(), vec![10]),
        (by(4), vec![4, 4, 2]),
        (by(20), vec![10]),
        (rolling(IntOrString::String("25%".into())), vec![3, 3, 3, 1]),
        (rolling(IntOrString::String("100%".into())), vec![10]),
        (rolling(IntOrString::String("1%".into())), vec![1; 10]),
        (canary(3, AfterCanary::AllAtOnce), vec![3, 7]),
        (canary(3, AfterCanary::Rolling), vec![3, 2, 2, 2, 1]),
        (canary(30, AfterCanary::Rolling), vec![10]),
    ] {
        for first in [true, false] {
            let mut world = if first {
                World::new(10)
            } else {
                settled(10, SiteStrategy::default())
            };
            world.sample.spec.strategy = strategy.clone();
            if !first {
                world.sample.bring("2");
            }
            let batches = i32::try_from(expected.len()).unwrap();
            world.settle();
            assert_eq!(
                world.status().batch.as_ref().unwrap().of,
                batches,
                "{strategy:?}"
            );
            world.run();
            let sizes: Vec<_> = (1..=batches)
                .map(|batch| world.batch(batch).len())
                .collect();
            assert_eq!(sizes, expected, "{strategy:?}");
            let counts = world.status().counts;
            assert_eq!((counts.updated, counts.healthy), (10, 10));
            assert_eq!(world.condition(PROGRESSING), Some(("False", "Complete")));
            assert_eq!(world.condition(READY), Some(("True", "Complete")));
            assert_eq!(world.status().batch, None);
        }
    }
}

#[test]
fn the_order_is_another_one_for_each_version_and_the_same_each_time() {
    let order = |version: &str| -> Vec<String> {
        let mut world = settled(20, by(1));
        world.sample.bring(version);
        world.run();
        world
            .given
            .iter()
            .map(|(site, _)| site.to_string())
            .collect()
    };
    assert_eq!(order("2"), order("2"));
    assert_ne!(order("2"), order("3"));
    assert!(!order("2").is_sorted());
}

#[test]
fn sites_with_the_labels_come_first() {
    let mut world = settled(6, canary_by("tier = canary"));
    world.sample.bring("2");
    for name in ["site-00002", "site-00004"] {
        world.sample.sites.get_mut(name).unwrap().is_canary = true;
    }
    world.run();
    assert_eq!(world.batch(1), ["site-00002", "site-00004"]);
    assert_eq!(world.batch(2).len(), 4);
}

#[test]
fn a_batch_stays_healthy_for_a_while_after_its_last_site_became_so() {
    let mut world = settled(4, with(by(2), |it| it.healthy_time = Some("10m".into())));
    world.sample.bring("2");
    world.settle();
    let [first, second] = <[_; 2]>::try_from(world.batch(1))
        .unwrap()
        .map(str::to_owned);
    world.work(&first);
    world.work(&second);
    world.work(&first);
    world.pass(300);
    world.settle();
    assert_eq!(world.condition(PROGRESSING), Some(("True", "RollingOut")));
    assert_eq!(
        world.plan().again_at,
        Some(world.sample.now - jiff::SignedDuration::from_mins(5) + DEADLINE)
    );
    world.work(&second);
    world.settle();
    let end = world.sample.now + jiff::SignedDuration::from_mins(10);
    assert_eq!(world.condition(PROGRESSING), Some(("True", "Soaking")));
    assert_eq!(world.status().counts.soaking, 2);
    assert_eq!(world.plan().again_at, Some(end));
    world.pass(599);
    assert_eq!(world.settle(), 0);
    world.pass(1);
    world.settle();
    assert_eq!(world.batch(2).len(), 2);
}

/// What happens in the first batch, and the reason that the site fails with.
#[test]
fn an_error_in_a_batch_aborts_for_good() {
    type Event = fn(&mut World, &str);
    let hang: Event = |world, site| {
        world.work(site);
        world.pass(600);
    };
    let refused: Event = |world, site| world.work(site);
    let flap: Event = |world, site| {
        world.work(site);
        world.work(site);
        world.settle();
        world.pass(60);
        world.flap(site);
    };
    for (outcome, event, reason, stays) in [
        (Outcome::Hangs, hang, "ProgressDeadlineExceeded", true),
        (Outcome::Refused, refused, "CollisionDetected", false),
        (Outcome::Works, flap, "ProbeFailure", true),
    ] {
        let mut world = settled(4, with(by(1), |it| it.healthy_time = Some("10m".into())));
        world.outcomes.insert("2-a".to_owned(), outcome);
        world.sample.bring("2");
        world.settle();
        let site = world.batch(1)[0].to_owned();
        event(&mut world, &site);
        let plan = world.plan();
        assert!(plan.status_first);
        assert_eq!(plan.status.failing[0].reason, reason);
        world.settle();
        assert_eq!(
            world.condition(ABORTED),
            Some(("True", "SiteFailed")),
            "{reason}"
        );
        assert_eq!(world.condition(PROGRESSING), Some(("False", "Aborted")));
        assert_eq!(world.condition(STALLED), Some(("True", "SiteFailed")));
        assert!(
            world
                .message(ABORTED)
                .contains(&format!("{site}: {reason}: "))
        );
        // What began stays, and what did not is taken back.
        let chain = &world.sample.sites[&*site].chain;
        assert_eq!(
            chain.iter().any(|it| it.entry.version == "2"),
            stays,
            "{reason}"
        );
        world.outcomes.clear();
        world.run();
        world.pass(100_000);
        world.run();
        assert_eq!(
            world.condition(ABORTED),
            Some(("True", "SiteFailed")),
            "{reason}"
        );
        assert_eq!(world.given.len(), 1);
        // Another version begins anew.
        world.sample.bring("3");
        world.run();
        assert_eq!(world.condition(ABORTED), None);
        assert_eq!(world.status().counts.healthy, 4);
        assert_eq!(world.status().rollout, Some(3));
        assert_eq!(world.status().previous_version.as_deref(), Some("2"));
    }
}

#[test]
fn a_site_that_fails_after_its_batch_has_passed_ends_nothing() {
    let mut world = settled(3, by(1));
    world.sample.bring("2");
    world.settle();
    let first = world.batch(1)[0].to_owned();
    world.work(&first);
    world.work(&first);
    world.settle();
    assert_eq!(world.batch(2).len(), 1);
    world.settle();
    world.flap(&first);
    world.settle();
    assert_eq!(world.condition(ABORTED), None);
    assert_eq!(world.status().failing[0].name, first);
    assert_eq!(
        world.condition(AVAILABLE),
        Some(("False", "SitesUnavailable"))
    );
}

#[test]
fn what_fails_after_the_end_of_a_rollout_does_not_hold_new_sites() {
    let mut world = settled(2, by(1));
    world.flap("site-00000");
    world.settle();
    assert_eq!(world.condition(PROGRESSING), Some(("False", "Complete")));
    assert_eq!(world.condition(READY), Some(("False", "SitesUnavailable")));
    world.sample.sites.insert(
        "site-9".into(),
        Site {
            is_placed: true,
            is_online: true,
            ..Site::default()
        },
    );
    world.real.insert("site-9".into(), world::Real::default());
    world.settle();
    assert_eq!(world.condition(ABORTED), None);
    assert_eq!(world.batch(2), ["site-9"]);
    world.run();
    assert_eq!(world.versions("site-9"), ["1"]);
}

#[test]
fn a_rollback_puts_back_what_each_site_had() {
    for history in [0, 2] {
        let mut world = settled(4, with(by(2), |it| it.healthy_time = Some("10m".into())));
        world.on_error(OnError::Rollback);
        world.sample.spec.revision_history_limit = history;
        world.sample.bring("2");
        world.settle();
        let [good, bad] = <[_; 2]>::try_from(world.batch(1))
            .unwrap()
            .map(str::to_owned);
        world.work(&good);
        world.work(&good);
        world.work(&bad);
        world.work(&bad);
        world.settle();
        world.flap(&bad);
        world.run();
        assert_eq!(world.condition(ABORTED), Some(("True", "RolledBack")));
        for site in [&good, &bad] {
            assert_eq!(world.versions(site), ["1", "2", "1"], "{history}");
        }
        assert_eq!(world.given.len(), 4);
        assert_eq!(world.status().counts.updated, 0);
        assert_eq!(world.condition(AVAILABLE), Some(("True", "Available")));
    }
}

#[test]
fn it_goes_on_until_too_many_sites_have_failed() {
    for (most, batches) in [(Some(0), 1), (Some(1), 2), (Some(3), 4), (None, 6)] {
        let mut world = settled(6, by(1));
        world.on_error(OnError::Continue);
        world.sample.spec.strategy.max_failures = most;
        world.outcomes.insert("2-a".to_owned(), Outcome::Hangs);
        world.sample.bring("2");
        world.run();
        assert_eq!(world.given.len(), batches, "{most:?}");
        assert_eq!(world.condition(ABORTED).is_some(), most.is_some());
        assert_eq!(
            world.status().counts.failed,
            i32::try_from(batches).unwrap()
        );
    }
}

/// What to do about an error and how many may fail; then why the rollout is aborted, and what the sites that got the
/// version, those that did not, and the one that it breaks have had.
#[test]
fn a_version_that_breaks_one_site_in_ten() {
    let cases: [(OnError, Option<i32>, Option<&str>, usize, &[&str]); 4] = [
        (OnError::Abort, None, Some("SiteFailed"), 6, &["1", "2"]),
        (
            OnError::Rollback,
            None,
            Some("RolledBack"),
            6,
            &["1", "2", "1"],
        ),
        (
            OnError::Continue,
            Some(0),
            Some("SiteFailed"),
            6,
            &["1", "2"],
        ),
        (OnError::Continue, Some(1), None, 10, &["1", "2"]),
    ];
    for (outcome, reason) in [
        (Outcome::Hangs, "ProgressDeadlineExceeded"),
        (Outcome::Refused, "CollisionDetected"),
    ] {
        for (on_error, most, aborted, reached, had) in cases {
            let rolling = || with(by(2), |it| it.healthy_time = Some("10m".into()));
            let mut calm = settled(10, rolling());
            calm.sample.bring("2");
            calm.run();
            let broken = calm.batch(3)[0].to_owned();
            let mut world = settled(10, rolling());
            world.on_error(on_error);
            world.sample.spec.strategy.max_failures = most;
            world.outcomes.insert(format!("{broken}/2-a"), outcome);
            world.sample.bring("2");
            world.run();
            let text = format!("{on_error:?} {most:?} {reason}");
            let expected = aborted.map(|reason| ("True", reason));
            assert_eq!(world.condition(ABORTED), expected, "{text}");
            for name in world.names() {
                let batch = (1..=5).find(|batch| calm.batch(*batch).contains(&&*name));
                let is_reached = usize::try_from(batch.unwrap() * 2).unwrap() <= reached;
                let has_begun = is_reached && (*name != *broken || outcome == Outcome::Hangs);
                let expected = if has_begun { had } else { &["1"] };
                assert_eq!(world.versions(&name), expected, "{text}: {name}");
            }
            let counts = &world.status().counts;
            let is_back = on_error == OnError::Rollback;
            let healthy = i32::try_from(reached - 1).unwrap() * i32::from(!is_back);
            assert_eq!(counts.healthy, healthy, "{text}");
        }
    }
}

#[test]
fn sites_that_are_offline_have_no_place_in_a_batch_and_get_the_version_when_they_are_back() {
    let mut world = settled(6, by(2));
    for site in ["site-00000", "site-00003"] {
        world.connect(site, false);
    }
    world.sample.bring("2");
    world.run();
    assert_eq!(world.condition(PROGRESSING), Some(("False", "Complete")));
    let counts = world.status().counts;
    assert_eq!((counts.updated, counts.offline, counts.failed), (4, 2, 0));
    world.connect("site-00000", true);
    world.connect("site-00003", true);
    world.run();
    assert_eq!(world.status().counts.updated, 6);
    assert_eq!(world.condition(ABORTED), None);
}

#[test]
fn a_site_that_goes_offline_before_it_reported_is_no_error() {
    let mut world = settled(4, by(1));
    world.sample.bring("2");
    world.settle();
    let site = world.batch(1)[0].to_owned();
    world.work(&site);
    world.connect(&site, false);
    world.pass(100_000);
    world.run();
    assert_eq!(world.condition(ABORTED), None);
    assert_eq!(world.status().counts.updated, 4);
    assert_eq!(world.status().counts.healthy, 3);
}

#[test]
fn a_fleet_that_is_offline_as_a_whole_is_not_given_more_than_a_batch() {
    let mut world = settled(4, by(1));
    world.sample.bring("2");
    world.settle();
    for site in world.names() {
        world.connect(&site, false);
    }
    world.settle();
    assert_eq!(world.given.len(), 1);
    assert_eq!(
        world.condition(AVAILABLE),
        Some(("Unknown", "ClusterUnreachable"))
    );
    let mut world = settled(4, canary(1, AfterCanary::AllAtOnce));
    for site in world.names() {
        world.connect(&site, false);
    }
    world.sample.bring("2");
    world.settle();
    assert_eq!(world.given.len(), 0);
    assert_eq!(world.condition(PROGRESSING), Some(("True", "RollingOut")));
    world.connect("site-00001", true);
    world.settle();
    assert!(world.batch(1).contains(&"site-00001"));
    assert_eq!(world.batch(2).len(), 0);
}

#[test]
fn canaries_that_are_offline_do_not_count_as_healthy() {
    let mut world = settled(4, canary_by("canary exists"));
    world.sample.sites.get_mut("site-00002").unwrap().is_canary = true;
    world.connect("site-00002", false);
    world.sample.bring("2");
    world.run();
    assert_eq!(world.batch(1), ["site-00002"]);
    assert_eq!(world.batch(2).len(), 0);
    assert!(world.message(PROGRESSING).contains("can be reached"));
    world.connect("site-00002", true);
    world.run();
    assert_eq!(world.status().counts.healthy, 4);
}

#[test]
fn queues_keep_older_versions_in_order() {
    let mut world = settled(1, SiteStrategy::default());
    world
        .real
        .values_mut()
        .for_each(|real| real.is_window_closed = true);
    for version in ["2", "3", "4"] {
        world.sample.bring(version);
        world.run();
        assert_eq!(world.status().counts.queued, 1);
    }
    assert_eq!(world.condition(PROGRESSING), Some(("True", "RollingOut")));
    world
        .real
        .values_mut()
        .for_each(|real| real.is_window_closed = false);
    world.run();
    assert_eq!(world.versions("site-00000"), ["1", "2", "3", "4"]);
}

#[test]
fn a_pause_gives_nothing_and_begins_nothing() {
    let mut world = settled(4, by(1));
    world.sample.bring("2");
    world.settle();
    world.sample.spec.paused = true;
    world.run();
    assert_eq!(world.given.len(), 1);
    assert_eq!(world.status().counts.healthy, 1);
    assert_eq!(world.condition(PROGRESSING), Some(("Unknown", "Paused")));
    world.sample.bring("3");
    world.run();
    assert_eq!((world.status().rollout, world.given.len()), (Some(2), 1));
    world.sample.spec.paused = false;
    world.run();
    assert_eq!(world.status().rollout, Some(3));
    assert_eq!(world.status().counts.healthy, 4);
    world.sample.spec.paused = true;
    world.run();
    assert_eq!(world.condition(PROGRESSING), Some(("False", "Complete")));
}

#[test]
fn a_failure_during_a_pause_counts_when_it_is_over() {
    let mut world = settled(2, by(1));
    world.outcomes.insert("2-a".to_owned(), Outcome::Hangs);
    world.sample.bring("2");
    world.settle();
    world.sample.spec.paused = true;
    world.run();
    assert_eq!(world.condition(ABORTED), None);
    assert_eq!(world.status().counts.failed, 1);
    world.sample.spec.paused = false;
    world.run();
    assert_eq!(world.condition(ABORTED), Some(("True", "SiteFailed")));
}

#[test]
fn the_spec_aborts_the_rollout_it_names_and_no_other() {
    for (named, aborted) in [(1, false), (2, true), (3, false)] {
        let mut world = settled(3, by(1));
        world
            .real
            .values_mut()
            .for_each(|real| real.is_window_closed = true);
        world.sample.bring("2");
        world.settle();
        world.sample.spec.abort_rollout = Some(named);
        // What waits is withdrawn also then.
        world.sample.spec.paused = true;
        world.run();
        let expected = aborted.then_some(("True", "AbortedByUser"));
        assert_eq!(world.condition(ABORTED), expected);
        let waiting = world.status().counts.queued;
        assert_eq!(waiting, i32::from(!aborted));
        world.sample.spec.abort_rollout = None;
        world.run();
        assert_eq!(world.condition(ABORTED), expected);
    }
}

#[test]
fn the_next_rollout_begins_when_nothing_waits_of_one_that_was_aborted() {
    let mut world = settled(2, SiteStrategy::default());
    world
        .real
        .values_mut()
        .for_each(|real| real.is_window_closed = true);
    world.sample.bring("2");
    world.settle();
    world.sample.spec.abort_rollout = Some(2);
    let plan = world.plan();
    // Only the status is written before the manager ends.
    world.carry_out(plan, 1);
    world.sample.bring("3");
    let plan = world.plan();
    assert_eq!(plan.status.rollout, Some(2));
    assert!(
        plan.actions
            .iter()
            .all(|action| matches!(action, Action::Withdraw { .. }))
    );
    world
        .real
        .values_mut()
        .for_each(|real| real.is_window_closed = false);
    world.run();
    assert_eq!(world.versions("site-00000"), ["1", "3"]);
}

#[test]
fn an_edit_reaches_all_sites_that_run_the_version_at_once_and_goes_before_what_waits() {
    let mut world = settled(3, by(1));
    world
        .real
        .values_mut()
        .for_each(|real| real.is_window_closed = true);
    world.sample.bring("2");
    world.settle();
    let waiting = world.batch(1)[0].to_owned();
    world.sample.versions.get_mut("1").unwrap().edit = "1-b".into();
    let plan = world.plan();
    assert!(matches!(plan.actions[0], Action::Withdraw { .. }));
    world.run();
    for site in world.names() {
        let edits: Vec<_> = world.real[&site]
            .begun
            .iter()
            .map(|it| it.edit.clone())
            .collect();
        assert_eq!(edits, ["1-a", "1-b"], "{site}");
    }
    let chain = &world.sample.sites[&*waiting].chain;
    let newest = chain
        .iter()
        .rev()
        .filter(|it| it.counts())
        .map(|it| (&*it.entry.edit, it.entry.rollout));
    assert_eq!(newest.collect::<Vec<_>>(), [("2-a", 2), ("1-b", 1)]);
    // One of what waits is exchanged.
    world.sample.versions.get_mut("2").unwrap().edit = "2-b".into();
    world
        .real
        .values_mut()
        .for_each(|real| real.is_window_closed = false);
    world.run();
    let edits: Vec<_> = world.real[&*waiting]
        .begun
        .iter()
        .map(|it| it.edit.clone())
        .collect();
    assert_eq!(edits, ["1-a", "1-b", "2-b"]);
    let entry = &world.sample.sites[&*waiting].chain[1].entry;
    assert!(entry.is_edit && entry.rollout == 1 && entry.batch == 1);
}

#[test]
fn an_edit_repairs_what_was_aborted_where_it_runs() {
    let mut world = settled(3, by(1));
    world.outcomes.insert("2-a".to_owned(), Outcome::Hangs);
    world.sample.bring("2");
    world.run();
    assert!(world.condition(ABORTED).is_some());
    world.sample.versions.get_mut("2").unwrap().edit = "2-b".into();
    world.run();
    assert!(world.condition(ABORTED).is_some());
    assert_eq!(world.status().counts.healthy, 1);
    assert_eq!(world.given.len(), 2);
}

#[test]
fn what_was_refused_before_it_began_makes_way() {
    let mut world = settled(1, with(by(1), |it| it.on_error = OnError::Continue));
    world.outcomes.insert("2-a".to_owned(), Outcome::Refused);
    world.sample.bring("2");
    world.run();
    assert_eq!(world.status().failing[0].reason, "CollisionDetected");
    world.sample.bring("3");
    world.run();
    assert_eq!(world.versions("site-00000"), ["1", "3"]);
}

#[test]
fn a_pause_does_not_save_what_waits_of_an_aborted_rollout_in_sites_that_are_not_placed() {
    let mut world = World::new(2);
    world.settle();
    world.sample.sites.get_mut("site-00000").unwrap().is_placed = false;
    world.sample.spec.paused = true;
    world.sample.spec.abort_rollout = Some(1);
    world.run();
    assert_eq!(world.versions("site-00000"), Vec::<&str>::new());
    assert_eq!(world.condition(ABORTED), Some(("True", "AbortedByUser")));
}

#[test]
fn a_pause_holds_edits_also_after_an_abort() {
    let mut world = settled(2, by(1));
    world.sample.spec.abort_rollout = Some(1);
    world.sample.spec.paused = true;
    world.sample.versions.get_mut("1").unwrap().edit = "1-b".into();
    world.run();
    assert_eq!(world.condition(ABORTED), Some(("True", "AbortedByUser")));
    assert_eq!(world.given.len(), 0);
    world.sample.spec.paused = false;
    world.run();
    assert_eq!(world.given.len(), 2);
}

#[test]
fn what_was_refused_makes_way_for_what_runs_already() {
    let mut world = settled(1, with(by(1), |it| it.on_error = OnError::Continue));
    world.outcomes.insert("2-a".to_owned(), Outcome::Refused);
    world.sample.bring("2");
    world.run();
    world.sample.bring("1");
    world.run();
    assert_eq!(world.given.len(), 1);
    assert_eq!(world.sample.sites["site-00000"].chain.len(), 1);
    assert_eq!(world.condition(PROGRESSING), Some(("False", "Complete")));
}

#[test]
fn going_back_gives_nothing_to_sites_that_still_have_the_version() {
    let mut world = settled(4, by(1));
    world.sample.bring("2");
    world.settle();
    let site = world.batch(1)[0].to_owned();
    world.work(&site);
    world.sample.bring("1");
    world.run();
    assert_eq!(world.given.len(), 2);
    assert_eq!(world.versions(&site), ["1", "2", "1"]);
    assert_eq!(world.condition(PROGRESSING), Some(("False", "Complete")));
    assert_eq!(world.status().counts.updated, 4);
}

#[test]
fn history_has_a_limit_and_sites_that_are_not_placed_lose_everything() {
    let mut world = settled(2, SiteStrategy::default());
    for version in ["2", "3", "4", "5"] {
        world.sample.bring(version);
        world.run();
    }
    let versions: Vec<_> = world.sample.sites["site-00000"]
        .chain
        .iter()
        .map(|it| &*it.entry.version)
        .collect();
    assert_eq!(versions, ["3", "4", "5"]);
    world.sample.sites.get_mut("site-00000").unwrap().is_placed = false;
    world.sample.spec.paused = true;
    assert_eq!(world.plan().actions, []);
    world.sample.spec.paused = false;
    world.run();
    assert_eq!(world.sample.sites["site-00000"].chain, []);
    assert_eq!(world.status().counts.sites, 1);
}

#[test]
fn what_is_skipped_is_archived() {
    let mut world = settled(1, SiteStrategy::default());
    world
        .real
        .values_mut()
        .for_each(|real| real.is_window_closed = true);
    world.sample.bring("2");
    world.run();
    world.sample.bring("3");
    world.run();
    let site = world.sample.sites.get_mut("site-00000").unwrap();
    site.chain[1].state = RevisionState::Skipped;
    let revision = Arc::clone(&site.chain[1].name);
    assert_eq!(world.plan().actions, [Action::Archive { revision }]);
}

/// Version 2 is asked for, and something is wrong: nothing is done, and a condition tells it.
fn check_bad(change: fn(&mut World), type_: &str, expected: (&str, &str), text: &str) -> World {
    let mut world = settled(3, SiteStrategy::default());
    world.sample.bring("2");
    change(&mut world);
    assert_eq!(world.plan().actions, [], "{text}");
    world.settle();
    assert_eq!(world.condition(type_), Some(expected), "{text}");
    assert!(
        world.message(type_).contains(text),
        "{}",
        world.message(type_)
    );
    assert_eq!(world.condition(READY).unwrap().0, "False", "{text}");
    world
}

/// What is wrong, and what is told of it.
#[test]
fn a_strategy_that_cannot_be_followed_is_told_and_changes_nothing_in_sites() {
    type Change = fn(&mut World);
    let cases: [(Change, &str); 10] = [
        (
            |it| it.sample.spec.strategy.healthy_time = Some("99999999999999999999h".into()),
            "strategy.healthyTime: \"99999999999999999999h\" must be at most",
        ),
        (
            |it| it.sample.spec.strategy.progress_deadline = Some("9223372036854775807h".into()),
            "strategy.progressDeadline",
        ),
        (
            |it| {
                it.sample.spec.strategy.healthy_time = Some("1m".into());
                it.sample.versions.get_mut("2").unwrap().has_probes = false;
            },
            "version 2 of the application has no availabilityProbes",
        ),
        (
            |it| it.sample.spec.strategy = canary_by("a in b"),
            "at byte 5",
        ),
        (
            |it| it.sample.spec.strategy = rolling(IntOrString::String("0%".into())),
            "strategy.rolling.sitesInParallel: \"0%\"",
        ),
        (
            |it| it.sample.spec.strategy = rolling(IntOrString::String("3".into())),
            "strategy.rolling.sitesInParallel: \"3\"",
        ),
        (
            |it| it.sample.spec.strategy = by(0),
            "strategy.rolling.sitesInParallel: 0",
        ),
        (
            |it| it.sample.spec.strategy.type_ = StrategyType::Canary,
            "strategy.canary is",
        ),
        (
            |it| it.sample.spec.strategy.type_ = StrategyType::Rolling,
            "strategy.rolling is",
        ),
        (
            |it| it.sample.spec.strategy = canary_by("a = b"),
            "strategy.canary.matchSiteLabels: none of the 3 sites matches",
        ),
    ];
    for (change, text) in cases {
        let world = check_bad(change, PROGRESSING, ("False", "InvalidStrategy"), text);
        assert_eq!(world.condition(STALLED), Some(("True", "InvalidStrategy")));
        let mut world = world;
        world.sample.spec.strategy = SiteStrategy::default();
        world.run();
        assert_eq!(world.status().counts.updated, 3, "{text}");
    }
}

#[test]
fn what_does_not_exist_is_told_and_changes_nothing_in_sites() {
    let no_version = ("True", "VersionNotFound");
    let no_application = ("True", "ApplicationNotFound");
    let shop = "SiteApplication shop";
    check_bad(
        |it| it.sample.target = Target::NoApplication,
        WAITING,
        no_application,
        shop,
    );
    check_bad(
        |it| it.sample.target = Target::NoVersion,
        WAITING,
        no_version,
        shop,
    );
    check_bad(
        |it| it.sample.target = Target::Version("9".into()),
        WAITING,
        no_version,
        shop,
    );
    let world = check_bad(
        |it| it.sample.target = Target::NoVersion,
        PROGRESSING,
        ("False", "VersionNotFound"),
        shop,
    );
    assert_eq!(world.status().rollout, Some(1));
    let none = ("False", "NoSites");
    check_bad(
        |it| it.sample.sites.clear(),
        PLACED,
        none,
        "No site matches",
    );
}

/// The placement, its condition, and `Ready` of a rollout that is complete.
#[test]
fn the_placement_is_told_and_does_not_stop_a_rollout() {
    for (placement, expected, ready) in [
        (Placement::Placed(None), ("True", "Placed"), "True"),
        (
            Placement::Placed(Some("other wants site-1".into())),
            ("True", "Placed"),
            "True",
        ),
        (
            Placement::Invalid("at byte 3".into()),
            ("False", "InvalidExpression"),
            "False",
        ),
        (
            Placement::Overlapping("other has site-7".into()),
            ("False", "Overlapping"),
            "False",
        ),
    ] {
        let mut world = settled(2, SiteStrategy::default());
        world.sample.placement = placement;
        world.sample.bring("2");
        world.settle();
        assert_eq!(world.condition(RECONCILING), Some(("True", "RollingOut")));
        world.run();
        assert_eq!(world.condition(PLACED), Some(expected));
        assert_eq!(world.condition(READY).unwrap().0, ready);
        assert_eq!(world.status().counts.updated, 2);
    }
}

#[test]
fn a_batch_that_was_given_in_part_is_completed() {
    let mut expected = settled(9, by(4));
    expected.sample.bring("2");
    expected.settle();
    for writes in 0..6 {
        let mut world = settled(9, by(4));
        world.sample.bring("2");
        let plan = world.plan();
        world.carry_out(plan, writes);
        world.settle();
        let sorted = |world: &World| {
            let mut sites: Vec<_> = world.batch(1).into_iter().map(str::to_owned).collect();
            sites.sort();
            sites
        };
        assert_eq!(sorted(&world), sorted(&expected), "{writes}");
        assert_eq!(world.status(), expected.status(), "{writes}");
    }
}

#[test]
fn a_status_that_was_lost_is_made_anew_from_the_revisions() {
    let mut world = settled(5, by(2));
    world.sample.bring("2");
    world.settle();
    let before = world.status().clone();
    world.sample.status = SiteDeploymentStatus::default();
    world.settle();
    assert_eq!(
        (world.status().rollout, &world.status().batch),
        (Some(2), &before.batch)
    );
    world.run();
    assert_eq!(world.given.len(), 5);
    world.sample.status = SiteDeploymentStatus::default();
    world.sample.bring("3");
    world.run();
    assert_eq!(world.status().rollout, Some(3));
}

#[test]
fn a_status_is_bounded_whatever_the_sites_say() {
    let long: Arc<str> = "\"\\\u{1}\n\u{7f}ä".repeat(10_000).into();
    let mut world = World::new(0);
    let revision = |name: &Arc<str>, number, version: &str, state| Revision {
        name: format!("{name}-{number}").into(),
        number,
        entry: Arc::new(SiteEntry {
            version: version.to_owned(),
            rollout: number,
            batch: 1,
            ..SiteEntry::default()
        }),
        state,
        is_deleting: false,
        is_archiving: false,
    };
    for at in 0..10_000 {
        let name: Arc<str> = format!("{at:0>63}").into();
        let failing = RevisionState::Failing {
            reason: "ProgressDeadlineExceeded",
            message: Arc::clone(&long),
            was_available: true,
            started: Some(world.sample.now),
        };
        let chain = vec![
            revision(&name, 1, "1", RevisionState::Archived),
            revision(&name, 2, "2", failing),
        ];
        let site = Site {
            is_placed: true,
            is_online: true,
            is_canary: false,
            chain,
        };
        world.sample.sites.insert(name, site);
    }
    world.sample.placement = Placement::Overlapping(long.to_string());
    let strategy = &mut world.sample.spec.strategy;
    strategy.healthy_time = Some("1h".to_owned());
    world.sample.bring("2");
    let mut plan = world.plan();
    world.sample.status = plan.status.clone();
    plan = world.plan();
    assert_eq!(plan.status.failing.len(), 20);
    assert_eq!(plan.status.batch.as_ref().unwrap().sites.len(), 20);
    assert_eq!(plan.status.counts.failed, 10_000);
    let bytes = serde_json::to_vec(&plan.status).unwrap().len();
    assert!(bytes <= 16 * 1024, "{bytes}");
    for target in [Target::NoVersion, Target::NoApplication] {
        world.sample.target = target;
        world.sample.spec.application_version = "v".repeat(63);
        let bytes = serde_json::to_vec(&world.plan().status).unwrap().len();
        assert!(bytes <= 16 * 1024, "{bytes}");
    }
}
