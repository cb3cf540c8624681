//! Definitions of kinds, which are changed only if no stored object loses data.

use super::*;
use crate::{definitions::Affected, pass::Outcome};

/// A definition whose only field has this schema.
fn definition(field: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "tools.example.com" },
        "spec": { "group": "example.com", "scope": "Cluster", "names": { "kind": "Tool", "plural": "tools" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": {
                "type": "object", "properties": { "x": field } } } }] },
    })
}

/// Runs a pass of the next revision over a definition, with this answer to the question about
/// stored objects.
fn pass(live: &str, new: &Value, affected: &Answer) -> (String, Outcome) {
    let mut next = revision();
    next.identity.kind = "ClusterObjectSet".into();
    next.identity.namespace = String::new();
    let phases = [phase(&next, "p1", &[&definition(new).to_string()])];
    let mut old = definition(&json!({ "type": "string" }));
    let metadata =
        super::live(live, if live == "1" { "previous*" } else { "me*" })["metadata"].take();
    old["metadata"] = metadata;
    old["metadata"]["ownerReferences"][0]["kind"] = "ClusterObjectSet".into();
    old["metadata"]["name"] = "tools.example.com".into();
    old["metadata"]["namespace"] = Value::Null;
    old["status"] = json!({ "conditions": [{ "type": "Established", "status": "True" }] });
    let mut server = |name: &str, request: &Request| match request {
        Request::FindAffected(question) => {
            assert_eq!(
                (&*question.plural, question.version.as_deref()),
                ("tools", Some("v1"))
            );
            affected.clone()
        }
        Request::DryRunMerge(_) => Answer::Refused("no".into()),
        _ => accept_all(name, request),
    };
    let observed = |_: &str| Live::Present(old.clone());
    run_phases(&next, &phases, &no_probes(), observed, &mut server)
}

#[test]
fn a_definition_is_changed_if_no_stored_object_loses_data() {
    let found = Affected::Object("n".into(), "t".into(), vec![0]);
    let (string, number) = (
        json!({ "type": "string", "maxLength": 1 }),
        json!({ "type": "number" }),
    );
    let same = json!({ "type": "string", "description": "x" });
    for number_of_revision in ["1", "2"] {
        for (new, affected, steps, result) in [
            (&same, Answer::NotFound, "D A", "passed"),
            (
                &string,
                Answer::Affected(Affected::Nothing),
                "D f A",
                "passed",
            ),
            (
                &string,
                Answer::Affected(found.clone()),
                "D f",
                "maxLength (it affects Tool n/t)",
            ),
            (
                &number,
                Answer::Affected(Affected::Unknown("no right".into())),
                "D f",
                "no right",
            ),
            (
                &number,
                Answer::Failed("no route".into()),
                "D f",
                "no route",
            ),
        ] {
            let (letters, outcome) = pass(number_of_revision, new, &affected);
            // A user can annotate the live definition.
            let is_watched = !outcome.blockers.is_empty();
            assert_eq!(is_watched, !matches!(outcome.result, PassResult::Passed));
            assert_eq!(letters, steps, "{new} {:?}", outcome.result);
            let text = match &outcome.result {
                PassResult::Passed => "passed".to_owned(),
                PassResult::Preflight(texts) | PassResult::Failed(texts) => texts.join(", "),
                other => panic!("{other:?}"),
            };
            assert!(text.contains(result), "{text}");
        }
    }
}
