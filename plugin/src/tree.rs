//! The picture of chains that `tree` shows: revisions, their phases and objects, with live health and
//! owners.
//!
//! [`mod@read`] reads what it is made of, [`build`] makes it, [`render`] makes a text of it.

pub mod build;
pub mod read;
pub mod render;

use serde::Serialize;

/// A chain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChainPicture {
    /// The deployment; `None` for revisions that stand alone.
    pub deployment: Option<DeploymentPicture>,
    /// Its namespace; `None` for a cluster-scoped one.
    pub namespace: Option<String>,
    /// Newest first.
    pub revisions: Vec<RevisionPicture>,
}

/// The head of a chain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentPicture {
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
    /// Status of its condition `Available`; `Unknown` while there is none.
    pub available: Health,
    /// Whether it is paused.
    pub paused: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// What is to be said about it; empty when all is well.
    pub message: String,
    /// What can be typed for it, such as `od/web`.
    #[serde(skip)]
    pub target: String,
}

/// A revision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RevisionPicture {
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
    /// Number, once it has one.
    pub revision: Option<i64>,
    /// What it is doing, in one word.
    pub state: &'static str,
    /// How many of its objects are healthy.
    pub healthy: usize,
    /// How many objects it wants.
    pub objects: usize,
    /// What is to be said about it as a whole; empty when its objects say it all.
    pub message: String,
    /// In the order in which they roll out; `None` for an archived one that was not looked at.
    pub phases: Option<Vec<PhasePicture>>,
}

/// A phase.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PhasePicture {
    /// Name.
    pub name: String,
    /// Which controller runs it; empty for the revision's own.
    pub class: String,
    /// How many of its objects are healthy. Where they cannot be read from here, all of them are when the phase is
    /// available.
    pub healthy: usize,
    /// What is to be said about it as a whole.
    pub message: String,
    /// What stands for it where another controller runs it, if that exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delegate: Option<DelegatePicture>,
    /// Its objects.
    pub objects: Vec<ObjectPicture>,
}

/// An `ObjectSetPhase`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DelegatePicture {
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
    /// Status of its condition `Available`.
    pub available: Health,
    /// Reason of that condition.
    pub reason: String,
}

/// An object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectPicture {
    /// API group, empty for the core group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// What the revision's probes say.
    pub healthy: Health,
    /// Who controls it.
    pub owner: OwnerPicture,
    /// Why it is not healthy, and what else is to be said about it.
    pub message: String,
}

/// What probes say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Health {
    /// They pass.
    True,
    /// At least one fails.
    False,
    /// At least one cannot be decided, or nothing is known of the object.
    #[default]
    Unknown,
}

/// Who controls an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "type")]
pub enum OwnerPicture {
    /// The revision that wants it.
    ThisRevision {
        /// Its number, once it has one.
        revision: Option<i64>,
        /// Its name.
        name: String,
    },
    /// Another revision of the chain.
    OtherRevision {
        /// Its number, once it has one.
        revision: Option<i64>,
        /// Its name.
        name: String,
    },
    /// Something else.
    Stranger {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
    },
    /// The object exists and has no controller.
    Nobody,
    /// There is no such object.
    Missing,
    /// The controller of the phase's class, perhaps in another cluster.
    Delegated {
        /// The class.
        class: String,
    },
    /// The object cannot be read.
    #[default]
    Unknown,
}

impl Health {
    /// As in conditions.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }

    /// The status of a condition; an absent one is unknown.
    #[must_use]
    pub fn of_status(status: Option<&str>) -> Self {
        match status {
            Some("True") => Self::True,
            Some("False") => Self::False,
            _ => Self::Unknown,
        }
    }
}
