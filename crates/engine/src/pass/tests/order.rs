//! The order of the requests of a phase: checks, the write without a dry run, migrations, other
//! writes.

use serde_json::Value;

use super::*;
use crate::diff::legacy;

/// The steps of a phase of two objects, by the state of each.
///
/// `n` is new, `d` drifts, `o` is taken over with other content, `e` with equal content, and `O`
/// and `E` are the same with legacy entries. Checks go first, then migrations, then writes. All
/// requests of a kind go out in one step, except the write without a dry run, which goes alone.
#[test]
fn checks_precede_migrations_and_these_precede_writes() {
    let applied = |uid: &str, number: &str, content: &str| {
        let mut live = posted(uid, number, content, false);
        live["metadata"]["managedFields"][0]["operation"] = "Apply".into();
        live
    };
    for (first, second, expected) in [
        ("n", "n", "d c c"),
        ("n", "d", "D c A"),
        ("n", "o", "d A c"),
        ("n", "e", "c A"),
        ("n", "E", "d m cA"),
        ("n", "O", "D d m A c"),
        ("d", "d", "DD AA"),
        ("d", "e", "D AA"),
        ("e", "e", "AA"),
        ("e", "E", "m AA"),
        ("e", "O", "D m A A"),
        ("E", "E", "mm AA"),
        ("E", "O", "D mm A A"),
        ("O", "O", "DD mm D A A"),
    ] {
        let state = |kind: &str| match kind {
            "n" => Live::Gone,
            "d" => Live::Present(applied("me", "2", "drifted")),
            "o" => Live::Present(applied("previous", "1", "other")),
            "e" => Live::Present(applied("previous", "1", "v")),
            "O" => Live::Present(posted("previous", "1", "other", false)),
            "E" => Live::Present(posted("previous", "1", "v", false)),
            _ => panic!("{kind}"),
        };
        for names in [["a", "b"], ["b", "a"]] {
            let mut migrated: std::collections::BTreeMap<String, Value> = names
                .into_iter()
                .filter_map(
                    |name| match state(if name == names[0] { first } else { second }) {
                        Live::Present(live) => Some((name.to_owned(), live)),
                        _ => None,
                    },
                )
                .collect();
            let (steps, outcome) = run(
                &revision(),
                &[&names],
                &no_probes(),
                |name| state(if name == names[0] { first } else { second }),
                &mut |name, request| match (request, migrated.get_mut(name)) {
                    (Request::Migrate { .. }, Some(live)) => {
                        let entries = legacy::migrated(live, &[]).expect("legacy entries");
                        live["metadata"]["managedFields"] = entries.into();
                        Answer::Object(live.clone())
                    }
                    _ => accept_all(name, request),
                },
            );
            assert_eq!(steps, expected, "{first} {second}");
            assert_eq!(outcome.result, PassResult::Passed, "{first} {second}");
        }
    }
}

/// A revision that was refused sends no write before all dry runs are accepted.
#[test]
fn a_revision_that_was_refused_checks_every_write() {
    let refused = Revision {
        was_refused: true,
        ..revision()
    };
    let (steps, _) = run(
        &refused,
        &[&["a", "b"], &["c"]],
        &no_probes(),
        |_| Live::Uncached,
        &mut accept_all,
    );
    assert_eq!(steps, "dd cc d c");
}

/// A refusal of the first write is reported like a refused dry run, because no object has been
/// written.
#[test]
fn a_refused_first_write_stops_its_phase() {
    for (live, refused, expected) in [
        // The object may exist with another controller.
        (Live::Uncached, 'c', "d c g"),
        (Live::Gone, 'c', "d c"),
        (Live::Present(live("1", "previous*")), 'A', "d A"),
    ] {
        let (steps, outcome) = run(
            &revision(),
            &[&["a", "bad"], &["later"]],
            &no_probes(),
            |name| {
                if name == "bad" {
                    live.clone()
                } else {
                    Live::Gone
                }
            },
            &mut |name, request| match name {
                "bad" if letter(request) == refused => Answer::Refused("is invalid".into()),
                _ => accept_all(name, request),
            },
        );
        assert_eq!(steps, expected);
        let text = "Phase \"p1\", ConfigMap /bad: is invalid".to_owned();
        assert_eq!(outcome.result, PassResult::Preflight(vec![text]));
        assert_eq!(outcome.writes, []);
    }
}

/// The first write is conditional like its dry run: if it finds another object, that object is read
/// again.
#[test]
fn the_object_is_read_again_if_the_first_write_finds_another_one() {
    let mut created = false;
    let (steps, outcome) = run(
        &revision(),
        &[&["a", "b"]],
        &no_probes(),
        |_| Live::Uncached,
        &mut |name, request| match (name, request) {
            ("b", Request::Create(_)) => Answer::Conflict,
            ("b", Request::Get) => Answer::Object(live("", "foreign*")),
            ("a", Request::Create(_)) => {
                created = true;
                accept_all(name, request)
            }
            _ => accept_all(name, request),
        },
    );
    // Objects before a collision are written.
    assert_eq!((steps.as_str(), created), ("d c g c", true));
    assert!(matches!(outcome.result, PassResult::Collision(_)));
}
