//! The events of a watch.

use serde_json::value::RawValue;

/// The events that the loop reports.
#[derive(Debug)]
pub enum Event<'a> {
    /// A list begins; its state is at least as new as this moment.
    ListStarted,
    /// An object of the list. Lists of built-in kinds leave `apiVersion` and `kind` out.
    Listed(&'a RawValue),
    /// The list is complete.
    ListDone {
        /// The version of the list; 0 if the versions of the server are no integers.
        resource_version: u64,
    },
    /// An object was created or changed.
    Upsert(&'a RawValue),
    /// An object was deleted, or is no longer selected. Its `resourceVersion` is that of the
    /// deletion.
    Deleted(&'a RawValue),
    /// All events up to this version were reported.
    Bookmark(u64),
    /// The server does not serve the collection, or no longer. See [`definition`](super::WatchSpec::definition).
    Unserved,
    /// Listing or watching failed, for this reason, and is retried. Not reported if the server only
    /// asks to wait. For the state of the objects then see the guarantees of the module.
    Failed(&'a str),
    /// As [`Event::Failed`], with an error status of the server. The server that is responsible for
    /// the collection may be down.
    Refused(&'a str),
    /// As [`Event::Refused`], because this account may not list or watch the collection.
    Forbidden(&'a str),
}

impl<'a> Event<'a> {
    /// The reason of a failure.
    pub fn failure(&self) -> Option<&'a str> {
        match *self {
            Event::Failed(cause) | Event::Refused(cause) | Event::Forbidden(cause) => Some(cause),
            _ => None,
        }
    }
}
