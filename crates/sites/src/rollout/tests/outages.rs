//! Events that must not end, abort or roll back a rollout: outages, a lost status, and revisions
//! that have not begun.

use super::*;

/// The manager loses the connection to all sites while they get the version. When they are back,
/// they are still its wave.
#[test]
fn an_outage_of_all_sites_in_a_wave_ends_no_rollout() {
    for parallel in [None, Some(1), Some(3)] {
        let strategy = parallel.map_or_else(SiteStrategy::default, by);
        let mut world = settled(6, with(strategy, |it| it.healthy_time = Some("10m".into())));
        world.on_error(OnError::Rollback);
        world.sample.request_version("2");
        world.outcomes.insert("2-a".to_owned(), Outcome::Hangs);
        world.settle();
        world.work_all();
        world.settle();
        let wave = world.created.len();
        for site in world.names() {
            world.connect(&site, false);
        }
        world.settle();
        assert_eq!(world.status().completed_rollout, Some(1), "{parallel:?}");
        world.pass(100_000);
        world.settle();
        assert_eq!(world.created.len(), wave, "{parallel:?}");
        for site in world.names() {
            world.connect(&site, true);
        }
        world.settle();
        assert_eq!(world.created.len(), wave, "{parallel:?}");
        world.run();
        assert_eq!(world.condition(ABORTED), Some(("True", "RolledBack")));
        assert!(
            world.created[wave..]
                .iter()
                .all(|(_, entry)| entry.is_rollback)
        );
    }
}

/// Most sites are offline, with or without the version in their queues. The sites that come back
/// are a batch, whose errors count.
#[test]
fn an_outage_of_most_sites_ends_no_rollout() {
    for strategy in [by(1), SiteStrategy::default()] {
        let mut world = settled(6, strategy);
        let names = world.names();
        for site in &names[2..] {
            world.connect(site, false);
        }
        world.sample.request_version("2");
        world.run();
        assert_eq!(world.condition(PROGRESSING), Some(("False", "Complete")));
        assert_eq!(world.status().completed_rollout, Some(1));
        world.outcomes.insert("2-a".to_owned(), Outcome::Hangs);
        for site in &names[2..] {
            world.connect(site, true);
        }
        world.settle();
        assert_eq!(world.condition(PROGRESSING), Some(("True", "RollingOut")));
        world.run();
        assert_eq!(world.condition(ABORTED), Some(("True", "SiteFailed")));
    }
}

/// A deployment that adopts the revisions of an earlier one has no status of the rollout. Later
/// failures are no error of the rollout.
#[test]
fn a_completed_rollout_stays_complete_when_its_status_is_lost() {
    for on_error in [OnError::Abort, OnError::Rollback] {
        let mut world = settled(3, SiteStrategy::default());
        world.on_error(on_error);
        world.sample.request_version("2");
        world.run();
        world.flap("site-00001");
        let given = world.created.len();
        world.sample.status = SiteDeploymentStatus::default();
        world.settle();
        assert_eq!(world.condition(ABORTED), None);
        let status = world.status();
        assert_eq!(
            (status.rollout, status.completed_rollout),
            (Some(2), Some(2))
        );
        assert_eq!((world.created.len(), status.counts.failed), (given, 1));
    }
}

/// A site has joined since, and one of the sites with the version has failed. In a second case the
/// rollout was not over, because a site still has the version before.
#[test]
fn a_new_site_does_not_reopen_a_rollout_whose_status_is_lost() {
    for (on_error, is_left) in [
        (OnError::Abort, false),
        (OnError::Rollback, false),
        (OnError::Rollback, true),
    ] {
        let mut world = settled(3, SiteStrategy::default());
        world.on_error(on_error);
        world.sample.request_version("2");
        world.run();
        world.flap("site-00001");
        world.join("site-9");
        if is_left {
            let name: Arc<str> = "site-8".into();
            let available = RevisionState::Available(world.sample.now);
            let chain = vec![revision(&name, 1, "1", available)];
            world.sample.sites.insert(name, site(chain));
        }
        world.sample.status = SiteDeploymentStatus::default();
        let plan = world.plan();
        assert_eq!(plan.status.rollout, Some(2));
        let conditions = &plan.status.conditions;
        let aborted = conditions.iter().find(|it| it.type_ == ABORTED);
        assert_eq!(aborted.is_some(), is_left);
        let completed = plan.status.completed_rollout;
        assert_eq!(completed, (!is_left).then_some(2));
        if !is_left {
            world.run();
            assert_eq!(world.condition(ABORTED), None);
            assert_eq!(world.batch(0), ["site-9"]);
        }
    }
}

/// None of the sites with the version is placed any more.
#[test]
fn a_rollout_that_no_placed_site_has_is_not_over_when_its_status_is_lost() {
    let mut world = settled(2, by(1));
    for site in world.sample.sites.values_mut() {
        site.is_placed = false;
    }
    world.join("site-8");
    world.join("site-9");
    world.sample.status = SiteDeploymentStatus::default();
    world.settle();
    assert_eq!(world.status().completed_rollout, None);
    assert_eq!(world.batch(1).len(), 1);
}

/// The phases of the revision were not checked yet, or the hub accepts none. The revision has its
/// place in the queue, and would begin later.
#[test]
fn an_unstarted_revision_is_withdrawn_after_an_abort() {
    for on_error in [OnError::Abort, OnError::Rollback] {
        let mut world = settled(
            2,
            with(SiteStrategy::default(), |it| it.on_error = on_error),
        );
        world.sample.request_version("2");
        world.settle();
        let [fails, waits] = <[_; 2]>::try_from(world.names()).unwrap();
        let since = world.sample.now;
        for (name, beginning) in [
            (&fails, RevisionStart::Begun),
            (&waits, RevisionStart::None),
        ] {
            let site = world.sample.sites.get_mut(name).unwrap();
            let newest = site.chain.last_mut().unwrap();
            let message = None;
            newest.state = RevisionState::Started { since, message };
            newest.beginning = beginning;
        }
        assert_eq!(world.plan().again_at, Some(end_of(since, DEADLINE)));
        let status = world.plan().status;
        assert_eq!((status.counts.updated, status.counts.queued), (1, 1));
        world.sample.spec.abort_rollout = Some(2);
        world.sample.status = world.plan().status;
        let actions = world.plan().actions;
        let [Action::Withdraw { revision }] = &actions[..] else {
            panic!("{actions:?}");
        };
        let chain = &world.sample.sites[&waits].chain;
        assert_eq!(*revision, chain.last().unwrap().name);
    }
}

/// The plan of a rollback, for a site `a` with these revisions, and another site in which the
/// version fails.
fn go_back(chain: impl Fn(&Arc<str>) -> Vec<Revision>) -> Plan {
    let mut world = World::new(0);
    world.on_error(OnError::Rollback);
    let [name, other]: [Arc<str>; 2] = ["a", "b"].map(Arc::from);
    let failing = revision(&other, 2, "2", refused());
    let before = revision(&other, 1, "1", RevisionState::Archived);
    world
        .sample
        .sites
        .insert(other, site(vec![before, failing]));
    let chain = chain(&name);
    world.sample.sites.insert(name, site(chain));
    for version in ["1", "1.5", "2"] {
        world.sample.request_version(version);
    }
    let status = &mut world.sample.status;
    status.rollout = Some(2);
    status.version = Some("2".to_owned());
    status.previous_version = Some("1.5".to_owned());
    status.batch = Some(baton_apis::SiteBatch::default());
    world.sample.status = world.plan().status;
    assert_eq!(world.condition(ABORTED), Some(("True", "RolledBack")));
    world.plan()
}

fn rollbacks(plan: &Plan) -> Vec<String> {
    let gives = plan.actions.iter().filter_map(|action| match action {
        Action::Give { site, entry, .. } if **site == *"a" => Some(entry.to(site)),
        _ => None,
    });
    let back = gives.filter(|entry| entry.is_rollback);
    back.map(|entry| entry.version).collect()
}

fn refused() -> RevisionState {
    RevisionState::Failing {
        reason: Reason::CollisionDetected,
        message: "why".into(),
    }
}

/// A revision that was skipped in the queue is archived like one that has run.
#[test]
fn a_site_goes_back_to_the_version_it_had_before() {
    let plan = go_back(|name| {
        let of_first = |revision: Revision| Revision {
            entry: Arc::new(SiteEntry {
                rollout: 1,
                ..(*revision.entry).clone()
            }),
            ..revision
        };
        let skipped = Revision {
            beginning: RevisionStart::None,
            ..revision(name, 2, "1.5", RevisionState::Archived)
        };
        let mut fails = revision(name, 3, "2", refused());
        fails.entry = revision(name, 2, "2", refused()).entry;
        vec![
            revision(name, 1, "1", RevisionState::Archived),
            of_first(skipped),
            fails,
        ]
    });
    assert_eq!(rollbacks(&plan), ["1"]);
}

/// An edit that waits does not prevent the site from going back, and does not count as a version
/// before the first one.
#[test]
fn a_site_goes_back_to_the_same_version_after_an_edit_of_the_failed_one() {
    for (is_first, beginning, expected) in [
        (false, RevisionStart::None, &["1"][..]),
        (false, RevisionStart::Begun, &["1"]),
        (true, RevisionStart::None, &[]),
        (true, RevisionStart::Begun, &[]),
    ] {
        let plan = go_back(|name| {
            let fails = revision(name, 2, "2", refused());
            let edit = Revision {
                entry: Arc::new(SiteEntry {
                    is_edit: true,
                    ..(*fails.entry).clone()
                }),
                beginning,
                ..revision(name, 3, "2", refused())
            };
            let mut chain = vec![revision(name, 1, "1", RevisionState::Archived), fails, edit];
            if is_first {
                chain.remove(0);
                chain[0].number = 1;
                chain[1].number = 2;
            }
            chain
        });
        assert_eq!(rollbacks(&plan), expected);
        let progressing = plan
            .status
            .conditions
            .iter()
            .find(|it| it.type_ == PROGRESSING);
        let is_named = progressing.unwrap().message.contains("stay at it");
        assert_eq!(is_named, is_first, "{progressing:?}");
    }
}

/// The history has no room for the site's version before. The deployment's version before may never
/// have been in the site.
#[test]
fn a_site_without_its_former_version_in_the_history_does_not_go_back() {
    let plan = go_back(|name| vec![revision(name, 2, "2", refused())]);
    assert_eq!(rollbacks(&plan), <[&str; 0]>::default());
    let conditions = &plan.status.conditions;
    let progressing = conditions.iter().find(|it| it.type_ == PROGRESSING);
    let message = &progressing.unwrap().message;
    let expected =
        "1 sites stay at it, because their earlier version is not kept, or they had none: a.";
    assert!(message.ends_with(expected), "{message}");
}
