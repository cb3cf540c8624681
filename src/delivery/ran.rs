//! Jobs that an older revision has run with the same content, so that a rollback does not run them
//! again.

use std::collections::BTreeSet;

use baton_apis::conditions::SUCCEEDED;
use baton_engine::{
    ObjectKey,
    condition_list::find,
    recreate::{content, runs_once},
    revision::{Phase, Revision, prepare},
};
use baton_records::{
    api::Api,
    record::{Record, RecordKind},
    revision::RevisionRecord,
};

use super::{
    observed::Observed,
    owners::Owners,
    shared::{AtStep as _, Error},
};

/// The Jobs of an owner that older revisions also have, with the same content, and with which they
/// have succeeded. The owner is the revision `set` or one of its phases. The result is stored.
///
/// # Errors
/// When an older revision cannot be read.
///
/// # Caveats
/// Jobs of deleted revisions are not known, nor are Jobs in the cluster of an agent.
pub(crate) async fn jobs_run_before<K: RecordKind>(
    owners: &Owners<K>,
    owner: &Record<K>,
    set: &RevisionRecord,
    observed: &Observed,
    api: &Api,
    revision: &Revision,
    phases: &[Phase],
) -> Result<BTreeSet<ObjectKey>, Error> {
    let objects = phases.iter().flat_map(|phase| &phase.objects);
    let jobs: Vec<_> = objects.filter(|object| runs_once(object)).collect();
    if jobs.is_empty() {
        return Ok(BTreeSet::new());
    }
    if let Some(cached) = owners.ran(owner) {
        return Ok(cached);
    }
    let mut ran = BTreeSet::new();
    for older in observed.revisions.all_before(set) {
        let (spec, status) = if older.archived {
            let whole = api.whole(&older.key).await;
            whole.at_step("reading an archived revision")?
        } else {
            (older.spec()?, older.status()?)
        };
        if find(&status.conditions, SUCCEEDED).is_none() {
            continue;
        }
        let theirs = prepare(revision, observed.with_slices(api, &older, spec).await?);
        let theirs: Vec<_> = theirs.iter().flat_map(|phase| &phase.objects).collect();
        let again = jobs.iter().filter(|job| {
            let mut same = theirs.iter().filter(|other| other.key == job.key);
            same.any(|other| content(other) == content(job))
        });
        ran.extend(again.map(|job| job.key.clone()));
    }
    owners.note_ran(owner, ran.clone());
    Ok(ran)
}
