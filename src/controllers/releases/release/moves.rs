//! Moves Releases out of clusters that accept no Releases any more.
//!
//! The newest Release moves together with the one before it: one cluster at a time, while the strategy
//! waits for nothing. Older Releases leave a cluster after it.

use std::{collections::BTreeSet, sync::Arc};

use baton_apis::{
    CapacityTarget, Cluster, InstallationTarget, Release,
    conditions::{EventReason, Reason},
    constants::shipper::{ANNOTATION_RELEASE_CLUSTERS, LABEL_APP},
    kinds,
};
use baton_fleet::inventory::{ClusterLink, Contact};
use baton_releases::{
    conditions::is_true,
    event::Event,
    scheduling::{
        annotation, chosen,
        moves::{Move, Placed, next_moves},
    },
    strategy::{Plan, Position, neighbours},
    targets::READY,
    texts::Quoted,
};
use baton_runtime::source::Wake;
use baton_typed::key::Key;
use kube::ResourceExt as _;
use serde_json::json;

use super::{REPORTER, Releases, Sync, Targets, order};
use crate::controllers::releases::{AtStep as _, Error};

/// The reason that a Release stays in a drained cluster, or in one that does not exist.
pub(super) struct Stay {
    /// None if it stays only until its step is reached.
    pub reason: Option<Reason>,
    pub message: String,
}

/// A Release that gets other clusters.
pub(super) struct ClustersPatch {
    release: Arc<Release>,
    /// The annotation.
    clusters: String,
}

impl Releases {
    /// Decides on the next move, after a pass over the strategy. Returns the reason that the Release
    /// stays in a drained cluster for now.
    pub(super) fn decide_move(&self, key: &Key, sync: &mut Sync, plan: &Plan) -> Option<Stay> {
        let drained = self.drained();
        let Position::Head { .. } = plan.position else {
            if !drained.is_empty() {
                self.leave_after_head(key, sync, &drained);
            }
            return None;
        };
        let missing = self.missing(&sync.wanted);
        if drained.is_empty() {
            return missing;
        }
        let newest = sync.wanted.clone();
        let before = self.before(key, &newest);
        let own = clusters_of(&newest);
        let theirs = before.as_deref().map(clusters_of).unwrap_or_default();
        let used: BTreeSet<_> = own.union(&theirs).cloned().collect();
        if drained.is_disjoint(&used) {
            return missing;
        }
        let clusters = self.usable(&key.namespace, &used)?;
        let [own_names, their_names] =
            [&own, &theirs].map(|names| names.iter().map(String::as_str).collect::<Vec<_>>());
        let before = before.map(|it| (it, their_names));
        let moves = next_moves(
            placed(&newest, &own_names),
            before.as_ref().map(|(it, names)| placed(it, names)),
            &clusters,
        );
        let [own_move, their_move] = moves;
        if let Some(Move::Stay(name, cause)) = own_move {
            let name = Quoted(&name);
            return Some(Stay {
                reason: Some(cause.reason()),
                message: format!(
                    "cluster {name} accepts no Releases, and there is no other one: {cause}"
                ),
            });
        }
        let names: Vec<_> = own.intersection(&drained).cloned().collect();
        let stays = (!names.is_empty()).then(|| Stay {
            reason: None,
            message: format!(
                "clusters {} accept no Releases, and are left when the step is reached in all clusters",
                Quoted(&names.join(","))
            ),
        });
        let stays = missing.or(stays);
        let is_ready = |it: &Release| is_in_place(it, &self.targets(key, it));
        let before_is_ready = before.as_ref().is_none_or(|(it, _)| is_ready(it));
        if !plan.is_settled || !is_ready(&newest) || !before_is_ready {
            return stays;
        }
        if let Some(next) = own_move {
            set_clusters(key, sync, &next);
        }
        sync.other = before
            .zip(their_move)
            .map(|((release, _), next)| ClustersPatch {
                clusters: changed(&release, &next),
                release,
            });
        stays
    }

    /// The clusters of a Release that do not exist. They hold it until they exist again, or are removed
    /// from the Release.
    fn missing(&self, release: &Release) -> Option<Stay> {
        let is_missing = |name: &String| {
            let link = self.context.inventory.link(name);
            matches!(link, ClusterLink::Unknown)
        };
        let names: Vec<_> = clusters_of(release)
            .into_iter()
            .filter(is_missing)
            .collect();
        let names = names.join(",");
        (!names.is_empty()).then(|| Stay {
            reason: None,
            message: format!(
                "clusters {} do not exist; `kubectl baton clean clusters --clusters {names}` removes them \
                 from Releases with other clusters",
                Quoted(&names)
            ),
        })
    }

    /// An older Release without pods leaves a drained cluster that the newest one has left, unless it is
    /// its last.
    fn leave_after_head(&self, key: &Key, sync: &mut Sync, drained: &BTreeSet<String>) {
        let siblings = self.siblings(key, &sync.wanted);
        let head = siblings.iter().max_by_key(|it| order(it));
        let is_before_head = head
            .and_then(|head| self.before(key, head))
            .is_some_and(|it| it.metadata.name == sync.wanted.metadata.name);
        let (_, capacity, _) = self.targets(key, &sync.wanted);
        let is_idle = |target: &CapacityTarget| {
            let mut clusters = target.spec.clusters.iter();
            clusters.all(|it| it.percent == 0)
        };
        let names = clusters_of(&sync.wanted);
        if is_before_head || !capacity.is_some_and(|it| is_idle(&it)) || names.len() < 2 {
            return;
        }
        let of_head = head.map_or_else(BTreeSet::new, |it| clusters_of(it));
        let left = names
            .intersection(drained)
            .find(|it| !of_head.contains(*it));
        if let Some(name) = left {
            set_clusters(key, sync, &Move::Leave(name.clone()));
        }
    }

    /// The Release before the newest one.
    fn before(&self, key: &Key, newest: &Release) -> Option<Arc<Release>> {
        let key = Key::new(key.kind, &key.namespace, &newest.name_any());
        let siblings = self.siblings(&key, newest);
        neighbours(siblings, &order(newest), |it| order(it)).0
    }

    /// The clusters that Releases of a namespace have, which are `used`, and those that can be added: the
    /// namespace may deliver into them, and they are connected. `None` while assignments cannot be read.
    fn usable(&self, namespace: &str, used: &BTreeSet<String>) -> Option<Vec<Cluster>> {
        let is_up = |name: &str| {
            let link = self.context.inventory.link(name);
            matches!(
                link,
                ClusterLink::Up(_) | ClusterLink::Pull(Contact::Reported)
            )
        };
        let mut usable = Vec::new();
        for cluster in self.context.stores.clusters.all() {
            let name = cluster.name_any();
            let is_used = used.contains(&name);
            if is_used || (is_up(&name) && self.is_assigned(namespace, &cluster).ok()?) {
                usable.push((*cluster).clone());
            }
        }
        Some(usable)
    }

    /// The names of the clusters that accept no Releases.
    pub(super) fn drained(&self) -> BTreeSet<String> {
        let clusters = self.context.stores.clusters.all();
        let drained = clusters.iter().filter(|it| it.spec.scheduler.unschedulable);
        drained.map(|it| it.name_any()).collect()
    }

    /// Trigger: wakes the Releases without clusters, and those in clusters that accept none any more.
    /// A cluster that appears, or accepts Releases now, may be chosen by them. Those in the cluster
    /// `changed` are woken as well.
    pub(super) fn to_be_scheduled(&self, changed: &str) -> Vec<Wake<Key>> {
        let mut drained = self.drained();
        drained.insert(changed.to_owned());
        self.context.stores.releases.wake(|release| {
            let clusters = clusters_of(release);
            clusters.is_empty() || !clusters.is_disjoint(&drained)
        })
    }

    /// Gives another Release its clusters.
    pub(super) async fn write_clusters(&self, patch: ClustersPatch) -> Result<(), Error> {
        let ClustersPatch { release, clusters } = patch;
        let annotations = json!({ ANNOTATION_RELEASE_CLUSTERS: clusters });
        let body = json!({ "metadata": { "annotations": annotations } });
        let written = self.context.requests.merge(&*release, body).await;
        let written = written.at_step("changing the clusters of the Release before")?;
        self.context.stores.releases.written(written);
        let key = Key::of(kinds::RELEASE.name, &*release);
        let events = vec![selected(&key, &clusters)];
        self.context
            .shared
            .events
            .publish_on(REPORTER, (&key, &*release), events);
        Ok(())
    }
}

fn placed<'a>(release: &'a Release, chosen: &'a [&'a str]) -> Placed<'a> {
    let application = release.labels().get(LABEL_APP);
    Placed {
        application: application.map_or("", String::as_str),
        requirements: &release.spec.environment.cluster_requirements,
        chosen,
    }
}

/// The annotation of a Release after a move.
fn changed(release: &Release, next: &Move) -> String {
    let mut clusters = clusters_of(release);
    match next {
        Move::Add(name) => drop(clusters.insert(name.clone())),
        Move::Leave(name) => drop(clusters.remove(name)),
        Move::Stay(..) => {}
    }
    annotation(&Vec::from_iter(clusters))
}

/// Changes the clusters of the Release of a pass. The next pass changes its targets.
fn set_clusters(key: &Key, sync: &mut Sync, next: &Move) {
    let clusters = changed(&sync.wanted, next);
    sync.events.push(selected(key, &clusters));
    let annotations = sync.wanted.annotations_mut();
    annotations.insert(ANNOTATION_RELEASE_CLUSTERS.to_owned(), clusters);
}

/// The event about chosen clusters.
pub(super) fn selected(key: &Key, clusters: &str) -> Event {
    let name = Quoted(&key.full_name()).to_string();
    let message = format!("Set clusters for {name} to {clusters}");
    Event::normal(EventReason::ClustersSelected, message)
}

/// The clusters of a Release.
pub(super) fn clusters_of(release: &Release) -> BTreeSet<String> {
    let annotation = release.annotations().get(ANNOTATION_RELEASE_CLUSTERS);
    let names = chosen(annotation.map_or("", String::as_str));
    names.into_iter().map(str::to_owned).collect()
}

/// True if all targets of a Release are for its clusters, and it is installed in them.
fn is_in_place(release: &Release, (installation, capacity, traffic): &Targets) -> bool {
    let (Some(installation), Some(capacity), Some(traffic)) = (installation, capacity, traffic)
    else {
        return false;
    };
    let clusters = clusters_of(release);
    let all = [
        installation.spec.clusters.iter().collect::<BTreeSet<_>>(),
        capacity.spec.clusters.iter().map(|it| &it.name).collect(),
        traffic.spec.clusters.iter().map(|it| &it.name).collect(),
    ];
    let is_listed = |of_target: &BTreeSet<&String>| of_target.iter().copied().eq(&clusters);
    all.iter().all(is_listed) && clusters.iter().all(|it| is_installed(installation, it))
}

/// True if the objects of a Release are installed in a cluster.
fn is_installed(target: &InstallationTarget, cluster: &str) -> bool {
    let status = target.status.as_ref();
    let mut reports = status.into_iter().flat_map(|it| &it.clusters);
    reports.any(|it| it.name == cluster && is_true(&it.conditions, READY))
}
