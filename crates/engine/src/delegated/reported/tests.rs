use baton_apis::{ConditionMapping, EndedOutcome, ObjectSetObject};
use proptest::prelude::*;
use serde_json::json;

use super::*;

const GENERATION: i64 = 3;

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

/// A phase of two objects; the first one maps a condition.
fn spec() -> ObjectSetPhaseSpec {
    let entry = |api: &str, kind: &str, name: &str, mapped: &[&str]| ObjectSetObject {
        object: json!({"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": "shop"}}),
        condition_mappings: mapped
            .iter()
            .map(|type_| ConditionMapping {
                source_type: "Ready".to_owned(),
                destination_type: (*type_).to_owned(),
            })
            .collect(),
        ..ObjectSetObject::default()
    };
    ObjectSetPhaseSpec {
        objects: vec![
            entry("apps/v1", "Deployment", "web", &["example.com/Ready"]),
            entry("v1", "ConfigMap", "settings", &[]),
        ],
        ..ObjectSetPhaseSpec::default()
    }
}

fn accept_after(
    accepted: &ObjectSetPhaseStatus,
    reported: ObjectSetPhaseStatus,
) -> ObjectSetPhaseStatus {
    let phase = ReportedPhase {
        spec: &spec(),
        generation: GENERATION,
        content_hash: "hash",
        accepted,
        now: now(),
    };
    phase.accept(reported)
}

fn accept(reported: ObjectSetPhaseStatus) -> ObjectSetPhaseStatus {
    accept_after(&ObjectSetPhaseStatus::default(), reported)
}

fn condition(type_: &str, seconds: i64) -> Condition {
    Condition {
        type_: type_.to_owned(),
        status: "True".to_owned(),
        reason: "Because".to_owned(),
        message: "m".to_owned(),
        observed_generation: Some(GENERATION),
        last_transition_time: Time(now() + SignedDuration::from_secs(seconds)),
    }
}

fn reference(group: &str, kind: &str, name: &str) -> ControlledObjectReference {
    ControlledObjectReference {
        kind: kind.to_owned(),
        group: group.to_owned(),
        name: name.to_owned(),
        version: String::new(),
        namespace: Some("shop".to_owned()),
    }
}

fn ended(name: &str) -> EndedObject {
    EndedObject {
        group: "apps".to_owned(),
        kind: "Deployment".to_owned(),
        name: name.to_owned(),
        namespace: Some("shop".to_owned()),
        outcome: EndedOutcome::Failed,
        message: Some("m".to_owned()),
    }
}

/// The report of an agent that does what it should.
fn honest() -> ObjectSetPhaseStatus {
    let types = [AVAILABLE, PAUSED, "example.com/Ready", STARTED, STOPPED];
    let types = types.into_iter().chain([DISPUTED]).chain(GENERAL);
    ObjectSetPhaseStatus {
        observed_generation: Some(GENERATION),
        conditions: types.map(|type_| condition(type_, -10)).collect(),
        controller_of: vec![
            reference("apps", "Deployment", "web"),
            reference("", "ConfigMap", "settings"),
        ],
        ended: vec![ended("web")],
        content_hash: Some("hash".to_owned()),
        stopped_for: Some("5f0c7f0e-8f1e-4b63-9d2c-0d6f3e3f8a11".to_owned()),
    }
}

#[test]
fn an_honest_report_is_accepted_as_it_is() {
    assert_eq!(accept(honest()), honest());
}

#[test]
fn contents_that_a_phase_cannot_have_are_left_out() {
    type Forge = fn(&mut ObjectSetPhaseStatus);
    let forgeries: [(&str, Forge); 11] = [
        ("another object", |it| {
            it.controller_of.push(reference("", "Secret", "settings"));
        }),
        ("an object twice", |it| {
            it.controller_of.extend(it.controller_of.clone());
        }),
        ("an object in a version", |it| {
            it.controller_of[0].version = "v9".to_owned();
        }),
        ("another ended object", |it| it.ended.push(ended("db"))),
        ("an ended object twice", |it| it.ended.push(ended("web"))),
        ("another mapped condition", |it| {
            it.conditions.push(condition("example.com/Approved", -10));
        }),
        ("a condition of a revision", |it| {
            it.conditions.push(condition("Succeeded", -10));
        }),
        ("the end of the phase", |it| {
            it.conditions.push(condition("Archived", -10));
        }),
        ("a condition twice", |it| {
            it.conditions.push(condition(AVAILABLE, -20));
        }),
        ("a later generation", |it| {
            let mut later = condition("Progressing", -10);
            later.observed_generation = Some(GENERATION + 1);
            it.conditions.push(later);
        }),
        ("a negative generation", |it| {
            let mut negative = condition("Progressing", -10);
            negative.observed_generation = Some(-1);
            it.conditions.push(negative);
        }),
    ];
    for (text, forge) in forgeries {
        let mut forged = honest();
        forge(&mut forged);
        assert_eq!(accept(forged), honest(), "{text}");
    }
    let mut forged = honest();
    forged.conditions[0].observed_generation = Some(GENERATION + 1);
    forged.observed_generation = Some(GENERATION + 1);
    forged.content_hash = Some("other".to_owned());
    forged.stopped_for = Some("x".repeat(MAX_UID + 1));
    let mut expected = honest();
    expected.conditions.remove(0);
    expected.observed_generation = None;
    expected.content_hash = None;
    expected.stopped_for = None;
    assert_eq!(accept(forged), expected);
}

/// A wrong hash would refuse the manifests of the phase for good.
#[test]
fn the_hash_of_the_manifests_stays_as_it_was_accepted_first() {
    for reported in [None, Some("other"), Some("hash")] {
        let reported = ObjectSetPhaseStatus {
            content_hash: reported.map(ToOwned::to_owned),
            ..honest()
        };
        assert_eq!(accept_after(&honest(), reported), honest());
    }
}

#[test]
fn a_time_in_the_future_is_replaced_once() {
    let at = |seconds| ObjectSetPhaseStatus {
        conditions: vec![condition(STARTED, seconds)],
        ..ObjectSetPhaseStatus::default()
    };
    assert_eq!(accept(at(200)), at(200), "clocks differ");
    assert_eq!(accept(at(301)), at(0));
    assert_eq!(
        accept_after(&at(-50), at(301)),
        at(-50),
        "it was accepted before"
    );
    let mut other = at(-50);
    other.conditions[0].status = "False".to_owned();
    assert_eq!(
        accept_after(&other, at(301)),
        at(0),
        "the status has changed"
    );
    let mut last = at(0);
    last.conditions[0].last_transition_time = Time(Timestamp::MAX);
    assert_eq!(accept(last), at(0));
}

fn any_status() -> impl Strategy<Value = ObjectSetPhaseStatus> {
    let types = prop::sample::select(vec![
        AVAILABLE,
        PAUSED,
        STARTED,
        "example.com/Ready",
        "Ready",
        "Mine",
        "a/B",
    ]);
    let text = (".{0,20}", 0_usize..40_000).prop_map(|(text, times)| text.repeat(times / 20));
    let parts = (
        types,
        ".{0,4}",
        ".{0,8}",
        text,
        any::<i64>(),
        -1_000_000_000_i64..1_000_000_000,
    );
    let conditions =
        parts.prop_map(
            |(type_, status, reason, message, generation, seconds)| Condition {
                status,
                reason,
                message,
                observed_generation: Some(generation % 5),
                ..condition(type_, seconds)
            },
        );
    let name = prop::sample::select(vec!["web", "settings", "other", ""]);
    let objects = prop::collection::vec((prop::sample::select(vec!["", "apps"]), name), 0..50);
    (
        prop::collection::vec(conditions, 0..30),
        objects,
        ".{0,300}",
    )
        .prop_map(|(conditions, objects, text)| ObjectSetPhaseStatus {
            observed_generation: i64::try_from(text.len()).ok(),
            conditions,
            ended: objects.iter().map(|(_, name)| ended(name)).collect(),
            controller_of: objects
                .iter()
                .map(|(group, name)| reference(group, "Deployment", name))
                .collect(),
            content_hash: Some(text.clone()),
            stopped_for: Some(text),
        })
}

proptest! {
    /// No report makes a status large, and an accepted one causes no further write.
    #[test]
    fn every_report_is_bounded_and_stable(reported in any_status()) {
        let accepted = accept(reported.clone());
        let bytes = serde_json::to_string(&accepted).unwrap().len();
        prop_assert!(bytes < 10 * MAX_MESSAGE_LENGTH * 2, "{bytes}");
        prop_assert!(accepted.controller_of.len() <= 2 && accepted.ended.len() <= 2);
        prop_assert_eq!(accept_after(&accepted, accepted.clone()), accepted.clone());
        prop_assert_eq!(accept_after(&accepted, reported), accepted);
    }
}
