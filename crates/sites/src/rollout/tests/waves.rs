//! The sites of each wave, and the beginning of the next one.

use super::*;

/// Each row: a strategy, and the number of sites in each batch, out of 10.
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
                world.sample.request_version("2");
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
fn the_order_of_sites_is_shuffled_by_version_and_stable() {
    let order = |version: &str| -> Vec<String> {
        let mut world = settled(20, by(1));
        world.sample.request_version(version);
        world.run();
        world
            .created
            .iter()
            .map(|(site, _)| site.to_string())
            .collect()
    };
    assert_eq!(order("2"), order("2"));
    assert_ne!(order("2"), order("3"));
    assert!(!order("2").is_sorted());
}

#[test]
fn sites_with_the_canary_labels_are_the_first_wave() {
    let mut world = settled(6, canary_by("tier = canary"));
    world.sample.request_version("2");
    for name in ["site-00002", "site-00004"] {
        world.sample.sites.get_mut(name).unwrap().is_canary = true;
    }
    world.run();
    assert_eq!(world.batch(1), ["site-00002", "site-00004"]);
    assert_eq!(world.batch(2).len(), 4);
}

#[test]
fn a_batch_passes_after_all_sites_were_healthy_for_the_healthy_time() {
    for (healthy_time, success_delay) in [("10m", 0), ("10m", 5), ("5m", 10), ("", 10)] {
        let healthy_time = Some(healthy_time.to_owned()).filter(|it| !it.is_empty());
        let mut world = settled(4, with(by(2), |it| it.healthy_time = healthy_time));
        world.sample.request_version("2");
        world.version("2").unwrap().success_delay = SignedDuration::from_mins(success_delay);
        is_soaked_for_ten_minutes(world);
    }
}

fn is_soaked_for_ten_minutes(mut world: World) {
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
        Some(end_of(
            world.sample.now - SignedDuration::from_mins(5),
            DEADLINE
        ))
    );
    world.work(&second);
    world.settle();
    let end = end_of(world.sample.now, SignedDuration::from_mins(10));
    assert_eq!(world.condition(PROGRESSING), Some(("True", "Soaking")));
    assert_eq!(world.status().counts.soaking, 2);
    assert_eq!(world.plan().again_at, Some(end));
    world.pass(600);
    assert_eq!(world.settle(), 0);
    world.pass(1);
    world.settle();
    assert_eq!(world.batch(2).len(), 2);
}

#[test]
fn offline_sites_get_the_version_outside_of_batches_on_their_return() {
    let mut world = settled(6, by(2));
    for site in ["site-00000", "site-00003"] {
        world.connect(site, false);
    }
    world.sample.request_version("2");
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
fn a_site_that_goes_offline_before_its_report_is_no_error() {
    let mut world = settled(4, by(1));
    world.sample.request_version("2");
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
    world.sample.request_version("2");
    world.settle();
    for site in world.names() {
        world.connect(&site, false);
    }
    world.settle();
    assert_eq!(world.created.len(), 1);
    assert_eq!(
        world.condition(AVAILABLE),
        Some(("Unknown", "ClusterUnreachable"))
    );
    let mut world = settled(4, canary(1, AfterCanary::AllAtOnce));
    for site in world.names() {
        world.connect(&site, false);
    }
    world.sample.request_version("2");
    world.settle();
    assert_eq!(world.created.len(), 0);
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
    world.sample.request_version("2");
    world.run();
    assert_eq!(world.batch(1), ["site-00002"]);
    assert_eq!(world.batch(2).len(), 0);
    assert!(world.message(PROGRESSING).contains("can be reached"));
    world.connect("site-00002", true);
    world.run();
    assert_eq!(world.status().counts.healthy, 4);
}

/// Another client has written the highest number into the status.
#[test]
fn a_rollout_with_the_highest_batch_number_goes_on_in_waves() {
    let mut world = settled(9, by(4));
    world.sample.request_version("2");
    world.settle();
    assert_eq!(world.batch(1).len(), 4);
    world.sample.status.batch.as_mut().unwrap().number = i32::MAX;
    world.settle();
    assert_eq!(world.batch(i32::MAX).len(), 4);
    assert_eq!(world.status().batch.as_ref().unwrap().of, i32::MAX);
    world.run();
    assert_eq!(world.batch(i32::MAX).len(), 5);
    assert_eq!(world.status().counts.healthy, 9);
    assert_eq!(world.condition(PROGRESSING), Some(("False", "Complete")));
}

#[test]
fn a_batch_that_was_given_in_part_is_completed() {
    let mut expected = settled(9, by(4));
    expected.sample.request_version("2");
    expected.settle();
    for writes in 0..6 {
        let mut world = settled(9, by(4));
        world.sample.request_version("2");
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

/// Each row: the requested version of the other application, and true if its content differs.
#[test]
fn another_application_is_a_new_version_even_with_the_same_name() {
    for (version, edit) in [("1", "1-a"), ("1", "1-other"), ("2", "2-a")] {
        let mut world = settled(4, by(1));
        world.other_application(version, edit);
        world.settle();
        assert_eq!(world.created.len(), 1, "{version} {edit}");
        assert!(world.created.iter().all(|(_, entry)| !entry.is_edit));
        let status = world.status();
        let named = (&status.application, &status.previous_application);
        let named = (named.0.as_deref(), named.1.as_deref());
        assert_eq!(named, (Some("bank"), Some("shop")));
        assert_eq!((status.rollout, status.counts.updated), (Some(2), 0));
        world.run();
        assert_eq!(world.created.len(), 4);
        assert_eq!(world.status().counts.healthy, 4);
        for site in world.names() {
            let begun = world.real[&site].begun.iter();
            let begun: Vec<_> = begun.map(|it| it.application.as_str()).collect();
            assert_eq!(begun, ["shop", "bank"]);
        }
        // The next version has the same application before it.
        world.sample.request_version("3");
        world.run();
        assert_eq!(world.status().previous_application, None);
        assert_eq!(world.status().previous_version.as_deref(), Some(version));
    }
}

#[test]
fn a_rollback_goes_back_to_another_application() {
    for history in [0, 2] {
        let mut world = settled(3, by(1));
        world.sample.spec.revision_history_limit = history;
        world.on_error(OnError::Rollback);
        world.other_application("1", "1-other");
        world.outcomes.insert("1-other".to_owned(), Outcome::Hangs);
        world.run();
        assert_eq!(world.condition(ABORTED), Some(("True", "RolledBack")));
        let site = world.batch(1)[0];
        let begun = world.real[site].begun.iter();
        let begun: Vec<_> = begun.map(|it| it.application.as_str()).collect();
        assert_eq!(begun, ["shop", "bank", "shop"], "{history}");
    }
}

#[test]
fn an_edit_of_the_application_before_reaches_the_sites_that_still_run_it() {
    let mut world = settled(3, by(1));
    world.version("1").unwrap().edit = "1-b".into();
    world.other_application("1", "1-other");
    world.settle();
    let edits = world.created.iter().filter(|(_, entry)| entry.is_edit);
    let edits: Vec<_> = edits
        .map(|(_, entry)| (&*entry.application, &*entry.edit, entry.rollout))
        .collect();
    assert_eq!(edits, [("shop", "1-b", 1); 3]);
}

/// Each row: the state of the first wave when all sites of the second wave leave.
#[test]
fn a_passed_wave_stays_passed_when_the_next_one_leaves_the_placement() {
    type Change = fn(&mut World, &str);
    let fails: Change = |world, site| world.flap(site);
    let is_away: Change = |world, site| world.connect(site, false);
    for change in [fails, is_away] {
        let mut world = settled(6, by(2));
        world.sample.request_version("2");
        world.settle();
        let first: Vec<_> = world.batch(1).into_iter().map(str::to_owned).collect();
        for _ in 0..2 {
            for site in &first {
                world.work(site);
            }
        }
        world.settle();
        let second: Vec<_> = world.batch(2).into_iter().map(str::to_owned).collect();
        assert_eq!(second.len(), 2);
        change(&mut world, &first[0]);
        for site in &second {
            let site = world.sample.sites.get_mut(&**site).unwrap();
            site.is_placed = false;
        }
        world.settle();
        assert_eq!(world.condition(ABORTED), None);
        assert_eq!(world.status().batch.as_ref().unwrap().number, 2);
        assert_eq!((world.batch(1).len(), world.batch(2).len()), (2, 4));
        world.run();
        assert_eq!(world.condition(PROGRESSING), Some(("False", "Complete")));
        assert_eq!(
            (world.status().counts.sites, world.status().counts.updated),
            (4, 4)
        );
    }
}

/// No site of a canary is left that could show that the version works.
#[test]
fn a_canary_that_leaves_the_placement_is_followed_by_another_one() {
    let mut world = settled(4, canary(1, AfterCanary::AllAtOnce));
    world.sample.request_version("2");
    world.settle();
    let first = world.batch(1)[0].to_owned();
    world.work(&first);
    world.sample.sites.get_mut(&*first).unwrap().is_placed = false;
    world.settle();
    assert_eq!((world.batch(1).len(), world.batch(2).len()), (2, 0));
    for name in world.names() {
        world.connect(&name, false);
    }
    world
        .sample
        .sites
        .get_mut(world.created[1].0.as_ref())
        .unwrap()
        .is_placed = false;
    world.settle();
    assert_eq!(
        world.message(PROGRESSING),
        "2 waits for a site that can be reached."
    );
    for name in world.names() {
        world.connect(&name, true);
    }
    world.run();
    assert_eq!((world.batch(1).len(), world.batch(2).len()), (3, 1));
}

/// The wave waits in its site, or has failed there; then no site is placed for a while, during a
/// pause.
#[test]
fn a_pause_without_any_site_keeps_the_wave() {
    for outcome in [Outcome::Works, Outcome::Hangs] {
        let mut world = settled(4, by(1));
        world.outcomes.insert("2-a".to_owned(), outcome);
        world.sample.request_version("2");
        world.settle();
        let first = world.batch(1)[0].to_owned();
        world.sample.spec.paused = true;
        if outcome == Outcome::Hangs {
            world.run();
        }
        let set_placed = |world: &mut World, is_placed| {
            let sites = world.sample.sites.values_mut();
            sites.for_each(|site| site.is_placed = is_placed);
        };
        set_placed(&mut world, false);
        world.settle();
        assert_eq!(world.condition(PROGRESSING), Some(("False", "NoSites")));
        set_placed(&mut world, true);
        world.sample.spec.paused = false;
        world.settle();
        assert_eq!(world.created.len(), 1, "{outcome:?}");
        if outcome == Outcome::Hangs {
            assert_eq!(world.condition(ABORTED), Some(("True", "SiteFailed")));
        } else {
            assert_eq!(world.status().batch.as_ref().unwrap().sites, [first]);
            world.run();
            assert_eq!(world.status().counts.updated, 4);
        }
        // A rollout that is over has no wave.
        set_placed(&mut world, false);
        world
            .sample
            .sites
            .values_mut()
            .for_each(|site| site.chain.clear());
        world.settle();
        let is_over = world.status().completed_rollout == Some(2);
        assert_eq!(world.status().batch.is_none(), is_over);
    }
}

/// A version from an earlier rollout counts as if the current one had installed it: it has to
/// begin and become available.
#[test]
fn a_version_that_waits_in_sites_from_an_earlier_rollout_is_not_complete() {
    let mut world = settled(5, SiteStrategy::default());
    world.close_windows();
    world.sample.request_version("2");
    world.settle();
    world.work_all();
    world.settle();
    world.sample.spec.strategy = with(by(1), |it| it.healthy_time = Some("10m".into()));
    world.sample.request_version("3");
    world.settle();
    let changed = world.batch(1)[0].to_owned();
    let real = world.real.get_mut(&*changed).unwrap();
    real.is_window_closed = false;
    for _ in 0..4 {
        world.work(&changed);
        world.settle();
    }
    assert_eq!(world.versions(&changed), ["1", "2", "3"]);
    world.sample.request_version("2");
    world.run();
    assert_eq!(world.versions(&changed), ["1", "2", "3", "2"]);
    assert_eq!(world.condition(PROGRESSING), Some(("True", "RollingOut")));
    let text =
        " 4 sites have it from an earlier rollout and are in progress or wait in their queue.";
    let message = world.message(PROGRESSING);
    assert!(message.ends_with(text), "{message}");
    assert_eq!(world.status().completed_rollout, Some(1));
    for real in world.real.values_mut() {
        real.is_window_closed = false;
    }
    world.run();
    assert_eq!(world.condition(PROGRESSING), Some(("False", "Complete")));
    assert_eq!(world.status().counts.healthy, 5);
}

/// Each row: outcome of the version in the canary, which has it from an earlier rollout and in its
/// queue, and the end of the rollout.
#[test]
fn a_canary_that_has_the_version_from_an_earlier_rollout_is_the_first_wave() {
    for (outcome, end) in [
        (Outcome::Works, None),
        (Outcome::Hangs, Some(("True", "SiteFailed"))),
        (Outcome::Refused, Some(("True", "SiteFailed"))),
    ] {
        let mut world = settled(4, canary_by("canary exists"));
        let canary = "site-00002";
        world.sample.sites.get_mut(canary).unwrap().is_canary = true;
        world.outcomes.insert(format!("{canary}/2-a"), outcome);
        world.close_windows();
        world.sample.request_version("2");
        world.settle();
        assert_eq!(world.batch(1), [canary]);
        // Another version is requested. The canary does not get it, because another site is the
        // canary in the meantime.
        let choose = |world: &mut World, chosen: &str| {
            for (name, site) in &mut world.sample.sites {
                site.is_canary = **name == *chosen;
            }
        };
        choose(&mut world, "site-00000");
        world.sample.request_version("3");
        world.settle();
        choose(&mut world, canary);
        world.connect(canary, false);
        world.sample.request_version("2");
        world.settle();
        let given = world.created.len();
        assert_eq!(
            world.message(PROGRESSING),
            "2 waits for a site that can be reached."
        );
        world.connect(canary, true);
        world.settle();
        assert_eq!(world.created.len(), given, "{outcome:?}");
        let batch = world.status().batch.as_ref().unwrap();
        assert_eq!(
            (batch.number, &batch.sites[..]),
            (1, &[canary.to_owned()][..])
        );
        for real in world.real.values_mut() {
            real.is_window_closed = false;
        }
        world.work(canary);
        world.settle();
        assert_eq!(
            world.condition(ABORTED).is_some(),
            outcome == Outcome::Refused
        );
        assert_eq!(world.created.len(), given, "{outcome:?}");
        world.run();
        assert_eq!(world.condition(ABORTED), end, "{outcome:?}");
        let others = if end.is_none() { 3 } else { 0 };
        assert_eq!(world.created.len() - given, others, "{outcome:?}");
    }
}

/// The version is available in the canary, or has failed there already.
#[test]
fn a_canary_with_a_result_from_an_earlier_rollout_is_judged_at_once() {
    for outcome in [Outcome::Works, Outcome::Hangs] {
        let mut world = settled(4, canary_by("canary exists"));
        world.on_error(OnError::Rollback);
        let canary = "site-00002";
        world.sample.sites.get_mut(canary).unwrap().is_canary = true;
        let name: Arc<str> = canary.into();
        let state = match outcome {
            Outcome::Works => RevisionState::Available(world.sample.now),
            Outcome::Hangs | Outcome::Refused => RevisionState::Failing {
                reason: Reason::ProbeFailure,
                message: "why".into(),
            },
        };
        let chain = &mut world.sample.sites.get_mut(canary).unwrap().chain;
        chain.push(revision(&name, 2, "2", state));
        world.sample.status.rollout = Some(3);
        world.sample.status.version = Some("3".to_owned());
        world.sample.request_version("2");
        let plan = world.plan();
        assert_eq!(plan.status.rollout, Some(4));
        let is_new = |it: &&Action| matches!(it, Action::Give { site, entry, .. } if !entry.to(site).is_edit);
        let gives = plan.actions.iter().filter(is_new).count();
        let works = outcome == Outcome::Works;
        assert_eq!(gives, if works { 3 } else { 0 });
        let conditions = &plan.status.conditions;
        let aborted = conditions.iter().find(|it| it.type_ == ABORTED);
        assert_eq!(aborted.is_none(), works);
        assert_eq!(plan.status.batch.unwrap().number, if works { 2 } else { 1 });
    }
}
