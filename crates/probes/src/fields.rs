//! Probes that read fields: conditions and equality.
//!
//! A probe is false if the values that it compared differ. It is unknown if a value is missing, or
//! is about an older generation of the object.

use std::fmt;

use baton_apis::{ProbeCondition, ProbeFieldsEqual};
use serde_json::Value;

use crate::budget::{Budget, weight};
use crate::cel::error::EvaluationError;
use crate::shape::Shape;
use crate::{Outcome, PathError};

/// A dotted path of plain map keys, as the user wrote it; there is no syntax for list indexes or escapes.
#[derive(Clone, Debug)]
struct Path(String);

impl Path {
    fn parse(text: &str) -> Result<Self, PathError> {
        let path = Self(text.to_owned());
        if path.keys().any(str::is_empty) {
            return Err(PathError(path.0));
        }
        Ok(path)
    }

    fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.strip_prefix('.').unwrap_or(&self.0).split('.')
    }

    /// The value at the path; an explicit null is a value.
    fn get<'o>(&self, object: &'o Value) -> Option<&'o Value> {
        let mut keys = self.keys();
        keys.try_fold(object, |value, key| value.as_object()?.get(key))
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0)
    }
}

/// Two paths whose values must be deeply equal.
#[derive(Clone, Debug)]
pub struct FieldsEqual {
    a: Path,
    b: Path,
}

impl FieldsEqual {
    pub fn compile(spec: &ProbeFieldsEqual) -> Result<Self, PathError> {
        Ok(Self {
            a: Path::parse(&spec.field_a)?,
            b: Path::parse(&spec.field_b)?,
        })
    }

    /// Integers and floats are different values, as upstream: `1` is not `1.0`.
    ///
    /// The message has the kind and length of the values, but never the values, unlike upstream:
    /// otherwise people who may read conditions and events could read Secrets.
    pub fn evaluate(&self, budget: &mut Budget, object: &Value) -> Outcome {
        let (a, b) = match (self.a.get(object), self.b.get(object)) {
            (Some(a), Some(b)) => (a, b),
            (None, _) => return Outcome::Unknown(format!("{} missing", self.a)),
            (_, None) => return Outcome::Unknown(format!("{} missing", self.b)),
        };
        if !budget.spend(weight(a)) {
            return Outcome::Unknown(EvaluationError::PassTooExpensive.to_string());
        }
        if a == b {
            return Outcome::True;
        }
        let (expected, mut got) = (Shape(a).to_string(), Shape(b).to_string());
        if got == expected {
            let shape = expected.trim_start_matches("an ").trim_start_matches("a ");
            got = format!("another {shape}");
        }
        let (a, b) = (&self.a, &self.b);
        Outcome::False(format!("{a} != {b} expected: {expected} got: {got}"))
    }
}

/// A condition in `.status.conditions` that must have a status.
#[derive(Clone, Debug)]
pub struct Condition(pub ProbeCondition);

impl Condition {
    /// The first condition of the type counts.
    pub fn evaluate(&self, budget: &mut Budget, object: &Value) -> Outcome {
        let ProbeCondition { type_, status } = &self.0;
        let malformed = || Outcome::Unknown("malformed .status.conditions".to_owned());
        let conditions = match object.pointer("/status/conditions") {
            // A new CustomResourceDefinition has `conditions: null`.
            None | Some(Value::Null) => {
                return Outcome::Unknown("missing .status.conditions".to_owned());
            }
            Some(Value::Array(conditions)) => conditions,
            Some(_) => return malformed(),
        };
        if !budget.spend(conditions.len() as u64) {
            return Outcome::Unknown(EvaluationError::PassTooExpensive.to_string());
        }
        for condition in conditions {
            let Value::Object(condition) = condition else {
                return malformed();
            };
            if condition.get("type").and_then(Value::as_str) != Some(type_) {
                continue;
            }
            let observed = condition.get("observedGeneration").and_then(Value::as_i64);
            if observed.is_some_and(|observed| observed != generation(object)) {
                return Outcome::Unknown(format!(".status.condition[\"{type_}\"] outdated"));
            }
            return match condition.get("status") {
                Some(Value::String(found)) if found == status => Outcome::True,
                Some(Value::String(found)) => {
                    // Any other text is a value of the object rather than the status of a
                    // condition.
                    let is_status = matches!(found.as_str(), "True" | "False" | "Unknown");
                    let found = if is_status { found } else { "malformed" };
                    Outcome::False(format!(".status.condition[\"{type_}\"] is {found}"))
                }
                _ => malformed(),
            };
        }
        Outcome::Unknown(format!("missing .status.condition[\"{type_}\"]"))
    }
}

/// True if `.status` was computed for another generation of the object.
///
/// A status without `observedGeneration` is never outdated.
pub fn status_outdated(object: &Value) -> bool {
    object
        .pointer("/status/observedGeneration")
        .and_then(Value::as_i64)
        .is_some_and(|observed| observed != generation(object))
}

/// An object without a generation counts as generation 0, as in Go.
fn generation(object: &Value) -> i64 {
    object
        .pointer("/metadata/generation")
        .and_then(Value::as_i64)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn unknown(message: &str) -> Outcome {
        Outcome::Unknown(message.to_owned())
    }

    fn no(message: &str) -> Outcome {
        Outcome::False(message.to_owned())
    }

    fn fields_equal(a: &str, b: &str, object: &Value) -> Outcome {
        let spec = serde_json::from_value(json!({"fieldA": a, "fieldB": b})).unwrap();
        FieldsEqual::compile(&spec)
            .unwrap()
            .evaluate(&mut Budget::default(), object)
    }

    fn condition(object: &Value) -> Outcome {
        let spec = serde_json::from_value(json!({"type": "Available"})).unwrap();
        Condition(spec).evaluate(&mut Budget::default(), object)
    }

    #[test]
    fn fields_equal_compares_deeply() {
        let object = json!({
            "metadata": {"name": "x", "labels": {"a": "1"}},
            "spec": {
                "replicas": 3, "name": "x", "ratio": 1.0, "one": 1, "null": null, "off": false,
                "labels": {"a": "1"}, "ports": [{"p": 1}, {"p": 2}], "empty": {}, "list": [],
            },
            "status": {
                "replicas": 3, "ready": 2, "null": null, "zero": 0,
                "ports": [{"p": 1}, {"p": 2}], "other": [{"p": 2}, {"p": 1}], "empty": {},
            },
        });
        for (a, b, expected) in [
            (".spec.replicas", ".status.replicas", Outcome::True),
            // with and without the leading dot
            ("spec.replicas", ".status.replicas", Outcome::True),
            ("metadata.name", "spec.name", Outcome::True),
            (".metadata.labels", ".spec.labels", Outcome::True),
            (".spec.ports", ".status.ports", Outcome::True),
            (".spec.empty", ".status.empty", Outcome::True),
            (".spec", ".spec", Outcome::True),
            // an explicit null is a value
            (".spec.null", ".status.null", Outcome::True),
            (
                ".spec.null",
                ".status.zero",
                no(r#"".spec.null" != ".status.zero" expected: null got: an integer"#),
            ),
            (
                ".spec.off",
                ".spec.null",
                no(r#"".spec.off" != ".spec.null" expected: a bool got: null"#),
            ),
            (
                ".spec.empty",
                ".spec.list",
                no(
                    r#"".spec.empty" != ".spec.list" expected: a map of 0 keys got: a list of 0 items"#,
                ),
            ),
            (
                "spec.replicas",
                ".status.ready",
                no(
                    r#""spec.replicas" != ".status.ready" expected: an integer got: another integer"#,
                ),
            ),
            (
                ".spec.name",
                ".status.ready",
                no(
                    r#"".spec.name" != ".status.ready" expected: a string of 1 byte got: an integer"#,
                ),
            ),
            (
                ".spec.ports",
                ".status.other",
                no(
                    r#"".spec.ports" != ".status.other" expected: a list of 2 items got: another list of 2 items"#,
                ),
            ),
            (
                ".spec.one",
                ".spec.ratio",
                no(r#"".spec.one" != ".spec.ratio" expected: an integer got: a float"#),
            ),
        ] {
            assert_eq!(fields_equal(a, b, &object), expected, "{a} and {b}");
        }
    }

    #[test]
    fn fields_equal_names_the_first_missing_path() {
        let object = json!({"spec": {"a": 1, "list": [1], "none": null}});
        for (a, b, path) in [
            (".spec.a", ".status.a", ".status.a"),
            (".status.a", ".spec.a", ".status.a"),
            (".status.a", ".status.b", ".status.a"),
            ("metadata.name", ".spec.a", "metadata.name"),
            // A path does not lead into scalars, lists and null
            (".spec.a.b", ".spec.a", ".spec.a.b"),
            (".spec.list.0", ".spec.a", ".spec.list.0"),
            (".spec.none.x", ".spec.a", ".spec.none.x"),
        ] {
            let expected = unknown(&format!("\"{path}\" missing"));
            assert_eq!(fields_equal(a, b, &object), expected, "{a} and {b}");
        }
    }

    #[test]
    fn brackets_and_escapes_are_part_of_the_key() {
        let object =
            json!({"metadata": {"labels": {"app/name": "x", "l[0]": "x"}}, "a\\": {"b": "x"}});
        assert_eq!(
            fields_equal(
                ".metadata.labels.app/name",
                ".metadata.labels.l[0]",
                &object
            ),
            Outcome::True
        );
        assert_eq!(
            fields_equal("a\\.b", ".metadata.labels.l[0]", &object),
            Outcome::True
        );
    }

    #[test]
    fn paths_with_empty_keys_are_refused() {
        for path in ["", ".", "..a", "a..b", "a.", ".a."] {
            for (a, b) in [(path, ".ok"), (".ok", path)] {
                let spec = serde_json::from_value(json!({"fieldA": a, "fieldB": b})).unwrap();
                assert_eq!(
                    FieldsEqual::compile(&spec).unwrap_err().to_string(),
                    format!(
                        "\"{path}\" is not a field path: map keys separated by single dots are"
                    )
                );
            }
        }
    }

    #[test]
    fn a_condition_is_found_by_type_and_compared_by_status() {
        for (status, expected) in [
            (json!({}), unknown("missing .status.conditions")),
            (
                json!({"conditions": null}),
                unknown("missing .status.conditions"),
            ),
            (
                json!({"conditions": "x"}),
                unknown("malformed .status.conditions"),
            ),
            (
                json!({"conditions": {"type": "Available"}}),
                unknown("malformed .status.conditions"),
            ),
            (
                json!({"conditions": ["x", {"type": "Available", "status": "True"}]}),
                unknown("malformed .status.conditions"),
            ),
            (
                json!({"conditions": [{"type": "Available"}]}),
                unknown("malformed .status.conditions"),
            ),
            (
                json!({"conditions": [{"type": "Available", "status": true}]}),
                unknown("malformed .status.conditions"),
            ),
            (
                json!({"conditions": []}),
                unknown(r#"missing .status.condition["Available"]"#),
            ),
            (
                json!({"conditions": [{"type": "Ready", "status": "True"}, {"status": "True"}]}),
                unknown(r#"missing .status.condition["Available"]"#),
            ),
            (
                json!({"conditions": [{"type": "Available", "status": "False"}]}),
                no(r#".status.condition["Available"] is False"#),
            ),
            (
                json!({"conditions": [{"type": "Available", "status": "Unknown"}]}),
                no(r#".status.condition["Available"] is Unknown"#),
            ),
            (
                json!({"conditions": [{"type": "Available", "status": "hunter2"}]}),
                no(r#".status.condition["Available"] is malformed"#),
            ),
            (
                json!({"conditions": [{"type": "Available", "status": "True"}]}),
                Outcome::True,
            ),
            (
                json!({"conditions": [{"type": "Ready", "status": "False"}, {"type": "Available", "status": "True"}]}),
                Outcome::True,
            ),
            // the first condition of the type counts
            (
                json!({"conditions": [
                    {"type": "Available", "status": "False"},
                    {"type": "Available", "status": "True"},
                ]}),
                no(r#".status.condition["Available"] is False"#),
            ),
        ] {
            let object = json!({"metadata": {"generation": 1}, "status": status});
            assert_eq!(condition(&object), expected, "{object}");
        }
        assert_eq!(
            condition(&json!({})),
            unknown("missing .status.conditions"),
            "no status at all"
        );
    }

    #[test]
    fn condition_compares_with_the_wanted_status() {
        let spec = serde_json::from_value(json!({"type": "Degraded", "status": "False"})).unwrap();
        let probe = Condition(spec);
        let object = |status: &str| json!({"status": {"conditions": [{"type": "Degraded", "status": status}]}});
        assert_eq!(
            probe.evaluate(&mut Budget::default(), &object("False")),
            Outcome::True
        );
        assert_eq!(
            probe.evaluate(&mut Budget::default(), &object("True")),
            no(r#".status.condition["Degraded"] is True"#)
        );
    }

    #[test]
    fn a_condition_of_another_generation_is_outdated() {
        for (generation, observed, current) in [
            (json!(2), json!(2), true),
            (json!(2), json!(1), false),
            // a status from the future was not computed for this object either
            (json!(2), json!(3), false),
            (json!(2), json!(null), true),
            (json!(2), json!("1"), true),
            (json!(null), json!(0), true),
            (json!(null), json!(1), false),
        ] {
            let object = json!({
                "metadata": {"generation": generation},
                "status": {"conditions": [
                    {"type": "Available", "status": "True", "observedGeneration": observed},
                ]},
            });
            let expected = if current {
                Outcome::True
            } else {
                unknown(r#".status.condition["Available"] outdated"#)
            };
            assert_eq!(condition(&object), expected, "{object}");
        }
    }

    #[test]
    fn an_outdated_condition_counts_before_its_status() {
        let object = json!({
            "metadata": {"generation": 2},
            "status": {"conditions": [
                {"type": "Available", "status": "False", "observedGeneration": 1},
            ]},
        });
        assert_eq!(
            condition(&object),
            unknown(r#".status.condition["Available"] outdated"#)
        );
    }

    #[test]
    fn status_outdated_needs_an_observed_generation() {
        for (object, outdated) in [
            (json!({}), false),
            (json!({"metadata": {"generation": 3}, "status": {}}), false),
            (
                json!({"metadata": {"generation": 3}, "status": "odd"}),
                false,
            ),
            (
                json!({"metadata": {"generation": 3}, "status": {"observedGeneration": 3}}),
                false,
            ),
            (
                json!({"metadata": {"generation": 3}, "status": {"observedGeneration": 2}}),
                true,
            ),
            (
                json!({"metadata": {}, "status": {"observedGeneration": 1}}),
                true,
            ),
            (
                json!({"metadata": {"generation": 3}, "status": {"observedGeneration": "2"}}),
                false,
            ),
        ] {
            assert_eq!(status_outdated(&object), outdated, "{object}");
        }
    }
}
