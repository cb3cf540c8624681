//! Secrets: notes about those that are packed, and the removal of others.
//!
//! A revision contains its objects as they are, for as long as its history: a user with the right
//! to read revisions can read their Secrets. A Secret that is left out is created by other means. A
//! revision cannot check an object that it does not own, so its pods wait for the Secret: they do
//! not start without it, and the probes of their workload do not pass.
//!
//! Notes contain names only, and no values.

mod live;

use std::collections::BTreeSet;

use baton_apis::ObjectSetProbe;
use serde_json::Value;

pub(crate) use live::check;

use super::manifest::Manifest;

/// The note about Secrets in revisions, if there are any.
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
        "{} {it} stored in clear text in revisions, also in old ones, and every reader of revisions can read {them}; \
         --no-secrets leaves {them} out",
        listed(&secrets)
    ))
}

/// Removes and returns the Secrets with values. Other Secrets, such as those that are filled later,
/// disclose nothing.
pub(crate) fn take_out(manifests: &mut Vec<Manifest>) -> Vec<Manifest> {
    let (secrets, others) = std::mem::take(manifests).into_iter().partition(has_values);
    *manifests = others;
    secrets
}

/// The note about a Secret that was left out: its place, and the objects that wait for it.
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
    let in_namespace = match secret.namespace.as_str() {
        "" => String::new(),
        namespace => format!(" in namespace {namespace}"),
    };
    let others = match others.as_slice() {
        [] => String::new(),
        others => format!(
            "; {} {} it, and no probe waits for it",
            listed(others),
            if others.len() == 1 { "needs" } else { "need" }
        ),
    };
    let waits = match waiting.as_slice() {
        [] if others.is_empty() => "; no object of the package waits for it".to_owned(),
        [] => String::new(),
        waiting => format!("; {} cannot become ready without it", listed(waiting)),
    };
    format!(
        "{}: {} is left out, and must be created by other means{in_namespace}{waits}{others}",
        secret.location,
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

/// True if a probe of the package selects objects of the kind.
fn is_probed(manifest: &Manifest, probes: &[ObjectSetProbe]) -> bool {
    probes.iter().any(|probe| {
        let kind = &probe.selector.kind;
        kind.group == manifest.gvk.group && kind.kind == manifest.gvk.kind
    })
}

/// Names of the Secrets that the pods of an object need to start.
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

/// The name in a reference, unless the reference is optional.
fn required<'v>(reference: &'v Value, field: &str) -> Option<&'v str> {
    let is_optional = reference.get("optional") == Some(&Value::Bool(true));
    let name = reference.get(field)?.as_str()?;
    (!is_optional).then_some(name)
}

/// The names as `a`, `a and b`, `a, b and c`.
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
