//! The reasons that the workloads of an owner do not become ready: their pods are listed from time
//! to time while they fail.

use std::{collections::BTreeMap, time::Instant};

use baton_engine::{
    Gvk, ObjectKey,
    object_pass::Live,
    revision::{Desired, Phase, Revision},
    workload::{pods_reason, runs_pods},
};
use baton_probes::{Probes, Verdict, budget::Budget};
use serde_json::Value;

use super::{failing::Failing, objects::Objects};

/// Maximum number of workloads whose pods are listed in one pass.
const MAX_WORKLOADS: usize = 3;

/// Adds the problems of their pods to the first workloads that fail their probes.
///
/// Each of these workloads costs one list of pods; the longer the failure lasts, the less often:
/// see [`next_look`](baton_engine::conditions::next_look). For a paused revision no list is sent.
pub(super) async fn note_reasons(
    failing: &mut Failing,
    now: Instant,
    objects: Objects<'_>,
    phases: &mut [Phase],
    probes: &Probes,
    revision: &Revision,
) {
    if failing.is_due(now) && !revision.is_paused() {
        let reasons = reasons(objects, phases, probes, revision).await;
        failing.polled = Some((now, reasons));
    }
    if let Some((_, reasons)) = &failing.polled {
        for object in phases.iter_mut().flat_map(|phase| &mut phase.objects) {
            object.reason = reasons.get(&object.key).cloned();
        }
    }
}

/// The problems of the pods of the first failing workloads.
async fn reasons(
    objects: Objects<'_>,
    phases: &[Phase],
    probes: &Probes,
    revision: &Revision,
) -> BTreeMap<ObjectKey, String> {
    let own = phases.iter().flat_map(Phase::own_objects);
    let failing = own.filter_map(|object| {
        let live = failing_workload(objects, object, probes, revision)?;
        Some((&object.key, live))
    });
    let failing: Vec<_> = failing.take(MAX_WORKLOADS).collect();
    let mut reasons = BTreeMap::new();
    for (key, live) in failing {
        let pod = Gvk::new("v1", "Pod");
        // The manager lists the pods in place of the account.
        if objects.may_read(&pod, &pod.key(&key.namespace, "")).await {
            let selector = &live["spec"]["selector"];
            let pods = objects.target.pods(&key.namespace, selector).await;
            reasons.extend(pods_reason(&pods).map(|reason| (key.clone(), reason)));
        }
    }
    reasons
}

/// A live workload of the revision, if it fails its probes and its content may be reported.
fn failing_workload(
    objects: Objects<'_>,
    object: &Desired,
    probes: &Probes,
    revision: &Revision,
) -> Option<Value> {
    let ObjectKey { group, kind, .. } = &object.key;
    if !runs_pods(group, kind) || object.hidden.is_some() {
        return None;
    }
    let Live::Present(live) = objects.cached(object).0 else {
        return None;
    };
    if !revision.identity.controls(&live) {
        return None;
    }
    let verdict = probes.evaluate(&mut Budget::default(), group, kind, &live);
    (verdict != Verdict::True).then_some(live)
}
