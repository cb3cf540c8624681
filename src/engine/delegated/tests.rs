use baton_apis::{
    LifecycleState, ObjectSetPhaseStatus, ObjectSetStatus, conditions::messages, constants,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::*;
use crate::engine::{
    Answer, Gvk, ObjectKey, Request,
    conditions::{Again, Report, report_pass, report_phase, report_phase_unknown},
    handover::{Kin, Lineage},
    object::Identity,
    pass::{Outcome, Pass, Snapshot, Step, Verdict},
    probes::Probes,
    revision::{Delivery, KindScope, Kinds, Phase, Revision, duplicates, prepare, violations},
    slot::Live,
    teardown::{Teardown, TeardownOutcome},
};

struct Alone;

impl Lineage for Alone {
    fn kin(&self, _: &str) -> Option<Kin> {
        None
    }

    fn taken_by_newer(&self, _: &ObjectKey) -> Option<String> {
        None
    }
}

fn revision() -> Revision {
    Revision {
        identity: Identity {
            kind: "ObjectSet".into(),
            namespace: "ns".into(),
            name: "v1".into(),
            uid: "me".into(),
            is_remote: false,
        },
        number: 1,
        generation: 3,
        ..Revision::default()
    }
}

fn kinds() -> Kinds {
    Kinds::from([
        (Gvk::new("v1", "ConfigMap"), KindScope::Namespaced),
        (Gvk::new("v1", "Namespace"), KindScope::Cluster),
    ])
}

/// A phase object in its second generation that says this of `Available`.
fn says(status: &str, reason: &str, message: &str) -> PhaseState {
    PhaseState {
        uid: "phase".to_owned(),
        generation: 2,
        is_ours: true,
        conditions: vec![condition(AVAILABLE, status, reason, message)],
        ..PhaseState::default()
    }
}

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Condition {
    Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: Some(2),
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
    }
}

fn done() -> PhaseState {
    let key = ObjectKey {
        kind: "ConfigMap".into(),
        namespace: "ns".into(),
        name: "far".into(),
        ..ObjectKey::default()
    };
    PhaseState {
        controller_of: vec![crate::engine::object::controlled_reference(&key)],
        ..says("True", "Available", messages::AVAILABLE)
    }
}

/// Three phases with an object each, `near`, `far` and `last`; the one in the middle is delegated.
fn phases(revision: &Revision, state: Option<PhaseState>) -> Vec<Phase> {
    let phase = |name: &str| {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "ns"}});
        let phase = json!({"name": format!("p-{name}"), "objects": [{ "object": object }]});
        serde_json::from_value(phase).unwrap()
    };
    let mut phases = prepare(revision, ["near", "far", "last"].map(phase).into());
    phases[1].delegated = Some(Delegated {
        kind: "ObjectSetPhase",
        namespace: "ns".to_owned(),
        name: "v1-p-far".to_owned(),
        manifest: json!({"the": "manifest"}),
        state,
    });
    phases
}

/// Leads a pass to its end; what was asked, and the outcome. Everything about objects is accepted.
fn pass(
    revision: &Revision,
    state: Option<PhaseState>,
    answer: impl Fn(&Delegation) -> DelegationAnswer,
) -> (String, Outcome) {
    let phases = phases(revision, state);
    let probes = Probes::compile(&[]).unwrap();
    let kinds = kinds();
    let snapshot = Snapshot {
        revision,
        phases: &phases,
        probes: &probes,
        kinds: &kinds,
        lineage: &Alone,
    };
    let mut pass = Pass::new(snapshot, |_| (Live::Uncached, None));
    let mut asked = Vec::new();
    loop {
        match pass.step() {
            Step::Send(requests) => {
                for (at, request) in requests {
                    let (Request::DryRunCreate(body) | Request::Create(body)) = &request else {
                        panic!("{request:?}")
                    };
                    if matches!(request, Request::Create(_)) {
                        asked.push(phases[at.phase].objects[0].key.name.clone());
                    }
                    pass.answer(at, &request, Answer::Created(body.clone()));
                }
            }
            Step::Delegate(phase, delegation) => {
                assert_eq!(phase, 1);
                asked.push(format!("{delegation:?}"));
                pass.delegated(phase, answer(&delegation));
            }
            Step::Done => break,
        }
    }
    (asked.join(" "), pass.outcome())
}

fn nothing(_: &Delegation) -> DelegationAnswer {
    panic!("nothing was to be asked")
}

/// Making it is no failed pass (improvement 29): its report is an event, and nothing is tried again.
#[test]
fn improvement_29_a_phase_object_is_made_when_its_phase_is_reached() {
    let answer = |_: &Delegation| {
        DelegationAnswer::Object(PhaseState {
            uid: "new".to_owned(),
            is_ours: true,
            ..PhaseState::default()
        })
    };
    let (asked, outcome) = pass(&revision(), None, answer);
    assert_eq!(asked, "near Create(Object {\"the\": String(\"manifest\")})");
    assert_eq!(
        outcome.verdict,
        Verdict::Delegated {
            phase: "p-far".to_owned(),
            status: "False".to_owned(),
            reason: reasons::PROBE_FAILURE,
            message: "no status reported".to_owned(),
            is_silent: true,
        }
    );
    let status = ObjectSetStatus::default();
    let report = report_pass(
        &status,
        &revision(),
        outcome.clone(),
        0,
        Timestamp::UNIX_EPOCH,
    );
    assert_eq!(report.again, Again::OnEvent);
    assert!(!outcome.controls_all);
    assert_eq!(outcome.remote_phases[0].name, "v1-p-far");
    assert_eq!(outcome.remote_phases[0].uid, "new");
    assert_eq!(outcome.waiting_for[0].kind, "ObjectSetPhase");
}

#[test]
fn later_phases_follow_a_delegated_one_that_is_done() {
    let mut state = done();
    let mapped = condition("example.com/Ready", "True", "Ready", "");
    let mut outdated = condition("example.com/Old", "True", "Old", "");
    outdated.observed_generation = Some(1);
    state.conditions.extend([mapped, outdated]);
    let (asked, outcome) = pass(&revision(), Some(state), nothing);
    assert_eq!(asked, "near last");
    assert_eq!(outcome.verdict, Verdict::Passed);
    let names: Vec<_> = outcome.controller_of.iter().map(|o| &*o.name).collect();
    assert_eq!(names, ["near", "far", "last"]);
    assert!(outcome.controls_all && outcome.pause_agreed);
    let mapped: Vec<_> = outcome.mapped.iter().map(|c| &*c.type_).collect();
    assert_eq!(mapped, ["example.com/Ready"]);
    // It reports what it controls, so objects that others hold are missed.
    let mut less = done();
    less.controller_of.clear();
    assert!(!pass(&revision(), Some(less), nothing).1.controls_all);
}

fn report(previous: &ObjectSetStatus, revision: &Revision, outcome: &Outcome) -> Report {
    report_pass(
        previous,
        revision,
        outcome.clone(),
        0,
        Timestamp::UNIX_EPOCH,
    )
}

/// All is well, and these objects are the revision's own.
fn controls(names: &[&str]) -> Outcome {
    let key = |name: &&str| ObjectKey {
        kind: "ConfigMap".into(),
        namespace: "ns".into(),
        name: (*name).to_owned(),
        ..ObjectKey::default()
    };
    let keys = names.iter().map(key);
    Outcome {
        controller_of: keys
            .map(|key| crate::engine::object::controlled_reference(&key))
            .collect(),
        controls_all: names.len() == 3,
        deeds: Vec::new(),
        ..pass(&revision(), Some(done()), nothing).1
    }
}

/// Nothing but the phase object was made, or was found as it was made.
fn silent() -> Outcome {
    let made = |_: &Delegation| {
        DelegationAnswer::Object(PhaseState {
            uid: "new".to_owned(),
            is_ours: true,
            ..PhaseState::default()
        })
    };
    Outcome {
        deeds: Vec::new(),
        ..pass(&revision(), None, made).1
    }
}

fn edited() -> Revision {
    Revision {
        generation: 4,
        ..revision()
    }
}

/// That a phase object has not reported is no news for a moment.
#[test]
fn a_silence_may_be_held_back() {
    let tells = |status, reason| Outcome {
        deeds: Vec::new(),
        ..pass(&revision(), Some(says(status, reason, "x")), nothing).1
    };
    let has_written = Outcome {
        deeds: pass(&revision(), Some(done()), nothing).1.deeds,
        ..silent()
    };
    let new = ObjectSetStatus::default();
    let available = report(&new, &revision(), &controls(&["near", "far", "last"])).status;
    for (case, previous, revision, outcome, expected) in [
        ("just made", &new, revision(), silent(), true),
        ("objects were written", &new, revision(), has_written, false),
        (
            "probes",
            &new,
            revision(),
            tells("False", "ProbeFailure"),
            false,
        ),
        (
            "a lost site",
            &new,
            revision(),
            tells("Unknown", "ClusterUnreachable"),
            false,
        ),
        (
            "available till now",
            &available,
            revision(),
            silent(),
            false,
        ),
        // Its conditions speak of an older generation, and say so.
        ("edited since", &available, edited(), silent(), true),
    ] {
        let report = report(previous, &revision, &outcome);
        assert_eq!(report.is_interim, expected, "{case}: {report:?}");
    }
}

/// That some objects are another revision's now is no news while more of them follow.
#[test]
fn a_part_of_a_handover_may_be_held_back() {
    let new = ObjectSetStatus::default();
    let all = report(&new, &revision(), &controls(&["near", "far", "last"])).status;
    let left = report(&all, &revision(), &controls(&["last"])).status;
    for (case, previous, revision, names, expected) in [
        ("none before", &new, revision(), &["last"][..], false),
        ("some go", &all, revision(), &["last"], true),
        ("fewer go", &all, revision(), &["far", "last"], true),
        ("the last one goes", &left, revision(), &[], false),
        ("one comes back", &left, revision(), &["far", "last"], false),
        ("others than before", &all, revision(), &["other"], false),
        ("an edit as well", &all, edited(), &["last"], false),
    ] {
        let report = report(previous, &revision, &controls(names));
        assert_eq!(report.is_interim, expected, "{case}: {report:?}");
    }
}

/// What a phase object tells, and what a revision makes of it: `Available` and the reason.
#[test]
fn what_phase_objects_tell() {
    let outdated = PhaseState {
        generation: 3,
        ..done()
    };
    let going = PhaseState {
        is_deleting: true,
        ..done()
    };
    let foreign = PhaseState {
        is_ours: false,
        ..done()
    };
    let prefix = "Phase \"p-far\" failed: ";
    let unreachable = says("Unknown", "ClusterUnreachable", "gone");
    for (state, expected) in [
        (says("False", "ProbeFailure", "x"), format!("False ProbeFailure {prefix}x")),
        (says("False", "PreflightError", "x"), format!("False PreflightError {prefix}x")),
        (says("False", "CollisionDetected", "x"), format!("False CollisionDetected {prefix}x")),
        // Words of other controllers are no reasons of ours.
        (says("False", "Whatever", "x"), format!("False ProbeFailure {prefix}x")),
        (unreachable, format!("Unknown ClusterUnreachable {prefix}gone")),
        (outdated, format!("False ProbeFailure {prefix}no status reported")),
        (going, format!("False ProbeFailure {prefix}being deleted")),
        (foreign, "False CollisionDetected Phase \"p-far\", ObjectSetPhase v1-p-far: refusing adoption, it belongs to another owner, or to none".to_owned()),
    ] {
        let (_, outcome) = pass(&revision(), Some(state), nothing);
        let status = ObjectSetStatus::default();
        let report = report_pass(&status, &revision(), outcome, 0, Timestamp::UNIX_EPOCH);
        let available = report.status.conditions.iter().find(|c| c.type_ == AVAILABLE).unwrap();
        assert_eq!(
            format!("{} {} {}", available.status, available.reason, available.message),
            expected
        );
        assert!(report.status.conditions.iter().all(|c| c.type_ != "Succeeded"));
    }
}

#[test]
fn requests_that_fail_are_told_or_tried_again() {
    let refused = |_: &Delegation| DelegationAnswer::Refused("quota".to_owned());
    let (_, outcome) = pass(&revision(), None, refused);
    let text = "Phase \"p-far\", ObjectSetPhase v1-p-far: quota".to_owned();
    assert_eq!(outcome.verdict, Verdict::Preflight(vec![text]));
    for answer in [
        DelegationAnswer::Failed("no route".to_owned()),
        DelegationAnswer::Changed,
    ] {
        let (_, outcome) = pass(&revision(), None, |_| answer.clone());
        assert!(matches!(outcome.verdict, Verdict::Failed(_)));
    }
}

#[test]
fn a_pause_reaches_phases_that_the_pass_does_not() {
    let mut paused = revision();
    paused.lifecycle = LifecycleState::Paused;
    let follow = |delegation: &Delegation| {
        let Delegation::Pause(paused) = *delegation else {
            panic!("{delegation:?}")
        };
        DelegationAnswer::Object(PhaseState {
            paused,
            generation: 3,
            ..done()
        })
    };
    // `near` is missing and not made while paused, so the phase is not reached.
    let (asked, outcome) = pass(&paused, Some(done()), follow);
    assert_eq!(asked, "Pause(true)");
    assert!(!outcome.pause_agreed);
    let told = |revision: &Revision, outcome| {
        let report = report_pass(
            &ObjectSetStatus::default(),
            revision,
            outcome,
            0,
            Timestamp::UNIX_EPOCH,
        );
        let conditions = report.status.conditions.into_iter();
        let paused = conditions.into_iter().find(|c| c.type_ == PAUSED);
        paused.map(|c| format!("{} {} {}", c.status, c.reason, c.message))
    };
    assert_eq!(
        told(&paused, outcome).as_deref(),
        Some("Unknown PartiallyPaused Waiting for ObjectSetPhases.")
    );
    let mut state = PhaseState {
        paused: true,
        ..done()
    };
    let reported = condition(PAUSED, "True", "Paused", messages::PAUSED);
    state.conditions.push(reported);
    let (asked, outcome) = pass(&paused, Some(state.clone()), nothing);
    assert_eq!(asked, "");
    assert_eq!(
        told(&paused, outcome).as_deref(),
        Some("True Paused Lifecycle state set to paused.")
    );
    // And back.
    let (asked, outcome) = pass(&revision(), Some(state.clone()), |_| {
        DelegationAnswer::Object(PhaseState {
            paused: false,
            ..state.clone()
        })
    });
    assert_eq!(asked, "Pause(false) near last");
    assert_eq!(
        told(&revision(), outcome).as_deref(),
        Some("Unknown PartiallyPaused Waiting for ObjectSetPhases.")
    );
}

#[test]
fn a_teardown_waits_for_the_phase_object() {
    let tear_down = |state: Option<PhaseState>, answers: Vec<DelegationAnswer>| {
        let revision = revision();
        let phases = phases(&revision, state);
        let kinds = kinds();
        let mut teardown = Teardown::new(&revision, &phases, &kinds, |_| Live::Gone);
        let mut answers = answers.into_iter();
        let mut asked = Vec::new();
        while let Step::Delegate(phase, delegation) = teardown.step() {
            asked.push(format!("{delegation:?}"));
            teardown.delegated(phase, answers.next().unwrap());
        }
        let outcome = match teardown.outcome() {
            TeardownOutcome::Done => "done".to_owned(),
            TeardownOutcome::Waiting(objects) => format!("waits: {}", objects[0].message),
            TeardownOutcome::Failed(objects) => format!("failed: {}", objects[0].message),
            TeardownOutcome::Blocked(text) => text,
        };
        (asked.join(" "), outcome)
    };
    let is = |state| DelegationAnswer::Object(state);
    let going = || PhaseState {
        is_deleting: true,
        ..done()
    };
    let foreign = || PhaseState {
        is_ours: false,
        ..done()
    };
    let lost = PhaseState {
        is_deleting: true,
        ..says("Unknown", "ClusterUnreachable", "the site is gone")
    };
    let table = [
        (
            Some(done()),
            vec![is(going())],
            "Delete",
            "waits: being deleted",
        ),
        (Some(going()), vec![], "", "waits: being deleted"),
        (Some(lost), vec![], "", "waits: the site is gone"),
        // Left behind, or somebody else's: not ours to delete.
        (Some(foreign()), vec![], "", "done"),
        // The watch may not know yet of one that was made: only the server says that there is none.
        (None, vec![DelegationAnswer::Gone], "Get", "done"),
        (
            None,
            vec![is(done()), is(going())],
            "Get Delete",
            "waits: being deleted",
        ),
        (
            Some(done()),
            vec![DelegationAnswer::Changed, DelegationAnswer::Gone],
            "Delete Get",
            "done",
        ),
        (
            Some(done()),
            vec![DelegationAnswer::Refused("no".to_owned())],
            "Delete",
            "failed: no",
        ),
    ];
    for (state, answers, asked, outcome) in table {
        let text = format!("{state:?}");
        let expected = (asked.to_owned(), outcome.to_owned());
        assert_eq!(tear_down(state, answers), expected, "{text}");
    }
}

#[test]
fn phase_objects_report_less_than_revisions() {
    let mut own = revision();
    own.delivery = Delivery::Delegated;
    let now = Timestamp::UNIX_EPOCH;
    let outcome = Outcome {
        verdict: Verdict::ProbeFailure {
            phase: "a".to_owned(),
            failures: "x".to_owned(),
        },
        ..pass(&revision(), Some(done()), nothing).1
    };
    let fresh = ObjectSetPhaseStatus::default();
    let (status, again) = report_phase(&fresh, &own, outcome, 0, now);
    let types: Vec<_> = status.conditions.iter().map(|c| &*c.type_).collect();
    assert_eq!((types, again), (vec![AVAILABLE], Again::OnEvent));
    // The revision puts the name of the phase before it.
    assert_eq!(status.conditions[0].message, "x");
    assert_eq!(status.controller_of.len(), 3);
    // Nothing could be found out: what is controlled is not forgotten.
    let cause = ("Unknown", reasons::CLUSTER_UNREACHABLE);
    let lost = report_phase_unknown(&status, &own, cause, "gone", now);
    assert_eq!(lost.controller_of, status.controller_of);
    assert_eq!(lost.conditions[0].status, "Unknown");
}

#[test]
fn names_of_phase_objects() {
    let [plain, other] = names("a-b", "c");
    assert_eq!(plain, "a-b-c");
    assert_eq!(plain, names("a", "b-c")[0]);
    assert_ne!(other, names("a", "b-c")[1]);
    assert!(other.starts_with("a-b-c-") && other.len() == "a-b-c-".len() + 8);
    let long = "x".repeat(80);
    assert_eq!(names(&long, "y")[1].len(), 63);
    for length in 0..70 {
        let name = format!("{}ä€", "x".repeat(length));
        assert!(names("v1", &name)[1].len() <= 63);
    }
    let fault = |name: &str| {
        let delegated = Delegated {
            kind: "ObjectSetPhase",
            name: name.to_owned(),
            ..Delegated::default()
        };
        delegated.fault().is_some()
    };
    for (name, expected) in [
        ("web-v1-deploy", false),
        (&*"x".repeat(63), false),
        (&*"x".repeat(64), true),
        ("web.v1-deploy", true),
        ("1-a", true),
        ("a-", true),
        ("a-B", true),
    ] {
        assert_eq!(fault(name), expected, "{name}");
    }
}

#[test]
fn two_delegated_phases_need_two_names() {
    let revision = revision();
    let mut phases = phases(&revision, None);
    phases[2].delegated = phases[1].delegated.clone();
    assert_eq!(
        duplicates(&phases),
        ["Phase \"p-last\", ObjectSetPhase v1-p-far: Duplicate Object"]
    );
}

/// Contract 6.6: what the manifests of delegated phases may be, and what becomes of them.
#[test]
fn manifests_of_delegated_phases() {
    let prepared = |delivery, manifest: &Value| {
        let revision = Revision {
            delivery,
            package: Some("p".to_owned()),
            ..revision()
        };
        let phase = json!({"name": "a", "objects": [{ "object": manifest }]});
        let phases = prepare(&revision, vec![serde_json::from_value(phase).unwrap()]);
        let texts = violations(&revision, &phases[0], &kinds());
        (phases[0].objects[0].manifest.clone(), texts)
    };
    let cm =
        |metadata: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    let (body, texts) = prepared(
        Delivery::Delegated,
        &cm(json!({"name": "a", "namespace": "ns"})),
    );
    assert!(texts.is_empty(), "{texts:?}");
    assert_eq!(
        body["metadata"]["labels"][constants::LABEL_MANAGED_BY],
        "boxcutter"
    );
    // Improvement 12: a user's own value stays.
    let own =
        json!({"name": "a", "namespace": "ns", "labels": {constants::LABEL_MANAGED_BY: "me"}});
    let (body, _) = prepared(Delivery::Delegated, &cm(own));
    assert_eq!(
        body["metadata"]["labels"][constants::LABEL_MANAGED_BY],
        "me"
    );
    let elsewhere = cm(json!({"name": "a", "namespace": "other"}));
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}});
    for (delivery, manifest, expected) in [
        (
            Delivery::Delegated,
            cm(json!({"name": "a"})),
            Some("ConfigMap /a: object must be in namespace \"ns\", actual \"\""),
        ),
        (
            Delivery::Delegated,
            elsewhere.clone(),
            Some("ConfigMap other/a: object must be in namespace \"ns\", actual \"other\""),
        ),
        (
            Delivery::Delegated,
            namespace.clone(),
            Some("Namespace /a: object must be namespace-scoped"),
        ),
        (Delivery::Remote, elsewhere, None),
        (Delivery::Remote, namespace, None),
        (
            Delivery::Remote,
            cm(json!({"name": "a"})),
            Some("ConfigMap /a: Object doesn't have a namespace and no default is provided."),
        ),
        (
            Delivery::Remote,
            cm(json!({"name": "a", "namespace": "x", "generateName": "b"})),
            Some("ConfigMap x/a: metadata.generateName must not be set."),
        ),
        (
            Delivery::Remote,
            cm(json!({"name": "a", "namespace": "x", "finalizers": []})),
            None,
        ),
    ] {
        let (_, texts) = prepared(delivery, &manifest);
        let expected: Vec<_> = expected
            .into_iter()
            .map(|text| format!("Phase \"a\", {text}"))
            .collect();
        assert_eq!(texts, expected, "{delivery:?} {manifest}");
    }
}
