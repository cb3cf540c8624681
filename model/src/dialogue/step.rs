//! The start, the requests, the answers and the end of a conversation.

use super::{
    ACTORS, Alarm, ContentId, OBJECTS, PassResult, Record, RequestedState, SettledId, Status,
    TalkId,
};

/// The records of all other actors; that of the actor itself is empty.
pub type View = [Record; ACTORS];

/// The start of a pass or a teardown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Start {
    /// The actor.
    pub set: usize,
    /// Number of the actor's revision.
    pub number: u8,
    /// Requested state of the actor.
    pub requested: RequestedState,
    /// True if the objects of the actor are torn down.
    pub is_teardown: bool,
    /// Objects that the actor controls according to its status, among those that it deletes and
    /// creates again to change them; one bit each.
    pub reported: u8,
    /// Status of the actor, if it has given objects to newer revisions.
    pub own: Status,
    /// State and fingerprints of each object in the cache.
    pub observed: [(Option<ContentId>, SettledId); OBJECTS],
    /// Records of the other actors.
    pub view: View,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestOutcome {
    /// The request is carried out and answered.
    Answered,
    /// The request is carried out, and the answer is lost.
    Unanswered,
    /// The request is lost.
    Lost,
    /// The request is given up, and may be carried out later.
    GivenUp,
    /// The request was given up, and is carried out now.
    Late,
}

impl RequestOutcome {
    pub(super) fn is_carried_out(self) -> bool {
        matches!(self, Self::Answered | Self::Unanswered | Self::Late)
    }
}

/// A request with the situation in which it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ArrivedRequest {
    /// Pass that sent the request.
    pub dialogue: TalkId,
    /// Index of the request in the pass.
    pub which: u8,
    /// Present state of the object.
    pub live: ContentId,
    /// True if the state that the pass has read is the present state.
    pub is_current: bool,
    /// True if the cache contains the object.
    pub is_known: bool,
    /// Outcome of the request.
    pub outcome: RequestOutcome,
    /// Present records of the other actors.
    pub view: View,
    /// True if the revision itself is archived by now.
    pub is_archived: bool,
}

/// An answer about the phase object of a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PhaseAnswer {
    /// The phase object has this record.
    Is(Record),
    /// The phase object does not exist.
    Gone,
    /// The phase object is not in the state of the decision.
    Changed,
    /// The request failed, or the result is unknown.
    Failed,
}

/// The effect of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// New state of the object, if it changes.
    pub written: Option<ContentId>,
    /// True if the pass has the present state of the object after this answer, false if it has not;
    /// `None` if the answer does not change this.
    pub holds: Option<bool>,
    /// True if the cache receives the new state with the answer.
    pub is_seen: bool,
    /// Next state of the pass.
    pub talk: TalkId,
    /// Violated rule, if any.
    pub alarm: Option<Alarm>,
}

/// The end of a pass or a teardown.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// The end of a pass.
    Pass {
        /// New status.
        status: Status,
        /// Fingerprints to store.
        learned: [SettledId; OBJECTS],
        /// Result of the pass.
        result: PassResult,
    },
    /// The end of a teardown.
    Teardown {
        /// New status, if the revision stays.
        status: Status,
        /// True if the revision has no objects left.
        is_done: bool,
    },
}
