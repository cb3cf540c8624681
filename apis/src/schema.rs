//! Pieces of schema that the derive macros cannot express, and the rules of immutability.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::Rule;
use schemars::{Schema, SchemaGenerator, json_schema};

/// Pattern of the type of a mapped condition. It is not anchored, so that it accepts everything
/// that Package Operator accepts.
pub(crate) const MAPPED_CONDITION_TYPE: &str = concat!(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/",
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])"
);

/// Pattern of names of custom resources. On the server `$` matches the end of the text, not of a
/// line.
pub(crate) const SUBDOMAIN: &str =
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// Pattern of label values; the class of a phase becomes one.
pub(crate) const LABEL_VALUE: &str = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";

/// Pattern of a dotted path of map keys, such as `.spec.replicas`. A dot or a backslash in a key is
/// escaped with a backslash.
pub(crate) const FIELD_PATH: &str = r"^(\.([^.\[\]*\\]|\\[.\\])+)+$";

/// Pattern of the name of a service account.
pub(crate) const ACCOUNT_NAME: &str =
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// Pattern of a duration, such as `1h30m`.
pub(crate) const DURATION: &str = "^([0-9]+h)?([0-9]+m)?([0-9]+s)?$";

/// A field of the same object that may not be added, changed or removed.
///
/// The rule is on the parent, because a rule on the field itself is not evaluated when the field is
/// added or removed.
pub(crate) fn immutable(field: &str) -> Rule {
    Rule::new(format!(
        "has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})"
    ))
    .message(immutable_message(field).as_str())
    .field_path(format!(".{field}"))
}

/// A field of the same object that may not be added or removed; a rule on the field itself protects
/// its value.
pub(crate) fn immutable_presence(field: &str) -> Rule {
    Rule::new(format!("has(self.{field}) == has(oldSelf.{field})"))
        .message(immutable_message(field).as_str())
        .field_path(format!(".{field}"))
}

/// The value with the rule may not change.
pub(crate) fn immutable_value(field: &str) -> Rule {
    Rule::new("self == oldSelf").message(immutable_message(field).as_str())
}

/// A number that the controller may set once; zero counts as absent.
pub(crate) fn set_once(field: &str) -> Rule {
    Rule::new(format!(
        "!has(oldSelf.{field}) || oldSelf.{field} == 0 || (has(self.{field}) && self.{field} == oldSelf.{field})"
    ))
    .message(immutable_message(field).as_str())
    .field_path(format!(".{field}"))
}

/// The message that clients look for.
fn immutable_message(field: &str) -> String {
    format!("{field} is immutable")
}

/// `spec.previous[].kind`, if set, is the kind of the referring object. The rule is on the root,
/// because only there the kind is available; so both scopes share the rule.
pub(crate) fn previous_of_own_kind() -> Rule {
    Rule::new(
        "!has(self.spec) || !has(self.spec.previous) || self.spec.previous.all(p, !has(p.kind) || p.kind == self.kind)",
    )
    .message(kube::core::Message::Expression(
        "'kind of a previous revision must be ' + self.kind".to_owned(),
    ))
    .field_path(".spec.previous")
}

/// A Cluster that the manager connects to has an address.
pub(crate) fn api_master_for_push() -> Rule {
    Rule::new("self.connection != 'Push' || (has(self.apiMaster) && self.apiMaster != '')")
        .message("apiMaster is required unless connection is Pull")
        .field_path(".apiMaster")
}

/// Exactly one kind of probe per entry.
///
/// Probes are in a list of lists without a limit. The server assumes a million of them when it
/// estimates the cost, so the rule cannot do much more than this.
pub(crate) fn one_probe() -> Rule {
    Rule::new(
        "has(self.condition) ? !has(self.fieldsEqual) && !has(self.cel) : has(self.fieldsEqual) != has(self.cel)",
    )
        .message("set exactly one of condition, fieldsEqual and cel")
}

/// A manifest of any kind: the fields that every object has, and any other content.
///
/// There is no `x-kubernetes-embedded-resource`: with it, the server would convert the metadata of
/// each manifest to its own types and back, on every write and on every read from storage.
/// Preflight and dry runs find the errors that this conversion would find beyond this schema.
///
/// There is no type either, so rules of immutability compare manifests as a whole. This is cheaper
/// than a comparison field by field, and misses nothing. In a map with undeclared fields, a
/// comparison by field would miss a renamed field. A value that is no map is refused by a rule that
/// holds for every map: it does not have that many properties.
pub(crate) fn manifest(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-preserve-unknown-fields": true,
        "not": { "minProperties": 1_000_000_000 },
        "required": ["apiVersion", "kind"],
        "properties": {
            "apiVersion": {
                "description": "Group and version of the object; the version alone for the core group.",
                "type": "string",
                "minLength": 1,
            },
            "kind": {
                "description": "Kind of the object.",
                "type": "string",
                "minLength": 1,
            },
            "metadata": {
                "description": "Metadata of the object.",
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": true,
                "properties": {
                    "name": {
                        "description": "Name of the object. Required; names are not generated.",
                        "type": "string",
                    },
                    "namespace": {
                        "description": "Namespace of the object.",
                        "type": "string",
                    },
                },
            },
        },
    })
}

/// A label selector, replaced as a whole by server-side apply, as in the built-in kinds.
pub(crate) fn label_selector(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = generator.subschema_for::<LabelSelector>();
    schema.insert("x-kubernetes-map-type".to_owned(), "atomic".into());
    schema
}

/// As [`label_selector`], with limits on its size, so that the server can bound the cost of rules
/// about it.
pub(crate) fn bounded_label_selector(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = label_selector(generator);
    if let Some(expressions) = schema.pointer_mut("/properties/matchExpressions")
        && let Some(expressions) = expressions.as_object_mut()
    {
        expressions.insert(
            "maxItems".to_owned(),
            crate::limits::SELECTOR_EXPRESSIONS.into(),
        );
    }
    for (path, keyword, most) in [
        (
            "/properties/matchLabels",
            "maxProperties",
            crate::limits::SELECTOR_LABELS,
        ),
        (
            "/properties/matchExpressions/items/properties/values",
            "maxItems",
            crate::limits::SELECTOR_VALUES,
        ),
    ] {
        if let Some(bounded) = schema.pointer_mut(path).and_then(|it| it.as_object_mut()) {
            bounded.insert(keyword.to_owned(), most.into());
        }
    }
    schema
}

/// Names of objects, without duplicates.
pub(crate) fn names(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 1000,
        "x-kubernetes-list-type": "set",
        "items": { "type": "string", "minLength": 1, "maxLength": 253 },
    })
}

/// Names or a selector are set. To select nothing, the list of names is set and empty.
pub(crate) fn selects_something() -> Rule {
    Rule::new("has(self.names) || has(self.selector)")
        .message("set names or selector; an empty selector selects all, an empty list none")
}

/// A selector with the operators and values that the API server itself accepts.
pub(crate) fn decidable_selector() -> Rule {
    Rule::new(
        "!has(self.selector) || !has(self.selector.matchExpressions) || self.selector.matchExpressions.all(e, \
         e.operator in ['In', 'NotIn'] ? has(e.values) && size(e.values) > 0 : \
         e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || size(e.values) == 0))",
    )
    .message("operator must be In or NotIn, with values, or Exists or DoesNotExist, without")
    .field_path(".selector")
}

/// The scope for all namespaces has no list of namespaces.
pub(crate) fn target_namespaces_for_namespace() -> Rule {
    Rule::new("self.scope == 'Namespace' || !has(self.targetNamespaces) || size(self.targetNamespaces) == 0")
        .message("targetNamespaces are for scope Namespace; scope Cluster reaches all namespaces")
        .field_path(".targetNamespaces")
}

/// The name of the object is a valid label value, because other objects get it in a label.
pub(crate) fn name_is_a_label_value() -> Rule {
    Rule::new("size(self.metadata.name) <= 63").message("the name must have at most 63 characters")
}

/// Services have methods of their own only where each service is upgraded separately.
pub(crate) fn services_for_per_service() -> Rule {
    Rule::new("self.method == 'PerService' || !has(self.services) || size(self.services) == 0")
        .message("services are for method PerService; StopAndRestart stops all workloads")
        .field_path(".services")
}

/// Sites are selected in exactly one way.
pub(crate) fn one_placement() -> Rule {
    Rule::new("has(self.matchSiteLabels) != has(self.selector)").message(
        "set exactly one of matchSiteLabels and selector; an empty selector selects all sites",
    )
}

/// The first sites are selected in exactly one way.
pub(crate) fn one_canary() -> Rule {
    Rule::new("has(self.sites) != has(self.matchSiteLabels)")
        .message("set exactly one of sites and matchSiteLabels")
}

/// The field `canary` is set exactly with the type `Canary`.
pub(crate) fn canary_of_canary() -> Rule {
    Rule::new("(self.type == 'Canary') == has(self.canary)")
        .message("canary is required for type Canary, and for no other")
        .field_path(".canary")
}

/// The field `rolling` is set exactly where a limited number of sites get a version at a time.
pub(crate) fn rolling_of_rolling() -> Rule {
    Rule::new(
        "(self.type == 'Rolling' || (self.type == 'Canary' && has(self.canary) && self.canary.then == 'Rolling')) == \
         has(self.rolling)",
    )
    .message("rolling is required for type Rolling and for canary.then Rolling, and for no other")
    .field_path(".rolling")
}

/// A number of failures is set only for rollouts that go on after an error.
pub(crate) fn failures_of_continue() -> Rule {
    Rule::new("!has(self.maxFailures) || self.onError == 'Continue'")
        .message("maxFailures is for onError Continue")
        .field_path(".maxFailures")
}

/// A number or a percentage.
pub(crate) fn count_or_percent(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "anyOf": [{ "type": "integer" }, { "type": "string" }],
        "x-kubernetes-validations": [{
            "rule": "type(self) == int ? self >= 1 : self.matches('^([1-9][0-9]?|100)%$')",
            "message": "must be at least 1, or 1% to 100%",
        }],
    })
}

/// Conditions with the limits that every Kubernetes API puts on them.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "description": "One aspect of the current state.",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "lastTransitionTime": {
                    "description": "Time of the last change of `status`.",
                    "type": "string",
                    "format": "date-time",
                },
                "message": {
                    "description": "Details of the state for people. May be empty.",
                    "type": "string",
                    "maxLength": crate::conditions::MAX_MESSAGE_LENGTH,
                },
                "observedGeneration": {
                    "description": "The `metadata.generation` that the condition is about. An older number than the \
                     current one means that the condition is out of date.",
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                },
                "reason": {
                    "description": "Why the condition has its status, in one word for programs.",
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "status": {
                    "description": "Whether the condition holds: True, False or Unknown.",
                    "type": "string",
                    "enum": ["True", "False", "Unknown"],
                },
                "type": {
                    "description": "Name of the condition; mapped ones carry a DNS prefix, as in `example.com/Ready`.",
                    "type": "string",
                    "maxLength": 316,
                    "pattern": concat!(
                        r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?",
                        r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
                    ),
                },
            },
        },
    })
}
