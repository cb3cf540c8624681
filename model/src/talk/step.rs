//! What a conversation starts with, asks, is answered, and ends with.

use super::{
    ACTORS, Alarm, ContentId, OBJECTS, PassResult, Record, SettledId, Status, TalkId, Wish,
};

/// What an actor sees of all others; its own place is empty.
pub type View = [Record; ACTORS];

/// How a pass or a teardown starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Start {
    /// The actor.
    pub set: usize,
    /// Its number.
    pub number: u8,
    /// What is wanted of it.
    pub wish: Wish,
    /// Whether its objects are taken away.
    pub is_teardown: bool,
    /// Of the objects that it creates anew to change them those that it reports as its own, a bit each.
    pub reported: u8,
    /// What the cache shows of each object: its state if the cache can see it, and what is remembered with it.
    pub seen: [(Option<ContentId>, SettledId); OBJECTS],
    /// The others.
    pub view: View,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// It is carried out and answered.
    Answered,
    /// It is carried out, and the answer is lost.
    Unanswered,
    /// It gets lost.
    Lost,
    /// It is given up, and may be carried out later.
    GivenUp,
    /// It was given up, and is carried out now.
    Late,
}

impl Fate {
    pub(super) fn is_carried_out(self) -> bool {
        matches!(self, Self::Answered | Self::Unanswered | Self::Late)
    }
}

/// A request in the situation that it meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ask {
    /// The pass that sent it.
    pub talk: TalkId,
    /// Which of its requests.
    pub which: u8,
    /// The state of its object.
    pub live: ContentId,
    /// Whether the pass holds that state.
    pub is_current: bool,
    /// Whether the cache shows the object.
    pub is_known: bool,
    /// What becomes of it.
    pub fate: Fate,
    /// The others at this moment.
    pub view: View,
    /// Whether the revision itself is archived by now.
    pub is_archived: bool,
}

/// What is said about the phase object of a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Said {
    /// It is like this now.
    Is(Record),
    /// It does not exist.
    Gone,
    /// It is not in the state that was decided upon.
    Changed,
    /// The request failed, or nobody knows.
    Failed,
}

/// What a request leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The new state of its object, if it changes.
    pub written: Option<ContentId>,
    /// Whether the pass holds the present state of the object from now on; `None`: as before.
    pub holds: Option<bool>,
    /// Whether the answer tells the cache how the object is now.
    pub is_seen: bool,
    /// How the pass goes on.
    pub talk: TalkId,
    /// What must not happen and has.
    pub alarm: Option<Alarm>,
}

/// How a pass or a teardown ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// A pass.
    Pass {
        /// The new status.
        status: Status,
        /// Fingerprints to remember.
        learned: [SettledId; OBJECTS],
        /// Why it ended.
        result: PassResult,
    },
    /// A teardown.
    Teardown {
        /// The new status, should the revision stay.
        status: Status,
        /// Whether nothing of the revision is left.
        is_done: bool,
    },
}
