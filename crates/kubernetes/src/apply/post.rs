//! Dry runs of creates by POST. They cost the server less than those by apply: a sixth less for a small ConfigMap, a
//! third less for a Deployment of two containers.
//!
//! Both are answered by the same admission, validation, quota and webhooks. A dry run shows if the create will be
//! accepted, and the create is an apply, so a POST is sent only if an apply accepts every body that the POST accepts.
//! [`is_enough`] decides that from the body, and [`Applicable`] from earlier answers. A POST that is not accepted is
//! followed by the dry run of the apply, whose answer counts.
//!
//! An apply refuses more than a POST:
//!
//! | refused by an apply only | here |
//! |---|---|
//! | a client that may not patch, a kind without the verb | the last apply there was accepted, a moment ago |
//! | names that an account may not patch | only for the manager itself |
//! | entries of an associative list with equal keys or without, equal entries of a set | [`Lists`] |
//! | fields that the schema of a built-in kind does not have | the POST has strict field validation |
//! | `managedFields`, and other metadata that the server sets | `METADATA` |
//! | what YAML cannot represent: some characters, keys of more than 1,024 characters | `is_plain` |
//! | null where the schema allows none | no null |

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use baton_engine::{Gvk, ObjectKey};
use serde_json::{Map, Value};

use crate::expiring_cache::ExpiringCache;

/// The time for which an accepted apply shows that the next one is accepted as far as rights and kind are concerned.
const APPLICABLE: Duration = Duration::from_mins(1);

/// The longest key of a JSON object, in bytes with its escapes. YAML has a limit of 1,024.
const LONGEST_KEY: usize = 1000;

/// The metadata of a body whose dry run may be a POST.
const METADATA: [&str; 6] = [
    "annotations",
    "labels",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
];

/// The keys of the associative lists in manifests of built-in kinds, by the name of the field. Other lists of objects
/// may have any keys.
const KEYS: [(&str, &[&str]); 18] = [
    ("claims", &["name"]),
    ("containers", &["name"]),
    ("env", &["name"]),
    ("ephemeralContainers", &["name"]),
    ("hostAliases", &["ip"]),
    ("imagePullSecrets", &["name"]),
    ("initContainers", &["name"]),
    ("matchConditions", &["name"]),
    ("ownerReferences", &["uid"]),
    ("resourceClaims", &["name"]),
    ("schedulingGates", &["name"]),
    ("secrets", &["name"]),
    (
        "topologySpreadConstraints",
        &["topologyKey", "whenUnsatisfiable"],
    ),
    ("variables", &["name"]),
    ("volumeDevices", &["devicePath"]),
    ("volumeMounts", &["mountPath"]),
    ("volumes", &["name"]),
    ("webhooks", &["name"]),
];

/// The lists in the metadata of objects.
const METADATA_LISTS: [&str; 2] = ["finalizers", "ownerReferences"];

/// The keys of the ports of a Service, and of a container. The protocol has a default.
const PORTS: [&str; 2] = ["port", "containerPort"];

/// The types of the lists of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lists {
    /// The kind has a definition. A POST checks the entries by the schema, as an apply does, but not those in the
    /// metadata of embedded objects.
    Defined,
    /// A kind of Kubernetes, which has the lists of [`KEYS`].
    BuiltIn,
    /// The lists may have any type.
    Unknown,
}

impl Lists {
    /// The types of the lists of a kind, which may have a definition.
    pub fn of(group: &str, is_defined: bool) -> Self {
        match group {
            _ if is_defined => Self::Defined,
            _ if !group.contains('.') || group.ends_with(".k8s.io") => Self::BuiltIn,
            _ => Self::Unknown,
        }
    }

    /// True if an apply accepts the entries of a list in a field of this name, whatever the type of the list is.
    fn accept(self, name: &str, list: &[Value]) -> bool {
        // The metadata of embedded objects has a schema of its own.
        if self == Self::Defined && !METADATA_LISTS.contains(&name) {
            return true;
        }
        let mut seen = BTreeSet::new();
        list.iter().all(|entry| match (self, entry) {
            (_, Value::Array(_)) | (Self::Unknown, Value::Object(_)) => false,
            (_, Value::Object(entry)) => identity(name, entry).is_some_and(|it| seen.insert(it)),
            (_, scalar) => seen.insert(scalar.to_string()),
        })
    }
}

/// The values of the keys of an entry in a list of a built-in kind; `None` if the keys are unknown or missing.
fn identity(list: &str, entry: &Map<String, Value>) -> Option<String> {
    if list == "ports" {
        let mut keys = PORTS.iter().filter_map(|key| entry.get(*key));
        let protocol = entry.get("protocol").and_then(Value::as_str);
        return Some(format!("{} {}", keys.next()?, protocol.unwrap_or("TCP")));
    }
    let (_, keys) = KEYS.iter().find(|(name, _)| *name == list)?;
    let values = keys.iter().map(|key| Some(entry.get(*key)?.to_string()));
    let values: Option<Vec<_>> = values.collect();
    Some(values?.join(" "))
}

/// The kinds and namespaces in which the last apply by the manager itself was accepted a moment ago.
#[derive(Default)]
pub(crate) struct Applicable(ExpiringCache<(Gvk, String), (), 4096>);

impl Applicable {
    /// True if the last apply was accepted, a moment ago.
    pub fn knows(&self, gvk: &Gvk, key: &ObjectKey) -> bool {
        let question = (gvk.clone(), key.namespace.clone());
        self.0.get(&question, Instant::now()).is_some()
    }

    /// Notes the result of an apply.
    pub fn note(&self, gvk: &Gvk, key: &ObjectKey, is_accepted: bool) {
        let question = (gvk.clone(), key.namespace.clone());
        let now = Instant::now();
        let until = if is_accepted { now + APPLICABLE } else { now };
        self.0.insert(question, (), now, until);
    }
}

/// The body of the POST for the body of a create. A POST must not name a version.
pub(super) fn body(of_create: &Value) -> Value {
    let mut body = of_create.clone();
    if let Some(metadata) = body["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
    }
    body
}

/// True if an apply accepts the body of a create whenever a POST accepts it, apart from rights.
pub(super) fn is_enough(lists: Lists, body: &Value) -> bool {
    let metadata = body["metadata"].as_object();
    let is_usual = metadata.is_some_and(|it| it.keys().all(|key| METADATA.contains(&key.as_str())));
    is_usual && is_safe(lists, "", body)
}

/// True if a value in a field of this name has no part that only an apply refuses.
fn is_safe(lists: Lists, name: &str, value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(_) | Value::Number(_) => true,
        Value::String(text) => is_plain(text),
        Value::Array(list) => {
            lists.accept(name, list) && list.iter().all(|it| is_safe(lists, name, it))
        }
        Value::Object(fields) => fields.iter().all(|(key, value)| {
            Value::from(&**key).to_string().len() <= LONGEST_KEY
                && is_plain(key)
                && is_safe(lists, key, value)
        }),
    }
}

/// True if YAML has all characters of a text inside of quotes, and with no other meaning. JSON escapes those below
/// U+0020.
fn is_plain(text: &str) -> bool {
    text.chars().all(|character| {
        !matches!(
            character,
            '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn enough(lists: Lists, spec: &Value) -> bool {
        let metadata = json!({ "name": "a", "namespace": "n", "resourceVersion": "1" });
        is_enough(lists, &json!({ "metadata": metadata, "spec": spec }))
    }

    #[test]
    fn a_post_is_enough_for_entries_with_distinct_keys() {
        for (spec, expected) in [
            (
                json!({ "containers": [{ "name": "a", "image": "x" }, { "name": "b", "image": "x" }] }),
                true,
            ),
            (
                json!({ "containers": [{ "name": "a" }, { "name": "a" }] }),
                false,
            ),
            (json!({ "secrets": [{}] }), false),
            (
                json!({ "ports": [{ "port": 80, "name": "a" }, { "port": 81, "name": "a" }] }),
                true,
            ),
            (
                json!({ "ports": [{ "port": 80, "protocol": "TCP" }, { "port": 80, "protocol": "UDP" }] }),
                true,
            ),
            (
                json!({ "ports": [{ "port": 80, "protocol": "TCP" }, { "port": 80 }] }),
                false,
            ),
            (
                json!({ "ports": [{ "containerPort": 80 }, { "containerPort": 80 }] }),
                false,
            ),
            (json!({ "ports": [{ "name": "http" }] }), false),
            (
                json!({ "topologySpreadConstraints": [
                    { "topologyKey": "a", "whenUnsatisfiable": "x" }, { "topologyKey": "b", "whenUnsatisfiable": "x" },
                ] }),
                true,
            ),
            (
                json!({ "topologySpreadConstraints": [{ "topologyKey": "a" }] }),
                false,
            ),
            // The keys of this list are unknown.
            (json!({ "gizmos": [{ "a": 1 }] }), false),
            (json!({ "args": ["a", "b"] }), true),
            (json!({ "args": ["a", "a"] }), false),
            (json!({ "args": [["a"]] }), false),
        ] {
            assert_eq!(enough(Lists::BuiltIn, &spec), expected, "{spec}");
            assert!(enough(Lists::Defined, &spec), "{spec}");
        }
        let embedded = |list: &str, entry: &Value| json!({ "template": { list: [entry, entry] } });
        for (list, entry) in [
            ("finalizers", json!("example.com/x")),
            ("ownerReferences", json!({ "uid": "u" })),
        ] {
            assert!(!enough(Lists::Defined, &embedded(list, &entry)), "{list}");
        }
        assert!(!enough(
            Lists::Unknown,
            &json!({ "env": [{ "name": "a" }] })
        ));
        assert!(enough(Lists::Unknown, &json!({ "args": ["a", "b"] })));
    }

    #[test]
    fn kinds_have_lists_by_their_group() {
        for (group, expected) in [
            ("", Lists::BuiltIn),
            ("apps", Lists::BuiltIn),
            ("networking.k8s.io", Lists::BuiltIn),
            ("example.com", Lists::Unknown),
        ] {
            assert_eq!(Lists::of(group, false), expected, "{group}");
            assert_eq!(Lists::of(group, true), Lists::Defined, "{group}");
        }
    }

    #[test]
    fn a_post_is_enough_for_what_yaml_has() {
        for (spec, expected) in [
            (json!({ "text": "ä \u{1f600} \u{1} \n \" \\" }), true),
            (json!({ "text": "\u{7f}" }), false),
            (json!({ "text": "\u{85}" }), false),
            (json!({ "text": "\u{2028}" }), false),
            (json!({ "text": "\u{feff}" }), false),
            (json!({ "text\u{80}": 1 }), false),
            (json!({ "text": null }), false),
            (json!({ "list": [null] }), false),
            (json!({ "x".repeat(LONGEST_KEY - 2): 1 }), true),
            (json!({ "x".repeat(LONGEST_KEY - 1): 1 }), false),
            (json!({ "\"".repeat(LONGEST_KEY / 2): 1 }), false),
        ] {
            assert_eq!(enough(Lists::Defined, &spec), expected, "{spec}");
        }
    }

    #[test]
    fn a_post_is_enough_for_the_usual_metadata() {
        for (field, expected) in [
            ("labels", true),
            ("managedFields", false),
            ("finalizers", false),
            ("generateName", false),
            ("uid", false),
        ] {
            let object = json!({ "metadata": { "name": "a", field: { "k": "v" } } });
            assert_eq!(is_enough(Lists::Defined, &object), expected, "{field}");
        }
        assert!(!is_enough(Lists::Defined, &json!({})));
        let create = json!({ "metadata": { "name": "a", "resourceVersion": "1" }, "data": {} });
        assert_eq!(
            body(&create),
            json!({ "metadata": { "name": "a" }, "data": {} })
        );
    }

    #[test]
    fn the_last_apply_of_a_kind_in_a_namespace_counts() {
        let known = Applicable::default();
        let gvk = Gvk::new("v1", "ConfigMap");
        let key = |namespace: &str| ObjectKey {
            group: String::new(),
            kind: "ConfigMap".to_owned(),
            namespace: namespace.to_owned(),
            name: "a".to_owned(),
        };
        assert!(!known.knows(&gvk, &key("shop")));
        known.note(&gvk, &key("shop"), true);
        assert!(known.knows(&gvk, &key("shop")));
        assert!(!known.knows(&gvk, &key("other")));
        assert!(!known.knows(&Gvk::new("v1", "Secret"), &key("shop")));
        known.note(&gvk, &key("shop"), false);
        assert!(!known.knows(&gvk, &key("shop")), "the right may be gone");
    }
}
