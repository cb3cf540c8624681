//! Makes revisions owners of their slices.
//!
//! The revisions of all clusters of a Release share its slices and are created at the same time. If each
//! of them wrote on its own, most of the writes would be refused, as another one had changed the slice.
//! So those that wait for a slice are written by the first of them whose turn it is.

use std::{collections::BTreeMap, sync::Arc};

use baton_records::{
    api::{Api, ApiError},
    revision::RevisionRecord,
    slice::{NewOwner, SliceKey, SliceRecord},
};
use baton_runtime::controller::Controller as _;
use parking_lot::Mutex;

use super::ObjectSets;
use crate::delivery::observed::Observed;

/// The revisions that wait to become owners, by slice.
#[derive(Debug, Default)]
pub(super) struct SliceOwners(Mutex<BTreeMap<SliceKey, Arc<Waiting>>>);

/// The revisions that wait to become owners of one slice.
#[derive(Debug, Default)]
struct Waiting {
    owners: Mutex<Vec<NewOwner>>,
    /// Held by the pass that writes.
    turn: tokio::sync::Mutex<()>,
}

impl SliceOwners {
    /// Makes a revision an owner of a slice that was read, together with those that wait for it. Nothing
    /// is written if another pass has done it meanwhile.
    ///
    /// # Errors
    /// If the write fails. The others wait on, each for its own turn.
    pub(super) async fn add(
        &self,
        (api, observed): (&Api, &Observed),
        revision: &RevisionRecord,
        read: &SliceRecord,
    ) -> Result<(), ApiError> {
        let key = &read.key;
        let waiting = Arc::clone(self.0.lock().entry(key.clone()).or_default());
        waiting.owners.lock().push(NewOwner::of(revision));
        let added = {
            let _turn = waiting.turn.lock().await;
            write(&waiting, (api, observed), revision, read).await
        };
        let mut all = self.0.lock();
        drop(waiting);
        if all.get(key).is_some_and(|it| Arc::strong_count(it) == 1) {
            all.remove(key);
        }
        added
    }
}

async fn write(
    waiting: &Waiting,
    (api, observed): (&Api, &Observed),
    revision: &RevisionRecord,
    read: &SliceRecord,
) -> Result<(), ApiError> {
    // The write of another pass is in the cache.
    let cached = observed.slices.get(&read.key);
    let slice = cached.as_deref().unwrap_or(read);
    if slice.is_owned_by(&revision.uid) {
        return Ok(());
    }
    let mut owners = std::mem::take(&mut *waiting.owners.lock());
    // A failed write of another pass has taken this one out.
    owners.push(NewOwner::of(revision));
    let owned = api.add_slice_owners(&owners, slice).await?;
    observed.slices.updated(owned, ObjectSets::NAME);
    Ok(())
}
