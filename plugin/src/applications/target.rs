//! How a user names an Application or a Release.

use std::{fmt, ops::Deref};

use baton_apis::kinds::{self, Kind};

/// Shipper's kinds that a user can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AppKind {
    Application,
    Release,
}

impl AppKind {
    /// The kind of a word such as `app` or `releases.shipper.booking.com`; `None` for other words.
    pub(crate) fn of_word(word: &str) -> Option<Self> {
        let mut all = [Self::Application, Self::Release].into_iter();
        all.find(|kind| kind.is_named_by(word))
    }
}

/// The row of the kind in the table of all kinds.
impl Deref for AppKind {
    type Target = Kind;

    fn deref(&self) -> &Kind {
        match self {
            Self::Application => &kinds::APPLICATION,
            Self::Release => &kinds::RELEASE,
        }
    }
}

/// An Application or a Release, as a user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AppTarget {
    pub(crate) kind: AppKind,
    pub(crate) name: String,
}

impl AppTarget {
    /// The Application of a name.
    pub(crate) fn application(name: &str) -> Self {
        Self {
            kind: AppKind::Application,
            name: name.to_owned(),
        }
    }
}

/// As it can be typed: `app/shop`.
impl fmt::Display for AppTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.shortest(), self.name)
    }
}
