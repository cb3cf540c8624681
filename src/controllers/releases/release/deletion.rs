//! The deletion of a Release: its pods serve until others replace them.

use baton_apis::{
    Release,
    conditions::{Reason, shipper::REPLACED},
    constants::shipper::FINALIZER_SERVING,
    kinds,
};
use baton_engine::conditions::Requeue;
use baton_releases::{
    strategy::deletion::{DeletionStep, departure},
    texts::Quoted,
};
use baton_runtime::{controller::Reconciled, outcomes::ReconcileOutcome};
use baton_typed::key::Key;
use kube::ResourceExt as _;

use super::{Releases, Sync, member, order};
use crate::controllers::releases::{AtStep as _, Error};

impl Releases {
    /// Adds a finalizer to a Release that has pods, so that its deletion waits until other pods
    /// serve instead.
    pub(super) fn add_finalizer(&self, key: &Key, release: &mut Release) {
        let capacity = self
            .context
            .stores
            .capacity_targets
            .get(&key.namespace, &key.name);
        let has_pods = capacity.is_some_and(|target| {
            let mut clusters = target.spec.clusters.iter();
            clusters.any(|cluster| cluster.percent > 0)
        });
        let has_pods = has_pods || self.is_with_agent(release);
        if !is_claimed(release) && has_pods {
            release.finalizers_mut().push(FINALIZER_SERVING.to_owned());
        }
    }

    /// Takes a deleted Release out of service once others serve instead, and then removes its
    /// finalizer. Its targets and revisions are deleted with it.
    pub(super) async fn take_out_of_service(
        &self,
        key: &Key,
        observed: &Release,
        mut sync: Sync,
    ) -> Result<Reconciled, Error> {
        if !is_claimed(observed) {
            return Ok((ReconcileOutcome::Unchanged, Requeue::OnEvent));
        }
        let step = match self.departure(key, observed) {
            DeletionStep::Goes if self.has_application(key, observed) => {
                let cluster = self.serves_at_agent(key, observed);
                cluster.map_or(DeletionStep::Goes, |cluster| {
                    DeletionStep::Stays(format!(
                        "the agent of cluster {} has not reported that its pods have no traffic",
                        Quoted(&cluster)
                    ))
                })
            }
            step => step,
        };
        let (reason, message) = match step {
            DeletionStep::Goes => {
                let finalizers = sync.wanted.finalizers_mut();
                finalizers.retain(|it| it != FINALIZER_SERVING);
                let written = self.context.requests.replace(&sync.wanted).await;
                // The watch reports the Release if other finalizers remain.
                written.at_step("removing the finalizer of the Release")?;
                return Ok((ReconcileOutcome::Changed, Requeue::OnEvent));
            }
            DeletionStep::Drains(patch) => {
                sync.target = patch;
                (Reason::Draining, "pods lose their traffic".to_owned())
            }
            DeletionStep::Stays(message) => (Reason::StillServing, message),
        };
        sync.conditions.set(REPLACED, false, reason, &message);
        self.write(key, observed, sync, None).await
    }

    fn departure(&self, key: &Key, release: &Release) -> DeletionStep {
        if !self.has_application(key, release) {
            return DeletionStep::Goes;
        }
        let mut line = self.siblings(key, release);
        line.sort_by_key(|it| order(it));
        let head = line.pop();
        let previous = line.last();
        let targets = |of: Option<&Release>| of.map(|it| self.targets(key, it)).unwrap_or_default();
        let of_head = targets(head.as_deref());
        let of_previous = targets(previous.map(|it| &**it));
        departure(
            member(release, &self.targets(key, release)),
            head.as_deref().map(|it| member(it, &of_head)),
            previous.map(|it| member(it, &of_previous)),
        )
    }

    /// True if a Release is being deleted, and its Application does not exist any more or is being
    /// deleted.
    pub(super) fn is_orphaned(&self, key: &Key, release: &Release) -> bool {
        release.metadata.deletion_timestamp.is_some()
            && self.context.stores.applications.is_complete()
            && !self.has_application(key, release)
    }

    /// True if the Application that owns a Release exists and is not being deleted.
    fn has_application(&self, key: &Key, release: &Release) -> bool {
        let mut owners = release.owner_references().iter();
        owners.any(|owner| {
            let applications = &self.context.stores.applications;
            let found = applications.get(&key.namespace, &owner.name);
            owner.kind == kinds::APPLICATION.name
                && found.is_some_and(|it| {
                    it.metadata.uid.as_deref() == Some(&*owner.uid)
                        && it.metadata.deletion_timestamp.is_none()
                })
        })
    }
}

fn is_claimed(release: &Release) -> bool {
    let mut finalizers = release.finalizers().iter();
    finalizers.any(|it| it == FINALIZER_SERVING)
}
