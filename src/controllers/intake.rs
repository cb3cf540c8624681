//! Keeping the store of revisions up to date from the watches on their kinds and their slices.

use std::{collections::BTreeSet, sync::Arc};

use serde::Deserialize;
use serde_json::value::RawValue;
use tracing::{error, warn};

use super::Context;
use crate::cluster::{
    deployment::{self, DeploymentKey},
    record::{RevisionKey, RevisionKind, collection, read},
    watch::{self, Event, WatchSpec},
};

/// Revisions in a page of a list. They are long; the page is held in memory as a whole.
const PAGE: u32 = 100;

/// Watches the revisions of a kind for ever. `listed` is called after each complete list.
pub async fn revisions(context: Arc<Context>, kind: RevisionKind, mut listed: impl FnMut() + Send) {
    let spec = WatchSpec {
        path: collection(kind.plural(), ""),
        label_selector: None,
        field_selector: None,
        metadata_only: false,
        page_size: PAGE,
    };
    let mut list = BTreeSet::new();
    watch::run(context.client.clone(), spec, |event| match event {
        Event::ListStarted => list.clear(),
        Event::Listed(object) => list.extend(upsert(&context, kind, object)),
        Event::ListDone { resource_version } => {
            let all = std::mem::take(&mut list);
            for change in context.revisions.retain(kind, &all, resource_version) {
                context.revisions_changed(Some(change), None);
            }
            listed();
        }
        Event::Upsert(object) => {
            upsert(&context, kind, object);
        }
        Event::Deleted(object) => {
            if let Some(key) = key(kind, object) {
                context.revisions_changed(context.revisions.remove(&key), None);
            }
        }
        Event::Bookmark(_) => {}
        Event::Unserved => error!(
            kind = kind.kind(),
            "the CRD is gone; waiting for it to return"
        ),
        Event::Failed(reason) => warn!(kind = kind.kind(), reason, "watch failed, trying again"),
    })
    .await;
}

/// Watches the deployments that make revisions of a kind for ever. `listed` is called after each
/// complete list.
pub async fn deployments(
    context: Arc<Context>,
    kind: RevisionKind,
    mut listed: impl FnMut() + Send,
) {
    let spec = WatchSpec {
        path: collection(kind.deployment_plural(), ""),
        label_selector: None,
        field_selector: None,
        metadata_only: false,
        page_size: PAGE,
    };
    let name = kind.deployment_kind();
    let deployment_key =
        |object: &RawValue| key(kind, object).map(|key| DeploymentKey::of(&key, &key.name));
    let upsert = |object: &RawValue| {
        match deployment::read(kind, object.get()) {
            Ok(record) => {
                let key = record.key.clone();
                if context.deployments.upsert(record) {
                    context.deployment_queue.add(key);
                }
            }
            Err(error) => {
                let name = deployment_key(object).map(|key| key.to_string());
                error!(deployment = name, %error, "a deployment cannot be read and is left alone");
            }
        }
        deployment_key(object)
    };
    let mut list = BTreeSet::new();
    watch::run(context.client.clone(), spec, |event| match event {
        Event::ListStarted => list.clear(),
        Event::Listed(object) => list.extend(upsert(object)),
        Event::ListDone { .. } => {
            for key in context.deployments.retain(kind, &std::mem::take(&mut list)) {
                context.deployment_queue.forget(&key);
            }
            listed();
        }
        Event::Upsert(object) => {
            upsert(object);
        }
        Event::Deleted(object) => {
            if let Some(key) = deployment_key(object) {
                context.deployments.remove(&key);
                context.deployment_queue.forget(&key);
            }
        }
        Event::Bookmark(_) => {}
        Event::Unserved => error!(kind = name, "the CRD is gone; waiting for it to return"),
        Event::Failed(reason) => warn!(kind = name, reason, "watch failed, trying again"),
    })
    .await;
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

/// Stores a revision; its key, also when it is no news. One that cannot be read stops nobody else.
fn upsert(context: &Context, kind: RevisionKind, object: &RawValue) -> Option<RevisionKey> {
    match read(kind, object.get()) {
        Ok(record) => {
            let key = record.key.clone();
            context.revisions_changed(context.revisions.upsert(record), None);
            Some(key)
        }
        Err(error) => {
            let key = key(kind, object);
            let name = key.as_ref().map(ToString::to_string).unwrap_or_default();
            error!(revision = name, %error, "a revision cannot be read and is left alone");
            key
        }
    }
}

fn key(kind: RevisionKind, object: &RawValue) -> Option<RevisionKey> {
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
    Some(RevisionKey {
        kind,
        namespace: metadata.namespace.into(),
        name: metadata.name.into(),
    })
}
