//! The observed state that all controllers share: our own kinds, and the sources of all other
//! changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock},
};

use baton_apis::{ControlledObjectReference, ObjectSetSpec, ObjectSetTemplatePhase};
use baton_engine::weight::MANIFESTS;
use baton_fleet::{assignments::AssignmentChange, mirror::Origin};
use baton_kubernetes::target::{TargetEvent, Watcher};
use baton_records::{
    api::{Api, ApiError},
    deployment::Deployments,
    phase::{PhaseKey, PhaseRecord, Phases},
    record::{Record, RecordKind},
    revision::{RevisionKey, RevisionRecord, Revisions},
    siblings::Stores,
    slice::{SliceKey, SliceKind, SliceRecord, Slices},
    store::Change,
};
use baton_runtime::source::{Source, Wake};
use tokio::sync::mpsc;

use super::{
    ended_phases::EndedPhases,
    shared::{AtStep as _, BURST, CO_OWNED, Error},
    terms::SiteTerms,
};

/// The stores and sources that wake controllers.
#[derive(Default)]
pub(crate) struct Observed {
    pub revisions: Revisions,
    pub deployments: Deployments,
    pub phases: Phases,
    pub ended_phases: EndedPhases,
    /// Slices, with the content of those that revisions in force use.
    pub slices: Slices,
    /// Changes of children, in any cluster.
    pub children: Source<TargetEvent>,
    /// Names of clusters whose link has changed.
    pub links: Source<String>,
    /// Changes of assignments.
    pub assignments: Source<AssignmentChange>,
    /// Finished passes, with the siblings that they affect.
    pub affected_siblings: Source<AffectedSiblings>,
    /// The terms of applications for upgrades in sites.
    pub site_terms: SiteTerms,
    /// Uids of revisions and phase objects to which objects were handed back.
    pub handed_back: Source<BTreeSet<String>>,
    /// UID of this cluster, the hub, if it could be read.
    pub hub: OnceLock<String>,
}

/// The revisions of a chain that have to react to a finished pass; often none.
#[derive(Clone, Debug)]
pub(crate) struct AffectedSiblings {
    /// The revision of the pass. For a phase without a revision, only kind and namespace count.
    pub by: RevisionKey,
    /// The names of the affected siblings.
    pub siblings: Vec<String>,
    /// The objects that were taken from the siblings.
    pub taken: BTreeSet<ControlledObjectReference>,
}

/// The memory that is left for the manifests of a revision, see [`MANIFESTS`].
pub(crate) struct Room(usize);

impl Room {
    /// The memory that is left for the slices of an object with these own manifests.
    pub(crate) fn beside<K: RecordKind>(record: &Record<K>) -> Self {
        Self(MANIFESTS.saturating_sub(record.weight))
    }

    /// Takes the memory of a slice. Returns false if it does not suffice.
    pub(crate) fn take(&mut self, slice: &SliceRecord) -> bool {
        let left = self.0.checked_sub(slice.weight);
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }
}

impl Observed {
    /// Limit in bytes of the memory that the stored manifests of a revision take, with those of the
    /// slices that are known.
    pub(crate) fn weight(&self, revision: &RevisionRecord) -> usize {
        if !revision.has_content() {
            return 0;
        }
        let slices = revision.slices.iter();
        let slices = slices.filter_map(|name| self.slices.get(&revision.key.slice(name)));
        let slices = slices
            .map(|slice| slice.weight)
            .fold(0, usize::saturating_add);
        revision.weight.saturating_add(slices).min(MANIFESTS)
    }

    /// A watcher of children, for the owners in these stores.
    pub(crate) fn watcher(self: &Arc<Self>, events: mpsc::UnboundedSender<TargetEvent>) -> Watcher {
        let observed = Arc::clone(self);
        Watcher {
            events,
            is_owner: Arc::new(move |uid| {
                observed.revisions.by_uid(uid).is_some()
                    || observed.phases.by_uid(uid).is_some()
                    || observed.ended_phases.contains(uid)
            }),
        }
    }

    /// The stores that revisions use to look each other up.
    pub(crate) fn stores(&self) -> Stores<'_> {
        Stores {
            revisions: &self.revisions,
            phases: &self.phases,
            slices: &self.slices,
        }
    }

    /// The revisions that may have waited for the content of a slice of a newer revision, as their
    /// missing objects may be in the slice. Empty if the content was known before.
    pub(crate) fn waiting_for_slice(&self, change: &Change<SliceKind>) -> Vec<Arc<RevisionRecord>> {
        let Some(slice) = change.new.as_ref().filter(|slice| slice.has_content()) else {
            return Vec::new();
        };
        let is_known = |old: &Arc<SliceRecord>| {
            old.has_content() && old.uid == slice.uid && old.generation == slice.generation
        };
        if change.old.as_ref().is_some_and(is_known) {
            return Vec::new();
        }
        let users = self.revisions.slice_users(&slice.key).into_iter();
        let before = users.flat_map(|user| self.revisions.all_before(&user));
        let waiting = before.filter(|earlier| earlier.is_in_force());
        let waiting = waiting.map(|earlier| (earlier.key.clone(), earlier));
        waiting.collect::<BTreeMap<_, _>>().into_values().collect()
    }

    /// The revisions of these names that exist and still take part in the chain of `key`.
    pub(crate) fn open_siblings<'a>(
        &'a self,
        key: &'a RevisionKey,
        names: impl IntoIterator<Item = &'a str> + 'a,
    ) -> impl Iterator<Item = Arc<RevisionRecord>> + 'a {
        let records = names
            .into_iter()
            .filter_map(|name| self.revisions.get(&key.sibling(name)));
        records.filter(|record| !record.is_closed())
    }

    /// A slice with its content; `None` if it does not exist.
    ///
    /// # Errors
    /// When the slice is not cached and the request fails.
    pub(crate) async fn slice(
        &self,
        api: &Api,
        key: &SliceKey,
    ) -> Result<Option<Arc<SliceRecord>>, Error> {
        let cached = self.slices.get(key).filter(|cached| cached.has_content());
        if cached.is_some() {
            return Ok(cached);
        }
        let read = match api.get(key).await {
            // No slice can have this name.
            Err(ApiError::Name(_)) => None,
            read => read.at_step("reading a slice")?,
        };
        let is_wanted = !self.revisions.users_of(key).is_empty();
        if let Some(slice) = read.as_ref().filter(|_| is_wanted) {
            self.slices.fill(slice.clone());
        }
        Ok(read.map(Arc::new))
    }

    /// The phases of a revision, with the objects of their slices.
    ///
    /// # Errors
    /// When the revision or a slice cannot be read, or the request for a slice fails.
    ///
    /// # Caveats
    /// A slice that does not exist is left out, and so is a slice that needs more memory than is
    /// left.
    pub(crate) async fn manifests(
        &self,
        api: &Api,
        record: &RevisionRecord,
    ) -> Result<Vec<ObjectSetTemplatePhase>, Error> {
        self.with_slices(api, record, record.spec()?).await
    }

    /// The phases of a revision, as [`Observed::manifests`] returns them, for a spec that the
    /// caller has read.
    ///
    /// # Errors
    /// When a slice cannot be read, or the request for it fails.
    pub(crate) async fn with_slices(
        &self,
        api: &Api,
        record: &RevisionRecord,
        spec: ObjectSetSpec,
    ) -> Result<Vec<ObjectSetTemplatePhase>, Error> {
        let (mut phases, mut room) = (spec.phases.unwrap_or_default(), Room::beside(record));
        for phase in &mut phases {
            for name in std::mem::take(&mut phase.slices) {
                let slice = self.slice(api, &record.key.slice(&name)).await?;
                if let Some(slice) = slice.filter(|slice| room.take(slice)) {
                    phase.objects.extend(slice.spec()?);
                }
            }
        }
        Ok(phases)
    }

    /// Drops the content of slices that no other revision in force uses.
    pub(crate) fn drop_slices(&self, record: &RevisionRecord) {
        for name in &record.slices {
            let key = record.key.slice(name);
            let users = self.revisions.users_of(&key);
            if users.iter().all(|user| *user == record.key) {
                self.slices.drop_content(&key);
            }
        }
    }

    /// The previous revisions of a revision that was deleted or has ended by this change: they
    /// inherit its objects.
    pub(crate) fn heirs(
        &self,
        change: &Change<baton_records::revision::RevisionKind>,
    ) -> Vec<Arc<RevisionRecord>> {
        let has_ended = change.new.as_ref().is_none_or(|new| new.is_closed());
        let Some(old) = change
            .old
            .as_ref()
            .filter(|_| has_ended && changes_chain(change))
        else {
            return Vec::new();
        };
        let previous = old.previous.iter().map(|name| &**name);
        self.open_siblings(&old.key, previous).collect()
    }

    /// UID of this cluster, the hub: that of its namespace `kube-system`. Empty if it is not known.
    pub(crate) fn hub(&self) -> &str {
        self.hub.get().map_or("", String::as_str)
    }

    /// The phase of a mirror, if it exists.
    pub(crate) fn origin(&self, mirror: &PhaseRecord) -> Option<Arc<PhaseRecord>> {
        let origin = Origin::read(mirror).ok()?;
        let phase = self.phases.get(&origin.key())?;
        (*phase.uid == *origin.uid()).then_some(phase)
    }
}

/// True if a change of a revision matters to its siblings.
pub(crate) fn changes_chain(change: &Change<baton_records::revision::RevisionKind>) -> bool {
    let part = |record: &Option<Arc<RevisionRecord>>| {
        record
            .as_ref()
            .map(|record| (record.number, record.is_closed()))
    };
    part(&change.old) != part(&change.new)
}

/// Trigger: a finished pass wakes the phases of the affected siblings.
///
/// Phases that have lost no object are woken later: the next pass may take their objects, and an
/// interim report would be outdated at once.
pub(crate) fn phases_of_siblings(
    observed: &Observed,
    affected: &AffectedSiblings,
) -> Vec<Wake<PhaseKey>> {
    let names = affected.siblings.iter().map(String::as_str);
    let siblings = observed.open_siblings(&affected.by, names);
    let phases = siblings.flat_map(|sibling| observed.phases.controlled_by(&sibling));
    let has_lost = |phase: &PhaseRecord| {
        phase.status().is_ok_and(|status| {
            let mut controlled = status.controller_of.iter();
            controlled.any(|object| affected.taken.contains(object))
        })
    };
    phases
        .map(|phase| {
            let delay = if has_lost(&phase) { BURST } else { CO_OWNED };
            Wake::after(delay, phase.key.clone())
        })
        .collect()
}

/// Emits the events of channels, until the channels close.
pub(crate) async fn dispatch(
    observed: Arc<Observed>,
    mut children: mpsc::UnboundedReceiver<TargetEvent>,
    mut links: mpsc::UnboundedReceiver<String>,
) {
    loop {
        tokio::select! {
            Some(event) = children.recv() => observed.children.emit(&event),
            Some(cluster) = links.recv() => observed.links.emit(&cluster),
            else => return,
        }
    }
}
