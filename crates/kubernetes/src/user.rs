//! Users of watches: the objects, such as revisions, for which others are watched. In this crate a
//! user is never a person.

use std::{fmt, sync::Arc};

/// An object for which other objects are watched. An object that is created again under the same
/// name is another user.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct User {
    /// Kind of the object.
    pub kind: &'static str,
    /// UID of the object.
    pub uid: Arc<str>,
}

/// Prints `ObjectSet 8d3e…` for logs.
impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.uid)
    }
}
