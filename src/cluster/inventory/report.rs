//! Writes what is known of the connection to a cluster into the status of its Cluster.

use std::{sync::Arc, time::Duration};

use baton_apis::{ClusterStatus, constants::CLUSTER_API_VERSION};
use http::Method;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;
use tokio::{sync::watch, time::sleep};

use super::{Shared, delay::retry_delay, health::Health};
use crate::cluster::{
    revision_api::{ApiError, RevisionApi},
    watch::number,
    wire,
};

const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";
/// The longest pause after a write that failed.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A status as the API server has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Recorded {
    /// Version of the Cluster.
    pub version: u64,
    /// Its status.
    pub status: ClusterStatus,
}

/// The Cluster to write to.
pub(super) struct Subject {
    /// Its name.
    pub name: String,
    /// Its uid: one that is made anew under the same name is another one.
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
    let api = RevisionApi::new(shared.hub.clone());
    let mut leading = shared.leading.subscribe();
    if leading.wait_for(|leads| *leads).await.is_err() {
        return;
    }
    // The answer to a write comes before its event.
    let mut written = Recorded::default();
    let mut failures = 0;
    loop {
        let told = recorded.borrow_and_update().clone();
        let now = health.borrow_and_update().clone();
        let latest = if told.version >= written.version {
            &told
        } else {
            &written
        };
        if let Some(status) = now.due(&latest.status, Timestamp::now()) {
            let write = write(&api, &cluster, &status);
            match shared.at_the_hub(write).await {
                Ok(answer) => {
                    written = answer;
                    failures = 0;
                }
                Err(error) => {
                    failures += 1;
                    tracing::warn!(cluster = cluster.name, %error, "cannot write the status of a Cluster, trying again");
                    // Most of all it has changed or gone, which the watch is about to tell.
                    let pause = sleep(retry_delay(failures, LONGEST_PAUSE));
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

/// Writes a status, unless the Cluster is another one by now, which the server refuses.
async fn write(
    api: &RevisionApi,
    cluster: &Subject,
    status: &ClusterStatus,
) -> Result<Recorded, ApiError> {
    #[derive(Deserialize)]
    struct Answer {
        metadata: Metadata,
        #[serde(default)]
        status: ClusterStatus,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        resource_version: String,
    }
    let path = path(&cluster.name);
    let body = json!({"metadata": {"uid": cluster.uid}, "status": status});
    let answer = api
        .request(Method::PATCH, MERGE_PATCH, JSON, &path, &body)
        .await?;
    let answer: Answer =
        serde_json::from_slice(&answer).map_err(|source| ApiError::Answer { path, source })?;
    Ok(Recorded {
        version: number(&answer.metadata.resource_version),
        status: answer.status,
    })
}

fn path(name: &str) -> String {
    format!(
        "/apis/{CLUSTER_API_VERSION}/clusters/{}",
        wire::escape(name)
    )
}
