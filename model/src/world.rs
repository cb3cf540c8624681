//! The small worlds that are searched: what their revisions want, and what may happen in them.

use baton_apis::constants::{
    ANNOTATION_DELETION, ANNOTATION_UPDATE, DELETION_KEEP, UPDATE_RECREATE,
};
use baton_engine::{ObjectKey, object::Identity};
use serde_json::{Value, json};

/// Revisions at most.
pub const REVISIONS: usize = 3;
/// Who reconciles at most: the revisions, and behind them the phase objects of each.
pub const ACTORS: usize = 2 * REVISIONS;
/// Objects at most.
pub const OBJECTS: usize = 2;

/// Names of the objects.
pub const NAMES: [&str; OBJECTS] = ["a", "b"];

const NAMESPACE: &str = "ns";

/// What a user may do, as often as they like unless it says otherwise. Revisions are created in their order, at any
/// time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Power {
    /// Archive the revision with this index.
    Archive(usize),
    /// Delete it, in the background.
    Delete(usize),
    /// Pause it, and end the pause.
    Pause(usize),
    /// Change the content of an object. Uses up an edit.
    Edit(usize),
    /// Delete an object. Uses up an edit.
    Remove(usize),
    /// Put a finalizer on an object and take it off. Uses up an edit.
    Hold(usize),
    /// Delete the phase object of the revision with this index. Uses up an edit.
    RemovePhase(usize),
    /// Delete the slice of the revision with this index, which has its manifests, and make it again. Uses up an edit.
    Lose(usize),
}

/// Who runs the phase of a revision that may be delegated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Class {
    /// No class: the revision itself.
    #[default]
    None,
    /// `default`: our controller, for a phase object.
    Default,
    /// Another class: a controller that is not ours, or nobody. It reports what it likes, when it likes, adds and takes
    /// away its finalizer or does not, and its objects are elsewhere.
    Foreign,
}

/// What may go wrong.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// The manager dies at any time, as often as it likes, and starts again.
    pub crashes: bool,
    /// Any request may fail, before or after it was carried out.
    pub losses: bool,
    /// Watches lag behind writes of others, and behind our own whose answer was lost.
    pub lags: bool,
    /// This many requests may reach the server after the manager has given them up: by a timeout, or by dying.
    pub late: u8,
}

/// A mistake that is put into the engine on purpose, to show that the search finds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sabotage {
    /// The engine as it is.
    #[default]
    None,
    /// Deletions are bound to no state of the object.
    UnboundDelete,
    /// Applies are bound to no state of the object.
    UnboundApply,
    /// An archived revision goes on writing.
    ArchivedWrites,
    /// Newer revisions count as archived: an older one takes objects back.
    NobodyIsNewer,
    /// Objects that a newer revision had are created again by an older one.
    ForgetsSuccessors,
    /// A revision that is one owner among others deletes the object instead of its reference.
    DeletesShared,
    /// Owner references that are no longer the controller stay when their revision goes.
    NeverReleases,
    /// What a takeover leaves to others stays their controller.
    KeepsControllers,
    /// A phase object without a report counts as available.
    BelievesSilence,
    /// A phase object that is on its way out counts as gone.
    ForgetsPhases,
    /// What is to be kept is deleted instead of let go.
    DeletesKept,
    /// A revision whose content is not known counts as one without any.
    IgnoresUnknown,
}

/// One object in one revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Not in it.
    Nothing,
    /// In the phase with this index, and available.
    In(u8),
    /// In the phase with this index, and failing its probe.
    Broken(u8),
    /// In the phase with this index, with the same content in all revisions that say so.
    Same(u8),
    /// In the phase with this index, available, and to be kept when its revision goes.
    Kept(u8),
    /// In the phase with this index, available, and immutable: deleted and created anew to change.
    Fixed(u8),
}

impl Wanted {
    /// The index of its phase.
    #[must_use]
    pub fn phase(self) -> Option<usize> {
        match self {
            Self::Nothing => None,
            Self::In(phase)
            | Self::Broken(phase)
            | Self::Same(phase)
            | Self::Kept(phase)
            | Self::Fixed(phase) => Some(phase.into()),
        }
    }
}

/// A configuration to be searched.
#[derive(Clone, Debug)]
pub struct World {
    /// Its name.
    pub name: &'static str,
    /// What each revision wants of each object.
    pub revisions: Vec<[Wanted; OBJECTS]>,
    /// What a user may do.
    pub powers: Vec<Power>,
    /// How often a user touches objects, in all.
    pub edits: u8,
    /// What may go wrong.
    pub faults: Faults,
    /// What is wrong with the engine.
    pub sabotage: Sabotage,
    /// The class of the delegated phase of each revision: a phase object stands for it, which a controller of its own
    /// reconciles.
    pub classes: [Class; REVISIONS],
    /// The index of that phase.
    pub delegated: usize,
    /// Whether the objects live in another cluster than their owners: an annotation lists these, no garbage collection
    /// follows them, and no server counts their controllers.
    pub is_remote: bool,
    /// Whether its revisions check the objects of all phases before they write any.
    pub looks_ahead: bool,
}

impl World {
    /// The key of an object.
    #[must_use]
    pub fn key(object: usize) -> ObjectKey {
        ObjectKey {
            group: String::new(),
            kind: "ConfigMap".to_owned(),
            namespace: NAMESPACE.to_owned(),
            name: NAMES[object].to_owned(),
        }
    }

    /// Who a revision or a phase object is.
    #[must_use]
    pub fn identity(actor: usize) -> Identity {
        let number = Self::revision(actor) + 1;
        let (kind, name, uid) = if Self::is_phase(actor) {
            let name = format!("r{number}-phase");
            ("ObjectSetPhase", name, format!("uid-p{number}"))
        } else {
            ("ObjectSet", format!("r{number}"), format!("uid-r{number}"))
        };
        Identity {
            kind: kind.to_owned(),
            namespace: NAMESPACE.to_owned(),
            name,
            uid,
            is_remote: false,
        }
    }

    /// The revision that an actor is, or whose phase object it is.
    #[must_use]
    pub const fn revision(actor: usize) -> usize {
        actor % REVISIONS
    }

    /// Whether an actor is a phase object.
    #[must_use]
    pub const fn is_phase(actor: usize) -> bool {
        actor >= REVISIONS
    }

    /// The phase object of a revision.
    #[must_use]
    pub const fn phase_of(revision: usize) -> usize {
        REVISIONS + revision
    }

    /// All actors of this world: its revisions, and the phase objects of those that delegate.
    pub fn actors(&self) -> impl Iterator<Item = usize> + use<> {
        let (count, classes) = (self.revisions.len(), self.classes);
        let phases = (0..count).filter(move |revision| classes[*revision] != Class::None);
        (0..count).chain(phases.map(Self::phase_of))
    }

    /// Whether an actor is a phase object that a controller of others looks after.
    #[must_use]
    pub fn is_foreign(&self, actor: usize) -> bool {
        Self::is_phase(actor) && self.classes[Self::revision(actor)] == Class::Foreign
    }

    /// Whether an object is in the delegated phase of a revision.
    #[must_use]
    pub fn is_delegated(&self, revision: usize, object: usize) -> bool {
        let phase = self.revisions[revision][object].phase();
        self.classes[revision] != Class::None && phase == Some(self.delegated)
    }

    /// Whether a revision leaves an object to a controller of others.
    #[must_use]
    pub fn is_elsewhere(&self, revision: usize, object: usize) -> bool {
        self.is_foreign(Self::phase_of(revision)) && self.is_delegated(revision, object)
    }

    /// Whether an actor writes an object itself.
    #[must_use]
    pub fn looks_after(&self, actor: usize, object: usize) -> bool {
        let revision = Self::revision(actor);
        let is_wanted = self.revisions[revision][object] != Wanted::Nothing;
        let is_its_part = self.is_delegated(revision, object) == Self::is_phase(actor);
        is_wanted && is_its_part && !self.is_foreign(actor)
    }

    /// The content of an object in a revision; `None` when it is not in it.
    #[must_use]
    pub fn content(&self, revision: usize, object: usize) -> Option<String> {
        match self.revisions[revision][object] {
            Wanted::Nothing => None,
            Wanted::In(_) | Wanted::Kept(_) | Wanted::Fixed(_) => {
                Some(format!("v{}", revision + 1))
            }
            Wanted::Broken(_) => Some(format!("broken{}", revision + 1)),
            Wanted::Same(_) => Some("same".to_owned()),
        }
    }

    /// Who an actor is to its objects.
    #[must_use]
    pub fn owner(&self, actor: usize) -> Identity {
        Identity {
            is_remote: self.is_remote,
            ..Self::identity(actor)
        }
    }

    /// The manifest of an object in a revision.
    #[must_use]
    pub fn manifest(&self, revision: usize, object: usize) -> Option<Value> {
        let content = self.content(revision, object)?;
        let mut manifest = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAMES[object], "namespace": NAMESPACE},
            "data": {"content": content},
        });
        match self.revisions[revision][object] {
            Wanted::Kept(_) => {
                manifest["metadata"]["annotations"] = json!({ ANNOTATION_DELETION: DELETION_KEEP });
            }
            Wanted::Fixed(_) => {
                manifest["metadata"]["annotations"] = json!({ ANNOTATION_UPDATE: UPDATE_RECREATE });
                manifest["immutable"] = true.into();
            }
            Wanted::Nothing | Wanted::In(_) | Wanted::Broken(_) | Wanted::Same(_) => {}
        }
        Some(manifest)
    }

    /// The objects that an actor deletes and creates anew to change them, a bit each.
    #[must_use]
    pub fn recreated(&self, actor: usize) -> u8 {
        let wanted = self.revisions[Self::revision(actor)];
        let is_fixed = |object: &usize| matches!(wanted[*object], Wanted::Fixed(_));
        let fixed =
            (0..OBJECTS).filter(|object| is_fixed(object) && self.looks_after(actor, *object));
        fixed.fold(0, |bits, object| bits | 1 << object)
    }
}
