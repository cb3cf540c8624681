//! Reports: of bad input, of the placement, and within limits.

use super::*;

/// Requests version 2 with an error in the input: nothing is done, and a condition reports the
/// error.
fn check_bad(change: fn(&mut World), type_: &str, expected: (&str, &str), text: &str) -> World {
    let mut world = settled(3, SiteStrategy::default());
    world.sample.request_version("2");
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

/// Each row: the error, and its report.
#[test]
fn an_invalid_strategy_is_reported_and_changes_no_site() {
    type Change = fn(&mut World);
    let cases: [(Change, &str); 11] = [
        (
            |it| it.sample.spec.strategy.healthy_time = Some("99999999999999999999h".into()),
            "strategy.healthyTime: \"99999999999999999999h\" must be at most",
        ),
        (
            |it| it.sample.spec.strategy.progress_deadline = Some("9223372036854775807h".into()),
            "strategy.progressDeadline",
        ),
        (
            |it| it.sample.spec.strategy.progress_deadline = Some("0h0s".into()),
            "strategy.progressDeadline: must be longer than zero",
        ),
        (
            |it| {
                it.sample.spec.strategy.healthy_time = Some("1m".into());
                it.version("2").unwrap().has_probes = false;
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
fn a_missing_version_or_application_is_reported_and_changes_no_site() {
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
        "No site that the namespace may use matches",
    );
}

/// A site whose newest revision has the highest number gets no revision; all other sites do.
#[test]
fn an_exhausted_revision_number_blocks_only_its_site() {
    let mut world = settled(3, SiteStrategy::default());
    world.sample.request_version("2");
    let first = Arc::clone(&world.names()[0]);
    let forged = world.sample.sites[&first].chain.last().unwrap().clone();
    let forge = |world: &mut World, number| {
        let chain = &mut world.sample.sites.get_mut(&first).unwrap().chain;
        chain.last_mut().unwrap().number = number;
    };
    forge(&mut world, i64::MAX);
    world.settle();
    assert_eq!(
        world.condition(PROGRESSING),
        Some(("True", "RevisionRefused"))
    );
    let text = format!(
        "Site {first}: ObjectSet {} has the number 9223372036854775807",
        forged.name
    );
    let message = world.message(PROGRESSING);
    assert!(message.starts_with(&text), "{message}");
    let given: Vec<_> = world
        .created
        .iter()
        .filter(|(_, entry)| entry.version == "2")
        .collect();
    assert_eq!(given.len(), 2);
    assert_eq!(world.sample.sites[&first].chain.len(), 1);

    forge(&mut world, forged.number);
    world.run();
    assert_eq!(world.status().counts.updated, 3);
}

#[test]
fn an_exhausted_rollout_number_is_reported_and_changes_no_site() {
    type Change = fn(&mut World);
    let cases: [(Change, &str); 2] = [
        (
            |it| {
                let site = it.sample.sites.values_mut().next().unwrap();
                let revision = site.chain.last_mut().unwrap();
                Arc::make_mut(&mut revision.entry).rollout = i64::MAX;
            },
            "The rollout of ObjectSet shop-",
        ),
        (
            |it| it.sample.status.rollout = Some(i64::MAX),
            "status.rollout has the number",
        ),
    ];
    for (change, text) in cases {
        let exhausted = ("False", "NumbersExhausted");
        let mut world = check_bad(change, PROGRESSING, exhausted, text);
        assert_eq!(world.condition(STALLED), Some(("True", "NumbersExhausted")));
        world.sample.status.rollout = Some(1);
        for site in world.sample.sites.values_mut() {
            for revision in &mut site.chain {
                Arc::make_mut(&mut revision.entry).rollout = 1;
            }
        }
        world.run();
        assert_eq!(world.status().counts.updated, 3, "{text}");
        assert_eq!(world.status().rollout, Some(2));
    }
}

/// Each row: the placement, its condition, and `Ready` of a rollout that is complete.
#[test]
fn the_placement_is_reported_and_does_not_stop_a_rollout() {
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
        world.sample.request_version("2");
        world.settle();
        assert_eq!(world.condition(RECONCILING), Some(("True", "RollingOut")));
        world.run();
        assert_eq!(world.condition(PLACED), Some(expected));
        assert_eq!(world.condition(READY).unwrap().0, ready);
        assert_eq!(world.status().counts.updated, 2);
    }
}

#[test]
fn a_lost_status_is_rebuilt_from_the_revisions() {
    let mut world = settled(5, by(2));
    world.sample.request_version("2");
    world.settle();
    let before = world.status().clone();
    world.sample.status = SiteDeploymentStatus::default();
    world.settle();
    assert_eq!(
        (world.status().rollout, &world.status().batch),
        (Some(2), &before.batch)
    );
    world.run();
    assert_eq!(world.created.len(), 5);
    world.sample.status = SiteDeploymentStatus::default();
    world.sample.request_version("3");
    world.run();
    assert_eq!(world.status().rollout, Some(3));
}

#[test]
fn the_size_of_a_status_is_bounded_for_many_failing_sites() {
    let long: Arc<str> = "\"\\\u{1}\n\u{7f}ä".repeat(10_000).into();
    let mut world = World::new(0);
    for at in 0..10_000 {
        let name: Arc<str> = format!("{at:0>63}").into();
        let failing = RevisionState::Failing {
            reason: "ProgressDeadlineExceeded",
            message: Arc::clone(&long),
        };
        let chain = vec![
            revision(&name, 1, "1", RevisionState::Archived),
            revision(&name, 2, "2", failing),
        ];
        world.sample.sites.insert(name, site(chain));
    }
    world.sample.placement = Placement::Overlapping(long.to_string());
    let strategy = &mut world.sample.spec.strategy;
    strategy.healthy_time = Some("1h".to_owned());
    world.sample.request_version("2");
    world.sample.status.rollout = Some(2);
    world.sample.status.version = Some("2".to_owned());
    let names = world.sample.sites.keys().take(20);
    world.sample.status.batch = Some(baton_apis::SiteBatch {
        number: 1,
        sites: names.map(ToString::to_string).collect(),
        ..baton_apis::SiteBatch::default()
    });
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
