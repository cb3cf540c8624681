//! What goes along with an object that is deleted: the data of a claim, the pods of a stateful set, all that is in a
//! namespace, all objects of a kind.

mod ask;

use baton_engine::{Gvk, object::text};
use baton_kubernetes::path;
use serde_json::Value;

pub(crate) use self::ask::warning;
use crate::{connect::Count, output::format::first};

/// So many kinds in a namespace are named.
const NAMED: usize = 6;
/// What is to be named first: it holds data.
const FIRST: [&str; 2] = ["persistentvolumeclaims", "statefulsets.apps"];

/// An object that takes others, or data, along when it is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Going {
    Namespace(String),
    /// The definition of a kind whose objects are at this path, if any version of it is served.
    Definition(Option<String>),
    /// A `PersistentVolumeClaim`, and the volume that it is bound to.
    Claim(Option<String>),
    StatefulSet {
        pods: u64,
        /// Names of its templates of claims.
        templates: Vec<String>,
        /// Whether the claims go with it.
        with_claims: bool,
    },
}

/// What is known of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    /// By kind, as `kubectl get` takes it.
    pub(crate) counts: Vec<(String, Count)>,
    /// Kinds that could not be counted.
    pub(crate) unknown: Vec<String>,
}

impl Going {
    /// What a live object takes along, by what it says itself.
    pub(crate) fn of(gvk: &Gvk, live: &Value) -> Option<Self> {
        let at = |pointer| live.pointer(pointer);
        let text_at = |pointer| at(pointer).and_then(Value::as_str).map(str::to_owned);
        match (gvk.group.as_str(), gvk.kind.as_str()) {
            ("", "Namespace") => text_at("/metadata/name").map(Self::Namespace),
            ("apiextensions.k8s.io", "CustomResourceDefinition") => {
                Some(Self::Definition(collection(live)))
            }
            ("", "PersistentVolumeClaim") => {
                let volume = text_at("/spec/volumeName").filter(|name| !name.is_empty());
                Some(Self::Claim(volume))
            }
            ("apps", "StatefulSet") => {
                let templates = at("/spec/volumeClaimTemplates").and_then(Value::as_array);
                let names = templates.into_iter().flatten();
                let names = names.filter_map(|it| it.pointer("/metadata/name")?.as_str());
                let policy = at("/spec/persistentVolumeClaimRetentionPolicy/whenDeleted");
                let pods = at("/status/replicas").or(at("/spec/replicas"));
                Some(Self::StatefulSet {
                    pods: pods.and_then(Value::as_u64).unwrap_or(1),
                    templates: names.map(str::to_owned).collect(),
                    with_claims: policy.is_some_and(|policy| policy == "Delete"),
                })
            }
            _ => None,
        }
    }
}

/// Where the objects of a definition are, in a version that is served.
fn collection(definition: &Value) -> Option<String> {
    let spec = definition.get("spec")?;
    let is = |version: &&Value, field: &str| version.get(field) == Some(&Value::Bool(true));
    let versions = spec.get("versions")?.as_array()?;
    let served = versions.iter().filter(|version| is(version, "served"));
    let stored = served.clone().find(|version| is(version, "storage"));
    let version = stored.or(served.clone().next())?;
    let prefix = path::group_version(text(spec, "group"), text(version, "name")).ok()?;
    Some(path::everywhere(
        &prefix,
        text(spec.get("names")?, "plural"),
    ))
}

/// What goes along with a namespace.
pub(crate) fn of_namespace(contents: &Contents) -> String {
    let Contents { counts, unknown } = contents;
    let mut counts: Vec<(&str, u64, bool)> = counts
        .iter()
        .map(|(kind, count)| match count {
            Count::Exactly(count) => (kind.as_str(), *count, false),
            Count::MoreThan(count) => (kind.as_str(), *count, true),
        })
        .filter(|(_, count, is_more)| *count > 0 || *is_more)
        .collect();
    let rank = |kind: &str| {
        FIRST
            .iter()
            .position(|it| *it == kind)
            .unwrap_or(FIRST.len())
    };
    counts.sort_by_key(|(kind, count, _)| (rank(kind), u64::MAX - count, *kind));
    let mut parts: Vec<String> = counts
        .iter()
        .take(NAMED)
        .map(|(kind, count, is_more)| {
            let more = if *is_more { "more than " } else { "" };
            format!("{more}{count} {kind}")
        })
        .collect();
    if let Some(rest) = counts.get(NAMED..).filter(|rest| !rest.is_empty()) {
        let objects: u64 = rest.iter().map(|(_, count, _)| count).sum();
        let kinds = rest.len();
        parts.push(format!("{objects} objects of {kinds} more kinds"));
    }
    let unknown = match unknown.as_slice() {
        [] => String::new(),
        kinds if parts.is_empty() && kinds.len() > NAMED => {
            let text = "all that is in it goes along, and what that is you may not see";
            return text.to_owned();
        }
        kinds => {
            let unit = if kinds.len() > NAMED { " kinds" } else { "" };
            let named = first(kinds, NAMED);
            format!("; of these you may not see any: {named}{unit}")
        }
    };
    if parts.is_empty() {
        format!("nothing else is in it{unknown}")
    } else {
        format!(
            "all that is in it goes along: {}{unknown}",
            parts.join(", ")
        )
    }
}

/// What goes along with a definition, by how many objects of its kind there are; `None` where that is unknown.
pub(crate) fn of_definition(count: Option<Count>) -> String {
    match count {
        Some(Count::Exactly(0)) => "there are no objects of its kind".to_owned(),
        Some(Count::Exactly(count)) => {
            format!("all objects of its kind go along, in all namespaces: {count}")
        }
        Some(Count::MoreThan(count)) => {
            format!("all objects of its kind go along, in all namespaces: more than {count}")
        }
        None => "all objects of its kind go along, in all namespaces: how many you may not see"
            .to_owned(),
    }
}

/// What goes along with a claim, by the reclaim policy of its volume.
pub(crate) fn of_claim(volume: Option<&str>, policy: Option<&str>) -> String {
    match (volume, policy) {
        (None, _) => "it has no volume yet".to_owned(),
        (Some(volume), Some("Retain")) => {
            format!(
                "its data stays in volume {volume}, which nothing is bound to then (reclaim policy Retain)"
            )
        }
        (Some(volume), Some(policy)) => {
            format!("its data goes along with volume {volume} (reclaim policy {policy})")
        }
        (Some(volume), None) => format!(
            "its data goes along, unless volume {volume}, which you may not see, has the reclaim policy Retain"
        ),
    }
}

fn of_stateful_set(pods: u64, templates: &[String], with_claims: bool) -> String {
    let pods = match pods {
        0 => "it has no pods".to_owned(),
        1 => "its pod goes along".to_owned(),
        pods => format!("its {pods} pods go along"),
    };
    let templates = templates.join(", ");
    match (templates.as_str(), with_claims) {
        ("", _) => pods,
        (_, true) => {
            format!("{pods}, and the PersistentVolumeClaims of {templates} with their data")
        }
        (_, false) => format!("{pods}; the PersistentVolumeClaims of {templates} stay"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<Going> {
        let object: Value = serde_saphyr::from_str(text).unwrap();
        let field = |name| object[name].as_str().unwrap();
        Going::of(&Gvk::new(field("apiVersion"), field("kind")), &object)
    }

    #[test]
    fn what_takes_others_along() {
        let definition = |versions: &str| {
            of(&format!(
                "{{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, spec: {{group: example.com, \
                     names: {{plural: tools}}, versions: {versions}}}}}"
            ))
        };
        let at = |version: &str| {
            let path = format!("/apis/example.com/{version}/tools");
            Some(Going::Definition(Some(path)))
        };
        let old = "[{name: v1, served: true}, {name: v2, served: true, storage: true}]";
        assert_eq!(definition(old), at("v2"));
        let moved = "[{name: v1, served: true}, {name: v2, served: false, storage: true}]";
        assert_eq!(definition(moved), at("v1"));
        assert_eq!(definition("[]"), Some(Going::Definition(None)));
        // Names that would lead elsewhere.
        assert_eq!(
            definition("[{name: .., served: true}]"),
            Some(Going::Definition(None))
        );
        assert_eq!(
            of("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}"),
            Some(Going::Namespace("shop".to_owned()))
        );
        assert_eq!(
            of("{apiVersion: v1, kind: PersistentVolumeClaim, spec: {volumeName: ''}}"),
            Some(Going::Claim(None))
        );
        for (text, expected) in [
            (
                "spec: {replicas: 3, volumeClaimTemplates: [{metadata: {name: data}}, {metadata: {name: wal}}]}",
                "its 3 pods go along; the PersistentVolumeClaims of data, wal stay",
            ),
            (
                "spec: {replicas: 3, persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete}, \
                     volumeClaimTemplates: [{metadata: {name: data}}]}, status: {replicas: 1}",
                "its pod goes along, and the PersistentVolumeClaims of data with their data",
            ),
            ("spec: {replicas: 0}", "it has no pods"),
        ] {
            let set = of(&format!(
                "{{apiVersion: apps/v1, kind: StatefulSet, {text}}}"
            ));
            let Some(Going::StatefulSet {
                pods,
                templates,
                with_claims,
            }) = set
            else {
                panic!("{set:?}");
            };
            assert_eq!(of_stateful_set(pods, &templates, with_claims), expected);
        }
        for text in [
            "{apiVersion: v1, kind: ConfigMap}",
            "{apiVersion: apps/v1, kind: Deployment}",
            "{apiVersion: example.com/v1, kind: StatefulSet}",
            "{apiVersion: example.com/v1, kind: Namespace, metadata: {name: x}}",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn a_claim_goes_with_its_data_unless_the_volume_is_retained() {
        for (volume, policy, expected) in [
            (None, None, "it has no volume yet"),
            (
                Some("pv"),
                Some("Delete"),
                "its data goes along with volume pv (reclaim policy Delete)",
            ),
            (
                Some("pv"),
                Some("Retain"),
                "its data stays in volume pv, which nothing is bound to then (reclaim policy Retain)",
            ),
            (
                Some("pv"),
                None,
                "its data goes along, unless volume pv, which you may not see, has the reclaim policy Retain",
            ),
        ] {
            assert_eq!(of_claim(volume, policy), expected);
        }
    }

    #[test]
    fn what_is_in_a_namespace_is_counted_data_first() {
        let contents = |counts: &[(&str, u64)], unknown: &[&str]| {
            let counts = counts.iter();
            of_namespace(&Contents {
                counts: counts
                    .map(|(kind, count)| ((*kind).to_owned(), Count::Exactly(*count)))
                    .collect(),
                unknown: unknown.iter().map(|kind| (*kind).to_owned()).collect(),
            })
        };
        let empty = [("configmaps", 0), ("pods", 0)];
        assert_eq!(contents(&empty, &[]), "nothing else is in it");
        let full = [
            ("a", 9),
            ("configmaps", 2),
            ("b", 1),
            ("persistentvolumeclaims", 1),
            ("c", 2),
            ("statefulsets.apps", 4),
            ("d", 2),
            ("e", 1),
        ];
        assert_eq!(
            contents(&full, &["secrets"]),
            "all that is in it goes along: 1 persistentvolumeclaims, 4 statefulsets.apps, 9 a, 2 c, 2 configmaps, 2 d, \
             2 objects of 2 more kinds; of these you may not see any: secrets"
        );
        let hidden = ["a", "b", "c", "d", "e", "f", "g", "h"];
        assert_eq!(
            contents(&[], &hidden),
            "all that is in it goes along, and what that is you may not see"
        );
        assert_eq!(
            contents(&[("x", 1)], &hidden),
            "all that is in it goes along: 1 x; of these you may not see any: a, b, c, d, e, f and 2 more kinds"
        );
        let more = Contents {
            counts: vec![("pods".to_owned(), Count::MoreThan(1))],
            unknown: Vec::new(),
        };
        assert_eq!(
            of_namespace(&more),
            "all that is in it goes along: more than 1 pods"
        );
    }

    #[test]
    fn objects_of_a_kind_are_counted() {
        for (count, expected) in [
            (Some(Count::Exactly(0)), "there are no objects of its kind"),
            (
                Some(Count::Exactly(12)),
                "all objects of its kind go along, in all namespaces: 12",
            ),
            (
                Some(Count::MoreThan(1)),
                "all objects of its kind go along, in all namespaces: more than 1",
            ),
            (
                None,
                "all objects of its kind go along, in all namespaces: how many you may not see",
            ),
        ] {
            assert_eq!(of_definition(count), expected);
        }
    }
}
