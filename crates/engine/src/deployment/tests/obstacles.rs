//! Obstacles that keep a deployment from making the next revision.

use std::time::Duration;

use baton_apis::{conditions::shipper::BLOCKED, limits};

use super::*;
use crate::rollout_blocks::{Effect, Verdict};

/// The condition `Progressing` after a report, and the requeue.
fn progressing(snapshot: &Snapshot<'_>) -> (String, Requeue) {
    let (status, requeue) = report(snapshot, &Creation::None);
    let mut conditions = status.conditions.iter();
    let it = conditions.find(|it| it.type_ == PROGRESSING).unwrap();
    let stalled = status.conditions.iter().any(|it| it.type_ == STALLED);
    let text = format!("{} {}: {}", it.status, it.reason, it.message);
    assert_eq!(stalled, it.status == "False", "{text}");
    (text, requeue)
}

#[test]
fn no_revision_is_created_without_a_higher_number() {
    let none = "False NumbersExhausted: ObjectSet web-1 has the number 9007199254740991, and no higher number is \
                possible. Delete it.";
    for (numbers, expected) in [
        (&[Some(limits::NUMBER)][..], None),
        (&[Some(limits::NUMBER), Some(3)], None),
        (&[Some(1_764_322_300_000)], Some(1_764_322_300_001)),
        (&[Some(0)], Some(1)),
        (&[Some(-5)], Some(1)),
        (&[Some(i64::MIN), Some(4)], Some(5)),
    ] {
        let mut snapshot = chain(&vec!["archived"; numbers.len()]);
        snapshot.newest_fits = false;
        for (member, number) in snapshot.members.iter_mut().zip(numbers) {
            member.number = *number;
        }
        sort(&mut snapshot.members);
        let made = snapshot.actions().into_iter().map(|action| match action {
            Action::Create(new) => new.number,
            action => panic!("{action:?}"),
        });
        assert_eq!(made.collect::<Vec<_>>(), Vec::from_iter(expected));
        let (text, requeue) = progressing(&snapshot);
        assert_eq!(requeue, Requeue::OnEvent);
        assert_eq!(text == none, expected.is_none(), "{text}");
    }
}

#[test]
fn no_name_is_reused_after_the_highest_collision_count() {
    let mut snapshot = chain(&["available +a"]);
    snapshot.newest_fits = false;
    snapshot.deployment.status.collision_count = Some(i32::MAX);
    assert!(list(&snapshot.actions()).starts_with("create"));
    snapshot.is_taken = Box::new(|_| true);
    assert_eq!(snapshot.actions(), []);
    let text = "False NumbersExhausted: status.collisionCount is the highest possible number. Set it to a lower one.";
    assert_eq!(progressing(&snapshot).0, text);
}

/// Revisions in the order of their creation, one per second, the last one now. Each name ends with
/// its hash.
fn made(hashes: &[&str], collision_count: i32) -> Snapshot<'static> {
    let mut snapshot = chain(&vec!["failing"; hashes.len()]);
    snapshot.newest_fits = false;
    snapshot.deployment.status.collision_count = Some(collision_count);
    for (member, hash) in snapshot.members.iter_mut().zip(hashes) {
        let back = i64::try_from(hashes.len()).unwrap() - member.number.unwrap();
        member.created = Some(at(NOW - back));
        member.name = format!("web-{hash}");
    }
    snapshot
}

#[test]
fn repeated_revisions_of_the_same_template_are_delayed() {
    let six = ["h0", "h1", "h2", "h3", "h4", "h5"];
    for (hashes, count, waits) in [
        (&six[..4], 3, None),
        (&six[..5], 4, Some(11)),
        (&six, 5, Some(21)),
        // Another content between them ends the series.
        (&["h0", "h1", "h2", "h3", "h4", "x"][..], 4, None),
        (&["h0", "h1", "x", "h2", "h3", "h4"], 4, None),
        (&["x", "h1", "h2", "h3", "h4", "h5"], 5, Some(11)),
        // Two contents alternate.
        (
            &["h0", "x", "h1", "y", "h2", "z", "h3", "x2", "h4"],
            4,
            None,
        ),
        // One revision of the series was deleted.
        (&["h0", "h1", "h3", "h4", "h5"], 5, None),
    ] {
        let mut snapshot = made(hashes, count);
        let is_braked = snapshot.actions().is_empty();
        assert_eq!(is_braked, waits.is_some(), "{hashes:?}");
        let Some(waits) = waits else {
            continue;
        };
        let (text, requeue) = progressing(&snapshot);
        assert_eq!(requeue, Requeue::After(Duration::from_secs(waits)));
        assert!(
            text.starts_with("False RevisionRepeated: The last "),
            "{text}"
        );
        let newest = format!("ObjectSet web-{}, the newest", hashes.last().unwrap());
        assert!(text.contains(&newest), "{text}");
        // The passing of time is enough.
        snapshot.now += Duration::from_secs(waits);
        assert!(list(&snapshot.actions()).starts_with("create"));
        assert!(progressing(&snapshot).0.starts_with("True Progressing"));
    }
}

#[test]
fn repeated_revisions_are_recognised_below_a_high_number() {
    let mut snapshot = made(&["other", "h0", "h1", "h2", "h3", "h4"], 4);
    snapshot.members[0].number = Some(1000);
    sort(&mut snapshot.members);
    assert_eq!(snapshot.actions(), []);
    assert!(
        progressing(&snapshot)
            .0
            .starts_with("False RevisionRepeated")
    );
}

#[test]
fn a_paused_deployment_reports_no_obstacle() {
    let mut snapshot = made(&["h0", "h1", "h2", "h3", "h4"], 4);
    snapshot.deployment.paused = true;
    assert!(progressing(&snapshot).0.starts_with("True Progressing"));
}

#[test]
fn no_revision_is_created_while_a_block_applies() {
    let blocked = Effect::Judged(Verdict::Blocked("shop/frozen".to_owned()));
    let unlisted = Effect::Unlisted("RolloutBlocks cannot be listed".to_owned());
    for (blocks, fits, created, progressing, reported) in [
        (
            blocked.clone(),
            false,
            false,
            "Unknown RolloutsBlocked",
            Some("True"),
        ),
        (
            blocked,
            true,
            false,
            "True LatestRevisionPendingSuccess",
            Some("True"),
        ),
        (
            unlisted,
            false,
            false,
            "Unknown ListFailed",
            Some("Unknown"),
        ),
        (
            Effect::Judged(Verdict::Free),
            false,
            true,
            "True Progressing",
            Some("False"),
        ),
        (Effect::NotObeyed, false, true, "True Progressing", None),
    ] {
        let mut snapshot = chain(&["failing +a"]);
        snapshot.newest_fits = fits;
        snapshot.deployment.blocks = blocks;
        assert_eq!(list(&snapshot.actions()).starts_with("create"), created);
        let (status, _) = report(&snapshot, &Creation::None);
        let of_type = |type_| find(&status.conditions, type_);
        let found = of_type(PROGRESSING).unwrap();
        assert_eq!(format!("{} {}", found.status, found.reason), progressing);
        let found = of_type(BLOCKED);
        assert_eq!(found.map(|it| it.status.as_str()), reported);
    }
}
