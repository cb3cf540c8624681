//! A site itself: the Cluster.

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

/// A Cluster, as far as it counts for people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SiteCluster {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its region.
    pub region: String,
    /// `Push` or `Pull`; empty where the Cluster does not exist or cannot be read.
    pub connection: String,
    /// True if it can be reached; unknown as above.
    pub connected: Health,
    /// The reason why it cannot be reached, in one word.
    pub reason: String,
    /// The time since when that is so.
    pub since: Option<Timestamp>,
    /// The upgrade windows of its provider.
    pub windows: Vec<UpgradeWindow>,
}

/// The Clusters by name, or why they cannot be read. Without them nobody can tell a site that is offline from one that
/// nobody has reported on.
pub type Clusters = Result<BTreeMap<String, SiteCluster>, String>;

impl SiteCluster {
    /// From an object as the server has it.
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

    /// A site of which only the name is known.
    pub(super) fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }

    /// True if what is given to it arrives there now.
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

/// Clusters by their names.
pub fn by_name<'v>(objects: impl Iterator<Item = &'v Value>) -> BTreeMap<String, SiteCluster> {
    objects
        .map(SiteCluster::read)
        .map(|cluster| (cluster.name.clone(), cluster))
        .collect()
}

/// The condition of an object of a type.
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
