//! The mirrors in the agent's namespace on the hub, and the statuses that are not reported yet.
//!
//! ```text
//! hub: mirrors ──watch──► Mirrors ──► Observed::phases ──► passes ──► the cluster
//!         ▲                 │ ▲                              │
//!         └────reporter─────┘ └────── status ◄───────────────┘
//! ```

mod acceptance;
mod hub;
mod pending;
mod reported;
mod rewound;
mod rollouts;
mod saved;

use std::{
    cmp::Reverse,
    collections::{BTreeSet, HashMap, HashSet},
    mem,
    sync::Arc,
};

use baton_apis::{
    ObjectSetPhaseStatus,
    constants::{ANNOTATION_SITE, CLASS_AGENT, HEARTBEAT, LABEL_CHAIN},
};
use baton_fleet::mirror::{self, Origin};
use baton_records::{
    phase::{PhaseKey, PhaseRecord, Phases},
    record::ReadError,
};
use baton_runtime::source::Source;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tracing::{error, warn};

pub(crate) use self::{acceptance::Acceptance, rollouts::MAX_REPORT, saved::SavedMirror};
use self::{
    rewound::has_gone_back,
    rollouts::{Rollout, is_rollout},
};
use crate::delivery::{observed::Observed, site_chain};

/// Writer name of an agent's writes to its own stores.
const WRITER: &str = "agent";

/// A change in the namespace of an agent.
pub(crate) enum Change {
    /// A complete list, at a version of the hub's state.
    All {
        /// The objects that can be read.
        objects: Vec<PhaseRecord>,
        /// The keys of all listed objects, readable or not.
        listed: HashSet<PhaseKey>,
        version: u64,
        /// The result of [`Mirrors::versions`] when the list began.
        before: HashMap<PhaseKey, u64>,
    },
    There(PhaseRecord),
    Gone(PhaseKey),
}

/// A phase to be reconciled, ordered by revision number: the newest comes first.
type QueuedPhase = (Reverse<i64>, PhaseKey);

pub(crate) struct Mirrors {
    /// Name of the agent's cluster.
    cluster: String,
    /// The mirrors as last observed.
    items: Phases,
    observed: Arc<Observed>,
    /// Phases to be reconciled.
    wakes: Source<PhaseKey>,
    rollouts: Mutex<HashMap<PhaseKey, Rollout>>,
    /// Rollouts to be reconciled.
    rollout_wakes: Source<PhaseKey>,
    /// True if the hub has sent a complete list.
    is_listed: Mutex<bool>,
    /// Phases whose current status may not be reported yet.
    pending: Mutex<BTreeSet<PhaseKey>>,
    /// Notified when a phase becomes pending.
    became_pending: Notify,
    /// Counts changes of the state that is stored on disk.
    changes: watch::Sender<u64>,
    /// The heartbeat object; `None` until it is observed.
    heartbeat: watch::Sender<Option<Arc<PhaseRecord>>>,
    /// True if the hub answers, as far as the watch shows.
    is_connected: watch::Sender<bool>,
    acceptance: Acceptance,
    /// UID of the hub, as the heartbeat object names it; empty until then.
    hub: Mutex<String>,
    /// Notified when everything is to be listed again.
    list_requests: Notify,
}

impl Mirrors {
    /// The state before the first list. `identity` is that of this agent, and empty if it is unknown.
    pub(crate) fn new(cluster: &str, identity: &str, observed: Arc<Observed>) -> Self {
        Self {
            cluster: cluster.to_owned(),
            items: Phases::default(),
            observed,
            wakes: Source::default(),
            rollouts: Mutex::default(),
            rollout_wakes: Source::default(),
            is_listed: Mutex::new(false),
            pending: Mutex::default(),
            became_pending: Notify::new(),
            changes: watch::Sender::new(0),
            heartbeat: watch::Sender::new(None),
            is_connected: watch::Sender::new(false),
            acceptance: Acceptance::new(cluster, identity),
            hub: Mutex::default(),
            list_requests: Notify::new(),
        }
    }

    /// The decision of the hub on this agent.
    pub(crate) fn acceptance(&self) -> &Acceptance {
        &self.acceptance
    }

    pub(crate) fn cluster(&self) -> &str {
        &self.cluster
    }

    /// The mirrors, in no particular order.
    pub(crate) fn all(&self) -> Vec<Arc<PhaseRecord>> {
        self.items.all()
    }

    /// Counts changes of [`Mirrors::saved`].
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The phases to be reconciled because of changes on the hub.
    pub(crate) fn wakes(&self) -> &Source<PhaseKey> {
        &self.wakes
    }

    /// The object whose status holds the agent's heartbeat.
    pub(crate) fn heartbeat(&self) -> watch::Receiver<Option<Arc<PhaseRecord>>> {
        self.heartbeat.subscribe()
    }

    /// True if the heartbeat object is missing: the namespace of the agent is being deleted, and its mirrors with it.
    /// The deletion of a mirror does not request the deletion of its objects then.
    pub(crate) fn is_closing(&self) -> bool {
        *self.is_listed.lock() && self.heartbeat.borrow().is_none()
    }

    /// A channel with the state of the connection: true while the hub answers, as far as the watch shows.
    pub(crate) fn is_connected(&self) -> watch::Receiver<bool> {
        self.is_connected.subscribe()
    }

    /// The key by which the mirror of a phase can be read; `None` while the hub is unreachable.
    pub(crate) fn mirror_of(&self, name: &str, uid: &str) -> Option<PhaseKey> {
        let is_connected = *self.is_connected.borrow();
        is_connected.then(|| mirror::key_of(&self.cluster, name, uid))
    }

    pub(crate) fn set_connected(&self, connected: bool) {
        let is_new = |previous: &mut bool| mem::replace(previous, connected) != connected;
        self.is_connected.send_if_modified(is_new);
    }

    /// Stores the mirror, or the heartbeat object, that the hub has returned for a status write.
    pub(crate) fn reported(&self, mirror: PhaseRecord) {
        if *mirror.key.name == *HEARTBEAT {
            let mirror = Arc::new(mirror);
            self.heartbeat.send_if_modified(|latest| {
                let is_newer = latest.as_ref().is_some_and(|latest| {
                    latest.uid == mirror.uid && latest.resource_version < mirror.resource_version
                });
                if is_newer {
                    *latest = Some(mirror);
                }
                // Readers of this channel wait for changes that the hub makes.
                false
            });
            return;
        }
        if is_rollout(&mirror) {
            self.take_rollout(mirror, false);
            return;
        }
        self.items.updated(mirror, WRITER);
        self.changed();
    }

    fn changed(&self) {
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// Applies changes in the agent's namespace, and wakes the phases. The newest phase is woken first, so that nothing
    /// is written for a phase that a newer one replaces.
    pub(crate) fn process(&self, changes: impl IntoIterator<Item = Change>) {
        let was_closing = self.is_closing();
        let was_refused = self.acceptance.is_refused();
        let mut wakes = self.apply_changes(changes);
        self.acceptance.note(self.heartbeat.borrow().as_deref());
        self.note_hub();
        if was_refused && !self.acceptance.is_refused() {
            wakes.extend(wakes_of(&self.observed.phases.all()));
            self.wake_rollouts(None);
        }
        wakes.extend(self.waiting());
        if was_closing && !self.is_closing() {
            wakes.extend(self.deleted());
        }
        self.wake(wakes);
    }

    /// The phases of sites that have not begun: any change may end their wait, and they are few.
    fn waiting(&self) -> Vec<QueuedPhase> {
        let is_waiting = |phase: &PhaseRecord| {
            site_chain::has_site(phase) && site_chain::state(phase).begun.since().is_none()
        };
        wakes_of(&self.observed.phases.filter(is_waiting))
    }

    /// The phases in the chain of a site's phase, which decide together which workloads stop; none for other phases.
    fn chain(&self, of: &PhaseRecord) -> Vec<QueuedPhase> {
        let label = of.labels.get(LABEL_CHAIN);
        let Some(label) = label.filter(|_| site_chain::has_site(of)) else {
            return Vec::new();
        };
        let phases = site_chain::labelled_phases(&self.observed, &of.key.namespace, label);
        wakes_of(&phases)
    }

    /// Wakes the phases of sites that have not begun.
    pub(crate) fn wake_waiting(&self) {
        self.wake(self.waiting().into_iter().collect());
    }

    fn wake(&self, wakes: BTreeSet<QueuedPhase>) {
        for (_, key) in wakes {
            self.wakes.emit(&key);
        }
    }

    /// Applies changes. Returns the phases to wake.
    fn apply_changes(&self, changes: impl IntoIterator<Item = Change>) -> BTreeSet<QueuedPhase> {
        let mut wakes = BTreeSet::new();
        for change in changes {
            match change {
                Change::All {
                    objects,
                    listed,
                    version,
                    before,
                } => {
                    let has_gone_back = has_gone_back(&before, &objects, version);
                    // The lock covers the heartbeat as well, so that no reader sees the state between the two.
                    let mut is_listed = self.is_listed.lock();
                    self.replace(objects, &listed, has_gone_back, &mut wakes);
                    *is_listed = true;
                }
                Change::There(object) => wakes.extend(self.found(object, false)),
                Change::Gone(key) => {
                    wakes.extend(self.remove_mirror(&key));
                    self.prune();
                }
            }
        }
        wakes
    }

    /// The phases whose mirrors are being deleted.
    fn deleted(&self) -> Vec<QueuedPhase> {
        let deleted = self.items.filter(|mirror| mirror.deleting).into_iter();
        let wake = |mirror: Arc<PhaseRecord>| {
            let origin = Origin::read(&mirror).ok()?;
            Some((Reverse(mirror.revision_number()), origin.key()))
        };
        deleted.filter_map(wake).collect()
    }

    /// Stores one object, and returns the phases to wake. An object that cannot be read is logged and ignored.
    ///
    /// An object is ignored unless it is newer than the cached one, or `has_gone_back`.
    fn found(&self, object: PhaseRecord, has_gone_back: bool) -> Vec<QueuedPhase> {
        let key = object.key.clone();
        self.take_one(object, has_gone_back)
            .unwrap_or_else(|error| {
                error!(object = %key, %error, "a mirror cannot be used and is ignored");
                Vec::new()
            })
    }

    fn take_heartbeat(&self, object: Arc<PhaseRecord>, has_gone_back: bool) {
        self.heartbeat.send_if_modified(|latest| {
            let is_newer = latest.as_ref().is_none_or(|latest| {
                latest.uid != object.uid || latest.resource_version < object.resource_version
            });
            let is_taken = has_gone_back || is_newer;
            if is_taken {
                *latest = Some(object);
            }
            is_taken
        });
    }

    fn take_one(
        &self,
        object: PhaseRecord,
        has_gone_back: bool,
    ) -> Result<Vec<QueuedPhase>, ReadError> {
        if object.class() != CLASS_AGENT {
            return Ok(Vec::new());
        }
        if *object.key.name == *HEARTBEAT {
            self.take_heartbeat(object.into(), has_gone_back);
            return Ok(Vec::new());
        }
        if is_rollout(&object) {
            self.take_rollout(object, has_gone_back);
            return Ok(Vec::new());
        }
        let origin = Origin::read(&object)?;
        let revisions = origin.revisions(object.resource_version)?;
        let mut phase = origin.phase(&object);
        let (number, key) = (object.revision_number(), phase.key.clone());
        let before = self.items.get(&object.key);
        let matters = has_gone_back || before.is_none_or(|before| before.differs(&object));
        let phases = &self.observed.phases;
        let cached = phases.get(&key);
        if has_gone_back {
            // These stores keep what is newer.
            self.items.remove(&object.key);
            phases.remove(&key);
            for revision in &revisions {
                self.observed.revisions.remove(&revision.key);
            }
        }
        if !self.items.observe(object) {
            return Ok(Vec::new());
        }
        self.changed();
        for revision in revisions {
            self.observed.revisions.observe(revision);
        }
        if let Some(cached) = &cached
            && cached.uid == phase.uid
        {
            // The status on the hub may be older than the status that the agent has recorded.
            phase.set_status_of(cached);
        } else {
            reported::correct_status(&mut phase)?;
        }
        let is_elsewhere = cached
            .as_ref()
            .is_some_and(|cached| queue_position(cached) != queue_position(&phase));
        phases.observe(phase);
        self.add_pending(key.clone());
        let mut wakes = Vec::new();
        if let Some(cached) = cached.filter(|_| is_elsewhere) {
            wakes = self.chain(&cached);
        }
        wakes.extend(matters.then_some((Reverse(number), key)));
        Ok(wakes)
    }

    /// Removes a deleted mirror and its phase from the stores; the objects of the phase stay as they are.
    ///
    /// Returns the phases to wake: the phase and its chain, whose workloads may have stopped for this phase.
    fn remove_mirror(&self, key: &PhaseKey) -> Vec<QueuedPhase> {
        if *key.name == *HEARTBEAT {
            self.heartbeat.send_replace(None);
        }
        if self.remove_rollout(key) {
            return Vec::new();
        }
        let Some(mirror) = self.items.remove(key) else {
            return Vec::new();
        };
        self.changed();
        let origin = Origin::read(&mirror).ok();
        let phases = &self.observed.phases;
        let phase = origin.and_then(|origin| {
            let phase = phases.get(&origin.key())?;
            (*phase.uid == *origin.uid()).then_some(phase)
        });
        let Some(phase) = phase else {
            return Vec::new();
        };
        phases.remove(&phase.key);
        let mut wakes = self.chain(&phase);
        wakes.push((Reverse(mirror.revision_number()), phase.key.clone()));
        wakes
    }

    /// Removes the revisions that no mirror names any more.
    fn prune(&self) {
        let mirrors = self.all();
        let origins: Vec<_> = mirrors
            .iter()
            .filter_map(|mirror| Origin::read(mirror).ok())
            .collect();
        let mentioned: HashSet<&str> = origins.iter().flat_map(Origin::revision_uids).collect();
        let revisions = &self.observed.revisions;
        for record in revisions.all() {
            if !mentioned.contains(&*record.uid) {
                revisions.remove(&record.key);
            }
        }
    }

    /// Replaces the mirrors by those of a list. A mirror that is listed but unreadable stays, unless the hub has
    /// gone back. The statuses that the agent has recorded stay: they are about its own cluster.
    fn replace(
        &self,
        objects: Vec<PhaseRecord>,
        listed: &HashSet<PhaseKey>,
        has_gone_back: bool,
        wakes: &mut BTreeSet<QueuedPhase>,
    ) {
        if has_gone_back {
            warn!(
                "the state of the hub is older than the cached state, as after a restore; the cache is replaced"
            );
        }
        let heartbeat = mirror::heartbeat(&self.cluster);
        if !listed.contains(&heartbeat) {
            self.remove_mirror(&heartbeat);
        }
        let readable: HashSet<_> = objects.iter().map(|object| object.key.clone()).collect();
        let kept = if has_gone_back { &readable } else { listed };
        for mirror in self.all() {
            if !kept.contains(&mirror.key) {
                wakes.extend(self.remove_mirror(&mirror.key));
            }
        }
        self.keep_rollouts(|key| kept.contains(key));
        self.prune();
        for object in objects {
            wakes.extend(self.found(object, has_gone_back));
        }
    }

    /// Records the new status of a phase. Returns true if it differs from the previous one.
    ///
    /// # Errors
    /// When the previous status cannot be read.
    pub(crate) fn record_status(
        &self,
        phase: &PhaseRecord,
        status: &ObjectSetPhaseStatus,
    ) -> Result<bool, ReadError> {
        if phase.status()? == *status {
            return Ok(false);
        }
        let phases = &self.observed.phases;
        let noted = phases.note_status(&phase.key, &phase.uid, status);
        if noted.map_err(ReadError::of(phase.key.kind, "status"))? {
            self.add_pending(phase.key.clone());
            self.changed();
            // A stage of a rollout may wait for the installation.
            self.wake_rollouts(Some(&phase.key.namespace));
        }
        Ok(true)
    }
}

fn wakes_of(phases: &[Arc<PhaseRecord>]) -> Vec<QueuedPhase> {
    let wake = |phase: &Arc<PhaseRecord>| (Reverse(phase.revision_number()), phase.key.clone());
    phases.iter().map(wake).collect()
}

/// The fields that determine the position of a site's phase in its chain. If the position changes, other workloads may
/// have to stop.
fn queue_position(phase: &PhaseRecord) -> impl PartialEq {
    let entry = phase.annotations.get(ANNOTATION_SITE).cloned();
    let chain = phase.labels.get(LABEL_CHAIN).cloned();
    let revision = (phase.uid.clone(), phase.controller.clone());
    (revision, phase.deleting, chain, entry)
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use baton_apis::{
        conditions::{Reason, STARTED},
        constants::ANNOTATION_AGENT,
    };
    use baton_engine::revision::Reach;
    use baton_fleet::mirror::QueuePosition;
    use baton_records::{
        phase::PhaseKind,
        record::Record,
        revision::{RevisionKind::ObjectSet, RevisionRecord},
    };
    use baton_sites::terms::Terms;
    use futures::FutureExt as _;
    use serde_json::{Value, json};

    use super::*;

    fn metadata(kind: &str, number: i64) -> Value {
        json!({
            "name": format!("v{number}"), "namespace": "shop", "uid": format!("{kind}{number}"), "generation": 1,
            "resourceVersion": "1",
        })
    }

    /// The mirror of the only phase of a site's revision.
    pub(in super::super) fn mirror(number: i64, has_revision: bool) -> PhaseRecord {
        let entry = json!({
            "deployment": "d", "site": "edge", "application": "shop", "version": format!("1.{number}.0"), "edit": "0",
            "rollout": 1, "batch": 1, "phases": ["a"], "stop": "All",
        });
        let set =
            json!({"metadata": metadata("u", number), "spec": {"revision": number, "phases": []}});
        let set: RevisionRecord = Record::read(ObjectSet, &set.to_string()).unwrap();
        let mut metadata = metadata("p", number);
        metadata["name"] = format!("v{number}-a").into();
        metadata["labels"] = json!({LABEL_CHAIN: "chain"});
        metadata["annotations"] = json!({ANNOTATION_SITE: entry.to_string()});
        let phase = json!({"metadata": metadata, "spec": {"revision": number, "objects": []}});
        let phase = Record::read(PhaseKind(ObjectSet), &phase.to_string()).unwrap();
        let position = QueuePosition::of(&phase, Terms::default(), false);
        let origin = Origin::of(&phase, has_revision.then_some(&set), &[], Reach::default());
        let key = mirror::key("edge", &phase);
        let mut object = mirror::manifest(&key, &phase, &origin.with_position(position)).unwrap();
        object["metadata"]["uid"] = format!("m{number}").into();
        object["metadata"]["resourceVersion"] = if has_revision { "2" } else { "3" }.into();
        Record::read(mirror::KIND, &object.to_string()).unwrap()
    }

    /// Two phases that have begun, and counts of their wakes.
    fn begun() -> (Mirrors, Arc<Mutex<BTreeMap<String, u32>>>) {
        let mirrors = Mirrors::new("edge", "own", Arc::default());
        mirrors.process([1, 2].map(|number| Change::There(mirror(number, true))));
        let condition = json!({
            "type": STARTED, "status": "True", "reason": Reason::Started.as_str(), "message": "",
            "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        let status = serde_json::from_value(json!({"conditions": [condition]})).unwrap();
        for phase in mirrors.observed.phases.all() {
            assert!(mirrors.record_status(&phase, &status).unwrap());
        }
        let woken = Arc::new(Mutex::new(BTreeMap::new()));
        let counted = Arc::clone(&woken);
        mirrors.wakes.subscribe(move |key: &PhaseKey| {
            *counted.lock().entry(key.name.to_string()).or_default() += 1;
        });
        (mirrors, woken)
    }

    fn all(objects: Vec<PhaseRecord>, version: u64) -> Change {
        Change::All {
            listed: objects.iter().map(|object| object.key.clone()).collect(),
            objects,
            version,
            before: HashMap::new(),
        }
    }

    fn both() -> BTreeMap<String, u32> {
        ["v1-a", "v2-a"].map(|name| (name.to_owned(), 1)).into()
    }

    /// The newer phase no longer requests that the workloads of the older one stop.
    #[test]
    fn an_older_phase_is_woken_when_the_mirror_of_a_newer_one_is_gone() {
        let (mirrors, woken) = begun();
        mirrors.process([Change::Gone(mirror(2, true).key)]);
        assert_eq!(*woken.lock(), both());
        // A new list without the mirror has the same effect.
        let (mirrors, woken) = begun();
        mirrors.process([all(vec![mirror(1, true)], 9)]);
        assert_eq!(*woken.lock(), both());
    }

    #[test]
    fn a_mirror_that_became_unreadable_stays_while_it_is_listed() {
        let (mirrors, _) = begun();
        let all = mirrors.all();
        mirrors.process([Change::All {
            objects: vec![mirror(1, true)],
            listed: all.iter().map(|mirror| mirror.key.clone()).collect(),
            version: 9,
            before: mirrors.versions(),
        }]);
        assert_eq!(mirrors.all().len(), all.len());
    }

    fn at(mut object: PhaseRecord, version: u64) -> PhaseRecord {
        object.resource_version = version;
        object
    }

    fn listed(before: HashMap<PhaseKey, u64>, objects: Vec<PhaseRecord>, version: u64) -> Change {
        Change::All {
            before,
            listed: objects.iter().map(|object| object.key.clone()).collect(),
            objects,
            version,
        }
    }

    /// The hub was restored: the objects have older versions than in the cache, and the list has an older or a newer
    /// one.
    #[test]
    fn the_state_of_a_hub_that_went_back_replaces_the_cache() {
        for (mirror_version, heartbeat_version, version) in
            [(50, 50, 60), (50, 50, 200), (50, 110, 200), (100, 50, 200)]
        {
            let (mirrors, woken) = begun();
            let cached = [at(mirror(1, true), 100), heartbeat(Some("own"), 100)];
            mirrors.process(cached.map(Change::There));
            let phase = |mirrors: &Mirrors| {
                let phases = mirrors.observed.phases.all();
                phases
                    .into_iter()
                    .find(|it| *it.key.name == *"v1-a")
                    .unwrap()
            };
            let status = phase(&mirrors).status().unwrap();
            woken.lock().clear();
            let objects = vec![
                at(mirror(1, true), mirror_version),
                heartbeat(Some("other"), heartbeat_version),
            ];
            mirrors.process([listed(mirrors.versions(), objects, version)]);
            let versions: BTreeSet<_> = mirrors.versions().into_values().collect();
            assert_eq!(
                versions,
                [mirror_version, heartbeat_version].into(),
                "{version}"
            );
            assert!(mirrors.acceptance.is_refused());
            let now = phase(&mirrors);
            assert_eq!(now.resource_version, mirror_version);
            assert_eq!(now.status().unwrap(), status, "the agent has recorded it");
            assert!(woken.lock().contains_key("v1-a"), "{version}");
            assert!(mirrors.unreported(&now.key).is_some());
            // Later changes and answers are newer than the restored state only.
            mirrors.process([Change::There(at(mirror(1, true), mirror_version + 1))]);
            mirrors.reported(heartbeat(Some("other"), heartbeat_version + 2));
            let versions: BTreeSet<_> = mirrors.versions().into_values().collect();
            assert_eq!(versions, [mirror_version + 1, heartbeat_version + 2].into());
        }
    }

    /// The answer to a write that was sent during a list is newer than the list.
    #[test]
    fn a_write_during_a_list_is_no_sign_that_the_hub_went_back() {
        let (mirrors, woken) = begun();
        mirrors.process([Change::There(heartbeat(Some("own"), 5))]);
        let before = mirrors.versions();
        let mut objects: Vec<_> = mirrors
            .all()
            .iter()
            .map(|it| PhaseRecord::clone(it))
            .collect();
        objects.push(heartbeat(Some("own"), 5));
        mirrors.reported(at(mirror(1, true), 10));
        mirrors.reported(heartbeat(Some("own"), 11));
        mirrors.process([listed(before, objects, 9)]);
        assert_eq!(*woken.lock(), BTreeMap::new());
        let versions = mirrors.versions();
        assert!(
            versions.values().any(|version| *version == 10),
            "{versions:?}"
        );
        assert!(
            versions.values().any(|version| *version == 11),
            "{versions:?}"
        );
    }

    /// The heartbeat object, read after a write was refused: the next write is based on it, or a list is requested.
    #[test]
    fn a_refused_heartbeat_shows_that_the_hub_went_back() {
        let other = |version| {
            let mut other = heartbeat(Some("own"), version);
            other.uid = "other".into();
            other
        };
        for (live, expected, lists) in [
            (Some(heartbeat(Some("own"), 120)), 120, false),
            (Some(heartbeat(Some("own"), 100)), 100, false),
            (Some(heartbeat(Some("own"), 50)), 100, true),
            (Some(other(120)), 100, true),
            (None, 100, true),
        ] {
            let mirrors = Mirrors::new("edge", "own", Arc::default());
            mirrors.process([Change::There(heartbeat(Some("own"), 100))]);
            mirrors.read_again(live);
            let version = mirrors
                .heartbeat
                .borrow()
                .as_ref()
                .unwrap()
                .resource_version;
            assert_eq!(version, expected);
            let is_requested = mirrors.list_requested().now_or_never().is_some();
            assert_eq!(is_requested, lists, "{expected}");
        }
    }

    #[test]
    fn an_older_phase_is_woken_when_a_newer_one_has_another_revision() {
        let (mirrors, woken) = begun();
        mirrors.process([Change::There(mirror(2, false))]);
        assert_eq!(*woken.lock(), both());
    }

    /// The heartbeat object, with the identity that the hub has noted.
    fn heartbeat(noted: Option<&str>, version: u64) -> PhaseRecord {
        let annotations = noted.map_or(json!({}), |noted| json!({ANNOTATION_AGENT: noted}));
        let object = json!({
            "metadata": {
                "name": HEARTBEAT, "namespace": "baton-cluster-edge", "uid": "h",
                "resourceVersion": version.to_string(), "annotations": annotations,
                "labels": {"package-operator.run/phase-class": CLASS_AGENT},
            },
            "spec": {"revision": 0, "objects": []},
        });
        Record::read(mirror::KIND, &object.to_string()).unwrap()
    }

    #[test]
    fn an_agent_is_refused_while_the_hub_names_another_one() {
        let (mirrors, woken) = begun();
        let refused = |noted: Option<&str>, version| {
            mirrors.process([Change::There(heartbeat(noted, version))]);
            mirrors.acceptance.is_refused()
        };
        assert!(!refused(None, 10));
        assert!(!refused(Some("own"), 11));
        assert!(refused(Some("other"), 12));
        assert_eq!(*woken.lock(), BTreeMap::new());
        assert!(!refused(Some("own"), 13));
        assert_eq!(*woken.lock(), both(), "they were not reconciled meanwhile");
        let unknown = Mirrors::new("edge", "", Arc::default());
        unknown.process([Change::There(heartbeat(Some("other"), 10))]);
        assert!(
            !unknown.acceptance.is_refused(),
            "it does not know its identity"
        );
    }

    /// The agent recorded the start of the phase while the write of an earlier status was in progress. That write
    /// reached the hub, and then the process ended.
    #[test]
    fn the_start_of_a_phase_is_recalled_whatever_the_hub_reports() {
        let status = |status: &str, reason: &str| {
            json!({"conditions": [{
                "type": STARTED, "status": status, "reason": reason, "message": "", "observedGeneration": 1,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }]})
        };
        let queued = status("False", Reason::PreflightError.as_str());
        let begun = status("True", Reason::Started.as_str());
        for (noted, of_hub, is_recalled) in [(&begun, &queued, true), (&queued, &begun, false)] {
            let mirrors = Mirrors::new("edge", "own", Arc::default());
            let mut object = mirror(1, true).to_object();
            object["status"] = of_hub.clone();
            object["metadata"]["resourceVersion"] = "3".into();
            let hub = Record::read(mirror::KIND, &object.to_string()).unwrap();
            mirrors.process([all(vec![hub], 3)]);
            let noted = serde_json::from_value(noted.clone()).unwrap();
            mirrors.restore(vec![SavedMirror {
                mirror: mirror(1, true).into(),
                noted: Some(noted),
            }]);
            let phase = mirrors.observed.phases.all().remove(0);
            assert!(
                site_chain::state(&phase).begun.since().is_some(),
                "{of_hub}"
            );
            let is_reported = mirrors.unreported(&phase.key).is_some();
            assert_eq!(is_reported, is_recalled, "{of_hub}");
        }
    }
}
