//! The verdicts about objects that are compared.

use baton_apis::CollisionProtection;
use baton_engine::Gvk;

use crate::children::Owner;

/// The outcome for an object, or the difference of its two sides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Fate {
    /// Both sides are equal.
    #[default]
    Unchanged,
    /// Only the second side has it.
    Added,
    /// It has another content.
    Changed,
    /// Only the first side has it.
    Removed,
    /// Its treatment differs, and its manifest does not.
    SameManifest,
    /// The cluster does not have it.
    Absent,
    /// The cluster has it with another content.
    Different,
    /// The cluster has it as it is wanted, and others have set more.
    AsWanted,
    /// Created.
    Created,
    /// Deleted and created anew.
    Recreated,
    /// An older revision had it with the same content.
    HandedOver,
    /// Taken over from this controller, which is no revision of the chain.
    TakenOver(Owner),
    /// Taken over with the content that it has.
    Adopted,
    /// Taken over with a content that gives it other pods.
    Restarted,
    /// Left to this newer revision.
    Left(String),
    /// Not compared, for this reason.
    NotCompared(Unseen),
    /// Let go instead of deleted, at this time.
    Kept(When),
    /// Deleted at this time.
    Deleted(When),
    /// Deleted at this time, as far as is known without a look at it.
    MaybeDeleted(When),
    /// This controller has the same revision number.
    SameNumber(Owner),
    /// The protection leaves it to its controller.
    Protected {
        /// The controller.
        owner: Owner,
        /// The protection.
        protection: CollisionProtection,
    },
    /// The revision has it twice.
    Twice,
    /// The server does not serve its kind.
    NotServed(Gvk),
    /// The revision names slices that do not exist.
    NoSlices(Vec<String>),
    /// Refused, for this reason.
    Refused(String),
    /// The server would refuse it, with these words.
    Invalid(String),
    /// Rendered manifests cannot be read, for this reason.
    Unreadable(String),
    /// There are no rendered manifests of this Release.
    NotRendered(String),
    /// The fates of all objects of a revision.
    Revision(Vec<(usize, Group)>),
}

/// Fates that are counted together, in the order in which they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// [`Fate::Created`], and others that add something.
    Created,
    /// [`Fate::Adopted`].
    Adopted,
    /// [`Fate::Changed`], and others that change something.
    Changed,
    /// [`Fate::Recreated`].
    Recreated,
    /// [`Fate::HandedOver`].
    HandedOver,
    /// [`Fate::Left`], and others that leave it as it is.
    Left,
    /// [`Fate::NotCompared`].
    NotCompared,
    /// [`Fate::Kept`].
    Kept,
    /// [`Fate::Deleted`], and others that remove something.
    Deleted,
    /// [`Fate::Refused`], and others that are refusals.
    Refused,
}

/// The time when an object goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum When {
    /// When the revision of this number is available.
    Available(i64),
    /// When the revision of this name is archived, or all those before are.
    Archived(Option<String>),
}

/// The obstacle to a look at an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unseen {
    /// The controller of this class delivers it, perhaps to another cluster.
    Class(String),
    /// Its kind cannot be read, for this reason.
    Unreadable(String),
}

impl Group {
    /// True if they leave objects as they are, or nothing is known of them.
    pub fn is_same(self) -> bool {
        matches!(
            self,
            Self::Adopted | Self::HandedOver | Self::Kept | Self::Left | Self::NotCompared
        )
    }
}

impl Fate {
    /// The fates that it is counted with.
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

    /// The number of fates in each group that has any.
    #[must_use]
    pub fn count(groups: impl IntoIterator<Item = Group>) -> Self {
        let mut groups: Vec<Group> = groups.into_iter().collect();
        groups.sort();
        let groups = groups.chunk_by(|a, b| a == b);
        Self::Revision(groups.map(|group| (group.len(), group[0])).collect())
    }
}
