//! Sentences about losses that a user may not expect.

use std::cmp::Reverse;

use baton_view::{
    diff::warning::{Contents, Warning},
    lists::Count,
};

use super::outcome::{fate, unseen};
use crate::output::format::first;

/// Maximum number of kinds in a namespace that are named.
const MAX_NAMED: usize = 6;
/// The kinds that are named first, because they contain data.
const FIRST: [&str; 2] = ["persistentvolumeclaims", "statefulsets.apps"];

/// The loss in one line.
pub fn warning(warning: &Warning) -> String {
    match warning {
        Warning::Stays(verdict) => fate(verdict),
        Warning::Unseen(why) => format!(
            "other objects or data may be deleted with it ({})",
            unseen(why)
        ),
        Warning::Namespace(contents) => of_namespace(contents),
        Warning::Definition(count) => of_definition(*count),
        Warning::Claim { volume, policy } => of_claim(volume.as_deref(), policy.as_deref()),
        Warning::StatefulSet {
            pods,
            templates,
            with_claims,
        } => of_stateful_set(*pods, templates, *with_claims),
    }
}

/// The loss on deletion of a namespace.
fn of_namespace(Contents { counts, unknown }: &Contents) -> String {
    let counts = counts.iter().filter(|(_, it)| *it != Count::Exactly(0));
    let mut counts: Vec<_> = counts.map(|(kind, it)| (it, kind.as_str())).collect();
    let rank = |kind: &str| {
        FIRST
            .iter()
            .position(|it| *it == kind)
            .unwrap_or(FIRST.len())
    };
    counts.sort_by_key(|(it, kind)| (rank(kind), Reverse(it.least()), *kind));
    let mut parts: Vec<String> = counts
        .iter()
        .take(MAX_NAMED)
        .map(|(it, kind)| format!("{} {kind}", number(**it)))
        .collect();
    if let Some(rest @ [_, ..]) = counts.get(MAX_NAMED..) {
        let objects: u64 = rest.iter().map(|(it, _)| it.least()).sum();
        let kinds = rest.len();
        parts.push(format!("{objects} objects of {kinds} more kinds"));
    }
    let unknown = match unknown.as_slice() {
        [] => String::new(),
        kinds if parts.is_empty() && kinds.len() > MAX_NAMED => {
            let text = "all of its content is deleted with it, and you have no right to list that";
            return text.to_owned();
        }
        kinds => {
            let unit = if kinds.len() > MAX_NAMED {
                " kinds"
            } else {
                ""
            };
            let named = first(kinds, MAX_NAMED);
            format!("; you have no right to list {named}{unit}")
        }
    };
    match parts.join(", ").as_str() {
        "" => format!("it has no other content{unknown}"),
        parts => format!("all of its content is deleted with it: {parts}{unknown}"),
    }
}

fn number(count: Count) -> String {
    match count {
        Count::Exactly(count) => count.to_string(),
        Count::MoreThan(count) => format!("more than {count}"),
    }
}

/// The loss on deletion of a definition of a kind, with the number of objects; `None` if unknown.
fn of_definition(count: Option<Count>) -> String {
    if count == Some(Count::Exactly(0)) {
        return "there are no objects of its kind".to_owned();
    }
    let count = count.map_or("you have no right to list them".to_owned(), number);
    format!("all objects of its kind are deleted with it, in all namespaces: {count}")
}

/// The loss on deletion of a claim, by the reclaim policy of its volume.
fn of_claim(volume: Option<&str>, policy: Option<&str>) -> String {
    match (volume, policy) {
        (None, _) => "it has no volume yet".to_owned(),
        (Some(volume), Some("Retain")) => {
            format!(
                "its data stays in volume {volume}, which then has no claim (reclaim policy Retain)"
            )
        }
        (Some(volume), Some(policy)) => {
            format!("its data is deleted with volume {volume} (reclaim policy {policy})")
        }
        (Some(volume), None) => format!(
            "its data is deleted with it, unless volume {volume}, which you have no right to read, has the reclaim \
             policy Retain"
        ),
    }
}

fn of_stateful_set(pods: u64, templates: &[String], with_claims: bool) -> String {
    let pods = match pods {
        0 => "it has no pods".to_owned(),
        1 => "its pod is deleted with it".to_owned(),
        pods => format!("its {pods} pods are deleted with it"),
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

    #[test]
    fn a_claim_goes_with_its_data_unless_the_volume_is_retained() {
        for (volume, policy, expected) in [
            (None, None, "it has no volume yet"),
            (
                Some("pv"),
                Some("Delete"),
                "its data is deleted with volume pv (reclaim policy Delete)",
            ),
            (
                Some("pv"),
                Some("Retain"),
                "its data stays in volume pv, which then has no claim (reclaim policy Retain)",
            ),
            (
                Some("pv"),
                None,
                "its data is deleted with it, unless volume pv, which you have no right to read, has the reclaim \
                 policy Retain",
            ),
        ] {
            assert_eq!(of_claim(volume, policy), expected);
        }
    }

    #[test]
    fn the_content_of_a_namespace_is_counted_with_data_first() {
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
        assert_eq!(contents(&empty, &[]), "it has no other content");
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
            "all of its content is deleted with it: 1 persistentvolumeclaims, 4 statefulsets.apps, 9 a, 2 c, 2 \
             configmaps, 2 d, 2 objects of 2 more kinds; you have no right to list secrets"
        );
        let hidden = ["a", "b", "c", "d", "e", "f", "g", "h"];
        assert_eq!(
            contents(&[], &hidden),
            "all of its content is deleted with it, and you have no right to list that"
        );
        assert_eq!(
            contents(&[("x", 1)], &hidden),
            "all of its content is deleted with it: 1 x; you have no right to list a, b, c, d, e, f and 2 more kinds"
        );
        let more = Contents {
            counts: vec![("pods".to_owned(), Count::MoreThan(1))],
            unknown: Vec::new(),
        };
        assert_eq!(
            of_namespace(&more),
            "all of its content is deleted with it: more than 1 pods"
        );
    }

    #[test]
    fn objects_of_a_kind_are_counted() {
        for (count, expected) in [
            (Some(Count::Exactly(0)), "there are no objects of its kind"),
            (
                Some(Count::Exactly(12)),
                "all objects of its kind are deleted with it, in all namespaces: 12",
            ),
            (
                Some(Count::MoreThan(1)),
                "all objects of its kind are deleted with it, in all namespaces: more than 1",
            ),
            (
                None,
                "all objects of its kind are deleted with it, in all namespaces: you have no right to list them",
            ),
        ] {
            assert_eq!(of_definition(count), expected);
        }
    }
}
