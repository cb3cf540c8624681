//! Pauses everything that could take the objects again while their fields are given back.

use std::time::Duration;

use baton_apis::{
    LifecycleState,
    conditions::{ARCHIVED, PAUSED},
};
use baton_cluster::Cluster;
use baton_steering::pausing::{Action, switched};
use baton_view::chain::{Chain, member::Revision, target::Target};

use super::AdoptedDeployment;
use crate::{error::Error, wait::chain::watch_until};

impl AdoptedDeployment {
    /// Pauses the deployment, or its remaining revisions. Returns when the manager has observed the
    /// pause: it writes no object from then on.
    ///
    /// # Errors
    /// If the manager takes longer than `timeout`, or is not running.
    pub(super) async fn pause(
        &self,
        cluster: &Cluster,
        timeout: Duration,
        mut report: impl FnMut(&str) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let deployment = self.chain.deployment.as_ref();
        if let Some(deployment) = deployment.filter(|deployment| !deployment.is_deleting()) {
            return paused(cluster, &deployment.target(), timeout, report).await;
        }
        let revisions = self.chain.revisions.iter();
        for revision in revisions.filter(|revision| !is_quiet(revision)) {
            let target = revision.target();
            if revision.is_archived() {
                // The archival is under way.
                until_quiet(cluster, &target, timeout).await?;
            } else {
                paused(cluster, &target, timeout, &mut report).await?;
            }
        }
        Ok(())
    }
}

/// Pauses a deployment or a revision, and waits until the manager has observed that.
pub(in crate::adopt) async fn paused(
    cluster: &Cluster,
    target: &Target,
    timeout: Duration,
    mut report: impl FnMut(&str) -> Result<(), Error>,
) -> Result<(), Error> {
    let (_, is_changed) = switched(cluster, target, Action::Pause, false).await?;
    if is_changed {
        report(&format!(
            "{target} paused, so that it does not take the objects over again"
        ))?;
    }
    until_quiet(cluster, target, timeout).await
}

/// Waits until the manager writes no object of a deployment or a revision any more.
pub(in crate::adopt) async fn until_quiet(
    cluster: &Cluster,
    target: &Target,
    timeout: Duration,
) -> Result<(), Error> {
    let (_, is_quiet) = watch_until(cluster, target, timeout, async |chain| {
        chain.is_none_or(is_still).then_some(())
    })
    .await?;
    is_quiet.ok_or_else(|| {
        Error::Impossible(format!(
            "nothing was given back, because the manager has not paused {target} yet: check that the manager runs, \
             then run this again"
        ))
    })
}

/// True if the manager writes no object of a chain, or of the named revision.
fn is_still(chain: &Chain) -> bool {
    let named = chain.named.as_deref();
    let revisions = chain.revisions.iter();
    let mut revisions =
        revisions.filter(|revision| named.is_none_or(|name| revision.name() == name));
    // A deployment reports the pause when it has set all of its revisions to be paused.
    let is_observed = chain.asked_deployment().is_none_or(|deployment| {
        deployment.is_deleting()
            || deployment.spec.paused
                && deployment.status.observed_generation == deployment.metadata.generation
    });
    is_observed && revisions.all(is_quiet)
}

/// True if the manager writes no object of a revision any more, and has observed that.
pub(in crate::adopt) fn is_quiet(revision: &Revision) -> bool {
    let is_paused = revision.spec.lifecycle_state == LifecycleState::Paused
        && revision.condition(PAUSED).is_some_and(|paused| {
            paused.status == "True" && paused.observed_generation == revision.metadata.generation
        });
    is_paused || revision.is_deleting() || revision.is_true(ARCHIVED)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::selection::from_objects;

    const API_VERSION: &str = "package-operator.run/v1alpha1";

    /// A revision with reported conditions.
    fn revision(name: &str, state: &str, reported: &[(&str, i64)]) -> Value {
        let conditions = reported.iter().map(|(type_, generation)| {
            json!({
                "type": type_, "status": "True", "observedGeneration": generation, "reason": "A", "message": "",
                "lastTransitionTime": "2026-08-01T00:00:00Z",
            })
        });
        json!({
            "apiVersion": API_VERSION, "kind": "ObjectSet",
            "metadata": {"name": name, "uid": name, "generation": 2, "ownerReferences": [{
                "apiVersion": API_VERSION, "kind": "ObjectDeployment", "name": "shop", "uid": "shop",
                "controller": true,
            }]},
            "spec": {"lifecycleState": state, "revision": 1},
            "status": {"conditions": conditions.collect::<Vec<_>>()},
        })
    }

    fn chain(paused: bool, observed: i64, revisions: Vec<Value>) -> Chain {
        let deployment = json!({
            "apiVersion": API_VERSION, "kind": "ObjectDeployment",
            "metadata": {"name": "shop", "uid": "shop", "generation": 3},
            "spec": {"paused": paused, "selector": {}, "template": {"metadata": {}, "spec": {}}},
            "status": {"observedGeneration": observed},
        });
        from_objects(vec![deployment], revisions).remove(0)
    }

    #[test]
    fn nothing_is_written_once_all_pauses_are_reported() {
        let quiet = || revision("a", "Paused", &[("Paused", 2)]);
        assert!(is_still(&chain(true, 3, vec![quiet()])));
        assert!(
            !is_still(&chain(true, 2, vec![quiet()])),
            "it may make another revision"
        );
        assert!(!is_still(&chain(false, 3, vec![quiet()])), "it was resumed");
        for (other, expected) in [
            (revision("b", "Archived", &[("Archived", 1)]), true),
            (revision("b", "Archived", &[]), false),
            (revision("b", "Paused", &[("Paused", 1)]), false),
            (revision("b", "Active", &[("Available", 2)]), false),
        ] {
            let text = other.to_string();
            assert_eq!(
                is_still(&chain(true, 3, vec![quiet(), other])),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn a_named_revision_is_paused_by_its_own_lifecycle() {
        let revisions = vec![
            revision("a", "Paused", &[("Paused", 2)]),
            revision("b", "Active", &[]),
        ];
        for (name, expected) in [("a", true), ("b", false)] {
            let named = Chain {
                named: Some(name.to_owned()),
                ..chain(false, 3, revisions.clone())
            };
            assert_eq!(is_still(&named), expected, "{name}");
        }
    }
}
