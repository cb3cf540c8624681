//! Chooses the clusters of a Release, and creates its three targets.

use std::{collections::BTreeMap, sync::Arc};

use baton_apis::{
    CapacityTarget, CapacityTargetSpec, Cluster, ClusterCapacityTarget, ClusterTrafficTarget,
    InstallationTarget, InstallationTargetSpec, Release, TrafficTarget, TrafficTargetSpec,
    conditions::EventReason,
    constants::shipper::{ANNOTATION_RELEASE_CLUSTERS, API_VERSION, LABEL_APP},
    kinds,
};
use baton_fleet::assignments::{Decision, Subject};
use baton_kubernetes::error::request_failure;
use baton_releases::{
    capacity::choice::ANNOTATION_WORKLOADS,
    chart::{self, ChartRequest},
    event::Event,
    scheduling::{self, error::ScheduleError},
    strategy::AchievedShares,
    texts::Quoted,
};
use baton_typed::{key::Key, store::Store};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::{Releases, moves::selected};
use crate::{controllers::releases::scalable::scalable, delivery::shared::Error};
use baton_typed::requests::Namespaced;

/// The result of scheduling a Release.
pub(super) struct Scheduled {
    /// The annotation with the clusters.
    pub clusters: String,
    /// Events to record.
    pub events: Vec<Event>,
}

/// The source of the number of pods of a Release. The target is read once in a pass: that of an
/// earlier Release of the same name may be deleted meanwhile, and a new one without the number would
/// ask for no pods.
enum Capacity {
    /// The target with the number.
    Present(Arc<CapacityTarget>),
    /// The chart, because there is no target, or it has no clusters.
    OfChart(ChartRequest),
}

impl Releases {
    /// Ensures that a Release has clusters, and a target of each kind for these clusters.
    ///
    /// The chart is rendered only while its `CapacityTarget` is missing or has no clusters.
    pub(super) async fn schedule(
        &self,
        key: &Key,
        release: &Release,
    ) -> Result<Scheduled, ScheduleError> {
        let mut events = Vec::new();
        let mut annotation = {
            let annotation = release.annotations().get(ANNOTATION_RELEASE_CLUSTERS);
            annotation.cloned().unwrap_or_default()
        };
        let chosen = scheduling::chosen(&annotation).into_iter();
        let mut clusters: Vec<_> = chosen.map(str::to_owned).collect();
        if clusters.is_empty() {
            clusters = self.select(release)?;
            annotation = scheduling::annotation(&clusters);
            events.push(selected(key, &annotation));
        }
        let stores = &self.context.stores;
        let present = stores.capacity_targets.get(&key.namespace, &key.name);
        let capacity = match present.filter(|target| !target.spec.clusters.is_empty()) {
            Some(target) => Capacity::Present(target),
            None => Capacity::OfChart(self.pods_in_chart(key, release, &clusters).await?),
        };
        // A target that was deleted is created again with the share that the Release has reached;
        // for a new Release that is nothing.
        let reached = self.reached(key, release);
        let installation = self.ensure(
            key,
            release,
            &stores.installation_targets,
            || wanted_installation(release, &clusters),
            |target| same_clusters(&target.spec.clusters, &clusters),
        );
        let traffic = self.ensure(
            key,
            release,
            &stores.traffic_targets,
            || wanted_traffic(release, &clusters, reached),
            |target| same_weights(&target.spec.clusters, &clusters),
        );
        let capacity = async {
            let store = &stores.capacity_targets;
            match capacity {
                Capacity::Present(target) => {
                    let clusters = same_capacities(&target.spec.clusters, &clusters, 0);
                    self.keep(key, release, store, &target, clusters).await
                }
                Capacity::OfChart(chart) => {
                    let total = chart.replicas;
                    let wanted = || wanted_capacity(release, &clusters, reached, chart);
                    self.ensure(key, release, store, wanted, |target| {
                        same_capacities(&target.spec.clusters, &clusters, total)
                    })
                    .await
                }
            }
        };
        // The targets are created concurrently, as a rollout waits for all of them.
        let made = tokio::join!(installation, traffic, capacity);
        let mut errors = Vec::new();
        for made in [made.0, made.1, made.2] {
            match made {
                Ok(event) => events.extend(event),
                Err(error) => errors.push(error),
            }
        }
        match ScheduleError::collect(errors) {
            Some(error) => Err(error),
            None => Ok(Scheduled {
                clusters: annotation,
                events,
            }),
        }
    }

    /// Chooses clusters.
    fn select(&self, release: &Release) -> Result<Vec<String>, ScheduleError> {
        let application = release.labels().get(LABEL_APP);
        let application = application.map_or("", String::as_str);
        let namespace = release.metadata.namespace.as_deref().unwrap_or_default();
        let (clusters, refused) = self.candidates(namespace)?;
        let requirements = &release.spec.environment.cluster_requirements;
        let selected = scheduling::select(application, requirements, &clusters);
        selected.map_err(|cause| ScheduleError::of_selection(cause, namespace, refused))
    }

    /// The clusters that a namespace may deliver into, and the names of the others.
    ///
    /// # Errors
    /// While assignments cannot be read: a choice is not repeated.
    fn candidates(&self, namespace: &str) -> Result<(Vec<Cluster>, Vec<String>), ScheduleError> {
        let (mut allowed, mut refused) = (Vec::new(), Vec::new());
        for cluster in self.context.stores.clusters.all() {
            if self.is_assigned(namespace, &cluster)? {
                allowed.push((*cluster).clone());
            } else {
                refused.push(cluster.name_any());
            }
        }
        refused.sort();
        Ok((allowed, refused))
    }

    /// True if a namespace may deliver into a cluster.
    ///
    /// # Errors
    /// While assignments cannot be read.
    pub(super) fn is_assigned(
        &self,
        namespace: &str,
        cluster: &Cluster,
    ) -> Result<bool, ScheduleError> {
        let (name, labels) = (&cluster.name_any(), cluster.labels());
        match self
            .context
            .assignments
            .decide(namespace, Subject { name, labels })
        {
            Decision::Allowed(_) => Ok(true),
            Decision::Refused(_) => Ok(false),
            Decision::Unreadable { message, .. } => Err(ScheduleError::Request(message)),
            Decision::Unknown => {
                let text = "SiteAssignments are not listed yet";
                Err(ScheduleError::Request(text.to_owned()))
            }
        }
    }

    /// The number of pods in the chart. The rendered chart is stored for the installation.
    async fn pods_in_chart(
        &self,
        key: &Key,
        release: &Release,
        clusters: &[String],
    ) -> Result<ChartRequest, ScheduleError> {
        let environment = &release.spec.environment;
        let documents = self.charts.render(key, release).await?;
        let inventory = &self.context.inventory;
        let (documents, scalable) = scalable(&self.charts, inventory, clusters, documents).await?;
        let request = chart::chart_request(documents.objects, &environment.chart, &scalable);
        // The output of a chart that is refused is of no use.
        if request.is_ok() {
            self.charts.store(release, documents.rendered);
        }
        request.map_err(|error| match error {
            chart::Error::Deployments { found, .. } => ScheduleError::WrongDeployments {
                name: environment.chart.name.clone(),
                version: environment.chart.version.clone(),
                found,
            },
            other => ScheduleError::BrokenChart {
                chart: environment.chart.clone(),
                cause: other.to_string(),
            },
        })
    }

    /// Ensures that a target exists, belongs to the Release, and lists its clusters. `clusters`
    /// returns the new list, or `None` if the list is correct.
    async fn ensure<K: Namespaced>(
        &self,
        key: &Key,
        release: &Release,
        store: &Store<K>,
        wanted: impl FnOnce() -> K,
        clusters: impl Fn(&K) -> Option<Vec<Value>>,
    ) -> Result<Option<Event>, ScheduleError> {
        match store.get(&key.namespace, &key.name) {
            Some(target) => {
                let clusters = clusters(&target);
                self.keep(key, release, store, &target, clusters).await
            }
            None => self.create(key, store, wanted()).await,
        }
    }

    async fn create<K: Namespaced>(
        &self,
        key: &Key,
        store: &Store<K>,
        wanted: K,
    ) -> Result<Option<Event>, ScheduleError> {
        let created = self.context.create(&wanted, "creating a target").await;
        store.written(created.map_err(|error| match &error {
            Error::Request { source, .. } => request(source),
            _ => ScheduleError::Request(error.to_string()),
        })?);
        let (kind, name) = (store.kind, key.full_name());
        let message = format!("Created {kind} {}", Quoted(&name));
        Ok(Some(Event::normal(EventReason::ReleaseScheduled, message)))
    }

    /// Ensures that a target belongs to the Release, and has the clusters, if they differ.
    async fn keep<K: Namespaced>(
        &self,
        key: &Key,
        release: &Release,
        store: &Store<K>,
        target: &K,
        clusters: Option<Vec<Value>>,
    ) -> Result<Option<Event>, ScheduleError> {
        let (kind, name) = (store.kind, key.full_name());
        let uid = release.metadata.uid.as_deref();
        let mut owners = target.owner_references().iter();
        if !owners.any(|owner| owner.kind == kinds::RELEASE.name && Some(&*owner.uid) == uid) {
            return Err(ScheduleError::WrongOwner {
                kind: kind.to_owned(),
                owner_kind: kinds::RELEASE.name.to_owned(),
                owner: name.clone(),
                name,
            });
        }
        let is_deleting = target.meta().deletion_timestamp.is_some();
        let Some(clusters) = clusters.filter(|_| !is_deleting) else {
            return Ok(None);
        };
        let names = clusters.iter();
        let names = names.filter_map(|it| it.as_str().or_else(|| it["name"].as_str()));
        let names = names.collect::<Vec<_>>().join(",");
        let patch = json!({"spec": {"clusters": clusters}});
        let written = self.context.requests.merge(target, patch).await;
        store.written(written.map_err(|error| request(&error))?);
        let message = format!("Updated {kind} {} cluster set to [{names}]", Quoted(&name));
        Ok(Some(Event::normal(EventReason::ReleaseScheduled, message)))
    }
}

fn request(error: &kube::Error) -> ScheduleError {
    ScheduleError::Request(request_failure(error))
}

fn same_clusters(current: &[String], wanted: &[String]) -> Option<Vec<Value>> {
    let mut current = current.to_vec();
    current.sort();
    (current != wanted).then(|| wanted.iter().map(|name| json!(name)).collect())
}

/// Clusters that stay in the list keep their traffic.
fn same_weights(current: &[ClusterTrafficTarget], wanted: &[String]) -> Option<Vec<Value>> {
    let by_name: BTreeMap<_, _> = current.iter().map(|it| (&it.name, it)).collect();
    let entry = |name: &String| match by_name.get(name) {
        Some(entry) => json!(entry),
        None => json!(weight_of_none(name)),
    };
    (!by_name.keys().copied().eq(wanted)).then(|| wanted.iter().map(entry).collect())
}

/// Clusters that stay in the list keep their pods. The number of pods in the chart is the same in
/// all clusters; `total` is the number if there are none yet.
fn same_capacities(
    current: &[ClusterCapacityTarget],
    wanted: &[String],
    total: i32,
) -> Option<Vec<Value>> {
    let by_name: BTreeMap<_, _> = current.iter().map(|it| (&it.name, it)).collect();
    let present = current.iter().map(|it| it.total_replica_count).max();
    let entry = |name: &String| match by_name.get(name) {
        Some(entry) => json!(entry),
        None => json!(capacity_of_none(name, present.unwrap_or(total))),
    };
    (!by_name.keys().copied().eq(wanted)).then(|| wanted.iter().map(entry).collect())
}

fn weight_of_none(name: &str) -> ClusterTrafficTarget {
    ClusterTrafficTarget {
        name: name.to_owned(),
        weight: 0,
    }
}

fn capacity_of_none(name: &str, total: i32) -> ClusterCapacityTarget {
    ClusterCapacityTarget {
        name: name.to_owned(),
        percent: 0,
        total_replica_count: total,
    }
}

/// The metadata of the targets of a Release.
fn metadata(release: &Release) -> ObjectMeta {
    ObjectMeta {
        name: release.metadata.name.clone(),
        namespace: release.metadata.namespace.clone(),
        labels: release.metadata.labels.clone(),
        owner_references: Some(vec![OwnerReference {
            api_version: API_VERSION.to_owned(),
            kind: kinds::RELEASE.name.to_owned(),
            name: release.name_any(),
            uid: release.metadata.uid.clone().unwrap_or_default(),
            ..OwnerReference::default()
        }]),
        ..ObjectMeta::default()
    }
}

fn wanted_installation(release: &Release, clusters: &[String]) -> InstallationTarget {
    let environment = &release.spec.environment;
    InstallationTarget {
        metadata: metadata(release),
        spec: InstallationTargetSpec {
            clusters: clusters.to_vec(),
            can_override: true,
            chart: Some(environment.chart.clone()),
            values: environment.values.clone(),
        },
        status: None,
    }
}

fn wanted_traffic(
    release: &Release,
    clusters: &[String],
    reached: AchievedShares,
) -> TrafficTarget {
    let entry = |name: &String| ClusterTrafficTarget {
        weight: reached.weight,
        ..weight_of_none(name)
    };
    TrafficTarget {
        metadata: metadata(release),
        spec: TrafficTargetSpec {
            clusters: clusters.iter().map(entry).collect(),
        },
        status: None,
    }
}

/// The capacity target of a Release, with the number of pods in its chart.
fn wanted_capacity(
    release: &Release,
    clusters: &[String],
    reached: AchievedShares,
    chart: ChartRequest,
) -> CapacityTarget {
    let ChartRequest {
        replicas,
        workloads,
    } = chart;
    let entry = |name: &String| ClusterCapacityTarget {
        percent: reached.percent,
        ..capacity_of_none(name, replicas)
    };
    let mut target = CapacityTarget {
        metadata: metadata(release),
        spec: CapacityTargetSpec {
            clusters: clusters.iter().map(entry).collect(),
        },
        status: None,
    };
    if let Some(workloads) = workloads {
        let annotations = target.annotations_mut();
        annotations.insert(ANNOTATION_WORKLOADS.to_owned(), workloads);
    }
    target
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A changed set of clusters leaves the remaining clusters as they are.
    #[test]
    fn remaining_clusters_keep_their_capacity_and_weight() {
        let capacity = |name: &str, percent| ClusterCapacityTarget {
            name: name.into(),
            percent,
            total_replica_count: 4,
        };
        let weight = |name: &str, weight| ClusterTrafficTarget {
            name: name.into(),
            weight,
        };
        let names = |names: &[&str]| -> Vec<_> { names.iter().map(|&it| it.to_owned()).collect() };
        let capacities = [capacity("a", 50), capacity("b", 100)];
        let weights = [weight("a", 50), weight("b", 100)];
        let same = names(&["a", "b"]);
        assert_eq!(same_capacities(&capacities, &same, 0), None);
        assert_eq!(same_weights(&weights, &same), None);
        assert_eq!(same_clusters(&names(&["b", "a"]), &same), None);
        let other = names(&["b", "c"]);
        assert_eq!(
            same_capacities(&capacities, &other, 0),
            Some(vec![json!(capacity("b", 100)), json!(capacity("c", 0))])
        );
        assert_eq!(
            same_weights(&weights, &other),
            Some(vec![json!(weight("b", 100)), json!(weight("c", 0))])
        );
        // A target that has lost its clusters gets them with the pods of the chart.
        let restored = same_capacities(&[], &names(&["a"]), 4).unwrap();
        assert_eq!(restored[0]["totalReplicaCount"], 4);
        assert_eq!(
            same_clusters(&same, &other),
            Some(vec![json!("b"), json!("c")])
        );
    }
}
