//! The chain of a site as observed: its revisions, and the states of their phases.
//!
//! A manager reads the revisions of a chain, an agent only their phases.

use std::{collections::BTreeMap, sync::Arc};

use baton_apis::{
    SiteEntry,
    conditions::reasons,
    constants::{ANNOTATION_SITE, CLASS_AGENT, LABEL_CHAIN},
};
use baton_engine::delegated::names;
use baton_fleet::mirror::{Origin, QueuePosition};
use baton_records::{
    phase::{PhaseKey, PhaseRecord},
    revision::RevisionRecord,
};
use baton_runtime::source::Wake;
use baton_sites::gate::{ActiveRevision, PhaseStart, PhaseState};
use jiff::Timestamp;

use super::{observed::Observed, shared::BURST};

/// True if a phase belongs to a site.
pub(crate) fn has_site(phase: &PhaseRecord) -> bool {
    phase.annotations.contains_key(ANNOTATION_SITE)
}

/// The state of a phase in its chain.
pub(crate) fn state(phase: &PhaseRecord) -> PhaseState {
    let status = phase.status().unwrap_or_default();
    let mut state = PhaseState::of(&status, phase.generation);
    if state.begun == PhaseStart::Not && had_begun(phase) {
        state.begun = PhaseStart::Yes(Timestamp::UNIX_EPOCH);
    }
    state
}

/// True if a phase had begun before it was handed to an agent.
fn had_begun(phase: &PhaseRecord) -> bool {
    let is_asked = has_site(phase) && phase.class() == CLASS_AGENT;
    let origin = is_asked.then(|| Origin::read(phase).ok()).flatten();
    origin.is_some_and(|origin| {
        origin
            .queue_position()
            .is_some_and(QueuePosition::has_begun)
    })
}

/// True if a phase object is the one for the phase `name` of a revision.
pub(crate) fn is_named(phase: &PhaseRecord, member: &ActiveRevision, name: &str) -> bool {
    names(&member.name, name)
        .iter()
        .any(|name| *name == *phase.key.name)
}

/// The revisions in the chain of a phase that are not archived, the oldest first. A revision whose
/// site annotation cannot be read is left out.
pub(crate) fn chain(observed: &Observed, phase: &PhaseRecord) -> Vec<ActiveRevision> {
    let Some(label) = phase.labels.get(LABEL_CHAIN) else {
        return Vec::new();
    };
    let mut chain = if phase.class() == CLASS_AGENT {
        chain_of_phases(observed, &phase.key.namespace, label)
    } else {
        chain_of_revisions(observed, &phase.key.namespace, label)
    };
    chain.sort_by(|one, other| (one.number, &one.name).cmp(&(other.number, &other.name)));
    chain
}

fn chain_of_revisions(observed: &Observed, namespace: &str, label: &str) -> Vec<ActiveRevision> {
    let revisions = observed.revisions.of_chain(namespace, label).into_iter();
    let members = revisions.filter(|it| !it.archived).filter_map(|revision| {
        let phases = observed.phases.controlled_by(&revision);
        let is_refused = phases.is_empty() && is_refused(&revision);
        let member = ActiveRevision {
            uid: revision.uid.clone(),
            name: revision.key.name.clone(),
            // A revision without a number has no phase objects.
            number: revision.number?,
            entry: SiteEntry::clone(&revision.site.as_ref()?.entry),
            phases: Vec::new(),
            is_leaving: !revision.is_in_force(),
        };
        let mut member = with_phases(member, &phases);
        for state in &mut member.phases {
            state.is_refused |= is_refused;
        }
        Some(member)
    });
    members.collect()
}

/// True if a revision is refused. If it has no phase objects, it was refused before any was
/// created.
pub(crate) fn is_refused(revision: &RevisionRecord) -> bool {
    let availability = revision.availability;
    availability.is_some_and(|reason| reasons::REFUSALS.contains(&reason))
}

/// The phases of a chain, by their labels, as an agent does not have all revisions.
pub(crate) fn labelled_phases(
    observed: &Observed,
    namespace: &str,
    label: &str,
) -> Vec<Arc<PhaseRecord>> {
    observed.phases.filter(|phase| {
        let chain = phase.labels.get(LABEL_CHAIN);
        *phase.key.namespace == *namespace && chain.is_some_and(|chain| chain == label)
    })
}

fn chain_of_phases(observed: &Observed, namespace: &str, label: &str) -> Vec<ActiveRevision> {
    let mut by_revision: BTreeMap<Arc<str>, Vec<Arc<PhaseRecord>>> = BTreeMap::new();
    for phase in labelled_phases(observed, namespace, label) {
        if let Some(revision) = &phase.controller {
            by_revision.entry(revision.clone()).or_default().push(phase);
        }
    }
    let members = by_revision.into_iter().filter_map(|(uid, phases)| {
        let first = phases.first()?;
        let revision = observed.revisions.by_uid(&uid)?;
        let member = ActiveRevision {
            name: revision.key.name.clone(),
            uid,
            number: first.revision_number(),
            entry: serde_json::from_str(first.annotations.get(ANNOTATION_SITE)?).ok()?,
            phases: Vec::new(),
            is_leaving: phases.iter().any(|phase| phase.deleting),
        };
        Some(with_phases(member, &phases))
    });
    members.collect()
}

/// Adds the states of a revision's phases. A phase without an object has not begun.
fn with_phases(mut member: ActiveRevision, phases: &[Arc<PhaseRecord>]) -> ActiveRevision {
    let names = member.entry.phases.iter();
    let states = names.map(|name| {
        let phase = phases.iter().find(|phase| is_named(phase, &member, name));
        phase.map_or_else(PhaseState::default, |phase| state(phase))
    });
    member.phases = states.collect();
    member
}

/// Trigger: a phase of a site wakes the others of its chain when it appears, is deleted, begins,
/// becomes available or stops.
pub(crate) fn on_site_phase(
    observed: &Observed,
    old: Option<&PhaseRecord>,
    new: Option<&PhaseRecord>,
) -> Vec<Wake<PhaseKey>> {
    let Some(phase) = new.or(old).filter(|phase| has_site(phase)) else {
        return Vec::new();
    };
    let part = |phase: &PhaseRecord| (state(phase), phase.deleting);
    if old.map(part) == new.map(part) {
        return Vec::new();
    }
    let label = phase.labels.get(LABEL_CHAIN).map_or("", String::as_str);
    let is_agent = phase.class() == CLASS_AGENT;
    let mut wakes = in_chain(observed, &phase.key.namespace, label, is_agent);
    wakes.retain(|wake| wake.key != phase.key);
    wakes
}

/// Wakes the phases of a chain.
pub(crate) fn in_chain(
    observed: &Observed,
    namespace: &str,
    label: &str,
    is_agent: bool,
) -> Vec<Wake<PhaseKey>> {
    let phases = if is_agent {
        labelled_phases(observed, namespace, label)
    } else {
        let revisions = observed.revisions.of_chain(namespace, label).into_iter();
        revisions
            .flat_map(|it| observed.phases.controlled_by(&it))
            .collect()
    };
    phases
        .into_iter()
        .map(|phase| Wake::after(BURST, phase.key.clone()))
        .collect()
}
