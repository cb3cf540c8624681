//! Waiting revisions in sites: order, pauses, edits, history.

use std::collections::BTreeSet;

use baton_apis::conditions::shipper::BLOCKED;

use super::*;

#[test]
fn queues_keep_older_versions_in_order() {
    let mut world = settled(1, SiteStrategy::default());
    world.close_windows();
    for version in ["2", "3", "4"] {
        world.sample.request_version(version);
        world.run();
        assert_eq!(world.status().counts.queued, 1);
    }
    assert_eq!(world.condition(PROGRESSING), Some(("True", "RollingOut")));
    world.open_windows();
    world.run();
    assert_eq!(world.versions("site-00000"), ["1", "2", "3", "4"]);
}

/// The windows of a deleted application are unknown, so its waiting revisions would hold all others
/// behind them.
#[test]
fn waiting_revisions_are_withdrawn_for_another_application() {
    let mut world = settled(2, by(1));
    world.close_windows();
    for version in ["2", "3"] {
        world.sample.request_version(version);
        world.run();
    }
    world.other_application("1", "1-other");
    world.settle();
    let first = world.batch(1)[0].to_owned();
    world.open_windows();
    world.run();
    // One site got its version while the old one waited, the other one not before the first one was
    // available.
    for site in world.names() {
        let begun = world.real[&site].begun.iter();
        let begun: Vec<_> = begun.map(|it| (&*it.application, &*it.version)).collect();
        let between: &[_] = if *site == *first {
            &[]
        } else {
            &[("shop", "3")]
        };
        assert_eq!(
            begun,
            [&[("shop", "1")], between, &[("bank", "1")]].concat()
        );
    }
}

#[test]
fn no_site_gets_a_version_during_a_pause() {
    let mut world = settled(4, by(1));
    world.sample.request_version("2");
    world.settle();
    world.sample.spec.paused = true;
    world.run();
    assert_eq!(world.created.len(), 1);
    assert_eq!(world.status().counts.healthy, 1);
    assert_eq!(world.condition(PROGRESSING), Some(("Unknown", "Paused")));
    world.sample.request_version("3");
    world.run();
    assert_eq!((world.status().rollout, world.created.len()), (Some(2), 1));
    world.sample.spec.paused = false;
    world.run();
    assert_eq!(world.status().rollout, Some(3));
    assert_eq!(world.status().counts.healthy, 4);
    world.sample.spec.paused = true;
    world.run();
    assert_eq!(world.condition(PROGRESSING), Some(("False", "Complete")));
}

#[test]
fn no_site_gets_a_version_while_a_block_applies() {
    let mut world = settled(4, by(1));
    world.sample.request_version("2");
    world.settle();
    world.sample.block(true);
    world.run();
    assert_eq!(world.created.len(), 1);
    let blocked = Some(("Unknown", "RolloutsBlocked"));
    assert_eq!(world.condition(PROGRESSING), blocked);
    assert_eq!(world.condition(BLOCKED), Some(("True", "RolloutsBlocked")));
    world.sample.request_version("3");
    world.run();
    assert_eq!((world.status().rollout, world.created.len()), (Some(2), 1));
    world.sample.blocks = Effect::Unlisted("RolloutBlocks cannot be listed".to_owned());
    world.run();
    assert_eq!(world.created.len(), 1);
    assert_eq!(world.condition(BLOCKED), Some(("Unknown", "ListFailed")));
    world.sample.block(false);
    world.run();
    assert_eq!(world.status().rollout, Some(3));
    assert_eq!(world.status().counts.healthy, 4);
    assert_eq!(world.condition(BLOCKED), Some(("False", "NotBlocked")));
    world.sample.blocks = Effect::NotObeyed;
    world.run();
    assert_eq!(world.condition(BLOCKED), None);
}

#[test]
fn no_site_is_left_while_a_block_applies() {
    let mut world = settled(2, by(1));
    world.sample.sites.get_mut("site-00000").unwrap().is_placed = false;
    world.sample.block(true);
    world.run();
    assert!(!world.sample.sites["site-00000"].chain.is_empty());
    world.sample.block(false);
    world.run();
    let chain = &world
        .sample
        .sites
        .get("site-00000")
        .map(|it| it.chain.len());
    assert!(matches!(chain, None | Some(0)), "{chain:?}");
}

#[test]
fn a_rollout_under_a_block_is_aborted() {
    let mut world = settled(3, by(1));
    world.close_windows();
    world.sample.request_version("2");
    world.run();
    let waiting = world.created.len();
    world.sample.block(true);
    world.sample.spec.abort_rollout = world.status().rollout;
    world.run();
    assert_eq!(world.condition(ABORTED), Some(("True", "AbortedByUser")));
    world.open_windows();
    world.run();
    assert_eq!(
        (world.created.len(), world.status().counts.updated),
        (waiting, 0)
    );
}

#[test]
fn an_edit_reaches_all_sites_of_the_version_before_waiting_revisions() {
    let mut world = settled(3, by(1));
    world.close_windows();
    world.sample.request_version("2");
    world.settle();
    let waiting = world.batch(1)[0].to_owned();
    world.version("1").unwrap().edit = "1-b".into();
    let plan = world.plan();
    let is_withdrawn = |action: &Action| matches!(action, Action::Withdraw { .. });
    assert!(plan.actions.iter().any(is_withdrawn));
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
    // One of the waiting revisions is replaced.
    world.version("2").unwrap().edit = "2-b".into();
    world.open_windows();
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

/// The manager ends after any two numbers of writes, and the site does any amount of work between.
#[test]
fn no_cut_between_two_writes_loses_a_queued_version_or_runs_one_twice() {
    let site = "site-00000";
    let mut orders = BTreeSet::new();
    for (first, work, second) in (0..9).flat_map(|first| {
        let rest = (0..5).flat_map(|work| (0..9).map(move |second| (work, second)));
        rest.map(move |(work, second)| (first, work, second))
    }) {
        let cuts = (first, work, second);
        let mut world = settled(1, SiteStrategy::default());
        world.close_windows();
        for version in ["2", "3"] {
            world.sample.request_version(version);
            world.run();
        }
        world.version("1").unwrap().edit = "1-b".into();
        world.carry_out(world.plan(), first);
        world.collect();
        world.open_windows();
        (0..work).for_each(|_| world.work(site));
        world.version("2").unwrap().edit = "2-b".into();
        world.carry_out(world.plan(), second);
        world.collect();
        world.run();
        let begun = &world.real[site].begun;
        let rollouts: Vec<_> = begun.iter().map(|entry| entry.rollout).collect();
        assert!(rollouts.is_sorted(), "{cuts:?}: {begun:?}");
        let mut rollouts = rollouts;
        rollouts.dedup();
        assert_eq!(rollouts, [1, 2, 3], "{cuts:?}: {begun:?}");
        let edits: Vec<_> = begun.iter().map(|entry| entry.edit.clone()).collect();
        let distinct: BTreeSet<_> = edits.iter().collect();
        assert_eq!(distinct.len(), edits.len(), "{cuts:?}: {edits:?}");
        orders.insert(edits);
    }
    // The edits of 1 and 2 came in time, or after the site had gone on.
    for order in [
        &["1-a", "1-b", "2-b", "3-a"][..],
        &["1-a", "2-a", "2-b", "3-a"],
        &["1-a", "2-a", "3-a"],
    ] {
        let order: Vec<_> = order.iter().map(|edit| (*edit).to_owned()).collect();
        assert!(orders.contains(&order), "{orders:?}");
    }
}

/// An edit, and the revisions behind it, are given before any revision is withdrawn.
#[test]
fn the_actions_of_a_site_are_adjacent() {
    let mut world = settled(3, SiteStrategy::default());
    world.close_windows();
    for version in ["2", "3"] {
        world.sample.request_version(version);
        world.run();
    }
    world.version("1").unwrap().edit = "1-b".into();
    let plan = world.plan();
    let words = plan.actions.iter().map(|action| match action {
        Action::Withdraw { .. } => "withdraw".to_owned(),
        Action::Give { site, .. } => format!("give {site}"),
        other => format!("{other:?}"),
    });
    let words: Vec<_> = words.collect();
    let expected: Vec<_> = world
        .names()
        .into_iter()
        .flat_map(|site| {
            let give = format!("give {site}");
            let withdraw = "withdraw".to_owned();
            [give.clone(), give.clone(), give, withdraw.clone(), withdraw]
        })
        .collect();
    assert_eq!(words, expected);
}

#[test]
fn an_edit_repairs_sites_that_run_the_aborted_version() {
    let mut world = settled(3, by(1));
    world.outcomes.insert("2-a".to_owned(), Outcome::Hangs);
    world.sample.request_version("2");
    world.run();
    assert!(world.condition(ABORTED).is_some());
    world.version("2").unwrap().edit = "2-b".into();
    world.run();
    assert!(world.condition(ABORTED).is_some());
    assert_eq!(world.status().counts.healthy, 1);
    assert_eq!(world.created.len(), 2);
}

#[test]
fn a_pause_delays_edits_even_after_an_abort() {
    let mut world = settled(2, by(1));
    world.sample.spec.abort_rollout = Some(1);
    world.sample.spec.paused = true;
    world.version("1").unwrap().edit = "1-b".into();
    world.run();
    assert_eq!(world.condition(ABORTED), Some(("True", "AbortedByUser")));
    assert_eq!(world.created.len(), 0);
    world.sample.spec.paused = false;
    world.run();
    assert_eq!(world.created.len(), 2);
}

#[test]
fn a_rollback_writes_nothing_to_sites_that_still_have_the_version() {
    let mut world = settled(4, by(1));
    world.sample.request_version("2");
    world.settle();
    let site = world.batch(1)[0].to_owned();
    world.work(&site);
    world.sample.request_version("1");
    world.run();
    assert_eq!(world.created.len(), 2);
    assert_eq!(world.versions(&site), ["1", "2", "1"]);
    assert_eq!(world.condition(PROGRESSING), Some(("False", "Complete")));
    assert_eq!(world.status().counts.updated, 4);
}

#[test]
fn history_is_limited_and_sites_that_are_not_placed_are_emptied() {
    let mut world = settled(2, SiteStrategy::default());
    for version in ["2", "3", "4", "5"] {
        world.sample.request_version(version);
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
fn a_skipped_revision_is_archived() {
    let mut world = settled(1, SiteStrategy::default());
    world.close_windows();
    world.sample.request_version("2");
    world.run();
    world.sample.request_version("3");
    world.run();
    let site = world.sample.sites.get_mut("site-00000").unwrap();
    site.chain[1].state = RevisionState::Skipped;
    let revision = Arc::clone(&site.chain[1].name);
    assert_eq!(world.plan().actions, [Action::Archive { revision }]);
}

/// Each row: the queue of the site when it goes offline.
#[test]
fn waiting_revisions_of_an_offline_site_are_not_withdrawn() {
    for waits in [false, true] {
        let mut world = settled(3, SiteStrategy::default());
        world.close_windows();
        if waits {
            world.sample.request_version("2");
            world.run();
        }
        let site = "site-00001";
        world.connect(site, false);
        let given = world.created.len();
        world.version("1").unwrap().edit = "1-b".into();
        world.settle();
        let to_site = |world: &World| {
            let given = world.created[given..].iter();
            given.filter(|(name, _)| **name == *site).count()
        };
        assert_eq!(to_site(&world), usize::from(!waits));
        world.version("1").unwrap().edit = "1-c".into();
        world.settle();
        assert_eq!(to_site(&world), usize::from(!waits));
        world.connect(site, true);
        world.settle();
        world.work(site);
        let begun = world.real[site].begun.iter();
        let begun: Vec<_> = begun.map(|entry| &*entry.edit).collect();
        assert_eq!(begun, ["1-a", "1-c"]);
    }
}
