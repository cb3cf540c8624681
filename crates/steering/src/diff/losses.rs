//! The losses by a change: objects whose deletion deletes other objects or data.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
};

use baton_cluster::{Cluster, ClusterError, MAX_CONCURRENT, lists};
use baton_engine::{ObjectKey, revision::Desired};
use baton_kubernetes::discovery::Location;
use baton_text::diff::{outcome::fate, title, warning::warning};
use baton_view::{
    chain::{Chain, kind::ChainKind, member::Revision},
    children::LookupResult,
    content::{Phase, RevisionContent, Slices},
    diff::{
        Section,
        apply::{ChainSiblings, left_behind},
        note::ObjectNote,
        outcome::{DiffOutcome, Group, RemovalTime, UnreadReason},
        plan::{NoPlan, Plan},
        warning::Warning,
    },
    object::text_at,
    served::Unserved,
};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::Value;

use super::{cascading_deletion, phase_clusters::read_again};
use crate::error::Error;

/// An object that only older revisions want, with its phase.
type PhasedObject<'a> = (&'a Phase, &'a Desired);

/// A deployment or a revision that is about to be applied.
pub struct PendingApply {
    kind: ChainKind,
    object: Value,
    /// All chains in the scope of the object.
    pub chains: Result<Vec<Chain>, ClusterError>,
}

impl PendingApply {
    /// Reads the chains in the scope of an object.
    ///
    /// An error of this read is stored in `chains`: only some callers need the chains.
    ///
    /// # Errors
    /// If the object is neither a deployment nor a revision.
    pub async fn read(cluster: &Cluster, object: &Value) -> Result<Self, Error> {
        let kind = ChainKind::of(object).ok_or_else(|| {
            let kind = text_at(object, "/kind");
            Error::Impossible(format!("{kind} is neither a deployment nor a revision"))
        })?;
        let mut object = object.clone();
        if kind.is_namespaced && object["metadata"]["namespace"].as_str().is_none() {
            object["metadata"]["namespace"] = cluster.namespace.as_str().into();
        }
        let chains = lists::chains(cluster, kind, object["metadata"]["namespace"].as_str()).await;
        Ok(Self {
            kind,
            object,
            chains,
        })
    }

    /// Reports the losses by the apply. Errors during the search are reported as well, and never
    /// stop the apply.
    ///
    /// `given` are slices that are applied together with the object.
    pub async fn warn(&self, cluster: &Cluster, given: &[Value]) {
        match &self.chains {
            Ok(chains) => warn(Plan::of(self.kind, &self.object, chains), cluster, given).await,
            // The apply itself reports these errors.
            Err(ClusterError::NotServed { .. } | ClusterError::Unreachable { .. }) => {}
            Err(error) => warn_unknown(cluster, error),
        }
    }

    /// The revision that the apply creates, if there is one; `None` if the chains cannot be read.
    pub fn plan(&self) -> Option<Result<Option<Plan>, NoPlan>> {
        let chains = self.chains.as_ref().ok()?;
        Some(Plan::of(self.kind, &self.object, chains))
    }

    /// The namespace of the object, or null for the cluster scope.
    pub fn namespace(&self) -> &Value {
        &self.object["metadata"]["namespace"]
    }

    /// The revisions whose objects the apply deletes unless the new revision wants them, with their
    /// content.
    ///
    /// Empty if the chains cannot be read. Without the right to read slices, the content lacks the
    /// objects in slices.
    ///
    /// # Errors
    /// If no revision can follow, or slices cannot be read.
    pub async fn former(
        &self,
        cluster: &Cluster,
    ) -> Result<Vec<(Revision, RevisionContent)>, Error> {
        let Ok(chains) = &self.chains else {
            return Ok(Vec::new());
        };
        let Some(plan) = Plan::of(self.kind, &self.object, chains)? else {
            return Ok(Vec::new());
        };
        let slices = match lists::slices(cluster, plan.live()).await {
            Err(ClusterError::Refused(_)) => Slices::default(),
            slices => slices?,
        };
        let former = plan.former(&slices).into_iter();
        Ok(former
            .map(|(revision, content)| (revision.clone(), content))
            .collect())
    }
}

/// Reports the losses by a revision that is about to be created. `given` are slices that are applied
/// together with it.
pub(crate) async fn warn(plan: Result<Option<Plan>, NoPlan>, cluster: &Cluster, given: &[Value]) {
    let warnings = match plan {
        Ok(Some(plan)) => of_plan(cluster, &plan, given).await,
        Ok(None) => return,
        Err(error) => Err(error.into()),
    };
    match warnings {
        Ok(warnings) => warnings.iter().for_each(|warning| cluster.warn(warning)),
        Err(error) => warn_unknown(cluster, &error),
    }
}

fn warn_unknown(cluster: &Cluster, error: &impl Display) {
    cluster.warn(&format!(
        "the objects that would be deleted are unknown: {error}"
    ));
}

/// The losses by a revision, one line each.
async fn of_plan(cluster: &Cluster, plan: &Plan, given: &[Value]) -> Result<Vec<String>, Error> {
    if plan.live().next().is_none() {
        return Ok(Vec::new());
    }
    let all = plan.live().chain([&plan.revision]);
    let mut slices = lists::slices(cluster, all).await?;
    for slice in given {
        slices.insert(slice.clone());
    }
    let content = plan.content(&slices);
    let old = plan.former(&slices).into_iter().rev();
    let old: Vec<RevisionContent> = old.map(|(_, content)| content).collect();
    let left: Vec<PhasedObject<'_>> = left_out(&content, &old).collect();
    let leaving = RemovalForecast::new(&plan.siblings, &content, &plan.deletion);
    let sections = sections(cluster, &leaving, &left).await?;
    let lines = sections.iter().flat_map(|section| {
        let line = format!("{}: {}", title(&section.topic), fate(&section.outcome));
        if section.is_refused() {
            return vec![line];
        }
        let warnings = section.warnings.iter();
        warnings
            .map(|it| format!("{line}: {}", warning(it)))
            .collect()
    });
    Ok(lines.collect())
}

/// Adds warnings to the comparison of two revisions: the losses with the objects that the second
/// one leaves out.
///
/// The losses are those in the present state of the chain.
pub(crate) async fn add_to_comparison(
    cluster: &Cluster,
    chain: &Chain,
    (from, to): (&RevisionContent, &RevisionContent),
    compared: &mut [Section],
) -> Result<(), Error> {
    let siblings = ChainSiblings::of(chain);
    let left: Vec<PhasedObject<'_>> = left_out(to, std::slice::from_ref(from)).collect();
    let leaving = RemovalForecast::new(&siblings, to, &RemovalTime::Archived(None));
    for found in sections(cluster, &leaving, &left).await? {
        let mut removed = compared
            .iter_mut()
            .filter(|it| it.outcome.group() == Group::Deleted);
        let Some(section) = removed.find(|it| it.topic == found.topic) else {
            continue;
        };
        if found.is_refused() {
            section.warnings.push(Warning::Stays(found.outcome));
        } else {
            section.warnings.extend(found.warnings);
        }
    }
    Ok(())
}

/// The objects of older revisions that the new content leaves out, if their deletion deletes other
/// objects or data.
fn left_out<'a>(
    content: &'a RevisionContent,
    old: &'a [RevisionContent],
) -> impl Iterator<Item = PhasedObject<'a>> {
    let mut keys: BTreeSet<(&str, &ObjectKey)> = placed_keys(content).collect();
    let placed = old.iter().flat_map(RevisionContent::placed);
    placed.filter(move |(phase, object)| {
        is_precious(object) && keys.insert((phase.delivery_class(), &object.key))
    })
}

fn is_precious(object: &Desired) -> bool {
    cascading_deletion::CascadingDeletion::of(&object.gvk, &object.manifest).is_some()
}

fn placed_keys(content: &RevisionContent) -> impl Iterator<Item = (&str, &ObjectKey)> {
    let placed = content.placed();
    placed.map(|(phase, object)| (phase.delivery_class(), &object.key))
}

/// Decides the outcomes of the objects that a revision leaves out.
pub(crate) struct RemovalForecast<'a> {
    siblings: &'a ChainSiblings,
    /// The objects that the revision wants, by place.
    wants: BTreeMap<&'a str, BTreeSet<ObjectKey>>,
    /// The time when the objects are deleted.
    when: &'a RemovalTime,
}

impl<'a> RemovalForecast<'a> {
    pub(crate) fn new(
        siblings: &'a ChainSiblings,
        content: &'a RevisionContent,
        when: &'a RemovalTime,
    ) -> Self {
        let mut wants: BTreeMap<&str, BTreeSet<ObjectKey>> = BTreeMap::new();
        for (delivery_class, key) in placed_keys(content) {
            wants.entry(delivery_class).or_default().insert(key.clone());
        }
        Self {
            siblings,
            wants,
            when,
        }
    }

    /// The outcome of an object, with the losses on its deletion.
    ///
    /// `cluster` is the cluster of the object; `None` if the user cannot read that cluster.
    pub(crate) async fn section(
        &self,
        cluster: Option<&Cluster>,
        (phase, object): PhasedObject<'_>,
        found: LookupResult<'_>,
    ) -> Result<Option<Section>, Error> {
        let Some(cluster) = cluster else {
            let why = UnreadReason::Class(phase.class.clone());
            return Ok(Some(self.unseen(phase, object, why)));
        };
        match (self.alone(phase, object, &found), found) {
            (Some(section), LookupResult::Live(live)) => {
                with_warning(cluster, section, object, live).await.map(Some)
            }
            (section, _) => Ok(section),
        }
    }

    /// The outcome of an object, without the losses on its deletion. `None` if the object does not
    /// exist, or no previous revision controls it.
    fn alone(&self, phase: &Phase, object: &Desired, found: &LookupResult<'_>) -> Option<Section> {
        let live = match found {
            LookupResult::Live(live) => live,
            // A kind that is served in no version has no objects.
            LookupResult::Missing | LookupResult::Unreadable(Unserved::Absent) => return None,
            LookupResult::Unreadable(why) => {
                let why = UnreadReason::Unreadable(why.to_string());
                return Some(self.unseen(phase, object, why));
            }
        };
        let none = BTreeSet::new();
        let wants = self.wants.get(phase.delivery_class()).unwrap_or(&none);
        let (siblings, name) = (self.siblings, &phase.name);
        left_behind(siblings, wants, name, object, live, self.when)
    }

    /// The outcome of an object that cannot be read.
    fn unseen(&self, phase: &Phase, object: &Desired, why: UnreadReason) -> Section {
        let section = Section::of(object, &phase.name);
        let section = section.fate(DiffOutcome::MaybeDeleted(self.when.clone()));
        let mut section = section.notes([ObjectNote::Unseen(why.clone())]);
        if is_precious(object) {
            section.warnings.push(Warning::Unseen(why));
        }
        section
    }
}

/// The outcomes of objects that are left out, with the losses on their deletion.
async fn sections(
    cluster: &Cluster,
    leaving: &RemovalForecast<'_>,
    left: &[PhasedObject<'_>],
) -> Result<Vec<Section>, Error> {
    let requests = left.iter().map(async |&(phase, object)| {
        if !phase.is_here() {
            return leaving
                .section(None, (phase, object), LookupResult::Missing)
                .await;
        }
        let read = match cluster.locate(&object.gvk).await {
            Ok(Location::Here(_)) => read_again(cluster, object).await,
            Ok(Location::Nowhere) => Ok(None),
            Ok(Location::Elsewhere(other, _)) => {
                let unserved = Unserved::OtherVersion(other.version);
                let found = LookupResult::Unreadable(&unserved);
                return leaving.section(Some(cluster), (phase, object), found).await;
            }
            // The server of this kind is down. The other objects can be read.
            Err(error) => {
                let unserved = Unserved::Unreadable(error.to_string());
                let found = LookupResult::Unreadable(&unserved);
                return leaving.section(Some(cluster), (phase, object), found).await;
            }
        };
        let forbidden = Unserved::Unreadable("you have no right to read it".to_owned());
        let found = match &read {
            Ok(Some(live)) => LookupResult::Live(live),
            Ok(None) => LookupResult::Missing,
            Err(Error::Cluster(ClusterError::Refused(_))) => LookupResult::Unreadable(&forbidden),
            Err(_) => return read.map(|_| None),
        };
        leaving.section(Some(cluster), (phase, object), found).await
    });
    let found = stream::iter(requests).buffered(MAX_CONCURRENT);
    let found: Vec<Option<Section>> = found.try_collect().await?;
    Ok(found.into_iter().flatten().collect())
}

/// Adds the losses on deletion to the section of an object that is deleted.
pub(crate) async fn with_warning(
    cluster: &Cluster,
    mut section: Section,
    object: &Desired,
    live: &Value,
) -> Result<Section, Error> {
    if section.differs() && !section.is_refused() {
        section
            .warnings
            .extend(cascading_deletion::warning(cluster, &object.gvk, live).await?);
    }
    Ok(section)
}

#[cfg(test)]
mod tests {
    use baton_text::diff::note::note;
    use baton_view::chain::from_objects;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_that_may_not_be_read_is_told_to_go() {
        let (v1, kind) = ("v1", "PersistentVolumeClaim");
        let claim = json!({"apiVersion": v1, "kind": kind, "metadata": {"name": "data"}});
        let set = json!({
            "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSet",
            "metadata": {"name": "web-1", "namespace": "shop", "uid": "u"},
            "spec": {"revision": 1, "phases": [{"name": "a", "objects": [{"object": claim}]}]},
        });
        let chains = from_objects(Vec::new(), vec![set]).0;
        let content = Slices::default().content(&chains[0].revisions[0]);
        let (phase, object) = content.placed().next().unwrap();
        let siblings = ChainSiblings::new(&chains[..1], &["web-1".to_owned()].into());
        let next = RevisionContent::default();
        let leaving = RemovalForecast::new(&siblings, &next, &RemovalTime::Available(2));
        let cannot = Unserved::Unreadable("cannot list".to_owned());
        let section = leaving.alone(phase, object, &LookupResult::Unreadable(&cannot));
        let section = section.unwrap();
        assert_eq!(section.outcome.group(), Group::Deleted);
        let notes: Vec<String> = section.notes.iter().map(note).collect();
        assert_eq!(notes, ["not read: cannot list"]);
        let warnings: Vec<String> = section.warnings.iter().map(warning).collect();
        assert_eq!(
            warnings,
            ["other objects or data may be deleted with it (cannot list)"]
        );
        let other = Unserved::OtherVersion("v2".to_owned());
        let section = leaving.alone(phase, object, &LookupResult::Unreadable(&other));
        let notes: Vec<String> = section.unwrap().notes.iter().map(note).collect();
        assert_eq!(
            notes,
            ["not read: the API server serves this kind only in version v2"]
        );
        for found in [
            LookupResult::Missing,
            LookupResult::Unreadable(&Unserved::Absent),
        ] {
            assert!(leaving.alone(phase, object, &found).is_none());
        }
    }
}
