//! The objects that addresses name.

use baton_engine::names::{is_label, is_subdomain};
use baton_view::chain::{kind::ChainKind, target::Target};

use crate::html::chain_address;

/// A deployment or a revision.
#[derive(Clone, Debug)]
pub struct ChainSubject {
    /// Kind and name.
    pub target: Target,
    /// The kind.
    pub kind: ChainKind,
    /// `None` for a cluster-scoped object.
    pub namespace: Option<String>,
}

impl ChainSubject {
    /// The object in an address; `kind` is the shortest name of a kind, and the namespace of
    /// cluster-scoped objects is `-`. `None` for other kinds, and for texts that cannot be names.
    pub fn new(kind: &str, namespace: &str, name: &str) -> Option<Self> {
        let mut kinds = ChainKind::ALL.into_iter();
        let kind = kinds.find(|it| it.shortest() == kind)?;
        let is_place = !kind.is_namespaced || is_label(namespace);
        (is_place && is_subdomain(name)).then(|| Self {
            target: Target::new(kind, name),
            kind,
            namespace: kind.is_namespaced.then(|| namespace.to_owned()),
        })
    }

    /// The address of its page.
    pub fn address(&self, base: &str) -> String {
        chain_address(
            base,
            self.kind,
            self.namespace.as_deref(),
            &self.target.name,
        )
    }
}

/// True if two texts can be the namespace and the name of an object.
pub fn are_names(namespace: &str, name: &str) -> bool {
    is_label(namespace) && is_subdomain(name)
}
