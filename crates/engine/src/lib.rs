//! The pure core: compares what a revision wants with what exists, and decides what to do.
//!
//! Nothing in here does I/O, reads a clock or awaits. A pass over a revision is a loop:
//! the engine names [`Request`]s that may be sent side by side, the caller sends them and returns
//! the [`Answer`]s, until the engine has an outcome. The controllers run that loop with an API
//! server, the property tests with a model of one.

pub mod brake;
pub mod chain;
pub mod chain_names;
pub mod condition_list;
pub mod conditions;
pub mod containers;
pub mod delegated;
pub mod deployment;
pub mod diff;
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
pub mod readiness;
pub mod recreate;
pub mod redact;
pub mod revision;
pub mod slice_parts;
pub mod stop;
pub mod teardown;
#[cfg(test)]
mod tests;
pub mod texts;
pub mod workload;

use std::fmt;

use serde_json::Value;

/// A kind in a version, as an object names it.
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
    /// Splits an object's `apiVersion` and joins it with its `kind`.
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

    /// The identity of an object of this kind; the namespace is empty for a cluster-scoped one.
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

/// An object's identity in one cluster, whatever version it is read in.
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

/// What the engine asks of the API server for one object.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Read the object from the server, not from a cache.
    Get,
    /// Apply unforced, as a dry run, an object that is believed to be absent; the body is that of the create.
    DryRunCreate(Value),
    /// Apply forced, as a dry run. The body carries the `resourceVersion` it was decided upon.
    DryRunApply(Value),
    /// Apply unforced an object that is believed to be absent. The body carries a `resourceVersion` that no
    /// object has, so a server that compares versions answers [`Answer::Conflict`] if it exists. One that does
    /// not merges, and answers [`Answer::Merged`].
    Create(Value),
    /// Apply forced. The body carries the `resourceVersion` it was decided upon.
    Apply(Value),
    /// Unite the legacy entries of `managedFields`, and those of former managers, with that of our applies
    /// ([`diff::legacy::migrated`]). An object in any other state than this one is left as it is,
    /// and answered.
    Migrate {
        /// The live object it was decided upon.
        live: Precondition,
        /// The former managers, if it is taken over.
        former: Vec<String>,
    },
    /// Apply an empty configuration: gives up all that an unforced apply merged into a stranger.
    TakeBack,
    /// Remove the owner reference with this uid, nothing else.
    Release {
        /// UID in the owner reference to remove.
        owner_uid: String,
        /// The live object it was decided upon.
        live: Precondition,
        /// Where the owners are listed in the annotation: its text without this one.
        left: Option<String>,
    },
    /// Give the object another controller and revision number, by a merge patch of its metadata. The body has all
    /// owners, and the uid and `resourceVersion` it was decided upon.
    HandOver(Value),
    /// Delete the object.
    Delete(Precondition),
    /// Delete the object after whatever belongs to it, to create it anew.
    DeleteForRecreation(Precondition),
}

/// The state of an object that a write was decided upon; any other state refuses the write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Precondition {
    /// UID of the object.
    pub uid: String,
    /// Its `resourceVersion`.
    pub resource_version: String,
    /// For a release: position of the owner reference in the list, valid for that version.
    pub owner_index: usize,
}

/// What the API server answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The object as it is now (`Get`), as it was written, or as a dry run would write it.
    /// A `Delete` that left the object waiting for finalizers answers so as well.
    Object(Value),
    /// The object did not exist and was created, or would be by a dry run.
    Created(Value),
    /// An apply of a believed-absent object met one. `Create` has merged into it.
    Merged(Value),
    /// The object does not exist, or no longer: also after a `Delete` that removed it.
    NotFound,
    /// The object is not in the state that the request was decided upon, or exists with
    /// conflicting fields: read it again and decide anew.
    Conflict,
    /// The server does not serve the kind (any more).
    KindNotServed,
    /// The server refused the content or the right to write it; the text is for people.
    /// Trying again helps only after something else has changed.
    Refused(String),
    /// As [`Answer::Refused`], to an apply, for no other reason than that fields must not be changed.
    Immutable(String),
    /// The request failed for a reason that may pass: network, overload, server error.
    Failed(String),
}
