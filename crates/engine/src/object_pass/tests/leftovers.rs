//! Writes that the server refuses because of defaults that nobody owns.

use super::*;
use crate::pass::Outcome;

const REFUSAL: &str = "ConfigMap \"a\" is invalid: spec.strategy.rollingUpdate: Forbidden: may not be specified \
     when strategy `type` is 'Recreate'";

/// A workload with the default strategy, which an older revision has applied without a strategy.
fn defaulted() -> Value {
    let mut live = live("1", "previous*");

    live["spec"] = json!({"replicas": 1, "strategy": {
        "type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
    }});
    live["metadata"]["managedFields"] = json!([{
        "manager": "package-operator", "operation": "Apply", "apiVersion": "v1",
        "fieldsV1": {"f:spec": {"f:replicas": {}}},
    }]);
    live
}

/// A server that validates the strategy. Another manager owns the old branch if `is_foreign`.
fn server(is_foreign: bool, accepts_merge: bool) -> impl FnMut(&str, &Request) -> Answer {
    let mut live = defaulted();
    if is_foreign {
        let entries = live["metadata"]["managedFields"].as_array_mut().unwrap();
        entries.push(json!({
            "manager": "kubectl-edit", "operation": "Update", "apiVersion": "v1",
            "fieldsV1": {"f:spec": {"f:strategy": {"f:rollingUpdate": {"f:maxSurge": {}, "f:maxUnavailable": {}}}}},
        }));
    }
    move |name, request| match request {
        Request::DryRunApply(body) | Request::Apply(body) => {
            let owned = live["metadata"]["managedFields"][0]["fieldsV1"]
                .pointer("/f:spec/f:strategy/f:rollingUpdate");
            if owned.is_none() {
                return Answer::Refused(REFUSAL.to_owned());
            }
            let mut answer = live.clone();
            answer["spec"]["strategy"] = body["spec"]["strategy"].clone();
            answer["metadata"]["ownerReferences"] = body["metadata"]["ownerReferences"].clone();
            Answer::Object(answer)
        }
        Request::DryRunMerge(body) => {
            let strategy = json!({"type": "Recreate", "rollingUpdate": null});
            assert_eq!(body["spec"]["strategy"], strategy);
            assert_eq!(
                (
                    &body["metadata"]["uid"],
                    &body["metadata"]["resourceVersion"]
                ),
                (&"uid-a".into(), &"41".into())
            );
            if accepts_merge {
                Answer::Object(live.clone())
            } else {
                Answer::Refused("another reason".to_owned())
            }
        }
        Request::Migrate {
            former, leftovers, ..
        } => {
            if let Some(entries) = legacy::migrated_with(&live, former, leftovers) {
                live["metadata"]["managedFields"] = entries.into();
            }
            Answer::Object(live.clone())
        }
        _ => accept_all(name, request),
    }
}

fn pass(server: Server<'_>) -> (String, Outcome) {
    let revision = revision();
    let manifest = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, spec: {replicas: 1, strategy: {type: \
         Recreate}}}";
    let phases = [phase(&revision, "p1", &[manifest])];
    run_phases(
        &revision,
        &phases,
        &no_probes(),
        |_| Live::Present(defaulted()),
        server,
    )
}

#[test]
fn defaults_of_a_branch_that_the_manifest_leaves_are_removed() {
    let (steps, outcome) = pass(&mut server(false, true));
    assert_eq!((&*steps, outcome.result), ("A M m A", PassResult::Passed));
}

#[test]
fn fields_of_others_and_other_reasons_leave_the_refusal() {
    let (steps, outcome) = pass(&mut server(true, true));
    assert!(
        matches!(&outcome.result, PassResult::Preflight(found) if found[0].ends_with(REFUSAL)),
        "{outcome:?}"
    );
    assert_eq!(steps, "A M m A");
    let (steps, outcome) = pass(&mut server(false, false));
    assert!(
        matches!(&outcome.result, PassResult::Preflight(found) if found[0].ends_with(REFUSAL)),
        "{outcome:?}"
    );
    assert_eq!(steps, "A M");
}
