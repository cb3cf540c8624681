//! The picture without what is fine.

use crate::chain::member::State;

use super::{ChainPicture, Health, ObjectPicture, OwnerPicture, RevisionPicture};

/// Leaves out objects that are healthy and where they belong, and then phases and revisions that have nothing left to
/// show. What is healthy depends on whether a newer revision exists, so this needs all revisions of a chain.
pub fn retain(chain: &mut ChainPicture) {
    let mut is_newest = true;
    chain
        .revisions
        .retain_mut(|revision| trim(revision, std::mem::replace(&mut is_newest, false)));
}

/// Whether there is anything to show of a chain whose healthy parts are left out.
pub fn has_any(chain: &ChainPicture) -> bool {
    let is_fine = chain.deployment.as_ref().is_none_or(|deployment| {
        deployment.available == Health::True
            && !deployment.deleting
            && deployment.message.is_empty()
    });
    !is_fine || !chain.revisions.is_empty()
}

/// Whether anything of a revision is left to show.
fn trim(revision: &mut RevisionPicture, is_newest: bool) -> bool {
    let is_leaving = revision.state == State::Archiving;
    for phase in revision.phases.iter_mut().flatten() {
        let before = phase.objects.len();
        phase
            .objects
            .retain(|object| !is_fine(object, is_newest, is_leaving));
        phase.hidden += before - phase.objects.len();
    }
    if let Some(phases) = &mut revision.phases {
        phases.retain(|phase| !phase.objects.is_empty() || !phase.message.is_empty());
    }
    let has_phases = revision.phases.as_ref().is_some_and(|it| !it.is_empty());
    has_phases
        || !revision.message.is_empty()
        || matches!(revision.state, State::NotReady | State::Pending)
}

/// Whether nothing is to be done about an object. What a newer revision has taken over is the older one's no more; the
/// newest one still has to get it.
fn is_fine(object: &ObjectPicture, is_newest: bool, is_leaving: bool) -> bool {
    match object.owner {
        OwnerPicture::OtherRevision { .. } => !is_newest,
        OwnerPicture::Missing => is_leaving,
        _ => object.is_ready(),
    }
}
