//! Shows the hub that the agent is there, and whether its cluster is.

use std::{sync::Arc, time::Duration};

use baton_apis::{
    ObjectSetPhaseStatus,
    conditions::{CONNECTED, reasons},
    constants::ANNOTATION_HEARTBEAT_SECONDS,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout},
};
use tracing::{debug, warn};

use crate::{
    cluster::{
        inventory::delay::{retry_delay, spread},
        phase::PhaseRecord,
        revision_api::RevisionApi,
    },
    controllers::agent::Mirrors,
    telemetry::one_line,
};

type Seen = watch::Receiver<Option<Arc<PhaseRecord>>>;

/// How often, when the hub does not say.
const PERIOD: Duration = Duration::from_mins(1);
/// How long the hub may take to make the object, when it is there.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long the cluster may take to tell its version.
const ANSWER: Duration = Duration::from_secs(10);

/// Writes the status of the object that is there for it for ever, as often as the hub asks for.
pub async fn run(hub: RevisionApi, site: kube::Client, mirrors: Arc<Mirrors>) {
    let mut seen = mirrors.heartbeat();
    let mut failures = 0;
    loop {
        let Some(object) = seen.borrow_and_update().clone() else {
            // The sender lives as long as `mirrors`.
            if timeout(PATIENCE, seen.changed()).await.is_err() && *mirrors.is_connected().borrow()
            {
                warn!(
                    cluster = mirrors.cluster(),
                    "the hub does not want to hear of the agent; is there a Cluster of this name on it, with connection Pull?"
                );
                let _ = seen.changed().await;
            }
            continue;
        };
        let next = Instant::now() + spread(period(&object));
        let status = ObjectSetPhaseStatus {
            conditions: vec![condition(&site).await],
            controller_of: Vec::new(),
        };
        match hub.set_item_status(&object, &status).await {
            Ok(written) => {
                failures = 0;
                mirrors.reported(written);
                tokio::select! {
                    () = sleep_until(next) => {}
                    () = another(&mut seen, &object) => {}
                }
            }
            Err(error) => {
                failures += 1;
                if failures == 1 {
                    warn!(%error, "the hub does not take the heartbeat, trying again");
                } else {
                    debug!(%error, "the hub does not take the heartbeat, trying again");
                }
                sleep(retry_delay(failures, period(&object))).await;
            }
        }
    }
}

/// Resolves when the hub asks for something else. Our own writes come back as changes, too.
async fn another(seen: &mut Seen, object: &PhaseRecord) {
    while seen.changed().await.is_ok() {
        let is_same = seen
            .borrow_and_update()
            .as_ref()
            .is_some_and(|now| now.uid == object.uid && period(now) == period(object));
        if !is_same {
            return;
        }
    }
}

fn period(object: &PhaseRecord) -> Duration {
    let annotation = object.annotations.get(ANNOTATION_HEARTBEAT_SECONDS);
    let seconds = annotation.and_then(|text| text.parse().ok());
    seconds.map_or(PERIOD, |seconds: u64| Duration::from_secs(seconds.max(1)))
}

/// Whether the cluster of the agent answers.
async fn condition(site: &kube::Client) -> Condition {
    let word = match timeout(ANSWER, site.apiserver_version()).await {
        Ok(Ok(version)) => Ok(version.git_version),
        Ok(Err(error)) => Err(one_line(&error)),
        Err(_) => Err(format!("no answer within {} s", ANSWER.as_secs())),
    };
    let (status, reason, message) = match word {
        Ok(version) => ("True", reasons::CONNECTED, version),
        Err(cause) => ("False", reasons::UNREACHABLE, cause),
    };
    Condition {
        type_: CONNECTED.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        observed_generation: None,
        // It moves each time: that is the news.
        last_transition_time: Time(Timestamp::now()),
    }
}
