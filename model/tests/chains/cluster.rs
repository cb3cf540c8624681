//! A cluster with random events: parallel passes, a manager that crashes, caches that lag.

use std::collections::{BTreeMap, BTreeSet};

use baton_apis::{
    LifecycleState, ObjectSetStatus, ObjectSetTemplatePhase, conditions::ARCHIVED,
    constants::FIELD_MANAGER,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use baton_engine::{
    Answer, Gvk, ObjectKey, Request,
    conditions::{report_archival, report_pass},
    handover::{Claim, Relation, Sibling, Siblings},
    heirs::heir,
    object::{Identity, controlled_reference, controller, is_terminating, metadata, text},
    object_pass::{AppliedFingerprints, Live},
    pass::{Outcome, Pass, Position, Snapshot, Step},
    revision::{Heir, KindScope, KindState, Kinds, Phase, Revision, prepare},
    teardown::{Teardown, TeardownOutcome},
};
use baton_model::server::{self, Change, Next};
use baton_probes::Probes;

pub const NAMESPACE: &str = "ns";

/// Random numbers that shrink: bytes of the test case, then zeros.
#[derive(Debug, Default)]
pub struct Dice {
    pub bytes: Vec<u8>,
    pub next: usize,
}

impl Dice {
    /// A number below `sides`; 0 when the bytes are used up.
    pub fn roll(&mut self, sides: usize) -> usize {
        let byte = self.bytes.get(self.next).copied().unwrap_or(0);
        self.next += 1;
        usize::from(byte) % sides
    }
}

/// A revision in the model.
#[derive(Clone, Debug)]
pub struct Set {
    pub identity: Identity,
    pub number: i64,
    pub lifecycle: LifecycleState,
    pub previous: BTreeSet<String>,
    pub phases: Vec<ObjectSetTemplatePhase>,
    /// True if older revisions get the objects of this one when it is deleted.
    pub hands_back: bool,
    pub status: ObjectSetStatus,
}

impl Set {
    pub fn is_archived(&self) -> bool {
        self.status
            .conditions
            .iter()
            .any(|c| c.type_ == ARCHIVED && c.status == "True")
    }

    pub fn is_live(&self) -> bool {
        self.lifecycle == LifecycleState::Active
    }

    pub fn revision(&self) -> Revision {
        Revision {
            identity: self.identity.clone(),
            number: self.number,
            generation: 1,
            lifecycle: self.lifecycle,
            ..Revision::default()
        }
    }

    pub fn prepared(&self) -> Vec<Phase> {
        prepare(&self.revision(), self.phases.clone())
    }
}

/// The error of a pass that ended because the manager died.
#[derive(Debug)]
pub struct Crash;

#[derive(Default)]
pub struct World {
    pub objects: BTreeMap<ObjectKey, Value>,
    pub sets: Vec<Set>,
    pub dice: Dice,
    /// The earlier states of an object that a lagging cache may still contain. Answers to own
    /// writes go into the cache at once, so the cache never lags behind them.
    history: BTreeMap<ObjectKey, Vec<Option<Value>>>,
    settled: BTreeMap<ObjectKey, (String, AppliedFingerprints)>,
    clock: u64,
    /// Number of real writes since the last reset.
    pub writes: usize,
    /// True if caches lag, other passes run in between, and the manager crashes.
    pub is_rough: bool,
    /// Revisions with a pass in progress: the work queue never returns a revision twice.
    running: BTreeSet<usize>,
}

impl World {
    /// An empty world with random events, chosen by the bytes.
    pub fn rough(bytes: Vec<u8>) -> Self {
        Self {
            is_rough: true,
            dice: Dice { bytes, next: 0 },
            ..Self::default()
        }
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Stores an object as the new state, or removes it.
    pub fn put(&mut self, key: &ObjectKey, object: Option<Value>) {
        let version = self.tick().to_string();
        let before = self.objects.remove(key);
        self.history.entry(key.clone()).or_default().push(before);
        if let Some(mut object) = object {
            object["metadata"]["resourceVersion"] = version.into();
            self.objects.insert(key.clone(), object);
        }
    }

    /// Another client creates an object.
    pub fn make_stranger(&mut self, key: &ObjectKey, data: &str) {
        let uid = format!("uid-{}", self.tick());
        let object = json!({
            "apiVersion": "v1", "kind": key.kind,
            "metadata": {"name": key.name, "namespace": key.namespace, "uid": uid,
                "managedFields": [{"manager": "user", "operation": "Update",
                    "fieldsV1": {"f:data": {"f:content": {}}}}]},
            "data": {"content": data},
        });
        self.put(key, Some(object));
    }

    /// Another client deletes an object.
    pub fn delete(&mut self, key: &ObjectKey) {
        let Some(mut object) = self.objects.get(key).cloned() else {
            return;
        };
        if object.pointer("/metadata/finalizers").is_some() {
            object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            self.put(key, Some(object));
        } else {
            self.put(key, None);
        }
    }

    /// Another client adds a finalizer.
    pub fn block(&mut self, key: &ObjectKey) {
        if let Some(mut object) = self.objects.get(key).cloned() {
            object["metadata"]["finalizers"] = json!(["test/hold"]);
            self.put(key, Some(object));
        }
    }

    /// Marks the object as written by an update of Package Operator, not by applies.
    pub fn age(&mut self, key: &ObjectKey) {
        if let Some(mut object) = self.objects.get(key).cloned() {
            let entries = object["metadata"]["managedFields"].as_array_mut();
            for entry in entries.into_iter().flatten() {
                if text(entry, "manager") == FIELD_MANAGER {
                    entry["operation"] = "Update".into();
                }
            }
            self.put(key, Some(object));
        }
    }

    /// Removes all finalizers.
    pub fn unblock(&mut self) {
        for (key, mut object) in self.objects.clone() {
            if object.pointer("/metadata/finalizers").is_some() {
                object["metadata"]
                    .as_object_mut()
                    .expect("metadata")
                    .remove("finalizers");
                let left = (!is_terminating(&object)).then_some(object);
                self.put(&key, left);
            }
        }
    }

    /// The answer of the server.
    fn serve(&mut self, key: &ObjectKey, request: &Request) -> Answer {
        let number = self.clock + 1;
        let next = Next {
            uid: format!("uid-{number}"),
            version: number.to_string(),
        };
        let (change, answer) = server::serve(key, self.objects.get(key), request, &next);
        let state = match change {
            Change::None => return answer,
            Change::Put(object) => Some(object),
            Change::Gone => None,
        };
        self.writes += 1;
        self.put(key, state);
        self.history.remove(key);
        answer
    }

    /// The state of an object in a cache: the present one, or in a rough world sometimes an earlier
    /// one.
    fn cached(&mut self, key: &ObjectKey) -> (Live, Option<AppliedFingerprints>) {
        let lags = self.is_rough && self.dice.roll(8) == 1;
        let past = self
            .history
            .get(key)
            .filter(|_| lags)
            .and_then(|states| states.last());
        let state = past
            .cloned()
            .unwrap_or_else(|| self.objects.get(key).cloned());
        // The watch selects by label.
        let Some(object) = state.filter(|object| object.pointer("/metadata/labels").is_some())
        else {
            return (Live::Uncached, None);
        };
        let settled = self
            .settled
            .get(key)
            .filter(|(uid, _)| uid == metadata(&object, "uid"))
            .map(|(_, settled)| *settled);
        (Live::Present(object), settled)
    }

    /// Sends a request, with random events around it.
    fn send(&mut self, key: &ObjectKey, request: &Request) -> Result<Answer, Crash> {
        self.disturb()?;
        let answer = self.serve(key, request);
        self.disturb()?;
        Ok(answer)
    }

    fn disturb(&mut self) -> Result<(), Crash> {
        if !self.is_rough {
            return Ok(());
        }
        match self.dice.roll(12) {
            1 => {
                // A restarted manager has empty caches.
                self.settled.clear();
                self.history.clear();
                Err(Crash)
            }
            2 | 3 => {
                let other = self.dice.roll(self.sets.len());
                if self.running.contains(&other) {
                    return Ok(());
                }
                self.reconcile(other)
            }
            _ => Ok(()),
        }
    }

    /// Runs a pass over a revision, like the controller.
    pub fn reconcile(&mut self, index: usize) -> Result<(), Crash> {
        self.running.insert(index);
        let end = self.pass(index);
        self.running.remove(&index);
        end
    }

    /// The heirs of the objects of a revision, the newest first.
    fn heirs(&self, set: &Set) -> Vec<Heir> {
        let older = self.sets.iter().rev().filter(|other| {
            set.hands_back && other.is_live() && set.previous.contains(&other.identity.name)
        });
        older
            .map(|other| heir(&other.revision(), other.phases.clone()))
            .collect()
    }

    fn pass(&mut self, index: usize) -> Result<(), Crash> {
        let set = self.sets[index].clone();
        if set.is_archived() {
            return Ok(());
        }
        let revision = set.revision();
        let phases = set.prepared();
        let kinds = Kinds::from([(
            Gvk::new("v1", "ConfigMap"),
            KindState::served(KindScope::Namespaced),
        )]);
        let mut observed = BTreeMap::new();
        for key in phases
            .iter()
            .flat_map(|phase| &phase.objects)
            .map(|object| &object.key)
        {
            let cached = self.cached(key);
            observed.insert(key.clone(), cached);
        }
        let key = |at: Position| &phases[at.phase].objects[at.object].key;
        let now = Timestamp::UNIX_EPOCH;
        let status = if set.lifecycle == LifecycleState::Archived {
            let revision = Revision {
                heirs: self.heirs(&set),
                ..revision.clone()
            };
            let mut teardown =
                Teardown::new(&revision, &phases, &kinds, |at| observed[key(at)].0.clone());
            let mut steps = 0;
            while let Step::Send(requests) = teardown.step() {
                steps += 1;
                assert!(steps < 100, "a teardown ends");
                for (at, request) in requests {
                    let answer = self.send(key(at), &request)?;
                    teardown.answer(at, &request, answer);
                }
            }
            let outcome: TeardownOutcome = teardown.outcome();
            report_archival(&set.status, &revision, outcome, now).status
        } else {
            let probes = probes();
            let siblings = Relatives {
                own: &set,
                sets: self.sets.clone(),
            };
            let snapshot = Snapshot {
                revision: &revision,
                phases: &phases,
                probes: &probes,
                kinds: &kinds,
                siblings: &siblings,
            };
            let mut pass = Pass::new(snapshot, |at| observed[key(at)].clone());
            let mut steps = 0;
            while let Step::Send(requests) = pass.step() {
                steps += 1;
                assert!(steps < 100, "a pass ends");
                for (at, request) in requests {
                    let answer = self.send(key(at), &request)?;
                    pass.answer(at, &request, answer);
                }
            }
            let outcome: Outcome = pass.outcome();
            for (at, settled) in &outcome.learned {
                if let Some(live) = self.objects.get(key(*at)) {
                    let uid = metadata(live, "uid").to_owned();
                    self.settled.insert(key(*at).clone(), (uid, *settled));
                }
            }
            report_pass(&set.status, &revision, outcome, 0, now).status
        };
        self.disturb()?;
        self.sets[index].status = status;
        Ok(())
    }
}

/// Probes: an object is available unless its content starts with `broken`.
pub fn probes() -> Probes {
    let spec = json!([{
        "selector": {"kind": {"group": "", "kind": "ConfigMap"}},
        "probes": [{"cel": {"rule": "!self.data.content.startsWith('broken')", "message": "is broken"}}],
    }]);
    let specs: Vec<_> = serde_json::from_value(spec).expect("probes");
    Probes::compile(&specs).expect("probes compile")
}

struct Relatives<'a> {
    own: &'a Set,
    sets: Vec<Set>,
}

impl Relatives<'_> {
    fn relation(&self, other: &Set) -> Relation {
        if self.own.previous.contains(&other.identity.name) {
            Relation::Previous
        } else if self.follows(other) {
            Relation::SameChain
        } else {
            Relation::OtherChain
        }
    }

    /// True if a revision comes after this one, over any number of `previous` steps.
    fn follows(&self, later: &Set) -> bool {
        let before = |name: &String| self.sets.iter().find(|set| set.identity.name == *name);
        later.previous.contains(&self.own.identity.name)
            || later
                .previous
                .iter()
                .filter_map(before)
                .any(|it| self.follows(it))
    }
}

impl Siblings for Relatives<'_> {
    fn sibling(&self, uid: &str) -> Option<Sibling> {
        let other = self.sets.iter().find(|set| set.identity.uid == uid)?;
        (other.identity != self.own.identity).then(|| Sibling {
            name: other.identity.name.clone(),
            number: other.number,
            relation: self.relation(other),
            is_archived: other.is_archived(),
        })
    }

    fn exists(&self, uid: &str) -> bool {
        self.sets.iter().any(|set| set.identity.uid == uid)
    }

    fn taken_by_newer(&self, key: &ObjectKey) -> Option<Claim> {
        let reference = controlled_reference(key);
        self.sets
            .iter()
            .filter(|other| {
                other.number > self.own.number
                    && other.is_live()
                    && other.previous.contains(&self.own.identity.name)
                    && other.status.controller_of.contains(&reference)
            })
            .map(|other| Claim::of(&other.identity.name))
            .next()
    }
}

/// The name of the revision that controls an object.
pub fn controller_name(object: &Value) -> Option<&str> {
    controller(object).map(|reference| text(reference, "name"))
}
