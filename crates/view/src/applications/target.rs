//! Applications and Releases as they can be typed.

use std::fmt;

use baton_apis::kinds::{self, Kind};

/// An Application or a Release, as a user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppTarget {
    /// Its kind.
    pub kind: &'static Kind,
    /// Its name.
    pub name: String,
}

impl AppTarget {
    /// The Application of a name.
    #[must_use]
    pub fn application(name: &str) -> Self {
        Self {
            kind: &kinds::APPLICATION,
            name: name.to_owned(),
        }
    }

    /// True for a Release.
    pub fn is_release(&self) -> bool {
        *self.kind == kinds::RELEASE
    }
}

/// As it can be typed: `app/shop`.
impl fmt::Display for AppTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.shortest(), self.name)
    }
}
