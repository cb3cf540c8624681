//! Triggers of `SiteDeployment`.

use std::{sync::Arc, time::Duration};

use baton_apis::{
    RolloutBlock, SiteApplication, SiteDeployment,
    constants::{LABEL_SITE_APPLICATION, LABEL_SITE_DEPLOYMENT},
    kinds,
};
use baton_fleet::assignments::AssignmentChange;
use baton_records::{revision::RevisionKind, store::Change as RecordChange};
use baton_runtime::{controller::Controller as _, source::Wake};
use baton_typed::{key::Key, store::Change};
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::ResourceExt as _;

use super::SiteDeployments;
use crate::{
    controllers::sites::{Stores, placement::Choices},
    delivery::{
        rollout_blocks::{begun_or_ended, is_obeying},
        shared::BURST,
    },
};

/// The debounce of reports: thousands of sites report at the same time, and one plan covers them
/// all.
const REPORTS: Duration = Duration::from_secs(1);

fn key(deployment: &SiteDeployment) -> Key {
    Key::of(kinds::SITE_DEPLOYMENT.name, deployment)
}

fn all(deployments: &[Arc<SiteDeployment>], after: Duration) -> Vec<Wake<Key>> {
    let keys = deployments.iter().map(|deployment| key(deployment));
    keys.map(|key| Wake::after(after, key)).collect()
}

/// A deployment wakes itself. If it appears, is deleted or its spec changes, it also wakes the
/// deployments that may have chosen the same sites. A status change is debounced, as most are our
/// own.
pub(super) fn on_deployment(stores: &Stores, change: &Change<SiteDeployment>) -> Vec<Wake<Key>> {
    let Some(deployment) = change.object() else {
        return Vec::new();
    };
    let is_same = match (&change.old, &change.new) {
        (Some(old), Some(new)) => {
            let (old, new) = (&old.metadata, &new.metadata);
            old.uid == new.uid
                && old.generation == new.generation
                && old.deletion_timestamp == new.deletion_timestamp
        }
        _ => false,
    };
    if is_same {
        return vec![Wake::after(REPORTS, key(deployment))];
    }
    let namespace = deployment.namespace().unwrap_or_default();
    let sides = change.old.iter().chain(&change.new);
    let mut wakes = vec![Wake::now(key(deployment))];
    for side in sides {
        wakes.extend(of_application(stores, &namespace, &side.spec.application));
    }
    wakes
}

/// An application wakes its deployments when it appears or is deleted, and when its stored versions
/// change.
pub(super) fn on_application(stores: &Stores, change: &Change<SiteApplication>) -> Vec<Wake<Key>> {
    let kept = |side: &Option<Arc<SiteApplication>>| {
        let status = side
            .as_ref()
            .map(|it| it.status.clone().unwrap_or_default());
        status.map(|status| status.versions)
    };
    if kept(&change.old) == kept(&change.new) {
        return Vec::new();
    }
    let application = change.object();
    let wakes = application.map(|application| {
        let namespace = application.namespace().unwrap_or_default();
        of_application(stores, &namespace, &application.name_any())
    });
    wakes.unwrap_or_default()
}

/// Wakes the deployments of an application.
pub(super) fn of_application(stores: &Stores, namespace: &str, name: &str) -> Vec<Wake<Key>> {
    all(&stores.deployments_of(namespace, name), BURST)
}

/// A block that appears or ends wakes the deployments that obey it.
pub(super) fn on_block(stores: &Stores, change: &Change<RolloutBlock>) -> Vec<Wake<Key>> {
    let namespace = begun_or_ended(change);
    namespace.map_or_else(Vec::new, |of_block| {
        let namespace = |it: &SiteDeployment| it.namespace().unwrap_or_default();
        let deployments = &stores.deployments;
        deployments.wake(|it| is_obeying(it.labels(), &namespace(it), of_block))
    })
}

/// The record of a version wakes the deployments of its application.
pub(super) fn on_version(stores: &Stores, change: &Change<ControllerRevision>) -> Vec<Wake<Key>> {
    let wakes = change.object().and_then(|record| {
        let application = record.labels().get(LABEL_SITE_APPLICATION)?;
        let namespace = record.namespace()?;
        Some(of_application(stores, &namespace, application))
    });
    wakes.unwrap_or_default()
}

/// The record of a choice wakes the deployments that may have chosen the same sites, and the
/// deployment itself, which chooses again if the record is lost.
pub(super) fn on_placement(stores: &Stores, change: &Change<ControllerRevision>) -> Vec<Wake<Key>> {
    let wakes = change.object().and_then(|record| {
        let name = record.labels().get(LABEL_SITE_DEPLOYMENT)?;
        let namespace = record.namespace()?;
        let deployment = stores.deployments.get(&namespace, name)?;
        let application = &deployment.spec.application;
        Some(of_application(stores, &namespace, application))
    });
    wakes.unwrap_or_default()
}

/// A revision of a site wakes the deployment that made it, unless this controller wrote the change.
///
/// A revision that was deleted or has just been archived may leave its site to other deployments,
/// so it wakes these as well.
pub(super) fn on_revision(stores: &Stores, change: &RecordChange<RevisionKind>) -> Vec<Wake<Key>> {
    let Some(revision) = change.record() else {
        return Vec::new();
    };
    let Some(site) = &revision.site else {
        return Vec::new();
    };
    if change.writer == Some(SiteDeployments::NAME) || !change.may_change_results() {
        return Vec::new();
    }
    let namespace = &revision.key.namespace;
    let own = Key::new(
        kinds::SITE_DEPLOYMENT.name,
        namespace,
        &site.entry.deployment,
    );
    let mut wakes = vec![Wake::after(REPORTS, own)];
    let has_left = match (&change.old, &change.new) {
        (Some(old), Some(new)) => !old.archived && new.archived,
        (_, new) => new.is_none(),
    };
    if has_left {
        let others = stores.deployments_of(namespace, &site.entry.application);
        wakes.extend(all(&others, REPORTS));
    }
    wakes
}

/// The link or the labels of a site wake the deployments that have the site, and those that follow
/// labels.
pub(super) fn in_site(stores: &Stores, choices: &Choices, site: &str) -> Vec<Wake<Key>> {
    let mut deployments = stores.deployments.all();
    deployments.retain(|deployment| {
        deployment.spec.placement.follow || choices.may_have(&key(deployment), site)
    });
    all(&deployments, REPORTS)
}

/// Assignments wake the deployments that follow them. All deployments are woken when a kind that
/// decisions depend on becomes listed, or can no longer be listed.
pub(super) fn on_assignment(stores: &Stores, change: &AssignmentChange) -> Vec<Wake<Key>> {
    let concerns_all = matches!(change, AssignmentChange::Everything);
    let mut deployments = stores.deployments.all();
    deployments.retain(|deployment| concerns_all || deployment.spec.placement.follow);
    all(&deployments, REPORTS)
}

#[cfg(test)]
mod tests {
    use baton_apis::constants::ANNOTATION_SITE;
    use baton_records::{
        record::Record,
        revision::{RevisionKind::ObjectSet, RevisionRecord},
    };
    use serde_json::json;

    use super::*;

    fn revision(is_archived: bool) -> Arc<RevisionRecord> {
        let entry = json!({
            "deployment": "one", "site": "edge", "application": "shop", "version": "1.0.0", "edit": "0", "rollout": 1,
            "batch": 1, "phases": [],
        });
        let archived = json!({
            "type": "Archived", "status": "True", "reason": "Archived", "message": "", "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        let conditions: Vec<_> = is_archived.then_some(archived).into_iter().collect();
        let object = json!({
            "metadata": {
                "name": "one-edge-1", "namespace": "shop", "uid": "u", "resourceVersion": "1", "generation": 1,
                "annotations": {ANNOTATION_SITE: entry.to_string()},
            },
            "spec": {"revision": 1, "phases": []},
            "status": {"conditions": conditions},
        });
        Arc::new(Record::read(ObjectSet, &object.to_string()).unwrap())
    }

    #[test]
    fn a_revision_that_ends_wakes_the_other_deployments_of_its_application() {
        let stores = Stores::default();
        for (name, application) in [("one", "shop"), ("other", "shop"), ("stranger", "bank")] {
            let object = json!({
                "apiVersion": "baton.run/v1alpha1", "kind": "SiteDeployment",
                "metadata": {"name": name, "namespace": "shop", "uid": name, "resourceVersion": "1"},
                "spec": {"application": application, "applicationVersion": "1.0.0", "placement": {}},
            });
            stores
                .deployments
                .written(serde_json::from_value(object).unwrap());
        }
        let woken = |old, new| {
            let writer = None;
            let wakes = on_revision(&stores, &RecordChange { old, new, writer });
            let mut names: Vec<_> = wakes.iter().map(|it| it.key.name.to_string()).collect();
            names.sort();
            names.dedup();
            names
        };
        let (active, archived) = (Some(revision(false)), Some(revision(true)));
        assert_eq!(woken(None, active.clone()), ["one"]);
        assert_eq!(woken(active, archived.clone()), ["one", "other"]);
        assert_eq!(woken(archived.clone(), None), ["one", "other"]);
        // This change occurs at the start of the manager, when all deployments are woken anyway.
        assert_eq!(woken(None, archived), ["one"]);
    }
}
