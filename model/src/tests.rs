//! The search finds each deliberate mistake in the engine, and no violation without a mistake.

use crate::{
    report::problems,
    search::{SearchResult, search},
    state::Alarm,
    world::{
        Class,
        DesiredObject::{self, Fixed, In, Kept, Nothing, Same},
        EngineFault, Faults, OBJECTS, REVISIONS,
        UserAction::{self, Archive, Delete, Edit, Lose, Pause, Remove, Restore},
        World,
    },
};

const LIMIT: usize = 2_000_000;
const FIRST: [DesiredObject; OBJECTS] = [In(0), Nothing];
const POWERS: [UserAction; 3] = [Archive(0), Delete(0), Remove(0)];

/// A world with two revisions of one object.
fn two_revisions(sabotage: EngineFault, wanted: [DesiredObject; OBJECTS]) -> World {
    World {
        name: "two revisions",
        revisions: vec![wanted; 2],
        powers: POWERS.to_vec(),
        edits: 1,
        faults: Faults {
            crashes: true,
            losses: true,
            lags: false,
            late: 0,
        },
        sabotage,
        classes: [Class::None; REVISIONS],
        delegated: 0,
        is_remote: false,
        looks_ahead: false,
        has_stranger: false,
    }
}

fn found(sabotage: EngineFault, wanted: [DesiredObject; OBJECTS]) -> (World, SearchResult) {
    let world = two_revisions(sabotage, wanted);
    let found = search(world.clone(), LIMIT);
    (world, found)
}

fn check(sabotage: EngineFault, reason: &str) {
    let (_, found) = found(sabotage, FIRST);
    let violation = found
        .violation
        .unwrap_or_else(|| panic!("{sabotage:?} is not found"));
    assert!(
        violation.reason.contains(reason),
        "{sabotage:?}: {violation:#?}"
    );
    assert!(!violation.trace.is_empty());
}

#[test]
fn the_unchanged_engine_has_no_violation() {
    for wanted in [FIRST, [Same(0), Nothing], [Fixed(0), Nothing]] {
        let (world, found) = found(EngineFault::None, wanted);
        assert_eq!(problems(&world, &found), Vec::<String>::new());
        assert!(found.states > 1_000, "{found:?}");
    }
}

/// No server counts the controllers in an annotation.
#[test]
fn two_controllers_in_another_cluster_are_found() {
    let world = World {
        is_remote: true,
        ..two_revisions(EngineFault::KeepsControllers, FIRST)
    };
    let violation = search(world, LIMIT).violation;
    let reason = violation.expect("a second controller").reason;
    assert!(
        reason.contains(&format!("{:?}", Alarm::TwoControllers)),
        "{reason}"
    );
}

/// Checks that a world without violations raises this alarm with the mistake.
fn raises(world: impl Fn(EngineFault) -> World, sabotage: EngineFault, alarm: Alarm) {
    let violation = search(world(sabotage), LIMIT).violation;
    let reason = violation.expect("a violation").reason;
    assert!(reason.contains(&format!("{alarm:?}")), "{reason}");
    let healthy = world(EngineFault::None);
    let found = search(healthy.clone(), LIMIT);
    assert_eq!(problems(&healthy, &found), Vec::<String>::new());
}

/// The search covers handovers between phase objects as well as those between revisions.
#[test]
fn a_phase_object_that_takes_an_object_back_is_found() {
    let world = |sabotage| World {
        classes: [Class::Default, Class::Default, Class::None],
        faults: Faults::default(),
        powers: vec![Archive(0)],
        ..two_revisions(sabotage, FIRST)
    };
    raises(world, EngineFault::NobodyIsNewer, Alarm::WriteOfReplaced);
}

/// A world with a revision of two phases; foreign controllers may run one of them.
fn others(sabotage: EngineFault, delegated: usize) -> World {
    World {
        revisions: vec![[In(0), In(1)]],
        powers: vec![Archive(0)],
        edits: 0,
        classes: [Class::Foreign, Class::None, Class::None],
        delegated,
        ..two_revisions(sabotage, FIRST)
    }
}

#[test]
fn a_revision_that_continues_without_a_report_is_found() {
    let world = |sabotage| others(sabotage, 0);
    raises(world, EngineFault::BelievesSilence, Alarm::OutOfOrder);
}

#[test]
fn a_teardown_that_does_not_wait_for_others_is_found() {
    let world = |sabotage| others(sabotage, 1);
    raises(world, EngineFault::ForgetsPhases, Alarm::OutOfOrder);
}

/// No phase is torn down afterwards, so only the end of the world shows the mistake.
#[test]
fn a_phase_object_that_is_never_removed_is_found() {
    let violation = search(others(EngineFault::ForgetsPhases, 0), LIMIT).violation;
    let reason = violation.expect("a violation").reason;
    assert!(
        reason.contains("not served") && reason.contains("r1-phase is left behind"),
        "{reason}"
    );
}

/// A late object of an ended revision is taken away; nothing else would remove it.
#[test]
fn an_object_created_by_a_late_request_is_deleted() {
    let mut world = two_revisions(EngineFault::None, FIRST);
    world.faults.late = 1;
    world.powers = vec![Archive(0)];
    world.edits = 0;
    let found = search(world.clone(), LIMIT);
    assert_eq!(problems(&world, &found), Vec::<String>::new());
    assert!(found.situations.strays, "{found:?}");
}

#[test]
fn a_deletion_without_precondition_is_found() {
    check(
        EngineFault::UnboundDelete,
        &format!("{:?}", Alarm::DeletedOfOthers),
    );
}

/// A repair that was decided before a handover undoes the handover.
#[test]
fn an_apply_without_precondition_is_found() {
    let world = |sabotage| World {
        powers: vec![Edit(0)],
        ..two_revisions(sabotage, FIRST)
    };
    raises(world, EngineFault::UnboundApply, Alarm::WriteOfReplaced);
}

#[test]
fn an_archived_revision_that_writes_is_found() {
    check(EngineFault::ArchivedWrites, "does not get archived");
}

#[test]
fn an_older_revision_that_takes_an_object_back_is_found() {
    check(
        EngineFault::NobodyIsNewer,
        &format!("{:?}", Alarm::WriteOfReplaced),
    );
}

#[test]
fn an_older_revision_that_creates_an_object_again_is_found() {
    check(
        EngineFault::ForgetsSuccessors,
        &format!("{:?}", Alarm::WriteOfReplaced),
    );
}

/// The content of the newer revision is in a slice that may be missing.
#[test]
fn an_older_revision_that_creates_what_a_newer_one_may_contain_is_found() {
    let world = |sabotage| World {
        powers: vec![Archive(1), Pause(1), Remove(0), Lose(1)],
        edits: 2,
        ..two_revisions(sabotage, FIRST)
    };
    raises(world, EngineFault::IgnoresUnknown, Alarm::WriteOfReplaced);
}

/// The newer revision was paused before its success, and the older one has reported that it gave the
/// object away.
#[test]
fn an_older_revision_that_creates_what_it_has_given_is_found() {
    let world = |sabotage| World {
        powers: vec![Pause(1), Remove(0), Lose(1)],
        edits: 2,
        ..two_revisions(sabotage, FIRST)
    };
    raises(world, EngineFault::ForgetsGiven, Alarm::WriteOfReplaced);
}

/// A revision of another chain has the highest number.
#[test]
fn a_number_of_another_chain_that_counts_is_found() {
    let world = |sabotage| World {
        has_stranger: true,
        faults: Faults::default(),
        powers: vec![Archive(0)],
        ..two_revisions(sabotage, FIRST)
    };
    let found = search(world(EngineFault::BelievesStrangers), LIMIT);
    assert!(found.violation.is_some(), "{found:?}");
    let healthy = world(EngineFault::None);
    let problems = problems(&healthy, &search(healthy.clone(), LIMIT));
    let shows_nothing = |problem: &String| problem.contains("it shows nothing");
    assert!(problems.iter().all(shows_nothing), "{problems:?}");
}

/// A pass of the former life has archived a revision that is active again.
#[test]
fn a_status_of_a_former_life_is_found() {
    let world = |sabotage| World {
        powers: vec![Archive(0), Restore],
        edits: 0,
        faults: Faults::default(),
        ..two_revisions(sabotage, FIRST)
    };
    let found = search(world(EngineFault::OverwritesRestored), LIMIT);
    assert!(found.violation.is_some(), "{found:?}");
    let healthy = world(EngineFault::None);
    let found = search(healthy.clone(), LIMIT);
    assert_eq!(problems(&healthy, &found), Vec::<String>::new());
}

#[test]
fn a_deletion_by_one_owner_among_others_is_found() {
    check(
        EngineFault::DeletesShared,
        &format!("{:?}", Alarm::DeletedOfOthers),
    );
}

#[test]
fn an_owner_that_is_never_released_is_found() {
    check(EngineFault::NeverReleases, "does not end");
}

#[test]
fn a_takeover_that_leaves_two_controllers_is_found() {
    check(
        EngineFault::KeepsControllers,
        &format!("{:?}", Alarm::TwoControllers),
    );
}

/// A world with one revision of an object that must be kept.
#[test]
fn a_deletion_of_a_kept_object_is_found() {
    let world = |sabotage| World {
        revisions: vec![[Kept(0), Nothing]],
        powers: vec![Archive(0), Delete(0)],
        edits: 0,
        ..two_revisions(sabotage, FIRST)
    };
    raises(world, EngineFault::DeletesKept, Alarm::DeletedKept);
}

/// Revisions that check all phases first end like any others, after any failure or crash.
#[test]
fn revisions_that_check_all_phases_first_end_like_others() {
    let world = World {
        revisions: vec![[In(0), In(1)]],
        powers: vec![Archive(0), Remove(0)],
        looks_ahead: true,
        ..two_revisions(EngineFault::None, FIRST)
    };
    let found = search(world.clone(), LIMIT);
    assert_eq!(problems(&world, &found), Vec::<String>::new());
    assert!(found.states > 100, "{found:?}");
}

/// The object to delete and create again may belong to a newer revision by then.
#[test]
fn a_deletion_for_recreation_without_precondition_is_found() {
    let world = |sabotage| World {
        powers: vec![Edit(0)],
        ..two_revisions(sabotage, [Fixed(0), Nothing])
    };
    raises(world, EngineFault::UnboundDelete, Alarm::WriteOfReplaced);
}
