//! Where kinds are served.

use std::collections::{BTreeMap, BTreeSet};

use baton_apis::url::escape;
use baton_engine::{ObjectKey, names::segment_problem, revision::KindScope};

/// Up to so many objects of a collection are read one by one; more, and the collection is listed.
pub const FEW: usize = 8;

/// Where the objects of a kind are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// URL path of all of them.
    pub path: String,
    /// Their scope.
    pub scope: KindScope,
}

impl Served {
    /// Where objects are listed: per namespace, or all at once where there are many namespaces.
    pub(crate) fn paths<'a>(
        &self,
        keys: &BTreeSet<&'a ObjectKey>,
    ) -> BTreeMap<String, Vec<&'a ObjectKey>> {
        let namespaces: BTreeSet<&str> = keys.iter().map(|key| key.namespace.as_str()).collect();
        let everywhere = self.scope == KindScope::Cluster || namespaces.len() > FEW;
        let mut paths: BTreeMap<String, Vec<&ObjectKey>> = BTreeMap::new();
        for key in keys {
            let path = if everywhere {
                self.path.clone()
            } else if let Some(path) = self.path_in(&key.namespace) {
                path
            } else {
                // There is no object of such a kind without a namespace, or in one of such a name.
                continue;
            };
            paths.entry(path).or_default().push(key);
        }
        paths
    }

    /// URL path of the objects in a namespace; `None` for one that cannot be.
    fn path_in(&self, namespace: &str) -> Option<String> {
        let (prefix, plural) = self.path.rsplit_once('/')?;
        let namespace = segment_problem(namespace)
            .is_none()
            .then(|| escape(namespace))?;
        Some(format!("{prefix}/namespaces/{namespace}/{plural}"))
    }
}
