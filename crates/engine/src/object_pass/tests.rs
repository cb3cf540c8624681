//! Tables of the requests about one object.

mod bodies;
mod definitions;
mod ended;
mod fingerprints;
mod leftovers;
mod recreation;

use baton_apis::{
    CollisionProtection, LifecycleState,
    constants::{FIELD_MANAGER, LABEL_CACHE, LABEL_CACHE_VALUE},
};
use serde_json::json;

use super::*;
use crate::{
    Answer,
    object::{controlled_reference, precondition},
    pass::{PassResult, Position},
    tests::fixtures::*,
};

#[test]
fn a_takeover_is_bound_to_the_observed_resource_version() {
    let mut versions = Vec::new();
    let (steps, outcome) = run_one(
        &Live::Present(live("1", "previous*")),
        &mut |name, request| {
            if let Request::Apply(body) = request {
                versions.push(body["metadata"]["resourceVersion"].clone());
                let owners = body["metadata"]["ownerReferences"]
                    .as_array()
                    .expect("owners");
                assert_eq!(owners.len(), 2);
                assert_eq!(
                    (&owners[0]["controller"], &owners[1]["controller"]),
                    (&json!(false), &json!(true))
                );
            }
            accept_all(name, request)
        },
    );
    assert_eq!(steps, "A");
    assert_eq!(versions, ["41"]);
    assert_eq!(
        outcome.writes[0].1,
        WriteResult::TookOver(Some("v1".into()))
    );
}

/// An object as the previous revision has applied it.
fn applied_by_the_previous_one() -> Value {
    fn owned(value: &Value) -> Value {
        let fields = value.as_object().into_iter().flatten();
        let fields = fields.map(|(key, value)| (format!("f:{key}"), owned(value)));
        Value::Object(fields.collect())
    }
    let previous = Revision {
        number: 1,
        ..revision()
    };
    let mut object = phases(&previous, &[&["a"]])[0].objects[0].manifest.clone();
    let mut fields = json!({
        "f:data": owned(&object["data"]),
        "f:metadata": {
            "f:annotations": owned(&object["metadata"]["annotations"]),
            "f:labels": owned(&object["metadata"]["labels"]),
        },
    });
    let key = "k:{\"uid\":\"previous\"}";
    fields["f:metadata"]["f:ownerReferences"] = json!({ key: {} });
    let owners = live("1", "previous*");
    object["metadata"]["ownerReferences"] = owners["metadata"]["ownerReferences"].clone();
    object["metadata"]["managedFields"] = json!([
        {"manager": FIELD_MANAGER, "operation": "Apply", "apiVersion": "v1", "fieldsV1": fields},
    ]);
    written(&object, "41")
}

/// The content is valid, but the account may lack rights: a dry run shows that before the first
/// write of the phase.
#[test]
fn an_impersonated_takeover_is_dry_run_before_the_first_write() {
    for (is_impersonated, expected) in [(false, "AA"), (true, "D A A")] {
        let revision = Revision {
            is_impersonated,
            ..revision()
        };
        let live = Live::Present(applied_by_the_previous_one());
        let observed = |_: &str| live.clone();
        let (steps, _) = run(
            &revision,
            &[&["a", "a"]],
            &no_probes(),
            observed,
            &mut accept_all,
        );
        assert_eq!(steps, expected);
    }
}

#[test]
fn an_object_is_read_again_after_a_conflict() {
    let mut reads = 0;
    let (steps, outcome) = run_one(
        &Live::Present(live("1", "previous*")),
        &mut |name, request| match request {
            Request::Apply(_) if reads == 0 => Answer::Conflict,
            Request::Get => {
                reads += 1;
                // In between, the object got another controller.
                Answer::Object(at_version(live("", "stranger*"), "42"))
            }
            _ => accept_all(name, request),
        },
    );
    assert_eq!(steps, "A g");
    let PassResult::Collision(text) = outcome.result else {
        panic!("{:?}", outcome.result)
    };
    assert_eq!(
        text,
        "object /a kind:ConfigMap: refusing adoption, object /v1, Kind=ConfigMap ns/a not owned \
         by previous revision"
    );
    assert_eq!(
        outcome.blockers,
        [(
            Position {
                phase: 0,
                object: 0
            },
            "42".to_owned()
        )]
    );
}

#[test]
fn a_create_that_merged_into_a_foreign_object_is_reverted() {
    let mut taken_back = false;
    let (steps, outcome) = run_one(&Live::Uncached, &mut |name, request| match request {
        Request::Create(body) => {
            Answer::Merged(managed_by(written(body, "9"), "kubectl", "Update"))
        }
        Request::TakeBack => {
            taken_back = true;
            Answer::Object(json!({}))
        }
        Request::Get => Answer::Object(live("", "")),
        _ => accept_all(name, request),
    });
    assert_eq!(steps, "c t g");
    assert!(taken_back);
    assert!(
        matches!(outcome.result, PassResult::Collision(_)),
        "{:?}",
        outcome.result
    );
}

#[test]
fn an_object_of_our_own_earlier_create_stays_ours() {
    let (steps, outcome) = run_one(&Live::Uncached, &mut |name, request| match request {
        Request::Create(body) => {
            Answer::Merged(managed_by(written(body, "9"), "package-operator", "Apply"))
        }
        _ => accept_all(name, request),
    });
    assert_eq!(steps, "c");
    assert_eq!(outcome.result, PassResult::Passed);
}

#[test]
fn a_missing_object_is_left_to_the_newer_revision_that_had_it() {
    let (steps, outcome) = run(
        &revision(),
        &[&["taken"]],
        &no_probes(),
        |_| Live::Uncached,
        &mut accept_all,
    );
    assert_eq!(steps, "");
    let PassResult::ProbeFailure { failures, .. } = outcome.result else {
        panic!("{:?}", outcome.result)
    };
    assert_eq!(
        failures,
        " ConfigMap ns/taken: not found, left to revision v3"
    );
}

/// The objects of a hub were restored from a backup, so that the owners of an object do not exist.
#[test]
fn a_lost_object_is_left_to_the_newer_revision_that_had_it() {
    let owner = json!({
        "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSetPhase", "name": "v3-a",
        "namespace": "ns", "uid": "old-v3", "hub": "old", "controller": true,
    });
    let mut lost = live("3", "");
    lost["metadata"]["ownerReferences"] = json!([owner]);
    let mut revision = Revision {
        lost_hubs: ["old".to_owned()].into(),
        ..revision()
    };
    revision.identity.is_remote = true;
    revision.identity.hub = "new".to_owned();
    for (name, expected) in [("taken", ""), ("a", "A")] {
        let mut lost = lost.clone();
        lost["metadata"]["name"] = name.into();
        let live = |_: &str| Live::Present(lost.clone());
        let (steps, _) = run(&revision, &[&[name]], &no_probes(), live, &mut accept_all);
        assert_eq!(steps, expected, "{name}");
    }
}

#[test]
fn a_terminating_object_is_waited_for() {
    let mut live = live("1", "previous*");
    live["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let (steps, outcome) = run_one(&Live::Present(live.clone()), &mut accept_all);
    assert_eq!(steps, "");
    assert_eq!(outcome.waiting_for[0].message, "being deleted");
}

#[test]
fn an_object_in_deletion_reports_its_finalizers() {
    let mut leaving = terminating(live("2", "me*"));
    leaving["metadata"]["finalizers"] = json!(["example.com/data", "foregroundDeletion"]);
    let (steps, outcome) = run_one(&Live::Present(leaving), &mut accept_all);
    assert_eq!(steps, "");
    assert_eq!(
        outcome.waiting_for[0].message,
        "being deleted, held by example.com/data, foregroundDeletion"
    );
}

#[test]
fn a_pass_fails_if_an_object_keeps_changing() {
    let (_, outcome) = run_one(&Live::Uncached, &mut |name, request| match request {
        Request::Get => Answer::Object(live("1", "previous*")),
        Request::Apply(_) | Request::Create(_) => Answer::Conflict,
        _ => accept_all(name, request),
    });
    assert!(
        matches!(outcome.result, PassResult::Failed(_)),
        "{:?}",
        outcome.result
    );
}

/// The states at the start of the table below.
fn initial(name: &str) -> Live {
    let present = |live| Live::Present(live);
    match name {
        "unread" => Live::Unread,
        "uncached" => Live::Uncached,
        "gone" => Live::Gone,
        "ours" => present(live("2", "me*")),
        "previous" => present(live("1", "previous*")),
        "newer" => present(live("3", "newer*")),
        "stranger" => present(live("", "stranger*")),
        "nobody" => present(live("", "")),
        "leaving" => present(terminating(live("2", "me*"))),
        "legacy" => present(posted("me", "2", "drifted", false)),
        _ => panic!("{name}"),
    }
}

const INITIAL: [&str; 10] = [
    "unread", "uncached", "gone", "ours", "previous", "newer", "stranger", "nobody", "leaving",
    "legacy",
];

/// Every kind of answer; an answer with an object has the name of its state in [`initial`].
const ANSWERS: [&str; 12] = [
    "ours", "previous", "newer", "stranger", "created", "merged", "mixed", "absent", "conflict",
    "unserved", "refused", "failed",
];

fn answer(name: &str) -> Answer {
    match name {
        "created" => Answer::Created(live("2", "me*")),
        "merged" => Answer::Merged(managed_by(live("2", "me*"), FIELD_MANAGER, "Apply")),
        "mixed" => Answer::Merged(managed_by(live("2", "me*"), "kubectl", "Update")),
        "absent" => Answer::NotFound,
        "conflict" => Answer::Conflict,
        "unserved" => Answer::KindNotServed,
        "refused" => Answer::Refused("no".to_owned()),
        "failed" => Answer::Failed("no route".to_owned()),
        _ => match initial(name) {
            Live::Present(live) => Answer::Object(live),
            _ => panic!("{name}"),
        },
    }
}

/// The letter of a request as in [`letter`]; `.` for no request, `w` for waiting, and the problems:
/// `V` violation, `R` refused write, `F` failure, `C` collision.
fn need_letter(need: &NextAction) -> char {
    match need {
        NextAction::Nothing => '.',
        NextAction::Check(request)
        | NextAction::DryRun(request)
        | NextAction::Prepare(request)
        | NextAction::Write(request) => letter(request),
        NextAction::Wait(_) => 'w',
        NextAction::Blocked(Problem::Violation, _) => 'V',
        NextAction::Blocked(Problem::WriteRefused, _) => 'R',
        NextAction::Blocked(Problem::Failed, _) => 'F',
        NextAction::Blocked(Problem::Collision, _) => 'C',
    }
}

/// Answers the next request of the object; returns false if there is none.
fn answer_next(pass: &mut ObjectPass<'_>, name: &str) -> bool {
    match pass.next_action() {
        NextAction::Check(request)
        | NextAction::DryRun(request)
        | NextAction::Prepare(request)
        | NextAction::Write(request) => {
            pass.answer(&request, answer(name));
            true
        }
        NextAction::Nothing | NextAction::Wait(_) | NextAction::Blocked(..) => false,
    }
}

fn with_object(revision: &Revision, live: Live, test: impl FnOnce(ObjectPass<'_>)) {
    let phases = phases(revision, &[&["a"]]);
    test(ObjectPass::new(
        revision,
        &Family,
        &phases[0].objects[0],
        (live, None),
    ));
}

/// Every request on every path to an object, and the effect of each answer.
#[test]
fn every_answer_to_every_request() {
    for (path, request, row) in [
        //                          the object is          created    absent   unserved
        //                          ours  newer            | merged   | conflict  | refused
        //                          | previous  stranger   | | mixed  | |      |  | failed
        ("unread", 'g', "D D . C g g g d g V V F"),
        ("uncached", 'd', "g g g g c g g g g V g F"),
        ("uncached refused", 'g', "D D . C g g g V g V V F"),
        ("uncached created", 'c', "g g g g . . t g g V R F"),
        ("uncached created mixed", 't', "g g g g g g g g g V g F"),
        ("gone", 'd', "g g g g c g g g g V V F"),
        ("gone created", 'c', "g g g g . . t g g V R F"),
        ("ours", 'D', "A A A A g g g g g V V F"),
        ("ours ours", 'A', ". D . C g g g g g V R F"),
        // Only the answer to a write is not compared again.
        ("ours ours previous", 'D', "A A A A g g g g g V V F"),
        (
            "ours ours previous conflict",
            'g',
            "D D . C g g g d g V V F",
        ),
        ("uncached created conflict", 'g', "D D . C g g g d g V V F"),
        ("previous", 'D', "A A A A g g g g g V V F"),
        ("previous ours", 'A', ". D . C g g g g g V R F"),
        ("legacy", 'D', "m m m m g g g g g V m F"),
        ("legacy ours", 'm', "D D . C g g g g g V V F"),
        ("legacy refused", 'm', "D D . C g g g g g V V F"),
        ("legacy refused legacy", 'D', "m m m m g g g g g V m F"),
    ] {
        for (name, expected) in ANSWERS.into_iter().zip(row.split_whitespace()) {
            let mut steps = path.split_whitespace();
            let live = initial(steps.next().unwrap());
            with_object(&revision(), live, |mut pass| {
                for step in steps {
                    assert!(answer_next(&mut pass, step), "{path}");
                }
                assert_eq!(need_letter(&pass.next_action()), request, "{path}");
                assert!(answer_next(&mut pass, name));
                let next = need_letter(&pass.next_action()).to_string();
                assert_eq!(next, expected, "{path}, {name}");
            });
        }
    }
}

/// The first request about an object, by its state, the delivery and the pause of the revision.
#[test]
fn every_state_of_an_object_by_delivery_and_pause() {
    //          in-process       delegated        remote
    //          active  paused   active  paused   active  paused
    for (name, row) in [
        ("unread", "g g g g g g"),
        ("uncached", "d g d g d g"),
        ("gone", "d w d w d w"),
        ("ours", "D . D D D D"),
        ("previous", "D . D w D w"),
        ("newer", ". . . . . ."),
        ("stranger", "C C C C C C"),
        ("nobody", "C C C C C C"),
        ("leaving", "w . w w w w"),
        ("legacy", "D . D D D D"),
    ] {
        let deliveries = [Delivery::InProcess, Delivery::Delegated, Delivery::Remote];
        let lifecycles = [LifecycleState::Active, LifecycleState::Paused];
        let cases = deliveries
            .into_iter()
            .flat_map(|delivery| lifecycles.map(|state| (delivery, state)));
        for ((delivery, lifecycle), expected) in cases.zip(row.split_whitespace()) {
            let revision = Revision {
                lifecycle,
                delivery,
                ..revision()
            };
            with_object(&revision, initial(name), |pass| {
                let need = need_letter(&pass.next_action()).to_string();
                assert_eq!(need, expected, "{name} {delivery:?} {lifecycle:?}");
            });
        }
    }
}

/// All sequences of answers of a given length.
fn sequences(length: usize) -> Vec<Vec<&'static str>> {
    (0..length).fold(vec![Vec::new()], |shorter, _| {
        let longer = |sequence: Vec<&'static str>| {
            ANSWERS.map(|answer| [sequence.clone(), vec![answer]].concat())
        };
        shorter.into_iter().flat_map(longer).collect()
    })
}

/// For any state and any answers: a write follows its own dry run or, with legacy entries, their
/// migration; no object of others is written, and none during a pause; a problem lasts.
#[test]
fn no_sequence_of_answers_leads_to_an_unchecked_or_foreign_write() {
    for lifecycle in [LifecycleState::Active, LifecycleState::Paused] {
        let revision = Revision {
            lifecycle,
            ..revision()
        };
        let phases = phases(&revision, &[&["a"]]);
        for (name, sequence) in INITIAL.iter().flat_map(|name| {
            sequences(3)
                .into_iter()
                .map(move |sequence| (name, sequence))
        }) {
            let observed = (initial(name), None);
            let pass = ObjectPass::new(&revision, &Family, &phases[0].objects[0], observed);
            check_sequence(pass, &format!("{name} {sequence:?}"), &sequence);
        }
    }
}

fn check_sequence(mut pass: ObjectPass<'_>, case: &str, sequence: &[&str]) {
    let mut checked = false;
    for name in sequence {
        let before = pass.next_action();
        let letter = need_letter(&before);
        if matches!(letter, 'c' | 'A') {
            assert!(checked, "{case}: {before:?}");
        }
        if matches!(letter, 'c' | 'A' | 'm' | 't') {
            assert!(!pass.revision.is_paused(), "{case}: {before:?}");
        }
        if let Some(live) = pass.live().filter(|_| "Am".contains(letter)) {
            let situation = pass.classify(live);
            let may_write = matches!(situation, Situation::Ours | Situation::Previous(_));
            assert!(may_write, "{case}: {before:?}");
        }
        if !answer_next(&mut pass, name) {
            return;
        }
        checked = match letter {
            'd' => *name == "created",
            'D' => !pass.is_to_migrate(),
            _ => false,
        };
        match *name {
            "unserved" => assert_eq!(need_letter(&pass.next_action()), 'V', "{case}"),
            "failed" => assert_eq!(need_letter(&pass.next_action()), 'F', "{case}"),
            _ => {}
        }
    }
}

/// The number of requests about one object is bounded, for any answers to reads, dry runs and
/// writes.
#[test]
fn an_object_is_given_up_after_a_bounded_number_of_rounds() {
    // One answer for each effect.
    let effects = [
        "ours", "previous", "newer", "legacy", "created", "mixed", "absent", "conflict", "refused",
    ];
    let strategies = effects.into_iter().flat_map(|read| {
        let pairs = effects
            .into_iter()
            .flat_map(|check| effects.map(|write| (check, write)));
        pairs.map(move |(check, write)| (read, check, write))
    });
    for (name, strategy) in strategies.flat_map(|strategy| INITIAL.map(|name| (name, strategy))) {
        let (read, check, write) = strategy;
        with_object(&revision(), initial(name), |mut pass| {
            let mut requests = 0;
            loop {
                let answer = match need_letter(&pass.next_action()) {
                    // An apply gets an object if the create would succeed.
                    'D' if check == "created" => "ours",
                    'd' | 'D' => check,
                    'c' | 'A' => write,
                    _ => read,
                };
                if !answer_next(&mut pass, answer) {
                    break;
                }
                requests += 1;
                assert!(requests < 40, "{name} {strategy:?}");
            }
        });
    }
}

/// A webhook that reverts every handover must not keep a pass running forever.
#[test]
fn a_pass_fails_if_a_webhook_undoes_each_handover() {
    let before = || live("1", "previous*");
    let (steps, outcome) = run_one(&Live::Present(before()), &mut |_, _| {
        Answer::Object(before())
    });
    assert_eq!(steps, ["A"; 8].join(" "));
    let text =
        "Phase \"p1\", ConfigMap /a: the object keeps changing while it is written".to_owned();
    assert_eq!(outcome.result, PassResult::Failed(vec![text]));
}

/// Texts for people about an object that waits or is blocked, by the path to that state.
#[test]
fn messages_about_blocked_and_waiting_objects() {
    use Delivery::{Delegated, InProcess, Remote};
    let not_owned = "object /a kind:ConfigMap: refusing adoption, object /v1, Kind=ConfigMap ns/a not owned by \
        previous revision";
    let active = [
        ("leaving", "being deleted"),
        ("stranger", not_owned),
        (
            "ours unserved",
            "/v1, Kind=ConfigMap not registered on the api server.",
        ),
        ("ours refused", "no"),
        ("ours failed", "no route"),
        ("ours ours refused", "no"),
        ("uncached refused absent", "no"),
    ];
    // A paused delegated phase writes nothing, and reports the writes that are missing.
    let paused = [
        ("leaving", "being deleted"),
        ("stranger", not_owned),
        ("ours ours", "paused, and not as it should be"),
        ("legacy ours", "paused, and not as it should be"),
        ("previous", "paused, and not taken over yet"),
    ];
    let missing = [("gone", "not found"), ("uncached absent", "not found")];
    for (delivery, lifecycle, rows) in [
        (InProcess, LifecycleState::Active, &active[..]),
        (Delegated, LifecycleState::Active, &active),
        (InProcess, LifecycleState::Paused, &missing),
        (Delegated, LifecycleState::Paused, &missing),
        (Delegated, LifecycleState::Paused, &paused),
        (Remote, LifecycleState::Paused, &paused),
    ] {
        let revision = Revision {
            lifecycle,
            delivery,
            ..revision()
        };
        for (path, expected) in rows {
            let mut steps = path.split_whitespace();
            with_object(
                &revision,
                initial(steps.next().expect("a state")),
                |mut pass| {
                    for step in steps {
                        assert!(answer_next(&mut pass, step), "{path}");
                    }
                    let (NextAction::Wait(text) | NextAction::Blocked(_, text)) =
                        pass.next_action()
                    else {
                        panic!("{path}: {:?}", pass.next_action())
                    };
                    // Only in-process phases have a default namespace.
                    let name = if delivery == InProcess { "ns/a" } else { "/a" };
                    assert_eq!(text, expected.replace("ns/a", name), "{path}");
                },
            );
        }
    }
}

/// The eighth unexpected answer ends the pass; earlier writes are still reported.
#[test]
fn an_object_is_given_up_in_the_eighth_round() {
    for (path, answer, rounds) in [("ours", "conflict", 8), ("uncached created", "conflict", 8)] {
        let mut steps = path.split_whitespace();
        with_object(
            &revision(),
            initial(steps.next().expect("a state")),
            |mut pass| {
                for step in steps {
                    assert!(answer_next(&mut pass, step), "{path}");
                }
                let mut conflicts = 0;
                while !matches!(pass.next_action(), NextAction::Blocked(..)) {
                    let is_read = need_letter(&pass.next_action()) == 'g';
                    conflicts += usize::from(!is_read);
                    assert!(answer_next(
                        &mut pass,
                        if is_read { "ours" } else { answer }
                    ));
                }
                assert_eq!(conflicts, rounds, "{path}");
                let text = "the object keeps changing while it is written".to_owned();
                assert_eq!(
                    pass.next_action(),
                    NextAction::Blocked(Problem::Failed, text),
                    "{path}"
                );
            },
        );
    }
}

/// A delay holds back repairs and creations, but no handover.
#[test]
fn a_disputed_object_is_not_repaired() {
    let disputed = |live: Live| {
        let mut revision = revision();
        let key = phases(&revision, &[&["a"]])[0].objects[0].key.clone();
        revision.disputed.insert(key);
        run(
            &revision,
            &[&["a"]],
            &no_probes(),
            |_: &str| live.clone(),
            &mut accept_all,
        )
    };
    let mut drifted = live("2", "me*");
    drifted["data"]["k"] = "other".into();
    for (live, steps, is_done) in [
        (Live::Present(drifted), "", true),
        (Live::Present(live("1", "previous*")), "A", true),
        (Live::Gone, "", false),
    ] {
        let (letters, outcome) = disputed(live.clone());
        assert_eq!(letters, steps, "{live:?}");
        assert_eq!(outcome.result == PassResult::Passed, is_done, "{live:?}");
    }
}
