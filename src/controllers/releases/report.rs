//! Statuses of the targets that work in clusters.

use std::sync::Arc;

use baton_apis::{CapacityTarget, CapacityTargetStatus, TrafficTarget, TrafficTargetStatus};
use baton_engine::condition_list::has_lost;
use baton_releases::{
    conditions::find,
    targets::{OPERATIONAL, ObservedConditions, READY, Updated, is_awaited},
};
use baton_typed::{debounce::Debounced, key::Key, store::Store};

use super::{
    AtStep as _, Context, Error,
    debounced::{MOMENT, Reported},
};
use baton_typed::requests::Namespaced;

/// A kind of targets, with access to their status.
pub(crate) trait Target: Namespaced {
    /// The type of its status.
    type Status: PartialEq;

    /// The status, if there is one.
    fn status(&self) -> Option<&Self::Status>;

    /// The same target with another status.
    fn with_status(&self, status: Self::Status) -> Self;

    /// Generation and conditions of a status.
    fn observed(status: &Self::Status) -> ObservedConditions<'_>;
}

macro_rules! target {
    ($kind:ident, $status:ident) => {
        impl Target for $kind {
            type Status = $status;

            fn status(&self) -> Option<&$status> {
                self.status.as_ref()
            }

            fn with_status(&self, status: $status) -> Self {
                Self {
                    status: Some(status),
                    ..self.clone()
                }
            }

            fn observed(status: &$status) -> ObservedConditions<'_> {
                (status.observed_generation, &status.conditions)
            }
        }
    };
}

/// True if another client has removed the status of a target: each status that Baton writes has the
/// conditions of the one before.
pub(crate) fn is_wiped<T: Target>(old: &T, new: &T) -> bool {
    let has = |target: &T, type_: &str| {
        let status = target.status().map(T::observed);
        status.is_some_and(|(_, conditions)| find(conditions, type_).is_some())
    };
    has_lost(
        &[OPERATIONAL, READY],
        |type_| has(old, type_),
        |type_| has(new, type_),
    )
}

target!(CapacityTarget, CapacityTargetStatus);
target!(TrafficTarget, TrafficTargetStatus);

/// Writes the status of a target if it differs: at once if a strategy may wait for it, otherwise
/// debounced.
///
/// A present status stays as it is if the pass was incomplete. The events are
/// published with the status, under the name of the reporting controller.
///
/// # Errors
/// When the request failed.
pub(crate) async fn report<T: Target>(
    context: &Context,
    (reporter, debounced): (&'static str, &Debounced<Key>),
    (store, key): (&Arc<Store<T>>, &Key),
    target: &T,
    (updated, is_incomplete): (Updated<T::Status>, bool),
) -> Result<Reported, Error> {
    let present = target.status();
    if present == Some(&updated.status) {
        debounced.forget(key);
        return Ok(Reported::Unchanged);
    }
    if present.is_some() && is_incomplete {
        return Ok(Reported::Unchanged);
    }
    let present = present.map_or((None, &[][..]), T::observed);
    if !is_awaited(present, T::observed(&updated.status))
        && let Some(left) = {
            let (uid, now) = (Arc::default(), context.shared.clock.instant());
            debounced.remaining(key, &uid, None, MOMENT, now)
        }
    {
        return Ok(Reported::Debounced(left));
    }
    let target = target.with_status(updated.status);
    let written = context.requests.replace_status(&target).await;
    store.written(written.at_step("writing the status")?);
    let events = &context.shared.events;
    events.publish_on(reporter, (key, &target), updated.events);
    debounced.forget(key);
    Ok(Reported::Written)
}
