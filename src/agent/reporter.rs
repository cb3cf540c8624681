//! Tells the hub how it stands with the phases, when the hub is there.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt as _, stream};
use tokio::time::sleep;
use tracing::{debug, warn};

use crate::{
    cluster::{
        inventory::delay::retry_delay,
        phase::PhaseKey,
        revision_api::{ApiError, RevisionApi},
    },
    controllers::{Context, agent::Mirrors},
};

/// Statuses that are written side by side: the way to the hub may be long.
const SIDE_BY_SIDE: usize = 4;
/// The longest pause after a write that failed.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Reports for ever. While the hub is away nothing is tried.
pub async fn run(hub: RevisionApi, context: Arc<Context>, mirrors: Arc<Mirrors>) {
    let mut connected = mirrors.is_connected();
    let mut failures = 0;
    loop {
        // The sender lives as long as `mirrors`.
        let _ = connected.wait_for(|connected| *connected).await;
        let keys = mirrors.pending();
        if keys.is_empty() {
            mirrors.news().await;
            continue;
        }
        let failed: Vec<ApiError> = stream::iter(keys)
            .map(|key| report(&hub, &context, &mirrors, key))
            .buffer_unordered(SIDE_BY_SIDE)
            .filter_map(|failed| async { failed })
            .collect()
            .await;
        let Some(error) = failed.first() else {
            failures = 0;
            continue;
        };
        failures += 1;
        if failed
            .iter()
            .all(|error| matches!(error, ApiError::Changed { .. }))
        {
            debug!(%error, "what is reported about has changed, reporting again");
        } else {
            warn!(%error, failed = failed.len(), "the hub does not take reports, trying again");
        }
        sleep(retry_delay(failures, LONGEST_PAUSE)).await;
    }
}

/// Reports the status of one phase, if the hub does not have it.
async fn report(
    hub: &RevisionApi,
    context: &Context,
    mirrors: &Mirrors,
    key: PhaseKey,
) -> Option<ApiError> {
    let (mirror, status) = mirrors.unreported(context, &key)?;
    match hub.set_item_status(&mirror, &status).await {
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
