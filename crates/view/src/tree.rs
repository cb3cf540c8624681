//! The picture of chains: revisions, their phases and objects, with live health and owners.
//!
//! [`question`] reads what it needs, `build` makes it, [`unhealthy`] leaves out what is fine.

mod build;
pub mod question;
pub mod unhealthy;

use serde::Serialize;

use crate::chain::member::State;

/// A deployment with its revisions, or revisions without a deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChainPicture {
    /// The deployment; `None` for revisions that stand alone.
    pub deployment: Option<DeploymentPicture>,
    /// Its namespace; `None` for a cluster-scoped one.
    pub namespace: Option<String>,
    /// The newest first.
    pub revisions: Vec<RevisionPicture>,
}

/// A deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentPicture {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Status of its condition `Available`; `Unknown` while there is none.
    pub available: Health,
    /// True if it is paused.
    pub paused: bool,
    /// True while it is being deleted.
    pub deleting: bool,
    /// What is to be said about it; empty when all is well.
    pub message: String,
    /// What can be typed for it, such as `od/web`.
    #[serde(skip)]
    pub target: String,
}

/// A revision with what it wants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RevisionPicture {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Number, once it has one.
    pub revision: Option<i64>,
    /// What it is doing, in one word.
    pub state: State,
    /// How many of its objects are healthy and its own.
    pub healthy: usize,
    /// How many objects it wants.
    pub objects: usize,
    /// What is to be said about it as a whole; empty when its objects say it all.
    pub message: String,
    /// The Release of Shipper's that it installs, if it is of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// The version of an application that it brings to a site, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// In the order in which they roll out; `None` for an archived one that was not looked at.
    pub phases: Option<Vec<PhasePicture>>,
}

/// A phase of a revision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PhasePicture {
    /// Its name.
    pub name: String,
    /// Which controller runs it; empty for the revision's own.
    pub class: String,
    /// How many of its objects are healthy and its revision's. Where they cannot be read from here, all of them are
    /// when the phase is available.
    pub healthy: usize,
    /// What is to be said about it as a whole.
    pub message: String,
    /// What stands for it where another controller runs it, if that exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delegate: Option<DelegatePicture>,
    /// Its objects, in order.
    pub objects: Vec<ObjectPicture>,
    /// How many more it has that are not shown.
    #[serde(skip_serializing_if = "is_zero")]
    pub hidden: usize,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl PhasePicture {
    /// How many objects it has, shown or not.
    pub fn total(&self) -> usize {
        self.objects.len() + self.hidden
    }
}

/// The object that stands for a delegated phase.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DelegatePicture {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Status of its condition `Available`.
    pub available: Health,
    /// Reason of that condition.
    pub reason: String,
}

/// An object of a revision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectPicture {
    /// API group, empty for the core group.
    pub group: String,
    /// Its kind.
    pub kind: String,
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What the probes of the revision say of it.
    pub healthy: Health,
    /// Its controller.
    pub owner: OwnerPicture,
    /// Why it is not healthy, and what else is to be said about it.
    pub message: String,
}

/// The result of probes, or the status of a condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Health {
    /// All probes pass.
    True,
    /// At least one does not.
    False,
    /// At least one cannot be decided, or nothing is known of the object.
    #[default]
    Unknown,
}

/// The controller of an object.
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
    /// The object does not exist.
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

impl ObjectPicture {
    /// Whether it counts for its revision: what another one has is none of its objects, however well it does.
    pub fn is_ready(&self) -> bool {
        let is_own = matches!(
            self.owner,
            OwnerPicture::ThisRevision { .. } | OwnerPicture::Delegated { .. }
        );
        is_own && self.healthy == Health::True
    }
}

impl Health {
    /// As conditions have it.
    pub fn as_str(self) -> &'static str {
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
