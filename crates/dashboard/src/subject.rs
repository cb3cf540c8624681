//! The objects that addresses name.

use baton_cluster::Cluster;
use baton_engine::names::{is_label, is_subdomain};
use baton_view::chain::{kind::ChainKind, target::Target};
use http::StatusCode;

use crate::{failure::Failure, html::chain_address};

/// A deployment or a revision.
#[derive(Clone, Debug)]
pub(crate) struct ChainSubject {
    pub(crate) target: Target,
    pub(crate) kind: ChainKind,
    /// `None` for a cluster-scoped object.
    pub(crate) namespace: Option<String>,
}

impl ChainSubject {
    /// The object in an address; `kind` is the shortest name of a kind, and the namespace of
    /// cluster-scoped objects is `-`. `None` for other kinds, and for texts that cannot be names.
    pub(crate) fn new(kind: &str, namespace: &str, name: &str) -> Option<Self> {
        let mut kinds = ChainKind::ALL.into_iter();
        let kind = kinds.find(|it| it.shortest() == kind)?;
        let is_place = !kind.is_namespaced || is_label(namespace);
        (is_place && is_subdomain(name)).then(|| Self {
            target: Target::new(kind, name),
            kind,
            namespace: kind.is_namespaced.then(|| namespace.to_owned()),
        })
    }

    /// The cluster with the namespace of the object.
    pub(crate) fn within(&self, cluster: &Cluster) -> Cluster {
        cluster.within(self.namespace.as_deref().unwrap_or_default())
    }

    /// The address of its page.
    pub(crate) fn address(&self, base: &str) -> String {
        chain_address(
            base,
            self.kind,
            self.namespace.as_deref(),
            &self.target.name,
        )
    }
}

/// True if two texts can be the namespace and the name of an object.
pub(crate) fn are_names(namespace: &str, name: &str) -> bool {
    is_label(namespace) && is_subdomain(name)
}

/// The number in an address; `None` if the text is empty.
///
/// # Errors
/// If the text is no number.
pub(crate) fn number(text: &str) -> Result<Option<i64>, Failure> {
    if text.is_empty() {
        return Ok(None);
    }
    let message = || Failure::new(StatusCode::BAD_REQUEST, format!("{text:?} is no number"));
    text.parse().map(Some).map_err(|_| message())
}
