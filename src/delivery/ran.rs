//! Objects that an older revision has run to their end with the same content, so that they do not
//! run again.

use baton_apis::{EndedObject, conditions::SUCCEEDED};
use baton_engine::{
    condition_list::find,
    ended,
    recreate::{content, runs_once},
    revision::{Desired, Phase, Revision, prepare},
};
use baton_records::{
    api::Api,
    record::{Record, RecordKind},
    revision::RevisionRecord,
};

use super::{
    observed::Observed,
    owners::{Owners, RanBefore},
    shared::{AtStep as _, Error},
};

/// Adds the objects that have ended or run before to an owner's revision: those that the status of
/// the owner records, and those of older revisions with the same content. The owner is the revision
/// `set` or one of its phases. The result about older revisions is stored.
///
/// # Errors
/// When an older revision cannot be read.
///
/// # Caveats
/// Objects of deleted revisions are not known, nor are objects of older revisions in the cluster of
/// an agent.
pub(crate) async fn note_ran<K: RecordKind>(
    owners: &Owners<K>,
    (owner, recorded): (&Record<K>, &[EndedObject]),
    set: Option<&RevisionRecord>,
    (observed, api): (&Observed, &Api),
    revision: &mut Revision,
    phases: &[Phase],
) -> Result<(), Error> {
    revision.ended = ended::by_object(recorded);
    let Some(set) = set else { return Ok(()) };
    let objects = phases.iter().flat_map(|phase| &phase.objects);
    let objects: Vec<_> = objects
        .filter(|it| runs_once(it) || ended::may_end(it))
        .collect();
    if objects.is_empty() {
        return Ok(());
    }
    let before = if let Some(known) = owners.ran(owner) {
        known
    } else {
        let found = run_before(set, (observed, api), revision, &objects).await?;
        owners.note_ran(owner, found.clone());
        found
    };
    revision.ran = before.jobs;
    for (key, end) in before.ended {
        revision.ended.entry(key).or_insert(end);
    }
    Ok(())
}

/// The objects that revisions before `set` have run with the same content.
async fn run_before(
    set: &RevisionRecord,
    (observed, api): (&Observed, &Api),
    revision: &Revision,
    objects: &[&Desired],
) -> Result<RanBefore, Error> {
    let mut found = RanBefore::default();
    for older in observed.revisions.all_before(set) {
        let (spec, status) = if older.archived {
            let whole = api.whole(&older.key).await;
            whole.at_step("reading an archived revision")?
        } else {
            (older.spec()?, older.status()?)
        };
        let has_succeeded = find(&status.conditions, SUCCEEDED).is_some();
        if !has_succeeded && status.ended.is_empty() {
            continue;
        }
        let theirs = prepare(revision, observed.with_slices(api, &older, spec).await?);
        let theirs: Vec<_> = theirs.iter().flat_map(|phase| &phase.objects).collect();
        let ended = ended::by_object(&status.ended);
        for object in objects {
            let key = &object.key;
            let mut same = theirs.iter().filter(|other| other.key == *key);
            if !same.any(|other| content(other) == content(object)) {
                continue;
            }
            if has_succeeded && runs_once(object) {
                found.jobs.insert(key.clone());
            }
            let end = ended.get(key);
            if let Some(end) = end.filter(|end| ended::is_inherited(object, end)) {
                found.ended.insert(key.clone(), end.clone());
            }
        }
    }
    Ok(found)
}
