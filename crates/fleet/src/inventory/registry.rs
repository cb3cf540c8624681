//! The existing Clusters, and a task for each.

use std::{collections::HashMap, sync::Arc};

use baton_apis::{ClusterConnection, ClusterStatus, UpgradeWindow};
use baton_engine::redact::parse_error;
use futures::{FutureExt as _, future::join};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use tokio::sync::watch;

use super::{
    ClusterLink, Shared, agent_reports,
    connect::{Connector, DesiredConnection},
    entry::{Before, ClusterAttributes},
    health::{Health, online_before},
    report::{self, Recorded, Subject},
};
use baton_kubernetes::{
    collection::{Fold, Step, Unserved},
    informers::Task,
    metadata::Metadata,
    watch::{Event, Failing, number},
};

/// All Clusters, by name.
pub(super) struct Registry {
    shared: Arc<Shared>,
    entries: HashMap<String, Entry>,
    clusters: Fold<String>,
    /// Versions of Secrets in the list that is under way, by name.
    secrets_listed: HashMap<String, u64>,
    clusters_failing: Failing,
    secrets_failing: Failing,
    last_id: u64,
}

struct Entry {
    uid: String,
    connection: ClusterConnection,
    serving: Serving,
}

/// The task of a cluster. It ends when this is dropped.
struct Serving {
    wanted: watch::Sender<DesiredConnection>,
    recorded: watch::Sender<Recorded>,
    _task: Task,
}

impl Registry {
    pub fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            entries: HashMap::new(),
            clusters: Fold::new(Unserved::Empty),
            secrets_listed: HashMap::new(),
            clusters_failing: Failing::default(),
            secrets_failing: Failing::default(),
            last_id: 0,
        }
    }

    /// Handles an event of the watch on Clusters.
    pub fn cluster_event(&mut self, event: &Event<'_>) {
        if let Some(cause) = self.clusters_failing.begins(event) {
            tracing::warn!(cause, "cannot watch Clusters, trying again");
        }
        match self.clusters.process(event) {
            Step::Upsert { object, .. } => {
                if let Some(cluster) = Cluster::read(object) {
                    self.upsert(cluster);
                }
            }
            Step::Remove { key, .. } => self.retain(|name| name != key),
            Step::Retain { listed, .. } => self.retain(|name| listed.contains(name)),
            Step::Begin | Step::Reached(_) | Step::Nothing => {}
        }
        self.shared.set_extent(self.clusters.extent());
    }

    /// Handles an event of the watch on the metadata of Secrets. Only the versions of the Clusters'
    /// Secrets are stored.
    pub fn secret_event(&mut self, event: &Event<'_>) {
        if let Some(cause) = self.secrets_failing.begins(event) {
            let namespace = &self.shared.namespace;
            tracing::warn!(
                namespace,
                cause,
                "cannot watch the Secrets of Clusters, trying again"
            );
        }
        match event {
            Event::ListStarted => self.secrets_listed.clear(),
            Event::Listed(object) => {
                if let Some((name, version)) = secret(object)
                    && self.entries.contains_key(&name)
                {
                    self.secrets_listed.insert(name, version);
                }
            }
            Event::ListDone { resource_version } => {
                let listed = std::mem::take(&mut self.secrets_listed);
                for (name, entry) in &self.entries {
                    // A missing Secret may have been deleted at any time until now.
                    entry.set_secret(listed.get(name).copied().unwrap_or(*resource_version));
                }
            }
            Event::Upsert(object) | Event::Deleted(object) => {
                // A deleted object has the version of its deletion.
                if let Some((name, version)) = secret(object)
                    && let Some(entry) = self.entries.get(&name)
                {
                    entry.set_secret(version);
                }
            }
            Event::Failed(_)
            | Event::Refused(_)
            | Event::Forbidden(_)
            | Event::Unserved
            | Event::Bookmark(_) => {}
        }
    }

    fn upsert(&mut self, cluster: Cluster) {
        let is_same = self.entries.get(&cluster.name).is_some_and(|entry| {
            entry.uid == cluster.uid && entry.connection == cluster.connection
        });
        if !is_same {
            // The task of the former Cluster ends first.
            self.entries.remove(&cluster.name);
            let entry = self.serve(&cluster);
            self.entries.insert(cluster.name, entry);
            return;
        }
        self.shared.set_traits(&cluster.name, cluster.traits);
        if let Some(Entry { serving, .. }) = self.entries.get(&cluster.name) {
            serving.wanted.send_if_modified(|wanted| {
                let changed = wanted.api_master != cluster.api_master;
                wanted.api_master = cluster.api_master;
                changed
            });
            serving.recorded.send_if_modified(|recorded| {
                let changed = *recorded != cluster.recorded;
                *recorded = cluster.recorded;
                changed
            });
        }
    }

    /// Starts the task of a cluster.
    fn serve(&mut self, cluster: &Cluster) -> Entry {
        self.last_id += 1;
        let (id, name) = (self.last_id, cluster.name.as_str());
        let first = Health::first(&cluster.recorded.status, self.shared.clock.now());
        let link = match cluster.connection {
            ClusterConnection::Pull => ClusterLink::pull(&first),
            ClusterConnection::Push => ClusterLink::down(&first),
        };
        let before = Before {
            online_since: online_before(&cluster.recorded.status, self.shared.clock.now()),
            traits: cluster.traits.clone(),
            usage: self
                .shared
                .twins
                .add(name, cluster.created, &cluster.recorded.status),
        };
        self.shared.insert(name, id, link, before);
        let (health, changes) = watch::channel(first);
        let (wanted, wanted_changes) = watch::channel(DesiredConnection {
            api_master: cluster.api_master.clone(),
            secret: 0,
        });
        let (recorded, statuses) = watch::channel(cluster.recorded.clone());
        let subject = Subject {
            name: name.to_owned(),
            uid: cluster.uid.clone(),
        };
        let report = report::run(Arc::clone(&self.shared), subject, statuses, changes);
        let (shared, named) = (Arc::clone(&self.shared), name.to_owned());
        // `join!` in an async block would store each future twice.
        let task = match cluster.connection {
            ClusterConnection::Pull => {
                let was_known = cluster.recorded.status.last_contact_time.is_some();
                let reports = async move {
                    agent_reports::run(shared, (&named, id), was_known, health).await;
                };
                Task::spawn(join(reports, report).map(drop))
            }
            ClusterConnection::Push => {
                let connector = Connector::new(name, id, shared, health);
                Task::spawn(join(connector.run(wanted_changes), report).map(drop))
            }
        };
        let serving = Serving {
            wanted,
            recorded,
            _task: task,
        };
        Entry {
            uid: cluster.uid.clone(),
            connection: cluster.connection,
            serving,
        }
    }

    /// Ends the tasks of clusters that were deleted.
    fn retain(&mut self, mut keep: impl FnMut(&str) -> bool) {
        let shared = &self.shared;
        self.entries.retain(|name, _| {
            let keep = keep(name);
            if !keep {
                tracing::info!(cluster = name, "the Cluster is gone");
                shared.remove(name);
            }
            keep
        });
    }
}

impl Entry {
    fn set_secret(&self, version: u64) {
        self.serving.wanted.send_if_modified(|wanted| {
            let changed = wanted.secret != version;
            wanted.secret = version;
            changed
        });
    }
}

/// The parts of a Cluster on which the connection depends, and the decisions of those that use it.
#[derive(Debug, PartialEq)]
struct Cluster {
    name: String,
    uid: String,
    created: Timestamp,
    traits: ClusterAttributes,
    connection: ClusterConnection,
    api_master: Result<String, String>,
    recorded: Recorded,
}

#[derive(Deserialize)]
struct Object<'a> {
    metadata: ObjectMeta,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
}

/// Only the fields on which the connection depends, so that no other field of a spec can prevent
/// it.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    api_master: Option<String>,
    connection: Option<ClusterConnection>,
    upgrade_windows: Option<Value>,
}

impl Cluster {
    /// Reads the readable parts of a Cluster; `None` if not even its name is readable.
    fn read(object: &RawValue) -> Option<Self> {
        let Object {
            metadata,
            spec,
            status,
        } = match serde_json::from_str(object.get()) {
            Ok(object) => object,
            Err(error) => {
                let error = parse_error(&error);
                tracing::warn!(%error, "a Cluster cannot be parsed");
                return None;
            }
        };
        let spec: Result<Spec, String> = spec.map_or_else(
            || Ok(Spec::default()),
            |spec| serde_json::from_str(spec.get()).map_err(|error| parse_error(&error)),
        );
        // An unreadable status is replaced.
        let status: Option<ClusterStatus> =
            status.and_then(|status| serde_json::from_str(status.get()).ok());
        let connection = spec.as_ref().ok().and_then(|spec| spec.connection);
        let windows = spec.as_ref().ok();
        let windows = windows.and_then(|spec| spec.upgrade_windows.as_ref()?.as_array());
        let windows = windows.into_iter().flatten().map(window).collect();
        Some(Self {
            name: metadata.name?,
            uid: metadata.uid.unwrap_or_default(),
            created: metadata
                .creation_timestamp
                .unwrap_or(Time(Timestamp::MAX))
                .0,
            traits: ClusterAttributes {
                labels: metadata.labels.unwrap_or_default().into(),
                windows,
            },
            connection: connection.unwrap_or_default(),
            api_master: spec.map(|spec| spec.api_master.unwrap_or_default()),
            recorded: Recorded {
                version: metadata.resource_version.as_deref().map_or(0, number),
                status: status.unwrap_or_default(),
            },
        })
    }
}

/// An upgrade window. An unreadable window never opens, and so holds upgrades, which a missing one
/// would not.
fn window(window: &Value) -> UpgradeWindow {
    serde_json::from_value(window.clone()).unwrap_or_default()
}

/// Name and version of a Secret; `None` if its metadata cannot be read.
fn secret(object: &RawValue) -> Option<(String, u64)> {
    let metadata = Metadata::of(object.get()).ok()?;
    Some((metadata.name.to_string(), metadata.version()))
}

#[cfg(test)]
mod tests;
