//! A site: the Cluster.

use std::collections::BTreeMap;

use baton_apis::{UpgradeWindow, conditions::CONNECTED, constants::shipper::API_VERSION};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::{
    lists::List,
    object::{text_at, time_at},
    tree::Health,
};

/// The fields of a Cluster that people see.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SiteCluster {
    /// Name of the site.
    pub name: String,
    /// Labels of the site.
    pub labels: BTreeMap<String, String>,
    /// Region of the site.
    pub region: String,
    /// `Push` or `Pull`; empty if the Cluster does not exist or cannot be read.
    pub connection: String,
    /// `True` if the site can be reached; `Unknown` if the Cluster does not exist or cannot be
    /// read.
    pub connected: Health,
    /// Reason of the condition `Connected`, unless the site can be reached.
    pub reason: String,
    /// The time since when the condition has its status.
    pub since: Option<Timestamp>,
    /// The upgrade windows of the provider.
    pub windows: Vec<UpgradeWindow>,
}

/// The Clusters by name, or the reason that they cannot be read. Without them, an offline site looks
/// like a site without a report.
pub type Clusters = Result<BTreeMap<String, SiteCluster>, String>;

impl SiteCluster {
    /// Reads a Cluster as the server returned it.
    #[must_use]
    pub fn read(object: &Value) -> Self {
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

    /// A site without a Cluster: nothing but its name was read.
    pub(super) fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }

    /// True if changes for the site arrive there now.
    pub(super) fn is_online(&self) -> bool {
        self.connected == Health::True
    }
}

/// URL path of all Clusters.
pub fn path() -> String {
    format!("/apis/{API_VERSION}/clusters")
}

/// The Clusters of a list.
pub(super) fn read(list: &List) -> Clusters {
    match &list.trouble {
        Some(why) => Err(why.clone()),
        None => Ok(by_name(list.objects())),
    }
}

/// The Clusters by name.
pub fn by_name<'v>(objects: impl Iterator<Item = &'v Value>) -> BTreeMap<String, SiteCluster> {
    objects
        .map(SiteCluster::read)
        .map(|cluster| (cluster.name.clone(), cluster))
        .collect()
}

/// The condition of a type in an object.
fn condition<'v>(object: &'v Value, type_: &str) -> Option<&'v Value> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    conditions
        .iter()
        .find(|condition| condition["type"] == type_)
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
