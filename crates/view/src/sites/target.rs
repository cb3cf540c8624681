//! Deployments to sites and their applications as they can be typed.

use std::{fmt, ops::Deref};

use baton_apis::kinds::{self, Kind};

/// The kinds that a user can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SiteKind {
    /// A `SiteDeployment`.
    Deployment,
    /// A `SiteApplication`.
    Application,
}

impl SiteKind {
    /// The kind of a word such as `sitedeploy` or `siteapplications.baton.run`; `None` for other words.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        let mut all = [Self::Deployment, Self::Application].into_iter();
        all.find(|kind| kind.is_named_by(word))
    }
}

/// The row of the kind in the table of all kinds.
impl Deref for SiteKind {
    type Target = Kind;

    fn deref(&self) -> &Kind {
        match self {
            Self::Deployment => &kinds::SITE_DEPLOYMENT,
            Self::Application => &kinds::SITE_APPLICATION,
        }
    }
}

/// A deployment to sites or its application, as a user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteTarget {
    /// Its kind.
    pub kind: SiteKind,
    /// Its name.
    pub name: String,
}

impl SiteTarget {
    /// One of a kind.
    #[must_use]
    pub fn new(kind: SiteKind, name: &str) -> Self {
        Self {
            kind,
            name: name.to_owned(),
        }
    }

    /// URL path of the object in a namespace.
    #[must_use]
    pub fn path(&self, namespace: &str) -> String {
        self.kind.path_of(Some(namespace), &self.name)
    }

    /// As kubectl calls the object in what it prints: `sitedeployment.baton.run/shop`.
    #[must_use]
    pub fn full(&self) -> String {
        let (kind, group) = (self.kind.singular(), self.kind.group);
        format!("{kind}.{group}/{}", self.name)
    }
}

/// As it can be typed: `sitedeploy/shop`.
impl fmt::Display for SiteTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.shortest(), self.name)
    }
}
