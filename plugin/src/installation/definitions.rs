//! The live definitions beside those of this version.

use baton_apis::{crds, kinds, release_crds};
use baton_cluster::Cluster;
use baton_view::lists::ListQuery;
use serde_json::{Value, json};

use super::{
    DEFINITIONS,
    finding::{Finding, State},
};
use crate::error::Error;

/// Compares all definitions. Those of sites, and those of Releases, may be missing as a whole.
///
/// # Errors
/// If definitions cannot be read.
pub(super) async fn check(cluster: &Cluster) -> Result<Vec<Finding>, Error> {
    let live = cluster.list_at(DEFINITIONS, &ListQuery::default()).await?;
    let wanted = |all: Vec<_>| all.into_iter().map(|it| json!(it)).collect::<Vec<_>>();
    let (of_sites, others) = wanted(crds()).into_iter().partition(is_of_sites);
    let of_releases = wanted(release_crds());
    let all: [(_, _, Vec<Value>); 3] = [
        ("definitions", "config/crds", others),
        (OF_SITES, "config/crds", of_sites),
        (OF_RELEASES, "config/releases", of_releases),
    ];
    let findings = all.iter();
    Ok(findings
        .map(|(subject, folder, wanted)| finding(subject, folder, wanted, &live))
        .collect())
}

const OF_SITES: &str = "definitions of sites";
const OF_RELEASES: &str = "definitions of Releases";

/// True for the kinds that `sites.enabled` of the chart installs.
fn is_of_sites(definition: &Value) -> bool {
    let name = definition["metadata"]["name"].as_str().unwrap_or_default();
    let of_sites = [&kinds::SITE_APPLICATION, &kinds::SITE_DEPLOYMENT];
    of_sites.iter().any(|kind| name == kind.definition())
}

fn finding(subject: &str, folder: &str, wanted: &[Value], live: &[Value]) -> Finding {
    let name = |it: &Value| {
        it["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let (mut missing, mut other) = (Vec::new(), Vec::new());
    for wanted in wanted {
        match live.iter().find(|live| name(live) == name(wanted)) {
            None => missing.push(name(wanted)),
            Some(live) if !contains(&live["spec"], &wanted["spec"]) => other.push(name(wanted)),
            Some(_) => {}
        }
    }
    let apply = format!("Apply {folder} of version {}.", super::OWN_VERSION);
    if missing.len() == wanted.len() && subject != "definitions" {
        let text = "not installed; they are a choice";
        return Finding::new(subject, State::Fine, text);
    }
    if !missing.is_empty() {
        let text = format!("missing: {}", missing.join(", "));
        return Finding::new(subject, State::Faulty, text).way_out(apply);
    }
    if !other.is_empty() {
        let text = format!("of another version: {}", other.join(", "));
        return Finding::new(subject, State::Doubtful, text).way_out(apply);
    }
    let text = format!(
        "all {} are those of version {}",
        wanted.len(),
        super::OWN_VERSION
    );
    Finding::new(subject, State::Fine, text)
}

/// True if a value has all fields of another one. The server adds defaults, and writes 0.0 as 0.
fn contains(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            let mut wanted = wanted.iter();
            wanted.all(|(key, value)| contains(live.get(key).unwrap_or(&Value::Null), value))
        }
        (Value::Array(live), Value::Array(wanted)) => {
            let mut pairs = live.iter().zip(wanted);
            live.len() == wanted.len() && pairs.all(|(live, wanted)| contains(live, wanted))
        }
        (Value::Number(live), Value::Number(wanted)) => live.as_f64() == wanted.as_f64(),
        _ => live == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(name: &str, spec: &Value) -> Value {
        json!({"metadata": {"name": name}, "spec": spec})
    }

    #[test]
    fn missing_and_changed_definitions_are_named() {
        let wanted = [
            definition("a", &json!({"x": 0.0, "list": [{"y": 1}]})),
            definition("b", &json!({})),
        ];
        let defaulted = definition(
            "a",
            &json!({"x": 0, "list": [{"y": 1, "z": 2}], "more": true}),
        );
        let changed = definition("a", &json!({"x": 1, "list": [{"y": 1}]}));
        let shorter = definition("a", &json!({"x": 0, "list": []}));
        let other = definition("b", &json!({}));
        for (live, state, text) in [
            (vec![&defaulted, &other], State::Fine, "all 2"),
            (
                vec![&changed, &other],
                State::Doubtful,
                "of another version: a",
            ),
            (
                vec![&shorter, &other],
                State::Doubtful,
                "of another version: a",
            ),
            (vec![&defaulted], State::Faulty, "missing: b"),
            (vec![], State::Faulty, "missing: a, b"),
        ] {
            let live: Vec<_> = live.into_iter().cloned().collect();
            let found = finding("definitions", "config/crds", &wanted, &live);
            assert_eq!(found.state, state, "{found:?}");
            assert!(found.text.starts_with(text), "{found:?}");
        }
        let found = finding(OF_RELEASES, "config/releases", &wanted, &[]);
        assert_eq!(found.state, State::Fine);
        assert_eq!(
            crds().iter().filter(|it| is_of_sites(&json!(it))).count(),
            2
        );
    }
}
