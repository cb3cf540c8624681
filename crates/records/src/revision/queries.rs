//! Looks up revisions by a common name or label.

use std::sync::Arc;

use baton_engine::chain::ChainLink;

use super::{RevisionIndex, RevisionKey, RevisionKind, RevisionRecord, Revisions};
use crate::key::Key;

impl Revisions {
    /// The revisions that list this one as previous.
    pub fn successors(&self, key: &RevisionKey) -> Vec<Arc<RevisionRecord>> {
        self.mentioning(RevisionIndex::Previous, key)
    }

    /// The revisions with the name of a deployment, in the namespace of the key of one of them.
    pub fn of_deployment(
        &self,
        member: &RevisionKey,
        deployment: &str,
    ) -> Vec<Arc<RevisionRecord>> {
        self.mentioning(RevisionIndex::Deployment, &member.sibling(deployment))
    }

    /// The revisions of a chain of Releases or of a site, by the label of the chain, in a
    /// namespace.
    pub fn of_chain(&self, namespace: &str, chain: &str) -> Vec<Arc<RevisionRecord>> {
        self.namespaced(RevisionIndex::Chain, namespace, chain)
    }

    /// The revisions of sites that a `SiteDeployment` of this name has made, even if it no longer
    /// exists.
    pub fn of_site_deployment(&self, namespace: &str, name: &str) -> Vec<Arc<RevisionRecord>> {
        self.namespaced(RevisionIndex::SiteDeployment, namespace, name)
    }

    /// The revisions that deliver versions of a `SiteApplication` to sites, even if it no longer
    /// exists.
    pub fn of_site_application(&self, namespace: &str, name: &str) -> Vec<Arc<RevisionRecord>> {
        self.namespaced(RevisionIndex::SiteApplication, namespace, name)
    }

    /// The revisions whose controller has this UID.
    pub fn controlled_by_uid(&self, namespace: &str, uid: &str) -> Vec<Arc<RevisionRecord>> {
        self.namespaced(RevisionIndex::Controller, namespace, uid)
    }

    /// The facts about a revision that the numbering needs; `None` if the revision does not exist.
    pub fn link(&self, key: &RevisionKey) -> Option<ChainLink> {
        self.get(key).map(|record| record.link())
    }

    fn namespaced(
        &self,
        index: RevisionIndex,
        namespace: &str,
        name: &str,
    ) -> Vec<Arc<RevisionRecord>> {
        let key = Key {
            kind: RevisionKind::ObjectSet,
            namespace: namespace.into(),
            name: name.into(),
        };
        self.mentioning(index, &key)
    }
}
