//! Hands the rollout in clusters with an agent to the agent.

use std::sync::Arc;

use baton_apis::{
    Release,
    constants::{ANNOTATION_ROLLOUT, shipper::LABEL_APP},
    kinds,
};
use baton_fleet::mirror;
use baton_records::{
    phase::{PhaseKind, PhaseRecord},
    store::Change,
};
use baton_releases::{
    application::history,
    by_agent::{Members, Task, held, task},
    strategy::ReleaseWithTargets,
    targets::reasons::Cause,
};
use baton_runtime::{controller::Controller as _, source::Wake};
use baton_typed::key::Key;
use kube::ResourceExt as _;

use super::{Releases, Targets, member, moves::clusters_of, order};
use crate::controllers::releases::{AtStep as _, Error, app_clusters::admit, reported};

/// The step in error messages.
const STEP: &str = "handing the rollout to an agent";

impl Releases {
    /// Hands the rollout of the application of a Release to the agents of its clusters, if the Release
    /// is the newest one, and takes it back from the agents of other clusters. While the rollout
    /// `is_held`, the agents keep the last step.
    ///
    /// # Errors
    /// When a request failed. The other agents have got the rollout.
    pub(super) async fn hand_to_agents(
        &self,
        key: &Key,
        release: &Release,
        is_held: bool,
    ) -> Result<(), Error> {
        let Some(application) = release.labels().get(LABEL_APP) else {
            return Ok(());
        };
        let [living, leaving, superseded] = self.groups(key, application);
        let newest = living.last();
        if newest.is_some_and(|newest| order(newest) != order(release)) {
            return Ok(());
        }
        let groups = [&living, &leaving, &superseded];
        let targets = groups.map(|group| group.iter().map(|it| self.targets(key, it)));
        let targets = targets.map(Iterator::collect::<Vec<_>>);
        let members = Members {
            living: members(&living, &targets[0]),
            leaving: members(&leaving, &targets[1]),
            superseded: members(&superseded, &targets[2]),
        };
        let mut failure = None;
        for cluster in self.context.stores.clusters.all() {
            let cluster = cluster.name_any();
            let rollout = (key, application.as_str(), is_held);
            let handed = self.hand_to_agent(rollout, &cluster, &members).await;
            failure = failure.or(handed.err());
        }
        failure.map_or(Ok(()), Err)
    }

    /// The Releases of an application, as in [`Members`].
    fn groups(&self, key: &Key, application: &str) -> [Vec<Arc<Release>>; 3] {
        let releases = &self.context.stores.releases;
        let mut all = releases.labelled(&key.namespace, LABEL_APP, application);
        all.sort_by_key(|it| order(it));
        let (leaving, mut living): (Vec<_>, Vec<_>) = all
            .into_iter()
            .partition(|it| it.metadata.deletion_timestamp.is_some());
        living.retain(|it| history::generation(it).is_ok());
        let newest = living.last().map(|it| order(it));
        let (living, superseded) = living
            .into_iter()
            .partition(|it| history::is_complete(it) || Some(order(it)) == newest);
        [living, leaving, superseded]
    }

    /// Creates, changes or deletes the object with the rollout in a cluster.
    async fn hand_to_agent(
        &self,
        (key, application, is_held): (&Key, &str, bool),
        cluster: &str,
        members: &Members<'_>,
    ) -> Result<(), Error> {
        let context = &self.context;
        let observed = &context.observed;
        let object = mirror::rollout(cluster, &key.namespace, application);
        let present = observed.phases.get(&object);
        let present = present.filter(|present| !present.deleting);
        let has_agent = context.inventory.has_agent(cluster);
        if !has_agent && (present.is_none() || !context.inventory.is_complete()) {
            return Ok(());
        }
        let before = present.as_deref().and_then(reported::task_of);
        if is_held && before.is_none() {
            return Ok(());
        }
        let report = present.as_deref().and_then(reported::report_of);
        let of = (&*key.namespace, application);
        let wanted = match self.may_hand(&key.namespace, cluster) {
            None => return Ok(()),
            Some(true) if has_agent => {
                match task(of, members, cluster, (before.as_ref(), report.as_ref())) {
                    Ok(wanted) => wanted,
                    // The status of the Release reports it.
                    Err(_) => return Ok(()),
                }
            }
            Some(_) => None,
        };
        let wanted = match (&before, wanted) {
            (Some(before), Some(wanted)) if is_held => Some(held(before, wanted)),
            (_, wanted) => wanted,
        };
        let api = &context.shared.api;
        match (present, wanted) {
            (None, None) => Ok(()),
            (Some(present), None) => self.take_back(&present).await,
            (Some(_), Some(wanted)) if before.as_ref() == Some(&wanted) => Ok(()),
            (Some(present), Some(wanted)) => {
                let text = text_of(&wanted);
                let annotation = (ANNOTATION_ROLLOUT, &*text);
                let changed = api.annotate_phase(&present, annotation, false).await;
                observed.phases.updated(changed.at_step(STEP)?, Self::NAME);
                Ok(())
            }
            // The namespace of the agent exists once it has the object for heartbeats.
            (None, Some(_)) if observed.phases.get(&mirror::heartbeat(cluster)).is_none() => Ok(()),
            (None, Some(wanted)) => {
                let manifest = mirror::rollout_manifest(&object, &text_of(&wanted));
                let made = api.create(&object, &manifest).await.at_step(STEP)?;
                observed.phases.created(made, Self::NAME);
                Ok(())
            }
        }
    }

    /// True if a namespace may deliver into a cluster; `None` while that is not known. The assignments
    /// wake the Release.
    fn may_hand(&self, namespace: &str, cluster: &str) -> Option<bool> {
        let (inventory, assignments) = (&self.context.inventory, &self.context.assignments);
        match admit((inventory, assignments), namespace, cluster) {
            Ok(()) => Some(true),
            Err(failure) => (failure.cause == Cause::Refused).then_some(false),
        }
    }

    /// Deletes the objects with the rollout of an application.
    ///
    /// # Errors
    /// When a request failed.
    pub(super) async fn take_back_rollout(
        &self,
        namespace: &str,
        application: &str,
    ) -> Result<(), Error> {
        for cluster in self.context.stores.clusters.all() {
            let object = mirror::rollout(&cluster.name_any(), namespace, application);
            let present = self.context.observed.phases.get(&object);
            if let Some(present) = present.filter(|present| !present.deleting) {
                self.take_back(&present).await?;
            }
        }
        Ok(())
    }

    /// Deletes the objects with rollouts of applications in a namespace that have no Releases any more.
    ///
    /// # Errors
    /// When a request failed.
    pub(super) async fn take_back_rollouts(&self, key: &Key) -> Result<(), Error> {
        let phases = &self.context.observed.phases;
        let rollouts = phases.filter(|it| mirror::rollout_cluster(it).is_some() && !it.deleting);
        let releases = &self.context.stores.releases;
        for object in rollouts {
            let is_over = reported::task_of(&object).is_some_and(|task| {
                let labelled = releases.labelled(&task.namespace, LABEL_APP, &task.application);
                *task.namespace == *key.namespace && labelled.is_empty()
            });
            if is_over {
                self.take_back(&object).await?;
            }
        }
        Ok(())
    }

    /// Deletes an object with a rollout. The watch reports the end.
    async fn take_back(&self, object: &PhaseRecord) -> Result<(), Error> {
        let version = object.resource_version;
        let api = &self.context.shared.api;
        let deleted = api.delete_phase(&object.key, &object.uid, version);
        deleted.await.at_step(STEP)
    }

    /// True if a Release is in a cluster with an agent, which may be ahead of the hub.
    pub(super) fn is_with_agent(&self, release: &Release) -> bool {
        let clusters = clusters_of(release);
        clusters
            .iter()
            .any(|it| self.context.inventory.has_agent(it))
    }

    /// A cluster whose agent may give traffic to a Release that is being deleted, although the hub
    /// requests none; `None` if there is no such cluster.
    pub(super) fn serves_at_agent(&self, key: &Key, release: &Release) -> Option<String> {
        let application = release.labels().get(LABEL_APP)?;
        let name = release.name_any();
        let mut clusters = clusters_of(release).into_iter();
        clusters.find(|cluster| {
            let object = mirror::rollout(cluster, &key.namespace, application);
            let object = self.context.observed.phases.get(&object);
            let object = object.filter(|_| self.context.inventory.has_agent(cluster));
            object.is_some_and(|object| may_serve(&object, &name))
        })
    }

    /// Trigger: an object with a rollout that another client changes, or a new agent, wakes the newest
    /// Release of its application. Each change wakes the Releases that are being deleted.
    pub(super) fn on_rollout(&self, change: &Change<PhaseKind>) -> Vec<Wake<Key>> {
        let Some(object) = change.record() else {
            return Vec::new();
        };
        let cluster = object.agent().unwrap_or_default();
        if change.old.is_none() && object.key == mirror::heartbeat(cluster) {
            return self.to_be_scheduled(cluster);
        }
        let task = mirror::rollout_cluster(object).and_then(|_| reported::task_of(object));
        let Some(task) = task else {
            return Vec::new();
        };
        let application = Key::new(kinds::APPLICATION.name, &task.namespace, &task.application);
        let mut wakes = self.of_application(&application, false);
        let is_report =
            matches!((&change.old, &change.new), (Some(old), Some(new)) if is_same(old, new));
        if is_report || change.writer == Some(Self::NAME) {
            return wakes;
        }
        // The pass of a missing Release takes the rollout back.
        let stores = &self.context.stores;
        let newest = stores.newest_release(&task.namespace, &task.application);
        let name = newest.map_or(task.application, |newest| newest.name_any());
        let newest = Key::new(kinds::RELEASE.name, &task.namespace, &name);
        wakes.push(Wake::now(newest));
        wakes
    }

    /// Trigger: a change of assignments wakes the Releases in clusters with an agent.
    pub(super) fn with_agents(&self) -> Vec<Wake<Key>> {
        let releases = &self.context.stores.releases;
        releases.wake(|release| self.is_with_agent(release))
    }
}

/// True if an agent may give traffic to a Release that is being deleted, by the object with the
/// rollout.
fn may_serve(object: &PhaseRecord, release: &str) -> bool {
    let task = reported::task_of(object);
    let Some(wanted) = task.as_ref().and_then(|task| task.of(release)) else {
        return false;
    };
    let report = reported::report_of(object);
    let report = report.as_ref().and_then(|report| report.of(release));
    wanted.step.is_some()
        || report.is_some_and(|report| {
            let traffic = report.traffic.as_ref().and_then(|it| it.as_ref().ok());
            report.shares.weight > 0 || traffic.is_some_and(|it| it.achieved > 0)
        })
}

/// True if two versions of an object differ in their status only.
fn is_same(old: &PhaseRecord, new: &PhaseRecord) -> bool {
    (&old.uid, &old.annotations, old.deleting) == (&new.uid, &new.annotations, new.deleting)
}

fn members<'a>(
    releases: &'a [Arc<Release>],
    targets: &'a [Targets],
) -> Vec<ReleaseWithTargets<'a>> {
    let pairs = releases.iter().zip(targets);
    pairs.map(|(it, targets)| member(it, targets)).collect()
}

fn text_of(task: &Task) -> String {
    serde_json::to_string(task).unwrap_or_default()
}
