//! Objects that a deleted revision hands back.

use baton_apis::constants::ANNOTATION_REVISION;
use serde_json::json;

use super::*;
use crate::{
    handover::{Situation, classify},
    heirs,
    object::{Identity, revision_number},
    revision::Heir,
};

/// An heir with this uid, which wants the ConfigMaps of these names.
fn heir(uid: &str, number: i64, wants: &[&str]) -> Heir {
    let name = if uid == "previous" { "v1" } else { "somebody" };
    let as_heir = Revision {
        identity: Identity {
            name: name.to_owned(),
            uid: uid.to_owned(),
            ..revision().identity
        },
        number,
        ..Revision::default()
    };
    let objects: Vec<_> = wants
        .iter()
        .map(|name| {
            json!({"object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}})
        })
        .collect();
    let phase = json!({ "name": "p", "objects": objects });
    heirs::heir(&as_heir, vec![serde_json::from_value(phase).unwrap()])
}

fn leaving_to(heirs: &[Heir]) -> Revision {
    Revision {
        heirs: heirs.to_vec(),
        ..revision()
    }
}

/// The owners of an object, with a star after the controller.
fn owners_of(object: &Value) -> String {
    let owner = |reference: &Value| {
        let star = if is_controller(reference) { "*" } else { "" };
        format!("{}{star}", text(reference, "uid"))
    };
    let owners: Vec<_> = owner_references(object).iter().map(owner).collect();
    owners.join(" ")
}

/// The owners of a live object, and the first request: the remaining owners and the new number.
#[test]
fn the_first_heir_that_wants_an_object_becomes_its_controller() {
    let wanted = &[
        heir("next", 5, &["other"]),
        heir("previous", 3, &["a"]),
        heir("first", 1, &["a"]),
    ][..];
    for (heirs, owners, expected) in [
        (wanted, "previous me*", "previous* 3"),
        (wanted, "me* previous", "previous* 3"),
        (wanted, "first previous me* pod", "first pod previous* 3"),
        // The object was created again, so no older revision is among its owners.
        (wanted, "me*", "previous* 3"),
        (wanted, "first me*", "first previous* 3"),
        (&wanted[2..], "previous me*", "previous first* 1"),
        // No heir wants the object.
        (&wanted[..1], "previous me*", "x"),
        (&[], "previous me*", "x"),
        // The object is not ours, so it cannot be handed back.
        (wanted, "newer* me previous", "r"),
        (wanted, "newer* previous", "g"),
        (wanted, "me previous", "r"),
    ] {
        let revision = leaving_to(heirs);
        let phases = phases(&revision, &[&["a"]]);
        let kinds = kinds();
        let observe = |_| Live::Present(live("5", owners));
        let mut teardown = Teardown::new(&revision, &phases, &kinds, observe);
        let (_, request) = next(&mut teardown).unwrap();
        let found = match &request {
            Request::HandOver(body) => {
                assert_eq!(metadata_of(body), ("uid-a", "41"), "{owners}");
                format!("{} {}", owners_of(body), revision_number(body))
            }
            request => letter(request).to_string(),
        };
        assert_eq!(found, expected, "{owners}");
    }
}

fn metadata_of(body: &Value) -> (&str, &str) {
    let metadata = &body["metadata"];
    (text(metadata, "uid"), text(metadata, "resourceVersion"))
}

/// The server preserves fields that the patch does not contain.
fn merged(live: &Value, body: &Value) -> Value {
    let mut live = live.clone();
    live["metadata"]["ownerReferences"] = body["metadata"]["ownerReferences"].clone();
    let number = &body["metadata"]["annotations"][ANNOTATION_REVISION];
    live["metadata"]["annotations"][ANNOTATION_REVISION] = number.clone();
    live
}

/// The heir has a lower number than the revision that hands the object back, and others know both
/// numbers.
#[test]
fn an_object_handed_back_belongs_to_the_heir_for_all_siblings() {
    let revision = leaving_to(&[heir("previous", 1, &["a"])]);
    let phases = phases(&revision, &[&["a"]]);
    let kinds = kinds();
    let before = live("2", "previous me*");
    let mut teardown = Teardown::new(&revision, &phases, &kinds, |_| {
        Live::Present(before.clone())
    });
    let (at, request) = next(&mut teardown).unwrap();
    let Request::HandOver(body) = &request else {
        panic!("{request:?}")
    };
    let after = merged(&before, body);
    teardown.answer(at, &request, Answer::Object(after.clone()));
    assert_eq!(next(&mut teardown), None);
    assert_eq!(teardown.outcome(), TeardownOutcome::Done);

    let mut asking = Revision {
        number: 1,
        ..self::revision()
    };
    asking.identity.name = "v1".to_owned();
    asking.identity.uid = "previous".to_owned();
    assert_eq!(classify(&asking, &Family, &after), Situation::Ours);
    // A revision that lists the heir takes the object over from it; an older one leaves it to the
    // heir.
    for (number, expected) in [(3, "previous"), (0, "newer")] {
        let asking = Revision {
            number,
            ..self::revision()
        };
        let situation = classify(&asking, &Family, &after);
        let found = match situation {
            Situation::Previous(_) => "previous",
            Situation::Newer(_) => "newer",
            _ => "another",
        };
        assert_eq!(found, expected);
    }
}

#[test]
fn an_heir_in_another_cluster_is_an_entry_of_the_annotation() {
    let mut revision = leaving_to(&[heir("previous", 1, &["a"])]);
    revision.identity.is_remote = true;
    revision.heirs[0].identity.is_remote = true;
    let phases = phases(&revision, &[&["a"]]);
    let kinds = kinds();
    let mut before = live("2", "pod me*");
    before["metadata"]["ownerReferences"][1]["namespace"] = "ns".into();
    let mut teardown = Teardown::new(&revision, &phases, &kinds, |_| {
        Live::Present(before.clone())
    });
    let Some((_, Request::HandOver(mut body))) = next(&mut teardown) else {
        panic!("{before}")
    };
    assert_eq!(owners_of(&body), "pod previous*");
    owners::encode(&mut body);
    assert_eq!(owners_of(&body), "pod", "its own cluster knows it");
}

/// Objects by their names, of which the heir wants `a` and `c`: the order of phases is the usual
/// one.
#[test]
fn an_object_that_is_handed_back_does_not_delay_earlier_phases() {
    let revision = leaving_to(&[heir("previous", 1, &["a", "c"])]);
    let phases = phases(&revision, &[&["a"], &["b", "c"]]);
    let kinds = kinds();
    let name = |at: Position| phases[at.phase].objects[at.object].key.name.clone();
    let before = live("2", "previous me*");
    let observe = |_| Live::Present(before.clone());
    for (answer_to_c, expected) in [
        ("done", "xb hc ha"),
        // Another writer has changed the object in between.
        ("conflict", "xb hc gc hc ha"),
        ("gone", "xb hc ha"),
        ("taken", "xb hc gc rc ha"),
        ("refused", "xb hc"),
    ] {
        let mut teardown = Teardown::new(&revision, &phases, &kinds, observe);
        let mut steps = Vec::new();
        let mut count = 0;
        while let Step::Send(requests) = teardown.step() {
            for (at, request) in requests {
                steps.push(format!("{}{}", letter(&request), name(at)));
                let is_first = name(at) == "c" && count == 0;
                let answer = match (&request, answer_to_c) {
                    (Request::HandOver(_), "conflict" | "taken") if is_first => Answer::Conflict,
                    (Request::HandOver(_), "gone") if is_first => Answer::NotFound,
                    (Request::HandOver(_), "refused") if is_first => {
                        Answer::Refused("denied".to_owned())
                    }
                    (Request::HandOver(body), _) => Answer::Object(merged(&before, body)),
                    (Request::Get, "taken") => Answer::Object(live("3", "newer* me")),
                    (Request::Get, _) => Answer::Object(before.clone()),
                    _ => accept_all(&name(at), &request),
                };
                count += usize::from(name(at) == "c");
                teardown.answer(at, &request, answer);
            }
        }
        assert_eq!(steps.join(" "), expected, "{answer_to_c}");
        let is_done = teardown.outcome() == TeardownOutcome::Done;
        assert_eq!(is_done, answer_to_c != "refused", "{answer_to_c}");
    }
}

#[test]
fn a_teardown_fails_if_a_webhook_undoes_the_handover() {
    let revision = leaving_to(&[heir("previous", 1, &["a"])]);
    let phases = phases(&revision, &[&["a"]]);
    let kinds = kinds();
    let before = live("2", "previous me*");
    let mut teardown = Teardown::new(&revision, &phases, &kinds, |_| {
        Live::Present(before.clone())
    });
    let mut requests = 0;
    while let Some((at, request)) = next(&mut teardown) {
        requests += 1;
        assert!(requests < 100 && letter(&request) == 'h', "{request:?}");
        teardown.answer(at, &request, Answer::Object(before.clone()));
    }
    assert!(matches!(teardown.outcome(), TeardownOutcome::Failed(_)));
}

/// Any write to the object is lost with it; its heir creates it again.
#[test]
fn a_terminating_object_is_not_handed_back() {
    let revision = leaving_to(&[heir("previous", 1, &["a"])]);
    let phases = phases(&revision, &[&["a"]]);
    let kinds = kinds();
    let observe = |_| Live::Present(terminating(live("2", "previous me*")));
    let teardown = Teardown::new(&revision, &phases, &kinds, observe);
    assert_eq!(next_letter(teardown), 'w');
}

/// An object with an invalid manifest would never be written.
#[test]
fn an_heir_does_not_want_objects_with_invalid_manifests() {
    let as_heir = revision();
    let phase = json!({"name": "p", "objects": [
        {"object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "ownerReferences": [{}]}}},
        {"object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}}},
    ]});
    let heir = heirs::heir(&as_heir, vec![serde_json::from_value(phase).unwrap()]);
    let names: Vec<_> = heir.wants.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["ConfigMap ns/b"]);
}
