//! The picture of chains without their healthy parts.

use crate::chain::member::State;

use super::{ChainPicture, Health, ObjectPicture, OwnerPicture, RevisionPicture};

/// Leaves out healthy objects, and then phases and revisions that have nothing left to show.
///
/// An object is healthy only under the expected controller. That depends on newer revisions, so all
/// revisions of a chain are needed.
pub fn retain(chain: &mut ChainPicture) {
    let mut is_newest = true;
    chain
        .revisions
        .retain_mut(|revision| trim(revision, std::mem::replace(&mut is_newest, false)));
}

/// True if a chain has anything to show after its healthy parts are left out.
pub fn has_any(chain: &ChainPicture) -> bool {
    let is_fine = chain.deployment.as_ref().is_none_or(|deployment| {
        deployment.available == Health::True
            && !deployment.deleting
            && deployment.message.is_empty()
    });
    !is_fine || !chain.revisions.is_empty()
}

/// Leaves out the healthy objects of a revision. Returns true if anything is left to show.
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

/// True if an object is not shown. Of an older revision, objects that a newer revision has taken over
/// are not shown. Of the newest revision, objects that another owner still controls are shown.
fn is_fine(object: &ObjectPicture, is_newest: bool, is_leaving: bool) -> bool {
    match object.owner {
        OwnerPicture::OtherRevision { .. } => !is_newest,
        OwnerPicture::Missing => is_leaving,
        _ => object.is_ready(),
    }
}
