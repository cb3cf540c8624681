//! Fills the store of a kind from a list and a watch.

use baton_kubernetes::{
    collection::{Fold, Step, Unserved},
    watch::{self, Event, Failing, WatchSpec},
};
use kube::Client;
use serde_json::value::RawValue;
use tracing::{error, warn};

use crate::{
    key::Key,
    record::{Record, RecordKind},
    store::Store,
};

/// Number of objects in a page of a list. Objects are long, and a page is in memory as a whole.
const PAGE: u32 = 100;

/// Updates the store of a kind forever. `listed` is called after each complete list.
///
/// An object that cannot be read is logged and skipped.
pub async fn run<K: RecordKind>(
    client: Client,
    kind: K,
    store: &Store<K>,
    listed: impl FnMut() + Send,
) {
    run_keeping(client, kind, store, |_| true, listed).await;
}

/// As [`run`], but objects that `is_wanted` rejects are stored without their content.
pub async fn run_keeping<K: RecordKind>(
    client: Client,
    kind: K,
    store: &Store<K>,
    is_wanted: impl Fn(&Record<K>) -> bool + Send + Sync,
    mut listed: impl FnMut() + Send,
) {
    let name = kind.kind();
    let observe =
        |key: &Key<K>, object: &RawValue, is_listed: bool| match Record::read(kind, object.get()) {
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
                error!(object = %key, %error, "an object cannot be parsed and is ignored");
            }
        };
    let identity = |name| Key::new(kind, name);
    let mut fold = Fold::new(Unserved::Unknown);
    let spec = WatchSpec {
        page_size: PAGE,
        ..WatchSpec::new(kind.names().path(None))
    };
    let mut failing = Failing::default();
    watch::run(client, spec, |event| {
        if let Some(cause) = failing.begins(&event) {
            warn!(kind = name, cause, "watch failed, trying again");
        }
        if matches!(event, Event::Unserved) {
            error!(kind = name, "the CRD is gone; waiting for it to return");
        }
        let step = fold.process(&event);
        let extent = fold.extent().clone();
        match step {
            Step::Begin => store.list_started(kind),
            Step::Upsert {
                key,
                object,
                is_listed,
                ..
            } => observe(&identity(key), object, is_listed),
            Step::Remove { key, .. } => drop(store.remove(&identity(key))),
            Step::Retain {
                listed: there,
                version,
            } => {
                let there = there.into_iter().map(identity).collect();
                store.retain(kind, &there, version);
                listed();
            }
            Step::Reached(_) | Step::Nothing => {}
        }
        store.set_extent(kind, &extent);
    })
    .await;
}
