//! Sites that fail, and rollouts that are aborted.

use super::*;

/// The event in the first batch, and the reason of the failure of the site.
#[test]
fn an_error_in_a_batch_aborts_the_rollout_permanently() {
    type Event = fn(&mut World, &str);
    let hang: Event = |world, site| {
        world.work(site);
        world.pass(601);
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
        world.sample.request_version("2");
        world.settle();
        let site = world.batch(1)[0].to_owned();
        event(&mut world, &site);
        let plan = world.plan();
        assert!(plan.status_first);
        assert_eq!(plan.status.failing[0].reason, reason);
        assert_eq!(plan.status.failing[0].revision, Some(2));
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
        // A revision that has begun stays, and one that has not is withdrawn.
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
        assert_eq!(world.created.len(), 1);
        // A rollout of another version can begin.
        world.sample.request_version("3");
        world.run();
        assert_eq!(world.condition(ABORTED), None);
        assert_eq!(world.status().counts.healthy, 4);
        assert_eq!(world.status().rollout, Some(3));
        assert_eq!(world.status().previous_version.as_deref(), Some("2"));
    }
}

/// Requests a version, and runs until the second site is about to get it; returns the first one.
fn first_wave_passes(world: &mut World) -> String {
    world.sample.request_version("2");
    world.settle();
    let first = world.batch(1)[0].to_owned();
    world.work(&first);
    world.work(&first);
    world.settle();
    assert_eq!(world.batch(2).len(), 1);
    first
}

#[test]
fn a_failure_after_its_batch_has_passed_does_not_abort_the_rollout() {
    let mut world = settled(3, by(1));
    let first = first_wave_passes(&mut world);
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

/// Each row: how long a canary is offline after it has begun, and when it fails if it does not
/// become available.
#[test]
fn time_spent_offline_does_not_count_as_time_to_get_available() {
    for (seconds, end) in [(0, 601), (60, 721), (7_200, 7_861)] {
        let mut world = settled(3, canary(1, AfterCanary::AllAtOnce));
        world.outcomes.insert("2-a".to_owned(), Outcome::Hangs);
        world.sample.request_version("2");
        world.settle();
        let site = world.batch(1)[0].to_owned();
        world.work(&site);
        let begun = world.sample.now;
        if seconds > 0 {
            world.pass(60);
            world.connect(&site, false);
            world.settle();
            world.pass(seconds);
            world.connect(&site, true);
        }
        world.settle();
        let end = begun + SignedDuration::from_secs(end);
        assert_eq!(world.plan().again_at, Some(end), "{seconds}");
        world.sample.now = end - SignedDuration::from_secs(1);
        world.settle();
        assert_eq!(world.condition(ABORTED), None, "{seconds}");
        world.sample.now = end;
        world.settle();
        assert_eq!(world.condition(ABORTED), Some(("True", "SiteFailed")));
    }
}

/// Each row: reaction to errors, outcome of the version in the late site, and true if the site is
/// new, false if it was offline.
#[test]
fn a_late_site_does_not_abort_or_revert_a_completed_rollout() {
    for (on_error, outcome, is_new) in [
        (OnError::Abort, Outcome::Hangs, true),
        (OnError::Rollback, Outcome::Hangs, false),
        (OnError::Rollback, Outcome::Refused, true),
        (OnError::Continue, Outcome::Refused, false),
    ] {
        let mut world = settled(5, by(1));
        world.on_error(on_error);
        let most = (on_error == OnError::Continue).then_some(0);
        world.sample.spec.strategy.max_failures = most;
        let late = "site-00002";
        world.connect(late, false);
        world.sample.sites.get_mut(late).unwrap().is_placed = !is_new;
        world.sample.request_version("2");
        world.run();
        assert_eq!(world.condition(PROGRESSING), Some(("False", "Complete")));
        assert_eq!(world.status().completed_rollout, Some(2));
        // Weeks later a site with the version is unhealthy, and the late site fails.
        world.pass(2_000_000);
        world.flap("site-00000");
        world.outcomes.insert("2-a".to_owned(), outcome);
        world.sample.sites.get_mut(late).unwrap().is_placed = true;
        world.connect(late, true);
        world.settle();
        let text = format!("{on_error:?} {outcome:?}");
        // A site that was offline may have the version in its queue, and was in a batch that has
        // passed.
        let goes_on = world.condition(PROGRESSING) == Some(("True", "RollingOut"));
        assert_eq!(goes_on, is_new, "{text}");
        assert_eq!(world.status().batch, None);
        world.run();
        assert_eq!(world.condition(ABORTED), None, "{text}");
        assert_eq!(
            world.condition(PROGRESSING),
            Some(("False", "Complete")),
            "{text}"
        );
        let failing: Vec<_> = world.status().failing.iter().map(|it| &*it.name).collect();
        assert_eq!(failing, ["site-00000", late], "{text}");
        assert_eq!(world.status().counts.failed, 2);
        assert_eq!(
            world.condition(AVAILABLE),
            Some(("False", "SitesUnavailable"))
        );
        for site in ["site-00000", "site-00001", "site-00003", "site-00004"] {
            assert_eq!(world.versions(site), ["1", "2"], "{text}");
        }
        // The next site that joins gets the version all the same.
        world.outcomes.clear();
        world.join("site-9");
        world.run();
        assert_eq!(world.versions("site-9"), ["2"], "{text}");
        // The next rollout can be aborted.
        world.on_error(OnError::Abort);
        world.outcomes.insert("3-a".to_owned(), Outcome::Refused);
        world.sample.request_version("3");
        world.run();
        assert_eq!(world.condition(ABORTED), Some(("True", "SiteFailed")));
        assert_eq!(world.status().completed_rollout, Some(2));
    }
}

#[test]
fn late_sites_are_updated_in_groups_of_the_size_of_a_batch() {
    for (strategy, at_once) in [(by(2), 2), (canary(1, AfterCanary::AllAtOnce), 5)] {
        let mut world = settled(6, strategy);
        world.sample.request_version("2");
        world.run();
        for site in 0..5 {
            world.join(&format!("tite-{site}"));
        }
        world.settle();
        assert_eq!(world.batch(0).len(), at_once);
        world.run();
        assert_eq!(world.batch(0).len(), 5);
        assert_eq!(world.status().counts.healthy, 11);
    }
}

#[test]
fn a_failure_after_a_completed_rollout_does_not_block_new_sites() {
    let mut world = settled(2, by(1));
    world.flap("site-00000");
    world.settle();
    assert_eq!(world.condition(PROGRESSING), Some(("False", "Complete")));
    assert_eq!(world.condition(READY), Some(("False", "SitesUnavailable")));
    world.join("site-9");
    world.settle();
    assert_eq!(world.condition(ABORTED), None);
    assert_eq!(world.batch(0), ["site-9"]);
    world.run();
    assert_eq!(world.versions("site-9"), ["1"]);
}

#[test]
fn a_rollback_restores_the_former_version_of_each_site() {
    for history in [0, 2] {
        let mut world = settled(4, with(by(2), |it| it.healthy_time = Some("10m".into())));
        world.on_error(OnError::Rollback);
        world.sample.spec.revision_history_limit = history;
        world.sample.request_version("2");
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
        assert_eq!(world.created.len(), 4);
        assert_eq!(world.status().counts.updated, 0);
        assert_eq!(world.condition(AVAILABLE), Some(("True", "Available")));
    }
}

/// True if the sites had a version before, which is not kept any more.
#[test]
fn sites_that_cannot_go_back_are_named() {
    for had in [true, false] {
        let mut world = if had {
            settled(3, by(1))
        } else {
            World::new(3)
        };
        world.sample.spec.strategy = by(1);
        world.on_error(OnError::Rollback);
        world.sample.request_version("2");
        world.outcomes.insert("2-a".to_owned(), Outcome::Hangs);
        world.settle();
        world.sample.versions.get_mut("shop").unwrap().remove("1");
        world.run();
        assert_eq!(world.condition(ABORTED), Some(("True", "RolledBack")));
        let site = world.batch(1)[0].to_owned();
        let expected = format!(
            "1 sites stay at it, because their earlier version is not kept, or they had none: {site}."
        );
        let message = world.message(PROGRESSING);
        assert!(message.ends_with(&expected), "{message}");
    }
}

#[test]
fn a_rollout_continues_up_to_the_allowed_number_of_failures() {
    for (most, batches) in [(Some(0), 1), (Some(1), 2), (Some(3), 4), (None, 6)] {
        let mut world = settled(6, by(1));
        world.on_error(OnError::Continue);
        world.sample.spec.strategy.max_failures = most;
        world.outcomes.insert("2-a".to_owned(), Outcome::Hangs);
        world.sample.request_version("2");
        world.run();
        assert_eq!(world.created.len(), batches, "{most:?}");
        assert_eq!(world.condition(ABORTED).is_some(), most.is_some());
        assert_eq!(
            world.status().counts.failed,
            i32::try_from(batches).unwrap()
        );
    }
}

/// The newest wave is healthy, and earlier ones fail while the rollout continues.
#[test]
fn an_abort_names_a_site_of_an_earlier_wave() {
    let mut world = settled(3, with(by(1), |it| it.max_failures = Some(0)));
    world.on_error(OnError::Continue);
    let first = first_wave_passes(&mut world);
    world.flap(&first);
    world.settle();
    assert_eq!(world.condition(ABORTED), Some(("True", "SiteFailed")));
    let expected = format!("1 sites failed, more than 0. Site {first}: ProbeFailure: why");
    assert_eq!(world.message(ABORTED), expected);
}

/// Another version of Baton may abort for a reason that this version does not have.
#[test]
fn an_abort_keeps_its_reason() {
    let mut world = settled(2, by(1));
    world.outcomes.insert("2-a".to_owned(), Outcome::Hangs);
    world.sample.request_version("2");
    world.run();
    assert_eq!(world.condition(ABORTED), Some(("True", "SiteFailed")));
    let conditions = world.sample.status.conditions.iter_mut();
    for aborted in conditions.filter(|it| it.type_ == ABORTED) {
        aborted.reason = "OfAnotherVersion".to_owned();
    }
    world.run();
    let kept = Some(("True", "OfAnotherVersion"));
    assert_eq!(world.condition(ABORTED), kept);
    assert_eq!(world.condition(STALLED), kept);
}

#[test]
fn a_failure_during_a_pause_counts_when_it_is_over() {
    let mut world = settled(2, by(1));
    world.outcomes.insert("2-a".to_owned(), Outcome::Hangs);
    world.sample.request_version("2");
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
fn the_spec_aborts_only_the_rollout_that_it_names() {
    for (named, aborted) in [(1, false), (2, true), (3, false)] {
        let mut world = settled(3, by(1));
        world.close_windows();
        world.sample.request_version("2");
        world.settle();
        world.sample.spec.abort_rollout = Some(named);
        // Waiting revisions are withdrawn also during a pause.
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
fn the_next_rollout_starts_when_the_aborted_one_has_no_waiting_revisions() {
    let mut world = settled(2, SiteStrategy::default());
    world.close_windows();
    world.sample.request_version("2");
    world.settle();
    world.sample.spec.abort_rollout = Some(2);
    let plan = world.plan();
    // The manager ends when only the status is written.
    world.carry_out(plan, 1);
    world.sample.request_version("3");
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
fn a_refused_revision_is_replaced_by_the_next_version() {
    let mut world = settled(1, with(by(1), |it| it.on_error = OnError::Continue));
    world.outcomes.insert("2-a".to_owned(), Outcome::Refused);
    world.sample.request_version("2");
    world.run();
    assert_eq!(world.status().failing[0].reason, "CollisionDetected");
    world.sample.request_version("3");
    world.run();
    assert_eq!(world.versions("site-00000"), ["1", "3"]);
}

#[test]
fn waiting_revisions_of_an_aborted_rollout_are_withdrawn_during_a_pause() {
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
fn a_refused_revision_is_withdrawn_for_the_running_version() {
    let mut world = settled(1, with(by(1), |it| it.on_error = OnError::Continue));
    world.outcomes.insert("2-a".to_owned(), Outcome::Refused);
    world.sample.request_version("2");
    world.run();
    world.sample.request_version("1");
    world.run();
    assert_eq!(world.created.len(), 1);
    assert_eq!(world.sample.sites["site-00000"].chain.len(), 1);
    assert_eq!(world.condition(PROGRESSING), Some(("False", "Complete")));
}

/// While a newer version takes over, the older one stops, and then has no objects any more.
#[test]
fn a_revision_that_stops_for_a_newer_version_has_not_failed() {
    for reason in [Reason::Stopping, Reason::NotInControl, Reason::ProbeFailure] {
        let mut world = World::new(0);
        let name: Arc<str> = "eu".into();
        let older = RevisionState::Failing {
            reason,
            message: "why".into(),
        };
        let newer = RevisionState::Started {
            since: world.sample.now,
            message: None,
        };
        let chain = vec![
            revision(&name, 1, "1", older),
            revision(&name, 2, "2", newer),
        ];
        world.sample.sites.insert(name, site(chain));
        world.sample.request_version("2");
        world.sample.status = world.plan().status;
        let status = world.plan().status;
        assert_eq!(status.counts.failed, 0, "{reason}: {:?}", status.failing);
        assert_eq!(status.failing, []);
    }
}

/// The message of the revision explains more than that it is late.
#[test]
fn a_late_site_is_reported_with_the_message_of_its_revision() {
    for (message, expected) in [
        (
            Some("Phase \"app\" failed: no image"),
            "Phase \"app\" failed: no image",
        ),
        (
            None,
            "It is not available, and has taken longer than its progress deadline.",
        ),
    ] {
        let mut world = World::new(0);
        let name: Arc<str> = "eu".into();
        let late = RevisionState::Started {
            since: world.sample.now - DEADLINE - SignedDuration::from_secs(1),
            message: message.map(Arc::from),
        };
        let chain = vec![revision(&name, 1, "2", late)];
        world.sample.sites.insert(name, site(chain));
        world.sample.request_version("2");
        world.sample.status = world.plan().status;
        let status = world.plan().status;
        assert_eq!(status.failing[0].reason, "ProgressDeadlineExceeded");
        assert_eq!(status.failing[0].message, expected);
    }
}

/// Each row: reaction to an error, number of failures allowed; then the reason of the abort, and
/// the versions of sites with the new version, of sites without, and of the one that it breaks.
#[test]
fn a_version_that_fails_in_one_of_ten_sites_aborts_as_configured() {
    type Case<'a> = (OnError, Option<i32>, Option<&'a str>, usize, &'a [&'a str]);
    let cases: [Case<'_>; 4] = [
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
            calm.sample.request_version("2");
            calm.run();
            let broken = calm.batch(3)[0].to_owned();
            let mut world = settled(10, rolling());
            world.on_error(on_error);
            world.sample.spec.strategy.max_failures = most;
            world.outcomes.insert(format!("{broken}/2-a"), outcome);
            world.sample.request_version("2");
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

/// The site has no objects of the version yet. When the revision is withdrawn, the old version
/// starts again by itself.
#[test]
fn a_site_that_stops_for_an_aborted_version_goes_back() {
    for on_error in [OnError::Abort, OnError::Rollback] {
        let mut world = World::new(0);
        world.sample.spec.strategy.on_error = on_error;
        let [fails, stops]: [Arc<str>; 2] = ["a", "b"].map(Arc::from);
        let since = world.sample.now;
        let refused = RevisionState::Failing {
            reason: Reason::CollisionDetected,
            message: "why".into(),
        };
        let begun = RevisionState::Started {
            since,
            message: None,
        };
        for (name, state) in [(&fails, refused), (&stops, begun)] {
            let chain = vec![
                revision(name, 1, "1", RevisionState::Available(since)),
                Revision {
                    beginning: if name == &stops {
                        RevisionStart::Stopping
                    } else {
                        RevisionStart::Begun
                    },
                    ..revision(name, 2, "2", state)
                },
            ];
            world.sample.sites.insert(Arc::clone(name), site(chain));
        }
        world.sample.request_version("2");
        world.sample.status = world.plan().status;
        let plan = world.plan();
        let aborted = plan.status.conditions.iter().find(|it| it.type_ == ABORTED);
        assert!(
            aborted.is_some_and(|it| it.status == "True"),
            "{:?}",
            plan.status
        );
        let of_stops = |action: &&Action| match action {
            Action::Withdraw { revision } => {
                **revision == *world.sample.sites[&stops].chain[1].name
            }
            Action::Give { site, .. } => *site == stops,
            _ => false,
        };
        let actions: Vec<_> = plan.actions.iter().filter(of_stops).collect();
        assert!(
            matches!(*actions, [Action::Withdraw { .. }]),
            "{on_error:?}: {actions:?}"
        );
    }
}

/// Each row: the only wave or the last one, and the event in it during the pause.
#[test]
fn a_failure_in_the_last_wave_during_a_pause_counts_when_it_is_over() {
    for (parallel, on_error, reason) in [
        (2, OnError::Abort, "SiteFailed"),
        (1, OnError::Rollback, "RolledBack"),
    ] {
        let mut world = settled(2, with(by(parallel), |it| it.on_error = on_error));
        world.sample.request_version("2");
        if parallel == 1 {
            first_wave_passes(&mut world);
        } else {
            world.settle();
        }
        let last = world.created.last().unwrap().0.to_string();
        world.outcomes.insert(format!("{last}/2-a"), Outcome::Hangs);
        world.sample.spec.paused = true;
        world.run();
        assert_eq!(world.status().counts.failed, 1, "{reason}");
        assert_eq!(world.condition(PROGRESSING), Some(("Unknown", "Paused")));
        assert_eq!(world.status().completed_rollout, Some(1), "{reason}");
        world.sample.spec.paused = false;
        world.run();
        assert_eq!(world.condition(ABORTED), Some(("True", reason)));
    }
}

/// True if the abort in the spec was recorded before another version is requested.
#[test]
fn an_abort_with_a_new_version_withdraws_all_waiting_revisions() {
    for was_recorded in [false, true] {
        let mut world = settled(2, SiteStrategy::default());
        world.close_windows();
        world.sample.request_version("2");
        world.settle();
        world.sample.spec.abort_rollout = Some(2);
        if was_recorded {
            world.sample.status = world.plan().status;
        }
        world.sample.request_version("3");
        let plan = world.plan();
        assert_eq!(plan.status.rollout, Some(2));
        assert_eq!(plan.status_first, !was_recorded);
        let is_withdrawn = |action: &Action| matches!(action, Action::Withdraw { .. });
        assert!(plan.actions.iter().all(is_withdrawn));
        world.carry_out(plan, usize::MAX);
        assert_eq!(world.condition(ABORTED), Some(("True", "AbortedByUser")));
        for real in world.real.values_mut() {
            real.is_window_closed = false;
        }
        world.run();
        assert_eq!(world.versions("site-00000"), ["1", "3"]);
        assert_eq!(world.status().rollout, Some(3));
        assert_eq!(world.condition(ABORTED), None);
    }
}

/// Each row: a site with a version that waits or stops workloads, and with an edit of it; then the
/// revisions that are withdrawn when the rollout is aborted during a pause.
#[test]
fn an_edit_is_withdrawn_together_with_its_unstarted_revision() {
    for (beginning, withdrawn) in [
        (RevisionStart::None, &["eu-3", "eu-2"][..]),
        (RevisionStart::Stopping, &["eu-3", "eu-2"]),
        (RevisionStart::Begun, &[]),
    ] {
        let mut world = World::new(0);
        let name: Arc<str> = "eu".into();
        let now = world.sample.now;
        let given = Revision {
            beginning,
            ..revision(
                &name,
                2,
                "2",
                RevisionState::Started {
                    since: now,
                    message: None,
                },
            )
        };
        let edit = Revision {
            entry: Arc::new(SiteEntry {
                is_edit: true,
                ..(*given.entry).clone()
            }),
            ..revision(&name, 3, "2", RevisionState::Queued)
        };
        let before = revision(&name, 1, "1", RevisionState::Available(now));
        world
            .sample
            .sites
            .insert(name, site(vec![before, given, edit]));
        world.sample.request_version("2");
        world.sample.status = world.plan().status;
        world.sample.spec.paused = true;
        world.sample.spec.abort_rollout = world.status().rollout;
        let actions = world.plan().actions;
        let names: Vec<_> = actions
            .iter()
            .map(|action| match action {
                Action::Withdraw { revision } => &**revision,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(names, withdrawn, "{beginning:?}");
    }
}
