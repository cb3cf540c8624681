//! The chain of a site as it is observed: its revisions, and how far their phases are.
//!
//! A manager has the revisions of a chain, an agent their phases.

use std::{collections::BTreeMap, sync::Arc};

use baton_apis::{
    SiteEntry,
    conditions::reasons,
    constants::{ANNOTATION_SITE, CLASS_AGENT, LABEL_CHAIN},
};
use baton_engine::delegated::names;
use baton_fleet::mirror::{Origin, Place};
use baton_records::{
    phase::{PhaseKey, PhaseRecord},
    revision::RevisionRecord,
};
use baton_runtime::source::Wake;
use baton_sites::gate::{Begun, Member, PhaseState};
use jiff::Timestamp;

use super::{observed::Observed, shared::BURST};

/// Whether a phase is one of a site.
pub(crate) fn has_site(phase: &PhaseRecord) -> bool {
    phase.annotations.contains_key(ANNOTATION_SITE)
}

/// How far a phase is.
pub(crate) fn state(phase: &PhaseRecord) -> PhaseState {
    let status = phase.status().unwrap_or_default();
    let mut state = PhaseState::of(&status.conditions, phase.generation);
    if state.begun == Begun::Not && had_begun(phase) {
        state.begun = Begun::Yes(Timestamp::UNIX_EPOCH);
    }
    state
}

/// Whether a phase had begun before an agent got it.
fn had_begun(phase: &PhaseRecord) -> bool {
    let is_asked = has_site(phase) && phase.class() == CLASS_AGENT;
    let origin = is_asked.then(|| Origin::read(phase).ok()).flatten();
    origin.is_some_and(|origin| origin.place().is_some_and(Place::has_begun))
}

/// Whether a phase object is that of a phase of a revision.
pub(crate) fn is_named(phase: &PhaseRecord, member: &Member, name: &str) -> bool {
    names(&member.name, name)
        .iter()
        .any(|name| *name == *phase.key.name)
}

/// The revisions of the chain of a phase that are not archived, the oldest first. One whose place cannot be read is no
/// part of it.
pub(crate) fn chain(observed: &Observed, phase: &PhaseRecord) -> Vec<Member> {
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

fn chain_of_revisions(observed: &Observed, namespace: &str, label: &str) -> Vec<Member> {
    let revisions = observed.revisions.of_chain(namespace, label).into_iter();
    let members = revisions.filter(|it| !it.archived).filter_map(|revision| {
        let phases = observed.phases.controlled_by(&revision);
        let is_refused = phases.is_empty() && is_refused(&revision);
        let member = Member {
            uid: revision.uid.clone(),
            name: revision.key.name.clone(),
            // One without a number has not made any phases.
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

/// Whether a revision is refused. Where none of its phases is there, it is so before any was made.
pub(crate) fn is_refused(revision: &RevisionRecord) -> bool {
    let availability = revision.availability;
    availability.is_some_and(|reason| reasons::REFUSALS.contains(&reason))
}

/// The phases of a chain, by their labels: an agent knows little of revisions.
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

fn chain_of_phases(observed: &Observed, namespace: &str, label: &str) -> Vec<Member> {
    let mut by_revision: BTreeMap<Arc<str>, Vec<Arc<PhaseRecord>>> = BTreeMap::new();
    for phase in labelled_phases(observed, namespace, label) {
        if let Some(revision) = &phase.controller {
            by_revision.entry(revision.clone()).or_default().push(phase);
        }
    }
    let members = by_revision.into_iter().filter_map(|(uid, phases)| {
        let first = phases.first()?;
        let revision = observed.revisions.by_uid(&uid)?;
        let member = Member {
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

/// Fills in how far the phases of a revision are. One without an object has not begun.
fn with_phases(mut member: Member, phases: &[Arc<PhaseRecord>]) -> Member {
    let names = member.entry.phases.iter();
    let states = names.map(|name| {
        let phase = phases.iter().find(|phase| is_named(phase, &member, name));
        phase.map_or_else(PhaseState::default, |phase| state(phase))
    });
    member.phases = states.collect();
    member
}

/// Trigger: a phase of a site that another one may wait for wakes the others of its chain, when it comes, goes, begins,
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

/// The phases of a chain.
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
