//! Whole probes over whole objects: the scenarios of `testdata/scenarios.yaml`, and properties
//! that hold for all probes and objects.

use baton_apis::ObjectSetProbe;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::budget::Budget;
use crate::cel::testing::verdict;
use crate::{Probes, Verdict};

fn show(verdict: &Verdict) -> Value {
    match verdict {
        Verdict::True => json!("true"),
        Verdict::False(messages) => json!({"false": messages}),
        Verdict::Unknown(messages) => json!({"unknown": messages}),
    }
}

#[test]
fn recorded_scenarios_have_the_expected_verdicts() {
    let scenarios: Vec<Value> =
        serde_saphyr::from_str(include_str!("testdata/scenarios.yaml")).unwrap();
    let mut states = 0;
    for scenario in &scenarios {
        let specs: Vec<ObjectSetProbe> =
            serde_json::from_value(scenario["probes"].clone()).unwrap();
        let probes = Probes::compile(&specs).unwrap();
        for state in scenario["states"].as_array().unwrap() {
            let (group, kind) = (state["group"].as_str(), state["kind"].as_str());
            let verdict = probes.evaluate(
                &mut Budget::default(),
                group.unwrap(),
                kind.unwrap(),
                &state["object"],
            );
            assert_eq!(
                show(&verdict),
                state["verdict"],
                "{}: {}",
                scenario["name"],
                state["state"]
            );
            states += 1;
        }
    }
    assert!(states >= 25, "{states}");
}

/// Any JSON values of an API server, with the fields that the probes of these tests read.
fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-2_i64..3).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-c]{0,3}".prop_map(Value::from),
        Just(json!("True")),
        Just(json!("Ready")),
    ];
    leaf.prop_recursive(4, 40, 4, |inner| {
        let key = prop_oneof![
            Just("a".to_owned()),
            Just("status".to_owned()),
            Just("metadata".to_owned()),
            Just("conditions".to_owned()),
            Just("type".to_owned()),
            Just("generation".to_owned()),
            Just("observedGeneration".to_owned()),
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..5)
                .prop_map(|map| map.into_iter().collect::<Value>()),
        ]
    })
}

/// Text that resembles CEL.
fn rules() -> impl Strategy<Value = String> {
    let token = prop::sample::select(vec![
        "self",
        ".a",
        ".status",
        ".conditions",
        "[0]",
        "['a']",
        " == ",
        " != ",
        " < ",
        " + ",
        " - ",
        " && ",
        " || ",
        "!",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ", ",
        ": ",
        " ? ",
        "1",
        "1.5",
        "'a'",
        "true",
        "null",
        " in ",
        "has(",
        "size(",
        ".all(x, ",
        ".exists(x, ",
        ".map(x, ",
        "x",
        ".?a",
        ".size()",
        ".matches('a+')",
        ".split('')",
        ".sum()",
        "timestamp(",
        "duration('1s')",
        "\\",
        "'",
        "\u{e4}",
        "/",
        "%",
        "u",
        "b",
        "\"\"\"",
    ]);
    prop::collection::vec(token, 0..16).prop_map(|tokens| tokens.concat())
}

/// Rules that compile, for objects of any form.
const RULES: [&str; 10] = [
    "self.a == self.status.a",
    "self.a < 1 || self.a > 1",
    "has(self.status.a) && self.status.a == 'a'",
    "self.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')",
    "self.a.all(x, x == self.a[0])",
    "self.a.map(x, x.a).size() > 0",
    "'a' in self.a",
    "self.?a.?status.orValue('a') == 'a'",
    "string(self.a).matches('^-?[0-9]+$')",
    "self == self && self.a + self.a == self.a",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// Every text is either refused or evaluated.
    #[test]
    fn no_text_breaks_the_compiler(rule in rules(), object in values()) {
        let verdict = verdict(&rule, &object);
        prop_assert!(!verdict.contains("internal error"), "{rule}: {verdict}");
        prop_assert!(verdict.len() < 1_000, "{rule}: {verdict}");
    }

    /// For any text, either `url` refuses it or all getters have a result.
    #[test]
    fn no_text_breaks_the_url_functions(text in "(http:|x:|/)?[ab:/?#@%01.\\[\\]\\\\;&=+ \u{e4}]{0,14}") {
        let object = json!({"u": text});
        let expected = match verdict("isURL(self.u)", &object).as_str() {
            "true" => "false",
            _ => "error",
        };
        for getters in [
            "u.getScheme() + u.getHost() + u.getHostname() + u.getPort()",
            "u.getEscapedPath() + u.getQuery().map(k, k).join()",
        ] {
            let result = verdict(&format!("[url(self.u)].all(u, {getters} == 'none')"), &object);
            prop_assert!(!result.contains("internal error"), "{text}: {result}");
            prop_assert!(result.starts_with(expected), "{text}: {result}");
        }
    }

    /// A rule has a result for any object, and always the same one.
    #[test]
    fn no_object_breaks_a_rule(object in values(), rule in prop::sample::select(RULES.to_vec())) {
        let first = verdict(rule, &object);
        prop_assert!(!first.starts_with("refused"), "{rule}: {first}");
        prop_assert!(!first.contains("internal error"), "{rule}: {first}");
        prop_assert_eq!(first, verdict(rule, &object));
    }

    /// The verdict of many probes combines the verdicts of each: unknown takes precedence over
    /// false, and false over true, with the messages in order.
    #[test]
    fn verdicts_combine(
        object in values(),
        choice in prop::collection::vec(prop::collection::vec(0_usize..4, 0..4), 0..4),
    ) {
        let all = [
            json!({"condition": {"type": "Ready", "status": "True"}}),
            json!({"fieldsEqual": {"fieldA": ".a", "fieldB": ".status.a"}}),
            json!({"cel": {"rule": "self.a == 1", "message": "not one"}}),
            json!({"cel": {"rule": "has(self.status)", "message": "no status"}}),
        ];
        let entry = |probes: Vec<Value>| json!({"selector": {"kind": {"group": "", "kind": "X"}}, "probes": probes});
        let evaluate = |entries: Vec<Value>| {
            let specs: Vec<ObjectSetProbe> = serde_json::from_value(Value::from(entries)).unwrap();
            Probes::compile(&specs).unwrap().evaluate(&mut Budget::default(), "", "X", &object)
        };
        let outdated = evaluate(vec![entry(vec![])]);
        let (mut failed, mut unknown) = (Vec::new(), Vec::new());
        for probes in &choice {
            let alone = if outdated == Verdict::True {
                probes.iter().map(|probe| evaluate(vec![entry(vec![all[*probe].clone()])])).collect()
            } else {
                vec![outdated.clone()]
            };
            for verdict in alone {
                match verdict {
                    Verdict::True => {}
                    Verdict::False(messages) => failed.extend(messages),
                    Verdict::Unknown(messages) => unknown.extend(messages),
                }
            }
        }
        let expected = match (unknown.is_empty(), failed.is_empty()) {
            (false, _) => Verdict::Unknown(unknown),
            (true, false) => Verdict::False(failed),
            (true, true) => Verdict::True,
        };
        let entries = choice.iter().map(|probes| {
            entry(probes.iter().map(|probe| all[*probe].clone()).collect())
        });
        prop_assert_eq!(evaluate(entries.collect()), expected);
    }

    /// `fieldsEqual` holds exactly if both fields have the same JSON.
    #[test]
    fn equal_fields_are_equal_json(a in values(), b in values()) {
        let specs: Vec<ObjectSetProbe> = serde_json::from_value(json!([{
            "selector": {"kind": {"group": "", "kind": "X"}},
            "probes": [{"fieldsEqual": {"fieldA": ".x.a", "fieldB": ".x.b"}}],
        }])).unwrap();
        let probes = Probes::compile(&specs).unwrap();
        let verdict = probes.evaluate(&mut Budget::default(), "", "X", &json!({"x": {"a": a, "b": b}}));
        if a == b {
            prop_assert_eq!(verdict, Verdict::True);
        } else {
            let Verdict::False(messages) = verdict else {
                return Err(TestCaseError::fail(format!("{verdict:?}")));
            };
            let [message] = messages.as_slice() else {
                return Err(TestCaseError::fail(format!("{messages:?}")));
            };
            prop_assert!(message.starts_with("\".x.a\" != \".x.b\" expected: "));
            prop_assert!(message.len() < 100, "{}", message);
        }
        prop_assert_eq!(
            probes.evaluate(&mut Budget::default(), "", "X", &json!({"x": {"a": a, "b": a}})),
            Verdict::True
        );
    }
}
