//! References to Applications and Releases, as users type them.

use std::fmt;

use baton_apis::kinds::{self, Kind};

/// An Application or a Release, as a user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppTarget {
    /// Kind of the object.
    pub kind: &'static Kind,
    /// Name of the object.
    pub name: String,
}

impl AppTarget {
    /// A reference to an Application.
    #[must_use]
    pub fn application(name: &str) -> Self {
        Self {
            kind: &kinds::APPLICATION,
            name: name.to_owned(),
        }
    }

    /// A reference to a Release.
    #[must_use]
    pub fn release(name: &str) -> Self {
        Self {
            kind: &kinds::RELEASE,
            name: name.to_owned(),
        }
    }

    /// True if the object is a Release.
    pub fn is_release(&self) -> bool {
        *self.kind == kinds::RELEASE
    }
}

/// Prints the form that users type: `app/shop`.
impl fmt::Display for AppTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.shortest(), self.name)
    }
}
