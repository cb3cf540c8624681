//! What one revision, or one of its delegated phases, knows of the others.

use std::{collections::BTreeMap, sync::Arc};

use baton_apis::{ObjectSetPhaseSpec, conditions::SUCCEEDED};
use baton_engine::{
    ObjectKey,
    handover::{Sibling, Siblings},
    object::{controlled_reference, manifest_reference},
};

use crate::{
    phase::{PhaseRecord, Phases},
    revision::{RevisionKey, RevisionRecord, Revisions},
};

/// The revisions that one revision, or one of its delegated phases, knows.
pub struct KnownSiblings<'a> {
    /// The revision itself; `None` for a phase object that belongs to none.
    record: Option<&'a RevisionRecord>,
    /// Kind and namespace of all siblings; the name is the revision's, if there is one.
    key: RevisionKey,
    /// The names that count as previous.
    previous: Vec<Arc<str>>,
    /// The deployment whose revisions all count as previous.
    deployment: Option<Arc<str>>,
    revisions: &'a Revisions,
    phases: &'a Phases,
}

impl<'a> KnownSiblings<'a> {
    /// What a revision knows: those that it lists are previous.
    #[must_use]
    pub fn of_set(
        record: &'a RevisionRecord,
        revisions: &'a Revisions,
        phases: &'a Phases,
    ) -> Self {
        Self {
            record: Some(record),
            key: record.key.clone(),
            previous: record.previous.clone(),
            deployment: None,
            revisions,
            phases,
        }
    }

    /// What a phase object knows: besides those that are listed, all revisions with the deployment label of its own
    /// revision are previous.
    #[must_use]
    pub fn of_phase(
        phase: &PhaseRecord,
        spec: &ObjectSetPhaseSpec,
        set: Option<&'a RevisionRecord>,
        revisions: &'a Revisions,
        phases: &'a Phases,
    ) -> Self {
        let listed = spec.previous.iter().flatten();
        Self {
            record: set,
            key: phase
                .key
                .revision(set.map_or("", |record| &*record.key.name)),
            previous: listed
                .map(|previous| previous.name.as_str().into())
                .collect(),
            deployment: set.and_then(|record| record.deployment.clone()),
            revisions,
            phases,
        }
    }

    /// The revision behind a uid, be it that of one of its delegated phases.
    fn revision(&self, uid: &str) -> Option<Arc<RevisionRecord>> {
        self.revisions.by_uid(uid).or_else(|| {
            let phase = self.phases.by_uid(uid)?;
            self.revisions.by_uid(phase.controller.as_ref()?)
        })
    }

    /// The revisions after one in the chain, and the others of its deployment, in the order of their names.
    fn later(&self, own: &RevisionRecord) -> BTreeMap<RevisionKey, Arc<RevisionRecord>> {
        let mut later = BTreeMap::new();
        let mut walk = vec![own.key.clone()];
        while let Some(revision) = walk.pop() {
            for successor in self.revisions.successors(&revision) {
                let key = successor.key.clone();
                if later.insert(key.clone(), successor).is_none() {
                    walk.push(key);
                }
            }
        }
        if let Some(deployment) = &own.deployment {
            let made = self.revisions.of_deployment(&own.key, deployment);
            later.extend(made.into_iter().map(|record| (record.key.clone(), record)));
        }
        later
    }
}

impl Siblings for KnownSiblings<'_> {
    fn sibling(&self, uid: &str) -> Option<Sibling> {
        let other = self.revision(uid)?;
        let (own, key) = (&self.key, &other.key);
        if key.kind != own.kind || key.namespace != own.namespace || key.name == own.name {
            return None;
        }
        let is_made_by_same = self.deployment.is_some() && self.deployment == other.deployment;
        Some(Sibling {
            name: key.name.to_string(),
            number: other.number.unwrap_or(0),
            is_previous: is_made_by_same || self.previous.contains(&key.name),
            is_archived: other.archived,
        })
    }

    fn taken_by_newer(&self, key: &ObjectKey) -> Option<String> {
        let own = self.record?;
        let reference = controlled_reference(key);
        // What its phase objects report may not be in its own status yet.
        let is_delegated = |other: &RevisionRecord| {
            let phases = self.phases.controlled_by(other);
            let mut reports = phases.iter().filter_map(|phase| phase.status().ok());
            reports.any(|status| status.controller_of.contains(&reference))
        };
        self.later(own)
            .into_values()
            .filter(|other| !other.is_closed() && other.number > own.number)
            .find(|other| {
                other.status().is_ok_and(|status| {
                    status.controller_of.contains(&reference)
                        || (status.conditions.iter().any(|c| c.type_ == SUCCEEDED)
                            && mentions(other, key))
                }) || is_delegated(other)
            })
            .map(|other| other.key.name.to_string())
    }
}

/// Whether a revision's inline manifests contain an object.
fn mentions(record: &RevisionRecord, key: &ObjectKey) -> bool {
    let wanted = controlled_reference(key);
    record.spec().is_ok_and(|spec| {
        let objects = spec.phases.into_iter().flatten().flat_map(|p| p.objects);
        objects
            .into_iter()
            .any(|entry| manifest_reference(&entry.object, &record.key.namespace) == wanted)
    })
}
