//! A state of a world, in its smallest form.
//!
//! The following rules keep the number of states low, and lose nothing:
//!
//! - **Versions.** A state has no `resourceVersion`. It only records if the copies of an object in
//!   passes and in the cache are the present state of the object. A write is bound to the last copy
//!   that its pass received, an outdated copy stays outdated, and no decision compares two
//!   versions. For the same reason, all incarnations of an object have the same UID.
//! - **Passes.** Two passes over the same revision with the same [`std::fmt::Debug`] output
//!   continue in the same way, so they are one state. Their history is not recorded.
//! - **Statuses.** Only those parts of a status are recorded that later decisions read. The rest is
//!   a function of these parts.
//! - **Faults** that are unlimited have no counter: a manager that may die once more is the same
//!   state as before.

/// Index of the state of an object among all known states; 0 is absence.
pub type ContentId = u16;
/// Index of the state of a pass or teardown; 0 if there is none.
pub type TalkId = u32;
/// Index of fingerprints in the store; 0 if there are none.
pub type SettledId = u16;
/// Index of a state of the server; 0 if there is none.
pub type BackupId = u16;

use crate::world::{ACTORS, OBJECTS};

/// The existence of a revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Life {
    /// The revision does not exist yet.
    #[default]
    Unborn,
    /// The revision exists.
    Alive,
    /// The revision has a deletion timestamp.
    Deleting,
    /// The revision does not exist any more.
    Gone,
}

/// The life cycle state that the user requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RequestedState {
    /// `Active`.
    #[default]
    Active,
    /// `Paused`.
    Paused,
    /// `Archived`.
    Archived,
}

/// The recorded parts of a status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Status {
    /// `Archived=True`.
    pub archived: bool,
    /// `Succeeded=True`.
    pub succeeded: bool,
    /// Of a revision with `Succeeded=True`: `InTransition=True`.
    pub in_transition: bool,
    /// `controllerOf`, one bit per object.
    pub controls: u8,
    /// Of a phase object: report on its present generation.
    pub reported: Reported,
    /// Of a phase object: `Paused=True` for its present generation.
    pub pauses: bool,
}

/// The report of a phase object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reported {
    /// No report on its present generation.
    #[default]
    Nothing,
    /// `Available=True`.
    Available,
    /// `Available` is not true.
    Not,
}

/// The parts of a revision or a phase object that others can see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Record {
    /// Existence of the object.
    pub life: Life,
    /// Revision number; 0 if none is assigned yet.
    pub number: u8,
    /// Of a phase object: `spec.paused`. In the view of another actor, also of a revision.
    pub paused: bool,
    /// Of a phase object: true if it has a finalizer.
    pub is_held: bool,
    /// Of a revision: true if its manifests are in a slice that does not exist.
    pub is_lost: bool,
    /// Status of the object.
    pub status: Status,
}

impl Record {
    /// True if the object exists.
    #[must_use]
    pub fn exists(self) -> bool {
        matches!(self.life, Life::Alive | Life::Deleting)
    }

    /// A substitute for the `resourceVersion` of a phase object, different in each state.
    #[must_use]
    pub fn version(self) -> u64 {
        let Self {
            life,
            number,
            paused,
            is_held,
            is_lost,
            status,
        } = self;
        let parts = [
            life as u8,
            number,
            paused.into(),
            status.controls,
            status.reported as u8,
            status.pauses.into(),
            is_held.into(),
            is_lost.into(),
        ];
        u64::from_le_bytes(parts)
    }

    /// True if the object is archived or being deleted.
    #[must_use]
    pub fn is_closed(self) -> bool {
        self.status.archived || self.life == Life::Deleting
    }
}

/// A revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Set {
    /// The parts that others can see.
    pub record: Record,
    /// Requested life cycle state.
    pub requested: RequestedState,
    /// Objects whose present state the pass in progress has, one bit each.
    pub current: u8,
    /// Pass in progress.
    pub dialogue: TalkId,
}

/// The state of an object in the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Cached {
    /// The present state.
    #[default]
    Current,
    /// This former state.
    Former(ContentId),
}

/// An object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Object {
    /// State of the object.
    pub content: ContentId,
    /// State of the object in the cache.
    pub cached: Cached,
    /// Fingerprints of the object in the store.
    pub settled: SettledId,
}

/// A request whose sender does not wait for it any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Late {
    /// Pass that sent the request; 0 if there is none.
    pub talk: TalkId,
    /// Index of the request in the pass.
    pub which: u8,
    /// Revision of the pass.
    pub set: u8,
}

/// A state of a world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    /// The revisions, and their phase objects.
    pub sets: [Set; ACTORS],
    /// The objects.
    pub objects: [Object; OBJECTS],
    /// Request that may arrive late.
    pub late: Late,
    /// Number of requests that may still become late.
    pub delays: u8,
    /// Number of changes to objects that the user may still make.
    pub edits: u8,
    /// The backup of the server, and the part of the manager's caches that is of another life of the
    /// server.
    pub lives: Lives,
    /// Violated rule, if any.
    pub alarm: Option<Alarm>,
}

/// The lives of a server that may go back to a backup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Lives {
    /// The backup; 0 if there is none.
    pub backup: BackupId,
    /// The records that the manager still has in its cache, although the server has gone back; 0 if it
    /// has the present ones.
    pub cached: BackupId,
    /// Actors with a pass over a record of the former life, one bit each. The server refuses the status
    /// of such a pass.
    pub refused: u8,
    /// True if the server has gone back.
    pub is_over: bool,
}

/// A violated rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Alarm {
    /// A write requested a second controller, or created one.
    TwoControllers,
    /// A managed object has no controller.
    NoController,
    /// A revision deleted an object that another one controls.
    DeletedOfOthers,
    /// An object that must be kept was deleted.
    DeletedKept,
    /// A write of a revision took effect, or was decided, although a newer revision had taken over
    /// the object.
    WriteOfReplaced,
    /// An archived revision wrote.
    WriteOfArchived,
    /// A revision sent a request about an object of another actor.
    NotItsObject,
    /// A request about an object was sent before the phase ahead was available, or a deletion was
    /// sent before the phase behind was gone.
    OutOfOrder,
}
