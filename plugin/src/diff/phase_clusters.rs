//! The clusters that phases deliver into, as far as the user can read them.
//!
//! A user of the plugin has a kubeconfig, but not the manager's credentials for other clusters. So
//! the plugin reads another cluster through a context of the kubeconfig that the user names for the
//! cluster, with the rights of the user.

use std::{collections::BTreeMap, str::FromStr};

use baton_apis::constants::CLASS_CLUSTER_PREFIX;
use baton_cluster::{Cluster, lists};
use baton_engine::{ObjectKey, owners, revision::Desired};
use baton_terminal::kubeconfig::ConnectionArgs;
use baton_view::{
    children::{Children, Detail, LookupResult},
    content::{Phase, WantedRevision},
};
use serde_json::Value;

use crate::{args::GlobalArgs, error::Error};

/// `NAME=CONTEXT`: the name of a Cluster, and the context of the kubeconfig to reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClusterContext {
    name: String,
    context: String,
}

impl FromStr for ClusterContext {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, context)) if !name.is_empty() && !context.is_empty() => Ok(Self {
                name: name.to_owned(),
                context: context.to_owned(),
            }),
            _ => Err(
                "is not NAME=CONTEXT, the name of a Cluster and a context of the kubeconfig"
                    .to_owned(),
            ),
        }
    }
}

/// The cluster of the revisions, and other clusters by the class of their phases.
pub(crate) struct PhaseClusters {
    pub(crate) home: Cluster,
    others: BTreeMap<String, Cluster>,
}

impl PhaseClusters {
    /// The cluster of the revisions alone.
    pub(crate) fn only(home: Cluster) -> Self {
        Self {
            home,
            others: BTreeMap::new(),
        }
    }

    /// Makes a client for each cluster; sends no request yet.
    pub(crate) async fn connect(
        global: &GlobalArgs,
        contexts: &[ClusterContext],
    ) -> Result<Self, Error> {
        let home = global.connect().await?;
        let mut others = BTreeMap::new();
        for ClusterContext { name, context } in contexts {
            let connection = ConnectionArgs {
                kubeconfig: global.kubeconfig.clone(),
                context: Some(context.clone()),
            };
            let namespace = Some(&*home.namespace);
            let cluster = global.connect_by(&connection, namespace).await?;
            let class = format!("{CLASS_CLUSTER_PREFIX}{name}");
            if others.insert(class, cluster).is_some() {
                return Err(Error::Usage(format!(
                    "--cluster-context: {name} is named twice"
                )));
            }
        }
        Ok(Self { home, others })
    }

    /// The cluster with the objects of a phase; `None` without a connection to it.
    pub(crate) fn of(&self, phase: &Phase) -> Option<&Cluster> {
        self.at(phase.delivery_class())
    }

    /// The cluster of a class that delivers into it; `None` without a connection to it.
    pub(crate) fn at(&self, class: &str) -> Option<&Cluster> {
        match class {
            "" => Some(&self.home),
            class => self.others.get(class),
        }
    }

    /// Reads the objects of revisions in all clusters with a connection.
    pub(crate) async fn children(
        &self,
        wanted: &[WantedRevision<'_>],
    ) -> Result<PlacedChildren, Error> {
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
pub(crate) struct PlacedChildren {
    by_place: BTreeMap<String, Children>,
}

impl PlacedChildren {
    /// Finds an object of a phase. Objects in clusters that are not read are missing.
    pub(crate) fn find(&self, phase: &Phase, key: &ObjectKey) -> LookupResult<'_> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_named_by_cluster() {
        let parsed: ClusterContext = "eu-1=admin@eu=1".parse().unwrap();
        assert_eq!((&*parsed.name, &*parsed.context), ("eu-1", "admin@eu=1"));
        for text in ["", "eu-1", "=x", "eu-1="] {
            assert!(text.parse::<ClusterContext>().is_err(), "{text}");
        }
    }
}
