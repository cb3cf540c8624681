//! Jobs that an older revision has run in the same form, so that a way back does not run them again.

use std::{collections::BTreeSet, sync::Arc};

use baton_apis::conditions::SUCCEEDED;
use baton_engine::{
    ObjectKey,
    condition_list::find,
    recreate::{content, runs_once},
    revision::{Phase, Revision, prepare},
};
use baton_records::{api::Api, key::Key, record::RecordKind, revision::RevisionRecord};

use super::{
    observed::Observed,
    owners::Owners,
    shared::{AtStep as _, Error},
};

impl<K: RecordKind> Owners<K> {
    /// The Jobs of a revision, or of a phase of it, that revisions before it have as well, in the same form, and have
    /// succeeded with. It is found out once.
    ///
    /// # Errors
    /// When an older revision cannot be read.
    ///
    /// # Caveats
    /// What was run by revisions that do not exist any more is not known, nor is it in the cluster of an agent.
    pub(crate) async fn find_ran(
        &self,
        observed: &Observed,
        api: &Api,
        (key, uid): (&Key<K>, &Arc<str>),
        record: &RevisionRecord,
        (revision, phases): (&Revision, &[Phase]),
    ) -> Result<BTreeSet<ObjectKey>, Error> {
        let objects = phases.iter().flat_map(|phase| &phase.objects);
        let jobs: Vec<_> = objects.filter(|object| runs_once(object)).collect();
        if jobs.is_empty() {
            return Ok(BTreeSet::new());
        }
        if let Some(known) = self.ran(key, uid) {
            return Ok(known);
        }
        let mut ran = BTreeSet::new();
        for older in observed.revisions.all_before(record) {
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
        self.note_ran(key, uid, ran.clone());
        Ok(ran)
    }
}
