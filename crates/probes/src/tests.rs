use serde_json::json;

use super::*;

fn specs(specs: Value) -> Vec<ObjectSetProbe> {
    serde_json::from_value(specs).unwrap()
}

fn compile(entries: Value) -> Result<Probes, String> {
    Probes::compile(&specs(entries)).map_err(|error| error.to_string())
}

/// An entry for Deployments.
fn entry(probes: Value) -> Value {
    let mut entry = json!({"selector": {"kind": {"group": "apps", "kind": "Deployment"}}});
    entry["probes"] = probes;
    entry
}

fn deployment(entries: Value, object: &Value) -> Verdict {
    let probes = compile(entries).unwrap();
    probes.evaluate(&mut Budget::default(), "apps", "Deployment", object)
}

fn failed(messages: &[&str]) -> Verdict {
    Verdict::False(messages.iter().map(ToString::to_string).collect())
}

fn undecided(messages: &[&str]) -> Verdict {
    Verdict::Unknown(messages.iter().map(ToString::to_string).collect())
}

fn available() -> Value {
    json!({"condition": {"type": "Available"}})
}

fn replicas() -> Value {
    json!({"fieldsEqual": {"fieldA": ".spec.replicas", "fieldB": ".status.replicas"}})
}

fn ready() -> Value {
    json!({"cel": {"rule": "self.status.ready > 0", "message": "nothing is ready"}})
}

#[test]
fn an_object_that_no_entry_selects_passes() {
    let object = json!({"metadata": {"generation": 2}, "status": {"observedGeneration": 1}});
    let probes = compile(json!([entry(json!([available()]))])).unwrap();
    for (group, kind) in [
        ("", "ConfigMap"),
        ("apps", "StatefulSet"),
        ("", "Deployment"),
    ] {
        assert_eq!(
            probes.evaluate(&mut Budget::default(), group, kind, &object),
            Verdict::True
        );
    }
    assert_eq!(deployment(json!([]), &object), Verdict::True);
    let labelled = json!([{
        "selector": {
            "kind": {"group": "apps", "kind": "Deployment"},
            "selector": {"matchLabels": {"probed": "yes"}},
        },
        "probes": [available()],
    }]);
    assert_eq!(deployment(labelled, &object), Verdict::True);
}

#[test]
fn an_entry_without_probes_still_requires_a_current_status() {
    let object = |observed| json!({"metadata": {"generation": 2}, "status": {"observedGeneration": observed}});
    assert_eq!(
        deployment(json!([entry(json!([]))]), &object(2)),
        Verdict::True
    );
    assert_eq!(
        deployment(json!([entry(json!([]))]), &object(1)),
        undecided(&[".status outdated"])
    );
}

#[test]
fn each_kind_of_probe_decides() {
    let object = |ready: i64, available: &str| {
        json!({
            "spec": {"replicas": 1},
            "status": {
                "replicas": ready, "ready": ready,
                "conditions": [{"type": "Available", "status": available}],
            },
        })
    };
    for (probe, message) in [
        (available(), r#".status.condition["Available"] is False"#),
        (
            replicas(),
            r#"".spec.replicas" != ".status.replicas" expected: an integer got: another integer"#,
        ),
        (ready(), "nothing is ready"),
    ] {
        let entries = json!([entry(json!([probe]))]);
        assert_eq!(
            deployment(entries.clone(), &object(1, "True")),
            Verdict::True,
            "{probe}"
        );
        assert_eq!(
            deployment(entries, &object(0, "False")),
            failed(&[message]),
            "{probe}"
        );
    }
}

#[test]
fn messages_come_in_the_order_of_the_probes() {
    let object = json!({
        "spec": {"replicas": 2},
        "status": {
            "replicas": 1, "ready": 0,
            "conditions": [{"type": "Available", "status": "False"}],
        },
    });
    assert_eq!(
        deployment(
            json!([
                entry(json!([ready(), available()])),
                entry(json!([replicas()])),
            ]),
            &object
        ),
        failed(&[
            "nothing is ready",
            r#".status.condition["Available"] is False"#,
            r#"".spec.replicas" != ".status.replicas" expected: an integer got: another integer"#,
        ])
    );
}

#[test]
fn unknown_beats_false_and_hides_its_messages() {
    let object = json!({
        "spec": {"replicas": 2},
        "status": {"conditions": [{"type": "Available", "status": "False"}]},
    });
    // false, unknown, unknown, false in two entries
    assert_eq!(
        deployment(
            json!([
                entry(json!([available(), replicas()])),
                entry(json!([ready(), available()])),
            ]),
            &object
        ),
        undecided(&[
            r#"".status.replicas" missing"#,
            "CEL program failed: no such key: ready",
        ])
    );
    assert_eq!(
        deployment(json!([entry(json!([available()]))]), &object),
        failed(&[r#".status.condition["Available"] is False"#])
    );
}

#[test]
fn an_outdated_status_is_reported_once_per_entry_and_alone() {
    let object = json!({
        "metadata": {"generation": 2},
        "status": {
            "observedGeneration": 1,
            "conditions": [{"type": "Available", "status": "True"}],
        },
    });
    assert_eq!(
        deployment(json!([entry(json!([available(), replicas()]))]), &object),
        undecided(&[".status outdated"])
    );
    assert_eq!(
        deployment(
            json!([entry(json!([available()])), entry(json!([ready()]))]),
            &object
        ),
        undecided(&[".status outdated", ".status outdated"])
    );
}

#[test]
fn the_api_version_of_an_object_is_ignored() {
    let entries = json!([entry(json!([replicas()]))]);
    for api_version in ["apps/v1", "apps/v1beta1", "other/v1"] {
        let object = json!({
            "apiVersion": api_version, "kind": "Deployment",
            "spec": {"replicas": 1}, "status": {"replicas": 2},
        });
        assert!(matches!(
            deployment(entries.clone(), &object),
            Verdict::False(_)
        ));
    }
}

#[test]
fn clones_share_the_compiled_probes() {
    let probes = compile(json!([entry(json!([ready()]))])).unwrap();
    let clone = probes.clone();
    assert!(Arc::ptr_eq(&probes.entries, &clone.entries));
}

#[test]
fn probes_can_be_used_from_several_threads() {
    fn shared<T: Send + Sync + 'static>(_: &T) {}
    let probes = compile(json!([entry(json!([ready()]))])).unwrap();
    shared(&probes);
    std::thread::scope(|scope| {
        for ready in [0, 1] {
            let probes = &probes;
            scope.spawn(move || {
                let object = json!({"status": {"ready": ready}});
                let verdict =
                    probes.evaluate(&mut Budget::default(), "apps", "Deployment", &object);
                assert_eq!(verdict == Verdict::True, ready > 0);
            });
        }
    });
}

/// Upstream only logs invalid probes.
#[test]
fn probes_that_cannot_work_are_refused_with_their_place_and_cause() {
    for (entries, message) in [
        (
            json!([entry(json!([available(), {}]))]),
            "availabilityProbes[0].probes[1]: one of condition, fieldsEqual and cel must be set",
        ),
        (
            json!([
                entry(json!([])),
                entry(json!([{
                    "condition": {"type": "Available", "status": "True"},
                    "cel": {"rule": "true", "message": "m"},
                }]))
            ]),
            "availabilityProbes[1].probes[0]: only one of condition, fieldsEqual and cel may be \
             set, not condition and cel",
        ),
        (
            json!([entry(json!([{
                "condition": {"type": "Available", "status": "True"},
                "fieldsEqual": {"fieldA": ".a", "fieldB": ".b"},
                "cel": {"rule": "true", "message": "m"},
            }]))]),
            "availabilityProbes[0].probes[0]: only one of condition, fieldsEqual and cel may be \
             set, not condition and fieldsEqual and cel",
        ),
        (
            json!([entry(
                json!([{"fieldsEqual": {"fieldA": ".a..b", "fieldB": ".b"}}])
            )]),
            "availabilityProbes[0].probes[0]: fieldsEqual: \".a..b\" is not a field path: map \
             keys separated by single dots are",
        ),
        (
            json!([entry(json!([ready()])), {
                "selector": {
                    "kind": {"group": "apps", "kind": "Deployment"},
                    "selector": {"matchExpressions": [{"key": "a", "operator": "Equals"}]},
                },
                "probes": [],
            }]),
            "availabilityProbes[1]: label selector: \"Equals\" is not a valid operator",
        ),
        (
            json!([entry(
                json!([{"cel": {"rule": "self.a ==", "message": "m"}}])
            )]),
            "availabilityProbes[0].probes[0]: cel: rule \"self.a ==\": 1:10: Syntax error: \
             mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', \
             'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}",
        ),
        (
            json!([entry(
                json!([{"cel": {"rule": "foo.bar == 1", "message": "m"}}])
            )]),
            "availabilityProbes[0].probes[0]: cel: rule \"foo.bar == 1\": 1:1: undeclared \
             reference to 'foo'",
        ),
        (
            json!([entry(
                json!([{"cel": {"rule": "self.ready", "message": "m"}}])
            )]),
            "availabilityProbes[0].probes[0]: cel: rule \"self.ready\": must evaluate to bool, \
             but evaluates to dyn: compare the value, as in `... == true`",
        ),
    ] {
        assert_eq!(compile(entries).unwrap_err(), message);
    }
}

#[test]
fn errors_name_the_entry_and_the_probe() {
    let error = Probes::compile(&specs(json!([entry(json!([
        available(),
        {"cel": {"rule": "1", "message": "m"}},
    ]))])))
    .unwrap_err();
    assert_eq!((error.entry, error.probe), (0, Some(1)));
    assert_eq!(
        error.cause,
        CompileErrorCause::Rule {
            rule: "1".to_owned(),
            error: RuleError::NotBool("int".to_owned()),
        }
    );
}

#[test]
fn long_rules_are_shortened_in_errors() {
    let rule = format!("'{}'", "ä".repeat(1_000));
    let entries = json!([entry(json!([{"cel": {"rule": rule, "message": "m"}}]))]);
    let error = compile(entries).unwrap_err();
    assert!(error.contains("äää...\": must evaluate to bool"), "{error}");
    assert!(error.chars().count() < 350, "{error}");
}

#[test]
fn values_that_are_no_objects_are_undecided() {
    for object in [json!(null), json!("x"), json!([1]), json!(7)] {
        let entries = json!([entry(json!([available(), replicas(), ready()]))]);
        assert!(matches!(deployment(entries, &object), Verdict::Unknown(_)));
    }
}

/// A probe entry for Deployments.
fn rules(rules: &[&str]) -> Vec<ObjectSetProbe> {
    let probes = rules
        .iter()
        .map(|rule| json!({"cel": {"rule": rule, "message": "no"}}));
    let probes: Vec<_> = probes.collect();
    specs(json!([{
        "selector": {"kind": {"group": "apps", "kind": "Deployment"}},
        "probes": probes,
    }]))
}

const PASS_TOO_EXPENSIVE: &str = "the probes of this revision are too expensive for one pass";

#[test]
fn the_objects_of_a_pass_share_a_budget() {
    let probes = Probes::compile(&rules(&["!self.text.matches('a[ab]{300}c')"])).unwrap();
    let object = json!({"text": "a".repeat(30_000)});
    let pass = || {
        let mut budget = Budget::default();
        let verdicts = (0..8).map(|_| probes.evaluate(&mut budget, "apps", "Deployment", &object));
        verdicts.collect::<Vec<_>>()
    };
    let verdicts = pass();
    let passed = verdicts
        .iter()
        .take_while(|verdict| **verdict == Verdict::True);
    assert_eq!(passed.count(), 5, "{verdicts:?}");
    let message = format!("CEL program failed: {PASS_TOO_EXPENSIVE}");
    assert_eq!(verdicts[5], Verdict::Unknown(vec![message]));
    let spent = Verdict::Unknown(vec![PASS_TOO_EXPENSIVE.to_owned()]);
    assert_eq!(verdicts[6..], [spent.clone(), spent]);
    assert_eq!(pass(), verdicts, "each pass ends the same way");
}

#[test]
fn a_constant_pattern_is_paid_for_once_in_a_pass() {
    let probes = Probes::compile(&rules(&[r"self.text.matches('^\\w+$')"])).unwrap();
    let object = json!({"text": "a"});
    let mut budget = Budget::default();
    for _ in 0..1_000 {
        let verdict = probes.evaluate(&mut budget, "apps", "Deployment", &object);
        assert_eq!(verdict, Verdict::True);
    }
}

#[test]
fn checks_that_are_no_rules_share_the_budget_as_well() {
    let of = |probe: Value| {
        specs(json!([{
            "selector": {"kind": {"group": "apps", "kind": "Deployment"}},
            "probes": vec![probe; 1_000],
        }]))
    };
    let list = vec![json!({"a": 1}); 10_000];
    let object = json!({"a": list, "b": list, "status": {"conditions": list}});
    for probe in [
        json!({"fieldsEqual": {"fieldA": "a", "fieldB": "b"}}),
        json!({"condition": {"type": "Available", "status": "True"}}),
    ] {
        let probes = Probes::compile(&of(probe.clone())).unwrap();
        let mut budget = Budget::default();
        let verdict = probes.evaluate(&mut budget, "apps", "Deployment", &object);
        let Verdict::Unknown(messages) = verdict else {
            panic!("{verdict:?}");
        };
        assert_eq!(messages.last().unwrap(), PASS_TOO_EXPENSIVE, "{probe}");
    }
}

#[test]
fn the_rules_of_a_revision_are_limited_together() {
    let error = |all: Vec<String>| {
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let error = Probes::compile(&rules(&all)).unwrap_err();
        (error.probe, error.cause.to_string())
    };
    let long = vec![format!("self.a == '{}'", "a".repeat(8_000)); 10];
    assert_eq!(
        error(long),
        (
            Some(8),
            "cel: all rules together are longer than 65536 bytes".to_owned()
        )
    );
    let wide = (0..20).map(|i| format!(r"self.a.matches('\\w{{8}}x{i}')"));
    let (probe, cause) = error(wide.collect());
    assert!(probe.is_some_and(|probe| probe > 3), "{probe:?}");
    assert!(cause.contains("larger than 4194304 bytes"), "{cause}");
}
