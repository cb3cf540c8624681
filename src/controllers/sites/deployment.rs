//! The controller of `SiteDeployments`: rolls out versions to sites, as planned.

mod act;
mod adopt;
mod events;
mod observe;
mod triggers;

use std::sync::Arc;

use baton_apis::{SiteDeployment, SiteDeploymentStatus, kinds};
use baton_engine::conditions::Requeue;
use baton_kubernetes::{collection::Extent, key_locks::KeyLocks};
use baton_runtime::{
    controller::{Controller, Reconciled},
    outcomes::ReconcileOutcome,
    queue::Queue,
    source::Wake,
};
use baton_sites::rollout::{IsTaken, Plan, failed, undecided};
use baton_typed::key::Key;
use jiff::Timestamp;
use kube::ResourceExt as _;

use self::act::revision_key;
use super::{
    Context, INCOMPLETE,
    placement::{Choices, SelectedSites},
};
use crate::delivery::{
    lost_hubs::{self, sync_lost_hubs},
    rollout_blocks::{RolloutBlocks, obeys},
    shared::{AtStep as _, Error},
};

/// The limit of rounds in one pass.
///
/// A round without changes ends the pass. More rounds are needed only if others write at the same
/// time, or if a version goes to thousands of sites at once; a later pass does the rest then.
const ROUNDS: usize = 8;

/// Rolls out versions to sites.
pub(crate) struct SiteDeployments {
    pub context: Context,
    blocks: RolloutBlocks,
    choices: Choices,
    /// Locks by namespace and application, held during a pass. Two deployments that choose a site at
    /// the same moment would both get it: each finds no revision of the other one yet.
    turns: KeyLocks,
}

impl SiteDeployments {
    /// A controller without state.
    pub(crate) fn new(context: Context, blocks: RolloutBlocks) -> Self {
        Self {
            context,
            blocks,
            choices: Choices::default(),
            turns: KeyLocks::default(),
        }
    }
}

impl Controller for SiteDeployments {
    const NAME: &'static str = "sitedeployment";

    type Key = Key;
    type Error = Error;

    fn watches(self: &Arc<Self>, queue: &Arc<Queue<Key>>) {
        let Context {
            stores, observed, ..
        } = &self.context;
        queue.wake_on(&stores.deployments.changes, self, |this, change| {
            triggers::on_deployment(&this.context.stores, change)
        });
        queue.wake_on(&stores.applications.changes, self, |this, change| {
            triggers::on_application(&this.context.stores, change)
        });
        queue.wake_on(&stores.mended, self, |this, key| {
            triggers::of_application(&this.context.stores, &key.namespace, &key.name)
        });
        queue.wake_on(&stores.versions.changes, self, |this, change| {
            triggers::on_version(&this.context.stores, change)
        });
        queue.wake_on(&stores.placements.changes, self, |this, change| {
            triggers::on_placement(&this.context.stores, change)
        });
        queue.wake_on(observed.revisions.changes(), self, |this, change| {
            triggers::on_revision(&this.context.stores, change)
        });
        queue.wake_on(&observed.links, self, |this, site| this.in_site(site));
        queue.wake_on(&observed.assignments, self, |this, change| {
            triggers::on_assignment(&this.context.stores, change)
        });
        queue.wake_on(&self.blocks.0.changes, self, |this, change| {
            triggers::on_block(&this.context.stores, change)
        });
        queue.wake_on(&self.blocks.0.extents, self, |this, ()| {
            let deployments = &this.context.stores.deployments;
            deployments.wake(|it| obeys(it.labels()))
        });
        stores.all.wake_when_lost(queue, self, |this| {
            this.context.stores.deployments.wake(|_| true)
        });
    }

    fn timed(&self) -> Vec<Key> {
        let deployments = self.context.stores.deployments.all().into_iter();
        let key = |it: Arc<SiteDeployment>| Key::of(kinds::SITE_DEPLOYMENT.name, &*it);
        deployments.map(key).collect()
    }

    async fn reconcile(&self, key: &Key, failures: u32) -> Result<Reconciled, Error> {
        let stores = &self.context.stores;
        let Some(deployment) = stores.deployments.get(&key.namespace, &key.name) else {
            self.choices.forget(key);
            return Ok((ReconcileOutcome::Gone, Requeue::OnEvent));
        };
        // The revisions of a deleted deployment are deleted with it.
        if deployment.metadata.deletion_timestamp.is_some() {
            return Ok((ReconcileOutcome::Unchanged, Requeue::OnEvent));
        }
        match self.context.extent() {
            Extent::All => {}
            Extent::Nothing => return Ok(INCOMPLETE),
            Extent::Unavailable(why) => {
                return self.report_unreadable(key, &deployment, &why).await;
            }
        }
        let application = (&key.namespace, &deployment.spec.application);
        let turn = self.turns.lock(&application).await;
        let done = self.pass(key, &deployment, failures).await;
        drop(turn);
        if let Err(error) = &done
            && let Some(why) = error.to_report(failures)
        {
            self.report_failure(key, &why).await?;
        }
        done
    }
}

impl SiteDeployments {
    /// Adopts revisions, chooses sites, and rolls out.
    async fn pass(
        &self,
        key: &Key,
        deployment: &Arc<SiteDeployment>,
        failures: u32,
    ) -> Result<Reconciled, Error> {
        // Each round adopts as well. It is done here too, because a deployment that does not exist
        // any more must not choose sites, and because sites may not be chosen while the inventory
        // is incomplete.
        if self.adopt(key, deployment).await? {
            // The pass continues when the watch has reported the adoption.
            return Ok((ReconcileOutcome::Changed, Requeue::OnEvent));
        }
        let Context {
            shared, observed, ..
        } = &self.context;
        let revisions = observed
            .revisions
            .of_site_deployment(&key.namespace, &key.name);
        let lost_hubs = lost_hubs::of_deployment(deployment.annotations());
        sync_lost_hubs((shared, observed), Self::NAME, &revisions, lost_hubs).await?;
        let chosen = self.context.choose(&self.choices, key, deployment).await?;
        let Some(chosen) = chosen else {
            return Ok((ReconcileOutcome::Unchanged, INCOMPLETE.1));
        };
        self.roll_out(key, deployment, &chosen, failures).await
    }

    /// Rolls out versions to the sites that a deployment has chosen, in rounds, and reports.
    async fn roll_out(
        &self,
        key: &Key,
        deployment: &Arc<SiteDeployment>,
        chosen: &SelectedSites,
        failures: u32,
    ) -> Result<Reconciled, Error> {
        let mut wrote = false;
        for round in 1.. {
            // A changed spec counts at once: the next pass chooses its sites and continues.
            let is_same = |now: &Arc<SiteDeployment>| {
                let [now, then] = [&now.metadata, &deployment.metadata];
                now.uid == then.uid
                    && now.generation == then.generation
                    && now.deletion_timestamp.is_none()
            };
            let now = self
                .context
                .stores
                .deployments
                .get(&key.namespace, &key.name);
            let Some(deployment) = now.filter(is_same) else {
                break;
            };
            if self.context.extent() != Extent::All {
                return Ok(INCOMPLETE);
            }
            let observed = self.observe(key, &deployment, chosen);
            // A revision that was orphaned since the pass began is not among those observed.
            if self.adopt(key, &deployment).await? {
                break;
            }
            let revisions = &self.context.observed.revisions;
            let is_taken = |name: &str| revisions.get(&revision_key(key, name)).is_some();
            let now = self.context.shared.clock.now();
            let planned = observed.plan(key, &deployment, IsTaken(&is_taken), now);
            if planned.actions.is_empty() || round > ROUNDS {
                let again = !planned.actions.is_empty();
                let reported = self.report(key, &deployment, planned, wrote).await?;
                return Ok(if again {
                    (ReconcileOutcome::Changed, Requeue::Backoff)
                } else {
                    reported
                });
            }
            wrote = true;
            let deployment = if planned.status_first {
                self.write(key, &deployment, &planned.status).await?
            } else {
                deployment
            };
            let acted = self
                .act(key, &deployment, &observed, &planned.actions)
                .await;
            if let Err(error) = acted {
                // The status of the other sites is reported even if a revision is refused.
                let planned = match error.to_report(failures) {
                    Some(why) => {
                        let generation = deployment.metadata.generation.unwrap_or_default();
                        planned.actions_failed(generation, self.context.shared.clock.now(), &why)
                    }
                    None => planned,
                };
                self.report(key, &deployment, planned, wrote).await?;
                return Err(error);
            }
        }
        Ok((ReconcileOutcome::Changed, Requeue::OnEvent))
    }

    /// Reports that a request fails, and the cause.
    async fn report_failure(&self, key: &Key, why: &str) -> Result<(), Error> {
        let deployments = &self.context.stores.deployments;
        let Some(deployment) = deployments.get(&key.namespace, &key.name) else {
            return Ok(());
        };
        let previous = deployment.status.clone().unwrap_or_default();
        let generation = deployment.metadata.generation.unwrap_or_default();
        let now = self.context.shared.clock.now();
        let status = failed(&previous, generation, now, why);
        self.write(key, &deployment, &status).await?;
        Ok(())
    }

    /// Reports that nothing is planned while the objects for the decision cannot be listed.
    async fn report_unreadable(
        &self,
        key: &Key,
        deployment: &Arc<SiteDeployment>,
        why: &str,
    ) -> Result<Reconciled, Error> {
        let previous = deployment.status.clone().unwrap_or_default();
        let generation = deployment.metadata.generation.unwrap_or_default();
        let now = self.context.shared.clock.now();
        let status = undecided(&previous, generation, now, why);
        self.write(key, deployment, &status).await?;
        Ok(INCOMPLETE)
    }

    /// Writes the status if it differs, and returns when the next plan is due.
    async fn report(
        &self,
        key: &Key,
        deployment: &Arc<SiteDeployment>,
        planned: Plan,
        wrote: bool,
    ) -> Result<Reconciled, Error> {
        let written = self.write(key, deployment, &planned.status).await?;
        let wrote = wrote || !Arc::ptr_eq(deployment, &written);
        let outcome = if wrote {
            ReconcileOutcome::Changed
        } else {
            ReconcileOutcome::Unchanged
        };
        let now = self.context.shared.clock.now();
        Ok((outcome, requeue(planned.again_at, now)))
    }

    /// Writes a status if it differs, and publishes the events of the change. Returns the
    /// deployment after the write.
    async fn write(
        &self,
        key: &Key,
        deployment: &Arc<SiteDeployment>,
        status: &SiteDeploymentStatus,
    ) -> Result<Arc<SiteDeployment>, Error> {
        if deployment.status.as_ref() == Some(status) {
            return Ok(Arc::clone(deployment));
        }
        let mut reported = SiteDeployment::clone(deployment);
        reported.status = Some(status.clone());
        let written = self.context.requests.replace_status(&reported).await;
        let written = written.at_step("writing the status")?;
        self.context.stores.deployments.written(written.clone());
        let before = deployment.status.clone().unwrap_or_default();
        for event in events::between(&before, status) {
            let on = (key, &written);
            let events = &self.context.shared.events;
            events.publish_about(events::REPORTER, on, event.kind, event.reason, event.note);
        }
        Ok(Arc::new(written))
    }

    /// Trigger: the link or the labels of a site wake the deployments that have the site, or may
    /// choose it.
    fn in_site(&self, site: &str) -> Vec<Wake<Key>> {
        triggers::in_site(&self.context.stores, &self.choices, site)
    }
}

/// The time of the next plan if nothing changes before.
fn requeue(at: Option<Timestamp>, now: Timestamp) -> Requeue {
    let left = at.map(|at| at.duration_since(now));
    // One millisecond more, so that the time has come by then.
    let left = left.map(|left| {
        left.unsigned_abs()
            .saturating_mul(u32::from(left.is_positive()))
    });
    left.map_or(Requeue::OnEvent, |left| {
        Requeue::After(left + std::time::Duration::from_millis(1))
    })
}
