//! Objects that have run to their end and do not exist any more.

use baton_apis::{EndedObject, EndedOutcome, ObjectSetProbe};
use baton_probes::Probes;

use super::*;
use crate::{ended::by_object, object::Identity};

/// The manifest of a Job, with this value of the annotation `baton.run/update` and this image.
fn job(update: &str, image: &str) -> String {
    format!(
        "{{apiVersion: batch/v1, kind: Job, metadata: {{name: a, annotations: {{baton.run/update: {update}}}}}, spec: \
         {{ttlSecondsAfterFinished: 0, image: {image}}}}}"
    )
}

/// The Job as the revision `v1` or `v2` has applied it, with this controller and condition.
fn applied(image: &str, owner: &str, type_: &str) -> Value {
    let number = if owner == "me" { 2 } else { 1 };
    let writer = Revision {
        number,
        ..revision()
    };
    let text = job("recreate", image);
    let mut object = phase(&writer, "p1", &[&text]).objects.remove(0).manifest;
    let identity = Identity {
        uid: owner.to_owned(),
        ..writer.identity
    };
    object["metadata"]["ownerReferences"] = json!([identity.controller_reference()]);
    let names = |value: &Value| {
        let fields = value.as_object().unwrap().keys();
        let fields = fields.map(|key| (format!("f:{key}"), json!({})));
        Value::Object(fields.collect())
    };
    let fields = json!({
        "f:metadata": {
            "f:annotations": names(&object["metadata"]["annotations"]),
            "f:labels": names(&object["metadata"]["labels"]),
            "f:ownerReferences": { format!("k:{{\"uid\":\"{owner}\"}}"): {} },
        },
        "f:spec": names(&object["spec"]),
    });
    object["metadata"]["managedFields"] = json!([
        {"manager": FIELD_MANAGER, "operation": "Apply", "apiVersion": "batch/v1", "fieldsV1": fields},
    ]);
    object["status"] = json!({"conditions": [
        {"type": type_, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
    ]});
    written(&object, "41")
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

/// The entry that a pass over the Job records, its result, and true if it creates the Job.
fn pass(
    update: &str,
    live: &Live,
    before: Option<&EndedObject>,
) -> (Option<EndedObject>, bool, bool) {
    let probes: Vec<ObjectSetProbe> = serde_json::from_value(json!([{
        "selector": {"kind": {"group": "batch", "kind": "Job"}},
        "probes": [{"condition": {"type": "Complete", "status": "True"}}],
    }]))
    .unwrap();
    let probes = Probes::compile(&probes).unwrap();
    let mut revision = revision();
    let phases = [phase(&revision, "p1", &[&job(update, "one")])];
    revision.ended = by_object(before);
    let mut server = |name: &str, request: &Request| match (request, live) {
        (Request::DryRunApply(body), Live::Present(live)) if body["spec"] == live["spec"] => {
            Answer::Object(live.clone())
        }
        (Request::DryRunApply(_) | Request::Apply(_), _) => {
            Answer::Immutable("spec: field is immutable".into())
        }
        _ => accept_all(name, request),
    };
    let observed = |_: &str| live.clone();
    let (sent, mut outcome) = run_phases(&revision, &phases, &probes, observed, &mut server);
    let has_passed = outcome.result == PassResult::Passed;
    // The Job counts as controlled although it is gone.
    assert!(outcome.controls_all || !has_passed, "{live:?}");
    (outcome.ended.pop(), has_passed, sent.contains('c'))
}

#[test]
fn an_ended_object_is_not_created_again() {
    let complete = recorded(EndedOutcome::Complete, None);
    let text = "missing .status.condition[\"Complete\"] (failed)";
    let failed = recorded(EndedOutcome::Failed, Some(text));
    let mine = || applied("one", "me", "Complete");
    let previous = || applied("one", "previous", "Complete");
    for (live, before, after, has_passed) in [
        // The end is recorded while the object exists, while it is deleted, and when it is gone.
        (Live::Present(mine()), None, &complete, true),
        (Live::Present(terminating(mine())), None, &complete, true),
        (Live::Ended(mine()), None, &complete, true),
        (
            Live::Ended(applied("one", "me", "Failed")),
            None,
            &failed,
            false,
        ),
        (Live::Uncached, Some(&complete), &complete, true),
        (Live::Gone, Some(&failed), &failed, false),
        // The older revision did not hand the object over before the object was gone.
        (Live::Ended(previous()), None, &complete, true),
        (
            Live::Present(terminating(previous())),
            None,
            &complete,
            true,
        ),
        // A newer revision runs another content under the same name, or has run it.
        (
            Live::Present(applied("two", "newer", "Suspended")),
            Some(&complete),
            &complete,
            false,
        ),
        (
            Live::Ended(applied("two", "newer", "Complete")),
            Some(&complete),
            &complete,
            true,
        ),
    ] {
        let seen = pass("recreate", &live, before);
        let expected = (Some(after.clone()), has_passed, false);
        assert_eq!(seen, expected, "{live:?}");
    }
}

#[test]
fn an_object_without_an_end_is_created_again() {
    let complete = recorded(EndedOutcome::Complete, None);
    let mine = |type_: &str| applied("one", "me", type_);
    let mut late = terminating(mine("Complete"));
    late["status"]["conditions"][0]["lastTransitionTime"] = "2026-01-01T00:00:01Z".into();
    for (update, live, before, is_created) in [
        ("recreate", Live::Uncached, None, true),
        // The last state has another content: the object was taken over to be recreated.
        (
            "recreate",
            Live::Ended(applied("two", "me", "Complete")),
            None,
            true,
        ),
        (
            "recreate",
            Live::Present(applied("two", "me", "Complete")),
            None,
            false,
        ),
        // Only the success of an older revision counts, and only unless the object is to run again.
        (
            "recreate",
            Live::Ended(applied("one", "previous", "Failed")),
            None,
            true,
        ),
        (
            "rerun",
            Live::Ended(applied("one", "previous", "Complete")),
            None,
            true,
        ),
        (
            "recreate",
            Live::Ended(applied("one", "stranger", "Complete")),
            None,
            true,
        ),
        // The deletion has ended the object.
        ("recreate", Live::Present(late), None, false),
        // The object runs again.
        (
            "recreate",
            Live::Present(mine("Suspended")),
            Some(&complete),
            false,
        ),
    ] {
        let seen = pass(update, &live, before);
        assert_eq!(seen, (None, false, is_created), "{live:?}");
    }
}
