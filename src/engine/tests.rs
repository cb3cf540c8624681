//! Table tests of passes, teardowns and reports: what is asked for, in which order, and what the
//! status says in the end. What holds for every chain is in `properties`.

use baton_apis::{LifecycleState, ObjectSetStatus, ObjectSetStatusPhase, ObjectSetTemplatePhase};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{
    Answer, Gvk, ObjectKey, Request,
    conditions::{Again, report_archival, report_deletion, report_pass, report_refusal},
    diff::legacy::{migrated, needs_migration},
    handover::{Kin, Lineage},
    object::Identity,
    pass::{Outcome, Pass, Position, Snapshot, Step, Verdict},
    probes::Probes,
    revision::{KindScope, Kinds, Phase, Revision, duplicates, prepare, violations},
    slot::{Deed, Live},
    teardown::{Teardown, TeardownOutcome},
};

struct Alone;

impl Lineage for Alone {
    fn kin(&self, uid: &str) -> Option<Kin> {
        (uid == "old").then(|| Kin {
            name: "v1".into(),
            number: 1,
            is_previous: true,
            is_archived: false,
        })
    }

    fn taken_by_newer(&self, key: &ObjectKey) -> Option<String> {
        (key.name == "taken").then(|| "v3".to_owned())
    }
}

fn revision() -> Revision {
    Revision {
        identity: Identity {
            kind: "ObjectSet".into(),
            namespace: "ns".into(),
            name: "v2".into(),
            uid: "me".into(),
            is_remote: false,
        },
        number: 2,
        generation: 7,
        ..Revision::default()
    }
}

fn kinds() -> Kinds {
    Kinds::from([
        (Gvk::new("v1", "ConfigMap"), KindScope::Namespaced),
        (Gvk::new("v1", "Namespace"), KindScope::Cluster),
    ])
}

/// Phases of ConfigMaps by their names.
fn phases(revision: &Revision, names: &[&[&str]]) -> Vec<Phase> {
    let phases = names.iter().enumerate().map(|(index, names)| {
        let objects: Vec<_> = names
            .iter()
            .map(|name| {
                json!({"object": {"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name}, "data": {"k": "v"}}})
            })
            .collect();
        serde_json::from_value(json!({"name": format!("p{}", index + 1), "objects": objects}))
            .expect("a phase")
    });
    prepare(revision, phases.collect())
}

fn probes(rule: &Value) -> Probes {
    let entries: Vec<_> = serde_json::from_value(json!([
        {"selector": {"kind": {"group": "", "kind": "ConfigMap"}}, "probes": [rule]}
    ]))
    .expect("probes");
    Probes::compile(&entries).expect("probes compile")
}

/// As the server would answer an apply.
fn written(body: &Value, version: &str) -> Value {
    let mut live = body.clone();
    live["metadata"]["uid"] = format!("uid-{}", body["metadata"]["name"]).into();
    live["metadata"]["resourceVersion"] = version.into();
    live
}

/// A one-letter word per request, in the order of the positions: `d` dry run of a create, `D` of
/// an apply, `c` create, `A` apply, `m` migrate, `g` get, `r` release, `x` delete, `t` take back.
fn word(request: &Request) -> char {
    match request {
        Request::Get => 'g',
        Request::DryRunCreate(_) => 'd',
        Request::DryRunApply(_) => 'D',
        Request::Create(_) => 'c',
        Request::Apply(_) => 'A',
        Request::Migrate(_) => 'm',
        Request::TakeBack => 't',
        Request::Release { .. } => 'r',
        Request::Delete(_) => 'x',
    }
}

type Server<'a> = &'a mut dyn FnMut(&str, &Request) -> Answer;

fn willing(_: &str, request: &Request) -> Answer {
    match request {
        Request::DryRunCreate(body) | Request::Create(body) => Answer::Created(written(body, "2")),
        Request::DryRunApply(body) | Request::Apply(body) => Answer::Object(written(body, "2")),
        Request::Get | Request::Migrate(_) | Request::TakeBack | Request::Delete(_) => {
            Answer::NotFound
        }
        Request::Release { .. } => Answer::Object(json!({"metadata": {}})),
    }
}

/// Leads a pass to its end; the steps as words, and the outcome.
fn run(
    revision: &Revision,
    names: &[&[&str]],
    probes: &Probes,
    live: impl Fn(&str) -> Live,
    server: Server<'_>,
) -> (String, Outcome) {
    let phases = phases(revision, names);
    let kinds = kinds();
    let snapshot = Snapshot {
        revision,
        phases: &phases,
        probes,
        kinds: &kinds,
        lineage: &Alone,
    };
    let name = |at: Position| phases[at.phase].objects[at.object].key.name.as_str();
    let mut pass = Pass::new(snapshot, |at| (live(name(at)), None));
    let mut steps = Vec::new();
    while let Step::Send(requests) = pass.step() {
        steps.push(
            requests
                .iter()
                .map(|(_, request)| word(request))
                .collect::<String>(),
        );
        for (at, request) in requests {
            pass.answer(at, &request, server(name(at), &request));
        }
    }
    (steps.join(" "), pass.outcome())
}

fn no_probes() -> Probes {
    Probes::compile(&[]).expect("no probes compile")
}

fn owned_by(uid: &str, number: &str, version: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
        "name": "a", "namespace": "ns", "uid": "uid-a", "resourceVersion": version,
        "annotations": {"package-operator.run/revision": number},
        "ownerReferences": [{"apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSet",
            "name": if uid == "me" { "v2" } else { "v1" }, "uid": uid, "controller": true}],
    }, "data": {"k": "old"}})
}

/// Objects of a phase go out side by side, phases one after the other, and every dry run of a
/// phase precedes its first write.
#[test]
fn improvement_36_objects_of_a_phase_go_out_side_by_side() {
    let (steps, outcome) = run(
        &revision(),
        &[&["a", "b", "c"], &["d", "e"]],
        &no_probes(),
        |_| Live::Uncached,
        &mut willing,
    );
    assert_eq!(steps, "ddd ccc dd cc");
    assert_eq!(outcome.verdict, Verdict::Passed);
    assert!(outcome.controls_all);
    let names: Vec<_> = outcome
        .controller_of
        .iter()
        .map(|object| object.name.as_str())
        .collect();
    assert_eq!(names, ["a", "b", "c", "d", "e"]);
    assert!(outcome.deeds.iter().all(|(_, deed)| *deed == Deed::Created));
}

#[test]
fn a_refused_object_stops_its_phase_before_anything_is_written() {
    let (steps, outcome) = run(
        &revision(),
        &[&["a", "bad", "c"], &["d"]],
        &no_probes(),
        |_| Live::Uncached,
        &mut |name, request| match request {
            Request::DryRunCreate(_) if name == "bad" => Answer::Refused("is invalid".into()),
            _ => willing(name, request),
        },
    );
    // The refusal could be about an object that exists with another controller: that is looked at.
    assert_eq!(steps, "ddd g");
    let text = "Phase \"p1\", ConfigMap /bad: is invalid".to_owned();
    assert_eq!(outcome.verdict, Verdict::Preflight(vec![text]));
    assert_eq!(outcome.waiting_for.len(), 1);
}

#[test]
fn a_taken_over_object_is_checked_and_written_in_the_state_that_was_seen() {
    let mut versions = Vec::new();
    let (steps, outcome) = run(
        &revision(),
        &[&["a"]],
        &no_probes(),
        |_| Live::Present(owned_by("old", "1", "41")),
        &mut |name, request| {
            if let Request::Apply(body) | Request::DryRunApply(body) = request {
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
            willing(name, request)
        },
    );
    assert_eq!(steps, "D A");
    assert_eq!(versions, ["41", "41"]);
    assert_eq!(outcome.deeds[0].1, Deed::TookOver(Some("v1".into())));
}

/// An object that Package Operator wrote by an update: its content, and whether the update also holds
/// what nobody wants.
fn posted(uid: &str, number: &str, content: &str, surplus: bool) -> Value {
    let mut live = owned_by(uid, number, "41");
    live["metadata"]["labels"] = json!({"package-operator.run/cache": "True"});
    live["data"]["k"] = content.into();
    let mut fields = json!({
        "f:metadata": {
            "f:annotations": {".": {}, "f:package-operator.run/revision": {}},
            "f:labels": {".": {}, "f:package-operator.run/cache": {}},
            "f:ownerReferences": {".": {}, format!("k:{{\"uid\":\"{uid}\"}}"): {}},
        },
        "f:data": {".": {}, "f:k": {}},
    });
    if surplus {
        live["data"]["old"] = "1".into();
        fields["f:data"]["f:old"] = json!({});
    }
    live["metadata"]["managedFields"] = json!([
        {"manager": "package-operator", "operation": "Update", "apiVersion": "v1", "fieldsV1": fields},
    ]);
    live["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] = true.into();
    live
}

/// What a server says about such an object: whether its content is fine before and after its fields
/// have become ours.
fn server_of_posted(
    live: &Value,
    before: bool,
    after: bool,
) -> impl FnMut(&str, &Request) -> Answer + use<> {
    let mut live = live.clone();
    move |name, request| match request {
        Request::Migrate(seen) if name == "a" => {
            assert_eq!(seen.resource_version, "41");
            live["metadata"]["managedFields"] = migrated(&live).expect("legacy entries").into();
            live["metadata"]["resourceVersion"] = "42".into();
            Answer::Object(live.clone())
        }
        Request::DryRunApply(body) | Request::Apply(body) if name == "a" => {
            let is_migrated = !needs_migration(&live);
            assert_eq!(
                body["metadata"]["resourceVersion"],
                live["metadata"]["resourceVersion"]
            );
            if !(if is_migrated { after } else { before }) {
                return Answer::Refused("is invalid".into());
            }
            let mut answer = live.clone();
            for field in ["data", "metadata"] {
                for (key, value) in body[field].as_object().expect("a map") {
                    answer[field][key] = value.clone();
                }
            }
            Answer::Object(answer)
        }
        _ => willing(name, request),
    }
}

/// The requests about an object that was written by an update: `D` and `A` are about its content, `m`
/// makes its fields ours.
#[test]
fn fields_of_a_legacy_entry_become_ours_before_a_write() {
    for (uid, number, content, surplus, before, after, expected) in [
        // Controlled by us and as wanted, whatever else the update holds: nothing is sent.
        ("me", "2", "v", false, true, true, ""),
        ("me", "2", "v", true, true, true, ""),
        // Drift, and a handover.
        ("me", "2", "drifted", false, true, true, "D m D A"),
        ("old", "1", "other", false, true, true, "D m D A"),
        // Of equal content, until it turns out that there is more.
        ("old", "1", "v", false, true, true, "m A"),
        ("old", "1", "v", true, true, true, "m D A"),
        // What stays keeps the new content from being valid, or the other way round.
        ("old", "1", "other", true, false, true, "D m D A"),
        ("old", "1", "other", true, true, false, "D m D"),
        ("old", "1", "other", true, false, false, "D m D"),
    ] {
        let live = posted(uid, number, content, surplus);
        let (steps, outcome) = run(
            &revision(),
            &[&["a"]],
            &no_probes(),
            |_| Live::Present(live.clone()),
            &mut server_of_posted(&live, before, after),
        );
        assert_eq!(steps, expected, "{live}");
        if after {
            assert_eq!(outcome.verdict, Verdict::Passed, "{live}");
        } else {
            let text = "Phase \"p1\", ConfigMap /a: is invalid".to_owned();
            assert_eq!(outcome.verdict, Verdict::Preflight(vec![text]), "{live}");
        }
    }
}

/// The update says a value in another form than the body: the dry run finds that out, and it is
/// remembered.
#[test]
fn a_legacy_entry_that_differs_in_form_only_is_left_alone() {
    let live = posted("me", "2", "1000m", false);
    let (steps, outcome) = run(
        &revision(),
        &[&["a"]],
        &no_probes(),
        |_| Live::Present(live.clone()),
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
    assert_eq!(outcome.verdict, Verdict::Passed);
    assert_eq!(outcome.learned.len(), 1);
}

/// Nobody's fields change hands because of a revision that is not rolled out.
#[test]
fn nothing_is_migrated_while_the_phase_is_refused() {
    let live = posted("old", "1", "other", true);
    let (steps, outcome) = run(
        &revision(),
        &[&["a", "bad"]],
        &no_probes(),
        |name| match name {
            "a" => Live::Present(live.clone()),
            _ => Live::Gone,
        },
        &mut |name, request| match request {
            Request::DryRunCreate(_) if name == "bad" => Answer::Refused("is invalid".into()),
            _ => server_of_posted(&live, true, true)(name, request),
        },
    );
    assert_eq!(steps, "Dd");
    assert!(matches!(outcome.verdict, Verdict::Preflight(_)));
}

#[test]
fn an_object_whose_entries_keep_coming_back_ends_the_pass() {
    let live = posted("old", "1", "v", false);
    let (steps, outcome) = run(
        &revision(),
        &[&["a"]],
        &no_probes(),
        |_| Live::Present(live.clone()),
        &mut |name, request| match request {
            Request::Migrate(_) => Answer::Object(live.clone()),
            _ => willing(name, request),
        },
    );
    assert_eq!(steps, "m m m m m m m m");
    assert!(matches!(outcome.verdict, Verdict::Failed(_)));
}

#[test]
fn a_conflict_is_read_again_and_decided_anew() {
    let mut reads = 0;
    let (steps, outcome) = run(
        &revision(),
        &[&["a"]],
        &no_probes(),
        |_| Live::Present(owned_by("old", "1", "41")),
        &mut |name, request| match request {
            Request::Apply(_) if reads == 0 => Answer::Conflict,
            Request::Get => {
                reads += 1;
                // Meanwhile somebody else has become its controller.
                Answer::Object(owned_by("foreign", "", "42"))
            }
            _ => willing(name, request),
        },
    );
    assert_eq!(steps, "D A g");
    let Verdict::Collision(text) = outcome.verdict else {
        panic!("{:?}", outcome.verdict)
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
fn objects_before_a_collision_are_written_those_after_it_are_not() {
    let (steps, outcome) = run(
        &revision(),
        &[&["a", "b", "c"]],
        &no_probes(),
        |name| match name {
            "b" => Live::Present(owned_by("foreign", "", "1")),
            _ => Live::Uncached,
        },
        &mut willing,
    );
    assert_eq!(steps, "d c");
    assert!(matches!(outcome.verdict, Verdict::Collision(_)));
    assert!(!outcome.controls_all);
}

#[test]
fn a_create_that_meets_a_stranger_takes_back_what_it_merged() {
    let mut taken_back = false;
    let (steps, outcome) = run(
        &revision(),
        &[&["a"]],
        &no_probes(),
        |_| Live::Uncached,
        &mut |name, request| match request {
            Request::Create(body) => {
                let mut merged = written(body, "9");
                merged["metadata"]["managedFields"] =
                    json!([{"manager": "kubectl", "operation": "Update"}]);
                Answer::Merged(merged)
            }
            Request::TakeBack => {
                taken_back = true;
                Answer::Object(json!({}))
            }
            Request::Get => {
                let mut stranger = owned_by("", "", "10");
                stranger["metadata"]["ownerReferences"] = json!([]);
                Answer::Object(stranger)
            }
            _ => willing(name, request),
        },
    );
    assert_eq!(steps, "d c t g");
    assert!(taken_back);
    assert!(
        matches!(outcome.verdict, Verdict::Collision(_)),
        "{:?}",
        outcome.verdict
    );
}

#[test]
fn a_late_create_of_a_killed_manager_is_no_stranger() {
    let (steps, outcome) = run(
        &revision(),
        &[&["a"]],
        &no_probes(),
        |_| Live::Uncached,
        &mut |name, request| match request {
            Request::Create(body) => {
                let mut merged = written(body, "9");
                merged["metadata"]["managedFields"] =
                    json!([{"manager": "package-operator", "operation": "Apply"}]);
                Answer::Merged(merged)
            }
            _ => willing(name, request),
        },
    );
    assert_eq!(steps, "d c");
    assert_eq!(outcome.verdict, Verdict::Passed);
}

#[test]
fn what_a_newer_revision_had_taken_is_left_to_it() {
    let (steps, outcome) = run(
        &revision(),
        &[&["taken"]],
        &no_probes(),
        |_| Live::Uncached,
        &mut willing,
    );
    assert_eq!(steps, "");
    let Verdict::ProbeFailure { failures, .. } = outcome.verdict else {
        panic!("{:?}", outcome.verdict)
    };
    assert_eq!(
        failures,
        " ConfigMap ns/taken: not found, left to revision v3"
    );
}

#[test]
fn a_failing_probe_keeps_later_phases_back() {
    let probes = probes(&json!({"fieldsEqual": {"fieldA": ".data.k", "fieldB": ".metadata.name"}}));
    let (steps, outcome) = run(
        &revision(),
        &[&["a"], &["b"]],
        &probes,
        |_| Live::Uncached,
        &mut willing,
    );
    assert_eq!(steps, "d c");
    assert_eq!(
        outcome.verdict,
        Verdict::ProbeFailure {
            phase: "p1".into(),
            failures: r#" ConfigMap ns/a: ".data.k" != ".metadata.name" expected: "v" got: "a""#
                .into(),
        }
    );
    assert_eq!(outcome.waiting_for[0].name, "a");
}

#[test]
fn nothing_is_sent_while_paused() {
    let paused = Revision {
        lifecycle: LifecycleState::Paused,
        ..revision()
    };
    let drifted = |_: &str| Live::Present(owned_by("me", "2", "1"));
    let (steps, outcome) = run(&paused, &[&["a"]], &no_probes(), drifted, &mut willing);
    assert_eq!((steps.as_str(), outcome.verdict), ("", Verdict::Passed));
    let (steps, outcome) = run(
        &paused,
        &[&["a"]],
        &no_probes(),
        |_| Live::Uncached,
        &mut willing,
    );
    assert_eq!(steps, "");
    assert!(matches!(outcome.verdict, Verdict::ProbeFailure { .. }));
}

#[test]
fn an_object_on_its_way_out_is_waited_for() {
    let mut live = owned_by("old", "1", "1");
    live["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let (steps, outcome) = run(
        &revision(),
        &[&["a"]],
        &no_probes(),
        |_| Live::Present(live.clone()),
        &mut willing,
    );
    assert_eq!(steps, "");
    assert_eq!(outcome.waiting_for[0].message, "being deleted");
}

#[test]
fn an_object_that_never_holds_still_ends_the_pass() {
    let (_, outcome) = run(
        &revision(),
        &[&["a"]],
        &no_probes(),
        |_| Live::Uncached,
        &mut |name, request| match request {
            Request::Get => Answer::Object(owned_by("old", "1", "1")),
            Request::Apply(_) | Request::DryRunCreate(_) => Answer::Conflict,
            _ => willing(name, request),
        },
    );
    assert!(
        matches!(outcome.verdict, Verdict::Failed(_)),
        "{:?}",
        outcome.verdict
    );
}

#[test]
fn violations_name_position_and_cause() {
    let revision = revision();
    let object = |object: Value| json!({"object": object});
    let phase: ObjectSetTemplatePhase = serde_json::from_value(json!({"name": "p", "objects": [
        object(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "fine"}})),
        object(json!({"apiVersion": "x.io/v1", "kind": "Gone", "metadata": {"name": "a"}})),
        object(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "b"}})),
        object(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "other"}})),
        object(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "d", "ownerReferences": [{"uid": "x"}]}})),
        object(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "e"}})),
    ]}))
    .expect("a phase");
    let phases = prepare(&revision, vec![phase]);
    assert_eq!(
        violations(&revision, &phases[0], &kinds()),
        [
            "Phase \"p\", Gone /a: x.io/v1, Kind=Gone not registered on the api server.",
            "Phase \"p\", Namespace /b: Must be namespaced scoped when part of an non-cluster-scoped API.",
            "Phase \"p\", ConfigMap other/c: Must stay within the same namespace.",
            "Phase \"p\", ConfigMap /d: Object must not have a owner reference.",
            "Phase \"p\", ConfigMap /: Object must have a metadata.name.",
        ]
    );
}

/// Phases are told apart by their place in the list, whatever they are called: none of their
/// objects is taken for another's.
#[test]
fn improvement_20_phases_of_one_name_do_not_collide() {
    let revision = revision();
    let mut phases = phases(&revision, &[&["a"], &["b"]]);
    phases[1].name = "p1".into();
    assert_eq!(duplicates(&phases), Vec::<String>::new());
    let snapshot = Snapshot {
        revision: &revision,
        phases: &phases,
        probes: &no_probes(),
        kinds: &kinds(),
        lineage: &Alone,
    };
    let mut pass = Pass::new(snapshot, |_| (Live::Uncached, None));
    let mut order = Vec::new();
    while let Step::Send(requests) = pass.step() {
        for (at, request) in requests {
            order.push((word(&request), at.phase));
            pass.answer(at, &request, willing("", &request));
        }
    }
    assert_eq!(order, [('d', 0), ('c', 0), ('d', 1), ('c', 1)]);
    assert!(pass.outcome().controls_all);
}

#[test]
fn an_object_stands_once_in_a_revision() {
    let revision = revision();
    let phases = phases(&revision, &[&["a"], &["b", "a"]]);
    assert_eq!(
        duplicates(&phases),
        ["Phase \"p2\", ConfigMap /a: Duplicate Object"]
    );
}

/// Leads a teardown to its end; the steps as words, and the outcome.
fn tear_down(
    names: &[&[&str]],
    live: impl Fn(&str) -> Live,
    server: Server<'_>,
) -> (String, TeardownOutcome) {
    let revision = revision();
    let phases = phases(&revision, names);
    let kinds = kinds();
    let name = |at: Position| phases[at.phase].objects[at.object].key.name.as_str();
    let mut teardown = Teardown::new(&revision, &phases, &kinds, |at| live(name(at)));
    let mut steps = Vec::new();
    while let Step::Send(requests) = teardown.step() {
        let words = requests
            .iter()
            .map(|(at, request)| format!("{}{}", word(request), name(*at)));
        steps.push(words.collect::<Vec<_>>().join(","));
        for (at, request) in requests {
            teardown.answer(at, &request, server(name(at), &request));
        }
    }
    (steps.join(" "), teardown.outcome())
}

#[test]
fn a_teardown_goes_backwards_and_believes_only_the_server() {
    let ours = |_: &str| Live::Present(owned_by("me", "2", "1"));
    let (steps, outcome) = tear_down(&[&["a", "b"], &["c"]], ours, &mut willing);
    assert_eq!(
        (steps.as_str(), outcome),
        ("xc xa,xb", TeardownOutcome::Done)
    );
    let (steps, outcome) = tear_down(&[&["a"], &["b"]], |_| Live::Uncached, &mut willing);
    assert_eq!((steps.as_str(), outcome), ("gb ga", TeardownOutcome::Done));
}

#[test]
fn a_teardown_waits_for_finalizers() {
    let ours = |_: &str| Live::Present(owned_by("me", "2", "1"));
    let (steps, outcome) = tear_down(
        &[&["a"], &["held"]],
        ours,
        &mut |name, request| match request {
            Request::Delete(_) if name == "held" => {
                let mut live = owned_by("me", "2", "2");
                live["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
                Answer::Object(live)
            }
            _ => willing(name, request),
        },
    );
    assert_eq!(steps, "xheld");
    let TeardownOutcome::Waiting(objects) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(objects[0].name, "held");
}

#[test]
fn a_teardown_leaves_alone_what_others_control() {
    let live = |name: &str| match name {
        // A newer revision took it over: only our reference goes.
        "handed-over" => {
            let mut live = owned_by("new", "3", "1");
            let plain = json!({"apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSet",
                "name": "v2", "uid": "me", "controller": false});
            let owners = live["metadata"]["ownerReferences"]
                .as_array_mut()
                .expect("owners");
            owners.push(plain);
            Live::Present(live)
        }
        "foreign" => Live::Present(owned_by("foreign", "", "1")),
        _ => Live::Gone,
    };
    let (steps, outcome) = tear_down(
        &[&["handed-over", "foreign", "gone"]],
        live,
        &mut |name, request| match request {
            Request::Release {
                owner_uid, live, ..
            } => {
                assert_eq!((owner_uid.as_str(), live.owner_index), ("me", 1));
                willing(name, request)
            }
            _ => willing(name, request),
        },
    );
    assert_eq!(
        (steps.as_str(), outcome),
        ("rhanded-over", TeardownOutcome::Done)
    );
}

#[test]
fn improvement_16_a_refused_delete_is_no_end() {
    let ours = |_: &str| Live::Present(owned_by("me", "2", "1"));
    let (steps, outcome) = tear_down(&[&["a"], &["b"]], ours, &mut |_, _| {
        Answer::Refused("denied by a webhook".into())
    });
    assert_eq!(steps, "xb");
    let TeardownOutcome::Failed(objects) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(objects[0].message, "denied by a webhook");
    let status = report_archival(
        &ObjectSetStatus::default(),
        &revision(),
        TeardownOutcome::Failed(objects),
        Timestamp::UNIX_EPOCH,
    )
    .status;
    assert_eq!(
        conditions(&status),
        [
            "Archived False ArchivalInProgress: Object teardown in progress. ConfigMap ns/b: denied by a webhook"
        ]
    );
}

fn outcome(verdict: Verdict, controls_all: bool) -> Outcome {
    Outcome {
        verdict,
        controller_of: Vec::new(),
        controls_all,
        waiting_for: Vec::new(),
        remote_phases: Vec::new(),
        pause_agreed: true,
        mapped: Vec::new(),
        deeds: Vec::new(),
        learned: Vec::new(),
        blockers: Vec::new(),
    }
}

fn conditions(status: &ObjectSetStatus) -> Vec<String> {
    status
        .conditions
        .iter()
        .map(|c| format!("{} {} {}: {}", c.type_, c.status, c.reason, c.message))
        .collect()
}

fn types(status: &ObjectSetStatus) -> Vec<String> {
    status
        .conditions
        .iter()
        .map(|c| format!("{}={}", c.type_, c.status))
        .collect()
}

#[test]
fn reports() {
    let fresh = ObjectSetStatus::default();
    let now = Timestamp::UNIX_EPOCH;
    let report = |previous: &ObjectSetStatus, verdict, controls_all| {
        report_pass(
            previous,
            &revision(),
            outcome(verdict, controls_all),
            0,
            now,
        )
    };
    let failing = || Verdict::ProbeFailure {
        phase: "p".into(),
        failures: "x".into(),
    };

    let available = report(&fresh, Verdict::Passed, true);
    assert_eq!(
        types(&available.status),
        ["Available=True", "Succeeded=True"]
    );
    assert_eq!(available.status.phase, ObjectSetStatusPhase::Available);
    assert_eq!(available.status.revision, Some(2));
    assert!(
        available
            .status
            .conditions
            .iter()
            .all(|c| c.observed_generation == Some(7))
    );
    assert_eq!(available.again, Again::OnEvent);

    let rolling = report(&fresh, failing(), false);
    assert_eq!(
        types(&rolling.status),
        ["Available=False", "InTransition=True"]
    );
    assert_eq!(
        rolling.status.conditions[0].message,
        "Phase \"p\" failed: x"
    );
    assert_eq!(rolling.status.phase, ObjectSetStatusPhase::NotReady);

    // A fresh set that is refused shows only that.
    let refused = report(
        &fresh,
        Verdict::Preflight(vec!["a".into(), "b".into()]),
        false,
    );
    assert_eq!(
        conditions(&refused.status),
        ["Available False PreflightError: a, b"]
    );
    assert_eq!(
        refused.again,
        Again::After(super::conditions::MISCONFIGURATION_RETRY)
    );

    // What was not looked at stays as it was reported.
    let collided = report(&rolling.status, Verdict::Collision("c".into()), false);
    assert_eq!(
        types(&collided.status),
        ["Available=False", "InTransition=True"]
    );

    // Handed over: still available, no longer in control.
    let handed_over = report(&available.status, Verdict::Passed, false);
    assert_eq!(
        types(&handed_over.status),
        ["Available=True", "Succeeded=True", "InTransition=True"]
    );

    // A passing fault says nothing until it lasts.
    let failed = || outcome(Verdict::Failed(vec!["no route".into()]), true);
    let once = report_pass(&available.status, &revision(), failed(), 0, now);
    assert_eq!(
        (types(&once.status), once.again),
        (types(&available.status), Again::Backoff)
    );
    let lasting = report_pass(&available.status, &revision(), failed(), 3, now);
    assert_eq!(lasting.status.conditions[0].reason, "WriteError");
}

/// Empty is told from unreported: a revision that has nothing left says so in `phase`.
#[test]
fn improvement_03_a_handed_over_failed_revision_is_reported() {
    let report = report_pass(
        &ObjectSetStatus::default(),
        &revision(),
        outcome(Verdict::Passed, false),
        0,
        Timestamp::UNIX_EPOCH,
    );
    assert_eq!(report.status.phase, ObjectSetStatusPhase::NotReady);
    assert_ne!(report.status.phase, ObjectSetStatusPhase::default());
    assert_eq!(report.status.conditions[0].reason, "NotInControl");
}

#[test]
fn a_report_that_says_the_same_equals_the_one_before() {
    let now = Timestamp::UNIX_EPOCH;
    let report = |previous: &ObjectSetStatus, now| {
        report_pass(
            previous,
            &revision(),
            outcome(Verdict::Passed, true),
            0,
            now,
        )
        .status
    };
    let first = report(&ObjectSetStatus::default(), now);
    assert_eq!(report(&first, now + SignedDuration::from_hours(1)), first);
}

#[test]
fn success_takes_its_time() {
    let delayed = Revision {
        success_delay_seconds: 3,
        ..revision()
    };
    let at = |seconds| Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds);
    let report = |previous: &ObjectSetStatus, verdict, seconds| {
        report_pass(previous, &delayed, outcome(verdict, true), 0, at(seconds))
    };
    let first = report(&ObjectSetStatus::default(), Verdict::Passed, 0);
    assert_eq!(types(&first.status), ["Available=True"]);
    // Whole seconds are kept, so one more makes sure that none is missing.
    assert_eq!(first.again, Again::After(std::time::Duration::from_secs(4)));
    let early = report(&first.status, Verdict::Passed, 2);
    assert_eq!(early.again, Again::After(std::time::Duration::from_secs(2)));
    let failing = Verdict::ProbeFailure {
        phase: "p".into(),
        failures: "x".into(),
    };
    let broken = report(&early.status, failing, 3);
    let anew = report(&broken.status, Verdict::Passed, 5);
    assert_eq!(anew.again, Again::After(std::time::Duration::from_secs(4)));
    let done = report(&anew.status, Verdict::Passed, 9);
    assert_eq!(types(&done.status), ["Available=True", "Succeeded=True"]);
}

#[test]
fn pause_is_told_and_taken_back() {
    let paused = Revision {
        lifecycle: LifecycleState::Paused,
        ..revision()
    };
    let now = Timestamp::UNIX_EPOCH;
    let status = report_pass(
        &ObjectSetStatus::default(),
        &paused,
        outcome(Verdict::Passed, true),
        0,
        now,
    )
    .status;
    assert!(types(&status).contains(&"Paused=True".to_owned()));
    let status = report_pass(&status, &revision(), outcome(Verdict::Passed, true), 0, now).status;
    assert!(!types(&status).contains(&"Paused=True".to_owned()));
}

#[test]
fn archival_and_deletion() {
    let now = Timestamp::UNIX_EPOCH;
    let before = report_pass(
        &ObjectSetStatus::default(),
        &revision(),
        outcome(Verdict::Passed, true),
        0,
        now,
    )
    .status;
    let waiting = TeardownOutcome::Waiting(Vec::new());
    let report = report_archival(&before, &revision(), waiting.clone(), now);
    assert!(report.is_interim && report_deletion(&before, waiting).is_interim);
    let going = report.status;
    assert_eq!(types(&going), ["Succeeded=True", "Archived=False"]);
    let report = report_archival(&going, &revision(), TeardownOutcome::Done, now);
    assert!(!report.is_interim);
    let done = report.status;
    assert_eq!(
        conditions(&done)[1..],
        ["Archived True Archived: ".to_owned()],
        "and what was true of it stays: {:?}",
        types(&done)
    );
    assert_eq!(done.phase, ObjectSetStatusPhase::Archived);
    let blocked = TeardownOutcome::Blocked("listing is forbidden".into());
    let report = report_archival(&before, &revision(), blocked.clone(), now);
    assert_eq!((report.again, report.is_interim), (Again::Backoff, false));
    assert!(
        report.status.conditions[1]
            .message
            .ends_with("listing is forbidden")
    );
    // Under deletion the conditions stay as they were.
    let report = report_deletion(&before, blocked);
    assert_eq!(report.status.conditions, before.conditions);
    assert_eq!(report.status.waiting_for[0].message, "listing is forbidden");
}

#[test]
fn improvement_25_messages_are_cut_to_what_the_schema_admits() {
    let text = "ä".repeat(40_000);
    let report = report_refusal(
        &ObjectSetStatus::default(),
        &revision(),
        "PreflightError",
        &[text],
        Timestamp::UNIX_EPOCH,
    );
    let length = report.status.conditions[0].message.len();
    assert!((32_000..=32_768).contains(&length), "{length}");
}
