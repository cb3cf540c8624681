//! Follows the objects of the hub in the namespace of an agent.

use std::{collections::HashMap, sync::Arc, time::Duration};

use serde_json::value::RawValue;
use tokio::{sync::mpsc, time::sleep};
use tracing::{error, info, warn};

use baton_fleet::mirror::KIND;
use baton_kubernetes::{
    collection::{Fold, Step, Unserved},
    watch::{Event, WatchSpec, run},
};
use baton_records::{
    key::OwnKind as _,
    phase::{PhaseKey, PhaseRecord},
    record::Record,
};

use super::mirrors::{Change, Mirrors};

/// Objects per page of a list. The objects are large, and a page is in memory as a whole.
const PAGE: u32 = 100;

/// Changes within this time are applied together, so that nothing is written for an object that is
/// already deleted or replaced.
const BATCH_TIME: Duration = Duration::from_millis(20);

/// Follows a namespace of the hub forever. `listed` is called after each complete list.
pub(crate) async fn follow(
    hub: kube::Client,
    namespace: String,
    mirrors: Arc<Mirrors>,
    mut listed: impl FnMut() + Send,
) {
    let (sender, mut changes) = mpsc::unbounded_channel();
    let taken = async {
        while let Some(first) = changes.recv().await {
            sleep(BATCH_TIME).await;
            let mut together = vec![first];
            while let Ok(change) = changes.try_recv() {
                together.push(change);
            }
            let is_whole = together
                .iter()
                .any(|change| matches!(change, Change::All { .. }));
            mirrors.process(together);
            if is_whole {
                listed();
            }
        }
    };
    tokio::join!(taken, watch(hub, &namespace, &mirrors, sender));
}

/// Watches a namespace of the hub forever. Begins with a list again when [`Mirrors`] requests it.
async fn watch(
    hub: kube::Client,
    namespace: &str,
    mirrors: &Mirrors,
    changes: mpsc::UnboundedSender<Change>,
) {
    loop {
        tokio::select! {
            () = watch_on(hub.clone(), namespace, mirrors, &changes) => {}
            () = mirrors.list_requested() => {}
        }
    }
}

/// Watches a namespace of the hub, beginning with a list. Never ends.
async fn watch_on(
    hub: kube::Client,
    namespace: &str,
    mirrors: &Mirrors,
    changes: &mpsc::UnboundedSender<Change>,
) {
    let spec = WatchSpec {
        page_size: PAGE,
        resumes: false,
        ..WatchSpec::new(KIND.names().path(Some(namespace)))
    };
    // The receiver exists as long as this future.
    let send = |change| drop(changes.send(change));
    let identity = |name| PhaseKey::new(KIND, name);
    let mut fold = Fold::new(Unserved::Unknown);
    let (mut list, mut before) = (Vec::new(), HashMap::new());
    let mut failure = String::new();
    run(hub, spec, |event| {
        match fold.process(&event) {
            Step::Begin => {
                list.clear();
                before = mirrors.versions();
            }
            Step::Upsert {
                object, is_listed, ..
            } => match read(object) {
                Some(object) if is_listed => list.push(object),
                Some(object) => send(Change::There(object)),
                None => {}
            },
            Step::Remove { key, .. } => send(Change::Gone(identity(key))),
            Step::Retain { listed, version } => send(Change::All {
                objects: std::mem::take(&mut list),
                listed: listed.into_iter().map(identity).collect(),
                version,
                before: std::mem::take(&mut before),
            }),
            Step::Reached(_) | Step::Nothing => {}
        }
        let failed = match event {
            Event::Unserved => Some("it does not serve ObjectSetPhases"),
            _ => event.failure(),
        };
        if let Some(cause) = failed {
            log_once(&mut failure, cause);
        }
        // These two events do not show that the watch works.
        if !matches!(event, Event::ListStarted | Event::Listed(_)) {
            if failed.is_none() && !failure.is_empty() {
                info!("the hub is reachable again");
                failure.clear();
            }
            mirrors.set_connected(failed.is_none());
        }
    })
    .await;
}

/// Logs once that the hub is unreachable: the attempts fail with different texts.
fn log_once(failure: &mut String, cause: &str) {
    if failure.is_empty() {
        cause.clone_into(failure);
        warn!(
            cause,
            "the hub is unreachable; continuing with its last state"
        );
    }
}

/// Reads a phase. A phase that cannot be read does not stop the others.
fn read(object: &RawValue) -> Option<PhaseRecord> {
    match Record::read(KIND, object.get()) {
        Ok(item) => Some(item),
        Err(error) => {
            error!(%error, "an object cannot be parsed and is ignored");
            None
        }
    }
}
