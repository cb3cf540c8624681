//! What the owners of applications ask of upgrades in sites: who keeps their objects tells it here.

use std::sync::OnceLock;

use baton_apis::SiteEntry;
use baton_runtime::source::Source;
use baton_sites::terms::OwnerTerms;

/// Finds what holds for a revision of a site, by the namespace, what the revision says of itself, and the uid of its
/// managing owner.
pub(crate) type FindTerms = dyn Fn(&str, &SiteEntry, Option<&str>) -> OwnerTerms + Send + Sync;

/// What the owners of applications ask for, as it is now.
///
/// The controller of phases asks before each beginning of an upgrade, so `find` answers from what is stored, and the
/// stores are filled before any controller runs.
#[derive(Default)]
pub(crate) struct SiteTerms {
    find: OnceLock<Box<FindTerms>>,
    /// Who asks for something else than before.
    pub changes: Source<SiteTermsChange>,
}

/// Something else is asked than before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SiteTermsChange {
    /// The namespace.
    pub namespace: String,
    pub by: Asker,
}

/// Whoever asks for something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// The `SiteApplication` of this name.
    Application(String),
    /// The `SiteDeployment` of this name.
    Deployment(String),
}

impl Asker {
    /// Whether it asks this of a revision.
    pub(crate) fn has(&self, entry: &SiteEntry) -> bool {
        match self {
            Self::Application(name) => entry.application == *name,
            Self::Deployment(name) => entry.deployment == *name,
        }
    }
}

impl SiteTerms {
    /// Lets what owners ask for be found. To be called once, before any controller runs; until then nobody asks for
    /// anything.
    pub(crate) fn find_by(
        &self,
        find: impl Fn(&str, &SiteEntry, Option<&str>) -> OwnerTerms + Send + Sync + 'static,
    ) {
        // Whoever came first stays.
        let _ = self.find.set(Box::new(find));
    }

    /// What holds for a revision of a site that has this managing owner.
    pub(crate) fn of(&self, namespace: &str, entry: &SiteEntry, owner: Option<&str>) -> OwnerTerms {
        let find = self.find.get();
        find.map_or_else(OwnerTerms::default, |find| find(namespace, entry, owner))
    }
}
