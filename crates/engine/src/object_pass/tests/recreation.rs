//! Objects that are deleted and created again, because the server refuses their change.

use super::*;
use crate::object::{is_controller, owner_references, text};
use crate::pass::Outcome;

/// A revision that has reported the object `a` or not, and whose Job `a` has run before or not.
fn revision_that(has_reported: bool, has_run: bool) -> Revision {
    let mut next = revision();
    let key = phases(&next, &[&["a"]])[0].objects[0].key.clone();
    next.reported
        .extend(has_reported.then(|| controlled_reference(&key)));
    next.ran.extend(has_run.then_some(key));
    next
}

/// Runs a pass over the object `a` with this value of the annotation `baton.run/update`.
fn pass(revision: &Revision, update: &str, live: &Value, server: Server<'_>) -> (String, Outcome) {
    let text = format!(
        "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: a, annotations: {{baton.run/update: {update}}}}}, data: \
         {{k: v}}}}"
    );
    let phases = [phase(revision, "p1", &[&text])];
    let observed = |_: &str| Live::Present(live.clone());
    run_phases(revision, &phases, &no_probes(), observed, server)
}

/// A server that refuses every change of the object; `deleted` is its answer to a deletion.
fn server(deleted: Answer) -> impl FnMut(&str, &Request) -> Answer {
    move |name, request| match request {
        Request::DryRunApply(_) | Request::Apply(_) => {
            Answer::Immutable("data: field is immutable".into())
        }
        Request::HandOver(_) => Answer::Object(at_version(live("2", "previous me*"), "42")),
        Request::DeleteForRecreation(precondition) => {
            assert_eq!(precondition.resource_version, "41");
            deleted.clone()
        }
        _ => accept_all(name, request),
    }
}

#[test]
fn an_immutable_object_is_recreated_where_annotated() {
    let ours = || live("2", "me*");
    let theirs = || live("1", "previous*");
    let gone = || Answer::NotFound;
    let mut kept = ours();
    kept["metadata"]["annotations"]["baton.run/deletion"] = "keep".into();
    let going = || Answer::Object(terminating(ours()));
    for (update, live, reported, ran, deleted, steps, result) in [
        ("other", ours(), true, false, gone(), "D", "preflight"),
        ("recreate", ours(), true, false, gone(), "D X c", "passed"),
        ("rerun", ours(), true, false, gone(), "D X c", "passed"),
        ("recreate", kept, true, false, gone(), "D", "preflight"),
        // The dependents of the object are deleted first.
        (
            "recreate",
            ours(),
            true,
            false,
            going(),
            "D X",
            "probes: being deleted",
        ),
        // The status reports the take-over first, for the older revisions.
        (
            "recreate",
            ours(),
            false,
            false,
            gone(),
            "D",
            "failed: taken over, to be deleted and created again",
        ),
        (
            "recreate",
            theirs(),
            false,
            false,
            gone(),
            "A h",
            "failed: taken over, to be deleted and created again",
        ),
        // An object that has run stays, and becomes ours.
        ("recreate", ours(), true, true, gone(), "D", "passed"),
        ("recreate", theirs(), false, true, gone(), "A h", "passed"),
        (
            "recreate",
            ours(),
            true,
            false,
            Answer::Refused("no".into()),
            "D X",
            "write error",
        ),
    ] {
        let revision = revision_that(reported, ran);
        let (letters, outcome) = pass(&revision, update, &live, &mut server(deleted));
        let found = match &outcome.result {
            PassResult::Passed => "passed".to_owned(),
            PassResult::Preflight(texts) => {
                assert!(
                    texts[0].ends_with("it is deleted and created again"),
                    "{texts:?}"
                );
                "preflight".to_owned()
            }
            PassResult::ProbeFailure { failures, .. } => {
                let (_, text) = failures.rsplit_once(": ").unwrap();
                format!("probes: {text}")
            }
            PassResult::Failed(texts) => {
                let (_, text) = texts[0].rsplit_once(": ").unwrap();
                format!("failed: {text}")
            }
            PassResult::WriteError(_) => "write error".to_owned(),
            other => format!("{other:?}"),
        };
        assert_eq!((&*letters, &*found), (steps, result), "{update} {live}");
        let writes: Vec<_> = outcome.writes.iter().map(|(_, write)| write).collect();
        let expected = if letters.contains('X') && result != "write error" {
            vec![if letters.contains('c') {
                WriteResult::Recreated
            } else {
                WriteResult::Deleted
            }]
        } else if letters.contains('h') {
            vec![WriteResult::TookOver(Some("v1".to_owned()))]
        } else {
            Vec::new()
        };
        assert_eq!(writes, expected.iter().collect::<Vec<_>>());
    }
}

/// A take-over without a change of content contains all owners and the label of the cache, and no
/// other content.
#[test]
fn a_takeover_before_a_recreation_changes_only_the_owners() {
    let mut bodies = Vec::new();
    let revision = revision_that(false, false);
    let mut inner = server(Answer::NotFound);
    pass(
        &revision,
        "recreate",
        &live("1", "previous*"),
        &mut |name, request| {
            if let Request::HandOver(body) = request {
                bodies.push(body.clone());
            }
            inner(name, request)
        },
    );
    let [body] = <[Value; 1]>::try_from(bodies).unwrap();
    let owners: Vec<_> = owner_references(&body)
        .iter()
        .map(|owner| (text(owner, "uid"), is_controller(owner)))
        .collect();
    assert_eq!(owners, [("previous", false), ("me", true)]);
    assert_eq!(
        body["metadata"]["annotations"],
        json!({ ANNOTATION_REVISION: "2" })
    );
    assert_eq!(body["metadata"]["resourceVersion"], "41");
    assert_eq!(
        body["metadata"]["labels"],
        json!({ LABEL_CACHE: LABEL_CACHE_VALUE })
    );
    assert_eq!(body.as_object().unwrap().len(), 1, "no content");
}
