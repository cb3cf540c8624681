use baton_apis::constants::LABEL_CHAIN;
use baton_engine::revision::Reach;
use baton_fleet::mirror::{self, Origin, QueuePosition};
use baton_records::{
    phase::PhaseKind,
    record::Record,
    revision::{RevisionKind::ObjectSet, RevisionRecord},
};
use baton_sites::terms::OwnerTerms;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Value, json};

use super::*;
use crate::delivery::site_chain::on_site_phase;

const NOW: &str = "2026-01-01T12:00:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn times() -> Times {
    Times {
        now: now(),
        uptime: Uptime::default(),
    }
}

/// The conditions for a state in one word.
fn conditions(word: &str) -> Value {
    let condition = |type_: &str, status: &str, reason: &str| {
        json!({"type": type_, "status": status, "reason": reason, "message": "m", "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    match word {
        "ok" => json!([
            condition(STARTED, "True", "Started"),
            condition("Available", "True", "Available")
        ]),
        "run" => json!([condition(STARTED, "True", "Started")]),
        "stop" => json!([condition(STARTED, "True", "Stopping")]),
        "bad" => json!([
            condition(STARTED, "False", "PreflightError"),
            condition("Available", "False", "PreflightError")
        ]),
        _ => json!([]),
    }
}

/// Number of the first revision that stops older ones.
const STOPS: i64 = 9;

fn metadata(number: i64) -> Value {
    let mut entry = json!({
        "deployment": "d", "site": "edge", "application": "shop", "version": format!("1.{number}.0"), "edit": "0",
        "rollout": 1, "batch": 1, "phases": ["a", "b"],
    });
    if number >= STOPS {
        entry["stop"] = "All".into();
    }
    json!({
        "namespace": "shop", "resourceVersion": number.to_string(), "generation": 1,
        "labels": {LABEL_CHAIN: "chain", "package-operator.run/phase-class": "cluster.edge"},
        "annotations": {ANNOTATION_SITE: entry.to_string()},
    })
}

fn revision(number: i64, lifecycle: &str) -> RevisionRecord {
    let mut metadata = metadata(number);
    metadata["name"] = format!("v{number}").into();
    metadata["uid"] = format!("u{number}").into();
    let phases = json!([{"name": "a", "class": "cluster.edge"}]);
    let object = json!({
        "metadata": metadata, "spec": {"revision": number, "lifecycleState": lifecycle, "phases": phases},
    });
    Record::read(ObjectSet, &object.to_string()).unwrap()
}

fn phase(number: i64, name: &str, word: &str) -> PhaseRecord {
    let mut metadata = metadata(number);
    metadata["name"] = format!("v{number}-{name}").into();
    metadata["uid"] = format!("p{number}-{name}").into();
    metadata["ownerReferences"] = json!([{"uid": format!("u{number}"), "controller": true}]);
    let object = json!({
        "metadata": metadata, "spec": {"revision": number, "objects": []}, "status": {"conditions": conditions(word)},
    });
    Record::read(PhaseKind(ObjectSet), &object.to_string()).unwrap()
}

/// A phase and its revisions, as an agent observes them.
fn mirrored(
    number: i64,
    name: &str,
    word: &str,
    has_begun: bool,
) -> (PhaseRecord, Vec<RevisionRecord>) {
    let origin = phase(number, name, word);
    let position = QueuePosition::of(&origin, Terms::default(), has_begun);
    let set = revision(number, "Active");
    let described = Origin::of(&origin, Some(&set), &[], Reach::default()).with_position(position);
    let key = mirror::key("edge", &origin);
    let mut object = mirror::manifest(&key, &origin, &described).unwrap();
    object["metadata"]["uid"] = format!("m{number}-{name}").into();
    object["metadata"]["resourceVersion"] = number.to_string().into();
    object["status"] = json!({"conditions": conditions(word)});
    let mirror = Record::read(mirror::KIND, &object.to_string()).unwrap();
    let read = Origin::read(&mirror).unwrap();
    (read.phase(&mirror), read.revisions(1).unwrap())
}

/// Revisions with two phases in these states, as a manager or an agent observes them.
fn observed(states: &[(i64, &str, &str)], is_agent: bool) -> Observed {
    let observed = Observed::default();
    for (number, a, b) in states {
        for (name, word) in [("a", *a), ("b", *b)] {
            if word == "none" {
                continue;
            }
            if is_agent {
                let (phase, revisions) = mirrored(*number, name, word, false);
                observed.phases.observe(phase);
                for revision in revisions {
                    observed.revisions.observe(revision);
                }
            } else {
                observed.phases.observe(phase(*number, name, word));
            }
        }
        if !is_agent {
            observed.revisions.observe(revision(*number, "Active"));
        }
    }
    observed
}

fn find(observed: &Observed, name: &str) -> Arc<PhaseRecord> {
    let found = observed.phases.filter(|phase| *phase.key.name == *name);
    found.into_iter().next().unwrap()
}

fn find_revision(observed: &Observed, name: &str) -> Arc<RevisionRecord> {
    let found = observed.revisions.of_chain("shop", "chain");
    let mut found = found.into_iter().filter(|it| *it.key.name == *name);
    found.next().unwrap()
}

fn available(status: &ObjectSetPhaseStatus) -> &Condition {
    status
        .conditions
        .iter()
        .find(|it| it.type_ == "Available")
        .unwrap()
}

fn answer(gate: &Gate) -> String {
    match gate {
        Gate::Open(SitePass::Trial(status)) => format!("check for {}", available(status).reason),
        Gate::Open(site) => format!("open {}", matches!(site, SitePass::Begun { .. })),
        Gate::Begin(status) => format!("begin {}", available(status).reason),
        Gate::Hold(status, (_, requeue)) => {
            let Condition {
                reason, message, ..
            } = available(status);
            format!("{reason}: {message} {requeue:?}")
        }
        Gate::Unknown => "unknown".to_owned(),
    }
}

fn gate_of(observed: &Observed, name: &str, terms: &Terms) -> Gate {
    ask(observed, &find(observed, name), |_| terms.clone(), times()).unwrap()
}

#[test]
fn managers_and_agents_see_the_same_queue() {
    for is_agent in [false, true] {
        for (states, name, expected) in [
            (&[(1, "-", "-")][..], "v1-a", "begin ProbeFailure"),
            (
                &[(1, "-", "-")],
                "v1-b",
                "Queued: Waits for phase \"a\". OnEvent",
            ),
            (&[(1, "ok", "-")], "v1-b", "begin ProbeFailure"),
            (&[(1, "ok", "ok")], "v1-b", "open true"),
            (
                &[(1, "ok", "ok"), (2, "-", "-")],
                "v2-a",
                "begin ProbeFailure",
            ),
            (
                &[(1, "ok", "run"), (2, "-", "-")],
                "v2-a",
                "Queued: Waits for version 1.1.0 (v1), which is not",
            ),
            // A revision without one of its phases is not available.
            (
                &[(1, "ok", "none"), (2, "-", "-")],
                "v2-a",
                "Queued: Waits for version 1.1.0 (v1), which is not",
            ),
            (
                &[(1, "ok", "ok"), (2, "-", "-"), (10, "-", "-")],
                "v10-a",
                "Queued: Waits for version 1.2.0 (v2)",
            ),
        ] {
            let observed = observed(states, is_agent);
            let answer = answer(&gate_of(&observed, name, &Terms::default()));
            assert!(answer.starts_with(expected), "{states:?} {name}: {answer}");
        }
    }
}

/// No workload stops for a version that its site refuses: the version is checked first, once.
#[test]
fn a_version_that_stops_others_is_checked_before_it_begins() {
    let waits =
        "Stopping: Waits until the workloads have stopped: phase \"a\" of version 1.1.0 (v1)";
    for is_agent in [false, true] {
        for (state, expected) in [
            ("-", "check for Stopping"),
            ("bad", "check for Stopping"),
            ("stop", waits),
        ] {
            let states = [(1, "ok", "ok"), (STOPS, state, "-")];
            let observed = observed(&states, is_agent);
            let gate = gate_of(&observed, "v9-a", &Terms::default());
            let said = answer(&gate);
            assert!(said.starts_with(expected), "{state}: {said}");
            let older = gate_of(&observed, "v1-a", &Terms::default());
            let Gate::Open(older) = older else {
                panic!("{}", answer(&older));
            };
            assert_eq!(older.stop_request().is_some(), state == "stop");
        }
        // A refused revision does not block later ones.
        let states = [(1, "ok", "ok"), (STOPS, "bad", "-"), (10, "-", "-")];
        let behind = gate_of(&observed(&states, is_agent), "v10-a", &Terms::default());
        assert_eq!(answer(&behind), "check for Stopping");
    }
}

#[test]
fn a_refused_phase_reports_whether_it_has_stopped() {
    let states = [(1, "run", "-"), (STOPS, "stop", "-")];
    let observed = observed(&states, false);
    let reported = |name: &str, has_objects| {
        let gate = gate_of(&observed, name, &Terms::default());
        let Gate::Open(site) = gate else {
            panic!("{}", answer(&gate));
        };
        let condition = site.when_refused(has_objects)?;
        Some(format!(
            "{} {} {}",
            condition.type_, condition.status, condition.reason
        ))
    };
    let stopped = Some("baton.run/Stopped True Stopped".to_owned());
    assert_eq!(reported("v1-a", false), stopped);
    assert_eq!(reported("v1-a", true), None);
    let check = SitePass::Trial(Box::default());
    let condition = check.when_refused(false).unwrap();
    assert_eq!(
        (&*condition.status, &*condition.reason),
        ("False", "PreflightError")
    );
}

/// A manager observes a revision before its phases exist; a revision that is being archived blocks
/// nothing.
#[test]
fn a_revision_without_phases_keeps_its_place_in_the_queue() {
    let observed = observed(
        &[(1, "ok", "ok"), (2, "none", "none"), (3, "-", "-")],
        false,
    );
    let waits = answer(&gate_of(&observed, "v3-a", &Terms::default()));
    assert!(
        waits.starts_with("Queued: Waits for version 1.2.0 (v2)"),
        "{waits}"
    );
    let mut leaving = revision(2, "Archived");
    leaving.resource_version = 9;
    observed.revisions.observe(leaving);
    assert_eq!(
        answer(&gate_of(&observed, "v3-a", &Terms::default())),
        "begin ProbeFailure"
    );
    let mut own = revision(3, "Archived");
    own.resource_version = 9;
    observed.revisions.observe(own);
    assert_eq!(
        answer(&gate_of(&observed, "v3-a", &Terms::default())),
        "unknown"
    );
}

/// An edit with an invalid probe, for example, is refused before it has any phase.
#[test]
fn a_revision_that_the_hub_refuses_does_not_block_the_next_one() {
    let observed = observed(
        &[(1, "ok", "ok"), (2, "none", "none"), (3, "-", "-")],
        false,
    );
    for (reason, expected) in [
        ("WriteError", "Queued: Waits for version 1.2.0 (v2)"),
        ("PreflightError", "begin ProbeFailure"),
    ] {
        let mut refused = RevisionRecord::clone(&find_revision(&observed, "v2"));
        refused.resource_version += 10;
        let status = json!({"conditions": [{
            "type": "Available", "status": "False", "reason": reason, "message": "m", "observedGeneration": 1,
            "lastTransitionTime": NOW,
        }]});
        let status = serde_json::from_value(status).unwrap();
        refused.set_status(&status).unwrap();
        observed.revisions.observe(refused);
        let answer = answer(&gate_of(&observed, "v3-a", &Terms::default()));
        assert!(answer.starts_with(expected), "{reason}: {answer}");
    }
    // If the revision has phases, their state counts.
    observed.phases.observe(phase(2, "a", "-"));
    let waits = answer(&gate_of(&observed, "v3-a", &Terms::default()));
    assert!(
        waits.starts_with("Queued: Waits for version 1.2.0 (v2)"),
        "{waits}"
    );
}

/// A mirror can show that its phase had begun before, although the mirror has no status yet.
#[test]
fn a_phase_that_had_begun_continues_after_it_moved_to_an_agent() {
    let observed = Observed::default();
    for (has_begun, expected) in [(false, "begin ProbeFailure"), (true, "open true")] {
        let (mut phase, revisions) = mirrored(1, "a", "-", has_begun);
        phase.resource_version += u64::from(has_begun);
        observed.phases.observe(phase);
        for revision in revisions {
            observed.revisions.observe(revision);
        }
        assert_eq!(
            answer(&gate_of(&observed, "v1-a", &Terms::default())),
            expected
        );
        assert_eq!(is_untouched(&find(&observed, "v1-a")).unwrap(), !has_begun);
    }
}

#[test]
fn a_wait_for_a_window_is_requeued_after_an_hour_at_most() {
    let observed = observed(&[(1, "ok", "ok"), (2, "-", "-")], false);
    for (cron, seconds) in [("0 14 * * *", 3600), ("10 12 * * *", 600)] {
        let owner = OwnerTerms {
            windows: vec![serde_json::from_value(json!({"cron": cron, "duration": "1m"})).unwrap()],
            ..OwnerTerms::default()
        };
        let terms = Terms {
            owner,
            ..Terms::default()
        };
        let Gate::Hold(status, (_, requeue)) = gate_of(&observed, "v2-a", &terms) else {
            panic!("it is not held");
        };
        assert_eq!(available(&status).reason, "Queued");
        assert_eq!(
            requeue,
            Requeue::After(Duration::from_secs(seconds)),
            "{cron}"
        );
        // The message does not change while the phase waits, so that nothing is written.
        let later = ask(
            &observed,
            &find(&observed, "v2-a"),
            |_| terms.clone(),
            Times {
                now: now() + Duration::from_secs(99),
                ..times()
            },
        );
        let Gate::Hold(later, _) = later.unwrap() else {
            panic!("it is not held");
        };
        assert_eq!(available(&later).message, available(&status).message);
    }
}

#[test]
fn an_unreadable_phase_is_refused_and_blocks_no_other() {
    let observed = observed(&[(1, "ok", "ok"), (2, "-", "-")], false);
    let mut damaged = phase(2, "a", "-");
    let annotation = |phase: &mut PhaseRecord, text: &str| {
        phase
            .annotations
            .insert(ANNOTATION_SITE.to_owned(), text.to_owned());
    };
    annotation(&mut damaged, "{");
    let refused = answer(&ask(&observed, &damaged, |_| Terms::default(), times()).unwrap());
    assert!(
        refused.starts_with("PreflightError: annotation baton.run/site: "),
        "{refused}"
    );
    let other = find(&observed, "v2-b").annotations[ANNOTATION_SITE].replace("\"a\"", "\"c\"");
    annotation(&mut damaged, &other);
    let unlisted = answer(&ask(&observed, &damaged, |_| Terms::default(), times()).unwrap());
    assert!(
        unlisted.ends_with("phases: this phase is not listed OnEvent"),
        "{unlisted}"
    );
    // A running phase continues.
    let mut running = phase(1, "a", "ok");
    annotation(&mut running, "{");
    assert_eq!(
        answer(&ask(&observed, &running, |_| Terms::default(), times()).unwrap()),
        "open true"
    );
    let mut none = phase(1, "a", "-");
    none.annotations.clear();
    assert_eq!(
        answer(&ask(&observed, &none, |_| panic!("asked"), times()).unwrap()),
        "open false"
    );
}

#[test]
fn a_changed_phase_wakes_the_phases_that_wait_for_it() {
    for is_agent in [false, true] {
        let observed = observed(&[(1, "run", "-"), (2, "-", "-")], is_agent);
        let before = find(&observed, "v1-a");
        let changed = |word: &str| {
            let mut after = PhaseRecord::clone(&before);
            let status = json!({"conditions": conditions(word)});
            after
                .set_status(&serde_json::from_value(status).unwrap())
                .unwrap();
            after
        };
        let woken = |old: Option<&PhaseRecord>, new: Option<&PhaseRecord>| {
            let mut names: Vec<_> = on_site_phase(&observed, old, new)
                .into_iter()
                .map(|wake| wake.key.name.to_string())
                .collect();
            names.sort();
            names.join(" ")
        };
        let all = "v1-b v2-a v2-b";
        assert_eq!(woken(Some(&before), Some(&changed("run"))), "");
        assert_eq!(woken(Some(&before), Some(&changed("ok"))), all);
        assert_eq!(woken(Some(&before), None), all);
        assert_eq!(woken(None, Some(&before)), all);
        let mut going = changed("run");
        going.deleting = true;
        assert_eq!(woken(Some(&before), Some(&going)), all);
        let mut other = changed("ok");
        other.annotations.remove(ANNOTATION_SITE);
        assert_eq!(woken(None, Some(&other)), "");
    }
}
