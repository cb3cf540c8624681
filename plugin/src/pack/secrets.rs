//! Secrets: what is said of those that end up in a revision, and how they are left out of it.
//!
//! A revision holds its objects as they are, and keeps them as long as its history: whoever may read revisions reads
//! their Secrets. One that is left out is made by other means. Nothing in a revision can look at an object that it does
//! not own, so what waits for the Secret is what needs it: pods do not start without it, and the probes of their
//! workload do not pass.
//!
//! Only names are ever told, no values.

mod live;

use std::collections::BTreeSet;

use baton_apis::ObjectSetProbe;
use serde_json::Value;

pub(crate) use live::check;

use super::manifest::Manifest;

/// The note about Secrets that revisions will hold, if there are any.
pub(crate) fn in_clear_text(manifests: &[Manifest]) -> Option<String> {
    let secrets: Vec<String> = manifests
        .iter()
        .filter(|manifest| has_values(manifest))
        .map(Manifest::title)
        .collect();
    let (it, them) = match secrets.len() {
        0 => return None,
        1 => ("is", "it"),
        _ => ("are", "them"),
    };
    Some(format!(
        "{} {it} in clear text in revisions, for all who may read those, and as long as the history; --no-secrets \
         leaves {them} out",
        listed(&secrets)
    ))
}

/// Takes the Secrets with values out. Others, such as those that somebody fills, disclose nothing.
pub(crate) fn take_out(manifests: &mut Vec<Manifest>) -> Vec<Manifest> {
    let (secrets, others) = std::mem::take(manifests).into_iter().partition(has_values);
    *manifests = others;
    secrets
}

/// The note about a Secret that was left out: where it has to be, and what waits for it.
pub(crate) fn left_out(
    secret: &Manifest,
    manifests: &[Manifest],
    probes: &[ObjectSetProbe],
) -> String {
    let (mut waiting, mut others) = (Vec::new(), Vec::new());
    for manifest in manifests {
        if manifest.namespace == secret.namespace
            && needed_by(&manifest.object).contains(secret.name.as_str())
        {
            let is_waited_for = is_probed(manifest, probes);
            let users = if is_waited_for {
                &mut waiting
            } else {
                &mut others
            };
            users.push(manifest.title());
        }
    }
    let place = match secret.namespace.as_str() {
        "" => String::new(),
        namespace => format!(" in namespace {namespace}"),
    };
    let others = match others.as_slice() {
        [] => String::new(),
        others => format!(
            "; {} {} it, and nothing waits for that",
            listed(others),
            if others.len() == 1 { "needs" } else { "need" }
        ),
    };
    let waits = match waiting.as_slice() {
        [] if others.is_empty() => "; nothing in the package waits for it".to_owned(),
        [] => String::new(),
        waiting => format!("; {} cannot become ready without it", listed(waiting)),
    };
    format!(
        "{}: {} is left out, and has to be made by other means{place}{waits}{others}",
        secret.place,
        secret.title()
    )
}

fn has_values(manifest: &Manifest) -> bool {
    let is_filled = |field: &str| {
        let values = manifest.object.get(field).and_then(Value::as_object);
        values.is_some_and(|values| !values.is_empty())
    };
    manifest.gvk.group.is_empty()
        && manifest.gvk.kind == "Secret"
        && (is_filled("data") || is_filled("stringData"))
}

/// Whether a probe of the package looks at objects of the kind.
fn is_probed(manifest: &Manifest, probes: &[ObjectSetProbe]) -> bool {
    probes.iter().any(|probe| {
        let kind = &probe.selector.kind;
        kind.group == manifest.gvk.group && kind.kind == manifest.gvk.kind
    })
}

/// Names of the Secrets without which the pods of an object do not start.
fn needed_by(object: &Value) -> BTreeSet<&str> {
    let pods = [
        "/spec",
        "/spec/template/spec",
        "/spec/jobTemplate/spec/template/spec",
    ];
    let mut names = BTreeSet::new();
    for pod in pods.iter().filter_map(|pointer| object.pointer(pointer)) {
        for containers in ["containers", "initContainers"] {
            for container in items(pod, containers) {
                let variables = items(container, "env");
                let keys = variables.filter_map(|it| it.pointer("/valueFrom/secretKeyRef"));
                let whole = items(container, "envFrom").filter_map(|it| it.get("secretRef"));
                names.extend(keys.chain(whole).filter_map(|it| required(it, "name")));
            }
        }
        for volume in items(pod, "volumes") {
            names.extend(
                volume
                    .get("secret")
                    .and_then(|it| required(it, "secretName")),
            );
            if let Some(projected) = volume.get("projected") {
                let sources = items(projected, "sources").filter_map(|it| it.get("secret"));
                names.extend(sources.filter_map(|it| required(it, "name")));
            }
            let driver = volume.pointer("/csi/nodePublishSecretRef");
            names.extend(driver.and_then(|it| required(it, "name")));
        }
    }
    names
}

fn items<'v>(value: &'v Value, field: &str) -> impl Iterator<Item = &'v Value> {
    let items = value.get(field).and_then(Value::as_array);
    items.into_iter().flatten()
}

/// The name in a reference, unless pods start without what it names.
fn required<'v>(reference: &'v Value, field: &str) -> Option<&'v str> {
    let is_optional = reference.get("optional") == Some(&Value::Bool(true));
    let name = reference.get(field)?.as_str()?;
    (!is_optional).then_some(name)
}

/// `a`, `a and b`, `a, b and c`.
fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
#[path = "secrets/tests.rs"]
mod tests;
