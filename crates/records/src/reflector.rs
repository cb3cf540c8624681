//! Keeps a store in step with a kind, from a list and a watch.

use std::collections::BTreeSet;

use baton_kubernetes::{
    metadata::Metadata,
    watch::{self, Event, Failing, WatchSpec},
};
use kube::Client;
use serde_json::value::RawValue;
use tracing::{error, warn};

use crate::{
    key::{Key, OwnKind, collection},
    record::{Record, RecordKind},
    store::Store,
};

/// Objects in a page of a list. They are long, and a page is in memory as a whole.
const PAGE: u32 = 100;

/// Keeps the objects of a kind in a store for ever. `listed` is called after each complete list.
///
/// An object that cannot be read is logged and left alone; it stops no other.
pub async fn run<K: RecordKind>(
    client: Client,
    kind: K,
    store: &Store<K>,
    listed: impl FnMut() + Send,
) {
    run_keeping(client, kind, store, |_| true, listed).await;
}

/// As [`run`], without the content of objects that nobody wants.
pub async fn run_keeping<K: RecordKind>(
    client: Client,
    kind: K,
    store: &Store<K>,
    is_wanted: impl Fn(&Record<K>) -> bool + Send + Sync,
    mut listed: impl FnMut() + Send,
) {
    let name = kind.kind();
    let observe = |object: &RawValue, is_listed: bool| {
        let key = key(kind, object);
        match Record::read(kind, object.get()) {
            Ok(mut record) => {
                if !is_wanted(&record) {
                    record = record.without_content();
                }
                if is_listed {
                    store.observe_listed(record);
                } else {
                    store.observe(record);
                }
            }
            Err(error) => {
                let object = key.as_ref().map(ToString::to_string).unwrap_or_default();
                error!(object, %error, "an object cannot be read and is left alone");
            }
        }
        key
    };
    let mut list = BTreeSet::new();
    let spec = WatchSpec {
        path: collection(kind.plural()),
        label_selector: None,
        field_selector: None,
        metadata_only: false,
        page_size: PAGE,
        resumes: true,
        definition: None,
    };
    let mut failing = Failing::default();
    watch::run(client, spec, |event| {
        if let Some(cause) = failing.begins(&event) {
            warn!(kind = name, cause, "watch failed, trying again");
        }
        match event {
            Event::ListStarted => {
                list.clear();
                store.list_started(kind);
            }
            Event::Listed(object) => list.extend(observe(object, true)),
            Event::ListDone { resource_version } => {
                store.retain(kind, &std::mem::take(&mut list), resource_version);
                listed();
            }
            Event::Upsert(object) => {
                observe(object, false);
            }
            Event::Deleted(object) => {
                if let Some(key) = key(kind, object) {
                    store.remove(&key);
                }
            }
            Event::Unserved => error!(kind = name, "the CRD is gone; waiting for it to return"),
            Event::Bookmark(_) | Event::Failed(_) | Event::Forbidden(_) => {}
        }
    })
    .await;
}

/// The identity of an object, from its metadata.
#[must_use]
pub fn key<K: OwnKind>(kind: K, object: &RawValue) -> Option<Key<K>> {
    let metadata = Metadata::of(object.get()).ok()?;
    (!metadata.name.is_empty()).then(|| Key {
        kind,
        namespace: metadata.namespace.into(),
        name: metadata.name.into(),
    })
}
