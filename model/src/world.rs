//! The small worlds of the search: the objects that their revisions want, and the possible events.

use baton_apis::constants::{
    ANNOTATION_DELETION, ANNOTATION_UPDATE, DELETION_KEEP, UPDATE_RECREATE,
};
use baton_engine::{ObjectKey, object::Identity};
use serde_json::{Value, json};

/// Maximum number of revisions.
pub const REVISIONS: usize = 3;
/// Maximum number of actors, which are reconciled: the revisions, followed by the phase object of
/// each.
pub const ACTORS: usize = 2 * REVISIONS;
/// Maximum number of objects.
pub const OBJECTS: usize = 2;

/// Names of the objects.
pub const NAMES: [&str; OBJECTS] = ["a", "b"];

const NAMESPACE: &str = "ns";

/// An action that a user may take, as often as they like unless it uses up an edit. Revisions are
/// created in their order, at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserAction {
    /// Archive the revision with this index.
    Archive(usize),
    /// Delete the revision with this index, in the background.
    Delete(usize),
    /// Pause and resume the revision with this index.
    Pause(usize),
    /// Change the content of an object. Uses up an edit.
    Edit(usize),
    /// Delete an object. Uses up an edit.
    Remove(usize),
    /// Add a finalizer to an object and remove it. Uses up an edit.
    Hold(usize),
    /// Delete the phase object of the revision with this index. Uses up an edit.
    RemovePhase(usize),
    /// Delete the slice with the manifests of the revision with this index, and create it again.
    /// Uses up an edit.
    Lose(usize),
    /// Write the highest revision number, or none, into the annotation of an object. Uses up an edit.
    Forge(usize),
    /// Take a backup of the server once, while no pass is in progress, and restore it once at any time.
    /// In a world with objects in another cluster, the server is that of the objects.
    Restore,
}

/// The class of the phase of a revision that may be delegated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Class {
    /// No class: the revision runs the phase itself.
    #[default]
    None,
    /// Class `default`: our controller runs the phase, for a phase object.
    Default,
    /// Another class: a foreign controller runs the phase, or none. It sends any reports at any
    /// time, may add and remove its finalizer, and its objects are elsewhere.
    Foreign,
}

/// The faults of a world.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// The manager may crash and start again at any time, without limit.
    pub crashes: bool,
    /// Any request may fail, before or after it is carried out.
    pub losses: bool,
    /// Watches lag behind writes of other clients, and behind own writes whose answer was lost.
    pub lags: bool,
    /// Number of requests that may reach the server after a timeout or a crash of the manager has
    /// ended them.
    pub late: u8,
}

/// A deliberate mistake in the engine, to show that the search finds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineFault {
    /// No mistake.
    #[default]
    None,
    /// Deletions are bound to no state of the object.
    UnboundDelete,
    /// Applies are bound to no state of the object.
    UnboundApply,
    /// An archived revision continues to write.
    ArchivedWrites,
    /// Newer revisions count as archived, so an older one takes objects back.
    NobodyIsNewer,
    /// An older revision creates objects again that a newer one had.
    ForgetsSuccessors,
    /// A revision that is one of several owners deletes the object instead of its reference.
    DeletesShared,
    /// Owner references that are not the controller stay when their revision ends.
    NeverReleases,
    /// Owners from before a takeover stay controllers.
    KeepsControllers,
    /// A phase object without a report counts as available.
    BelievesSilence,
    /// A phase object that is being deleted counts as gone.
    ForgetsPhases,
    /// An object that must be kept is deleted instead of released.
    DeletesKept,
    /// A revision with unknown content counts as empty.
    IgnoresUnknown,
    /// A revision creates objects again that it has given to a newer one, if that one is paused and has
    /// not succeeded.
    ForgetsGiven,
    /// Numbers of revisions of other chains count.
    BelievesStrangers,
    /// The status of a pass is written to a record that a restore has changed.
    OverwritesRestored,
}

/// An object in a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DesiredObject {
    /// The object is not in the revision.
    Nothing,
    /// In the phase with this index, and available.
    In(u8),
    /// In the phase with this index, and failing its probe.
    Broken(u8),
    /// In the phase with this index; the content is the same in all revisions with this value.
    Same(u8),
    /// In the phase with this index, available, and kept when its revision ends.
    Kept(u8),
    /// In the phase with this index, available, and immutable: it is deleted and created again to
    /// change it.
    Fixed(u8),
}

impl DesiredObject {
    /// The index of the phase of the object.
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

/// A configuration for the search.
#[derive(Clone, Debug)]
pub struct World {
    /// Name of the world.
    pub name: &'static str,
    /// Objects of each revision.
    pub revisions: Vec<[DesiredObject; OBJECTS]>,
    /// Actions that a user may take.
    pub powers: Vec<UserAction>,
    /// Total number of changes to objects that a user may make.
    pub edits: u8,
    /// Faults that may happen.
    pub faults: Faults,
    /// Mistake in the engine.
    pub sabotage: EngineFault,
    /// Class of the delegated phase of each revision. A phase object stands for the phase, and is
    /// reconciled by a controller of its own.
    pub classes: [Class; REVISIONS],
    /// Index of the delegated phase.
    pub delegated: usize,
    /// True if the objects are in another cluster than their owners. Then an annotation lists the
    /// owners, there is no garbage collection, and the server does not count controllers.
    pub is_remote: bool,
    /// True if revisions check the objects of all phases before the first write.
    pub looks_ahead: bool,
    /// True if the last revision is a stranger: somebody has created it with the highest number, it
    /// is not in the chain of the others, and wants the same objects.
    pub has_stranger: bool,
}

/// The number of a stranger.
pub const HIGHEST: u8 = 200;

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

    /// The identity of a revision or a phase object.
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
            hub: String::new(),
            chain: String::new(),
        }
    }

    /// The revision of an actor, which is the actor itself or owns the phase object.
    #[must_use]
    pub const fn revision(actor: usize) -> usize {
        actor % REVISIONS
    }

    /// True if a revision is in no chain with the others.
    #[must_use]
    pub fn is_stranger(&self, revision: usize) -> bool {
        self.has_stranger && revision + 1 == self.revisions.len()
    }

    /// True if two revisions are in the same chain.
    #[must_use]
    pub fn shares_chain(&self, one: usize, other: usize) -> bool {
        self.is_stranger(one) == self.is_stranger(other)
    }

    /// True if an actor is a phase object.
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

    /// True if an actor is a phase object of a foreign controller.
    #[must_use]
    pub fn is_foreign(&self, actor: usize) -> bool {
        Self::is_phase(actor) && self.classes[Self::revision(actor)] == Class::Foreign
    }

    /// True if an object is in the delegated phase of a revision.
    #[must_use]
    pub fn is_delegated(&self, revision: usize, object: usize) -> bool {
        let phase = self.revisions[revision][object].phase();
        self.classes[revision] != Class::None && phase == Some(self.delegated)
    }

    /// True if a foreign controller delivers an object of a revision.
    #[must_use]
    pub fn is_elsewhere(&self, revision: usize, object: usize) -> bool {
        self.is_foreign(Self::phase_of(revision)) && self.is_delegated(revision, object)
    }

    /// True if an actor writes an object itself.
    #[must_use]
    pub fn looks_after(&self, actor: usize, object: usize) -> bool {
        let revision = Self::revision(actor);
        let is_wanted = self.revisions[revision][object] != DesiredObject::Nothing;
        let is_its_part = self.is_delegated(revision, object) == Self::is_phase(actor);
        is_wanted && is_its_part && !self.is_foreign(actor)
    }

    /// The content of an object in a revision; `None` if the revision does not have it.
    #[must_use]
    pub fn content(&self, revision: usize, object: usize) -> Option<String> {
        match self.revisions[revision][object] {
            DesiredObject::Nothing => None,
            DesiredObject::In(_) | DesiredObject::Kept(_) | DesiredObject::Fixed(_) => {
                Some(format!("v{}", revision + 1))
            }
            DesiredObject::Broken(_) => Some(format!("broken{}", revision + 1)),
            DesiredObject::Same(_) => Some("same".to_owned()),
        }
    }

    /// The identity of an actor as the owner of its objects.
    #[must_use]
    pub fn owner(&self, actor: usize) -> Identity {
        Identity {
            is_remote: self.is_remote,
            hub: "hub".to_owned(),
            chain: "chain".to_owned(),
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
            DesiredObject::Kept(_) => {
                manifest["metadata"]["annotations"] = json!({ ANNOTATION_DELETION: DELETION_KEEP });
            }
            DesiredObject::Fixed(_) => {
                manifest["metadata"]["annotations"] = json!({ ANNOTATION_UPDATE: UPDATE_RECREATE });
                manifest["immutable"] = true.into();
            }
            DesiredObject::Nothing
            | DesiredObject::In(_)
            | DesiredObject::Broken(_)
            | DesiredObject::Same(_) => {}
        }
        Some(manifest)
    }

    /// The objects that an actor deletes and creates again to change them, one bit each.
    #[must_use]
    pub fn recreated(&self, actor: usize) -> u8 {
        let wanted = self.revisions[Self::revision(actor)];
        let is_fixed = |object: &usize| matches!(wanted[*object], DesiredObject::Fixed(_));
        let fixed =
            (0..OBJECTS).filter(|object| is_fixed(object) && self.looks_after(actor, *object));
        fixed.fold(0, |bits, object| bits | 1 << object)
    }
}
