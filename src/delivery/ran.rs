//! Objects that an older revision has run to their end with the same content, so that they do not
//! run again.

use baton_apis::{
    EndedObject, ObjectSetTemplatePhase, conditions::SUCCEEDED, constants::CLASS_DEFAULT,
};
use baton_engine::{
    condition_list::find,
    ended::{self, Ended},
    object::Identity,
    recreate::{content, runs_once},
    revision::{Desired, Phase, Revision, prepare},
};
use baton_records::{
    api::Api,
    phase::PhaseRecord,
    record::{Record, RecordKind},
    revision::RevisionRecord,
};

use super::{
    observed::Observed,
    owners::{Owners, RanBefore},
    shared::{AtStep as _, Error},
};

/// An object that may run to its end, with the class of its phase.
type Runnable<'a> = (&'a str, &'a Desired);

/// Adds the objects that have ended or run before to an owner's revision: those that the status of
/// the owner records, and those of older revisions with the same content. The owner is the revision
/// `set` or one of its phases, with the class `class`. The result about older revisions is stored.
///
/// # Errors
/// When an older revision cannot be read.
///
/// # Caveats
/// Objects of deleted revisions are not known. An agent knows of older revisions only the objects
/// that had ended when the phase was delegated.
pub(crate) async fn note_ran<K: RecordKind>(
    owners: &Owners<K>,
    (owner, recorded): (&Record<K>, Ended),
    set: Option<(&RevisionRecord, &str)>,
    (observed, api): (&Observed, &Api),
    revision: &mut Revision,
    phases: &[Phase],
) -> Result<(), Error> {
    revision.ended = recorded;
    let Some((set, class)) = set else {
        return Ok(());
    };
    let objects = runnable(class, phases);
    if objects.is_empty() {
        return Ok(());
    }
    let before = if let Some(cached) = owners.ran(owner) {
        cached
    } else {
        let found = run_before(set, (observed, api), revision, &objects).await?;
        owners.note_ran(owner, found.clone());
        found
    };
    revision.ran = before.jobs;
    let mut ended = before.ended;
    for (older, key) in before.may_end {
        let Some(older) = observed.revisions.get(&older) else {
            continue;
        };
        let end = ended::by_object(&older.status()?.ended).remove(&key);
        ended.extend(end.map(|end| (key, end)));
    }
    inherit(&mut revision.ended, ended, &objects);
    Ok(())
}

/// Adds the results of older revisions that count for these objects.
fn inherit(ended: &mut Ended, mut older: Ended, objects: &[Runnable<'_>]) {
    for (_, object) in objects {
        let end = older.remove(&object.key);
        if let Some(end) = end.filter(|end| ended::is_inherited(object, end.outcome)) {
            ended.entry(object.key.clone()).or_insert(end);
        }
    }
}

/// The objects of a phase that have ended, for the agent that is to deliver it: by the status of
/// the phase, which another agent or the manager may have delivered before, and by older revisions.
///
/// # Errors
/// When the phase or an older revision cannot be read.
pub(crate) async fn ended_before(
    phase: &PhaseRecord,
    set: Option<&RevisionRecord>,
    read: (&Observed, &Api),
) -> Result<Vec<EndedObject>, Error> {
    let revision = Revision {
        identity: Identity {
            namespace: phase.key.namespace.to_string(),
            ..Identity::default()
        },
        ..Revision::default()
    };
    let content = ObjectSetTemplatePhase {
        objects: phase.spec()?.objects,
        ..ObjectSetTemplatePhase::default()
    };
    let phases = prepare(&revision, vec![content]);
    let objects = runnable(phase.class(), &phases);
    let mut ended = ended::by_object(&phase.status()?.ended);
    if let Some(set) = set.filter(|_| !objects.is_empty()) {
        let before = run_before(set, read, &revision, &objects).await?;
        inherit(&mut ended, before.ended, &objects);
    }
    Ok(ended.into_values().collect())
}

/// The objects that may run to their end. `class` is that of phases that are not delegated.
fn runnable<'a>(class: &'a str, phases: &'a [Phase]) -> Vec<Runnable<'a>> {
    let objects = phases.iter().flat_map(|phase| {
        let delegated = phase.delegated.as_ref();
        let class = delegated.map_or(class, |delegated| &delegated.class);
        phase.objects.iter().map(move |object| (class, object))
    });
    let objects = objects.filter(|(_, it)| runs_once(it) || ended::may_end(it));
    objects.collect()
}

/// The objects that revisions before `set` have run with the same content.
async fn run_before(
    set: &RevisionRecord,
    (observed, api): (&Observed, &Api),
    revision: &Revision,
    objects: &[Runnable<'_>],
) -> Result<RanBefore, Error> {
    let mut found = RanBefore::default();
    for older in observed.revisions.all_before(set) {
        let (spec, status) = if older.archived {
            let whole = api.whole(&older.key).await;
            whole.at_step("reading an older revision")?
        } else {
            (older.spec()?, older.status()?)
        };
        let has_succeeded = find(&status.conditions, SUCCEEDED).is_some();
        if older.archived && !has_succeeded && status.ended.is_empty() {
            continue;
        }
        let phases = observed.with_slices(api, &older, spec).await?;
        let classes: Vec<_> = phases.iter().map(|phase| phase.class.clone()).collect();
        let theirs = prepare(revision, phases);
        let mut ended = ended::by_object(&status.ended);
        for (class, object) in objects {
            let key = &object.key;
            let same = classes.iter().zip(&theirs).find(|(_, phase)| {
                let mut others = phase.objects.iter().filter(|other| other.key == *key);
                others.any(|other| content(other) == content(object))
            });
            let Some((theirs, _)) = same else { continue };
            if has_succeeded && runs_once(object) {
                found.jobs.insert(key.clone());
            }
            // The object of another cluster is another object.
            if !ended::may_end(object) || place(theirs) != place(class) {
                continue;
            }
            if let Some(end) = ended.remove(key) {
                found.ended.entry(key.clone()).or_insert(end);
            } else if !older.archived {
                found.may_end.push((older.key.clone(), key.clone()));
            }
        }
    }
    Ok(found)
}

/// The cluster of a class: the same for the two classes of the revision's own cluster.
fn place(class: &str) -> &str {
    if class == CLASS_DEFAULT { "" } else { class }
}
