//! A state of a world, as small as it can be told.
//!
//! What keeps the number of states down, and why nothing is missed:
//!
//! - **Versions.** No `resourceVersion` is kept, only whether what a pass or the cache holds is the present state of
//!   the object. A write is bound to the copy that its pass got last, a version that is outdated stays so for ever, and
//!   no decision compares two of them. For the same reason all incarnations of an object have the same uid.
//! - **Passes.** Two passes over the same revision that show the same ([`std::fmt::Debug`]) go on in the same way, so
//!   they are one. How they came about is forgotten.
//! - **Statuses.** Of a status only that is kept which a later decision reads. The rest is a function of it.
//! - **Faults** that need no counter have none: a manager that may die once more is the same state as before.

/// Index of the state of an object among all that were met; 0 is its absence.
pub type ContentId = u16;
/// Index of the state of a pass or teardown; 0 is none.
pub type TalkId = u32;
/// Index of fingerprints that the store remembers; 0 is none.
pub type SettledId = u16;

use crate::world::{ACTORS, OBJECTS};

/// Whether a revision exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Life {
    /// Not yet.
    #[default]
    Unborn,
    /// It does.
    Alive,
    /// It has a deletion timestamp.
    Deleting,
    /// Not any more.
    Gone,
}

/// What the user wants of a revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Wish {
    /// `Active`.
    #[default]
    Active,
    /// `Paused`.
    Paused,
    /// `Archived`.
    Archived,
}

/// What is kept of a status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Status {
    /// `Archived=True`.
    pub archived: bool,
    /// `Succeeded=True`.
    pub succeeded: bool,
    /// `controllerOf`, a bit per object.
    pub controls: u8,
    /// Of a phase object: what it reports about its present generation.
    pub reported: Reported,
    /// Of a phase object: `Paused=True`, about its present generation.
    pub pauses: bool,
}

/// What a phase object reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reported {
    /// Nothing about its present generation.
    #[default]
    Nothing,
    /// `Available=True`.
    Available,
    /// Another `Available`.
    Not,
}

/// What others can see of a revision or a phase object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Record {
    /// Whether it exists.
    pub life: Life,
    /// Its number, 0 without.
    pub number: u8,
    /// Of a phase object: `spec.paused`.
    pub paused: bool,
    /// Of a phase object: whether a finalizer keeps it.
    pub is_held: bool,
    /// Of a revision: whether its manifests are in a slice that does not exist.
    pub is_lost: bool,
    /// Its status.
    pub status: Status,
}

impl Record {
    /// Whether it exists.
    #[must_use]
    pub fn exists(self) -> bool {
        matches!(self.life, Life::Alive | Life::Deleting)
    }

    /// What stands for the `resourceVersion` of a phase object: another one in each state.
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

    /// Whether it is archived or on its way out.
    #[must_use]
    pub fn is_closed(self) -> bool {
        self.status.archived || self.life == Life::Deleting
    }
}

/// A revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Set {
    /// What others see of it.
    pub record: Record,
    /// What the user wants of it.
    pub wish: Wish,
    /// The objects, a bit each, of which the pass in progress holds the present state.
    pub current: u8,
    /// The pass in progress.
    pub talk: TalkId,
}

/// What the cache shows of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Cached {
    /// Its present state.
    #[default]
    Current,
    /// This former state.
    Former(ContentId),
}

/// An object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Object {
    /// Its state.
    pub content: ContentId,
    /// What the cache shows.
    pub cached: Cached,
    /// The fingerprints that the store remembers with it.
    pub settled: SettledId,
}

/// A request that is on its way although nobody waits for it any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Late {
    /// The pass that sent it; 0 when there is none.
    pub talk: TalkId,
    /// Which of its requests.
    pub which: u8,
    /// The revision of that pass.
    pub set: u8,
}

/// A state of a world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    /// The revisions, and their phase objects.
    pub sets: [Set; ACTORS],
    /// The objects.
    pub objects: [Object; OBJECTS],
    /// A request that may arrive late.
    pub late: Late,
    /// How often requests may still become late.
    pub delays: u8,
    /// How often the user may still touch an object.
    pub edits: u8,
    /// What must not happen and has.
    pub alarm: Option<Alarm>,
}

/// What must not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Alarm {
    /// A write asked for a second controller, or made one.
    TwoControllers,
    /// A managed object has no controller.
    NoController,
    /// A revision deleted an object that another one controls.
    DeletedOfOthers,
    /// An object was deleted that is to be kept.
    DeletedKept,
    /// A write of a revision took effect, or was decided, although a newer one had taken the object over.
    WriteOfReplaced,
    /// An archived revision wrote.
    WriteOfArchived,
    /// A revision asked about an object that is none of its own to look after.
    NotItsObject,
    /// An object was asked about before the phase ahead of it was available, or something was deleted before the phase
    /// behind it was gone.
    OutOfOrder,
}
