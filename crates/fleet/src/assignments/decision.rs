//! Decides which namespace may deliver into which cluster, from the assignments and the objects
//! that they select.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
};

use baton_apis::{DeliveryScope, SiteAssignmentSpec, SiteSelection};
use baton_engine::revision::Reach;
use baton_probes::selector::Labels;
use serde::{Deserialize as _, Deserializer};

/// A namespace or a cluster as the subject of selectors.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Name.
    pub name: &'a str,
    /// Labels.
    pub labels: &'a BTreeMap<String, String>,
}

/// The decision if a namespace may deliver into a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The namespace may deliver, with this reach.
    Allowed(Reach),
    /// The namespace may not deliver; the text names the missing assignment.
    Refused(String),
    /// Objects on which the decision depends were not read yet. This state is short.
    Unknown,
    /// Objects on which the decision depends cannot be read.
    Unreadable {
        /// The reach according to the objects that were read last; `None` if they refuse the
        /// delivery, or if none were read.
        before: Option<Reach>,
        /// The undecided question, and the cause.
        message: String,
    },
}

/// A `SiteAssignment`, prepared for decisions.
#[derive(Clone, Debug)]
pub struct Assignment {
    name: String,
    spec: Result<SiteAssignmentSpec, String>,
    /// The parsed rule, or the reason that it cannot be parsed.
    rule: Result<Rule, String>,
}

#[derive(Clone, Debug)]
struct Rule {
    namespaces: Selection,
    clusters: Selection,
    reach: Reach,
}

/// Selects objects by name, by labels, or by either.
#[derive(Clone, Debug, Default)]
struct Selection {
    names: BTreeSet<String>,
    labels: Option<Labels>,
}

impl Selection {
    fn compile(selection: SiteSelection) -> Result<Self, String> {
        let SiteSelection { names, selector } = selection;
        let labels = selector.as_ref().map(Labels::compile).transpose();
        Ok(Self {
            names: names.into_iter().flatten().collect(),
            labels: labels.map_err(|error| error.to_string())?,
        })
    }

    fn selects(&self, subject: Subject<'_>) -> bool {
        self.names.contains(subject.name)
            || (self.labels.as_ref()).is_some_and(|labels| labels.select(subject.labels))
    }
}

/// Assignments with the same name and spec are equal.
impl PartialEq for Assignment {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.spec == other.spec
    }
}

impl Assignment {
    /// Reads an assignment of the API server. One that is invalid selects nothing, and says why.
    pub(super) fn read<'de>(name: &str, spec: impl Deserializer<'de, Error: Display>) -> Self {
        let spec = SiteAssignmentSpec::deserialize(spec);
        Self::new(name, spec.map_err(|error| error.to_string()))
    }

    /// Prepares an assignment. For a spec that cannot be read, pass the cause.
    #[must_use]
    pub fn new(name: &str, spec: Result<SiteAssignmentSpec, String>) -> Self {
        Self {
            name: name.to_owned(),
            rule: spec.clone().and_then(Rule::compile),
            spec,
        }
    }

    /// True if the assignment selects the cluster. An assignment that cannot be parsed selects all
    /// clusters, because the clusters that it was meant for are unknown.
    pub fn selects_cluster(&self, cluster: Subject<'_>) -> bool {
        let rule = self.rule.as_ref();
        rule.map_or(true, |rule| rule.clusters.selects(cluster))
    }

    /// True if the decision needs the labels of the namespace.
    pub fn needs_namespace_labels(&self) -> bool {
        let rule = self.rule.as_ref();
        rule.is_ok_and(|rule| rule.namespaces.labels.is_some())
    }
}

impl Rule {
    fn compile(spec: SiteAssignmentSpec) -> Result<Self, String> {
        let SiteAssignmentSpec {
            namespaces,
            clusters,
            scope,
            target_namespaces,
        } = spec;
        Ok(Self {
            namespaces: Selection::compile(namespaces)?,
            clusters: Selection::compile(clusters)?,
            reach: match scope {
                DeliveryScope::Namespace => {
                    Reach::Namespaces(target_namespaces.into_iter().collect())
                }
                DeliveryScope::Cluster => Reach::Cluster,
            },
        })
    }
}

/// Decides if revisions of a namespace may deliver into a cluster, and with which reach.
///
/// # Guarantees
/// - All namespaces may deliver into a cluster that no assignment selects, unless `is_required` is
///   true. The reach is then the namespace of the same name.
/// - Only namespaces that an assignment of the cluster selects may deliver into a selected cluster.
/// - The reaches of several assignments are combined, in any order.
/// - An assignment that cannot be parsed allows nothing, and selects all clusters.
pub fn may_deliver<'a>(
    namespace: Subject<'_>,
    cluster: Subject<'_>,
    assignments: impl IntoIterator<Item = &'a Assignment>,
    is_required: bool,
) -> Decision {
    let mut is_closed = is_required;
    let mut broken = Vec::new();
    let mut reach = None;
    let about_it = assignments
        .into_iter()
        .filter(|assignment| assignment.selects_cluster(cluster));
    for assignment in about_it {
        is_closed = true;
        match &assignment.rule {
            Ok(rule) if rule.namespaces.selects(namespace) => {
                reach = Some(match reach {
                    None => rule.reach.clone(),
                    Some(reach) => both(reach, &rule.reach),
                });
            }
            Ok(_) => {}
            Err(cause) => broken.push(format!("\"{}\" ({cause})", assignment.name)),
        }
    }
    if let Some(reach) = reach {
        return Decision::Allowed(reach);
    }
    if !is_closed {
        return Decision::Allowed(Reach::default());
    }
    let (namespace, cluster) = (namespace.name, cluster.name);
    let mut text = format!(
        "Namespace \"{namespace}\" may not deliver into Cluster \"{cluster}\": there is no SiteAssignment that selects \
         both."
    );
    if !broken.is_empty() {
        let broken = broken.join(", ");
        text = format!(
            "{text} Each Cluster requires one, because these SiteAssignments are invalid: {broken}. Correct them."
        );
    }
    Decision::Refused(text)
}

/// The union of two reaches.
fn both(one: Reach, other: &Reach) -> Reach {
    match (one, other) {
        (Reach::Namespaces(mut names), Reach::Namespaces(others)) => {
            names.extend(others.iter().cloned());
            Reach::Namespaces(names)
        }
        (Reach::Cluster, _) | (_, Reach::Cluster) => Reach::Cluster,
    }
}

#[cfg(test)]
mod tests;
