//! What goes for good with a change, of the objects that take others or data along.

use std::collections::{BTreeMap, BTreeSet};

use baton_engine::{Gvk, ObjectKey, revision::Desired};
use baton_view::{
    chain::{Chain, kind::ChainKind, member::Revision},
    children::{Found, NOT_SERVED},
    content::{Phase, RevisionContent, Slices},
    object::text_at,
};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::Value;

use super::{
    Section, Tone,
    apply::{ChainSiblings, left_behind},
    fate::Fate,
    going,
    places::{read_again, unseen},
    plan::{Plan, as_next, of_deployment, of_revision},
};
use crate::{
    cluster::lists,
    connect::{Cluster, SIDE_BY_SIDE},
    error::Error,
    output::{report, report_once},
};

/// An object that only older revisions want, with the phase that it is in.
type Left<'a> = (&'a Phase, &'a Desired);

/// A deployment or a revision that is about to be applied.
pub(crate) struct Coming {
    kind: ChainKind,
    object: Value,
    /// All chains of its scope.
    pub(crate) chains: Result<Vec<Chain>, Error>,
}

impl Coming {
    /// Reads what there is before it. That this fails is an error only to those who need the chains.
    pub(crate) async fn read(cluster: &Cluster, object: &Value) -> Result<Self, Error> {
        let kind = ChainKind::of(object).ok_or_else(|| {
            let kind = text_at(object, "/kind");
            Error::Impossible(format!("{kind} is no deployment and no revision"))
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

    /// Reports what it would delete. `given` are slices that come with it. What cannot be found out is told as well,
    /// and stops nobody.
    pub(crate) async fn warn(&self, cluster: &Cluster, given: &[Value]) {
        match &self.chains {
            Ok(chains) => tell(plan(self.kind, &self.object, chains), cluster, given).await,
            // Whoever applies is told that better.
            Err(Error::NotServed { .. } | Error::Unreachable { .. }) => {}
            Err(error) => tell_unknown(error),
        }
    }

    /// The revisions whose objects it deletes unless it has them too, with these objects; none where that may not be
    /// read.
    pub(crate) async fn former(
        &self,
        cluster: &Cluster,
    ) -> Result<Vec<(Revision, RevisionContent)>, Error> {
        let Ok(chains) = &self.chains else {
            return Ok(Vec::new());
        };
        let Some(plan) = plan(self.kind, &self.object, chains)? else {
            return Ok(Vec::new());
        };
        let old = live(&plan);
        let slices = match lists::slices(cluster, old.iter().copied()).await {
            Err(Error::Refused(_)) => Slices::default(),
            slices => slices?,
        };
        let former = old
            .into_iter()
            .map(|revision| (revision.clone(), slices.content(revision)));
        Ok(former.collect())
    }
}

fn plan(kind: ChainKind, object: &Value, chains: &[Chain]) -> Result<Option<Plan>, Error> {
    if kind.is_deployment() {
        return of_deployment(object, chains);
    }
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let mut known = chains.iter().flat_map(|chain| &chain.revisions);
    // A revision does not change.
    if known.any(|known| known.kind == kind && known.name() == name) {
        return Ok(None);
    }
    of_revision(object, chains).map(Some)
}

/// Reports what a revision would delete that is about to be made in a chain.
pub(crate) async fn warn_before_revision(
    cluster: &Cluster,
    chain: &Chain,
    kind: ChainKind,
    object: &Value,
) {
    let plan = plan(kind, object, std::slice::from_ref(chain));
    tell(plan, cluster, &[]).await;
}

async fn tell(plan: Result<Option<Plan>, Error>, cluster: &Cluster, given: &[Value]) {
    let warnings = match plan {
        Ok(Some(plan)) => of_plan(cluster, &plan, given).await,
        Ok(None) => return,
        Err(error) => Err(error),
    };
    match warnings {
        // Once, as a command may have to begin again.
        Ok(warnings) => warnings
            .iter()
            .for_each(|warning| report_once(&format!("warning: {warning}"))),
        Err(error) => tell_unknown(&error),
    }
}

fn tell_unknown(error: &Error) {
    report(&format!(
        "note: what would be deleted is not known: {error}"
    ));
}

/// The revisions before a new one that may have objects, oldest first.
fn live(plan: &Plan) -> Vec<&Revision> {
    let previous = plan.previous.iter();
    previous.filter(|it| !it.is_archived()).collect()
}

/// What a revision would delete that takes others along, a line each.
async fn of_plan(cluster: &Cluster, plan: &Plan, given: &[Value]) -> Result<Vec<String>, Error> {
    let old = live(plan);
    if old.is_empty() {
        return Ok(Vec::new());
    }
    let all = old.iter().copied().chain([&plan.revision]);
    let mut slices = lists::slices(cluster, all).await?;
    for slice in given {
        slices.insert(slice.clone());
    }
    let phases = plan.revision.spec.phases.as_deref().unwrap_or_default();
    let next = as_next(&plan.revision);
    let content = slices.resolve(&next, plan.revision.namespace(), phases);
    let old: Vec<RevisionContent> = old.into_iter().rev().map(|it| slices.content(it)).collect();
    let left: Vec<Left<'_>> = left_out(&content, &old).collect();
    let leaving = Leaving::new(&plan.siblings, &content, &plan.deletion);
    let sections = sections(cluster, &leaving, &left).await?;
    let lines = sections.into_iter().flat_map(|section| {
        let Section {
            title,
            fate,
            warnings,
            ..
        } = section;
        let lines = match fate.tone() {
            Tone::Bad => vec![format!("{title}: {fate}")],
            _ => warnings
                .into_iter()
                .map(|warning| format!("{title}: {fate}: {warning}"))
                .collect(),
        };
        lines.into_iter()
    });
    Ok(lines.collect())
}

/// Adds to the comparison of two revisions of a chain what goes with the objects that the second one leaves out, as far
/// as the chain has them now.
pub(crate) async fn add_to_comparison(
    cluster: &Cluster,
    chain: &Chain,
    (from, to): (&RevisionContent, &RevisionContent),
    compared: &mut [Section],
) -> Result<(), Error> {
    let names = chain.revisions.iter().map(|it| it.name().to_owned());
    let siblings = ChainSiblings::new(&chain.revisions, &names.collect());
    let left: Vec<Left<'_>> = left_out(to, std::slice::from_ref(from)).collect();
    let leaving = Leaving::new(&siblings, to, "with it");
    for found in sections(cluster, &leaving, &left).await? {
        let mut removed = compared.iter_mut().filter(|it| it.tone() == Tone::Removed);
        let Some(section) = removed.find(|it| it.title == found.title) else {
            continue;
        };
        section.warnings.extend(match found.tone() {
            Tone::Bad => vec![found.fate.to_string()],
            _ => found.warnings,
        });
    }
    Ok(())
}

/// The objects that older contents have, and the new one leaves out, where they would take others along.
fn left_out<'a>(
    content: &'a RevisionContent,
    old: &'a [RevisionContent],
) -> impl Iterator<Item = Left<'a>> {
    let mut seen: BTreeSet<(&str, &ObjectKey)> = placed_keys(content).collect();
    let placed = old.iter().flat_map(RevisionContent::placed);
    placed.filter(move |(phase, object)| {
        is_precious(&object.gvk, &object.manifest) && seen.insert((phase.place(), &object.key))
    })
}

fn is_precious(gvk: &Gvk, manifest: &Value) -> bool {
    going::Going::of(gvk, manifest).is_some()
}

fn placed_keys(content: &RevisionContent) -> impl Iterator<Item = (&str, &ObjectKey)> {
    let placed = content.placed();
    placed.map(|(phase, object)| (phase.place(), &object.key))
}

/// How to tell what becomes of objects that a revision leaves out.
pub(crate) struct Leaving<'a> {
    siblings: &'a ChainSiblings,
    /// What the revision wants, by place.
    wants: BTreeMap<&'a str, BTreeSet<ObjectKey>>,
    /// When they go.
    when: &'a str,
}

impl<'a> Leaving<'a> {
    pub(crate) fn new(
        siblings: &'a ChainSiblings,
        content: &'a RevisionContent,
        when: &'a str,
    ) -> Self {
        let mut wants: BTreeMap<&str, BTreeSet<ObjectKey>> = BTreeMap::new();
        for (place, key) in placed_keys(content) {
            wants.entry(place).or_default().insert(key.clone());
        }
        Self {
            siblings,
            wants,
            when,
        }
    }

    /// What becomes of an object, with what goes along. `cluster` is where it is; `None` if nobody can look there.
    pub(crate) async fn section(
        &self,
        cluster: Option<&Cluster>,
        (phase, object): Left<'_>,
        found: Found<'_>,
    ) -> Result<Option<Section>, Error> {
        let Some(cluster) = cluster else {
            let section = unseen_loss(phase, object, self.when, &unseen(phase));
            return Ok(Some(section));
        };
        match (self.alone(phase, object, &found), found) {
            (Some(section), Found::Live(live)) => {
                with_warning(cluster, section, object, live).await.map(Some)
            }
            (section, _) => Ok(section),
        }
    }

    /// What becomes of an object itself.
    fn alone(&self, phase: &Phase, object: &Desired, found: &Found<'_>) -> Option<Section> {
        let live = match found {
            Found::Live(live) => live,
            // A kind that is not served has no objects.
            Found::Missing | Found::Unreadable(NOT_SERVED) => return None,
            Found::Unreadable(why) => return Some(unseen_loss(phase, object, self.when, why)),
        };
        let none = BTreeSet::new();
        let wants = self.wants.get(phase.place()).unwrap_or(&none);
        left_behind(
            self.siblings,
            wants,
            &phase.name,
            object,
            Some(live),
            self.when,
        )
    }
}

/// What becomes of objects that are left out, with what goes along.
async fn sections(
    cluster: &Cluster,
    leaving: &Leaving<'_>,
    left: &[Left<'_>],
) -> Result<Vec<Section>, Error> {
    let asked = left.iter().map(async |&(phase, object)| {
        if !phase.is_here() {
            return leaving.section(None, (phase, object), Found::Missing).await;
        }
        let live = match cluster.resource(&object.gvk).await? {
            Some(_) => read_again(cluster, object).await,
            None => Ok(None),
        };
        let found = match &live {
            Ok(Some(live)) => Found::Live(live),
            Ok(None) => Found::Missing,
            Err(Error::Refused(_)) => Found::Unreadable("you may not read it"),
            Err(_) => return live.map(|_| None),
        };
        leaving.section(Some(cluster), (phase, object), found).await
    });
    let found = stream::iter(asked).buffered(SIDE_BY_SIDE);
    let found: Vec<Option<Section>> = found.try_collect().await?;
    Ok(found.into_iter().flatten().collect())
}

/// What becomes of an object that is left out and cannot be looked at.
fn unseen_loss(phase: &Phase, object: &Desired, when: &str, why: &str) -> Section {
    let section = Section::of(&object.gvk, &object.key, Some(&phase.name));
    let mut section = section
        .fate(Fate::MaybeDeleted(when.to_owned()))
        .note(format!("not looked at: {why}"));
    if is_precious(&object.gvk, &object.manifest) {
        let warning = format!("it may take others or data along ({why})");
        section.warnings.push(warning);
    }
    section
}

/// A section about an object that is deleted, with what goes along.
pub(crate) async fn with_warning(
    cluster: &Cluster,
    mut section: Section,
    object: &Desired,
    live: &Value,
) -> Result<Section, Error> {
    if !matches!(section.tone(), Tone::Bad | Tone::Same) {
        section
            .warnings
            .extend(going::warning(cluster, &object.gvk, live).await?);
    }
    Ok(section)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::lists::from_objects;

    #[test]
    fn an_object_that_may_not_be_read_is_told_to_go() {
        let (v1, kind) = ("v1", "PersistentVolumeClaim");
        let claim = json!({"apiVersion": v1, "kind": kind, "metadata": {"name": "data"}});
        let set = json!({
            "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSet",
            "metadata": {"name": "web-1", "namespace": "shop", "uid": "u"},
            "spec": {"revision": 1, "phases": [{"name": "a", "objects": [{"object": claim}]}]},
        });
        let chains = from_objects(Vec::new(), vec![set]);
        let content = Slices::default().content(&chains[0].revisions[0]);
        let (phase, object) = content.placed().next().unwrap();
        let siblings = ChainSiblings::new(&chains[0].revisions, &["web-1".to_owned()].into());
        let next = RevisionContent::default();
        let leaving = Leaving::new(&siblings, &next, "later");
        let section = leaving.alone(phase, object, &Found::Unreadable("cannot list"));
        let section = section.unwrap();
        assert_eq!(section.tone(), Tone::Removed);
        assert_eq!(section.notes, ["not looked at: cannot list"]);
        assert_eq!(
            section.warnings,
            ["it may take others or data along (cannot list)"]
        );
        for found in [Found::Missing, Found::Unreadable(NOT_SERVED)] {
            assert!(leaving.alone(phase, object, &found).is_none());
        }
    }
}
