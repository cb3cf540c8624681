//! Follows what the hub has for an agent.

use std::sync::Arc;

use serde_json::value::RawValue;
use tracing::{error, info, warn};

use crate::{
    cluster::{
        item::Item,
        key::{Resource as _, collection},
        phase::{PhaseKind, PhaseRecord},
        record::RevisionKind,
        watch::{Event, WatchSpec, run},
    },
    controllers::{Context, agent::Mirrors},
};

/// Objects in a page of a list. They are long; the page is held in memory as a whole.
const PAGE: u32 = 100;
const KIND: PhaseKind = PhaseKind(RevisionKind::ObjectSet);

/// Watches a namespace of the hub for ever. `listed` is called after each complete list.
pub async fn follow(
    hub: kube::Client,
    namespace: String,
    context: Arc<Context>,
    mirrors: Arc<Mirrors>,
    mut listed: impl FnMut() + Send,
) {
    let spec = WatchSpec {
        path: collection(KIND.plural(), &namespace),
        label_selector: None,
        field_selector: None,
        metadata_only: false,
        page_size: PAGE,
    };
    let mut list = Vec::new();
    let mut fault = String::new();
    run(hub, spec, |event| {
        let is_fault = matches!(event, Event::Failed(_) | Event::Unserved);
        match event {
            Event::ListStarted => list.clear(),
            Event::Listed(object) => list.extend(read(object)),
            Event::ListDone { resource_version } => {
                mirrors.replace(&context, std::mem::take(&mut list), resource_version);
                listed();
            }
            Event::Upsert(object) => mirrors.take(&context, read(object).into_iter().collect()),
            Event::Deleted(object) => {
                if let Some(object) = read(object) {
                    mirrors.lose(&context, &object.key);
                }
            }
            Event::Bookmark(_) => {}
            Event::Unserved => tell(&mut fault, "it does not serve ObjectSetPhases"),
            Event::Failed(cause) => tell(&mut fault, cause),
        }
        // A list has only begun.
        if !matches!(event, Event::ListStarted | Event::Listed(_)) {
            if !is_fault && !fault.is_empty() {
                info!("the hub is there again");
                fault.clear();
            }
            mirrors.set_connected(!is_fault);
        }
    })
    .await;
}

/// Says once why the hub is not there.
fn tell(fault: &mut String, cause: &str) {
    if fault != cause {
        cause.clone_into(fault);
        warn!(cause, "the hub is away; going on with what it said last");
    }
}

/// One that cannot be read stops nobody else.
fn read(object: &RawValue) -> Option<PhaseRecord> {
    match Item::read(KIND, object.get()) {
        Ok(item) => Some(item),
        Err(error) => {
            error!(%error, "an object cannot be read and is left alone");
            None
        }
    }
}
