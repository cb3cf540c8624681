//! Who may deliver where: a function of the assignments and of what they select.

use std::collections::{BTreeMap, BTreeSet};

use baton_apis::{DeliveryScope, SiteAssignmentSpec, SiteSelection};
use baton_engine::revision::Reach;
use baton_probes::selector::Labels;

/// A namespace or a cluster, as selectors see it.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Name.
    pub name: &'a str,
    /// Labels.
    pub labels: &'a BTreeMap<String, String>,
}

/// Whether a namespace may deliver into a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It may, and so far.
    Allowed(Reach),
    /// It may not; the text says what is missing.
    Refused(String),
    /// What the decision depends on is not known yet, for a short time.
    Unknown,
    /// The objects that the decision depends on cannot be read.
    Unreadable {
        /// How far it was allowed by what was known last in this process; `None` if it was not, or nothing was known.
        before: Option<Reach>,
        /// Of what it is not known, and why.
        message: String,
    },
}

/// A `SiteAssignment`, prepared for decisions.
#[derive(Clone, Debug)]
pub struct Assignment {
    name: String,
    spec: Result<SiteAssignmentSpec, String>,
    /// Or why it cannot be understood.
    rule: Result<Rule, String>,
}

#[derive(Clone, Debug)]
struct Rule {
    namespaces: Selection,
    clusters: Selection,
    reach: Reach,
}

/// Objects by name, by labels, or by either.
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

/// Two that say the same.
impl PartialEq for Assignment {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.spec == other.spec
    }
}

impl Assignment {
    /// Prepares one. A spec that cannot be understood is given as the reason.
    #[must_use]
    pub fn new(name: &str, spec: Result<SiteAssignmentSpec, String>) -> Self {
        Self {
            name: name.to_owned(),
            rule: spec.clone().and_then(Rule::compile),
            spec,
        }
    }

    /// Whether it is about this cluster. One that cannot be understood may be about any: it closes all rather than
    /// leaving open what it was to close.
    pub fn selects_cluster(&self, cluster: Subject<'_>) -> bool {
        let rule = self.rule.as_ref();
        rule.map_or(true, |rule| rule.clusters.selects(cluster))
    }

    /// Whether it has to be known which labels a namespace has.
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

/// Whether revisions of a namespace may deliver into a cluster, and how far.
///
/// # Guarantees
/// - A cluster that no assignment selects is open, unless assignments are required; whoever delivers there stays in the
///   namespace of the same name.
/// - One that is selected is closed to all namespaces but those that an assignment of it selects.
/// - What several assignments allow adds up, in any order.
/// - An assignment that cannot be understood allows nothing, and closes all clusters.
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
        text =
            format!("{text} While these cannot be understood, all clusters are closed: {broken}.");
    }
    Decision::Refused(text)
}

/// As far as either reaches.
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
