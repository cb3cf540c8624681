//! Notes on compared objects.

use baton_engine::{ObjectKey, definitions};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::outcome::UnreadReason;
use crate::{chain::target::Target, children::Owner, sites::forecast::Effect};

/// A further fact about a compared object.
#[derive(Clone, Debug, PartialEq)]
pub enum ObjectNote {
    /// The two sides of a setting, as lists of texts.
    Changed {
        /// The name of the field.
        field: &'static str,
        /// The first side.
        from: Vec<String>,
        /// The second side.
        to: Vec<String>,
    },
    /// The origin of a revision, such as a release of Helm.
    Origin(String),
    /// The deployment creates no revision until it is resumed.
    Paused(Target),
    /// There are no revisions of these names to follow.
    NoPrevious(Vec<String>),
    /// Number of objects that are handed over unchanged and have no section.
    NotListed(usize),
    /// The kind of the object is not served.
    NotServed,
    /// The object is not checked, because the revision defines its kind.
    KindIsNew,
    /// The object is not checked, because the revision changes its kind.
    KindChanges,
    /// The object is not checked completely, because the revision makes its namespace.
    NamespaceIsNew,
    /// The object is not checked by the server, because the user may not patch it.
    Unchecked,
    /// The object is compared without the server, because the user may not patch it.
    AsWritten,
    /// The server would refuse the wanted content, with this message.
    Refused(String),
    /// The revision would be refused: the change of the definition would lose data.
    LosesData(String),
    /// The definition changes in a way that loses no data.
    Definition(definitions::Note),
    /// The object was not read.
    Unseen(UnreadReason),
    /// The object runs once per content: content that an older revision has run is not run again.
    RunsOnce,
    /// The object is deleted before the change.
    DeletedNow,
    /// The object is being deleted.
    Deleting,
    /// This controller, which is not the revision, controls the object.
    ControlledBy(Owner),
    /// The phase object of the object reports this availability.
    Phase(Condition),
    /// The take-over removes fields.
    Removes {
        /// The tools that applied the fields; empty for an earlier release.
        tools: Vec<String>,
        /// The paths of the fields.
        paths: Vec<String>,
        /// The error of the check by the server; `None` if the check succeeded.
        unchecked: Option<String>,
    },
    /// Fields at these paths stay with this manager.
    SetBy(String, Vec<String>),
    /// Number of further fields that stay with controllers of Kubernetes.
    SetByKubernetes(usize),
    /// The identity of the object in the first of two Releases.
    Was(ObjectKey),
    /// A note on the Releases of an Application.
    Release(ReleaseNote),
    /// The effect on a version of an application for sites, and the deployments that bring the
    /// version to sites, each with its number of sites.
    Version(String, Effect, Vec<(String, i32)>),
}

/// The effect of an apply on the Releases of an Application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReleaseNote {
    /// A range of chart versions is resolved again. It was resolved to this version before.
    Resolved(String, String),
    /// The first Release is created, with this hash.
    First(String),
    /// The Release with this name already has the wanted environment.
    Same(String),
    /// A Release with this generation and hash is created.
    New(i64, String),
    /// The rollout of the Release with this name is given up.
    GivenUp(String),
    /// An older Release, with this name and generation, has the same environment and manifests.
    HadTheSame(String, i64),
    /// The manifests are not rendered before the apply.
    NotRendered,
}
