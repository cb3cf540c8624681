//! The capacity and traffic that the agent of a cluster reports.

use std::time::Instant;

use baton_apis::{
    CapacityTarget, ClusterCapacityTarget, TrafficTarget,
    conditions::ROLLOUT_REPORT,
    constants::{
        ANNOTATION_ROLLOUT,
        shipper::{LABEL_APP, LABEL_RELEASE},
    },
};
use baton_engine::condition_list::find;
use baton_fleet::{
    inventory::{ClusterLink, Contact},
    mirror,
};
use baton_records::{
    phase::{PhaseKey, PhaseKind, PhaseRecord},
    store::Change,
};
use baton_releases::{
    by_agent::{
        Report, Task,
        report::{capacity_of, traffic_of, within_limits},
    },
    targets::{
        CapacityOutcome, TrafficOutcome,
        reasons::{Cause, Failure},
    },
    texts::Quoted,
};
use baton_runtime::{pace::Pace, source::Wake};
use baton_typed::{
    key::{Key, Kind},
    store::Store,
};

use super::{
    Context,
    app_clusters::{admit, objects::label, refusal},
};

/// The task in an object; `None` if there is none or it cannot be read.
pub(crate) fn task_of(object: &PhaseRecord) -> Option<Task> {
    serde_json::from_str(object.annotations.get(ANNOTATION_ROLLOUT)?).ok()
}

/// The report in an object; `None` before the first one, or if it cannot be read.
pub(crate) fn report_of(object: &PhaseRecord) -> Option<Report> {
    let status = object.status().ok()?;
    let condition = find(&status.conditions, ROLLOUT_REPORT)?;
    serde_json::from_str(&condition.message)
        .ok()
        .map(within_limits)
}

/// The reported outcome of the capacity of a Release; `None` if the cluster has no agent.
pub(super) fn capacity(
    context: &Context,
    target: &CapacityTarget,
    cluster: &ClusterCapacityTarget,
) -> Option<CapacityOutcome> {
    let found = of_agent(context, target, &cluster.name)?;
    Some(found.and_then(|(task, report)| {
        let release = label(&target.metadata, LABEL_RELEASE);
        let report = report.of(release);
        let outcome = report.and_then(|it| capacity_of(it, &task, cluster.percent));
        outcome.unwrap_or_else(|| Err(unreported(&cluster.name, release)))
    }))
}

/// The reported outcome of the traffic of a Release; `None` if the cluster has no agent.
pub(super) fn traffic(
    context: &Context,
    target: &TrafficTarget,
    cluster: &str,
) -> Option<TrafficOutcome> {
    let found = of_agent(context, target, cluster)?;
    Some(found.and_then(|(task, report)| {
        let release = label(&target.metadata, LABEL_RELEASE);
        let mut clusters = target.spec.clusters.iter();
        let weight = clusters
            .find(|it| it.name == cluster)
            .map_or(0, |it| it.weight);
        let report = report.of(release);
        let outcome = report.and_then(|it| traffic_of(it, &task, weight));
        outcome.unwrap_or_else(|| Err(unreported(cluster, release)))
    }))
}

/// The task and the report of the agent of a cluster; `None` if the cluster has no agent.
fn of_agent<K: Kind>(
    context: &Context,
    target: &K,
    cluster: &str,
) -> Option<Result<(Task, Report), Failure>> {
    let link = context.inventory.link(cluster);
    match &link {
        ClusterLink::Pull(Contact::Reported) => {}
        ClusterLink::Pull(_) => return Some(Err(refusal(cluster, &link))),
        ClusterLink::Unknown | ClusterLink::Down { .. } | ClusterLink::Up(_) => return None,
    }
    let metadata = target.meta();
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let (inventory, assignments) = (&context.inventory, &context.assignments);
    let admitted = admit((inventory, assignments), namespace, cluster);
    Some(admitted.and_then(|()| {
        let application = label(metadata, LABEL_APP);
        let key = mirror::rollout(cluster, namespace, application);
        let object = context.observed.phases.get(&key);
        let found = object.and_then(|it| Some((task_of(&it)?, report_of(&it)?)));
        found.ok_or_else(|| unreported(cluster, label(metadata, LABEL_RELEASE)))
    }))
}

fn unreported(cluster: &str, release: &str) -> Failure {
    let message = format!(
        "the agent of cluster {} has not reported on Release {} yet; it has to be as new as the manager",
        Quoted(cluster),
        Quoted(release)
    );
    Failure::new(Cause::Unreported, message)
}

/// Trigger: a report of an agent wakes the targets of its application, at the pace of reports: the
/// credentials of the agent may be in other hands.
pub(super) fn on_report<K: Kind>(
    store: &Store<K>,
    (reports, now): (&Pace<PhaseKey>, Instant),
    change: &Change<PhaseKind>,
) -> Vec<Wake<Key>> {
    let is_new = |new: &PhaseRecord| {
        let old = change.old.as_ref();
        old.is_none_or(|old| old.status_differs(new) || old.annotations != new.annotations)
    };
    let object = change.new.as_ref().filter(|new| is_new(new));
    let object = object.filter(|object| mirror::rollout_cluster(object).is_some());
    let Some((object, task)) = object.and_then(|object| Some((object, task_of(object)?))) else {
        return Vec::new();
    };
    let delay = reports.delay(object.key.clone(), now);
    let targets = store.labelled(&task.namespace, LABEL_APP, &task.application);
    let keys = targets.iter().map(|it| Key::of(store.kind, &**it));
    keys.map(|key| Wake::after(delay, key)).collect()
}
