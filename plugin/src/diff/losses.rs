//! What goes for good with a change, of the objects that take others or data along.

use std::collections::BTreeSet;

use baton_engine::{Gvk, ObjectKey, revision::Desired};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::Value;

use super::apply::{ChainSiblings, left_behind};
use super::forecast::read_again;
use super::plan::{Plan, as_next, of_deployment, of_revision};
use super::{Section, Tone, going};
use crate::chain::{Chain, Revision, read_all};
use crate::connect::{Cluster, SIDE_BY_SIDE};
use crate::content::{Phase, RevisionContent, Slices};
use crate::error::Error;
use crate::output::{report, report_once};
use crate::target::Kind;

/// An object that only older revisions want, with the phase that it is in.
type Left<'a> = (&'a Phase, &'a Desired);

/// Reports what applying a deployment or a revision would delete, before it is applied. `given` are slices that come
/// with it. What cannot be found out is told as well, and stops nobody.
pub(crate) async fn warn_before_apply(cluster: &Cluster, object: &Value, given: &[Value]) {
    let Some(kind) = Kind::of(object) else {
        return;
    };
    let mut object = object.clone();
    if kind.is_namespaced() && object["metadata"]["namespace"].as_str().is_none() {
        object["metadata"]["namespace"] = cluster.namespace.as_str().into();
    }
    let chains = read_all(cluster, kind, object["metadata"]["namespace"].as_str()).await;
    let warnings = match chains {
        Ok(chains) => match plan(kind, &object, &chains) {
            Ok(Some(plan)) => of_plan(cluster, &plan, given).await,
            Ok(None) => return,
            Err(error) => Err(error),
        },
        // Whoever applies is told that better.
        Err(Error::NotInstalled { .. } | Error::Unreachable { .. }) => return,
        Err(error) => Err(error),
    };
    tell(warnings);
}

fn plan(kind: Kind, object: &Value, chains: &[Chain]) -> Result<Option<Plan>, Error> {
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
    kind: Kind,
    object: &Value,
) {
    let warnings = match plan(kind, object, std::slice::from_ref(chain)) {
        Ok(Some(plan)) => of_plan(cluster, &plan, &[]).await,
        Ok(None) => return,
        Err(error) => Err(error),
    };
    tell(warnings);
}

fn tell(warnings: Result<Vec<String>, Error>) {
    match warnings {
        // Once, as a command may have to begin again.
        Ok(warnings) => warnings
            .iter()
            .for_each(|warning| report_once(&format!("warning: {warning}"))),
        Err(error) => report(&format!(
            "note: what would be deleted is not known: {error}"
        )),
    }
}

/// What a revision would delete that takes others along, a line each.
async fn of_plan(cluster: &Cluster, plan: &Plan, given: &[Value]) -> Result<Vec<String>, Error> {
    let old: Vec<&Revision> = plan
        .previous
        .iter()
        .filter(|it| !it.is_archived())
        .collect();
    if old.is_empty() {
        return Ok(Vec::new());
    }
    let all = old.iter().copied().chain([&plan.revision]);
    let mut slices = Slices::read(cluster, all).await?;
    for slice in given {
        slices.insert(slice.clone());
    }
    let phases = plan.revision.spec.phases.as_deref().unwrap_or_default();
    let next = as_next(&plan.revision);
    let content = slices.resolve(&next, plan.revision.namespace(), phases);
    let old: Vec<RevisionContent> = old.into_iter().rev().map(|it| slices.content(it)).collect();
    let left: Vec<Left<'_>> = left_out(&content, &old).collect();
    let sections = sections(cluster, &plan.siblings, &content, &left, &plan.deletion).await?;
    let lines = sections.into_iter().flat_map(|section| {
        let Section {
            title,
            verdict,
            warnings,
            ..
        } = section;
        let lines = match section.tone {
            Tone::Bad => vec![format!("{title}: {verdict}")],
            _ => warnings
                .into_iter()
                .map(|warning| format!("{title}: {verdict}: {warning}"))
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
    for found in sections(cluster, &siblings, to, &left, "with it").await? {
        let mut removed = compared.iter_mut().filter(|it| it.tone == Tone::Removed);
        let Some(section) = removed.find(|it| it.title == found.title) else {
            continue;
        };
        section.warnings.extend(match found.tone {
            Tone::Bad => vec![found.verdict],
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

/// The objects that a content wants in the place of a phase.
pub(crate) fn wants_beside(content: &RevisionContent, phase: &Phase) -> BTreeSet<ObjectKey> {
    let keys = placed_keys(content).filter(|(place, _)| *place == phase.place());
    keys.map(|(_, key)| key.clone()).collect()
}

/// What becomes of objects that are left out, with what goes along.
async fn sections(
    cluster: &Cluster,
    siblings: &ChainSiblings,
    content: &RevisionContent,
    left: &[Left<'_>],
    when: &str,
) -> Result<Vec<Section>, Error> {
    let asked = left.iter().map(async |(phase, object)| {
        if !phase.is_here() {
            return Ok(Some(elsewhere(phase, object, when)));
        }
        let live = match cluster.resource(&object.gvk).await? {
            Some(_) => read_again(cluster, object).await,
            None => Ok(None),
        };
        let live = match live {
            Err(Error::Refused(_)) => {
                return Ok(Some(unseen_loss(
                    phase,
                    object,
                    when,
                    "you may not read it",
                )));
            }
            live => live?,
        };
        let wants = wants_beside(content, phase);
        let section = left_behind(siblings, &wants, &phase.name, object, live.as_ref(), when);
        match (section, live) {
            (Some(section), Some(live)) => with_warning(cluster, section, object, &live)
                .await
                .map(Some),
            _ => Ok::<_, Error>(None),
        }
    });
    let found = stream::iter(asked).buffered(SIDE_BY_SIDE);
    let found: Vec<Option<Section>> = found.try_collect().await?;
    Ok(found.into_iter().flatten().collect())
}

/// What becomes of an object that is left out, in a cluster that cannot be looked at.
pub(crate) fn elsewhere(phase: &Phase, object: &Desired, when: &str) -> Section {
    unseen_loss(phase, object, when, &super::places::unseen(phase))
}

/// What becomes of an object that is left out and cannot be looked at.
fn unseen_loss(phase: &Phase, object: &Desired, when: &str, why: &str) -> Section {
    let section = Section::of(&object.gvk, &object.key, Some(&phase.name));
    let verdict = format!("deleted {when}, unless it is gone or to be kept");
    let mut section = section
        .verdict(Tone::Removed, verdict)
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
    if section.tone != Tone::Bad && section.tone != Tone::Same {
        section
            .warnings
            .extend(going::warning(cluster, &object.gvk, live).await?);
    }
    Ok(section)
}
