//! References to deployments to sites and to their applications, as users type them.

use std::fmt;

use baton_apis::kinds::{self, Kind};

/// A deployment to sites or its application, as a user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteTarget {
    /// Kind of the object.
    pub kind: &'static Kind,
    /// Name of the object.
    pub name: String,
}

impl SiteTarget {
    /// A reference to a deployment.
    #[must_use]
    pub fn deployment(name: &str) -> Self {
        Self {
            kind: &kinds::SITE_DEPLOYMENT,
            name: name.to_owned(),
        }
    }

    /// A reference to an application.
    #[must_use]
    pub fn application(name: &str) -> Self {
        Self {
            kind: &kinds::SITE_APPLICATION,
            name: name.to_owned(),
        }
    }

    /// True if the object is an application.
    pub fn is_application(&self) -> bool {
        *self.kind == kinds::SITE_APPLICATION
    }

    /// URL path of the object in a namespace.
    pub fn path(&self, namespace: &str) -> String {
        self.kind.path_of(Some(namespace), &self.name)
    }

    /// The name that kubectl prints for the object: `sitedeployment.baton.run/shop`.
    pub fn full(&self) -> String {
        let (kind, group) = (self.kind.singular(), self.kind.group);
        format!("{kind}.{group}/{}", self.name)
    }
}

/// Prints the form that users type: `sitedeploy/shop`.
impl fmt::Display for SiteTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.shortest(), self.name)
    }
}
