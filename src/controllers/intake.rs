//! Keeping the stores of our own objects up to date from the watches on their kinds.

use std::{collections::BTreeSet, sync::Arc};

use serde::Deserialize;
use serde_json::value::RawValue;
use tracing::{error, warn};

use super::Context;
use crate::cluster::{
    deployment::DeploymentKind,
    item::{Item, ItemKind, Items},
    key::{Key, Resource, collection},
    phase::PhaseKind,
    record::{ReadError, RevisionKey, RevisionKind, read},
    watch::{self, Event, WatchSpec},
};

/// Objects in a page of a list. They are long; the page is held in memory as a whole.
const PAGE: u32 = 100;

/// A kind of ours that is kept in a store.
pub trait Kept: Resource {
    /// Takes an object from a watch or a list.
    ///
    /// # Errors
    /// When it cannot be read; it is left alone then.
    fn upsert(self, context: &Context, object: &str) -> Result<(), ReadError>;

    /// Forgets all objects that a complete list of this version does not name.
    fn retain(self, context: &Context, listed: &BTreeSet<Key<Self>>, version: u64);

    /// Forgets an object that is gone.
    fn remove(context: &Context, key: &Key<Self>);
}

/// Watches the objects of a kind for ever. `listed` is called after each complete list.
pub async fn run<K: Kept>(context: Arc<Context>, kind: K, mut listed: impl FnMut() + Send) {
    let spec = WatchSpec {
        path: collection(kind.plural(), ""),
        label_selector: None,
        field_selector: None,
        metadata_only: false,
        page_size: PAGE,
        resumes: true,
    };
    let name = kind.kind();
    let upsert = |object: &RawValue| {
        let key = key(kind, object);
        // One that cannot be read stops nobody else.
        if let Err(error) = kind.upsert(&context, object.get()) {
            let object = key.as_ref().map(ToString::to_string).unwrap_or_default();
            error!(object, %error, "an object cannot be read and is left alone");
        }
        key
    };
    let mut list = BTreeSet::new();
    watch::run(context.client.clone(), spec, |event| match event {
        Event::ListStarted => list.clear(),
        Event::Listed(object) => list.extend(upsert(object)),
        Event::ListDone { resource_version } => {
            kind.retain(&context, &std::mem::take(&mut list), resource_version);
            listed();
        }
        Event::Upsert(object) => {
            upsert(object);
        }
        Event::Deleted(object) => {
            if let Some(key) = key(kind, object) {
                K::remove(&context, &key);
            }
        }
        Event::Bookmark(_) => {}
        Event::Unserved => error!(kind = name, "the CRD is gone; waiting for it to return"),
        Event::Failed(reason) => warn!(kind = name, reason, "watch failed, trying again"),
    })
    .await;
}

impl Kept for RevisionKind {
    fn upsert(self, context: &Context, object: &str) -> Result<(), ReadError> {
        let record = read(self, object)?;
        context.revisions_changed(context.revisions.upsert(record), None);
        Ok(())
    }

    fn retain(self, context: &Context, listed: &BTreeSet<RevisionKey>, version: u64) {
        for change in context.revisions.retain(self, listed, version) {
            context.revisions_changed(Some(change), None);
        }
    }

    fn remove(context: &Context, key: &RevisionKey) {
        context.revisions_changed(context.revisions.remove(key), None);
    }
}

/// Where the items of a kind are kept, and what their changes mean.
trait KeptItems: ItemKind {
    fn items(context: &Context) -> &Items<Self>;

    /// An item has changed; `None` in the place of one that is, or was, not there.
    fn changed(context: &Context, old: Option<&Item<Self>>, new: Option<&Item<Self>>);
}

impl<K: KeptItems> Kept for K {
    fn upsert(self, context: &Context, object: &str) -> Result<(), ReadError> {
        let item = Item::read(self, object)?;
        let key = item.key.clone();
        if let Some((old, true)) = K::items(context).upsert(item) {
            let new = K::items(context).get(&key);
            K::changed(context, old.as_deref(), new.as_deref());
        }
        Ok(())
    }

    fn retain(self, context: &Context, listed: &BTreeSet<Key<Self>>, version: u64) {
        for gone in K::items(context).retain(self, listed, version) {
            K::changed(context, Some(&gone), None);
        }
    }

    fn remove(context: &Context, key: &Key<Self>) {
        if let Some(gone) = K::items(context).remove(key) {
            K::changed(context, Some(&gone), None);
        }
    }
}

impl KeptItems for DeploymentKind {
    fn items(context: &Context) -> &Items<Self> {
        &context.deployments
    }

    fn changed(context: &Context, old: Option<&Item<Self>>, new: Option<&Item<Self>>) {
        match (old, new) {
            (_, Some(new)) => context.deployment_queue.add(new.key.clone()),
            (Some(old), None) => context.deployment_queue.forget(&old.key),
            (None, None) => {}
        }
    }
}

impl KeptItems for PhaseKind {
    fn items(context: &Context) -> &Items<Self> {
        &context.phases
    }

    fn changed(context: &Context, old: Option<&Item<Self>>, new: Option<&Item<Self>>) {
        context.phase_changed(old, new);
    }
}

/// Watches the slices of a kind for ever and looks at their users again when they change
/// (improvement 40). A slice that a revision misses is no polling matter that way.
pub async fn slices(context: Arc<Context>, kind: RevisionKind) {
    let spec = WatchSpec {
        path: collection(kind.slice_plural(), ""),
        label_selector: None,
        field_selector: None,
        metadata_only: true,
        page_size: 500,
        resumes: true,
    };
    watch::run(context.client.clone(), spec, |event| match event {
        // A change of the slice's metadata, such as an owner, changes nothing for its users.
        Event::Listed(object) | Event::Upsert(object) | Event::Deleted(object) => {
            let Some(slice) = key(kind, object) else {
                return;
            };
            for user in context.revisions.slice_users(&slice) {
                let waits = context
                    .revisions
                    .get(&user)
                    .is_some_and(|record| !record.archived);
                if waits {
                    context.queue.add_after(user, super::BURST);
                }
            }
        }
        Event::Failed(reason) => warn!(kind = kind.kind(), reason, "watch of slices failed"),
        Event::ListStarted | Event::ListDone { .. } | Event::Bookmark(_) | Event::Unserved => {}
    })
    .await;
}

fn key<K: Resource>(kind: K, object: &RawValue) -> Option<Key<K>> {
    #[derive(Deserialize)]
    struct Object {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        name: String,
        #[serde(default)]
        namespace: String,
    }
    let Object { metadata } = serde_json::from_str(object.get()).ok()?;
    Some(Key {
        kind,
        namespace: metadata.namespace.into(),
        name: metadata.name.into(),
    })
}
