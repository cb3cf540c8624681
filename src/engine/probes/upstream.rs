//! Compares our verdicts on rules with recorded ones of upstream; see `testdata/README.md`.
//!
//! Where we differ:
//! - constant patterns are compiled with the rule, so a bad one is refused;
//! - `existsOne` is known, message types, null timestamps and durations in nanoseconds are not;
//! - the largest of a list that cannot be ordered is an error;
//! - `string()` writes timestamps in UTC and large doubles without an exponent;
//! - `bool('F')` is an error and `uint('+7')` is none.

use serde_json::Value;

use super::testing::verdict;

/// `true`, `false`, `error` or `refused`.
fn outcome(rule: &str, object: &Value) -> String {
    let verdict = verdict(rule, object);
    let kind = verdict.split(':').next().unwrap_or_default();
    kind.to_owned()
}

fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key).and_then(Value::as_str)
}

/// All rules are compared before the test fails: a difference seldom comes alone.
fn compare<'v>(rules: impl Iterator<Item = (&'v Value, &'v Value)>) -> usize {
    let mut compared = 0;
    let mut differences = Vec::new();
    for (line, object) in rules {
        let rule = text(line, "rule").unwrap();
        let upstream = text(line, "upstream").unwrap();
        let found = outcome(rule, object);
        if found != text(line, "ours").unwrap_or(upstream) {
            differences.push(format!("{rule}\n    upstream {upstream}, found {found}"));
        }
        compared += 1;
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    compared
}

fn read(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn recorded(corpus: &str) -> usize {
    let lines = read(corpus);
    compare(lines.iter().map(|line| (line, &line["self"])))
}

#[test]
fn recorded_rules() {
    let compared = recorded(include_str!("testdata/rules.jsonl"));
    assert!(compared > 200, "{compared}");
}

#[test]
fn recorded_functions() {
    let compared = recorded(include_str!("testdata/functions.jsonl"));
    assert!(compared > 350, "{compared}");
}

#[test]
fn recorded_urls() {
    let compared = recorded(include_str!("testdata/urls.jsonl"));
    assert!(compared > 200, "{compared}");
}

#[test]
fn generated_rules() {
    let lines = read(include_str!("testdata/generated.jsonl"));
    let (object, rules) = lines.split_first().unwrap();
    let compared = compare(rules.iter().map(|line| (line, &object["self"])));
    assert_eq!(compared, 400);
}

/// The corpus only shows something if it has rules of all outcomes.
#[test]
fn all_outcomes_are_covered() {
    for corpus in [
        include_str!("testdata/rules.jsonl"),
        include_str!("testdata/generated.jsonl"),
    ] {
        for outcome in ["true", "false", "error", "refused"] {
            let lines = read(corpus);
            let number = lines
                .iter()
                .filter(|line| text(line, "upstream") == Some(outcome))
                .count();
            assert!(number >= 20, "{outcome}: {number}");
        }
    }
}
