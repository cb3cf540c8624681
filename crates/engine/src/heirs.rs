//! Makes an older revision that contains an object its controller again, when a newer revision is
//! deleted.
//!
//! Observable behaviour: `docs/contract/lifecycle.md`.

use std::collections::BTreeSet;

use baton_apis::{ObjectSetTemplatePhase, constants::ANNOTATION_REVISION};
use serde_json::{Value, json};

use crate::{
    ObjectKey, Request,
    object::{metadata, owner_references, text},
    revision::{Desired, Heir, Phase, Revision, prepare},
};

/// A revision as an heir: its identity and number, and the objects of the phases that it delivers
/// itself.
///
/// # Caveats
/// An object with an invalid manifest is not included, because the heir would never write it.
pub fn heir(revision: &Revision, phases: Vec<ObjectSetTemplatePhase>) -> Heir {
    Heir {
        identity: revision.identity.clone(),
        number: revision.number,
        wants: wants(&prepare(revision, phases)),
    }
}

/// The keys of the valid objects in phases that are not delegated.
pub fn wants(phases: &[Phase]) -> BTreeSet<ObjectKey> {
    let objects = phases.iter().flat_map(Phase::own_objects);
    let valid = objects.filter(|object| object.violations.is_empty());
    valid.map(|object| object.key.clone()).collect()
}

/// The write that makes the first heir of an object its controller, in place of the deleted
/// revision; `None` if there is no heir.
///
/// # Guarantees
/// The write has the observed state as its precondition. It changes owners and revision number
/// together, so the object always has a controller and the number of that controller. All other
/// owners stay.
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

/// A patch that gives an object these owners and the number of its controller; its precondition is
/// the observed state.
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
