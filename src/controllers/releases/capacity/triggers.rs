//! Triggers of `CapacityTarget`.

use baton_apis::{
    CapacityTarget,
    constants::shipper::{LABEL_APP, LABEL_RELEASE},
};
use baton_runtime::source::Wake;
use baton_typed::{
    key::Key,
    store::{Change, Store},
};

use super::key;
use crate::{
    controllers::releases::{
        app_clusters::{ChangedObject, ClusterChange, objects::label},
        report::is_wiped,
    },
    delivery::shared::BURST,
};

/// A target wakes itself when it appears, is deleted or changes. Changes of the status are ignored,
/// as most are our own, unless another client has removed it.
pub(super) fn on_target(change: &Change<CapacityTarget>) -> Option<Wake<Key>> {
    let target = change.object()?;
    let is_woken = match (&change.old, &change.new) {
        (Some(old), Some(new)) if is_wiped(&**old, &**new) => true,
        (Some(old), Some(new)) => {
            let (old, new) = (&old.metadata, &new.metadata);
            (
                &old.uid,
                old.generation,
                &old.labels,
                &old.annotations,
                &old.deletion_timestamp,
            ) != (
                &new.uid,
                new.generation,
                &new.labels,
                &new.annotations,
                &new.deletion_timestamp,
            )
        }
        _ => true,
    };
    is_woken.then(|| Wake::now(key(target)))
}

/// A workload or a pod wakes the target of its Release. The wake is debounced, unless the last pod
/// of a workload became available, because a step of the rollout waits for this.
pub(super) fn on_cluster(
    targets: &Store<CapacityTarget>,
    change: &ClusterChange,
) -> Vec<Wake<Key>> {
    let (release, is_last) = match &change.object {
        ChangedObject::Workload { release, is_full } => (release, *is_full),
        ChangedObject::Pod {
            release,
            is_other_state: true,
            ..
        } => (release, false),
        ChangedObject::Pod { .. } | ChangedObject::Balancer => return Vec::new(),
    };
    let targets = targets.labelled(&change.namespace, LABEL_APP, &change.application);
    let targets = targets
        .iter()
        .filter(|target| label(&target.metadata, LABEL_RELEASE) == release);
    targets
        .map(|target| {
            let key = key(target);
            if is_last {
                Wake::now(key)
            } else {
                Wake::after(BURST, key)
            }
        })
        .collect()
}

/// A changed connection or assignment of a cluster wakes the targets that `is_concerned` selects by
/// namespace and cluster.
pub(super) fn on_clusters(
    targets: &Store<CapacityTarget>,
    is_concerned: impl Fn(&str, &str) -> bool,
) -> Vec<Wake<Key>> {
    targets.wake(|target| {
        let namespace = target.metadata.namespace.as_deref().unwrap_or_default();
        let mut clusters = target.spec.clusters.iter();
        clusters.any(|cluster| is_concerned(namespace, &cluster.name))
    })
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use serde_json::{from_value, json};

    use super::*;

    fn target(name: &str, app: &str, cluster: &str) -> CapacityTarget {
        from_value(json!({
            "metadata": {
                "name": name, "namespace": "shop", "uid": name, "resourceVersion": "7", "generation": 1,
                "labels": {"shipper-app": app, "shipper-release": name},
            },
            "spec": {"clusters": [{"name": cluster, "percent": 1, "totalReplicaCount": 1}]},
        }))
        .unwrap()
    }

    fn store() -> Store<CapacityTarget> {
        let store = Store::new("CapacityTarget");
        for (name, app, cluster) in [
            ("web-1", "web", "eu"),
            ("web-2", "web", "us"),
            ("db-1", "db", "eu"),
        ] {
            store.written(target(name, app, cluster));
        }
        store
    }

    fn names(wakes: impl IntoIterator<Item = Wake<Key>>) -> Vec<String> {
        wakes
            .into_iter()
            .map(|wake| wake.key.name.to_string())
            .collect()
    }

    #[test]
    fn a_removed_status_wakes_its_target_and_other_changes_of_it_do_not() {
        let with = |status: Option<&[&str]>| {
            let mut target = target("web-1", "web", "eu");
            let conditions = status.map(|types| {
                let condition = |type_| json!({"type": type_, "status": "True"});
                let conditions: Vec<_> = types.iter().map(condition).collect();
                from_value(json!({"conditions": conditions, "clusters": []})).unwrap()
            });
            target.status = conditions;
            Some(Arc::new(target))
        };
        let (whole, unready) = (
            Some(&["Operational", "Ready"][..]),
            Some(&["Operational"][..]),
        );
        for (old, new, is_woken) in [
            (None, whole, false),
            (unready, whole, false),
            (whole, whole, false),
            (whole, unready, true),
            (whole, Some(&[][..]), true),
            (whole, None, true),
            (None, None, false),
        ] {
            let change = Change {
                old: with(old),
                new: with(new),
            };
            assert_eq!(on_target(&change).is_some(), is_woken, "{old:?} {new:?}");
        }
    }

    #[test]
    fn workloads_and_pods_wake_the_target_of_their_release() {
        let store = store();
        let pod = |is_other_state| ChangedObject::Pod {
            release: "web-1".to_owned(),
            is_relabelled: true,
            is_other_state,
        };
        let workload = |is_full| ChangedObject::Workload {
            release: "web-2".to_owned(),
            is_full,
        };
        for (object, expected, after) in [
            (workload(false), &["web-2"][..], BURST),
            (workload(true), &["web-2"], Duration::ZERO),
            (pod(true), &["web-1"], BURST),
            (pod(false), &[], BURST),
            (ChangedObject::Balancer, &[], BURST),
        ] {
            let change = ClusterChange {
                namespace: "shop".to_owned(),
                application: "web".to_owned(),
                object,
            };
            let wakes = on_cluster(&store, &change);
            assert!(wakes.iter().all(|wake| wake.after == after), "{change:?}");
            assert_eq!(names(wakes), expected, "{change:?}");
        }
    }

    #[test]
    fn a_cluster_wakes_the_targets_that_have_it() {
        assert_eq!(
            names(on_clusters(&store(), |_, found| found == "eu")),
            ["db-1", "web-1"]
        );
        assert_eq!(
            names(on_clusters(&store(), |_, found| found == "asia")),
            [""; 0]
        );
    }

    #[test]
    fn a_target_is_woken_by_its_spec_and_metadata_but_not_its_status() {
        let old = target("web-1", "web", "eu");
        let mut reported = old.clone();
        reported.metadata.resource_version = Some("8".to_owned());
        reported.status = Some(baton_apis::CapacityTargetStatus::default());
        let mut changed = old.clone();
        changed.metadata.generation = Some(2);
        let mut annotated = old.clone();
        annotated.metadata.annotations = Some([("a".to_owned(), "b".to_owned())].into());
        for (new, is_woken) in [
            (Some(old.clone()), false),
            (Some(reported), false),
            (Some(changed), true),
            (Some(annotated), true),
            (None, true),
        ] {
            let change = Change {
                old: Some(Arc::new(old.clone())),
                new: new.map(Arc::new),
            };
            assert_eq!(on_target(&change).is_some(), is_woken, "{change:?}");
        }
    }
}
