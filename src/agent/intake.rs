//! Follows what the hub has for an agent.

use std::{sync::Arc, time::Duration};

use serde_json::value::RawValue;
use tokio::{sync::mpsc, time::sleep};
use tracing::{error, info, warn};

use crate::{
    cluster::{
        item::Item,
        key::{Resource as _, collection},
        phase::{PhaseKind, PhaseRecord},
        record::RevisionKind,
        watch::{Event, WatchSpec, run},
    },
    controllers::{
        Context,
        agent::{Change, Mirrors},
    },
};

/// Objects in a page of a list. They are long; the page is held in memory as a whole.
const PAGE: u32 = 100;
const KIND: PhaseKind = PhaseKind(RevisionKind::ObjectSet);

/// Changes that come together are taken in together: of what has gone already, or was replaced already,
/// nothing is written then.
const TOGETHER: Duration = Duration::from_millis(20);

/// Follows a namespace of the hub for ever. `listed` is called after each complete list.
pub async fn follow(
    hub: kube::Client,
    namespace: String,
    context: Arc<Context>,
    mirrors: Arc<Mirrors>,
    mut listed: impl FnMut() + Send,
) {
    let (sender, mut changes) = mpsc::unbounded_channel();
    let taken = async {
        while let Some(first) = changes.recv().await {
            sleep(TOGETHER).await;
            let mut together = vec![first];
            while let Ok(change) = changes.try_recv() {
                together.push(change);
            }
            let is_whole = together
                .iter()
                .any(|change| matches!(change, Change::All(..)));
            mirrors.take(&context, together);
            if is_whole {
                listed();
            }
        }
    };
    tokio::join!(taken, watch(hub, &namespace, &mirrors, sender));
}

/// Watches a namespace of the hub for ever.
async fn watch(
    hub: kube::Client,
    namespace: &str,
    mirrors: &Mirrors,
    changes: mpsc::UnboundedSender<Change>,
) {
    let spec = WatchSpec {
        path: collection(KIND.plural(), namespace),
        label_selector: None,
        field_selector: None,
        metadata_only: false,
        page_size: PAGE,
        resumes: false,
    };
    // The receiver lives as long as this.
    let send = |change| drop(changes.send(change));
    let mut list = Vec::new();
    let mut fault = String::new();
    run(hub, spec, |event| {
        let is_fault = matches!(event, Event::Failed(_) | Event::Unserved);
        match event {
            Event::ListStarted => list.clear(),
            Event::Listed(object) => list.extend(read(object)),
            Event::ListDone { resource_version } => {
                send(Change::All(std::mem::take(&mut list), resource_version));
            }
            Event::Upsert(object) => {
                if let Some(object) = read(object) {
                    send(Change::There(object));
                }
            }
            Event::Deleted(object) => {
                if let Some(object) = read(object) {
                    send(Change::Gone(object.key));
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
