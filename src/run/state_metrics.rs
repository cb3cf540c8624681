//! The state of deployments, revisions and clusters, computed when the metrics are read.
//!
//! No state is stored for it: the series of an object disappear with the object. Only the leader
//! reports it, so that a candidate does not report everything a second time.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Weak},
};

use baton_apis::{
    ConditionStatus, LifecycleState,
    conditions::{AVAILABLE, PAUSED, PROGRESSING, Reason},
    metrics::{CLUSTER_CONNECTED, DEPLOYMENT_CONDITION, DEPLOYMENT_REVISION, DISPUTED, REVISIONS},
};
use baton_fleet::inventory::Inventory;
use baton_kubernetes::fence::Fence;
use baton_records::{deployment::DeploymentRecord, key::OwnKind as _, revision::RevisionRecord};
use baton_runtime::{exposition::encode_family, metrics::Metrics};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet},
    metrics::{family::Family, gauge::Gauge},
};
use serde::Deserialize;

use crate::delivery::observed::Observed;

/// The conditions of deployments that are reported. Others are copied from objects, so their number
/// is not limited.
const CONDITIONS: [&str; 3] = [AVAILABLE, PROGRESSING, PAUSED];

// The prefix distinguishes these labels from those that Prometheus adds.
#[allow(clippy::struct_field_names)]
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DeploymentLabels {
    baton_kind: &'static str,
    baton_namespace: String,
    baton_name: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ConditionLabels {
    baton_kind: &'static str,
    baton_namespace: String,
    baton_name: String,
    condition: &'static str,
    status: String,
    reason: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RevisionLabels {
    baton_kind: &'static str,
    baton_namespace: String,
    state: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DisputedLabels {
    baton_kind: &'static str,
    baton_namespace: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ClusterLabel {
    baton_cluster: String,
}

/// The part of a deployment's status that is read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Conditions {
    conditions: Vec<Condition>,
    revision: Option<i64>,
}

#[derive(Debug, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: ConditionStatus,
    #[serde(default)]
    reason: String,
}

impl Conditions {
    /// The conditions of a deployment; none if the status is invalid, which its own controller
    /// reports.
    fn of(record: &DeploymentRecord) -> Self {
        record.part_of_status().unwrap_or_default()
    }

    fn find(&self, type_: &str) -> Option<&Condition> {
        self.conditions.iter().find(|it| it.type_ == type_)
    }
}

/// Collects the metrics about the state of objects when they are read.
struct States {
    observed: Weak<Observed>,
    inventory: Inventory,
    fence: Fence,
}

/// Registers the metric families.
pub(super) fn register(
    metrics: &Metrics,
    observed: &Arc<Observed>,
    inventory: &Inventory,
    fence: &Fence,
) {
    let states = States {
        observed: Arc::downgrade(observed),
        inventory: inventory.clone(),
        fence: fence.clone(),
    };
    metrics.register(|registry| registry.register_collector(Box::new(states)));
}

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("States")
    }
}

impl Collector for States {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let Some(observed) = self.observed.upgrade() else {
            return Ok(());
        };
        if self.fence.check().is_err() {
            return Ok(());
        }
        let (conditions, numbers) = of_deployments(&observed.deployments.all());
        encode_family(&mut encoder, &DEPLOYMENT_CONDITION, &conditions)?;
        encode_family(&mut encoder, &DEPLOYMENT_REVISION, &numbers)?;
        let revisions = observed.revisions.all();
        encode_family(&mut encoder, &REVISIONS, &of_revisions(&revisions))?;
        encode_family(&mut encoder, &DISPUTED, &of_disputed(&revisions))?;
        let clusters = of_clusters(self.inventory.connected());
        encode_family(&mut encoder, &CLUSTER_CONNECTED, &clusters)
    }
}

fn of_deployments(
    records: &[Arc<DeploymentRecord>],
) -> (
    Family<ConditionLabels, Gauge>,
    Family<DeploymentLabels, Gauge>,
) {
    let conditions = Family::<ConditionLabels, Gauge>::default();
    let numbers = Family::<DeploymentLabels, Gauge>::default();
    for record in records {
        let (baton_kind, key) = (record.key.kind.kind(), &record.key);
        let status = Conditions::of(record);
        for condition in CONDITIONS {
            let Some(found) = status.find(condition) else {
                continue;
            };
            let labels = ConditionLabels {
                baton_kind,
                baton_namespace: key.namespace.to_string(),
                baton_name: key.name.to_string(),
                condition,
                status: found.status.to_string(),
                reason: found.reason.clone(),
            };
            conditions.get_or_create(&labels).set(1);
        }
        if let Some(number) = status.revision {
            let labels = DeploymentLabels {
                baton_kind,
                baton_namespace: key.namespace.to_string(),
                baton_name: key.name.to_string(),
            };
            numbers.get_or_create(&labels).set(number);
        }
    }
    (conditions, numbers)
}

fn of_revisions(records: &[Arc<RevisionRecord>]) -> Family<RevisionLabels, Gauge> {
    let family = Family::<RevisionLabels, Gauge>::default();
    for record in records {
        let labels = RevisionLabels {
            baton_kind: record.key.kind.kind(),
            baton_namespace: record.key.namespace.to_string(),
            state: state(record),
        };
        family.get_or_create(&labels).inc();
    }
    family
}

fn of_disputed(records: &[Arc<RevisionRecord>]) -> Family<DisputedLabels, Gauge> {
    let family = Family::<DisputedLabels, Gauge>::default();
    for record in records.iter().filter(|record| record.disputed) {
        let labels = DisputedLabels {
            baton_kind: record.key.kind.kind(),
            baton_namespace: record.key.namespace.to_string(),
        };
        family.get_or_create(&labels).inc();
    }
    family
}

/// The state of a revision in one word: its lifecycle, or else the reason of `Available`.
fn state(record: &RevisionRecord) -> &'static str {
    if record.deleting {
        return "Deleting";
    }
    match record.lifecycle {
        _ if record.archived => return "Archived",
        LifecycleState::Archived => return "Archiving",
        LifecycleState::Paused => return "Paused",
        LifecycleState::Active => {}
    }
    record.availability.map_or("Pending", Reason::as_str)
}

fn of_clusters(connected: BTreeMap<String, bool>) -> Family<ClusterLabel, Gauge> {
    let family = Family::<ClusterLabel, Gauge>::default();
    for (baton_cluster, connected) in connected {
        let gauge = family.get_or_create_owned(&ClusterLabel { baton_cluster });
        gauge.set(i64::from(connected));
    }
    family
}

#[cfg(test)]
mod tests {
    use baton_records::{deployment::DeploymentKind, record::Record, revision::RevisionKind};
    use serde_json::{Value, json};

    use super::*;

    fn series(registered: impl FnOnce(&mut prometheus_client::registry::Registry)) -> Vec<String> {
        let metrics = Metrics::new();
        metrics.register(registered);
        metrics.series("x_")
    }

    fn deployment(name: &str, status: &Value) -> Arc<DeploymentRecord> {
        let object = json!({
            "metadata": {"name": name, "namespace": "shop", "uid": name, "resourceVersion": "1"},
            "spec": {}, "status": status,
        });
        let kind = DeploymentKind(RevisionKind::ObjectSet);
        Arc::new(Record::read(kind, &object.to_string()).unwrap())
    }

    #[test]
    fn a_deployment_has_a_series_for_each_condition() {
        let condition = |type_: &str, status: &str, reason: &str| {
            json!({
                "type": type_, "status": status, "reason": reason, "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        };
        let web = json!({"revision": 7, "conditions": [
            condition("Available", "False", "ObjectSetUnready"),
            condition("Progressing", "False", "ProgressDeadlineExceeded"),
            condition("shop.example/Ready", "True", "Copied"),
        ]});
        let records = [deployment("web", &web), deployment("new", &json!({}))];
        let (conditions, numbers) = of_deployments(&records);
        let found = series(|registry| {
            registry.register("x_condition", "", conditions);
            registry.register("x_revision", "", numbers);
        });
        let late = Reason::ProgressDeadlineExceeded;
        let labels = r#"{baton_kind="ObjectDeployment",baton_namespace="shop",baton_name="web""#;
        assert_eq!(
            found,
            [
                format!(
                    r#"x_condition{labels},condition="Available",status="False",reason="ObjectSetUnready"}} 1"#
                ),
                format!(
                    r#"x_condition{labels},condition="Progressing",status="False",reason="{late}"}} 1"#
                ),
                format!("x_revision{labels}}} 7"),
            ]
        );
    }

    fn revision(metadata: &Value, lifecycle: &str, conditions: &Value) -> RevisionRecord {
        let mut object = json!({
            "metadata": {"name": "web-1", "namespace": "shop", "uid": "u", "resourceVersion": "1"},
            "spec": {"lifecycleState": lifecycle}, "status": {"conditions": conditions},
        });
        for (key, value) in metadata.as_object().into_iter().flatten() {
            object["metadata"][key] = value.clone();
        }
        Record::read(RevisionKind::ObjectSet, &object.to_string()).unwrap()
    }

    #[test]
    fn a_revision_has_one_state() {
        let one = |type_: &str, status: &str, reason: &str| {
            let (name, because) = ("type", "reason");
            json!([{name: type_, "status": status, because: reason}])
        };
        let (none, plain) = (json!([]), json!({}));
        let deleting = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        let available = one("Available", "True", "Available");
        for (metadata, lifecycle, conditions, expected) in [
            (&plain, "Active", &none, "Pending"),
            (&plain, "Active", &available, "Available"),
            (
                &plain,
                "Active",
                &one("Available", "False", "PreflightError"),
                "PreflightError",
            ),
            (
                &plain,
                "Active",
                &one("Available", "Unknown", "ClusterUnreachable"),
                "ClusterUnreachable",
            ),
            (
                &plain,
                "Active",
                &one("Available", "False", "NeverHeardOf"),
                "Other",
            ),
            (&plain, "Paused", &available, "Paused"),
            (&plain, "Archived", &available, "Archiving"),
            (
                &plain,
                "Archived",
                &one("Archived", "True", "Archived"),
                "Archived",
            ),
            (&deleting, "Active", &available, "Deleting"),
        ] {
            assert_eq!(
                state(&revision(metadata, lifecycle, conditions)),
                expected,
                "{conditions}"
            );
        }
    }

    #[test]
    fn revisions_are_counted_by_state() {
        let record = || Arc::new(revision(&json!({}), "Paused", &json!([])));
        let family = of_revisions(&[record(), record()]);
        assert_eq!(
            series(|registry| registry.register("x_revisions", "", family)),
            [r#"x_revisions{baton_kind="ObjectSet",baton_namespace="shop",state="Paused"} 2"#]
        );
    }

    #[test]
    fn disputed_revisions_are_counted() {
        let record = |status: &str| {
            let (name, because) = ("type", "reason");
            let condition =
                json!([{name: "baton.run/Disputed", "status": status, because: "Disputed"}]);
            Arc::new(revision(&json!({}), "Active", &condition))
        };
        let family = of_disputed(&[record("True"), record("True"), record("False")]);
        assert_eq!(
            series(|registry| registry.register("x_disputed", "", family)),
            [r#"x_disputed{baton_kind="ObjectSet",baton_namespace="shop"} 2"#]
        );
    }

    #[test]
    fn clusters_are_connected_or_not() {
        let clusters = [("eu", true), ("us", false)];
        let clusters = clusters.map(|(name, up)| (name.to_owned(), up));
        let family = of_clusters(BTreeMap::from(clusters));
        assert_eq!(
            series(|registry| registry.register("x_connected", "", family)),
            [
                r#"x_connected{baton_cluster="eu"} 1"#,
                r#"x_connected{baton_cluster="us"} 0"#
            ]
        );
    }
}
