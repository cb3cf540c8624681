//! The controller of Releases: chooses clusters, creates the targets, and takes them through the
//! steps of the strategy.

mod agents;
mod deletion;
mod moves;
mod schedule;

use std::{collections::BTreeSet, sync::Arc};

use baton_apis::{
    Application, Cluster, ConditionStatus, Release, ReleaseSpec, StrategyStatus,
    conditions::{
        CONNECTED, EventReason, Reason,
        shipper::{BLOCKED, SCHEDULED},
    },
    constants::shipper::{ANNOTATION_BLOCK_OVERRIDE, ANNOTATION_RELEASE_CLUSTERS, LABEL_APP},
    kinds,
};
use baton_engine::conditions::Requeue;
use baton_kubernetes::collection::Extent;
use baton_releases::{
    application::history,
    blocks::{Obstacle, is_paused},
    conditions::Conditions,
    event::Event,
    give_back::Custody,
    scheduling::error::ScheduleError,
    strategy::{
        self, AchievedShares, Neighbours, Plan, ReleaseWithTargets, TargetKind, TargetPatch,
        growth, neighbours, plan, reached,
    },
};
use baton_runtime::{
    controller::{Controller, Reconciled},
    outcomes::ReconcileOutcome,
    queue::Queue,
    source::Wake,
};
use baton_typed::{
    key::{Key, Kind},
    store::Change,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;

use self::moves::{ClustersPatch, Stay};
use super::{AtStep as _, Context, Error, INCOMPLETE, charts::ChartSource, on_block, undecided};

/// Name of the controller in events.
const REPORTER: &str = "release-controller";
/// Event and reason: conditions have changed.
const CONDITION_CHANGED: EventReason = EventReason::ReleaseConditionChanged;

/// Rolls out Releases.
pub(crate) struct Releases {
    pub context: Context,
    pub charts: ChartSource,
}

impl Controller for Releases {
    const NAME: &'static str = "release";

    type Key = Key;
    type Error = Error;

    fn watches(self: &Arc<Self>, queue: &Arc<Queue<Key>>) {
        let stores = &self.context.stores;
        queue.wake_on(&stores.releases.changes, self, |this, change| {
            this.on_change(change)
        });
        queue.wake_on(&stores.installation_targets.changes, self, Self::on_change);
        queue.wake_on(&stores.capacity_targets.changes, self, |this, change| {
            this.on_change(change)
        });
        queue.wake_on(&stores.traffic_targets.changes, self, |this, change| {
            this.on_change(change)
        });
        queue.wake_on(&stores.applications.changes, self, |this, change| {
            let application = change.object();
            application.map_or_else(Vec::new, |it| {
                let key = Key::of(kinds::APPLICATION.name, &**it);
                let stops = |it: &Option<Arc<Application>>| {
                    it.as_deref().map(|it| (is_paused(it), Custody::of(it)))
                };
                this.of_application(&key, stops(&change.old) != stops(&change.new))
            })
        });
        queue.wake_on(&stores.clusters.changes, self, |this, change| {
            let part = |it: &Option<Arc<Cluster>>| {
                let it = it.as_ref()?;
                let mut conditions = it.status.iter().flat_map(|status| &status.conditions);
                let is_connected = |it: &Condition| it.type_ == CONNECTED && it.status == "True";
                let is_connected = conditions.any(is_connected);
                Some((it.spec.clone(), it.metadata.labels.clone(), is_connected))
            };
            match change.object() {
                Some(cluster) if part(&change.old) != part(&change.new) => {
                    this.to_be_scheduled(&cluster.name_any())
                }
                _ => Vec::new(),
            }
        });
        queue.wake_on(&self.context.observed.assignments, self, |this, _| {
            let mut wakes = this.to_be_scheduled("");
            wakes.extend(this.with_agents());
            wakes
        });
        queue.wake_on(&stores.blocks.0.changes, self, |this, change| {
            on_block(&this.context.stores.releases, change)
        });
        let phases = self.context.observed.phases.changes();
        queue.wake_on(phases, self, Self::on_rollout);
        stores.all.wake_when_lost(queue, self, |this| {
            this.context.stores.releases.wake(|_| true)
        });
    }

    async fn reconcile(&self, key: &Key, _failures: u32) -> Result<Reconciled, Error> {
        let stores = &self.context.stores;
        let Some(release) = stores.releases.get(&key.namespace, &key.name) else {
            match stores.all.extent() {
                Extent::All => self.take_back_rollouts(key).await?,
                Extent::Nothing => return Ok(INCOMPLETE),
                Extent::Unavailable(_) => {}
            }
            return Ok((ReconcileOutcome::Gone, Requeue::OnEvent));
        };
        match stores.all.extent() {
            Extent::All => {}
            // The decision on an orphaned Release depends on no other object.
            _ if self.is_orphaned(key, &release) => {}
            Extent::Nothing => return Ok(INCOMPLETE),
            Extent::Unavailable(why) => return self.report_unreadable(&release, &why).await,
        }
        if stores.is_given_back(&*release) {
            let application = release.labels().get(LABEL_APP);
            self.take_back_rollout(&key.namespace, application.map_or("", String::as_str))
                .await?;
            return Ok((ReconcileOutcome::Unchanged, Requeue::OnEvent));
        }
        let mut sync = Sync {
            wanted: Release::clone(&release),
            conditions: {
                let status = release.status.as_ref();
                let conditions = status.map(|status| status.conditions.as_slice());
                Conditions::new(
                    conditions.unwrap_or_default(),
                    self.context.shared.clock.now(),
                )
            },
            events: Vec::new(),
            failure: None,
            target: None,
            other: None,
        };
        if release.metadata.deletion_timestamp.is_some() {
            let result = self.take_out_of_service(key, &release, sync).await;
            self.hand_to_agents(key, &release, false).await?;
            return result;
        }
        if release.spec == ReleaseSpec::default() {
            return Ok((ReconcileOutcome::Unchanged, Requeue::OnEvent));
        }
        self.add_finalizer(key, &mut sync.wanted);
        let plan = self.run(key, &mut sync).await;
        let blocked = sync.conditions.get(BLOCKED);
        let is_blocked = blocked.is_some_and(|it| it.status == ConditionStatus::True);
        let written = self.write(key, &release, sync, plan).await;
        self.hand_to_agents(key, &release, is_blocked).await?;
        written
    }
}

/// The changes that a pass over a Release has decided so far.
struct Sync {
    /// The Release as it is to be written.
    wanted: Release,
    conditions: Conditions,
    events: Vec<Event>,
    /// The reason that the Release is not scheduled.
    failure: Option<ScheduleError>,
    /// The one change of a target.
    target: Option<TargetPatch>,
    /// The change of the clusters of the Release before.
    other: Option<ClustersPatch>,
}

impl Releases {
    /// Reports that nothing is decided while the objects for the decision cannot be listed.
    async fn report_unreadable(&self, release: &Release, why: &str) -> Result<Reconciled, Error> {
        let mut wanted = release.clone();
        let status = wanted.status.get_or_insert_default();
        let now = self.context.shared.clock.now();
        status.conditions = undecided(&status.conditions, SCHEDULED, now, why);
        if wanted != *release {
            let written = self.context.requests.replace(&wanted).await;
            let written = written.at_step("writing the Release")?;
            self.context.stores.releases.written(written);
        }
        Ok(INCOMPLETE)
    }

    /// Runs blocks, schedule and strategy in this order, up to the first that stops the pass.
    async fn run(&self, key: &Key, sync: &mut Sync) -> Option<Plan> {
        let annotations = sync.wanted.annotations();
        let overrides = annotations.get(ANNOTATION_BLOCK_OVERRIDE);
        let stores = &self.context.stores;
        let application = stores.application_of(&sync.wanted);
        let blocks = stores.blocks.of(&key.namespace);
        let overrides = overrides.map_or("", String::as_str);
        let Obstacle { problem, event } = Obstacle::of(&blocks, overrides, application.as_deref());
        sync.events.extend(event);
        if let Some(problem) = problem {
            sync.conditions
                .set(BLOCKED, true, Reason::RolloutsBlocked, &problem);
            return None;
        }
        sync.conditions.set_plain(BLOCKED, false);
        match self.schedule(key, &sync.wanted).await {
            Ok(scheduled) => {
                sync.events.extend(scheduled.events);
                let annotations = sync.wanted.annotations_mut();
                annotations.insert(ANNOTATION_RELEASE_CLUSTERS.to_owned(), scheduled.clusters);
            }
            Err(failure) => {
                let (reason, message) = (failure.reason(), failure.to_string());
                sync.conditions.set(SCHEDULED, false, reason, &message);
                sync.failure = Some(failure);
                sync.target = self.growth(key, &sync.wanted);
                return None;
            }
        }
        // The Application deletes a superseded Release. Until then its pods and traffic stay as they
        // are.
        let plan = (!self.is_superseded(key, &sync.wanted)).then(|| self.plan(key, &sync.wanted));
        let stays = match &plan {
            Some(Ok(plan)) => self.decide_move(key, sync, plan),
            _ => None,
        };
        match stays {
            Some(Stay { reason, message }) => {
                sync.conditions.set(SCHEDULED, true, reason, &message);
            }
            None => sync.conditions.set_plain(SCHEDULED, true),
        }
        let plan = plan?;
        strategy::report(&mut sync.conditions, plan.as_ref());
        let plan = plan.ok();
        sync.target = plan.as_ref().and_then(|plan| plan.target.clone());
        plan
    }

    /// The next change by which the Release before `head` grows to the step of `head`, while `head`
    /// has no clusters; `None` if `head` is not the newest Release or nothing is to change.
    fn growth(&self, key: &Key, head: &Release) -> Option<TargetPatch> {
        let siblings = self.siblings(key, head);
        let (previous, None) = neighbours(&siblings, &order(head), |it| order(it)) else {
            return None;
        };
        let previous = previous?;
        growth(head, member(previous, &self.targets(key, previous)))
    }

    /// The targets of a Release of the same namespace.
    fn targets(&self, key: &Key, release: &Release) -> Targets {
        let stores = &self.context.stores;
        let name = release.name_any();
        (
            stores.installation_targets.get(&key.namespace, &name),
            stores.capacity_targets.get(&key.namespace, &name),
            stores.traffic_targets.get(&key.namespace, &name),
        )
    }

    /// The plan of the strategy for a Release and its neighbours.
    fn plan(&self, key: &Key, release: &Release) -> Result<Plan, strategy::Error> {
        let siblings = self.siblings(key, release);
        let own = order(release);
        let (previous, successor) = neighbours(&siblings, &own, |it| order(it));
        let own_targets = self.targets(key, release);
        let other = successor.or(previous);
        let other_targets = other.map(|other| self.targets(key, other));
        let other_targets = other_targets.unwrap_or_default();
        let other = other.map(|other| member(other, &other_targets));
        let role = match (successor, other) {
            (Some(successor), Some(member)) => Neighbours::Follower {
                successor: member,
                successor_is_head: siblings.iter().all(|it| order(it) <= order(successor)),
            },
            (None, previous) => Neighbours::Head { previous },
            (Some(_), None) => Neighbours::Head { previous: None },
        };
        let now = self.context.shared.clock.now();
        plan(member(release, &own_targets), role, now)
    }

    /// The share of pods and traffic that a Release has reached, by its position among the
    /// Releases.
    fn reached(&self, key: &Key, release: &Release) -> AchievedShares {
        let siblings = self.siblings(key, release);
        let (_, successor) = neighbours(&siblings, &order(release), |it| order(it));
        reached(release, successor.map(|it| &**it))
    }

    /// Writes the decisions: first the change of a target, then the Release, once.
    async fn write(
        &self,
        key: &Key,
        observed: &Release,
        sync: Sync,
        plan: Option<Plan>,
    ) -> Result<Reconciled, Error> {
        let Sync {
            mut wanted,
            mut conditions,
            mut events,
            failure,
            target,
            other,
        } = sync;
        // The target is written first: the status of the Release may report a step only after the
        // target requests it.
        if let Some(target) = target {
            self.patch(key, &target).await?;
        }
        if let Some(other) = other {
            self.write_clusters(other).await?;
        }
        if let Some(changes) = conditions.take_changes() {
            events.push(Event::normal(CONDITION_CHANGED, changes));
        }
        let status = wanted.status.get_or_insert_default();
        status.conditions = conditions.into_list();
        if let Some(plan) = plan {
            if status.strategy.as_ref() != Some(&plan.strategy)
                && (status.strategy.is_some() || plan.strategy != StrategyStatus::default())
            {
                status.strategy = Some(plan.strategy);
            }
            if plan.achieved.is_some() {
                status.achieved_step = plan.achieved;
            }
            events.extend(plan.events);
        }
        let changes = wanted != *observed;
        if changes {
            let written = self.context.requests.replace(&wanted).await;
            let written = written.at_step("writing the Release")?;
            self.context.stores.releases.written(written);
        }
        let on = (key, observed);
        self.context.shared.events.publish_on(REPORTER, on, events);
        match failure {
            Some(failure) if failure.is_permanent() => {
                Ok((ReconcileOutcome::Blocked, Requeue::OnEvent))
            }
            Some(failure) => Err(Error::Reported(failure.into())),
            None if changes => Ok((ReconcileOutcome::Changed, Requeue::OnEvent)),
            None => Ok((ReconcileOutcome::Unchanged, Requeue::OnEvent)),
        }
    }

    /// Changes a target of this Release, or of the one before.
    async fn patch(&self, key: &Key, patch: &TargetPatch) -> Result<(), Error> {
        let Context {
            stores, requests, ..
        } = &self.context;
        let (namespace, body) = (&key.namespace, patch.body.clone());
        let version = patch.version.as_deref();
        match patch.kind {
            TargetKind::Capacity => {
                if let Some(target) = stores.capacity_targets.get(namespace, &patch.name) {
                    let written = requests.merge_at(version, &*target, body).await;
                    let written = written.at_step("changing the CapacityTarget")?;
                    stores.capacity_targets.written(written);
                }
            }
            TargetKind::Traffic => {
                if let Some(target) = stores.traffic_targets.get(namespace, &patch.name) {
                    let written = requests.merge_at(version, &*target, body).await;
                    let written = written.at_step("changing the TrafficTarget")?;
                    stores.traffic_targets.written(written);
                }
            }
        }
        Ok(())
    }

    /// The other Releases of the same application that take part in its rollout: the newest, and
    /// all that were complete once, except those that are being deleted.
    ///
    /// An unfinished Release is superseded by a newer one.
    fn siblings(&self, key: &Key, release: &Release) -> Vec<Arc<Release>> {
        let mut siblings = self.living(key, release);
        let own = release.metadata.deletion_timestamp.is_none();
        let own = own.then(|| order(release));
        let newest = siblings.iter().map(|it| order(it)).chain(own).max();
        siblings.retain(|it| history::is_complete(it) || Some(order(it)) == newest);
        siblings
    }

    /// The other Releases of the same application that are not being deleted.
    fn living(&self, key: &Key, release: &Release) -> Vec<Arc<Release>> {
        let Some(application) = release.labels().get(LABEL_APP) else {
            return Vec::new();
        };
        let stores = &self.context.stores;
        let mut releases = stores
            .releases
            .labelled(&key.namespace, LABEL_APP, application);
        releases.retain(|other| {
            other.metadata.name.as_deref() != Some(&*key.name)
                && other.metadata.deletion_timestamp.is_none()
                && history::generation(other).is_ok()
        });
        releases
    }

    /// True if there is a newer Release, and this one was never complete.
    fn is_superseded(&self, key: &Key, release: &Release) -> bool {
        let own = order(release);
        !history::is_complete(release) && self.living(key, release).iter().any(|it| order(it) > own)
    }

    /// Trigger: a Release, or a target of a Release, wakes that Release, its neighbours by
    /// generation, and the deleted Releases of the application that wait for a replacement.
    fn on_change<K: Kind>(&self, change: &Change<K>) -> Vec<Wake<Key>> {
        let Some(object) = change.object() else {
            return Vec::new();
        };
        let own = Key::of(kinds::RELEASE.name, &**object);
        let mut keys = BTreeSet::from([own.clone()]);
        let application = object.labels().get(LABEL_APP);
        let release = self.context.stores.releases.get(&own.namespace, &own.name);
        if let Some(release) = release {
            let siblings = self.siblings(&own, &release);
            let (before, after) = neighbours(&siblings, &order(&release), |it| order(it));
            let near = before.into_iter().chain(after);
            keys.extend(near.map(|it| Key::of(kinds::RELEASE.name, &**it)));
        } else if let Some(application) = application {
            // The neighbours of a deleted Release are now neighbours of each other.
            let stores = &self.context.stores;
            let releases = stores
                .releases
                .labelled(&own.namespace, LABEL_APP, application);
            keys.extend(
                releases
                    .iter()
                    .map(|it| Key::of(kinds::RELEASE.name, &**it)),
            );
        }
        let stores = &self.context.stores;
        let newest = application.and_then(|it| stores.newest_release(&own.namespace, it));
        keys.extend(newest.map(|it| Key::of(kinds::RELEASE.name, &*it)));
        let wakes = keys.into_iter().map(Wake::now);
        let application =
            application.map(|it| Key::new(kinds::APPLICATION.name, &own.namespace, it));
        let leaving = application.map(|it| self.of_application(&it, false));
        wakes.chain(leaving.into_iter().flatten()).collect()
    }

    /// Trigger: wakes the Releases of an Application, all of them or those that are being deleted.
    fn of_application(&self, application: &Key, all: bool) -> Vec<Wake<Key>> {
        let releases = &self.context.stores.releases;
        let releases = releases.labelled(&application.namespace, LABEL_APP, &application.name);
        let woken = releases.iter();
        let woken = woken.filter(|it| all || it.metadata.deletion_timestamp.is_some());
        woken
            .map(|it| Wake::now(Key::of(kinds::RELEASE.name, &**it)))
            .collect()
    }
}

/// The order of the Releases of an application: by generation, then by name. A Release without a
/// generation comes first.
pub(super) fn order(release: &Release) -> (Option<i64>, String) {
    (history::generation(release).ok(), release.name_any())
}

type Targets = (
    Option<Arc<baton_apis::InstallationTarget>>,
    Option<Arc<baton_apis::CapacityTarget>>,
    Option<Arc<baton_apis::TrafficTarget>>,
);

fn member<'a>(release: &'a Release, targets: &'a Targets) -> ReleaseWithTargets<'a> {
    let (installation, capacity, traffic) = targets;
    ReleaseWithTargets {
        release,
        installation: installation.as_deref(),
        capacity: capacity.as_deref(),
        traffic: traffic.as_deref(),
    }
}
