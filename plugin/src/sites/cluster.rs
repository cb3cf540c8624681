//! A site itself: the Cluster.

use std::collections::BTreeMap;

use baton_apis::{UpgradeWindow, conditions::CONNECTED, constants::shipper::API_VERSION};
use baton_view::{lists::ListQuery, object::text_at, tree::Health};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::revision::{condition, time_at};
use crate::connect::Cluster;

/// What counts of a Cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SiteCluster {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) region: String,
    /// `Push` or `Pull`.
    pub(crate) connection: String,
    /// Whether it can be reached.
    pub(crate) connected: Health,
    /// Why not, in one word; empty where it can.
    pub(crate) reason: String,
    /// Since when that is so.
    pub(crate) since: Option<Timestamp>,
    pub(crate) windows: Vec<UpgradeWindow>,
}

/// The Clusters by name, or why they cannot be read. Without them nobody can tell a site that is offline from one that
/// nobody has reported on.
pub(crate) type Clusters = Result<BTreeMap<String, SiteCluster>, String>;

impl SiteCluster {
    pub(crate) fn read(object: &Value) -> Self {
        let connected = condition(object, CONNECTED);
        let text = |pointer| connected.map_or("", |it| text_at(it, pointer));
        let status = Health::of_status(Some(text("/status")));
        let parsed = |pointer: &str| object.pointer(pointer).cloned().unwrap_or_default();
        Self {
            name: text_at(object, "/metadata/name").to_owned(),
            labels: serde_json::from_value(parsed("/metadata/labels")).unwrap_or_default(),
            region: text_at(object, "/spec/region").to_owned(),
            connection: match text_at(object, "/spec/connection") {
                "" => "Push".to_owned(),
                connection => connection.to_owned(),
            },
            connected: status,
            reason: match status {
                Health::True => String::new(),
                _ => text("/reason").to_owned(),
            },
            since: connected.and_then(|it| time_at(it, "/lastTransitionTime")),
            windows: serde_json::from_value(parsed("/spec/upgradeWindows")).unwrap_or_default(),
        }
    }

    /// Whether what is given to it arrives there now.
    pub(crate) fn is_online(&self) -> bool {
        self.connected == Health::True
    }
}

/// URL path of all Clusters.
pub(crate) fn path() -> String {
    format!("/apis/{API_VERSION}/clusters")
}

/// By name.
pub(crate) fn by_name<'v>(
    objects: impl Iterator<Item = &'v Value>,
) -> BTreeMap<String, SiteCluster> {
    objects
        .map(SiteCluster::read)
        .map(|cluster| (cluster.name.clone(), cluster))
        .collect()
}

/// Reads all of them. That they cannot be read is kept: the right to do so is one for the whole cluster.
pub(crate) async fn read(cluster: &Cluster) -> Clusters {
    let mut clusters = BTreeMap::new();
    let take = |object: Value| {
        let cluster = SiteCluster::read(&object);
        clusters.insert(cluster.name.clone(), cluster);
    };
    let read = cluster.each_at(&path(), &ListQuery::default(), take).await;
    read.map(|()| clusters).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cluster_without_a_report_is_not_online() {
        let mut object = json!({
            "metadata": { "name": "eu-1", "labels": { "env": "edge" } },
            "spec": { "region": "eu", "upgradeWindows": [{ "cron": "0 2 * * *", "duration": "4h" }] },
        });
        let read = SiteCluster::read(&object);
        assert!(!read.is_online());
        assert_eq!((read.connection.as_str(), read.windows.len()), ("Push", 1));
        object["status"] = json!({ "conditions": [{
            "type": "Connected", "status": "False", "reason": "AgentSilent", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }] });
        let read = SiteCluster::read(&object);
        assert_eq!(read.reason, "AgentSilent");
        assert!(!read.is_online() && read.since.is_some());
        object["status"]["conditions"][0]["status"] = "True".into();
        assert!(SiteCluster::read(&object).is_online());
    }
}
