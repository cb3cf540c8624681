//! Whether the result is namespaced or cluster-scoped, and which namespace its objects are in.

use std::collections::{BTreeMap, BTreeSet};

use baton::engine::revision::KindScope;
use serde_json::Value;

use super::{kinds, manifest::Manifest, place::Fault};

/// Scopes of kinds, by group and kind.
pub type Scopes = BTreeMap<(String, String), KindScope>;

/// What the user and the server say about scopes.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    /// The cluster-scoped kinds are asked for.
    pub cluster: bool,
    /// The namespace of the result, or of objects that name none.
    pub namespace: Option<String>,
    /// Scopes of kinds that are not built in.
    pub scopes: Scopes,
}

/// What came out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// The result is cluster-scoped.
    pub cluster: bool,
    /// The namespace of a namespaced result, as far as anything names one.
    pub namespace: Option<String>,
    /// What was decided without having been asked for.
    pub notes: Vec<String>,
}

/// Scopes of the kinds that the objects themselves define.
#[must_use]
pub fn defined(manifests: &[Manifest]) -> Scopes {
    let text = |manifest: &Manifest, pointer: &str| {
        let text = manifest.object.pointer(pointer).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let crds = manifests.iter().filter(|manifest| {
        manifest.gvk.group == "apiextensions.k8s.io"
            && manifest.gvk.kind == "CustomResourceDefinition"
    });
    crds.map(|crd| {
        let kind = (text(crd, "/spec/group"), text(crd, "/spec/names/kind"));
        let scope = match text(crd, "/spec/scope").as_str() {
            "Cluster" => KindScope::Cluster,
            _ => KindScope::Namespaced,
        };
        (kind, scope)
    })
    .collect()
}

/// One object of each kind whose scope only a server can tell: it is neither built in nor defined
/// by the objects.
#[must_use]
pub fn unknown(manifests: &[Manifest]) -> Vec<&Manifest> {
    let defined = defined(manifests);
    let mut seen = BTreeSet::new();
    let is_unknown = |manifest: &&Manifest| {
        let id = (manifest.gvk.group.clone(), manifest.gvk.kind.clone());
        kinds::scope(&id.0, &id.1).is_none() && !defined.contains_key(&id) && seen.insert(id)
    };
    manifests.iter().filter(is_unknown).collect()
}

/// Decides on the scope of the result and completes the namespaces of the objects.
///
/// The result is cluster-scoped if that is asked for, if an object is, or if the objects are in more
/// than one namespace. In it every namespaced object names its namespace; those that do not get the
/// wished one, else the only one that the others name. In a namespaced result the manifests stay as
/// they are, as the controller completes them; only [`Manifest::namespace`] is set.
///
/// A kind that nobody knows is namespaced, unless the cluster-scoped kinds are asked for and there
/// is no namespace that its objects could be in.
///
/// # Errors
/// Objects without a namespace, or in another one than wished.
pub fn settle(manifests: &mut [Manifest], wish: &Wish) -> Result<Decision, Vec<Fault>> {
    let defined = defined(manifests);
    let known = |manifest: &Manifest| {
        let (group, kind) = (&manifest.gvk.group, &manifest.gvk.kind);
        let id = (group.clone(), kind.clone());
        kinds::scope(group, kind)
            .or_else(|| defined.get(&id).copied())
            .or_else(|| wish.scopes.get(&id).copied())
    };
    let scopes: Vec<_> = manifests.iter().map(known).collect();
    let mut named = BTreeSet::new();
    let mut unnamed = false;
    for (manifest, scope) in manifests.iter().zip(&scopes) {
        if *scope == Some(KindScope::Cluster) {
            continue;
        }
        unnamed |= manifest.namespace.is_empty();
        if !manifest.namespace.is_empty() {
            named.insert(manifest.namespace.clone());
        }
    }
    let only = (named.len() == 1).then(|| named.first().cloned()).flatten();
    let default = wish.namespace.clone().or_else(|| only.clone());
    let mut used = named.clone();
    used.extend(default.clone().filter(|_| unnamed));

    let cluster_scoped = manifests
        .iter()
        .zip(&scopes)
        .find(|(_, scope)| **scope == Some(KindScope::Cluster))
        .map(|(manifest, _)| manifest.title());
    let mut decision = Decision {
        cluster: wish.cluster || cluster_scoped.is_some() || used.len() > 1,
        ..Decision::default()
    };
    if decision.cluster && !wish.cluster {
        let reason = cluster_scoped.map_or_else(
            || {
                let namespaces = used.into_iter().collect::<Vec<_>>().join(", ");
                format!("the objects are in several namespaces: {namespaces}")
            },
            |title| format!("{title} is cluster-scoped"),
        );
        decision
            .notes
            .push(format!("the result is cluster-scoped, as {reason}"));
    }
    if !decision.cluster {
        if let (Some(wished), Some(only)) = (&wish.namespace, &only)
            && wished != only
        {
            return Err(vec![Fault::general(format!(
                "the objects are in the namespace {only}, not in {wished}; use the one or the other, or --cluster"
            ))]);
        }
        decision.namespace.clone_from(&default);
    }

    let mut homeless = Vec::new();
    let mut guessed = BTreeSet::new();
    for (manifest, scope) in manifests.iter_mut().zip(scopes) {
        let is_guess = scope.is_none() && manifest.namespace.is_empty();
        let scope = match scope {
            Some(scope) => scope,
            None if is_guess && wish.cluster && default.is_none() => KindScope::Cluster,
            None => KindScope::Namespaced,
        };
        if is_guess && decision.cluster {
            guessed.insert((
                manifest.gvk.kind.clone(),
                manifest.gvk.group.clone(),
                scope == KindScope::Cluster,
            ));
        }
        match (scope, &default) {
            (KindScope::Cluster, _) => {
                // Servers ignore it there, and it would make another object of it to us.
                manifest.namespace.clear();
                if let Some(metadata) = manifest
                    .object
                    .get_mut("metadata")
                    .and_then(Value::as_object_mut)
                {
                    metadata.remove("namespace");
                }
            }
            (KindScope::Namespaced, Some(default)) if manifest.namespace.is_empty() => {
                manifest.namespace.clone_from(default);
                if decision.cluster {
                    manifest.object["metadata"]["namespace"] = default.as_str().into();
                }
            }
            (KindScope::Namespaced, None) if manifest.namespace.is_empty() && decision.cluster => {
                homeless.push(format!(
                    "{} ({}:{})",
                    manifest.title(),
                    manifest.place.source,
                    manifest.place.line
                ));
            }
            (KindScope::Namespaced, _) => {}
        }
    }
    for (kind, group, cluster) in guessed {
        let scope = if cluster {
            "cluster-scoped"
        } else {
            "namespaced"
        };
        decision.notes.push(format!(
            "{kind}.{group} is taken for {scope}; --scope {kind}.{group}=Namespaced or =Cluster tells it"
        ));
    }
    if homeless.is_empty() {
        Ok(decision)
    } else {
        Err(vec![Fault::general(format!(
            "{} without a namespace; -n NAMESPACE gives one: {}",
            if homeless.len() == 1 {
                "an object is"
            } else {
                "objects are"
            },
            abridged(&homeless)
        ))])
    }
}

/// A list that stays readable however long it is.
fn abridged(titles: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown = titles
        .iter()
        .take(SHOWN)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    match titles.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
#[path = "scope/tests.rs"]
mod tests;
