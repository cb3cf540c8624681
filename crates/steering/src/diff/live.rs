//! The differences of a revision from the cluster.

use baton_cluster::{Cluster, ClusterError, MAX_CONCURRENT, lists};
use baton_engine::{
    handover::{classify, former_managers},
    revision::{Desired, Revision as Next},
};
use baton_text::rollout::title;
use baton_view::{
    chain::{Chain, member::Revision},
    children::LookupResult,
    delegates::DelegatesOf,
    diff::{
        Section,
        apply::ChainSiblings,
        live,
        mask::redact,
        note::ObjectNote,
        outcome::{DiffOutcome, UnreadReason},
        plan::as_next,
        revisions::RevisionSide,
    },
    served::Unserved,
};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::Value;

use super::{complete, definitions, forecast, phase_clusters::PhaseClusters, takeover};
use crate::error::Error;

/// The differences of a revision from the cluster. The server decides about them by dry runs of those
/// objects that seem to differ.
///
/// # Errors
/// If objects cannot be read.
pub async fn with_cluster(
    places: &PhaseClusters,
    chain: &Chain,
    revision: &Revision,
) -> Result<Vec<Section>, Error> {
    let slices = lists::slices(&places.home, [revision]).await?;
    let content = slices.content(revision);
    let side = RevisionSide::of_revision(revision, content.clone());
    complete(side, || title(revision))?;
    let wanted = [(revision, &content)];
    let children = places.children(&wanted).await?;
    let delegates = lists::once(&places.home, &DelegatesOf(&wanted)).await?;
    let siblings = ChainSiblings::of(chain);
    let sections = content.placed().map(|(phase, object)| {
        let (children, delegates, siblings) = (&children, &delegates, &siblings);
        async move {
            let Some(cluster) = places.of(phase) else {
                let section = Section::of(object, &phase.name);
                let section = section.fate(DiffOutcome::NotCompared(UnreadReason::Class(
                    phase.class.clone(),
                )));
                let available = delegates.available(revision, phase);
                return Ok(Some(
                    section.notes(available.cloned().map(ObjectNote::Phase)),
                ));
            };
            let next = Next {
                identity: delegates.controller(revision, phase),
                delivery: phase.delivery(),
                ..as_next(revision)
            };
            let compared = Compared {
                cluster,
                phase: &phase.name,
                object,
                next: &next,
                siblings,
            };
            compared.section(children.find(phase, &object.key)).await
        }
    });
    let sections: Vec<Option<Section>> = stream::iter(sections)
        .buffered(MAX_CONCURRENT)
        .try_collect()
        .await?;
    Ok(sections.into_iter().flatten().collect())
}

/// An object to compare with the manifest in a revision.
struct Compared<'a> {
    cluster: &'a Cluster,
    phase: &'a str,
    object: &'a Desired,
    /// The revision, or the phase object that delivers the phase of the object.
    next: &'a Next,
    siblings: &'a ChainSiblings,
}

impl Compared<'_> {
    async fn section(&self, found: LookupResult<'_>) -> Result<Option<Section>, Error> {
        let (cluster, object) = (self.cluster, self.object);
        let live = match found {
            LookupResult::Live(live) => Some(live),
            LookupResult::Missing => None,
            LookupResult::Unreadable(why @ Unserved::Unreadable(_)) => {
                return Err(Error::Impossible(why.to_string()));
            }
            LookupResult::Unreadable(Unserved::Absent | Unserved::OtherVersion(_)) => {
                let section = self.plain(None, None);
                return Ok(section.map(|section| section.notes([ObjectNote::NotServed])));
            }
        };
        let look = async |live: Option<&Value>| match live {
            Some(live) => self.with_live(live).await,
            None => Ok(self.plain(None, None)),
        };
        forecast::retried(cluster, object, live, look).await
    }

    fn plain(&self, live: Option<&Value>, dry_run: Option<&Value>) -> Option<Section> {
        live::section(self.phase, self.object, &self.next.identity, live, dry_run)
    }

    /// The differences from the live object, with notes about fields of other managers.
    async fn with_live(&self, live: &Value) -> Result<Option<Section>, Error> {
        let (cluster, object) = (self.cluster, self.object);
        let situation = classify(self.next, self.siblings, live);
        let former = former_managers(&situation, object, live);
        let wanted = live::body(object, live);
        let stays = takeover::stays(live, &wanted, &former);
        let plain = self.plain(Some(live), None);
        if plain.is_none() && !takeover::removes_any(live, &wanted, &former) {
            return Ok(self.noted(None, stays));
        }
        // The dry run shows if the values differ, or only their notation.
        let body = live::dry_run_body(object, live);
        let (section, note) = match forecast::dry_run(cluster, object, &body, true).await {
            Ok(answer) => {
                let settled =
                    takeover::without_former_fields(cluster, object, live, &body, &former, answer);
                let (answer, note) = settled.await?;
                let loss = definitions::refusal(cluster, object, live, &answer).await?;
                let note = loss.map(ObjectNote::LosesData).or(note);
                (self.plain(Some(live), Some(&answer)), note)
            }
            Err(error) if error.is_lack_of_rights() => (plain, Some(ObjectNote::AsWritten)),
            Err(error) if error.is_code(409) => return Err(error),
            Err(error @ Error::Cluster(ClusterError::Refused(_))) => {
                let why = redact(&error.to_string(), &object.manifest);
                (plain, Some(ObjectNote::Refused(why)))
            }
            Err(error) => return Err(error),
        };
        Ok(self.noted(section, note.into_iter().chain(stays).collect()))
    }

    /// Adds notes to the differences. An object without differences gets a section if it has notes.
    fn noted(&self, section: Option<Section>, notes: Vec<ObjectNote>) -> Option<Section> {
        let as_wanted = || Section::of(self.object, self.phase).fate(DiffOutcome::AsWanted);
        let section = section.or_else(|| (!notes.is_empty()).then(as_wanted));
        section.map(|section| section.notes(notes))
    }
}
