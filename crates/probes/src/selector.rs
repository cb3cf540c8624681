//! Selectors of live objects, by group, kind and labels.

use std::collections::{BTreeMap, BTreeSet};

use baton_apis::ProbeSelector;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use serde_json::Value;
use thiserror::Error;

/// An invalid requirement of a label selector.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SelectorError {
    /// Not `In`, `NotIn`, `Exists` or `DoesNotExist`.
    #[error("label selector: \"{0}\" is not a valid operator")]
    Operator(String),
    /// `In` or `NotIn` without values.
    #[error("label selector: operator {operator} on \"{key}\" needs values")]
    MissingValues {
        /// The label.
        key: String,
        /// The operator.
        operator: String,
    },
    /// `Exists` or `DoesNotExist` with values.
    #[error("label selector: operator {operator} on \"{key}\" takes no values")]
    UnexpectedValues {
        /// The label.
        key: String,
        /// The operator.
        operator: String,
    },
}

/// The selector of an entry of probes.
#[derive(Clone, Debug)]
pub(crate) struct Selector {
    group: String,
    kind: String,
    labels: Labels,
}

/// A label selector with validated requirements. The default selects every object.
#[derive(Clone, Debug, Default)]
pub struct Labels(Vec<(String, Requirement)>);

#[derive(Clone, Debug)]
enum Requirement {
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Exists,
    DoesNotExist,
}

impl Selector {
    pub fn compile(spec: &ProbeSelector) -> Result<Self, SelectorError> {
        let labels = spec.selector.as_ref().map(Labels::compile).transpose()?;
        Ok(Self {
            group: spec.kind.group.clone(),
            kind: spec.kind.kind.clone(),
            labels: labels.unwrap_or_default(),
        })
    }

    /// True if it may select objects of a kind.
    pub fn is_about(&self, group: &str, kind: &str) -> bool {
        self.group == group && self.kind == kind
    }

    pub fn matches(&self, group: &str, kind: &str, object: &Value) -> bool {
        if !self.is_about(group, kind) {
            return false;
        }
        let labels = object.get("metadata").and_then(|meta| meta.get("labels"));
        let label = |key: &str| {
            labels
                .and_then(|labels| labels.get(key))
                .and_then(Value::as_str)
        };
        self.labels.accept(label)
    }
}

impl Labels {
    /// Checks the requirements as the API server does for its own selectors. A selector without
    /// requirements selects every object.
    ///
    /// # Errors
    /// Returns the first requirement whose operator is unknown or does not fit its values.
    pub fn compile(selector: &LabelSelector) -> Result<Self, SelectorError> {
        let labels = selector.match_labels.iter().flatten();
        let labels = labels.map(|(key, value)| {
            let values = BTreeSet::from([value.clone()]);
            Ok((key.clone(), Requirement::In(values)))
        });
        let expressions = selector.match_expressions.iter().flatten();
        let expressions = expressions
            .map(|expression| Ok((expression.key.clone(), Requirement::compile(expression)?)));
        labels
            .chain(expressions)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// True if an object with these labels is selected.
    pub fn select(&self, labels: &BTreeMap<String, String>) -> bool {
        self.accept(|key| labels.get(key).map(String::as_str))
    }

    fn accept<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        let mut requirements = self.0.iter();
        requirements.all(|(key, requirement)| requirement.accepts(label(key)))
    }
}

impl Requirement {
    fn compile(expression: &LabelSelectorRequirement) -> Result<Self, SelectorError> {
        let (key, operator) = (expression.key.clone(), expression.operator.clone());
        let values: BTreeSet<String> = expression.values.iter().flatten().cloned().collect();
        match (operator.as_str(), values.is_empty()) {
            ("In", false) => Ok(Self::In(values)),
            ("NotIn", false) => Ok(Self::NotIn(values)),
            ("Exists", true) => Ok(Self::Exists),
            ("DoesNotExist", true) => Ok(Self::DoesNotExist),
            ("In" | "NotIn", true) => Err(SelectorError::MissingValues { key, operator }),
            ("Exists" | "DoesNotExist", false) => {
                Err(SelectorError::UnexpectedValues { key, operator })
            }
            _ => Err(SelectorError::Operator(operator)),
        }
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
        // the selector; expected: true if it selects app, other, bare, odd, none
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
