//! Statuses during a handover, which the next pass is likely to change.

use baton_apis::{
    ControlledObjectReference, ObjectSetPhaseStatus, ObjectSetStatus,
    conditions::{AVAILABLE, IN_TRANSITION},
};

use crate::condition_list::find;

/// True if a status withdraws an `Available` of the same generation. Only the new status shows a
/// reader that the previous one is outdated.
pub(super) fn withdraws_available(previous: &ObjectSetStatus, status: &ObjectSetStatus) -> bool {
    let available = |status: &ObjectSetStatus| {
        find(&status.conditions, AVAILABLE)
            .map(|condition| (condition.status == "True", condition.observed_generation))
    };
    match (available(previous), available(status)) {
        (Some((true, before)), Some((false, now))) => before == now,
        _ => false,
    }
}

/// True if the only change is that the revision no longer controls some of its objects, but still
/// controls others. A newer revision is taking them over, and more changes follow.
pub(super) fn only_loses_objects(previous: &ObjectSetStatus, status: &ObjectSetStatus) -> bool {
    let is_less =
        !status.controller_of.is_empty() && is_part(&status.controller_of, &previous.controller_of);
    let rest = |status: &ObjectSetStatus| {
        let mut status = status.clone();
        status.controller_of.clear();
        status
            .conditions
            .retain(|condition| condition.type_ != IN_TRANSITION);
        status
    };
    is_less && rest(previous) == rest(status)
}

/// True if the only change is that a delegated phase no longer controls some of its objects, because
/// a newer revision is taking them over.
pub fn phase_only_loses_objects(
    previous: &ObjectSetPhaseStatus,
    status: &ObjectSetPhaseStatus,
) -> bool {
    let rest = ObjectSetPhaseStatus {
        controller_of: previous.controller_of.clone(),
        ..status.clone()
    };
    is_part(&status.controller_of, &previous.controller_of) && rest == *previous
}

/// True if a list has some of the objects of another one, and not all.
fn is_part(objects: &[ControlledObjectReference], all: &[ControlledObjectReference]) -> bool {
    objects.len() < all.len() && objects.iter().all(|object| all.contains(object))
}
