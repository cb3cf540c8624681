//! One cluster: its cached objects, and the requests to change them.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use baton_apis::constants::shipper::{LABEL_APP, LABEL_LB, LABEL_RELEASE, LB_PRODUCTION};
use baton_engine::Gvk;
use baton_kubernetes::{informers::Task, target::Target, watch::WatchSpec};
use baton_releases::targets::reasons::{Cause, Failure};
use baton_runtime::source::Source;
use baton_typed::{
    key::Kind,
    store::{Change, Store},
};
use k8s_openapi::api::{
    core::v1::{Pod, Service},
    discovery::v1::EndpointSlice,
};
use kube::Client;
use parking_lot::Mutex;
use tokio::time::timeout;

use super::{
    ClusterChange,
    objects::{
        Scaled, deployments, on_pod, on_service, on_slice, on_workload, trim_pod, trim_service,
        trim_slice,
    },
};

/// The time that a first list may take.
const FIRST_LIST: Duration = Duration::from_secs(30);

/// A cluster. Its watches end when it is dropped.
pub(crate) struct AppCluster {
    name: Arc<str>,
    /// The connection.
    pub target: Target,
    changes: Arc<Source<ClusterChange>>,
    pods: OnceLock<Watched<Pod>>,
    services: OnceLock<Watched<Service>>,
    slices: OnceLock<Watched<EndpointSlice>>,
    workloads: Mutex<BTreeMap<Gvk, Arc<Watched<Scaled>>>>,
}

/// The cached objects of a kind, while the kind is watched.
struct Watched<K> {
    /// Name of the cluster.
    cluster: Arc<str>,
    store: Arc<Store<K>>,
    /// True if a caller stopped waiting for the first list. Its target is woken when the list is
    /// complete.
    was_missed: Arc<AtomicBool>,
    _tasks: [Task; 2],
}

/// The selection of objects of a kind to watch.
struct Selected {
    path: String,
    labels: String,
}

impl AppCluster {
    /// Creates the state in which nothing is watched in the cluster.
    pub(crate) fn new(name: &str, target: Target, changes: Arc<Source<ClusterChange>>) -> Self {
        Self {
            name: name.into(),
            target,
            changes,
            pods: OnceLock::new(),
            services: OnceLock::new(),
            slices: OnceLock::new(),
            workloads: Mutex::default(),
        }
    }

    /// The client of the cluster.
    pub(crate) fn client(&self) -> Client {
        self.target.client()
    }

    /// The pods of all Releases.
    ///
    /// # Errors
    /// If they cannot be listed.
    pub(crate) async fn pods(&self) -> Result<Arc<Store<Pod>>, Failure> {
        let watched = self.pods.get_or_init(|| {
            let selected = Selected::new("/api/v1/pods", LABEL_RELEASE);
            self.watch(Store::trimmed("pods", trim_pod), selected, on_pod)
        });
        watched.listed().await
    }

    /// The Services that balance.
    ///
    /// # Errors
    /// If they cannot be listed.
    pub(crate) async fn services(&self) -> Result<Arc<Store<Service>>, Failure> {
        let watched = self.services.get_or_init(|| {
            let labels = format!("{LABEL_APP},{LABEL_LB}={LB_PRODUCTION}");
            let selected = Selected::new("/api/v1/services", &labels);
            self.watch(
                Store::trimmed("services", trim_service),
                selected,
                on_service,
            )
        });
        watched.listed().await
    }

    /// The addresses of the Services that balance: slices have the labels of their Service.
    ///
    /// # Errors
    /// If they cannot be listed.
    pub(crate) async fn slices(&self) -> Result<Arc<Store<EndpointSlice>>, Failure> {
        let watched = self.slices.get_or_init(|| {
            let labels = format!("{LABEL_APP},{LABEL_LB}={LB_PRODUCTION}");
            let selected = Selected::new("/apis/discovery.k8s.io/v1/endpointslices", &labels);
            self.watch(
                Store::trimmed("endpointslices", trim_slice),
                selected,
                on_slice,
            )
        });
        watched.listed().await
    }

    /// The workloads of a kind, of all Releases.
    ///
    /// # Errors
    /// If the cluster does not have the kind, or they cannot be listed.
    pub(crate) async fn workloads(&self, kind: &Gvk) -> Result<Arc<Store<Scaled>>, Failure> {
        let watched = self.workloads.lock().get(kind).cloned();
        if let Some(watched) = watched {
            return watched.listed().await;
        }
        let path = self.collection(kind).await?;
        let watched = {
            let mut workloads = self.workloads.lock();
            let watched = workloads.entry(kind.clone()).or_insert_with(|| {
                let selected = Selected::new(&path, LABEL_RELEASE);
                let store = Store::trimmed("workloads", Scaled::trim);
                Arc::new(self.watch(store, selected, on_workload))
            });
            Arc::clone(watched)
        };
        watched.listed().await
    }

    /// The path of all objects of a kind. For Deployments, which every cluster has, no discovery is
    /// needed.
    async fn collection(&self, kind: &Gvk) -> Result<String, Failure> {
        if *kind == deployments() {
            return Ok("/apis/apps/v1/deployments".to_owned());
        }
        let resource = self.target.resolve(kind).await;
        let resource = resource.map_err(|error| Failure::new(Cause::Discovery, error))?;
        let resource = resource.filter(|resource| resource.watchable);
        resource.map(|resource| resource.path()).ok_or_else(|| {
            let message = format!("kind {} not found on the Kubernetes cluster", kind.kind);
            Failure::new(Cause::UnknownKind, message)
        })
    }

    fn watch<K: Kind>(
        &self,
        store: Store<K>,
        Selected { path, labels }: Selected,
        concerned: fn(&Change<K>) -> Vec<ClusterChange>,
    ) -> Watched<K> {
        let (store, was_missed) = (Arc::new(store), Arc::new(AtomicBool::new(false)));
        let (changes, all) = (Arc::clone(&self.changes), Arc::downgrade(&store));
        store.changes.subscribe(move |change| {
            // Callers wait for the first list, so that its objects need not wake anything.
            if all.upgrade().is_some_and(|all| all.was_complete()) {
                for change in concerned(change) {
                    changes.emit(&change);
                }
            }
        });
        let spec = WatchSpec {
            label_selector: Some(labels),
            ..WatchSpec::new(path)
        };
        let follow = Arc::clone(&store).follow_at(self.client(), spec);
        let (all, changes, missed) = (store.clone(), self.changes.clone(), was_missed.clone());
        let first_list = async move {
            all.completed().await;
            if !missed.load(Ordering::Acquire) {
                return;
            }
            for object in all.all() {
                let new = Some(object);
                for change in concerned(&Change { old: None, new }) {
                    changes.emit(&change);
                }
            }
        };
        Watched {
            cluster: Arc::clone(&self.name),
            store,
            was_missed,
            _tasks: [Task::spawn(follow), Task::spawn(first_list)],
        }
    }
}

impl<K: Kind> Watched<K> {
    /// Waits for the first list.
    async fn listed(&self) -> Result<Arc<Store<K>>, Failure> {
        let in_time = timeout(FIRST_LIST, self.store.listed()).await.is_ok();
        if self.store.is_complete() {
            return Ok(Arc::clone(&self.store));
        }
        self.was_missed.store(true, Ordering::Release);
        let cause = if in_time {
            self.store.cause()
        } else {
            format!("no complete list within {} s", FIRST_LIST.as_secs()).into()
        };
        let mut message = format!("cannot list {}: {cause}", self.store.kind);
        if self.store.is_forbidden() {
            // The role that shipperctl creates has no right to EndpointSlices, for example.
            let command = format!(
                "; `baton cluster join {}` grants the rights of Baton",
                self.cluster
            );
            message.push_str(&command);
        }
        Err(Failure::new(Cause::Read, message))
    }
}

impl Selected {
    fn new(path: &str, labels: &str) -> Self {
        Self {
            path: path.to_owned(),
            labels: labels.to_owned(),
        }
    }
}
