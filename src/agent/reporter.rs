//! Reports the statuses of the phases to the hub.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt as _, stream};
use tokio::time::sleep;
use tracing::{debug, warn};

use baton_kubernetes::backoff::Backoff;
use baton_records::{
    api::{Api, ApiError},
    phase::PhaseKey,
};

use super::mirrors::Mirrors;

/// Number of concurrent status writes: the latency to the hub may be high.
const MAX_CONCURRENT: usize = 4;
/// The longest pause after a failed write.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Reports forever. While the hub is unreachable or refuses the agent, nothing is sent.
pub(crate) async fn run(hub: Api, mirrors: Arc<Mirrors>) {
    let (mut connected, mut accepted) = (mirrors.is_connected(), mirrors.acceptance().subscribe());
    let (mut failures, mut is_logged) = (0, false);
    loop {
        // The sender exists as long as `mirrors`.
        let _ = connected.wait_for(|connected| *connected).await;
        let _ = accepted.wait_for(|accepted| *accepted).await;
        let keys = mirrors.pending();
        if keys.is_empty() {
            mirrors.became_pending().await;
            continue;
        }
        let failed: Vec<ApiError> = stream::iter(keys)
            .map(|key| report(&hub, &mirrors, key))
            .buffer_unordered(MAX_CONCURRENT)
            .filter_map(|failed| async { failed })
            .collect()
            .await;
        let Some(error) = failed.first() else {
            failures = 0;
            is_logged = false;
            continue;
        };
        failures += 1;
        if is_logged || failed.iter().all(ApiError::is_change) {
            debug!(%error, "statuses were not written to the hub, trying again");
        } else {
            is_logged = true;
            warn!(%error, failed = failed.len(), "cannot write statuses to the hub, trying again");
        }
        sleep(Backoff::up_to(LONGEST_PAUSE).delay(failures)).await;
    }
}

/// Reports the status of one phase, if the hub does not have it.
async fn report(hub: &Api, mirrors: &Mirrors, key: PhaseKey) -> Option<ApiError> {
    let (mirror, status) = mirrors.unreported(&key)?;
    match hub.set_status(&mirror, &status).await {
        Ok(mirror) => {
            mirrors.reported(mirror);
            None
        }
        Err(error) => {
            mirrors.still_pending(key);
            Some(error)
        }
    }
}
