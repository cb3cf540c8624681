//! The verdicts about objects that are compared.

use std::fmt;

use baton_apis::CollisionProtection;

use super::Tone;

/// The outcome for an object, or the difference of its two sides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fate {
    #[default]
    Unchanged,
    Added,
    Changed,
    Removed,
    /// Its treatment differs, and its manifest does not.
    SameManifest,
    /// The cluster does not have it.
    Absent,
    /// The cluster has it with another content.
    Different,
    /// The cluster has it as it is wanted, and others have set more.
    AsWanted,
    Created,
    /// Deleted and created anew.
    Recreated,
    /// An older revision had it with the same content.
    HandedOver,
    /// Taken over from this owner, who is no revision of the chain.
    TakenOver(String),
    /// Taken over with the content that it has.
    Adopted,
    /// Taken over with a content that gives it other pods.
    Restarted,
    /// Left to this newer revision.
    Left(String),
    /// Not compared, for this reason.
    NotCompared(String),
    /// Let go instead of deleted, at this time.
    Kept(String),
    /// Deleted at this time.
    Deleted(String),
    /// Deleted at this time, as far as is known without a look at it.
    MaybeDeleted(String),
    /// This owner has the same revision number.
    SameNumber(String),
    /// The protection leaves it to its owner.
    Protected {
        owner: String,
        protection: CollisionProtection,
    },
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
pub(crate) enum Group {
    Created,
    Adopted,
    Changed,
    Recreated,
    HandedOver,
    Left,
    NotCompared,
    Kept,
    Deleted,
    Refused,
}

impl Fate {
    pub(crate) fn tone(&self) -> Tone {
        match self {
            Self::Added | Self::Created | Self::Revision(_) => Tone::Added,
            Self::Changed
            | Self::SameManifest
            | Self::Different
            | Self::Recreated
            | Self::TakenOver(_)
            | Self::Restarted => Tone::Changed,
            Self::Removed | Self::Absent | Self::Deleted(_) | Self::MaybeDeleted(_) => {
                Tone::Removed
            }
            Self::SameNumber(_)
            | Self::Protected { .. }
            | Self::Refused(_)
            | Self::Invalid(_)
            | Self::Unreadable(_)
            | Self::NotRendered(_) => Tone::Bad,
            Self::Unchanged
            | Self::AsWanted
            | Self::HandedOver
            | Self::Adopted
            | Self::Left(_)
            | Self::NotCompared(_)
            | Self::Kept(_) => Tone::Same,
        }
    }

    /// With which others it is counted.
    pub(crate) fn group(&self) -> Group {
        match (self, self.tone()) {
            (Self::Recreated, _) => Group::Recreated,
            (Self::HandedOver, _) => Group::HandedOver,
            (Self::Adopted, _) => Group::Adopted,
            (Self::NotCompared(_), _) => Group::NotCompared,
            (Self::Kept(_), _) => Group::Kept,
            (_, Tone::Added) => Group::Created,
            (_, Tone::Changed) => Group::Changed,
            (_, Tone::Removed) => Group::Deleted,
            (_, Tone::Bad) => Group::Refused,
            (_, Tone::Same) => Group::Left,
        }
    }

    /// How many of some fates are in each group that has any.
    pub(crate) fn count<'a>(fates: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut groups: Vec<Group> = fates.into_iter().map(Self::group).collect();
        groups.sort();
        let groups = groups.chunk_by(|a, b| a == b);
        Self::Revision(groups.map(|group| (group.len(), group[0])).collect())
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unchanged => f.write_str("unchanged"),
            Self::Added => f.write_str("added"),
            Self::Changed => f.write_str("changed"),
            Self::Removed => f.write_str("removed"),
            Self::SameManifest => f.write_str("same manifest"),
            Self::Absent => f.write_str("not in the cluster"),
            Self::Different => f.write_str("different in the cluster"),
            Self::AsWanted => f.write_str("as wanted, with fields of others"),
            Self::Created | Self::Recreated | Self::HandedOver | Self::Adopted => {
                write!(f, "{}", self.group())
            }
            Self::TakenOver(owner) => write!(f, "taken over from {owner}"),
            Self::Restarted => f.write_str("changed, and its pods are replaced"),
            Self::Left(newer) => write!(f, "left to revision {newer}"),
            Self::NotCompared(why) => write!(f, "not compared: {why}"),
            Self::Kept(when) => write!(f, "kept, without an owner, {when}"),
            Self::Deleted(when) => write!(f, "deleted {when}"),
            Self::MaybeDeleted(when) => {
                write!(f, "deleted {when}, unless it is gone or to be kept")
            }
            Self::SameNumber(owner) => {
                write!(f, "collides: {owner} has the same revision number")
            }
            Self::Protected { owner, protection } => write!(
                f,
                "collides: it exists, controlled by {owner}; collisionProtection {protection:?} leaves it alone"
            ),
            Self::Refused(why) => write!(f, "refused: {why}"),
            Self::Invalid(why) => write!(f, "the server would refuse that: {why}"),
            Self::Unreadable(why) => write!(f, "cannot be read: {why}"),
            Self::NotRendered(release) => {
                write!(f, "those of release {release} are not there (yet)")
            }
            Self::Revision(groups) if groups.is_empty() => f.write_str("no objects"),
            Self::Revision(groups) => {
                let counts = groups
                    .iter()
                    .map(|(count, group)| format!("{count} {group}"));
                f.write_str(&counts.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Created => "created",
            Self::Adopted => "taken over unchanged",
            Self::Changed => "changed",
            Self::Recreated => "deleted and created anew",
            Self::HandedOver => "handed over unchanged",
            // Those of newer revisions.
            Self::Left => "left alone",
            Self::NotCompared => "not compared",
            Self::Kept => "kept",
            Self::Deleted => "deleted",
            Self::Refused => "refused",
        })
    }
}
