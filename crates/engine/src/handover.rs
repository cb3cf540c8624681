//! Decides a handover: who owns a live object, and whether a revision that wants it may take it.
//!
//! What clients can observe of it: `docs/contract/handover.md`.

#[cfg(test)]
mod tests;

use std::fmt;

use baton_apis::{CollisionProtection, constants::LABEL_PACKAGE};
use serde_json::Value;

use crate::{
    ObjectKey,
    object::{is_controller, owner_references, revision_number, text},
    revision::{Delivery, Desired, Revision},
};

/// A revision of the same kind and namespace that exists, found by a uid in an owner reference:
/// its own, or that of one of its delegated phases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sibling {
    /// Its name.
    pub name: String,
    /// Its number, 0 if it has none yet.
    pub number: i64,
    /// Whether the asking revision lists it as previous.
    pub is_previous: bool,
    /// Whether it is archived: then it no longer keeps objects from other revisions.
    pub is_archived: bool,
}

/// What a revision knows about the others.
pub trait Siblings: Send + Sync {
    /// The existing revision behind a uid, unless it is the asking one itself.
    fn sibling(&self, uid: &str) -> Option<Sibling>;

    /// The newer sibling in force that contains an object and had taken it over before the object vanished: only that
    /// one creates the object again. One whose content is not known counts as well.
    fn taken_by_newer(&self, key: &ObjectKey) -> Option<Claim>;
}

/// Why a missing object is left to a newer revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Name of the newer revision.
    pub revision: String,
    /// Why it is not known whether that one contains the object; `None` if it does.
    pub doubt: Option<String>,
}

impl Claim {
    /// That of a revision that contains the object.
    #[must_use]
    pub fn of(revision: &str) -> Self {
        Self {
            revision: revision.to_owned(),
            doubt: None,
        }
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "left to revision {}", self.revision)?;
        match &self.doubt {
            Some(doubt) => write!(f, ", whose content is not known: {doubt}"),
            None => Ok(()),
        }
    }
}

/// Who owns a live object, as seen by one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Situation {
    /// The revision controls it.
    Ours,
    /// A known revision with a higher number took it.
    Newer(Sibling),
    /// A listed previous revision controls it.
    Previous(Sibling),
    /// A known revision that is not listed as previous controls it.
    Unrelated(Sibling),
    /// Somebody who is no known revision controls it.
    Foreign,
    /// It has no controller, because the revision that wrote it last is gone, and this revision
    /// or a listed previous one is still among its owners. Deletion in the foreground can leave
    /// that behind: garbage collection takes the deleted owner out instead of handing back.
    Abandoned,
    /// It has no controller.
    Unowned,
}

/// What a revision may do with a live object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Adoption {
    /// Keep it as wanted.
    Keep,
    /// Take it over from the named revision, or from nobody in particular.
    Adopt(Option<String>),
    /// Leave it to the named newer revision.
    Leave(String),
    /// It may not be taken.
    Refuse(Refusal),
}

/// Why a live object may not be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A revision has orphaned it, and a delegated phase wants it.
    LeftBehind,
    /// Another revision with the same number controls it.
    SameNumber,
    /// The collision protection leaves it to its owner, or to nobody.
    Protected,
}

/// Names the situation of a live object.
///
/// # Guarantees
/// The revision annotation ranks revisions only when its controller is a revision that exists. On an object without a
/// controller it only tells whether the writer is gone ([`Situation::Abandoned`]).
pub fn classify(revision: &Revision, siblings: &dyn Siblings, live: &Value) -> Situation {
    if revision.identity.controls(live) {
        return Situation::Ours;
    }
    let mut controllers = owner_references(live).iter().filter(|r| is_controller(r));
    let Some(reference) = controllers.next() else {
        return if is_abandoned(revision, siblings, live) {
            Situation::Abandoned
        } else {
            Situation::Unowned
        };
    };
    let uid = reference
        .get("uid")
        .and_then(Value::as_str)
        .unwrap_or_default();
    match siblings.sibling(uid) {
        None => Situation::Foreign,
        Some(sibling) if !sibling.is_archived && revision_number(live) > revision.number => {
            Situation::Newer(sibling)
        }
        Some(sibling) if sibling.is_previous => Situation::Previous(sibling),
        Some(sibling) => Situation::Unrelated(sibling),
    }
}

/// Whether the revision that wrote an object without a controller last is gone, and left it to this
/// one or to one before it. An object whose last writer is still among its owners is not: somebody
/// cleared the flag, and that is a collision.
fn is_abandoned(revision: &Revision, siblings: &dyn Siblings, live: &Value) -> bool {
    let writer = revision_number(live);
    let mut is_heir = false;
    for reference in owner_references(live) {
        if revision.identity.is(reference) {
            is_heir = true;
        } else if let Some(sibling) = siblings.sibling(text(reference, "uid")) {
            if sibling.number == writer {
                return false;
            }
            is_heir |= sibling.is_previous;
        }
    }
    is_heir && writer != 0 && writer != revision.number
}

/// Decides what the revision may do with a live object.
///
/// # Caveats
/// `None` adopts from anybody with one exception: an object controlled by another existing revision
/// under the same number stays with it. Both would adopt it in turn for ever otherwise.
pub fn decide_adoption(
    revision: &Revision,
    desired: &Desired,
    situation: &Situation,
    live: &Value,
) -> Adoption {
    let protection = if revision.force_adoption || is_own_package(desired) {
        CollisionProtection::None
    } else {
        desired.protection
    };
    let same_number = revision_number(live) == revision.number;
    // A delegated phase never adopts an object that a revision has orphaned.
    let is_left_behind = revision.delivery != Delivery::InProcess && revision_number(live) != 0;
    match (situation, protection) {
        (Situation::Unowned, _) if is_left_behind => Adoption::Refuse(Refusal::LeftBehind),
        (Situation::Ours, _) => Adoption::Keep,
        (Situation::Newer(sibling), _) => Adoption::Leave(sibling.name.clone()),
        (Situation::Previous(_) | Situation::Unrelated(_), CollisionProtection::None)
        | (Situation::Previous(_), _)
            if same_number =>
        {
            Adoption::Refuse(Refusal::SameNumber)
        }
        (Situation::Previous(sibling), _)
        | (Situation::Unrelated(sibling), CollisionProtection::None) => {
            Adoption::Adopt(Some(sibling.name.clone()))
        }
        (Situation::Abandoned, _)
        | (Situation::Foreign | Situation::Unowned, CollisionProtection::None)
        | (Situation::Unowned, CollisionProtection::IfNoController) => Adoption::Adopt(None),
        (Situation::Unrelated(_) | Situation::Foreign | Situation::Unowned, _) => {
            Adoption::Refuse(Refusal::Protected)
        }
    }
}

/// Objects of the package manager's own package are always adopted.
fn is_own_package(desired: &Desired) -> bool {
    desired
        .manifest
        .pointer("/metadata/labels")
        .is_some_and(|labels| text(labels, LABEL_PACKAGE) == "package-operator")
}

/// The message of a collision. The namespace in front is the one that is written, that behind is where the object is.
pub fn collision_message(desired: &Desired, refusal: Refusal) -> String {
    let (key, written) = (&desired.key, &desired.written_namespace);
    let object = format!("{} {}/{}", desired.gvk, key.namespace, key.name);
    let why = match refusal {
        Refusal::LeftBehind => format!("{object} was left behind by a revision"),
        Refusal::SameNumber => format!("revision collision on {object}"),
        Refusal::Protected => format!("object {object} not owned by previous revision"),
    };
    format!(
        "object {written}/{} kind:{}: refusing adoption, {why}",
        key.name, key.kind
    )
}
