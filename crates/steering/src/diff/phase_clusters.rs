//! The clusters that phases deliver into, as far as the user can read them.
//!
//! A person has not the manager's credentials for other clusters. Such a cluster is read only with the
//! rights of the person, through a connection that the person has chosen for it.

use std::collections::BTreeMap;

use baton_apis::constants::CLASS_CLUSTER_PREFIX;
use baton_cluster::{Cluster, lists};
use baton_engine::{ObjectKey, owners, revision::Desired};
use baton_view::{
    children::{Children, Detail, LookupResult},
    content::{Phase, WantedRevision},
};
use serde_json::Value;

use crate::error::Error;

/// The cluster of the revisions, and other clusters by the class of their phases.
pub struct PhaseClusters {
    /// The cluster of the revisions.
    pub home: Cluster,
    others: BTreeMap<String, Cluster>,
}

impl PhaseClusters {
    /// The cluster of the revisions alone.
    pub fn only(home: Cluster) -> Self {
        Self {
            home,
            others: BTreeMap::new(),
        }
    }

    /// Adds the cluster with this name. Returns false if it was added before.
    pub fn add(&mut self, name: &str, cluster: Cluster) -> bool {
        let class = format!("{CLASS_CLUSTER_PREFIX}{name}");
        self.others.insert(class, cluster).is_none()
    }

    /// The cluster with the objects of a phase; `None` without a connection to it.
    pub fn of(&self, phase: &Phase) -> Option<&Cluster> {
        self.at(phase.delivery_class())
    }

    /// The cluster of a class that delivers into it; `None` without a connection to it.
    pub fn at(&self, class: &str) -> Option<&Cluster> {
        match class {
            "" => Some(&self.home),
            class => self.others.get(class),
        }
    }

    /// Reads the objects of revisions in all clusters with a connection.
    ///
    /// # Errors
    /// If a cluster cannot be reached.
    pub async fn children(&self, wanted: &[WantedRevision<'_>]) -> Result<PlacedChildren, Error> {
        let mut by_place = BTreeMap::new();
        let others = self.others.iter();
        let others = others.map(|(class, cluster)| (class.as_str(), cluster));
        for (class, cluster) in [("", &self.home)].into_iter().chain(others) {
            let children = lists::children(cluster, class, wanted, Detail::Whole).await?;
            by_place.insert(class.to_owned(), children);
        }
        Ok(PlacedChildren { by_place })
    }
}

/// Objects by place: the empty name is the cluster of the revisions.
pub struct PlacedChildren {
    by_place: BTreeMap<String, Children>,
}

impl PlacedChildren {
    /// Finds an object of a phase. Objects in clusters that are not read are missing.
    pub fn find(&self, phase: &Phase, key: &ObjectKey) -> LookupResult<'_> {
        match self.by_place.get(phase.delivery_class()) {
            Some(children) => children.find(key),
            None => LookupResult::Missing,
        }
    }
}

/// Reads the live object from its cluster; `None` if it does not exist.
pub(super) async fn read_again(
    cluster: &Cluster,
    object: &Desired,
) -> Result<Option<Value>, Error> {
    let path = cluster.path_of(&object.gvk, &object.key).await?;
    let mut found = cluster.get_at(&path).await?;
    if let Some(live) = &mut found {
        owners::decode(live);
    }
    Ok(found)
}
