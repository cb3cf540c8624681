//! Looks up the siblings of a revision, or of one of its delegated phases.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, OnceLock},
};

use baton_apis::{
    ControlledObjectReference, EndedObject, LifecycleState, ObjectSetObject, ObjectSetPhaseSpec,
    conditions::SUCCEEDED,
};
use baton_engine::{
    ObjectKey,
    condition_list::find,
    handover::{Claim, Relation, Sibling, Siblings, has_lost},
    object::{controlled_reference, manifest_reference},
};
use parking_lot::Mutex;

use crate::{
    phase::{PhaseRecord, Phases},
    revision::{RevisionKey, RevisionRecord, Revisions},
    slice::Slices,
};

/// All cached revisions, their phase objects and their slices.
#[derive(Clone, Copy)]
pub struct Stores<'a> {
    /// The revisions.
    pub revisions: &'a Revisions,
    /// The phase objects.
    pub phases: &'a Phases,
    /// The slices.
    pub slices: &'a Slices,
}

/// The siblings of one revision, or of one of its delegated phases.
pub struct CachedSiblings<'a> {
    /// The revision itself; `None` for a phase object without a revision.
    record: Option<&'a RevisionRecord>,
    /// The phase object; `None` for the revision itself.
    phase: Option<&'a PhaseRecord>,
    /// True if the revision has lost objects after it had all of them, as the hub states it for an agent;
    /// `None` if the revision itself is cached.
    has_lost: Option<bool>,
    /// Kind and namespace of all siblings; the name is that of the revision, if there is one.
    key: RevisionKey,
    /// Names of the revisions that count as previous.
    previous: Vec<Arc<str>>,
    /// A deployment whose revisions all count as previous.
    deployment: Option<Arc<str>>,
    stores: Stores<'a>,
    /// The contents of newer revisions that were read, by UID.
    contents: Mutex<HashMap<Arc<str>, Arc<Content>>>,
    /// The later revisions, when they were needed first.
    successors: OnceLock<BTreeSet<RevisionKey>>,
}

/// The objects that the manifests of a revision name.
#[derive(Default)]
struct Content {
    objects: BTreeSet<ControlledObjectReference>,
    /// The reason that the list may be incomplete.
    doubt: Option<String>,
}

impl<'a> CachedSiblings<'a> {
    /// The siblings of a revision. Those that it lists are previous.
    #[must_use]
    pub fn of_set(record: &'a RevisionRecord, stores: Stores<'a>) -> Self {
        Self {
            record: Some(record),
            phase: None,
            has_lost: None,
            key: record.key.clone(),
            previous: record.previous.clone(),
            deployment: None,
            stores,
            contents: Mutex::default(),
            successors: OnceLock::new(),
        }
    }

    /// The siblings of a phase object. All revisions with the deployment label of its own revision
    /// are previous, besides those that it lists.
    #[must_use]
    pub fn of_phase(
        phase: &'a PhaseRecord,
        spec: &ObjectSetPhaseSpec,
        set: Option<&'a RevisionRecord>,
        stores: Stores<'a>,
    ) -> Self {
        let listed = spec.previous.iter().flatten();
        Self {
            record: set,
            phase: Some(phase),
            has_lost: None,
            key: phase
                .key
                .revision(set.map_or("", |record| &*record.key.name)),
            previous: listed
                .map(|previous| previous.name.as_str().into())
                .collect(),
            deployment: set.and_then(|record| record.deployment.clone()),
            stores,
            contents: Mutex::default(),
            successors: OnceLock::new(),
        }
    }

    /// The revision with this UID, or with a delegated phase of this UID.
    fn revision(&self, uid: &str) -> Option<Arc<RevisionRecord>> {
        let Stores {
            revisions, phases, ..
        } = self.stores;
        revisions.by_uid(uid).or_else(|| {
            let phase = phases.by_uid(uid)?;
            revisions.by_uid(phase.controller.as_ref()?)
        })
    }

    /// The place of another revision of the same kind and namespace relative to this one.
    fn relation(&self, other: &RevisionRecord) -> Relation {
        let is_made_by_same = self.deployment.is_some() && self.deployment == other.deployment;
        if is_made_by_same || self.previous.contains(&other.key.name) {
            return Relation::Previous;
        }
        let Some(own) = self.record else {
            return Relation::Unknown;
        };
        if own.shares_label_with(other) || self.is_successor(own, &other.key) {
            Relation::SameChain
        } else if own.is_unlabelled() && other.is_unlabelled() && self.lists_missing(other) {
            Relation::Unknown
        } else {
            Relation::OtherChain
        }
    }

    /// True if a revision comes after this one, over any number of `previous` steps.
    fn is_successor(&self, own: &RevisionRecord, other: &RevisionKey) -> bool {
        let successors = self
            .successors
            .get_or_init(|| self.later(own).into_keys().collect());
        successors.contains(other)
    }

    /// True if a revision lists a previous one that does not exist.
    fn lists_missing(&self, other: &RevisionRecord) -> bool {
        let mut previous = other.previous.iter();
        previous.any(|name| {
            self.stores
                .revisions
                .get(&other.key.sibling(name))
                .is_none()
        })
    }

    /// The revisions after this one in the chain, and the others of its deployment, in the order of
    /// their names.
    fn later(&self, own: &RevisionRecord) -> BTreeMap<RevisionKey, Arc<RevisionRecord>> {
        let mut later = BTreeMap::new();
        let mut walk = vec![own.key.clone()];
        while let Some(revision) = walk.pop() {
            for successor in self.stores.revisions.successors(&revision) {
                let key = successor.key.clone();
                if later.insert(key.clone(), successor).is_none() {
                    walk.push(key);
                }
            }
        }
        if let Some(deployment) = &own.deployment {
            let made = self.stores.revisions.of_deployment(&own.key, deployment);
            later.extend(made.into_iter().map(|record| (record.key.clone(), record)));
        }
        later
    }

    /// The claim of a newer revision on an object, if the revision had taken the object over before
    /// it was deleted, or may have.
    fn claim(&self, newer: &RevisionRecord, wanted: &ControlledObjectReference) -> Option<Claim> {
        let name = &newer.key.name;
        let doubtful = |doubt: String| Claim {
            doubt: Some(doubt),
            ..Claim::of(name)
        };
        let status = match newer.status() {
            Ok(status) => status,
            Err(error) => return Some(doubtful(error.to_string())),
        };
        // An object that has ended is gone, and was the newer revision's.
        let has = |controlled: &[ControlledObjectReference], ended: &[EndedObject]| {
            controlled.contains(wanted) || ended.iter().any(|end| end.is(wanted))
        };
        // The reports of its phase objects may not be in the status of the revision yet.
        let is_delegated = || {
            let phases = self.stores.phases.controlled_by(newer);
            let mut reports = phases.iter().filter_map(|phase| phase.status().ok());
            reports.any(|status| has(&status.controller_of, &status.ended))
        };
        if has(&status.controller_of, &status.ended) || is_delegated() {
            return Some(Claim::of(name));
        }
        if find(&status.conditions, SUCCEEDED).is_none() && !self.has_given(newer, wanted) {
            return None;
        }
        let content = self.content(newer);
        if content.objects.contains(wanted) {
            return Some(Claim::of(name));
        }
        content.doubt.clone().map(doubtful)
    }

    /// True if the newer revision is paused, and this one has lost objects after it had all of them, and did
    /// not control the object by its last report: the newer one may have taken it over before it succeeded,
    /// and does not create it again now.
    fn has_given(&self, newer: &RevisionRecord, wanted: &ControlledObjectReference) -> bool {
        newer.lifecycle == LifecycleState::Paused && self.has_lost() && !self.controls(wanted)
    }

    /// True if this revision, or its phase, controlled the object by its last report.
    fn controls(&self, wanted: &ControlledObjectReference) -> bool {
        let of_phase = self.phase.and_then(|phase| phase.status().ok());
        let of_phase = of_phase.map(|status| status.controller_of);
        let of_set = || Some(self.record?.status().ok()?.controller_of);
        let controlled = of_phase.or_else(of_set).unwrap_or_default();
        controlled.contains(wanted)
    }

    /// True if this revision once had all of its objects, and has lost some to newer revisions.
    fn has_lost(&self) -> bool {
        self.has_lost.unwrap_or_else(|| {
            let status = self.record.and_then(|own| own.status().ok());
            status.is_some_and(|status| has_lost(&status))
        })
    }

    /// The siblings of a phase whose hub states if its revision has lost objects after it had all of them.
    #[must_use]
    pub fn stated(mut self, has_lost: Option<bool>) -> Self {
        self.has_lost = has_lost;
        self
    }

    /// True if a newer revision is paused, and this one has lost objects after it had all of them. The
    /// paused one may have taken them over before it succeeded, and does not create them again.
    pub fn may_have_given(&self) -> bool {
        self.has_paused_newer() && self.has_lost()
    }

    /// True if a newer revision is paused.
    pub fn has_paused_newer(&self) -> bool {
        let Some(own) = self.record else { return false };
        let is_paused = |newer: &Arc<RevisionRecord>| {
            newer.number > own.number && newer.lifecycle == LifecycleState::Paused
        };
        self.later(own).values().any(is_paused)
    }

    /// The content of a revision, read once.
    fn content(&self, of: &RevisionRecord) -> Arc<Content> {
        let mut contents = self.contents.lock();
        let content = contents.entry(of.uid.clone());
        Arc::clone(content.or_insert_with(|| Arc::new(Content::read(of, self.stores))))
    }
}

impl Content {
    /// Reads the objects of a revision, its slices and its phase objects, as far as they are
    /// cached. An agent caches the phase objects only.
    fn read(record: &RevisionRecord, stores: Stores<'_>) -> Self {
        let mut content = Self::default();
        match record.spec() {
            Ok(spec) => {
                for phase in spec.phases.into_iter().flatten() {
                    content.add(&phase.objects, record);
                    for name in &phase.slices {
                        content.add_slice(name, record, stores.slices);
                    }
                }
            }
            Err(error) => content.doubt = Some(error.to_string()),
        }
        for phase in stores.phases.controlled_by(record) {
            match phase.spec() {
                Ok(spec) => content.add(&spec.objects, record),
                Err(error) => content.doubt = Some(error.to_string()),
            }
        }
        content
    }

    fn add_slice(&mut self, name: &str, record: &RevisionRecord, slices: &Slices) {
        let slice = slices.get(&record.key.slice(name));
        let doubt = match slice
            .as_ref()
            .map(|slice| (slice.has_content(), slice.spec()))
        {
            Some((true, Ok(objects))) => return self.add(&objects, record),
            Some((true, Err(error))) => error.to_string(),
            Some((false, _)) => "not read yet".to_owned(),
            None => "not found".to_owned(),
        };
        self.doubt = Some(format!("slice \"{name}\": {doubt}"));
    }

    fn add(&mut self, objects: &[ObjectSetObject], record: &RevisionRecord) {
        let namespace = &record.key.namespace;
        let references = objects.iter();
        let references = references.map(|entry| manifest_reference(&entry.object, namespace));
        self.objects.extend(references);
    }
}

impl Siblings for CachedSiblings<'_> {
    fn sibling(&self, uid: &str) -> Option<Sibling> {
        let other = self.revision(uid)?;
        let (own, key) = (&self.key, &other.key);
        if key.kind != own.kind || key.namespace != own.namespace || key.name == own.name {
            return None;
        }
        Some(Sibling {
            name: key.name.to_string(),
            number: other.number.unwrap_or(0),
            relation: self.relation(&other),
            is_archived: other.archived,
        })
    }

    fn exists(&self, uid: &str) -> bool {
        self.stores.revisions.by_uid(uid).is_some() || self.stores.phases.by_uid(uid).is_some()
    }

    fn taken_by_newer(&self, key: &ObjectKey) -> Option<Claim> {
        let own = self.record?;
        let wanted = controlled_reference(key);
        let newer = self.later(own).into_values();
        let newer = newer.filter(|other| !other.is_closed() && other.number > own.number);
        let mut claims = newer.filter_map(|other| self.claim(&other, &wanted));
        let first = claims.next()?;
        if first.doubt.is_none() {
            return Some(first);
        }
        Some(claims.find(|claim| claim.doubt.is_none()).unwrap_or(first))
    }
}
