//! Triggers of deployments. Each function maps a change to the deployments to reconcile.

use std::sync::Arc;

use baton_apis::{
    RolloutBlock,
    conditions::{PROGRESSING, Reason},
};
use baton_engine::condition_list::find;
use baton_records::{
    deployment::{DeploymentKey, DeploymentKind, DeploymentRecord},
    revision::{RevisionKind, RevisionRecord},
    store::Change,
};
use baton_runtime::{controller::Controller as _, source::Wake};
use baton_typed::store::Change as BlockChange;

use super::ObjectDeployments;
use crate::delivery::{
    observed::Observed,
    rollout_blocks::{begun_or_ended, is_obeying, obeys},
    shared::BURST,
};

/// A deployment wakes itself, unless its own pass wrote it, or the change does not affect a pass.
pub(super) fn on_deployment(change: &Change<DeploymentKind>) -> Option<Wake<DeploymentKey>> {
    let record = change.record()?;
    (change.may_change_results() && change.writer != Some(ObjectDeployments::NAME))
        .then(|| Wake::now(record.key.clone()))
}

/// Any change of a revision wakes the deployment that controls it, the one that controlled it
/// before, and the one that may adopt it.
pub(super) fn on_revision(
    observed: &Observed,
    change: &Change<RevisionKind>,
) -> Vec<Wake<DeploymentKey>> {
    let records = change.old.iter().chain(&change.new);
    let mut keys: Vec<_> = records
        .filter_map(|record| deployment(observed, record))
        .collect();
    keys.dedup();
    let keys = keys.into_iter();
    keys.map(|key| Wake::after(BURST, key)).collect()
}

/// Revisions that can no longer be listed, or can be listed again, wake the deployments whose rollout
/// is not complete.
pub(super) fn on_revisions_listed(
    observed: &Observed,
    kind: RevisionKind,
) -> Vec<Wake<DeploymentKey>> {
    let is_idle = |deployment: &DeploymentRecord| {
        let status = deployment.status().unwrap_or_default();
        let progressing = find(&status.conditions, PROGRESSING);
        progressing.is_some_and(|progressing| progressing.reason == Reason::Idle)
    };
    let deployments = observed
        .deployments
        .filter(|deployment| deployment.key.kind == DeploymentKind(kind) && !is_idle(deployment));
    let keys = deployments.iter().map(|deployment| deployment.key.clone());
    keys.map(|key| Wake::after(BURST, key)).collect()
}

/// A block that appears or ends wakes the deployments that obey it.
pub(super) fn on_block(
    observed: &Observed,
    change: &BlockChange<RolloutBlock>,
) -> Vec<Wake<DeploymentKey>> {
    let namespace = begun_or_ended(change);
    namespace.map_or_else(Vec::new, |of_block| {
        let is_obeying =
            |it: &DeploymentRecord| is_obeying(&it.labels, &it.key.namespace, of_block);
        wake(observed, is_obeying)
    })
}

/// Blocks that can no longer be listed, or can be listed again, wake all deployments that obey blocks.
pub(super) fn on_blocks_listed(observed: &Observed) -> Vec<Wake<DeploymentKey>> {
    wake(observed, |it| obeys(&it.labels))
}

fn wake(
    observed: &Observed,
    is_concerned: impl Fn(&DeploymentRecord) -> bool,
) -> Vec<Wake<DeploymentKey>> {
    let deployments = observed.deployments.filter(is_concerned);
    let keys = deployments.iter().map(|it| it.key.clone());
    keys.map(Wake::now).collect()
}

fn deployment(observed: &Observed, record: &Arc<RevisionRecord>) -> Option<DeploymentKey> {
    match (&record.controller, &record.deployment) {
        (Some(uid), _) => Some(observed.deployments.by_uid(uid)?.key.clone()),
        (None, Some(name)) => Some(DeploymentKey::of(&record.key, name)),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use baton_records::{record::Record, revision::RevisionKind::ObjectSet};
    use serde_json::{Value, json};

    use super::*;

    fn deployment(version: u64, generation: i64) -> DeploymentRecord {
        let object = json!({"metadata": {
            "name": "web", "namespace": "shop", "uid": "d", "resourceVersion": version.to_string(),
            "generation": generation,
        }});
        Record::read(DeploymentKind(ObjectSet), &object.to_string()).unwrap()
    }

    fn revision(owners: &Value, labels: &Value) -> Arc<RevisionRecord> {
        let object = json!({"metadata": {
            "name": "web-1", "namespace": "shop", "uid": "r", "resourceVersion": "7",
            "ownerReferences": owners, "labels": labels,
        }});
        Arc::new(Record::read(ObjectSet, &object.to_string()).unwrap())
    }

    #[test]
    fn a_deployment_is_woken_by_changes_of_other_writers() {
        let (before, same, edited) = (deployment(5, 1), deployment(6, 1), deployment(6, 2));
        for (old, new, writer, is_woken) in [
            (None, Some(&before), None, true),
            (Some(&before), Some(&same), None, false),
            (Some(&before), Some(&edited), None, true),
            (
                Some(&before),
                Some(&edited),
                Some(ObjectDeployments::NAME),
                false,
            ),
            (Some(&before), None, None, true),
        ] {
            let arc = |record: &DeploymentRecord| Arc::new(record.clone());
            let change = Change {
                old: old.map(arc),
                new: new.map(arc),
                writer,
            };
            assert_eq!(on_deployment(&change).is_some(), is_woken, "{writer:?}");
        }
    }

    #[test]
    fn a_revision_wakes_the_deployments_it_belongs_to() {
        let observed = Observed::default();
        observed.deployments.observe(deployment(5, 1));
        let owned = revision(&json!([{"uid": "d", "controller": true}]), &json!({}));
        let of_other = revision(&json!([{"uid": "x", "controller": true}]), &json!({}));
        let label = json!({"package-operator.run/object-deployment": "api"});
        let orphan = revision(&json!([]), &label);
        let stranger = revision(&json!([]), &json!({}));
        for (old, new, expected) in [
            (None, Some(&owned), vec!["web"]),
            (Some(&owned), Some(&owned), vec!["web"]),
            (Some(&owned), None, vec!["web"]),
            (Some(&owned), Some(&orphan), vec!["web", "api"]),
            (None, Some(&orphan), vec!["api"]),
            (None, Some(&of_other), vec![]),
            (None, Some(&stranger), vec![]),
        ] {
            let change = Change {
                old: old.cloned(),
                new: new.cloned(),
                writer: None,
            };
            let woken = on_revision(&observed, &change);
            let names: Vec<_> = woken.iter().map(|wake| &*wake.key.name).collect();
            assert_eq!(names, expected);
        }
    }
}
