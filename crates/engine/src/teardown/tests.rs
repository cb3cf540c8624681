mod answers;
mod delegation;
mod heirs;
mod reach;

use baton_apis::ObjectSetStatus;
use jiff::Timestamp;
use serde_json::Value;

use super::*;
use crate::{
    Gvk, ObjectKey,
    conditions::report_archival,
    revision::{Delivery, KindScope},
    tests::fixtures::*,
};

#[test]
fn phases_are_deleted_in_reverse_order_and_confirmed_by_the_server() {
    let ours = |_: &str| Live::Present(live("2", "me*"));
    let (steps, outcome) = tear_down(&[&["a", "b"], &["c"]], ours, &mut accept_all);
    assert_eq!(
        (steps.as_str(), outcome),
        ("xc xa,xb", TeardownOutcome::Done)
    );
    let (steps, outcome) = tear_down(&[&["a"], &["b"]], |_| Live::Uncached, &mut accept_all);
    assert_eq!((steps.as_str(), outcome), ("gb ga", TeardownOutcome::Done));
}

#[test]
fn an_object_with_a_finalizer_is_waited_for() {
    let ours = |_: &str| Live::Present(live("2", "me*"));
    let (steps, outcome) =
        tear_down(
            &[&["a"], &["blocked"]],
            ours,
            &mut |name, request| match request {
                Request::Delete(_) if name == "blocked" => {
                    Answer::Object(terminating(live("2", "me*")))
                }
                _ => accept_all(name, request),
            },
        );
    assert_eq!(steps, "xblocked");
    let TeardownOutcome::Waiting(objects) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(objects[0].name, "blocked");
}

#[test]
fn objects_with_another_controller_are_only_released() {
    let live = |name: &str| match name {
        // A newer revision has taken the object over: only our reference is removed.
        "handed-over" => Live::Present(live("3", "newer* me")),
        "foreign" => Live::Present(live("", "foreign*")),
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
                accept_all(name, request)
            }
            _ => accept_all(name, request),
        },
    );
    assert_eq!(
        (steps.as_str(), outcome),
        ("rhanded-over,gforeign", TeardownOutcome::Done)
    );
}

/// The annotation in the manifest or on the object keeps an object; an owner that is not the
/// controller releases it in any case.
#[test]
fn objects_with_the_keep_annotation_are_released() {
    for (in_manifest, in_cluster, owners, expected) in [
        (None, None, "me*", "xa"),
        (Some("keep"), None, "me*", "ra"),
        (None, Some("keep"), "me*", "ra"),
        (Some("keep"), Some("keep"), "previous me*", "ra"),
        (Some("delete"), None, "me*", "xa"),
        (Some("keep"), None, "newer* me", "ra"),
        (Some("keep"), None, "newer*", "ga"),
    ] {
        let revision = revision();
        let mut phases = phases(&revision, &[&["a"]]);
        let kinds = kinds();
        let mut object = live("2", owners);
        for (object, value) in [
            (&mut phases[0].objects[0].manifest, in_manifest),
            (&mut object, in_cluster),
        ] {
            if let Some(value) = value {
                object["metadata"]["annotations"]["baton.run/deletion"] = value.into();
            }
        }
        let mut teardown = Teardown::new(&revision, &phases, &kinds, |_| {
            Live::Present(object.clone())
        });
        let (at, request) = next(&mut teardown).unwrap();
        let text = format!("{in_manifest:?} {in_cluster:?} {owners}");
        assert_eq!(format!("{}a", letter(&request)), expected, "{text}");
        teardown.answer(at, &request, accept_all("a", &request));
        let was_ours = owners.contains("me*");
        assert_eq!(
            teardown.kept().len(),
            usize::from(expected == "ra" && was_ours),
            "{text}"
        );
        if expected == "ra" {
            assert_eq!(
                stray(&object, "me").map(|it| letter(&it)),
                Some(if in_cluster.is_none() && was_ours {
                    'x'
                } else {
                    'r'
                }),
                "{text}"
            );
        }
    }
}

/// Only objects that newer revisions have in the namespace keep it.
#[test]
fn a_namespace_with_objects_of_newer_revisions_is_released() {
    for (wants, expected) in [(&["inner"][..], "ra"), (&["other"], "xa"), (&[], "xa")] {
        let mut revision = revision();
        revision.newer_wants = wants
            .iter()
            .map(|namespace| ObjectKey {
                group: String::new(),
                kind: "ConfigMap".to_owned(),
                namespace: (*namespace).to_owned(),
                name: "cm".to_owned(),
            })
            .collect();
        let mut phases = phases(&revision, &[&["a"]]);
        let object = &mut phases[0].objects[0];
        object.gvk = Gvk::new("v1", "Namespace");
        object.manifest["metadata"]["name"] = "inner".into();
        let kinds = [(object.gvk.clone(), KindState::served(KindScope::Namespaced))].into();
        let live = live("2", "me*");
        let mut teardown =
            Teardown::new(&revision, &phases, &kinds, |_| Live::Present(live.clone()));
        let (_, request) = next(&mut teardown).unwrap();
        assert_eq!(format!("{}a", letter(&request)), expected, "{wants:?}");
    }
}

/// A webhook puts the owner back, so the object is not reported as kept.
#[test]
fn an_object_that_cannot_be_released_is_not_reported_as_kept() {
    let mut object = live("2", "me*");
    object["metadata"]["annotations"]["baton.run/deletion"] = "keep".into();
    let (revision, kinds) = (revision(), kinds());
    let phases = phases(&revision, &[&["a"]]);
    let mut teardown = Teardown::new(&revision, &phases, &kinds, |_| {
        Live::Present(object.clone())
    });
    while let Some((at, request)) = next(&mut teardown) {
        assert_eq!(letter(&request), 'r');
        teardown.answer(at, &request, Answer::Object(object.clone()));
    }
    assert_eq!(teardown.kept(), []);
    assert!(matches!(teardown.outcome(), TeardownOutcome::Failed(_)));
}

/// The cache may be older than a take-over of ours whose answer was lost.
#[test]
fn foreign_objects_in_the_cache_are_read_before_they_are_skipped() {
    let previous = |_: &str| Live::Present(live("1", "previous*"));
    for (now, expected) in [
        (live("2", "previous me*"), "ga xa"),
        (live("3", "newer* me"), "ga ra"),
        (live("1", "previous*"), "ga"),
    ] {
        let mut server = |name: &str, request: &Request| match request {
            Request::Get => Answer::Object(now.clone()),
            _ => accept_all(name, request),
        };
        let (steps, outcome) = tear_down(&[&["a"]], previous, &mut server);
        assert_eq!((steps.as_str(), outcome), (expected, TeardownOutcome::Done));
    }
}

#[test]
fn stray_objects_of_an_ended_owner_are_deleted_or_released() {
    for (owners, going, expected) in [
        ("me*", false, Some("delete")),
        ("newer me*", false, Some("delete")),
        ("me*", true, None),
        // A newer revision has taken the object over in between.
        ("newer* me", false, Some("release")),
        ("newer* me", true, None),
        ("me", false, Some("release")),
        ("newer*", false, None),
        ("", false, None),
    ] {
        let mut object = live("2", owners);
        if going {
            object = terminating(object);
        }
        let (live_state, request) = match stray(&object, "me") {
            Some(Request::Delete(live_state)) => (Some(live_state), Some("delete")),
            Some(Request::Release {
                owner_uid, live, ..
            }) if owner_uid == "me" => (Some(live), Some("release")),
            Some(other) => panic!("{other:?}"),
            None => (None, None),
        };
        assert_eq!(request, expected, "{owners:?} {going}");
        if let Some(live_state) = live_state {
            let owner_index = live_state.owner_index;
            let bound = Precondition {
                owner_index,
                ..precondition(&object)
            };
            assert_eq!(live_state, bound, "{owners:?}");
        }
    }
}

#[test]
fn a_refused_delete_is_reported_and_nothing_else_is_deleted() {
    let ours = |_: &str| Live::Present(live("2", "me*"));
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

fn answer(name: &str) -> Answer {
    match name {
        "ours" => Answer::Object(at_version(live("2", "pod me*"), "51")),
        "shared" => Answer::Object(at_version(live("3", "newer* pod me"), "52")),
        "foreign" => Answer::Object(at_version(live("3", "newer*"), "53")),
        "leaving" => Answer::Object(terminating(at_version(live("2", "me*"), "54"))),
        "absent" => Answer::NotFound,
        "unserved" => Answer::KindNotServed,
        "conflict" => Answer::Conflict,
        "created" => Answer::Created(live("2", "me*")),
        "refused" => Answer::Refused("denied".to_owned()),
        "failed" => Answer::Failed("no route".to_owned()),
        _ => panic!("{name}"),
    }
}

/// Returns the next request about the object; `None` at the end.
fn next(teardown: &mut Teardown<'_>) -> Option<(Position, Request)> {
    match teardown.step() {
        Step::Send(mut requests) => {
            assert_eq!(requests.len(), 1);
            requests.pop()
        }
        Step::Delegate(..) => panic!("no phase is delegated"),
        Step::Done => None,
    }
}

/// Returns the next request as a letter; `.` for none, `w` waits, `F` failed.
fn next_letter(mut teardown: Teardown<'_>) -> char {
    match next(&mut teardown) {
        Some((_, request)) => letter(&request),
        None => match teardown.outcome() {
            TeardownOutcome::Done => '.',
            TeardownOutcome::Waiting(_) => 'w',
            TeardownOutcome::Failed(_) => 'F',
        },
    }
}

/// The object changes before each write, or a webhook restores the reference that a release
/// removes.
#[test]
fn a_teardown_fails_if_an_object_keeps_changing() {
    let back = |owners: &str| Answer::Object(live("2", owners));
    for (owners, answer, expected) in [
        ("me*", Answer::Conflict, 15),
        ("newer* me", Answer::Conflict, 15),
        ("newer* me", back("newer* me"), 8),
        ("newer* me", back("me newer*"), 8),
    ] {
        let mut requests = 0;
        let ours = |_: &str| Live::Present(live("2", owners));
        let (_, outcome) = tear_down(&[&["a"]], ours, &mut |_, request| {
            requests += 1;
            assert!(requests < 100, "the requests do not end");
            match request {
                Request::Get => back(owners),
                _ => answer.clone(),
            }
        });
        let TeardownOutcome::Failed(objects) = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!(
            objects[0].message,
            "the object keeps changing while it is removed"
        );
        assert_eq!(requests, expected, "{owners} {answer:?}");
    }
}

/// An outcome lists the objects of the current phase that are not gone, with the cause.
#[test]
fn an_unfinished_teardown_lists_the_objects_of_its_phase() {
    let state = |name: &str| match name {
        "leaving" => Live::Present(terminating(live("2", "me*"))),
        "gone" => Live::Gone,
        _ => Live::Present(live("2", "me*")),
    };
    let mut server = |name: &str, _: &Request| match name {
        "denied" => Answer::Refused("denied by a webhook".to_owned()),
        "failed" => Answer::Failed("no route".to_owned()),
        _ => Answer::NotFound,
    };
    for (names, expected) in [
        (&["gone", "leaving"][..], "Waiting leaving: being deleted"),
        (&["denied", "fine"], "Failed denied: denied by a webhook"),
        (
            &["leaving", "failed"],
            "Failed leaving: being deleted, failed: no route",
        ),
        (&["gone", "fine"], "Done"),
    ] {
        let (_, outcome) = tear_down(&[names], state, &mut server);
        let list = |objects: Vec<WaitingForObject>| {
            let lines = objects.iter().map(|object| {
                assert_eq!((&*object.phase, &*object.kind), ("p1", "ConfigMap"));
                assert_eq!(object.namespace.as_deref(), Some("ns"));
                assert_eq!(object.reason, "ArchivalInProgress");
                format!("{}: {}", object.name, object.message)
            });
            lines.collect::<Vec<_>>().join(", ")
        };
        let outcome = match outcome {
            TeardownOutcome::Done => "Done".to_owned(),
            TeardownOutcome::Waiting(objects) => format!("Waiting {}", list(objects)),
            TeardownOutcome::Failed(objects) => format!("Failed {}", list(objects)),
        };
        assert_eq!(outcome, expected, "{names:?}");
    }
}

/// An entry of the annotation is released by the remaining text, an owner reference by its
/// position.
#[test]
fn a_release_writes_the_remaining_owners_to_the_annotation() {
    let revision = revision();
    let phases = phases(&revision, &[&["a"]]);
    let kinds = kinds();
    for (owners, remote, index, left) in [
        ("me newer*", &[][..], 0, None),
        ("newer* me", &[], 1, None),
        ("newer* pod me", &[1], 2, None),
        ("me", &[0], 0, Some("[]")),
        ("pod me", &[1], 1, Some("[]")),
        ("me newer", &[0, 1], 0, Some("newer")),
        ("newer* me", &[0, 1], 1, Some("newer*")),
    ] {
        let mut live = live("3", owners);
        for index in remote {
            live["metadata"]["ownerReferences"][*index]["namespace"] = "shop".into();
        }
        let entry = |uid: &str, controller: &str| {
            format!(
                concat!(
                    r#"[{{"apiVersion":"package-operator.run/v1alpha1","kind":"ObjectSet","name":"somebody","#,
                    r#""namespace":"shop","uid":"{}"{}}}]"#,
                ),
                uid, controller
            )
        };
        let left = left.map(|left| match left {
            "newer" => entry("newer", ""),
            "newer*" => entry("newer", r#","controller":true"#),
            left => left.to_owned(),
        });
        let expected = Request::Release {
            owner_uid: "me".to_owned(),
            live: Precondition {
                uid: "uid-a".to_owned(),
                resource_version: "41".to_owned(),
                owner_index: index,
            },
            left,
        };
        let observe = |_| Live::Present(live.clone());
        let mut teardown = Teardown::new(&revision, &phases, &kinds, observe);
        assert_eq!(
            next(&mut teardown).map(|(_, request)| request),
            Some(expected),
            "{owners}"
        );
    }
}

/// Two objects of a phase: the requests about both, and if the preceding phase is reached. Requests
/// about one object do not depend on the other.
#[test]
fn the_preceding_phase_waits_until_both_objects_are_gone() {
    let state = |name: &str| match name {
        "gone" => Live::Gone,
        "leaving" => Live::Present(terminating(live("2", "me*"))),
        "foreign" => Live::Present(live("", "stranger*")),
        "shared" => Live::Present(live("3", "newer* me")),
        "unread" => Live::Uncached,
        _ => Live::Present(live("2", "me*")),
    };
    for (pair, expected) in [
        (["gone", "foreign"], "gforeign xbefore"),
        (["gone", "ours"], "xours xbefore"),
        (["ours", "kept"], "xours,xkept"),
        (["shared", "ours"], "rshared,xours xbefore"),
        (["shared", "unread"], "rshared,gunread xbefore"),
        (["leaving", "ours"], "xours"),
        (["ours", "leaving"], "xours"),
        (["leaving", "shared"], "rshared"),
        (["leaving", "gone"], ""),
        (["denied", "ours"], "xdenied,xours"),
        (["denied", "unread"], "xdenied,gunread"),
    ] {
        let mut server = |name: &str, request: &Request| match name {
            "kept" => Answer::Object(live("2", "me*")),
            "denied" => Answer::Refused("denied".to_owned()),
            _ => accept_all(name, request),
        };
        let (steps, outcome) = tear_down(&[&["before"], &pair], state, &mut server);
        assert_eq!(steps, expected, "{pair:?}");
        let is_done = outcome == TeardownOutcome::Done;
        assert_eq!(is_done, expected.ends_with("xbefore"), "{pair:?}");
        let is_failed = matches!(outcome, TeardownOutcome::Failed(_));
        assert_eq!(is_failed, pair.contains(&"denied"), "{pair:?}");
    }
}
