//! The outcomes of objects in a comparison.

use baton_apis::CollisionProtection;
use baton_engine::Gvk;

use crate::children::Owner;

/// The outcome for an object, or the difference of its two sides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DiffOutcome {
    /// Both sides are equal.
    #[default]
    Unchanged,
    /// Only the second side has the object.
    Added,
    /// The content differs.
    Changed,
    /// Only the first side has the object.
    Removed,
    /// The treatment of the object differs, but not its manifest.
    SameManifest,
    /// The object does not exist in the cluster.
    Absent,
    /// The object in the cluster has another content.
    Different,
    /// The wanted fields are as wanted, and other managers have set further fields.
    AsWanted,
    /// Created.
    Created,
    /// Deleted and created again.
    Recreated,
    /// Handed over from a previous revision without a change of the content.
    HandedOver,
    /// Taken over from this controller, which is not a revision of the chain.
    TakenOver(Owner),
    /// Taken over without a change of the content.
    Adopted,
    /// Taken over with a change that replaces its pods.
    Restarted,
    /// Left to the newer revision with this name.
    Left(String),
    /// Not compared, for this reason.
    NotCompared(UnreadReason),
    /// Released instead of deleted, at this time.
    Kept(RemovalTime),
    /// Deleted at this time.
    Deleted(RemovalTime),
    /// Deleted at this time, unless it is gone or to be kept. The object was not read.
    MaybeDeleted(RemovalTime),
    /// Refused, because this controller has the same revision number.
    SameNumber(Owner),
    /// Refused, because the collision protection leaves the object to its controller.
    Protected {
        /// The controller.
        owner: Owner,
        /// The protection.
        protection: CollisionProtection,
    },
    /// Refused, because the revision contains the object twice.
    Twice,
    /// Refused, because the server does not serve the kind.
    NotServed(Gvk),
    /// Refused, because the revision names slices that do not exist.
    NoSlices(Vec<String>),
    /// Refused, for this reason.
    Refused(String),
    /// The server would refuse the object, with this message.
    Invalid(String),
    /// The rendered manifests cannot be read, for this reason.
    Unreadable(String),
    /// The Release with this name has no rendered manifests.
    NotRendered(String),
    /// The outcomes of all objects of a revision.
    Revision(Vec<(usize, Group)>),
}

/// Groups of outcomes that are counted together, in the order of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// [`DiffOutcome::Created`], and other outcomes that add an object.
    Created,
    /// [`DiffOutcome::Adopted`].
    Adopted,
    /// [`DiffOutcome::Changed`], and other outcomes that change an object.
    Changed,
    /// [`DiffOutcome::Recreated`].
    Recreated,
    /// [`DiffOutcome::HandedOver`].
    HandedOver,
    /// [`DiffOutcome::Left`], and other outcomes that leave an object as it is.
    Left,
    /// [`DiffOutcome::NotCompared`].
    NotCompared,
    /// [`DiffOutcome::Kept`].
    Kept,
    /// [`DiffOutcome::Deleted`], and other outcomes that remove an object.
    Deleted,
    /// [`DiffOutcome::Refused`], and other refusals.
    Refused,
}

/// The time when an object is deleted or released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemovalTime {
    /// When the revision with this number is available.
    Available(i64),
    /// When the revision with this name is archived; without a name, when all previous revisions
    /// are.
    Archived(Option<String>),
}

/// The reason that an object was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnreadReason {
    /// The controller of this class delivers the object, perhaps to another cluster.
    Class(String),
    /// The kind cannot be read, for this reason.
    Unreadable(String),
}

impl Group {
    /// True if the group leaves objects as they are, or does not compare them.
    pub fn is_same(self) -> bool {
        matches!(
            self,
            Self::Adopted | Self::HandedOver | Self::Kept | Self::Left | Self::NotCompared
        )
    }
}

impl DiffOutcome {
    /// The group of the outcome.
    pub fn group(&self) -> Group {
        match self {
            Self::Added | Self::Created | Self::Revision(_) => Group::Created,
            Self::Adopted => Group::Adopted,
            Self::Changed
            | Self::SameManifest
            | Self::Different
            | Self::TakenOver(_)
            | Self::Restarted => Group::Changed,
            Self::Recreated => Group::Recreated,
            Self::HandedOver => Group::HandedOver,
            Self::Unchanged | Self::AsWanted | Self::Left(_) => Group::Left,
            Self::NotCompared(_) => Group::NotCompared,
            Self::Kept(_) => Group::Kept,
            Self::Removed | Self::Absent | Self::Deleted(_) | Self::MaybeDeleted(_) => {
                Group::Deleted
            }
            Self::SameNumber(_)
            | Self::Protected { .. }
            | Self::Twice
            | Self::NotServed(_)
            | Self::NoSlices(_)
            | Self::Refused(_)
            | Self::Invalid(_)
            | Self::Unreadable(_)
            | Self::NotRendered(_) => Group::Refused,
        }
    }

    /// Counts the outcomes per group; groups without outcomes are left out.
    #[must_use]
    pub fn count(groups: impl IntoIterator<Item = Group>) -> Self {
        let mut groups: Vec<Group> = groups.into_iter().collect();
        groups.sort();
        let groups = groups.chunk_by(|a, b| a == b);
        Self::Revision(groups.map(|group| (group.len(), group[0])).collect())
    }
}
