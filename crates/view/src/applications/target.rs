//! How a user names an Application or a Release.

use std::{fmt, ops::Deref};

use baton_apis::kinds::{self, Kind};

/// Shipper's kinds that a user can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppKind {
    /// An Application.
    Application,
    /// A Release of one.
    Release,
}

impl AppKind {
    /// The kind of a word such as `app` or `releases.shipper.booking.com`; `None` for other words.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
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
pub struct AppTarget {
    /// Its kind.
    pub kind: AppKind,
    /// Its name.
    pub name: String,
}

impl AppTarget {
    /// The Application of a name.
    #[must_use]
    pub fn application(name: &str) -> Self {
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
