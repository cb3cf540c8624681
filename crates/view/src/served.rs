//! Locations where kinds are served.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use baton_apis::url::escape;
use baton_engine::{ObjectKey, names::segment_problem, revision::KindScope};

/// The largest number of objects of a collection that are read one by one. For more, the collection
/// is listed.
pub const MAX_SINGLE_READS: usize = 8;

/// The location where the objects of a kind are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// URL path of all objects of the kind.
    pub path: String,
    /// Scope of the kind.
    pub scope: KindScope,
}

/// The reason that the objects of a kind cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unserved {
    /// The API server does not serve the kind.
    Absent,
    /// The API server serves the kind only in another version, so objects of it may exist.
    OtherVersion(String),
    /// The location or the objects of the kind could not be read, for this reason.
    Unreadable(String),
}

impl fmt::Display for Unserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("the API server does not serve this kind"),
            Self::OtherVersion(version) => {
                write!(
                    f,
                    "the API server serves this kind only in version {version}"
                )
            }
            Self::Unreadable(why) => f.write_str(why),
        }
    }
}

impl Served {
    /// The paths to list: one per namespace, or one for all namespaces if there are many.
    pub(crate) fn paths<'a>(
        &self,
        keys: &BTreeSet<&'a ObjectKey>,
    ) -> BTreeMap<String, Vec<&'a ObjectKey>> {
        let namespaces: BTreeSet<&str> = keys.iter().map(|key| key.namespace.as_str()).collect();
        let everywhere = self.scope == KindScope::Cluster || namespaces.len() > MAX_SINGLE_READS;
        let mut paths: BTreeMap<String, Vec<&ObjectKey>> = BTreeMap::new();
        for key in keys {
            let path = if everywhere {
                self.path.clone()
            } else if let Some(path) = self.path_in(&key.namespace) {
                path
            } else {
                // A namespaced kind has no object without a namespace, or in a namespace with an
                // invalid name.
                continue;
            };
            paths.entry(path).or_default().push(key);
        }
        paths
    }

    /// URL path of the objects in a namespace; `None` for an invalid namespace.
    fn path_in(&self, namespace: &str) -> Option<String> {
        let (prefix, plural) = self.path.rsplit_once('/')?;
        let namespace = segment_problem(namespace)
            .is_none()
            .then(|| escape(namespace))?;
        Some(format!("{prefix}/namespaces/{namespace}/{plural}"))
    }
}
