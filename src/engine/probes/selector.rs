//! Which live objects a probe entry looks at (contract section 1.3, "Probe entry").

use std::collections::{BTreeMap, BTreeSet};

use baton_apis::ProbeSelector;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::Value;
use thiserror::Error;

/// Why a label selector selects nothing that could be decided.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SelectorError {
    /// `In`, `NotIn`, `Exists` and `DoesNotExist` are all there is.
    #[error("label selector: \"{0}\" is not a valid operator")]
    Operator(String),
    /// `In` and `NotIn` compare with something.
    #[error("label selector: operator {operator} on \"{key}\" needs values")]
    MissingValues {
        /// The label.
        key: String,
        /// The operator as written.
        operator: String,
    },
    /// `Exists` and `DoesNotExist` compare with nothing.
    #[error("label selector: operator {operator} on \"{key}\" takes no values")]
    UnexpectedValues {
        /// The label.
        key: String,
        /// The operator as written.
        operator: String,
    },
}

/// A selector whose label part was checked once.
#[derive(Clone, Debug)]
pub struct Selector {
    group: String,
    kind: String,
    labels: Labels,
}

/// A label selector that was checked once.
#[derive(Clone, Debug, Default)]
pub struct Labels(Vec<Requirement>);

#[derive(Clone, Debug)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug)]
enum Test {
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Exists,
    DoesNotExist,
}

impl Selector {
    /// Checks the label requirements as the API server does for its own selectors.
    ///
    /// # Errors
    /// A requirement whose operator is unknown or does not fit its values.
    pub fn compile(spec: &ProbeSelector) -> Result<Self, SelectorError> {
        let labels = spec.selector.as_ref().map(Labels::compile).transpose()?;
        Ok(Self {
            group: spec.kind.group.clone(),
            kind: spec.kind.kind.clone(),
            labels: labels.unwrap_or_default(),
        })
    }

    /// Whether an object of this group and kind is selected; the version plays no part.
    #[must_use]
    pub fn matches(&self, group: &str, kind: &str, object: &Value) -> bool {
        if self.group != group || self.kind != kind {
            return false;
        }
        let labels = object.get("metadata").and_then(|meta| meta.get("labels"));
        let label = |key: &str| labels.and_then(|l| l.get(key)).and_then(Value::as_str);
        self.labels.accept(label)
    }
}

impl Labels {
    /// Checks the requirements as the API server does for its own selectors. One without
    /// requirements selects everything.
    ///
    /// # Errors
    /// A requirement whose operator is unknown or does not fit its values.
    pub fn compile(selector: &LabelSelector) -> Result<Self, SelectorError> {
        let mut labels = Vec::new();
        for (key, value) in selector.match_labels.iter().flatten() {
            labels.push(Requirement {
                key: key.clone(),
                test: Test::In(BTreeSet::from([value.clone()])),
            });
        }
        for expression in selector.match_expressions.iter().flatten() {
            let values: BTreeSet<String> = expression.values.iter().flatten().cloned().collect();
            labels.push(Requirement {
                key: expression.key.clone(),
                test: Test::new(&expression.key, &expression.operator, values)?,
            });
        }
        Ok(Self(labels))
    }

    /// Whether an object with these labels is selected.
    #[must_use]
    pub fn select(&self, labels: &BTreeMap<String, String>) -> bool {
        self.accept(|key| labels.get(key).map(String::as_str))
    }

    fn accept<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        let mut requirements = self.0.iter();
        requirements.all(|requirement| requirement.test.accepts(label(&requirement.key)))
    }
}

impl Test {
    fn new(key: &str, operator: &str, values: BTreeSet<String>) -> Result<Self, SelectorError> {
        let wants_values = match operator {
            "In" | "NotIn" => true,
            "Exists" | "DoesNotExist" => false,
            unknown => return Err(SelectorError::Operator(unknown.to_owned())),
        };
        let (key, name) = (key.to_owned(), operator.to_owned());
        if wants_values && values.is_empty() {
            return Err(SelectorError::MissingValues {
                key,
                operator: name,
            });
        }
        if !wants_values && !values.is_empty() {
            return Err(SelectorError::UnexpectedValues {
                key,
                operator: name,
            });
        }
        Ok(match operator {
            "In" => Self::In(values),
            "NotIn" => Self::NotIn(values),
            "Exists" => Self::Exists,
            _ => Self::DoesNotExist,
        })
    }

    /// An absent label satisfies `NotIn`, as everywhere in Kubernetes.
    fn accepts(&self, label: Option<&str>) -> bool {
        match self {
            Self::In(values) => label.is_some_and(|label| values.contains(label)),
            Self::NotIn(values) => label.is_none_or(|label| !values.contains(label)),
            Self::Exists => label.is_some(),
            Self::DoesNotExist => label.is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(spec: Value) -> ProbeSelector {
        serde_json::from_value(spec).unwrap()
    }

    fn with_labels(labels: &Value) -> ProbeSelector {
        spec(json!({"kind": {"group": "apps", "kind": "Deployment"}, "selector": labels}))
    }

    #[test]
    fn group_and_kind_match_exactly() {
        let selector = Selector::compile(&spec(
            json!({"kind": {"group": "apps", "kind": "Deployment"}}),
        ))
        .unwrap();
        for (group, kind, selected) in [
            ("apps", "Deployment", true),
            ("apps", "deployment", false),
            ("apps", "StatefulSet", false),
            ("", "Deployment", false),
            ("apps.example.com", "Deployment", false),
        ] {
            assert_eq!(
                selector.matches(group, kind, &json!({})),
                selected,
                "{group}/{kind}"
            );
        }
    }

    #[test]
    fn the_core_group_is_the_empty_string() {
        let selector =
            Selector::compile(&spec(json!({"kind": {"group": "", "kind": "ConfigMap"}}))).unwrap();
        assert!(selector.matches("", "ConfigMap", &json!({"apiVersion": "v1"})));
        assert!(!selector.matches("core", "ConfigMap", &json!({})));
    }

    #[test]
    fn labels_are_those_of_the_live_object() {
        let app = json!({"metadata": {"labels": {"app": "web", "tier": "front"}}});
        let other = json!({"metadata": {"labels": {"app": "db"}}});
        let bare = json!({"metadata": {"name": "x"}});
        let odd = json!({"metadata": {"labels": {"app": 3}}});
        let none = json!({});
        // selector, then whether it selects app, other, bare, odd, none
        for (labels, expected) in [
            (json!({}), [true; 5]),
            (
                json!({"matchLabels": {"app": "web"}}),
                [true, false, false, false, false],
            ),
            (
                json!({"matchLabels": {"app": "web", "tier": "back"}}),
                [false; 5],
            ),
            (
                json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["db", "web"]}]}),
                [true, true, false, false, false],
            ),
            (
                json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]}),
                [true, false, true, true, true],
            ),
            (
                json!({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}),
                [true, false, false, false, false],
            ),
            (
                json!({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist", "values": []}]}),
                [false, true, true, true, true],
            ),
            (
                json!({
                    "matchLabels": {"app": "web"},
                    "matchExpressions": [
                        {"key": "tier", "operator": "Exists"},
                        {"key": "tier", "operator": "NotIn", "values": ["front"]},
                    ],
                }),
                [false; 5],
            ),
        ] {
            let selector = Selector::compile(&with_labels(&labels)).unwrap();
            let selected = [&app, &other, &bare, &odd, &none]
                .map(|object| selector.matches("apps", "Deployment", object));
            assert_eq!(selected, expected, "{labels}");
        }
    }

    #[test]
    fn requirements_that_cannot_be_decided_are_refused() {
        for (expression, message) in [
            (
                json!({"key": "app", "operator": "in", "values": ["x"]}),
                r#"label selector: "in" is not a valid operator"#,
            ),
            (
                json!({"key": "app", "operator": "", "values": ["x"]}),
                r#"label selector: "" is not a valid operator"#,
            ),
            (
                json!({"key": "app", "operator": "In"}),
                r#"label selector: operator In on "app" needs values"#,
            ),
            (
                json!({"key": "app", "operator": "NotIn", "values": []}),
                r#"label selector: operator NotIn on "app" needs values"#,
            ),
            (
                json!({"key": "app", "operator": "Exists", "values": ["x"]}),
                r#"label selector: operator Exists on "app" takes no values"#,
            ),
            (
                json!({"key": "app", "operator": "DoesNotExist", "values": ["x"]}),
                r#"label selector: operator DoesNotExist on "app" takes no values"#,
            ),
        ] {
            let labels = json!({"matchExpressions": [expression]});
            let error = Selector::compile(&with_labels(&labels)).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
    }
}
