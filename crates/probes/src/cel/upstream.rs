//! Compares our results of rules with recorded results of upstream; see `testdata/README.md`.

use serde_json::Value;

use crate::cel::testing::verdict;

const CORPORA: [&str; 4] = [
    include_str!("../testdata/rules.jsonl"),
    include_str!("../testdata/functions.jsonl"),
    include_str!("../testdata/urls.jsonl"),
    include_str!("../testdata/generated.jsonl"),
];

/// All rules whose result differs from upstream: the reason, the first part of the rules, and our
/// result. URLs replace `self.u`.
const DIFFERENCES: &[(&str, &str, &str)] = &[
    (
        "constant patterns are compiled with the rule",
        "'abc'.matches('[')",
        "refused",
    ),
    (
        "message types are not known",
        "google.protobuf.Timestamp == ",
        "refused",
    ),
    (
        "a timestamp is never null",
        "timestamp('2020-01-01T00:00:00Z') == null",
        "refused",
    ),
    (
        "there are no durations in nanoseconds",
        "int(duration('1s')) == 1",
        "refused",
    ),
    (
        "the evaluator has the macro of later versions",
        "[1,2].existsOne(x, x == 1)",
        "true",
    ),
    (
        "a list that has no order has no largest item",
        "self.l.max() == 'x'",
        "error",
    ),
    (
        "timestamps are written in UTC",
        "string(timestamp(self.a)) == '2024-01-02T01:04:05Z'",
        "true",
    ),
    (
        "doubles are written without exponent",
        "string(1.0) == '1' && string(1e100) == ",
        "false",
    ),
    (
        "doubles are written without exponent",
        "string(1e30) == ",
        "false",
    ),
    (
        "only `true` and `false` are bools",
        "bool('F') == ",
        "error",
    ),
    ("numbers are those of Rust", "uint('+7') == ", "false"),
    ("a request for `*` is no URL", r#"isURL("*")"#, "false"),
    ("a request for `*` is no URL", r#"url("*")"#, "error"),
    (
        "three slashes are an empty host",
        r#"url("///p").getEscapedPath()"#,
        "false",
    ),
    (
        "a URL has one host",
        r#"isURL("mongodb://a:1,b:2/x")"#,
        "false",
    ),
    (
        "a URL has one host",
        r#"url("mongodb://a:1,b:2/x")"#,
        "error",
    ),
    ("a URL has one host", r#"isURL("ftp://h:80:90/")"#, "false"),
    ("a URL has one host", r#"url("ftp://h:80:90/")"#, "error"),
    (
        "ports have 16 bits",
        r#"isURL("https://h:99999/")"#,
        "false",
    ),
    ("ports have 16 bits", r#"url("https://h:99999/")"#, "error"),
    (
        "an empty port is none",
        r#"url("https://h:/").getHost()"#,
        "false",
    ),
    (
        "addresses have no zones",
        r#"isURL("https://[fe80::1%25en0]/")"#,
        "false",
    ),
    (
        "addresses have no zones",
        r#"url("https://[fe80::1%25en0]/")"#,
        "error",
    ),
    (
        "addresses are written one way",
        r#"url("https://[::ffff:1.2.3.4]:1").getHost()"#,
        "false",
    ),
    (
        "hosts have no such characters",
        r#"isURL("https://h<x>\"/")"#,
        "false",
    ),
    (
        "hosts have no such characters",
        r#"url("https://h<x>\"/")"#,
        "error",
    ),
    (
        "escapes of a host stay",
        r#"url("https://ex%c3%bc.com").getHost()"#,
        "false",
    ),
    (
        "escapes of a host stay",
        r#"isURL("https://ex%41mple.com")"#,
        "true",
    ),
    (
        "only what must be escaped in a path is",
        r#"url("https://h/(ü)").getEscapedPath()"#,
        "false",
    ),
    (
        "only what must be escaped in a path is",
        r#"url("https://h/a%2fb c").getEscapedPath()"#,
        "false",
    ),
    (
        "users are escaped",
        r#"isURL("https://us er@host")"#,
        "true",
    ),
    (
        "a fragment may follow the host",
        r#"isURL("https://h#f")"#,
        "true",
    ),
];

/// Our result: `true`, `false`, `error` or `refused`.
fn outcome(rule: &str, object: &Value) -> String {
    let verdict = verdict(rule, object);
    let kind = verdict.split(':').next().unwrap_or_default();
    kind.to_owned()
}

fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key).and_then(Value::as_str)
}

/// The rule in the notation of [`DIFFERENCES`].
fn label(rule: &str, object: &Value) -> String {
    match object.get("u") {
        Some(url) if !url.is_null() => rule.replace("self.u", &url.to_string()),
        _ => rule.to_owned(),
    }
}

fn expected_difference(label: &str) -> Option<&'static str> {
    let mut differences = DIFFERENCES
        .iter()
        .filter(|(_, rule, _)| label.starts_with(rule));
    differences.next().map(|(_, _, ours)| *ours)
}

/// All rules are compared before the test fails, because differences rarely occur alone.
fn compare<'v>(rules: impl Iterator<Item = (&'v Value, &'v Value)>) -> usize {
    let mut compared = 0;
    let mut differences = Vec::new();
    for (line, object) in rules {
        let rule = text(line, "rule").unwrap();
        let upstream = text(line, "upstream").unwrap();
        let label = label(rule, object);
        let (found, expected) = (outcome(rule, object), expected_difference(&label));
        if found != expected.unwrap_or(upstream) {
            differences.push(format!("{label}\n    upstream {upstream}, found {found}"));
        }
        assert_ne!(expected, Some(upstream), "no difference any more: {label}");
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
fn recorded_rules_have_upstream_results() {
    let compared = recorded(CORPORA[0]);
    assert!(compared > 200, "{compared}");
}

#[test]
fn recorded_functions_have_upstream_results() {
    let compared = recorded(CORPORA[1]);
    assert!(compared > 350, "{compared}");
}

#[test]
fn recorded_urls_have_upstream_results() {
    let compared = recorded(CORPORA[2]);
    assert!(compared > 200, "{compared}");
}

#[test]
fn generated_rules_have_upstream_results() {
    let lines = read(CORPORA[3]);
    let (object, rules) = lines.split_first().unwrap();
    let compared = compare(rules.iter().map(|line| (line, &object["self"])));
    assert_eq!(compared, 400);
}

#[test]
fn every_known_difference_is_one_of_a_recorded_rule() {
    let lines: Vec<Value> = CORPORA.into_iter().flat_map(read).collect();
    let rules = lines
        .iter()
        .filter_map(|line| Some((text(line, "rule")?, &line["self"])));
    let labels: Vec<String> = rules.map(|(rule, object)| label(rule, object)).collect();
    for (reason, rule, _) in DIFFERENCES {
        let recorded = labels.iter().any(|label| label.starts_with(rule));
        assert!(recorded, "{reason}: {rule}");
    }
}

/// The corpus is meaningful only if its rules have every outcome.
#[test]
fn all_outcomes_are_covered() {
    for corpus in [CORPORA[0], CORPORA[3]] {
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
