//! Reports to the hub that the agent runs, its identity, and the state of its API server and of its
//! disk.

use std::{sync::Arc, time::Duration};

use baton_apis::{
    ObjectSetPhaseStatus,
    conditions::{AGENT, CONNECTED, Reason, STATE_STORED, VERSION},
    constants::ANNOTATION_HEARTBEAT_SECONDS,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout},
};
use tracing::{debug, warn};

use baton_kubernetes::{
    backoff::{Backoff, spread},
    error::one_line,
};
use baton_records::{api::Api, phase::PhaseRecord};
use baton_runtime::clock::Clock;

use super::{mirrors::Mirrors, state::StateFile};

type ObservedHeartbeat = watch::Receiver<Option<Arc<PhaseRecord>>>;

/// The period if the hub does not set one.
const PERIOD: Duration = Duration::from_mins(1);
/// The time that a reachable hub may take to create the heartbeat object.
const TIMEOUT: Duration = Duration::from_secs(15);
/// The time that the cluster may take to report its version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(10);

/// Writes the heartbeat in the period that the hub sets, to the status of the object that the hub
/// has made for it. Never returns.
pub(crate) async fn run(
    hub: Api,
    site: kube::Client,
    (mirrors, file): (Arc<Mirrors>, StateFile),
    clock: Clock,
) {
    let mut heartbeats = mirrors.heartbeat();
    let mut failures = 0;
    loop {
        let Some(object) = heartbeats.borrow_and_update().clone() else {
            // The sender exists as long as `mirrors`.
            if timeout(TIMEOUT, heartbeats.changed()).await.is_err()
                && *mirrors.is_connected().borrow()
            {
                warn!(
                    cluster = mirrors.cluster(),
                    "the hub has no heartbeat object for the agent; is there a Cluster of this name on the hub, with \
                     connection Pull?"
                );
                let _ = heartbeats.changed().await;
            }
            continue;
        };
        let next = Instant::now() + spread(period(&object));
        let status = ObjectSetPhaseStatus {
            conditions: conditions(&site, (&mirrors, &file), &clock).await,
            ..ObjectSetPhaseStatus::default()
        };
        match hub.set_status(&object, &status).await {
            Ok(written) => {
                failures = 0;
                mirrors.reported(written);
                tokio::select! {
                    () = sleep_until(next) => {}
                    () = asked_again(&mut heartbeats, &object) => {}
                }
            }
            Err(error) => {
                failures += 1;
                if failures == 1 {
                    warn!(%error, "cannot write the heartbeat to the hub, trying again");
                } else {
                    debug!(%error, "cannot write the heartbeat to the hub, trying again");
                }
                if error.is_change() {
                    read_again(&hub, &mirrors, &object).await;
                }
                sleep(Backoff::up_to(period(&object)).delay(failures)).await;
            }
        }
    }
}

/// Reads the heartbeat object after a write of it was refused as outdated.
async fn read_again(hub: &Api, mirrors: &Mirrors, object: &PhaseRecord) {
    match hub.get(&object.key).await {
        Ok(live) => mirrors.read_again(live),
        Err(error) => debug!(%error, "cannot read the heartbeat object"),
    }
}

/// Resolves when the heartbeat object or its period has changed. The agent's own writes arrive as
/// changes, too.
async fn asked_again(heartbeats: &mut ObservedHeartbeat, object: &PhaseRecord) {
    while heartbeats.changed().await.is_ok() {
        let is_same = heartbeats
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

/// The conditions of a heartbeat. A part that is unknown has none.
async fn conditions(
    site: &kube::Client,
    (mirrors, file): (&Mirrors, &StateFile),
    clock: &Clock,
) -> Vec<Condition> {
    let (status, reason, message) = connected(site).await;
    // The time changes with each heartbeat: it is the time of the heartbeat.
    let time = Time(clock.now());
    let condition = |type_: &str, status: &str, reason: Reason, message| Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_string(),
        message,
        observed_generation: None,
        last_transition_time: time.clone(),
    };
    let mut conditions = vec![condition(CONNECTED, status, reason, message)];
    let version = env!("CARGO_PKG_VERSION").to_owned();
    conditions.push(condition(VERSION, "True", Reason::Connected, version));
    let identity = mirrors.acceptance().identity();
    if !identity.is_empty() {
        let identity = identity.to_owned();
        conditions.push(condition(AGENT, "True", Reason::Connected, identity));
    }
    if let Some(file) = file.report() {
        let status = if file.is_stored { "True" } else { "False" };
        conditions.push(condition(STATE_STORED, status, file.reason, file.message));
    }
    conditions
}

/// Reports if the cluster of the agent answers: status, reason and message.
async fn connected(site: &kube::Client) -> (&'static str, Reason, String) {
    let answer = match timeout(VERSION_TIMEOUT, site.apiserver_version()).await {
        Ok(Ok(version)) => Ok(version.git_version),
        Ok(Err(error)) => Err(one_line(&error)),
        Err(_) => Err(format!("no answer within {} s", VERSION_TIMEOUT.as_secs())),
    };
    match answer {
        Ok(version) => ("True", Reason::Connected, version),
        Err(cause) => ("False", Reason::Unreachable, cause),
    }
}
