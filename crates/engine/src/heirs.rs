//! Hands an object of a deleted revision back to an older one that wants it as well.
//!
//! What clients can observe of it: `docs/contract/lifecycle.md`.

use std::collections::BTreeSet;

use baton_apis::{ObjectSetTemplatePhase, constants::ANNOTATION_REVISION};
use serde_json::{Value, json};

use crate::{
    ObjectKey, Request,
    object::{metadata, owner_references, text},
    revision::{Desired, Heir, Phase, Revision, prepare},
};

/// A revision as an heir, by its identity, number and way of delivery, with the phases whose objects it owns itself.
///
/// # Caveats
/// An object with an invalid manifest is not wanted: nothing of the heir's would ever be written to it.
pub fn heir(revision: &Revision, phases: Vec<ObjectSetTemplatePhase>) -> Heir {
    Heir {
        identity: revision.identity.clone(),
        number: revision.number,
        wants: wants(&prepare(revision, phases)),
    }
}

/// The objects that phases have themselves and that can be written.
pub fn wants(phases: &[Phase]) -> BTreeSet<ObjectKey> {
    let objects = phases.iter().flat_map(Phase::own_objects);
    let valid = objects.filter(|object| object.violations.is_empty());
    valid.map(|object| object.key.clone()).collect()
}

/// The write that makes the first heir that wants an object its controller, in place of the deleted revision; `None`
/// without any.
///
/// # Guarantees
/// The write is bound to the state that is seen. It changes owners and revision number together, so that the object is
/// never without a controller and the number is always that of its controller; all other owners stay.
pub(crate) fn hand_back(revision: &Revision, desired: &Desired, live: &Value) -> Option<Request> {
    let mut heirs = revision.heirs.iter();
    let heir = heirs.find(|heir| heir.wants.contains(&desired.key))?;
    let others = owner_references(live).iter().filter(|reference| {
        text(reference, "uid") != revision.identity.uid && !heir.identity.is(reference)
    });
    let owners: Vec<_> = others
        .cloned()
        .chain([heir.identity.controller_reference()])
        .collect();
    Some(Request::HandOver(handed_over(live, &owners, heir.number)))
}

/// What gives an object these owners and the number of its controller, in the state that is seen.
pub(crate) fn handed_over(live: &Value, owners: &[Value], number: i64) -> Value {
    json!({
        "metadata": {
            "uid": metadata(live, "uid"),
            "resourceVersion": metadata(live, "resourceVersion"),
            "ownerReferences": owners,
            "annotations": { ANNOTATION_REVISION: number.to_string() },
        },
    })
}
