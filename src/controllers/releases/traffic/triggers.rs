//! Triggers of `TrafficTarget`. Most changes wake all targets of an application, as each share
//! depends on the others.

use std::time::Duration;

use baton_apis::{TrafficTarget, constants::shipper::LABEL_APP};
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

/// A target wakes itself, and all others of its previous and its current application. Changes of the
/// status are ignored, as most are our own; if another client has removed it, the target wakes itself.
pub(super) fn on_target(
    targets: &Store<TrafficTarget>,
    change: &Change<TrafficTarget>,
) -> Vec<Wake<Key>> {
    let Change { old, new } = change;
    if let (Some(old), Some(new)) = (old, new) {
        if is_wiped(&**old, &**new) {
            return vec![Wake::now(key(new))];
        }
        let (old, new) = (&old.metadata, &new.metadata);
        let is_same = (
            &old.uid,
            old.generation,
            &old.labels,
            &old.deletion_timestamp,
        ) == (
            &new.uid,
            new.generation,
            &new.labels,
            &new.deletion_timestamp,
        );
        if is_same {
            return Vec::new();
        }
    }
    let mut woken = Vec::new();
    for target in [old, new].into_iter().flatten() {
        let namespace = target.metadata.namespace.as_deref().unwrap_or_default();
        let others = targets.labelled(namespace, LABEL_APP, label(&target.metadata, LABEL_APP));
        woken.extend(others.iter().map(|other| key(other)));
        woken.push(key(target));
    }
    woken.sort();
    woken.dedup();
    woken.into_iter().map(Wake::now).collect()
}

/// The debounce of endpoints. One controller writes them in a few steps, and a rollout waits for
/// them: their bursts are shorter than those of pods.
const ADDRESSES: Duration = Duration::from_millis(5);

/// A pod that is created, deleted or relabelled wakes the targets of its application, and so does
/// the Service that balances.
pub(super) fn on_cluster(targets: &Store<TrafficTarget>, change: &ClusterChange) -> Vec<Wake<Key>> {
    let burst = match &change.object {
        ChangedObject::Pod {
            is_relabelled: true,
            ..
        } => BURST,
        ChangedObject::Balancer => ADDRESSES,
        ChangedObject::Pod { .. } | ChangedObject::Workload { .. } => return Vec::new(),
    };
    let targets = targets.labelled(&change.namespace, LABEL_APP, &change.application);
    targets
        .iter()
        .map(|target| Wake::after(burst, key(target)))
        .collect()
}

/// A changed connection or assignment of a cluster wakes the targets that `is_concerned` selects by
/// namespace and cluster.
pub(super) fn on_clusters(
    targets: &Store<TrafficTarget>,
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
    use std::sync::Arc;

    use serde_json::{from_value, json};

    use super::*;

    fn target(name: &str, app: &str) -> TrafficTarget {
        from_value(json!({
            "metadata": {
                "name": name, "namespace": "shop", "uid": name, "resourceVersion": "7", "generation": 1,
                "labels": {"shipper-app": app, "shipper-release": name},
            },
            "spec": {"clusters": [{"name": app, "weight": 1}]},
        }))
        .unwrap()
    }

    fn store() -> Store<TrafficTarget> {
        let store = Store::new("TrafficTarget");
        for (name, app) in [("web-1", "web"), ("web-2", "web"), ("db-1", "db")] {
            store.written(target(name, app));
        }
        store
    }

    fn names(wakes: Vec<Wake<Key>>) -> Vec<String> {
        wakes
            .into_iter()
            .map(|wake| wake.key.name.to_string())
            .collect()
    }

    #[test]
    fn pods_and_addresses_wake_all_targets_of_the_application() {
        let pod = |is_relabelled| ChangedObject::Pod {
            release: "web-1".to_owned(),
            is_relabelled,
            is_other_state: true,
        };
        let workload = ChangedObject::Workload {
            release: "web-1".to_owned(),
            is_full: true,
        };
        let all = &["web-1", "web-2"][..];
        for (object, expected) in [
            (ChangedObject::Balancer, all),
            (pod(true), all),
            (pod(false), &[]),
            (workload, &[]),
        ] {
            let change = ClusterChange {
                namespace: "shop".to_owned(),
                application: "web".to_owned(),
                object,
            };
            assert_eq!(names(on_cluster(&store(), &change)), expected, "{change:?}");
        }
    }

    #[test]
    fn a_target_wakes_all_targets_of_its_old_and_new_application() {
        let old = target("web-1", "web");
        let mut reported = old.clone();
        reported.status = Some(baton_apis::TrafficTargetStatus::default());
        let mut changed = old.clone();
        changed.metadata.generation = Some(2);
        for (old, new, expected) in [
            (Some(&old), Some(&reported), &[][..]),
            (Some(&old), Some(&changed), &["web-1", "web-2"]),
            (
                Some(&old),
                Some(&target("web-1", "db")),
                &["db-1", "web-1", "web-2"],
            ),
            (None, Some(&target("db-2", "db")), &["db-1", "db-2"]),
            (
                Some(&target("web-3", "web")),
                None,
                &["web-1", "web-2", "web-3"],
            ),
        ] {
            let side = |target: Option<&TrafficTarget>| target.cloned().map(Arc::new);
            let change = Change {
                old: side(old),
                new: side(new),
            };
            assert_eq!(names(on_target(&store(), &change)), expected, "{change:?}");
        }
        assert_eq!(
            names(on_clusters(&store(), |_, found| found == "db")),
            ["db-1"]
        );
    }
}
