//! Probes: whether a live object is what its revision waits for (contract section 2.10).
//!
//! Compile once, evaluate per object: [`Probes`] is cheap to clone, and the probes of a revision
//! never change.
//!
//! A verdict has three values. False means that a probe compared and the object is not there
//! yet; unknown means that the probe could not be decided, because something is missing or
//! describes an older generation of the object. Unknown wins over false, and only the messages
//! of the winner are shown.

mod cel_ast;
mod cel_check;
mod cel_cost;
mod cel_functions;
mod cel_object;
mod cel_regex;
mod cel_strings;
mod cel_types;
mod fields;
mod kubernetes;
mod rule;
#[cfg(test)]
mod scenarios;
pub mod selector;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod upstream;
mod url;

use std::sync::Arc;

use baton_apis::{ObjectSetProbe, Probe};
use serde_json::Value;
use thiserror::Error;

pub use fields::PathError;
use fields::{Condition, FieldsEqual, status_outdated};
use rule::Rule;
pub use rule::RuleError;
use selector::Selector;
pub use selector::SelectorError;

/// Compiled probes of a revision.
///
/// # Guarantees
/// Evaluation does no I/O, is bounded in time, and neither reads nor copies more of an object
/// than the probes that select it ask for.
#[derive(Clone, Debug)]
pub struct Probes {
    entries: Arc<[Entry]>,
}

#[derive(Debug)]
struct Entry {
    selector: Selector,
    checks: Vec<Check>,
}

#[derive(Debug)]
enum Check {
    Condition(Condition),
    FieldsEqual(FieldsEqual),
    Cel { rule: Rule, message: String },
}

/// What one probe says.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    True,
    False(String),
    Unknown(String),
}

/// What all probes that select an object say, with their messages in the order of the probes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All pass, or none selects the object.
    True,
    /// At least one fails and all could be decided.
    False(Vec<String>),
    /// At least one could not be decided.
    Unknown(Vec<String>),
}

/// Probes that cannot be evaluated, named as in the spec; the revision has a `PreflightError`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("availabilityProbes[{entry}]{}: {cause}", probe.map(|probe| format!(".probes[{probe}]")).unwrap_or_default())]
pub struct CompileError {
    /// Index of the entry.
    pub entry: usize,
    /// Index of the probe in the entry, unless its selector is to blame.
    pub probe: Option<usize>,
    /// What is wrong.
    pub cause: CompileErrorCause,
}

/// What is wrong with a probe.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CompileErrorCause {
    /// The entry's label selector.
    #[error(transparent)]
    Selector(#[from] SelectorError),
    /// A probe that checks nothing.
    #[error("one of condition, fieldsEqual and cel must be set")]
    Empty,
    /// Upstream would take the first of them and ignore the others.
    #[error("only one of condition, fieldsEqual and cel may be set, not {}", .0.join(" and "))]
    Several(Vec<&'static str>),
    /// A path of `fieldsEqual`.
    #[error("fieldsEqual: {0}")]
    Path(#[from] PathError),
    /// A CEL rule.
    #[error("cel: rule \"{rule}\": {error}")]
    Rule {
        /// The rule, shortened if it is long.
        rule: String,
        /// What is wrong with it.
        error: RuleError,
    },
}

impl Probes {
    /// Compiles the probes of a revision.
    ///
    /// # Errors
    /// The first probe that cannot be evaluated: an invalid label selector, path or rule, or a
    /// probe that sets not exactly one of its kinds (contract section 1.3).
    pub fn compile(specs: &[ObjectSetProbe]) -> Result<Self, CompileError> {
        specs
            .iter()
            .enumerate()
            .map(|(index, spec)| Entry::compile(index, spec))
            .collect::<Result<_, _>>()
            .map(|entries| Self { entries })
    }

    /// What the entries that select the object say about it.
    ///
    /// Group and kind are given apart; the version plays no part. `object` is the live object
    /// with its `metadata` and `status`.
    #[must_use]
    pub fn evaluate(&self, group: &str, kind: &str, object: &Value) -> Verdict {
        let (mut failed, mut unknown) = (Vec::new(), Vec::new());
        for entry in self.entries.iter() {
            if !entry.selector.matches(group, kind, object) {
                continue;
            }
            // An outdated status says nothing about this generation: no point in looking.
            if status_outdated(object) {
                unknown.push(".status outdated".to_owned());
                continue;
            }
            for check in &entry.checks {
                match check.evaluate(object) {
                    Outcome::True => {}
                    Outcome::False(message) => failed.push(message),
                    Outcome::Unknown(message) => unknown.push(message),
                }
            }
        }
        if !unknown.is_empty() {
            Verdict::Unknown(unknown)
        } else if !failed.is_empty() {
            Verdict::False(failed)
        } else {
            Verdict::True
        }
    }
}

impl Entry {
    fn compile(index: usize, spec: &ObjectSetProbe) -> Result<Self, CompileError> {
        let error = |probe, cause| CompileError {
            entry: index,
            probe,
            cause,
        };
        let selector =
            Selector::compile(&spec.selector).map_err(|cause| error(None, cause.into()))?;
        let checks = spec
            .probes
            .iter()
            .enumerate()
            .map(|(probe, spec)| Check::compile(spec).map_err(|cause| error(Some(probe), cause)))
            .collect::<Result<_, _>>()?;
        Ok(Self { selector, checks })
    }
}

impl Check {
    fn compile(spec: &Probe) -> Result<Self, CompileErrorCause> {
        let Probe {
            condition,
            fields_equal,
            cel,
        } = spec;
        match (condition, fields_equal, cel) {
            (Some(condition), None, None) => Ok(Self::Condition(Condition::compile(condition))),
            (None, Some(fields), None) => Ok(Self::FieldsEqual(FieldsEqual::compile(fields)?)),
            (None, None, Some(cel)) => match Rule::compile(&cel.rule) {
                Ok(rule) => Ok(Self::Cel {
                    rule,
                    message: cel.message.clone(),
                }),
                Err(error) => Err(CompileErrorCause::Rule {
                    rule: shorten(&cel.rule),
                    error,
                }),
            },
            (None, None, None) => Err(CompileErrorCause::Empty),
            _ => Err(CompileErrorCause::Several(
                [
                    condition.as_ref().map(|_| "condition"),
                    fields_equal.as_ref().map(|_| "fieldsEqual"),
                    cel.as_ref().map(|_| "cel"),
                ]
                .into_iter()
                .flatten()
                .collect(),
            )),
        }
    }

    fn evaluate(&self, object: &Value) -> Outcome {
        match self {
            Self::Condition(condition) => condition.evaluate(object),
            Self::FieldsEqual(fields) => fields.evaluate(object),
            Self::Cel { rule, message } => match rule.evaluate(object) {
                Ok(true) => Outcome::True,
                Ok(false) => Outcome::False(message.clone()),
                Err(error) => Outcome::Unknown(format!("CEL program failed: {error}")),
            },
        }
    }
}

/// Conditions show errors, and have better uses for their space than a long rule.
fn shorten(rule: &str) -> String {
    const MAX: usize = 200;
    match rule.char_indices().nth(MAX) {
        Some((end, _)) => format!("{}...", rule.get(..end).unwrap_or_default()),
        None => rule.to_owned(),
    }
}

#[cfg(test)]
mod tests {
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
        probes.evaluate("apps", "Deployment", object)
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
            assert_eq!(probes.evaluate(group, kind, &object), Verdict::True);
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
    fn an_entry_without_probes_still_wants_a_current_status() {
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
                r#"".spec.replicas" != ".status.replicas" expected: 1 got: 0"#,
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
                r#"".spec.replicas" != ".status.replicas" expected: 2 got: 1"#,
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
    fn an_outdated_status_is_said_once_per_entry_and_nothing_else_is() {
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
    fn the_version_of_an_object_plays_no_part() {
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
                    let verdict = probes.evaluate("apps", "Deployment", &object);
                    assert_eq!(verdict == Verdict::True, ready > 0);
                });
            }
        });
    }

    /// Improvement 23 of contract section 9: what upstream only logs is an error to report.
    #[test]
    fn improvement_23_probes_that_cannot_work_name_probe_and_cause() {
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
    fn errors_can_be_told_apart() {
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
    fn objects_that_are_no_objects_are_undecided() {
        for object in [json!(null), json!("x"), json!([1]), json!(7)] {
            let entries = json!([entry(json!([available(), replicas(), ready()]))]);
            assert!(matches!(deployment(entries, &object), Verdict::Unknown(_)));
        }
    }
}
