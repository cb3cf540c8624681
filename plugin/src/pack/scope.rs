//! Decides if the result is namespaced or cluster-scoped, and on the namespaces of its objects.

use std::collections::{BTreeMap, BTreeSet};

use baton_cluster::Cluster;
use baton_engine::revision::KindScope;
use baton_text::output::format::first;
use serde_json::Value;

use crate::error::Error;

use super::{
    kinds,
    manifest::Manifest,
    source_location::{InputError, SourceLocation},
};

/// The number of objects or namespaces of a list that are named.
const MAX_NAMED: usize = 5;

/// Scopes of kinds, by group and kind.
pub(crate) type Scopes = BTreeMap<(String, String), KindScope>;

/// The scopes that the user and the server name.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScopeOptions {
    /// True if the user requests the cluster-scoped kinds.
    pub(crate) cluster: bool,
    /// True if the result is delivered to sites. It is namespaced whatever its objects are.
    pub(crate) site: bool,
    /// The namespace of the result, or of objects that name none.
    pub(crate) namespace: Option<String>,
    /// Scopes of kinds that are not built in.
    pub(crate) scopes: Scopes,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    /// True if the objects may be anywhere, so that each of them names its namespace.
    pub(crate) cluster: bool,
    /// The namespace of a namespaced result, if any source names one.
    pub(crate) namespace: Option<String>,
    /// Decisions that the user did not request.
    pub(crate) notes: Vec<String>,
}

/// Scopes of the kinds that the objects themselves define.
pub(crate) fn defined(manifests: &[Manifest]) -> Scopes {
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

/// One object of each kind whose scope only a server knows. Such a kind is neither built in nor
/// defined by the objects.
pub(crate) fn unknown(manifests: &[Manifest]) -> Vec<&Manifest> {
    let defined = defined(manifests);
    let mut kinds = BTreeSet::new();
    let is_unknown = |manifest: &&Manifest| {
        let id = (manifest.gvk.group.clone(), manifest.gvk.kind.clone());
        kinds::scope(&id.0, &id.1).is_none() && !defined.contains_key(&id) && kinds.insert(id)
    };
    manifests.iter().filter(is_unknown).collect()
}

/// Adds the scopes that only the server knows.
pub(crate) async fn ask(
    cluster: &Cluster,
    manifests: &[Manifest],
    scopes: &mut Scopes,
) -> Result<(), Error> {
    for manifest in unknown(manifests) {
        let id = (manifest.gvk.group.clone(), manifest.gvk.kind.clone());
        if !scopes.contains_key(&id)
            && let Some(resource) = cluster.resource(&manifest.gvk).await?
        {
            scopes.insert(id, resource.scope);
        }
    }
    Ok(())
}

/// Decides on the scope of the result and completes the namespaces of the objects.
///
/// The result is cluster-scoped if the user requests that, if an object is cluster-scoped, or if
/// the objects are in several namespaces. Every namespaced object in it names its namespace; an
/// object without one gets the namespace that the user asks for, or else the only one that the
/// others name. In a namespaced result the manifests stay as they are, as the controller completes
/// them; only [`Manifest::namespace`] is set.
///
/// A kind of unknown scope is namespaced, unless the user requests the cluster-scoped kinds and
/// there is no namespace for its objects.
pub(crate) fn decide_scope(
    manifests: &mut [Manifest],
    options: &ScopeOptions,
) -> Result<Decision, InputError> {
    let survey = Survey::of(manifests, options);
    let mut decision = survey.decide(options)?;
    let mut homeless = Vec::new();
    let mut guesses = BTreeSet::new();
    for (manifest, observed) in manifests.iter_mut().zip(&survey.scopes) {
        let scope = observed.unwrap_or_else(|| {
            let nowhere = manifest.namespace.is_empty() && survey.default.is_none();
            if options.cluster && nowhere {
                KindScope::Cluster
            } else {
                KindScope::Namespaced
            }
        });
        if observed.is_none() && manifest.namespace.is_empty() && decision.cluster {
            let guess = match scope {
                KindScope::Cluster => "cluster-scoped",
                KindScope::Namespaced => "namespaced",
            };
            guesses.insert((
                format!("{}.{}", manifest.gvk.kind, manifest.gvk.group),
                guess,
            ));
        }
        match (scope, &survey.default) {
            // Servers ignore this namespace, and Baton would take the object for another one.
            (KindScope::Cluster, _) => set_namespace(manifest, ""),
            (KindScope::Namespaced, _) if !manifest.namespace.is_empty() => {}
            (KindScope::Namespaced, Some(default)) if decision.cluster => {
                set_namespace(manifest, default);
            }
            (KindScope::Namespaced, Some(default)) => manifest.namespace.clone_from(default),
            (KindScope::Namespaced, None) if decision.cluster => {
                let SourceLocation { source, line, .. } = &manifest.location;
                homeless.push(format!("{} ({source}:{line})", manifest.title()));
            }
            (KindScope::Namespaced, None) => {}
        }
    }
    decision
        .notes
        .extend(guesses.into_iter().map(|(kind, guess)| {
            format!("{kind} is assumed to be {guess}; --scope {kind}=Namespaced or --scope {kind}=Cluster sets it")
        }));
    match homeless.as_slice() {
        [] => Ok(decision),
        [object] => Err(InputError::general(format!(
            "an object has no namespace; -n NAMESPACE sets it: {object}"
        ))),
        objects => Err(InputError::general(format!(
            "objects have no namespace; -n NAMESPACE sets it: {}",
            first(objects, MAX_NAMED)
        ))),
    }
}

fn set_namespace(manifest: &mut Manifest, namespace: &str) {
    namespace.clone_into(&mut manifest.namespace);
    let metadata = manifest.object.get_mut("metadata");
    if let Some(metadata) = metadata.and_then(Value::as_object_mut) {
        if namespace.is_empty() {
            metadata.remove("namespace");
        } else {
            metadata.insert("namespace".to_owned(), namespace.into());
        }
    }
}

/// The facts about a package that decide on its scope and on the namespaces of its objects.
struct Survey {
    /// Scopes of the manifests, if they are known.
    scopes: Vec<Option<KindScope>>,
    /// The first cluster-scoped object, if there is one.
    cluster_scoped: Option<String>,
    /// The only namespace that objects name.
    only: Option<String>,
    /// The namespace of objects that name none.
    default: Option<String>,
    /// The namespaces of all objects.
    used: BTreeSet<String>,
}

impl Survey {
    fn of(manifests: &[Manifest], options: &ScopeOptions) -> Self {
        let defined = defined(manifests);
        let scope = |manifest: &Manifest| {
            let id = (manifest.gvk.group.clone(), manifest.gvk.kind.clone());
            let given = || {
                defined
                    .get(&id)
                    .or_else(|| options.scopes.get(&id))
                    .copied()
            };
            kinds::scope(&id.0, &id.1).or_else(given)
        };
        let scopes: Vec<_> = manifests.iter().map(scope).collect();
        let mut cluster_scoped = None;
        let mut used = BTreeSet::new();
        for (manifest, scope) in manifests.iter().zip(&scopes) {
            if *scope == Some(KindScope::Cluster) {
                cluster_scoped.get_or_insert_with(|| manifest.title());
            } else {
                used.insert(manifest.namespace.clone());
            }
        }
        let unnamed = used.remove("");
        let only = used.first().filter(|_| used.len() == 1).cloned();
        let default = options.namespace.clone().or_else(|| only.clone());
        used.extend(default.clone().filter(|_| unnamed));
        Self {
            scopes,
            cluster_scoped,
            only,
            default,
            used,
        }
    }

    fn decide(&self, options: &ScopeOptions) -> Result<Decision, InputError> {
        let reason = match &self.cluster_scoped {
            Some(title) => Some(format!("{title} is cluster-scoped")),
            None if self.used.len() > 1 => {
                let used: Vec<_> = self.used.iter().cloned().collect();
                let namespaces = first(&used, MAX_NAMED);
                Some(format!(
                    "the objects are in several namespaces: {namespaces}"
                ))
            }
            None => None,
        };
        match (reason, &options.namespace, &self.only) {
            _ if options.cluster => Ok(Decision {
                cluster: true,
                ..Decision::default()
            }),
            (Some(reason), ..) => Ok(Decision {
                cluster: true,
                namespace: options.namespace.clone().filter(|_| options.site),
                notes: vec![if options.site {
                    format!("{reason}: a SiteAssignment has to allow this in the sites")
                } else {
                    format!("the result is cluster-scoped, as {reason}")
                }],
            }),
            (None, Some(wished), Some(only)) if wished != only => {
                Err(InputError::general(format!(
                    "the objects are in the namespace {only}, not in {wished}; use -n {only}, or --cluster"
                )))
            }
            (None, ..) => Ok(Decision {
                cluster: false,
                namespace: self.default.clone(),
                notes: Vec::new(),
            }),
        }
    }
}

#[cfg(test)]
#[path = "scope/tests.rs"]
mod tests;
