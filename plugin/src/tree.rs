//! The picture of chains that `tree` shows: revisions, their phases and objects, with live health and
//! owners.
//!
//! [`mod@read`] reads what it is made of, [`build`] makes it, [`unhealthy`] leaves out what is fine, [`render`] makes a
//! text of it.

pub(crate) mod build;
pub(crate) mod read;
pub(crate) mod render;
mod unhealthy;

use serde::Serialize;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChainPicture {
    /// The deployment; `None` for revisions that stand alone.
    pub(crate) deployment: Option<DeploymentPicture>,
    /// Its namespace; `None` for a cluster-scoped one.
    pub(crate) namespace: Option<String>,
    pub(crate) revisions: Vec<RevisionPicture>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeploymentPicture {
    pub(crate) kind: String,
    pub(crate) name: String,
    /// Status of its condition `Available`; `Unknown` while there is none.
    pub(crate) available: Health,
    pub(crate) paused: bool,
    pub(crate) deleting: bool,
    /// What is to be said about it; empty when all is well.
    pub(crate) message: String,
    /// What can be typed for it, such as `od/web`.
    #[serde(skip)]
    pub(crate) target: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RevisionPicture {
    pub(crate) kind: String,
    pub(crate) name: String,
    /// Number, once it has one.
    pub(crate) revision: Option<i64>,
    /// What it is doing, in one word.
    pub(crate) state: &'static str,
    /// How many of its objects are healthy and its own.
    pub(crate) healthy: usize,
    pub(crate) objects: usize,
    /// What is to be said about it as a whole; empty when its objects say it all.
    pub(crate) message: String,
    /// The Release of Shipper's that it installs, if it is of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) release: Option<String>,
    /// The version of an application that it brings to a site, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<String>,
    /// In the order in which they roll out; `None` for an archived one that was not looked at.
    pub(crate) phases: Option<Vec<PhasePicture>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PhasePicture {
    pub(crate) name: String,
    /// Which controller runs it; empty for the revision's own.
    pub(crate) class: String,
    /// How many of its objects are healthy and its revision's. Where they cannot be read from here, all of them are
    /// when the phase is available.
    pub(crate) healthy: usize,
    /// What is to be said about it as a whole.
    pub(crate) message: String,
    /// What stands for it where another controller runs it, if that exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) delegate: Option<DelegatePicture>,
    pub(crate) objects: Vec<ObjectPicture>,
    /// How many more it has that are not shown.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) hidden: usize,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl PhasePicture {
    /// How many objects it has, shown or not.
    pub(crate) fn total(&self) -> usize {
        self.objects.len() + self.hidden
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DelegatePicture {
    pub(crate) kind: String,
    pub(crate) name: String,
    /// Status of its condition `Available`.
    pub(crate) available: Health,
    pub(crate) reason: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ObjectPicture {
    /// API group, empty for the core group.
    pub(crate) group: String,
    pub(crate) kind: String,
    /// Namespace, empty for cluster-scoped objects.
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) healthy: Health,
    pub(crate) owner: OwnerPicture,
    /// Why it is not healthy, and what else is to be said about it.
    pub(crate) message: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) enum Health {
    True,
    False,
    /// At least one cannot be decided, or nothing is known of the object.
    #[default]
    Unknown,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "type")]
pub(crate) enum OwnerPicture {
    ThisRevision {
        /// Its number, once it has one.
        revision: Option<i64>,
        name: String,
    },
    OtherRevision {
        /// Its number, once it has one.
        revision: Option<i64>,
        name: String,
    },
    Stranger {
        kind: String,
        name: String,
    },
    /// The object exists and has no controller.
    Nobody,
    Missing,
    /// The controller of the phase's class, perhaps in another cluster.
    Delegated {
        class: String,
    },
    #[default]
    Unknown,
}

impl ObjectPicture {
    /// Whether it counts for its revision: what another one has is none of its objects, however well it does.
    pub(crate) fn is_ready(&self) -> bool {
        let is_own = matches!(
            self.owner,
            OwnerPicture::ThisRevision { .. } | OwnerPicture::Delegated { .. }
        );
        is_own && self.healthy == Health::True
    }
}

impl Health {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }

    /// The status of a condition; an absent one is unknown.
    pub(crate) fn of_status(status: Option<&str>) -> Self {
        match status {
            Some("True") => Self::True,
            Some("False") => Self::False,
            _ => Self::Unknown,
        }
    }
}
