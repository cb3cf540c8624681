//! Writes the state of the connection to a cluster into the status of its Cluster.

use std::{sync::Arc, time::Duration};

use baton_apis::{Cluster, ClusterStatus, constants::FIELD_MANAGER};
use baton_kubernetes::{backoff::Backoff, error::request_failure, watch::number, wire};
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

/// The longest pause after a failed write.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The status of a Cluster as the API server stores it, with the version of the Cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Recorded {
    /// `resourceVersion` of the Cluster.
    pub version: u64,
    pub status: ClusterStatus,
}

/// The Cluster whose status is written.
pub(super) struct Subject {
    pub name: String,
    /// UID of the Cluster. A Cluster that is created again under the same name has another one.
    pub uid: String,
}

/// Updates the status while the Cluster exists and once this process leads. Writes only changes
/// (see [`Health::status_update`]).
pub(super) async fn run(
    shared: Arc<Shared>,
    cluster: Subject,
    mut recorded: watch::Receiver<Recorded>,
    mut health: watch::Receiver<Health>,
) {
    let kind = ApiResource::erase::<Cluster>(&());
    let api = Api::all_with(shared.hub.clone(), &kind);
    let mut twins = shared.twins.subscribe();
    let mut leading = shared.leading.subscribe();
    if leading.wait_for(|leads| *leads).await.is_err() {
        return;
    }
    // The answer to a write arrives before its event.
    let mut written = None;
    let mut failures = 0;
    loop {
        let update = {
            let watched = recorded.borrow_and_update();
            if written
                .as_ref()
                .is_some_and(|it: &Recorded| it.version <= watched.version)
            {
                written = None;
            }
            let latest = &written.as_ref().unwrap_or(&watched).status;
            twins.mark_unchanged();
            let mut now = health.borrow_and_update().clone();
            now.twins = shared.twins.report(&cluster.name, latest);
            now.status_update(latest, shared.clock.now())
        };
        if let Some(status) = update {
            // Boxed, because nothing is written most of the time.
            let write = Box::pin(write(&api, &cluster, &status));
            match Box::pin(shared.at_the_hub(write)).await {
                Ok(answer) => {
                    written = Some(answer);
                    failures = 0;
                }
                Err(error) => {
                    failures += 1;
                    tracing::warn!(
                        cluster = cluster.name,
                        cause = request_failure(&error),
                        "cannot write the status of a Cluster, trying again"
                    );
                    // In most cases the Cluster was changed or deleted, and the event is under way.
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
            end = twins.changed() => end,
        };
        if end.is_err() {
            return;
        }
    }
}

/// Writes a status. The server refuses the write if the Cluster was created again meanwhile. The
/// other fields of the Cluster are not read: they may be unreadable.
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
