//! Writes what is known of the connection to a cluster into the status of its Cluster.

use std::{sync::Arc, time::Duration};

use baton_apis::{Cluster, ClusterStatus, constants::FIELD_MANAGER};
use baton_kubernetes::{backoff::Backoff, watch::number, wire};
use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams},
    core::ApiResource,
};
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use super::{Shared, health::Health};

/// The longest pause after a write that failed.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A status as the API server has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Recorded {
    /// `resourceVersion` of the Cluster.
    pub version: u64,
    pub status: ClusterStatus,
}

/// The Cluster to write to.
pub(super) struct Subject {
    pub name: String,
    /// One that is created again under the same name is another one.
    pub uid: String,
}

/// Keeps the status in step until the Cluster is no longer looked at, from when this process leads.
/// Writes only what is new, see [`Health::due`].
pub(super) async fn run(
    shared: Arc<Shared>,
    cluster: Subject,
    mut recorded: watch::Receiver<Recorded>,
    mut health: watch::Receiver<Health>,
) {
    let kind = ApiResource::erase::<Cluster>(&());
    let api = Api::all_with(shared.hub.clone(), &kind);
    let mut leading = shared.leading.subscribe();
    if leading.wait_for(|leads| *leads).await.is_err() {
        return;
    }
    // The answer to a write comes before its event.
    let mut written = Recorded::default();
    let mut failures = 0;
    loop {
        let watched = recorded.borrow_and_update().clone();
        let now = health.borrow_and_update().clone();
        let latest = if watched.version >= written.version {
            &watched
        } else {
            &written
        };
        if let Some(status) = now.due(&latest.status, shared.clock.now()) {
            // Boxed, since nothing is written most of the time.
            let write = Box::pin(write(&api, &cluster, &status));
            match Box::pin(shared.at_the_hub(write)).await {
                Ok(answer) => {
                    written = answer;
                    failures = 0;
                }
                Err(error) => {
                    failures += 1;
                    tracing::warn!(
                        cluster = cluster.name,
                        %error,
                        "cannot write the status of a Cluster, trying again"
                    );
                    // Mostly the Cluster has changed or gone, and its event is under way.
                    let pause = sleep(Backoff::up_to(LONGEST_PAUSE).delay(failures));
                    tokio::select! {
                        () = pause => {}
                        end = recorded.changed() => if end.is_err() { return },
                    }
                    continue;
                }
            }
        }
        let end = tokio::select! {
            end = recorded.changed() => end,
            end = health.changed() => end,
        };
        if end.is_err() {
            return;
        }
    }
}

/// Writes a status, unless the Cluster is another one by now, which the server refuses. The rest of the Cluster is not
/// read: what it asks for need not be readable.
async fn write(
    api: &Api<DynamicObject>,
    cluster: &Subject,
    status: &ClusterStatus,
) -> Result<Recorded, kube::Error> {
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let body = Patch::Merge(json!({"metadata": {"uid": cluster.uid}, "status": status}));
    let write = api.patch(&cluster.name, &params, &body);
    let mut answer = timeout(wire::REQUEST_TIMEOUT, write)
        .await
        .unwrap_or_else(|late| Err(kube::Error::Service(late.into())))?;
    let status = answer.data.get_mut("status").map(Value::take);
    Ok(Recorded {
        version: number(&answer.metadata.resource_version.unwrap_or_default()),
        status: status
            .map_or_else(|| Ok(ClusterStatus::default()), serde_json::from_value)
            .map_err(kube::Error::SerdeError)?,
    })
}
