//! Why the workloads of an owner do not come up: their pods are asked, now and then, while they fail.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use baton_engine::{
    Gvk, ObjectKey,
    conditions::{FIRST_LOOK, next_look},
    object_pass::Live,
    pass::Outcome,
    revision::{Desired, Kinds, Phase, Revision},
    workload::{pods_reason, runs_pods},
};
use baton_probes::{Probes, Verdict, budget::Budget};
use baton_records::record::RecordKind;
use serde_json::Value;

use super::executor::Executor;

/// Of how many workloads the pods are asked in one pass.
const MOST: usize = 3;

/// What is known of the objects that an owner waits for, and of which no watch tells why they fail.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failing {
    /// These objects; `None` before the first pass of this process.
    objects: Option<BTreeSet<ObjectKey>>,
    /// Since when they and no others have failed.
    since: Instant,
    /// When pods were asked last, and what was wrong with them, by workload.
    asked: Option<(Instant, BTreeMap<ObjectKey, String>)>,
}

impl Failing {
    fn since(since: Instant) -> Self {
        Self {
            objects: None,
            since,
            asked: None,
        }
    }

    /// Whether pods are to be asked: seldom, and the longer it lasts the more so.
    fn is_due(&self, now: Instant) -> bool {
        let lasts = now.duration_since(self.since);
        let rested = |(at, _): &(Instant, _)| now.duration_since(*at) >= next_look(lasts) / 2;
        lasts >= FIRST_LOOK && self.asked.as_ref().is_none_or(rested)
    }

    /// As it is after a pass in which these objects failed. When they are others than before it begins anew; what the
    /// pods said stays, until they are asked again.
    fn after(known: Option<Self>, objects: BTreeSet<ObjectKey>, now: Instant) -> Self {
        let mut known = known.unwrap_or_else(|| Self::since(now));
        if known.objects.is_some_and(|before| before != objects) {
            known.since = now;
        }
        Self {
            objects: Some(objects),
            ..known
        }
    }
}

impl<K: RecordKind> Executor<'_, K> {
    /// Notes with the first workloads that fail their probes what their pods say about it.
    ///
    /// One list of pods for each such workload; seldom, and the longer it lasts the more so: see [`next_look`]. A
    /// paused revision asks nobody.
    pub(super) async fn note_pods(
        &self,
        phases: &mut [Phase],
        kinds: &Kinds,
        probes: &Probes,
        revision: &Revision,
    ) {
        let clock = &self.shared.clock;
        let now = clock.instant();
        let known = self.owners.failing(self.key, self.uid);
        let reported = || {
            let since = clock.now().duration_since(revision.failing_since?);
            let since = now.checked_sub(since.unsigned_abs());
            Some(Failing::since(since.unwrap_or(now)))
        };
        let Some(mut failing) = known.or_else(reported) else {
            return;
        };
        if failing.is_due(now) && !revision.is_paused() {
            let reasons = self.reasons(phases, kinds, probes, revision).await;
            failing.asked = Some((now, reasons));
        }
        if let Some((_, reasons)) = &failing.asked {
            for object in phases.iter_mut().flat_map(|phase| &mut phase.objects) {
                object.reason = reasons.get(&object.key).cloned();
            }
        }
        self.owners.note_failing(self.key, self.uid, Some(failing));
    }

    /// Notes which objects fail after a pass, and returns for how long these and no others have done so.
    pub(super) fn note_failing(&self, outcome: &Outcome) -> Duration {
        let now = self.shared.clock.instant();
        let objects = outcome.failing_unseen();
        let known = self.owners.failing(self.key, self.uid);
        let failing = (!objects.is_empty()).then(|| Failing::after(known, objects, now));
        let since = failing.as_ref().map_or(now, |failing| failing.since);
        self.owners.note_failing(self.key, self.uid, failing);
        now.duration_since(since)
    }

    /// What the pods of the first failing workloads say.
    async fn reasons(
        &self,
        phases: &[Phase],
        kinds: &Kinds,
        probes: &Probes,
        revision: &Revision,
    ) -> BTreeMap<ObjectKey, String> {
        let (mut reasons, mut asked) = (BTreeMap::new(), 0);
        for object in phases.iter().flat_map(Phase::own_objects) {
            if asked == MOST {
                break;
            }
            let Some(live) = self.failing_workload(object, kinds, probes, revision) else {
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

    /// A workload of the revision as it is, if it fails its probes and that may be told.
    fn failing_workload(
        &self,
        object: &Desired,
        kinds: &Kinds,
        probes: &Probes,
        revision: &Revision,
    ) -> Option<Value> {
        let ObjectKey { group, kind, .. } = &object.key;
        if !runs_pods(group, kind) || object.hidden.is_some() {
            return None;
        }
        let Live::Present(live) = self.cached(kinds, object).0 else {
            return None;
        };
        if !revision.identity.controls(&live) {
            return None;
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What fails anew is looked at soon, however long something else has failed before.
    #[test]
    fn other_objects_begin_anew() {
        let objects = |name: &str| {
            let name = name.to_owned();
            BTreeSet::from([ObjectKey {
                name,
                ..ObjectKey::default()
            }])
        };
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let first = Failing::after(None, objects("a"), at(0));
        for (seconds, expected) in [(9, false), (10, true), (1800, true)] {
            assert_eq!(first.is_due(at(seconds)), expected, "{seconds}");
        }
        let mut asked = Failing::after(Some(first), objects("a"), at(1800));
        asked.asked = Some((at(1800), BTreeMap::new()));
        assert!(!asked.is_due(at(1800 + 299)) && asked.is_due(at(1800 + 300)));
        let other = Failing::after(Some(asked.clone()), objects("b"), at(1801));
        assert_eq!((other.since, &other.asked), (at(1801), &asked.asked));
        assert!(!other.is_due(at(1810)) && other.is_due(at(1811)));

        // After a restart it goes on as it was reported.
        let reported = Failing::since(at(0));
        let known = Failing::after(Some(reported), objects("a"), at(600));
        assert_eq!(known.since, at(0));
    }
}
