//! Objects that have run to their end and do not exist any more.

use baton_apis::{EndedObject, EndedOutcome, ObjectSetProbe};
use baton_probes::Probes;

use super::*;
use crate::ended::by_object;

const JOB: &str =
    "{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {ttlSecondsAfterFinished: 0}}";

/// The last state of the Job, with this condition.
fn last(type_: &str) -> Value {
    let mut last = live("2", "me*");
    last["kind"] = "Job".into();
    last["spec"] = json!({"ttlSecondsAfterFinished": 0});
    last["status"] = json!({"conditions": [{"type": type_, "status": "True"}]});
    last
}

fn recorded(outcome: EndedOutcome, message: Option<&str>) -> EndedObject {
    EndedObject {
        group: "batch".to_owned(),
        kind: "Job".to_owned(),
        name: "a".to_owned(),
        namespace: Some(revision().identity.namespace),
        outcome,
        message: message.map(str::to_owned),
    }
}

#[test]
fn an_ended_object_is_not_created_again() {
    let probes: Vec<ObjectSetProbe> = serde_json::from_value(json!([{
        "selector": {"kind": {"group": "batch", "kind": "Job"}},
        "probes": [{"condition": {"type": "Complete", "status": "True"}}],
    }]))
    .unwrap();
    let probes = Probes::compile(&probes).unwrap();
    let complete = recorded(EndedOutcome::Complete, None);
    let text = "missing .status.condition[\"Complete\"] (failed)";
    let failed = recorded(EndedOutcome::Failed, Some(text));
    for (live, before, letters, after) in [
        // The end is recorded while the object exists, and when it is gone.
        (Live::Present(last("Complete")), None, "", Some(&complete)),
        (Live::Ended(last("Complete")), None, "", Some(&complete)),
        (Live::Ended(last("Failed")), None, "", Some(&failed)),
        (Live::Uncached, Some(&complete), "", Some(&complete)),
        (Live::Gone, Some(&failed), "", Some(&failed)),
        // An object that runs again has no end.
        (Live::Present(last("Suspended")), Some(&complete), "", None),
        (Live::Uncached, None, "c", None),
    ] {
        let mut revision = revision();
        let phases = [phase(&revision, "p1", &[JOB])];
        let before: Vec<_> = before.into_iter().cloned().collect();
        revision.ended = by_object(&before);
        let observed = |_: &str| live.clone();
        let mut server = |name: &str, request: &Request| match (&live, request) {
            (Live::Present(live), Request::DryRunApply(_) | Request::Apply(_)) => {
                Answer::Object(at_version(live.clone(), "42"))
            }
            _ => accept_all(name, request),
        };
        let (sent, outcome) = run_phases(&revision, &phases, &probes, observed, &mut server);
        assert_eq!(sent.contains('c'), letters == "c", "{live:?}: {sent}");
        assert_eq!(outcome.ended.first(), after, "{live:?}");
        let passes = after.is_some_and(|end| end.message.is_none());
        assert_eq!(outcome.result == PassResult::Passed, passes, "{live:?}");
        assert!(outcome.controls_all, "{live:?}");
    }
}
