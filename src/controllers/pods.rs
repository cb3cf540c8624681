//! Why the workloads of an owner do not come up: their pods are asked, now and then, while they fail.

use std::{collections::BTreeMap, time::Instant};

use baton_engine::{
    Gvk, ObjectKey,
    conditions::{FIRST_LOOK, next_look},
    object_pass::Live,
    revision::{Desired, Kinds, Phase},
    workload::{pods_reason, runs_pods},
};
use baton_probes::{Probes, Verdict, budget::Budget};
use baton_records::record::RecordKind;
use jiff::Timestamp;
use serde_json::Value;

use super::executor::Executor;

/// Of how many workloads the pods are asked in one pass.
const MOST: usize = 3;

/// What pods said the last time.
#[derive(Clone, Debug)]
pub(crate) struct PodsLook {
    /// When they were asked.
    at: Instant,
    /// What was wrong, by workload.
    reasons: BTreeMap<ObjectKey, String>,
}

impl<K: RecordKind> Executor<'_, K> {
    /// Notes with the first workloads that fail their probes what their pods say about it. `failing_since`: since when
    /// the status has said that something fails.
    ///
    /// One list of pods for each such workload; seldom, and the longer it lasts the more so: see [`next_look`].
    pub(super) async fn note_pods(
        &self,
        phases: &mut [Phase],
        kinds: &Kinds,
        probes: &Probes,
        failing_since: Option<Timestamp>,
    ) {
        let clock = &self.shared.clock;
        let lasts = failing_since.map(|since| clock.now().duration_since(since).unsigned_abs());
        let Some(lasts) = lasts.filter(|lasts| *lasts >= FIRST_LOOK) else {
            return;
        };
        let (now, pause) = (clock.instant(), next_look(lasts) / 2);
        let known = self.owners.look(self.key, self.uid);
        let is_due = |known: &PodsLook| now.duration_since(known.at) >= pause;
        let look = if let Some(known) = known.filter(|known| !is_due(known)) {
            known
        } else {
            let reasons = self.reasons(phases, kinds, probes).await;
            let look = PodsLook { at: now, reasons };
            self.owners.note_look(self.key, self.uid, look.clone());
            look
        };
        let objects = phases.iter_mut().flat_map(|phase| &mut phase.objects);
        for object in objects {
            object.reason = look.reasons.get(&object.key).cloned();
        }
    }

    /// What the pods of the first failing workloads say.
    async fn reasons(
        &self,
        phases: &[Phase],
        kinds: &Kinds,
        probes: &Probes,
    ) -> BTreeMap<ObjectKey, String> {
        let (mut reasons, mut asked) = (BTreeMap::new(), 0);
        for object in phases.iter().flat_map(Phase::own_objects) {
            if asked == MOST {
                break;
            }
            let Some(live) = self.failing(object, kinds, probes) else {
                continue;
            };
            asked += 1;
            let namespace = &object.key.namespace;
            if self.may_tell_pods(namespace).await {
                let pods = self.target.pods(namespace, &live["spec"]["selector"]).await;
                reasons.extend(pods_reason(&pods).map(|reason| (object.key.clone(), reason)));
            }
        }
        reasons
    }

    /// A workload as it is, if it fails its probes and that may be told.
    fn failing(&self, object: &Desired, kinds: &Kinds, probes: &Probes) -> Option<Value> {
        let ObjectKey { group, kind, .. } = &object.key;
        if !runs_pods(group, kind) || object.hidden.is_some() {
            return None;
        }
        let Live::Present(live) = self.cached(kinds, object).0 else {
            return None;
        };
        let verdict = probes.evaluate(&mut Budget::default(), group, kind, &live);
        (verdict != Verdict::True).then_some(live)
    }

    /// Whether the account may read the pods that the manager reads for it.
    async fn may_tell_pods(&self, namespace: &str) -> bool {
        let Some(account) = &self.account else {
            return true;
        };
        let gvk = Gvk::new("v1", "Pod");
        let key = gvk.key(namespace, "");
        self.target.hides(account, &gvk, &key).await.is_none()
    }
}
