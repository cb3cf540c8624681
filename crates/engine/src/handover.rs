//! Decides a handover: the owner of a live object, and if a revision that wants the object may take
//! it.
//!
//! Observable behaviour: `docs/contract/handover.md`.

mod shipper;
#[cfg(test)]
mod tests;

use std::fmt;

use baton_apis::{
    CollisionProtection, ControlledObjectReference, ObjectSetStatus,
    conditions::{IN_TRANSITION, SUCCEEDED},
    constants,
};
use serde_json::Value;

use crate::{
    ObjectKey,
    condition_list::is_true,
    diff::{applied_at, legacy},
    object::{
        controller, is_controller, is_of_own_group, label, owner_references, revision_number, text,
    },
    owners,
    revision::{Delivery, Desired, Revision},
};
use shipper::Installation;

/// An existing revision of the same kind and namespace, found by a uid in an owner reference: its
/// own uid or that of one of its delegated phases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sibling {
    /// Name of the revision.
    pub name: String,
    /// Revision number; 0 if none is assigned yet.
    pub number: i64,
    /// Its place relative to the revision that looks it up.
    pub relation: Relation,
    /// True if it is archived, so that it no longer protects its objects from other revisions.
    pub is_archived: bool,
}

/// The place of a revision relative to another one. Revision numbers have a meaning only within a
/// chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The other one has it as a previous revision.
    Previous,
    /// It is in the same chain, and is no previous revision.
    SameChain,
    /// It lists a previous revision that does not exist any more, so it may be in the same chain.
    /// It is, if it controls an object that the other one owned before.
    Unknown,
    /// It is in another chain.
    OtherChain,
}

/// Lookups of other revisions by a revision.
pub trait Siblings: Send + Sync {
    /// Returns the existing revision with a uid, unless it is the revision that looks it up.
    fn sibling(&self, uid: &str) -> Option<Sibling>;

    /// True if an owner with this uid exists, of whatever chain: a revision or a delegated phase.
    fn exists(&self, uid: &str) -> bool;

    /// Returns the newer sibling that contains a missing object and had taken it over before it
    /// vanished.
    ///
    /// The sibling is neither archived nor being deleted, and only it creates the object again. A
    /// sibling of unknown content counts as well.
    fn taken_by_newer(&self, key: &ObjectKey) -> Option<Claim>;
}

/// The reason why a missing object is left to a newer revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Name of the newer revision.
    pub revision: String,
    /// The reason why the content of that revision is unknown; `None` if it certainly contains the
    /// object.
    pub doubt: Option<String>,
}

impl Claim {
    /// The claim of a revision that contains the object.
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

/// The owner of a live object from the view of one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Situation {
    /// The revision controls it.
    Ours,
    /// A sibling of the same chain controls it, and its number is higher.
    Newer(Sibling),
    /// A previous revision controls it.
    Previous(Sibling),
    /// A sibling that is not a previous revision controls it.
    Unrelated(Sibling),
    /// The controller is no sibling.
    Foreign,
    /// All owners belong to hubs that a user has declared lost, or the controller is a forgotten
    /// revision of the chain.
    Lost,
    /// The object has no controller, because the revision that wrote it last is gone.
    ///
    /// This revision or a previous one is still among its owners. Foreground deletion can have this
    /// result: garbage collection removes the deleted owner without handing the object back.
    Abandoned,
    /// The object has no controller, for any other reason.
    Unowned,
}

/// The action that a revision may take on a live object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Adoption {
    /// Keep the object in the wanted state.
    Keep,
    /// Take the object over from the named revision; `None` if its controller is no sibling.
    Adopt(Option<String>),
    /// Leave the object to the named newer revision.
    Leave(String),
    /// The object may not be taken.
    Refuse(Refusal),
}

/// The reason why a live object may not be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A revision has orphaned the object, and a delegated phase wants it.
    LeftBehind,
    /// Another revision with the same number controls the object.
    SameNumber,
    /// The collision protection leaves the object to its owner, or without one.
    Protected,
}

/// True if a revision with this status once had all of its objects, and has lost some to newer revisions.
#[must_use]
pub fn has_lost(own: &ObjectSetStatus) -> bool {
    is_true(&own.conditions, SUCCEEDED) && is_true(&own.conditions, IN_TRANSITION)
}

/// True if a revision with this status [has lost](has_lost) objects, and did not control the object by its
/// last report.
///
/// A newer revision that is paused may have taken the object over before it succeeded, and does not
/// create it again now.
#[must_use]
pub fn has_given(own: &ObjectSetStatus, wanted: &ControlledObjectReference) -> bool {
    has_lost(own) && !own.controller_of.contains(wanted)
}

/// Determines the situation of a live object.
///
/// # Guarantees
/// The revision annotation ranks revisions only if the controller is an existing revision of the
/// same chain. On an object without a controller it only shows if the last writer is gone
/// ([`Situation::Abandoned`]).
pub fn classify(revision: &Revision, siblings: &dyn Siblings, live: &Value) -> Situation {
    if revision.identity.controls(live) {
        return Situation::Ours;
    }
    if are_owners_lost(revision, siblings, live) || is_forgotten(revision, siblings, live) {
        return Situation::Lost;
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
        Some(sibling)
            if !sibling.is_archived
                && rank(&sibling, live) > revision.number
                && is_same_chain(revision, &sibling, live) =>
        {
            Situation::Newer(sibling)
        }
        Some(sibling) if sibling.relation == Relation::Previous => Situation::Previous(sibling),
        Some(sibling) => Situation::Unrelated(sibling),
    }
}

/// The number by which a sibling that controls an object ranks. The annotation counts up to the number
/// of the sibling: a higher one is not from that revision.
fn rank(sibling: &Sibling, live: &Value) -> i64 {
    let number = revision_number(live);
    match sibling.number {
        0 => number,
        own => number.min(own),
    }
}

/// True if an object has owners, and all of them belong to hubs that a user has declared lost. An
/// existing revision is not lost, whatever its entry says.
fn are_owners_lost(revision: &Revision, siblings: &dyn Siblings, live: &Value) -> bool {
    let (lost, hub) = (&revision.lost_hubs, revision.identity.hub.as_str());
    let owners = owner_references(live);
    let mut each = owners.iter();
    !lost.is_empty()
        && !owners.is_empty()
        && each.all(|owner| {
            owners::is_lost(owner, lost, hub) && siblings.sibling(text(owner, "uid")).is_none()
        })
}

/// True if a revision of the chain controls an object, its hub does not have that revision any more, and
/// this revision was created after the object had been written last.
///
/// The hub was restored from a backup, or the revision was deleted without its objects. A revision of the
/// backup is older than the last write, and leaves the object: otherwise a restored hub would return its
/// clusters to old content, and two hubs that were restored from one backup would take objects in turn
/// forever.
fn is_forgotten(revision: &Revision, siblings: &dyn Siblings, live: &Value) -> bool {
    let mut controllers = owner_references(live).iter().filter(|it| is_controller(it));
    let is_missing = |owner: &Value| {
        revision.identity.is_chain_of(owner) && !siblings.exists(text(owner, "uid"))
    };
    let is_later = || applied_at(live).is_some_and(|at| revision.created.is_some_and(|it| at < it));
    controllers.next().is_some_and(is_missing)
        && controllers.all(is_missing)
        && !owns(revision, live)
        && is_later()
}

/// True if the sibling that controls an object is in the chain of the revision.
fn is_same_chain(revision: &Revision, sibling: &Sibling, live: &Value) -> bool {
    match sibling.relation {
        Relation::Previous | Relation::SameChain => true,
        Relation::Unknown => owns(revision, live),
        Relation::OtherChain => false,
    }
}

/// True if the revision is among the owners of an object.
fn owns(revision: &Revision, live: &Value) -> bool {
    let mut owners = owner_references(live).iter();
    owners.any(|reference| revision.identity.is(reference))
}

/// The controller of an object, if it is a revision or a phase object, of whatever chain.
fn controlling_revision(live: &Value) -> Option<&Value> {
    controller(live).filter(|reference| is_of_own_group(reference))
}

/// True if the last writer of an object without a controller is gone, and this revision or a
/// previous one is an owner.
///
/// If the last writer is still an owner, somebody has cleared its controller flag, which is a
/// collision.
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
            is_heir |= sibling.relation == Relation::Previous;
        }
    }
    is_heir && writer != 0 && writer != revision.number
}

/// Decides the action that the revision may take on a live object.
///
/// # Caveats
/// The collision protection `None` adopts from every owner with two exceptions. Otherwise two
/// revisions would adopt an object in turn forever.
/// - An object that another revision of the chain with the same number controls stays there.
/// - An object that a revision of another chain has taken over from this revision stays there.
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
    let same_number = |sibling| rank(sibling, live) == revision.number;
    // A delegated phase never adopts an object that a revision has orphaned.
    let is_left_behind = revision.delivery != Delivery::InProcess && revision_number(live) != 0;
    match (situation, protection) {
        (Situation::Foreign | Situation::Unrelated(_), CollisionProtection::None)
            if is_lost(revision, situation, live) =>
        {
            Adoption::Refuse(Refusal::Protected)
        }
        (Situation::Unowned, _) if is_installed_by_shipper(desired, live) => Adoption::Adopt(None),
        (Situation::Unowned, _) if is_left_behind => Adoption::Refuse(Refusal::LeftBehind),
        (Situation::Ours, _) => Adoption::Keep,
        (Situation::Newer(sibling), _) => Adoption::Leave(sibling.name.clone()),
        (Situation::Previous(sibling), _) if same_number(sibling) => {
            Adoption::Refuse(Refusal::SameNumber)
        }
        (Situation::Unrelated(sibling), CollisionProtection::None)
            if same_number(sibling) && is_same_chain(revision, sibling, live) =>
        {
            Adoption::Refuse(Refusal::SameNumber)
        }
        (Situation::Previous(sibling), _)
        | (Situation::Unrelated(sibling), CollisionProtection::None) => {
            Adoption::Adopt(Some(sibling.name.clone()))
        }
        (Situation::Abandoned | Situation::Lost, _)
        | (Situation::Foreign | Situation::Unowned, CollisionProtection::None)
        | (Situation::Unowned, CollisionProtection::IfNoController) => Adoption::Adopt(None),
        (Situation::Unrelated(_) | Situation::Foreign | Situation::Unowned, _) => {
            Adoption::Refuse(Refusal::Protected)
        }
    }
}

/// True if a revision of another chain controls an object that this revision owned before.
fn is_lost(revision: &Revision, situation: &Situation, live: &Value) -> bool {
    let may_be_taken = match situation {
        Situation::Unrelated(sibling) => {
            sibling.is_archived || is_same_chain(revision, sibling, live)
        }
        _ => controlling_revision(live).is_none(),
    };
    !may_be_taken && owns(revision, live)
}

/// True for objects of the package manager's own package, which are always adopted.
fn is_own_package(desired: &Desired) -> bool {
    label(&desired.manifest, constants::LABEL_PACKAGE) == "package-operator"
}

/// True if Shipper has installed the object for the Release that the manifest was rendered for.
/// Such an object is adopted under every protection.
fn is_installed_by_shipper(desired: &Desired, live: &Value) -> bool {
    Installation::of(live).is_some_and(|it| it.is_of(&desired.manifest))
}

/// The field managers whose fields become those of the revision when it adopts the object, which is
/// in this situation.
///
/// There are none if the revision or a sibling controls the object, or controlled it last.
pub fn former_managers(situation: &Situation, desired: &Desired, live: &Value) -> Vec<String> {
    let mut managers = match situation {
        Situation::Foreign | Situation::Unowned => legacy::former_managers(&desired.manifest),
        _ => return Vec::new(),
    };
    if is_installed_by_shipper(desired, live) {
        managers.push(constants::shipper::FIELD_MANAGER.to_owned());
    }
    managers
}

/// The message of a collision. It begins with the namespace in the manifest, and names the object's
/// namespace after that. If a revision controls the live object, its name is at the end. If Shipper
/// has installed the object for another Release, the name of that Release is at the end.
///
/// If the owner is in another cluster, and its entry names another hub than that of the revision,
/// this hub is at the end. If the entry names none, the UID of the owner is there. If the owner does
/// not exist in the own hub, the end says so.
pub fn collision_message(
    revision: &Revision,
    siblings: &dyn Siblings,
    (desired, refusal): (&Desired, Refusal),
    live: &Value,
) -> String {
    let (key, written) = (&desired.key, &desired.written_namespace);
    let object = format!("{} {}/{}", desired.gvk, key.namespace, key.name);
    let why = match refusal {
        Refusal::LeftBehind => format!("{object} was left behind by a revision"),
        Refusal::SameNumber => format!("revision collision on {object}"),
        Refusal::Protected => format!("object {object} not owned by previous revision"),
    };
    let by = match controlling_revision(live) {
        Some(owner) => controller_text(revision, siblings, owner),
        None => match Installation::of(live).and_then(|it| it.release()) {
            Some(release) => format!(", installed by Shipper for Release {release}"),
            None => String::new(),
        },
    };
    format!(
        "object {written}/{} kind:{}: refusing adoption, {why}{by}",
        key.name, key.kind
    )
}

/// The end of the message of a collision with a revision.
fn controller_text(revision: &Revision, siblings: &dyn Siblings, owner: &Value) -> String {
    let (kind, name, uid) = (text(owner, "kind"), text(owner, "name"), text(owner, "uid"));
    let by = match text(owner, "namespace") {
        "" => format!(", controlled by {kind} {name}"),
        namespace => format!(", controlled by {kind} {namespace}/{name}"),
    };
    let (own, hub) = (&revision.identity.hub, text(owner, "hub"));
    if !owners::is_remote(owner) {
        by
    } else if hub != own {
        match hub {
            "" => format!("{by} with uid {uid}"),
            hub => format!("{by} of hub {hub}"),
        }
    } else if own.is_empty() || siblings.exists(uid) {
        by
    } else {
        format!("{by}, which does not exist in this hub any more")
    }
}
