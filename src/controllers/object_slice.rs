//! The controller of slices: deletes those that nothing uses.
//!
//! A client creates slices before the object that names them. If the client ends in between, the
//! slices stay behind without a revision that owns them. Their age decides, by a timer, so that
//! they cost no request until they are deleted.

use std::{sync::Arc, time::Duration};

use baton_engine::{conditions::Requeue, deployment::slices};
use baton_kubernetes::collection::Extent;
use baton_records::{
    deployment::{DeploymentKind, DeploymentRecord},
    slice::{SliceKey, SliceKind, SliceRecord},
    store::Change,
};
use baton_runtime::{
    controller::{Controller, Reconciled},
    outcomes::ReconcileOutcome,
    queue::Queue,
    source::Wake,
};

use crate::delivery::{
    observed::Observed,
    shared::{AtStep as _, Error, Shared},
};

/// The delay of the next check while the objects that may name a slice cannot be listed.
const UNKNOWN: Duration = Duration::from_secs(30);

/// Deletes slices that no revision owns and that nothing names.
pub(crate) struct ObjectSlices {
    pub shared: Shared,
    pub observed: Arc<Observed>,
}

impl Controller for ObjectSlices {
    const NAME: &'static str = "objectslice";

    type Key = SliceKey;
    type Error = Error;

    fn watches(self: &Arc<Self>, queue: &Arc<Queue<SliceKey>>) {
        let on = &self.observed;
        queue.wake_on(on.slices.changes(), self, |_, change| on_slice(change));
    }

    async fn reconcile(&self, key: &SliceKey, _failures: u32) -> Result<Reconciled, Error> {
        let Some(slice) = self.observed.slices.get(key) else {
            return Ok((ReconcileOutcome::Gone, Requeue::OnEvent));
        };
        if !slice.awaits_user || slice.deleting {
            return Ok((ReconcileOutcome::Unchanged, Requeue::OnEvent));
        }
        // A user that was created meanwhile is missing in the stores.
        if !are_users_known(&self.observed, key) {
            return Ok((ReconcileOutcome::Waiting, Requeue::After(UNKNOWN)));
        }
        let is_named = is_named(&self.observed, key);
        let now = self.shared.clock.now();
        if let Some(delay) = slices::until_unused(slice.created, is_named, now) {
            return Ok((ReconcileOutcome::Unchanged, Requeue::After(delay)));
        }
        let deleted = self.shared.api.delete_slice(&slice).await;
        deleted.at_step("deleting a slice that nothing uses")?;
        Ok((ReconcileOutcome::Changed, Requeue::OnEvent))
    }
}

/// True if all objects that may name a slice are in the stores.
fn are_users_known(observed: &Observed, slice: &SliceKey) -> bool {
    let kind = slice.kind.0;
    let revisions = observed.revisions.extent(kind);
    let deployments = observed.deployments.extent(DeploymentKind(kind));
    revisions.and(deployments) == Extent::All
}

/// True if a revision names a slice, or a deployment uses it. A deployment that cannot be read may
/// use any slice of its namespace.
fn is_named(observed: &Observed, slice: &SliceKey) -> bool {
    if !observed.revisions.slice_users(slice).is_empty() {
        return true;
    }
    let kind = DeploymentKind(slice.kind.0);
    let uses = |deployment: &DeploymentRecord| {
        deployment.key.kind == kind
            && deployment.key.namespace == slice.namespace
            && deployment.template().map_or(true, |template| {
                slices::uses(&deployment.key.name, &template, &slice.name)
            })
    };
    !observed.deployments.filter(uses).is_empty()
}

/// Trigger: a slice that appears without a user, or loses its user, wakes itself.
fn on_slice(change: &Change<SliceKind>) -> Option<Wake<SliceKey>> {
    let new = change.new.as_ref().filter(|new| new.awaits_user)?;
    let was_so = |old: &Arc<SliceRecord>| old.awaits_user && old.uid == new.uid;
    (!change.old.as_ref().is_some_and(was_so)).then(|| Wake::now(new.key.clone()))
}

#[cfg(test)]
mod tests {
    use baton_records::{record::Record, revision::RevisionKind::ObjectSet};
    use serde_json::{Value, json};

    use super::*;

    fn slice(version: u64, owners: &Value) -> Arc<SliceRecord> {
        let object = json!({"metadata": {
            "name": "web-a", "namespace": "shop", "uid": "s", "resourceVersion": version.to_string(),
            "ownerReferences": owners,
        }});
        Arc::new(Record::read(SliceKind(ObjectSet), &object.to_string()).unwrap())
    }

    #[test]
    fn a_slice_wakes_itself_when_it_has_no_user() {
        let (bare, of_revision) = (json!([]), json!([{"kind": "ObjectSet", "uid": "r"}]));
        let of_deployment = json!([{"kind": "ObjectDeployment", "uid": "d"}]);
        for (old, new, is_woken) in [
            (None, Some(&bare), true),
            (None, Some(&of_deployment), true),
            (None, Some(&of_revision), false),
            (Some(&of_revision), Some(&bare), true),
            (Some(&bare), Some(&bare), false),
            (Some(&of_deployment), Some(&of_revision), false),
            (Some(&bare), None, false),
        ] {
            let change = Change {
                old: old.map(|owners| slice(5, owners)),
                new: new.map(|owners| slice(6, owners)),
                writer: None,
            };
            assert_eq!(on_slice(&change).is_some(), is_woken, "{old:?} {new:?}");
        }
    }

    /// A kind that is not served, a list that fails and a missing right all have the extent
    /// `Unavailable`. A watch that ends changes no extent.
    #[test]
    fn the_users_of_a_slice_are_unknown_while_a_kind_cannot_be_listed() {
        let key = slice(5, &json!([])).key.clone();
        let unavailable = || Extent::Unavailable("no right".into());
        for (revisions, deployments, expected) in [
            (Extent::Nothing, Extent::Nothing, false),
            (Extent::All, Extent::Nothing, false),
            (Extent::All, Extent::All, true),
            (unavailable(), Extent::All, false),
            (Extent::All, unavailable(), false),
        ] {
            let observed = Observed::default();
            observed.revisions.set_extent(ObjectSet, &revisions);
            let kind = DeploymentKind(ObjectSet);
            observed.deployments.set_extent(kind, &deployments);
            assert_eq!(are_users_known(&observed, &key), expected);
        }
    }

    #[test]
    fn a_revision_or_a_template_of_the_same_namespace_names_a_slice() {
        let key = slice(5, &json!([])).key.clone();
        let spec = json!({"phases": [{"name": "a", "slices": ["web-a"]}]});
        let version = "5";
        let metadata = |namespace: &str| {
            json!({
                "name": "web", "namespace": namespace, "uid": namespace, "resourceVersion": version,
            })
        };
        let revision = json!({"metadata": metadata("shop"), "spec": spec});
        let observed = Observed::default();
        assert!(!is_named(&observed, &key));
        let record = Record::read(ObjectSet, &revision.to_string()).unwrap();
        observed.revisions.observe(record);
        assert!(is_named(&observed, &key));

        let observed = Observed::default();
        for (namespace, expected) in [("other", false), ("shop", true)] {
            let deployment = json!({"metadata": metadata(namespace), "spec": {
                "selector": {}, "template": {"metadata": {}, "spec": spec},
            }});
            let kind = DeploymentKind(ObjectSet);
            let record = Record::read(kind, &deployment.to_string()).unwrap();
            observed.deployments.observe(record);
            assert_eq!(is_named(&observed, &key), expected);
        }
    }
}
