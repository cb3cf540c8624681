//! Values that the server stores in another form: a dry run shows that nothing would change, and the
//! fingerprints of such a dry run are recorded. Also, entries of earlier field managers.

use super::*;
use crate::{
    Precondition,
    diff::{self, leftovers::Leftovers},
};

/// An object in which our manager's apply owns all wanted fields.
fn applied(uid: &str, number: &str, content: &str) -> Value {
    let mut live = posted(uid, number, content, false);
    live["metadata"]["managedFields"][0]["operation"] = "Apply".into();
    live
}

fn wanted() -> u64 {
    diff::wanted_fingerprint(&phases(&revision(), &[&["a"]])[0].objects[0].manifest)
}

fn print(live: &Value) -> u64 {
    diff::live_fingerprint(live).expect("owned fields")
}

fn with_settled(
    live: &Value,
    settled: Option<AppliedFingerprints>,
    test: impl FnOnce(ObjectPass<'_>),
) {
    let revision = revision();
    let phases = phases(&revision, &[&["a"]]);
    let observed = (Live::Present(live.clone()), settled);
    test(ObjectPass::new(
        &revision,
        &Family,
        &phases[0].objects[0],
        observed,
    ));
}

/// The first request, by the difference and by the recorded fingerprints: none; those of the
/// present body and object; another object; another body; both others.
#[test]
fn cached_fingerprints_save_dry_runs_and_writes() {
    for (case, live, row) in [
        ("as wanted", applied("me", "2", "v"), ". . . . ."),
        (
            "another form or drift",
            applied("me", "2", "1000m"),
            "D . A D D",
        ),
        // With legacy entries the fingerprint also covers unwanted fields.
        ("legacy", posted("me", "2", "1000m", false), "D . D D D"),
        ("never applied", live("2", "me*"), "D D A D D"),
        // A handover is more than a difference of form.
        ("previous", applied("previous", "1", "1000m"), "D D D D D"),
        ("newer", applied("newer", "3", "1000m"), ". . . . ."),
    ] {
        let now = diff::live_fingerprint(&live).unwrap_or_default();
        let remembered = [
            None,
            Some((wanted(), now)),
            Some((wanted(), now ^ 1)),
            Some((wanted() ^ 1, now)),
            Some((wanted() ^ 1, now ^ 1)),
        ];
        for (settled, expected) in remembered.into_iter().zip(row.split_whitespace()) {
            // An object without owned fields has no fingerprint; but fingerprints may exist from a
            // time when it had entries.
            let expected = match settled {
                Some(settled) if case == "never applied" && settled.0 == wanted() => "A",
                _ => expected,
            };
            with_settled(&live, settled, |pass| {
                assert_eq!(
                    need_letter(&pass.next_action()).to_string(),
                    expected,
                    "{case} {settled:?}"
                );
            });
        }
    }
}

/// The result of a dry run, by its answer: true if it is recorded, and the next request.
#[test]
fn a_dry_run_without_changes_is_cached() {
    let with = |mut live: Value, path: &str, value: Value| {
        *live.pointer_mut(path).expect("a field") = value;
        live
    };
    let ours = || applied("me", "2", "1000m");
    let legacy = || posted("me", "2", "1000m", false);
    let version = "/metadata/resourceVersion";
    let blocks = "/metadata/ownerReferences/0/blockOwnerDeletion";
    let applied_as_well = |mut live: Value| {
        let entries = live["metadata"]["managedFields"].as_array_mut();
        entries
            .expect("entries")
            .push(json!({"manager": FIELD_MANAGER, "operation": "Apply"}));
        live
    };
    for (case, live, answered, learned, next) in [
        ("the same", ours(), ours(), true, '.'),
        (
            "another version",
            ours(),
            with(ours(), version, "42".into()),
            true,
            '.',
        ),
        (
            "other content",
            ours(),
            with(ours(), "/data/k", "v".into()),
            false,
            'A',
        ),
        // Owner references are not part of the fingerprint.
        (
            "our flag is missing",
            with(ours(), blocks, false.into()),
            ours(),
            false,
            'A',
        ),
        (
            "another owner",
            applied("previous", "1", "1000m"),
            applied("previous", "1", "1000m"),
            false,
            'A',
        ),
        ("never applied", live("2", "me*"), ours(), false, 'A'),
        ("legacy, the same", legacy(), legacy(), true, '.'),
        (
            "legacy, owned twice",
            legacy(),
            applied_as_well(legacy()),
            true,
            '.',
        ),
        (
            "legacy, other content",
            legacy(),
            with(legacy(), "/data/k", "v".into()),
            false,
            'm',
        ),
        (
            "legacy, not ours",
            posted("previous", "1", "x", false),
            posted("previous", "1", "x", false),
            false,
            'm',
        ),
    ] {
        with_settled(&live, Some((wanted() ^ 1, 0)), |mut pass| {
            let (NextAction::Check(request) | NextAction::DryRun(request)) = pass.next_action()
            else {
                panic!("{case}: {:?}", pass.next_action())
            };
            pass.answer(&request, Answer::Object(answered));
            let expected = learned.then(|| (wanted(), print(&live)));
            assert_eq!(pass.learned, expected, "{case}");
            assert_eq!(need_letter(&pass.next_action()), next, "{case}");
        });
    }
}

/// The answer to a write is recorded, even if it has values in another form. A migration discards all
/// recorded fingerprints.
#[test]
fn writes_are_cached_and_migrations_clear_the_cache() {
    let drifted = applied("me", "2", "old");
    with_settled(&drifted, Some((wanted(), 0)), |mut pass| {
        let NextAction::Write(request) = pass.next_action() else {
            panic!("{:?}", pass.next_action())
        };
        let answered = at_version(applied("me", "2", "normalized"), "42");
        pass.answer(&request, Answer::Object(answered.clone()));
        assert_eq!(pass.learned, Some((wanted(), print(&answered))));
        assert_eq!(pass.next_action(), NextAction::Nothing);
        assert_eq!(pass.live(), Some(&answered));
    });
    // An answer without our entry cannot be recorded.
    with_settled(&drifted, Some((wanted(), 0)), |mut pass| {
        pass.answer(
            &Request::Apply(Value::Null),
            Answer::Object(live("2", "me*")),
        );
        assert_eq!(
            (pass.learned, pass.next_action()),
            (None, NextAction::Nothing)
        );
    });
    let legacy = posted("me", "2", "1000m", false);
    let precondition = Precondition {
        uid: "uid-a".to_owned(),
        resource_version: "41".to_owned(),
        owner_index: 0,
    };
    for learned in [None, Some((wanted(), print(&drifted)))] {
        // Either of the two would prove that there is no difference.
        with_settled(&legacy, Some((wanted(), print(&drifted))), |mut pass| {
            pass.learned = learned;
            pass.answer(
                &Request::Migrate {
                    live: precondition.clone(),
                    former: Vec::new(),
                    leftovers: Leftovers::default(),
                },
                Answer::Object(drifted.clone()),
            );
            assert_eq!(
                (pass.learned, need_letter(&pass.next_action())),
                (None, 'D'),
                "{learned:?}"
            );
        });
    }
}

/// A fingerprint of this pass replaces an older one.
#[test]
fn a_dry_run_of_this_pass_overrides_a_cached_fingerprint() {
    let live = applied("me", "2", "1000m");
    for settled in [
        None,
        Some((wanted(), print(&live) ^ 1)),
        Some((wanted() ^ 1, print(&live))),
    ] {
        with_settled(&live, settled, |mut pass| {
            pass.answer(
                &Request::DryRunApply(Value::Null),
                Answer::Object(live.clone()),
            );
            assert_eq!(pass.next_action(), NextAction::Nothing, "{settled:?}");
        });
    }
}

/// A handover needs a dry run unless only owner and revision number change.
#[test]
fn a_handover_of_equal_content_needs_no_dry_run() {
    let edited = |edit: &dyn Fn(&mut Value)| {
        let mut live = applied("previous", "1", "v");
        edit(&mut live);
        live
    };
    for (case, live, expected) in [
        ("equal", edited(&|_| ()), 'A'),
        (
            "another content",
            edited(&|live| live["data"]["k"] = "x".into()),
            'D',
        ),
        (
            "a field of others",
            edited(&|live| live["data"]["other"] = "x".into()),
            'A',
        ),
        (
            "no label",
            edited(&|live| drop(live["metadata"]["labels"].take())),
            'D',
        ),
        (
            "a field that is not owned",
            edited(&|live| {
                let fields = &mut live["metadata"]["managedFields"][0]["fieldsV1"];
                fields.as_object_mut().expect("a map").remove("f:data");
            }),
            'D',
        ),
        (
            "an owned field that is not wanted",
            edited(&|live| {
                live["data"]["old"] = "1".into();
                live["metadata"]["managedFields"][0]["fieldsV1"]["f:data"]["f:old"] = json!({});
            }),
            'D',
        ),
        (
            "no managed fields",
            edited(&|live| drop(live["metadata"]["managedFields"].take())),
            'D',
        ),
    ] {
        with_settled(&live, None, |pass| {
            assert_eq!(need_letter(&pass.next_action()), expected, "{case}");
        });
    }
}

/// The requests about an object that was written by an update: `D` and `A` concern its content, `m`
/// makes its fields ours.
#[test]
fn fields_of_a_legacy_entry_become_ours_before_a_write() {
    for (uid, number, content, surplus, before, after, expected) in [
        // The revision controls the object, and its content is as wanted: no request. Other fields
        // that the update owns do not matter.
        ("me", "2", "v", false, true, true, ""),
        ("me", "2", "v", true, true, true, ""),
        // Drift, and a handover.
        ("me", "2", "drifted", false, true, true, "D m D A"),
        ("previous", "1", "other", false, true, true, "D m A"),
        // A handover of equal content; the migration may reveal further fields.
        ("previous", "1", "v", false, true, true, "m A"),
        ("previous", "1", "v", true, true, true, "m A"),
        // A field that stays makes the new content invalid, or the reverse.
        ("previous", "1", "other", true, false, true, "D m A"),
        ("previous", "1", "other", true, true, false, "D m A"),
        ("previous", "1", "other", true, false, false, "D m A"),
    ] {
        let live = posted(uid, number, content, surplus);
        let (steps, outcome) = run_one(
            &Live::Present(live.clone()),
            &mut server_of_posted(&live, before, after),
        );
        assert_eq!(steps, expected, "{live}");
        if after {
            assert_eq!(outcome.result, PassResult::Passed, "{live}");
        } else {
            let text = "Phase \"p1\", ConfigMap /a: is invalid".to_owned();
            assert_eq!(outcome.result, PassResult::Preflight(vec![text]), "{live}");
        }
    }
}

/// The update wrote a value in another form than the body: the dry run shows that, and the result
/// is recorded.
#[test]
fn a_legacy_entry_that_differs_in_form_only_is_left_alone() {
    let live = posted("me", "2", "1000m", false);
    let (steps, outcome) = run_one(
        &Live::Present(live.clone()),
        &mut |_, request| match request {
            Request::DryRunApply(_) => {
                let mut answer = live.clone();
                let entries = answer["metadata"]["managedFields"].as_array_mut();
                let apply = json!({"manager": "package-operator", "operation": "Apply"});
                entries.expect("entries").push(apply);
                Answer::Object(answer)
            }
            _ => panic!("{request:?}"),
        },
    );
    assert_eq!(steps, "D");
    assert_eq!(outcome.result, PassResult::Passed);
    assert_eq!(outcome.learned.len(), 1);
}

#[test]
fn a_pass_fails_if_legacy_entries_keep_returning() {
    let live = posted("previous", "1", "v", false);
    let (steps, outcome) = run_one(
        &Live::Present(live.clone()),
        &mut |name, request| match request {
            Request::Migrate { .. } => Answer::Object(live.clone()),
            _ => accept_all(name, request),
        },
    );
    assert_eq!(steps, "m m m m m m m m");
    assert!(matches!(outcome.result, PassResult::Failed(_)));
}
