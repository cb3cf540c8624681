//! The annotation `baton.run/lost-hubs`: from a deployment to its revisions, and from these to the
//! passes of their phases.
//!
//! Observable behaviour: `docs/contract/clusters.md`.

use std::{collections::BTreeMap, sync::Arc};

use baton_apis::constants::ANNOTATION_LOST_HUBS;
use baton_records::{api::ApiError, phase::PhaseRecord, revision::RevisionRecord};

use super::{
    observed::Observed,
    shared::{AtStep as _, Error, Shared},
};

/// The value of the annotation among those of a deployment.
pub(crate) fn of_deployment(annotations: &BTreeMap<String, String>) -> Option<&str> {
    annotations.get(ANNOTATION_LOST_HUBS).map(String::as_str)
}

/// The value for a phase: that of its revision, or its own if it has no revision.
pub(crate) fn of_phase<'a>(
    phase: &'a PhaseRecord,
    set: Option<&'a RevisionRecord>,
) -> Option<&'a str> {
    match set {
        Some(set) => set.lost_hubs.as_deref(),
        None => of_deployment(&phase.annotations),
    }
}

/// Writes the annotation of a deployment to its revisions that are in force and have another value.
///
/// `writer` is the name of the controller. A revision that has changed meanwhile is left to the pass
/// that this change causes.
///
/// # Errors
/// When a request failed.
pub(crate) async fn sync_lost_hubs(
    (shared, observed): (&Shared, &Observed),
    writer: &'static str,
    revisions: &[Arc<RevisionRecord>],
    wanted: Option<&str>,
) -> Result<(), Error> {
    let differs = |it: &&Arc<RevisionRecord>| it.is_in_force() && it.lost_hubs.as_deref() != wanted;
    for revision in revisions.iter().filter(differs) {
        let annotations = BTreeMap::from([(ANNOTATION_LOST_HUBS, wanted)]);
        let mut updated = match shared.api.annotate(revision, &annotations).await {
            Err(ApiError::Changed { .. }) => continue,
            updated => updated.at_step("changing a revision")?,
        };
        updated.lost_hubs = wanted.map(Into::into);
        observed.revisions.updated(updated, writer);
    }
    Ok(())
}
