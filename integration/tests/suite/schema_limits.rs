//! Limits in the schemas: new content that exceeds them is refused, and revisions from before the
//! limits can be changed and ended.

use baton_integration::exclusive::Exclusive;
use baton_integration::prelude::*;

both_scopes! {
    fields_beyond_the_bounds_are_refused_by_the_schema;
    revisions_older_than_the_bounds_can_be_changed_and_ended;
}

/// Returns parts of a spec that exceed a limit, and their paths in the schema's error.
fn excessive(ns: &TestNamespace) -> Vec<(&'static str, Value, &'static str)> {
    let selector = json!({ "kind": { "group": "", "kind": "ConfigMap" } });
    let probes = |probes: Value| json!([{ "selector": selector, "probes": probes }]);
    let text = |length| "x".repeat(length);
    let rule = |rule: String| json!([{ "cel": { "rule": rule, "message": "no" } }]);
    let always = json!({ "condition": { "type": "Ready", "status": "True" } });
    let phases = |entry: Value| {
        let mut entry = entry;
        entry["object"] = ns.reference(&configmap("cm"));
        json!([{ "name": "a", "objects": [entry] }])
    };
    let mapping = json!({ "sourceType": "Ready", "destinationType": "example.com/Ready" });
    let at_probes = "spec.availabilityProbes[0].probes";
    vec![
        (
            "availabilityProbes",
            probes(rule(format!("true{}", " ".repeat(8192)))),
            "cel.rule",
        ),
        (
            "availabilityProbes",
            probes(json!([{ "fieldsEqual": { "fieldA": text(5000), "fieldB": ".a" } }])),
            "fieldsEqual.fieldA",
        ),
        (
            "availabilityProbes",
            probes(json!(vec![always; 1001])),
            at_probes,
        ),
        (
            "phases",
            phases(json!({ "conditionMappings": vec![mapping; 101] })),
            "conditionMappings",
        ),
        (
            "phases",
            phases(json!({ "createOnlyFields": [format!(".{}", text(5000))] })),
            "createOnlyFields[0]",
        ),
    ]
}

async fn fields_beyond_the_bounds_are_refused_by_the_schema(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    for (field, value, path) in excessive(&ns) {
        let set = ns.set("v1").revision(1).spec(field, value);
        let refused = set.try_create().await.unwrap_err();
        assert_eq!(refused.reason, "Invalid", "{refused:?}");
        assert!(refused.message.contains(path), "{refused:?}");
    }
}

/// Removes the limits from a schema.
fn unbounded(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            for keyword in ["maxLength", "maxItems"] {
                if map.get(keyword).is_some_and(Value::is_number) {
                    map.insert(keyword.to_owned(), Value::Null);
                }
            }
            map.values_mut().for_each(unbounded);
        }
        Value::Array(items) => items.iter_mut().for_each(unbounded),
        _ => {}
    }
}

async fn revisions_older_than_the_bounds_can_be_changed_and_ended(scope: Scope) {
    let bed = Exclusive::acquire().await;
    let ns = bed.namespace(scope).await;
    let cases = excessive(&ns);
    let names = |number: usize| [format!("archived-{number}"), format!("deleted-{number}")];

    let (field, value, _) = cases[0].clone();
    let probe = ns.set("probe").spec(field, value);
    let schema = ns.loosen_schema(probe, |fields| {
        for field in ["phases", "availabilityProbes"] {
            unbounded(&mut fields[field]);
        }
    });
    let schema = schema.await;
    for (number, (field, value, _)) in cases.iter().enumerate() {
        for name in names(number) {
            let set = ns.set(&name).revision(1).spec(field, value.clone());
            set.create().await;
        }
    }
    schema.restore().await;

    for number in 0..cases.len() {
        let [archived, deleted] = names(number);
        for name in [&archived, &deleted] {
            // The manager writes finalizers and statuses, and a user writes labels and life cycle
            // states.
            ns.set_lifecycle(name, "Paused").await;
            ns.reaches(name, &[Is("Paused", "True")]).await;
            ns.set_lifecycle(name, "Active").await;
        }
        ns.set_lifecycle(&archived, "Archived").await;
        ns.reaches(&archived, &[Is("Archived", "True")]).await;
        ns.delete_set(&archived, "Background").await;
        ns.delete_set(&deleted, "Background").await;
    }
}
