//! The pure core: compares the objects that a revision wants with those that exist, and decides
//! which requests to send.
//!
//! The engine does no I/O, reads no clock and awaits nothing. A pass over a revision is a loop: the
//! engine names the [`Request`]s that may be sent concurrently, the caller sends them and returns
//! the [`Answer`]s, until the engine has an outcome. The controllers run the loop with an API
//! server, the property tests with a model of an API server.

pub mod autoscaling;
pub mod brake;
pub mod chain;
pub mod chain_names;
pub mod condition_list;
pub mod conditions;
pub mod containers;
pub mod definitions;
pub mod delegated;
pub mod deployment;
pub mod diff;
pub mod disputes;
pub mod ended;
pub mod handover;
pub mod heirs;
pub mod keep;
pub mod mapping;
pub mod names;
pub mod object;
pub mod object_pass;
pub mod operations;
pub mod owners;
pub mod pass;
pub mod preflight;
pub mod quoted;
pub mod readiness;
pub mod recreate;
pub mod redact;
pub mod revision;
pub mod rollout_blocks;
pub mod slice_parts;
pub mod stop;
pub mod stored_time;
pub mod teardown;
#[cfg(test)]
mod tests;
pub mod texts;
pub mod weight;
pub mod workload;

use std::{fmt, sync::Arc};

use definitions::{Affected, Question};
use diff::leftovers::Leftovers;
use serde_json::Value;

/// A kind and its version, as an object names them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gvk {
    /// API group, empty for the core group.
    pub group: String,
    /// Version, such as `v1`.
    pub version: String,
    /// Kind, such as `ConfigMap`.
    pub kind: String,
}

impl Gvk {
    /// Splits an object's `apiVersion` and adds its `kind`.
    #[must_use]
    pub fn new(api_version: &str, kind: &str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
        }
    }

    /// The `apiVersion` of an object of this kind.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The identity of an object of this kind; the namespace is empty for a cluster-scoped object.
    pub fn key(&self, namespace: &str, name: &str) -> ObjectKey {
        ObjectKey {
            group: self.group.clone(),
            kind: self.kind.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

/// Prints as in Go: `apps/v1, Kind=Deployment`, and `/v1, Kind=ConfigMap` for the core group.
impl fmt::Display for Gvk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

/// An object's identity in one cluster, independent of the version that the object is read in.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// API group, empty for the core group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// Prints `ConfigMap default/settings`, `Deployment.apps default/web`, `Namespace /prod`.
impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        write!(f, " {}/{}", self.namespace, self.name)
    }
}

/// A request of the engine to the API server about one object.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Read the object from the server, not from a cache.
    Get,
    /// Check if the server would accept the create of an object that is expected to be absent; the
    /// body is that of the create. A dry run of the apply, or a cheaper one that shows the same.
    DryRunCreate(Value),
    /// Apply forced, as a dry run. The body has the `resourceVersion` that the decision is based
    /// on.
    DryRunApply(Value),
    /// Change the object by a merge patch, as a dry run. The body has the uid and `resourceVersion`
    /// that the decision is based on. The answer shows if the server accepts the body of an apply
    /// without [leftovers](diff::leftovers).
    DryRunMerge(Value),
    /// Apply unforced an object that is expected to be absent.
    ///
    /// The body has a `resourceVersion` that no object has: if the object exists, a server that
    /// compares versions answers [`Answer::Conflict`]. A server that does not compare them merges,
    /// and answers [`Answer::Merged`].
    Create(Value),
    /// Apply forced. The body has the `resourceVersion` that the decision is based on.
    Apply(Value),
    /// Unite the legacy entries of `managedFields`, and those of former managers, with the entry of
    /// our applies ([`diff::legacy::migrated`]), and give it the leftovers.
    ///
    /// An object in another state than `live` does not change, and the answer has the object as it
    /// is.
    Migrate {
        /// The state of the live object that the decision is based on.
        live: Precondition,
        /// The former managers, if the object is taken over.
        former: Vec<String>,
        /// The fields without an owner that the next apply has to remove.
        leftovers: Leftovers,
    },
    /// Apply an empty configuration, which gives up every field that an unforced apply merged into
    /// a foreign object.
    TakeBack,
    /// Remove the owner reference with this uid and change nothing else.
    Release {
        /// UID in the owner reference to remove.
        owner_uid: String,
        /// The state of the live object that the decision is based on.
        live: Precondition,
        /// Text of the annotation without the removed owner, if the owners are listed in the
        /// annotation.
        left: Option<String>,
    },
    /// Give the object another controller and revision number by a merge patch of its metadata. The
    /// body has all owners, and the uid and `resourceVersion` that the decision is based on.
    HandOver(Value),
    /// Find the first stored object that a change of the definition of its kind affects.
    FindAffected(Arc<Question>),
    /// Delete the object.
    Delete(Precondition),
    /// Delete the object after all its dependents, to create it again.
    DeleteForRecreation(Precondition),
}

/// The state of an object that a write is based on; the server refuses the write in any other
/// state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Precondition {
    /// UID of the object.
    pub uid: String,
    /// `metadata.resourceVersion` of the object.
    pub resource_version: String,
    /// For a release: position of the owner reference in the list; valid only for this
    /// `resourceVersion`.
    pub owner_index: usize,
}

/// The API server's answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The object as it is now (`Get`), as it was written, or as a dry run would write it. Also the
    /// answer to a `Delete` if the object remains and waits for finalizers.
    Object(Value),
    /// The object did not exist and was created; or a dry run would create it.
    Created(Value),
    /// An apply of an object that was expected to be absent found one. `Create` has merged into it.
    Merged(Value),
    /// The answer to [`Request::FindAffected`].
    Affected(Affected),
    /// The object does not exist, or no longer exists; also the answer to a `Delete` that removed
    /// it.
    NotFound,
    /// The object is not in the state that the request is based on, or exists with conflicting
    /// fields. The object has to be read again and the decision made again.
    Conflict,
    /// The server does not serve the kind, or no longer serves it.
    KindNotServed,
    /// The server refused the content or the right to write it; the text is for people. A retry
    /// helps only after something else has changed.
    Refused(String),
    /// Like [`Answer::Refused`], for an apply; the only reason is that fields are immutable.
    Immutable(String),
    /// The request failed for a reason that may pass: network, overload, server error.
    Failed(String),
}

impl Answer {
    /// The answer with a text that does not quote values of these objects: see [`redact::about`].
    #[must_use]
    pub fn without_values(self, objects: &[Option<&Value>]) -> Self {
        let objects: Vec<_> = objects.iter().copied().flatten().collect();
        let about = |text: String| redact::about(&text, &objects);
        match self {
            Self::Refused(text) => Self::Refused(about(text)),
            Self::Immutable(text) => Self::Immutable(about(text)),
            Self::Failed(text) => Self::Failed(about(text)),
            other => other,
        }
    }
}
