//! More to know of objects that are compared.

use baton_engine::ObjectKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::fate::Unseen;
use crate::{chain::target::Target, children::Owner, sites::forecast::Effect};

/// One thing to know.
#[derive(Clone, Debug, PartialEq)]
pub enum Note {
    /// The two sides of a setting, as lists of texts.
    Changed {
        /// Its field.
        field: &'static str,
        /// The first side.
        from: Vec<String>,
        /// The second side.
        to: Vec<String>,
    },
    /// The origin of a revision, such as a release of Helm.
    Origin(String),
    /// The deployment makes no revision until it is resumed.
    Paused(Target),
    /// There are no revisions of these names to follow.
    NoPrevious(Vec<String>),
    /// So many objects that are handed over unchanged have no section.
    NotListed(usize),
    /// Its kind is not served.
    NotServed,
    /// It is not checked, as the revision defines its kind.
    KindIsNew,
    /// It is not checked, as the revision changes its kind.
    KindChanges,
    /// It is not checked whole, as the revision makes its namespace.
    NamespaceIsNew,
    /// The server has not checked it, for lack of the right to patch it.
    Unchecked,
    /// It is compared without the server, for lack of the right to patch it.
    AsWritten,
    /// The server would refuse what is wanted, with these words.
    Refused(String),
    /// Nobody has looked at it.
    Unseen(Unseen),
    /// A content that an older revision has run is not run again.
    RunsOnce,
    /// It is being deleted before the change.
    DeletedNow,
    /// It is being deleted.
    Deleting,
    /// Something else than the revision controls it.
    ControlledBy(Owner),
    /// The object that stands for its phase reports this of its availability.
    Phase(Condition),
    /// A take-over removes fields.
    Removes {
        /// The tools that applied them; none for an earlier release.
        tools: Vec<String>,
        /// Their paths.
        paths: Vec<String>,
        /// The error of the server that did not check it.
        unchecked: Option<String>,
    },
    /// Fields stay with this manager, at these paths.
    SetBy(String, Vec<String>),
    /// So many more fields stay with controllers of Kubernetes.
    SetByKubernetes(usize),
    /// Its identity in the first of two Releases.
    Was(ObjectKey),
    /// The future of the Releases of an Application.
    Release(ReleaseNote),
    /// The effect on a version of an application for sites, and the deployments that bring it to sites, each with the
    /// number of those.
    Version(String, Effect, Vec<(String, i32)>),
}

/// One thing to know of the Releases of an Application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReleaseNote {
    /// A range of versions of a chart, which was a version the last time, is resolved once more.
    Resolved(String, String),
    /// The first Release, of this hash, is made.
    First(String),
    /// This Release is what is wanted.
    Same(String),
    /// A Release of this generation and hash is made.
    New(i64, String),
    /// The rollout of this Release is given up.
    GivenUp(String),
    /// An older Release, of this name and generation, had the same manifests.
    HadTheSame(String, i64),
    /// Manifests are rendered with the apply.
    NotRendered,
}
