//! Deployments to sites and their applications as they can be typed.

use std::fmt;

use baton_apis::kinds::{self, Kind};

/// A deployment to sites or its application, as a user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteTarget {
    /// Its kind.
    pub kind: &'static Kind,
    /// Its name.
    pub name: String,
}

impl SiteTarget {
    /// The deployment of a name.
    #[must_use]
    pub fn deployment(name: &str) -> Self {
        Self {
            kind: &kinds::SITE_DEPLOYMENT,
            name: name.to_owned(),
        }
    }

    /// The application of a name.
    #[must_use]
    pub fn application(name: &str) -> Self {
        Self {
            kind: &kinds::SITE_APPLICATION,
            name: name.to_owned(),
        }
    }

    /// True for an application.
    pub fn is_application(&self) -> bool {
        *self.kind == kinds::SITE_APPLICATION
    }

    /// URL path of the object in a namespace.
    pub fn path(&self, namespace: &str) -> String {
        self.kind.path_of(Some(namespace), &self.name)
    }

    /// As kubectl calls the object in what it prints: `sitedeployment.baton.run/shop`.
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
