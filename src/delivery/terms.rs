//! The terms of applications for upgrades in sites. The controllers of applications provide them
//! here.

use std::sync::OnceLock;

use baton_apis::{ObjectSetProbe, SiteEntry};
use baton_runtime::source::Source;
use baton_sites::terms::OwnerTerms;

/// Finds the terms for a revision of a site, by its namespace, its site annotation, and the uid of
/// its managing owner.
pub(crate) type FindTerms = dyn Fn(&str, &SiteEntry, Option<&str>) -> OwnerTerms + Send + Sync;

/// Finds the probes in the record of a version, by namespace and site annotation; `None` if there is
/// no such record, or it is not known.
pub(crate) type FindProbes = dyn Fn(&str, &SiteEntry) -> Option<Vec<ObjectSetProbe>> + Send + Sync;

/// The current terms of applications, and the probes of their versions.
///
/// The controller of phases reads the terms before an upgrade begins, that of revisions the probes
/// before it creates phase objects. `find` and `find_probes` answer from the stores, which are
/// filled before any controller runs.
#[derive(Default)]
pub(crate) struct SiteTerms {
    find: OnceLock<Box<FindTerms>>,
    find_probes: OnceLock<Box<FindProbes>>,
    /// Changes of terms.
    pub changes: Source<SiteTermsChange>,
}

/// A change of terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SiteTermsChange {
    /// Namespace of the object whose terms changed.
    pub namespace: String,
    pub by: TermsSource,
}

/// The object whose terms changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TermsSource {
    /// The `SiteApplication` of this name.
    Application(String),
    /// The `SiteDeployment` of this name.
    Deployment(String),
}

impl TermsSource {
    /// True if the terms of this object apply to a revision.
    pub(crate) fn has(&self, entry: &SiteEntry) -> bool {
        match self {
            Self::Application(name) => entry.application == *name,
            Self::Deployment(name) => entry.deployment == *name,
        }
    }
}

impl SiteTerms {
    /// Sets the function that finds terms. Called once, before any controller runs; until then
    /// there are no terms.
    pub(crate) fn find_by(
        &self,
        find: impl Fn(&str, &SiteEntry, Option<&str>) -> OwnerTerms + Send + Sync + 'static,
    ) {
        // Only the first call has an effect.
        let _ = self.find.set(Box::new(find));
    }

    /// Sets the function that finds probes. Called once, before any controller runs; until then there
    /// are no records.
    pub(crate) fn find_probes_by(
        &self,
        find: impl Fn(&str, &SiteEntry) -> Option<Vec<ObjectSetProbe>> + Send + Sync + 'static,
    ) {
        // Only the first call has an effect.
        let _ = self.find_probes.set(Box::new(find));
    }

    /// The probes of the version of a revision; `None` if its record does not exist, or is not known.
    pub(crate) fn probes(&self, namespace: &str, entry: &SiteEntry) -> Option<Vec<ObjectSetProbe>> {
        self.find_probes.get()?(namespace, entry)
    }

    /// The terms for a revision of a site with this managing owner.
    pub(crate) fn of(&self, namespace: &str, entry: &SiteEntry, owner: Option<&str>) -> OwnerTerms {
        let find = self.find.get();
        find.map_or_else(OwnerTerms::default, |find| find(namespace, entry, owner))
    }
}
