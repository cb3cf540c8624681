//! The picture of chains: revisions, their phases and objects, with live health and owners.
//!
//! [`question`] reads the objects, `build` makes the picture, and [`unhealthy`] leaves out healthy
//! parts.

mod build;
pub mod question;
pub mod unhealthy;

use serde::Serialize;

use crate::chain::member::State;

/// A deployment with its revisions, or revisions without a deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChainPicture {
    /// The deployment; `None` for revisions without one.
    pub deployment: Option<DeploymentPicture>,
    /// Namespace of the chain; `None` for a cluster-scoped one.
    pub namespace: Option<String>,
    /// The revisions, newest first.
    pub revisions: Vec<RevisionPicture>,
}

/// A deployment, as it is drawn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentPicture {
    /// Kind of the deployment.
    pub kind: String,
    /// Name of the deployment.
    pub name: String,
    /// Status of the condition `Available`; `Unknown` if it was not reported.
    pub available: Health,
    /// True if the deployment is paused.
    pub paused: bool,
    /// True while the deployment is being deleted.
    pub deleting: bool,
    /// Message about the deployment; empty when all is well.
    pub message: String,
    /// The reference that users type, such as `od/web`.
    #[serde(skip)]
    pub target: String,
}

/// A revision with its phases, as it is drawn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RevisionPicture {
    /// Kind of the revision.
    pub kind: String,
    /// Name of the revision.
    pub name: String,
    /// Number of the revision; `None` if none is assigned yet.
    pub revision: Option<i64>,
    /// State of the revision, in one word.
    pub state: State,
    /// Number of healthy objects that the revision controls.
    pub healthy: usize,
    /// Number of objects that the revision wants.
    pub objects: usize,
    /// Message about the revision as a whole; empty if the objects show everything.
    pub message: String,
    /// Name of the Shipper Release that the revision installs, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// Version of an application that the revision brings to a site, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The phases in the order in which they roll out; `None` for an archived revision that was not
    /// read.
    pub phases: Option<Vec<PhasePicture>>,
}

/// A phase of a revision, as it is drawn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PhasePicture {
    /// Name of the phase.
    pub name: String,
    /// Class of the controller that runs the phase; empty for the controller of the revision.
    pub class: String,
    /// Number of healthy objects that the revision controls. If they cannot be read from here, all
    /// count when the phase is available.
    pub healthy: usize,
    /// Message about the phase as a whole.
    pub message: String,
    /// The `ObjectSetPhase` of a delegated phase, if it exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delegate: Option<DelegatePicture>,
    /// The objects, in order.
    pub objects: Vec<ObjectPicture>,
    /// Number of further objects that are not shown.
    #[serde(skip_serializing_if = "is_zero")]
    pub hidden: usize,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl PhasePicture {
    /// Number of objects, shown or not.
    pub fn total(&self) -> usize {
        self.objects.len() + self.hidden
    }
}

/// The `ObjectSetPhase` of a delegated phase.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DelegatePicture {
    /// Kind of the object.
    pub kind: String,
    /// Name of the object.
    pub name: String,
    /// Status of the condition `Available`.
    pub available: Health,
    /// Reason of the condition `Available`.
    pub reason: String,
}

/// An object of a revision, as it is drawn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectPicture {
    /// API group of the object; empty for the core group.
    pub group: String,
    /// Kind of the object.
    pub kind: String,
    /// Namespace of the object; empty for a cluster-scoped one.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// Result of the probes of the revision.
    pub healthy: Health,
    /// Controller of the object.
    pub owner: OwnerPicture,
    /// The reason that the object is not healthy, and other remarks.
    pub message: String,
}

/// The result of probes, or the status of a condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Health {
    /// All probes pass.
    True,
    /// At least one probe fails.
    False,
    /// At least one probe cannot be evaluated, or the object cannot be read.
    #[default]
    Unknown,
}

/// The controller of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "type")]
pub enum OwnerPicture {
    /// The revision that wants the object.
    ThisRevision {
        /// Number of the revision; `None` if none is assigned yet.
        revision: Option<i64>,
        /// Name of the revision.
        name: String,
    },
    /// Another revision of the chain.
    OtherRevision {
        /// Number of the revision; `None` if none is assigned yet.
        revision: Option<i64>,
        /// Name of the revision.
        name: String,
    },
    /// Another object.
    Stranger {
        /// Kind of the controller.
        kind: String,
        /// Name of the controller.
        name: String,
    },
    /// The object exists and has no controller.
    Nobody,
    /// The object does not exist.
    Missing,
    /// The object has run to its end, and was deleted by its own rule.
    Ended,
    /// The controller of the phase's class, perhaps in another cluster.
    Delegated {
        /// Name of the class.
        class: String,
    },
    /// The object cannot be read.
    #[default]
    Unknown,
}

impl ObjectPicture {
    /// True if the object counts as ready for its revision. An object that another revision
    /// controls does not count.
    pub fn is_ready(&self) -> bool {
        let is_own = matches!(
            self.owner,
            OwnerPicture::ThisRevision { .. }
                | OwnerPicture::Delegated { .. }
                | OwnerPicture::Ended
        );
        is_own && self.healthy == Health::True
    }
}

impl Health {
    /// The status as conditions write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }

    /// The health for the status of a condition; an absent status is unknown.
    #[must_use]
    pub fn of_status(status: Option<&str>) -> Self {
        match status {
            Some("True") => Self::True,
            Some("False") => Self::False,
            _ => Self::Unknown,
        }
    }
}
