//! A control plane and a manager that one test has to itself.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use baton_hack::bed::{Afterwards, Bed, Snapshot};
use baton_hack::paths::Dirs;
use serde_json::{Value, json};
use tokio::sync::{OnceCell, Semaphore, SemaphorePermit};

use crate::clock::ShiftedClock;
use crate::cluster::Cluster;
use crate::faults::Faults;
use crate::guard::Guard;
use crate::manager::Manager;
use crate::namespace::{LABEL_TEST, Scope, TIMEOUT, TestNamespace};
use crate::program::temporary;
use crate::work;

/// Number of tests that have a bed to themselves at the same time. They mostly wait, above all for
/// a manager to become idle.
const TURNS: usize = 4;

/// The beds, each started for the first test that gets it. There is one more than there are turns,
/// so that a manager can clear it between two tests.
static BEDS: [OnceCell<ExclusiveBed>; TURNS + 1] = [const { OnceCell::const_new() }; TURNS + 1];

/// Indexes of the beds that no test uses, the least recently returned one first.
static FREE: Mutex<VecDeque<usize>> = Mutex::new(VecDeque::new());

/// A permit for each turn that no test has taken.
static LEFT: Semaphore = Semaphore::const_new(TURNS);

/// The managers that clear the unused beds, by index of the bed.
static SWEEPERS: [Mutex<Option<Manager>>; TURNS + 1] = [const { Mutex::new(None) }; TURNS + 1];

#[derive(Debug)]
struct ExclusiveBed {
    bed: Bed,
    /// A static is never dropped. The guard ends the bed together with the test process.
    _guard: Guard,
}

/// The right to a bed without other users: no other test and no other manager.
///
/// Tests that count requests or end the manager use it. A few control planes serve all tests of a
/// process, each one test at a time; the manager is started for each test.
pub struct Exclusive {
    cluster: Cluster,
    manager: Option<Manager>,
    index: usize,
    _turn: SemaphorePermit<'static>,
}

/// The drop starts a separate manager, which removes the objects of the test in the background.
impl Drop for Exclusive {
    fn drop(&mut self) {
        self.manager = None;
        let sweeper = Manager::spawn(self.cluster.kubeconfig(), &purpose(self.index), NO_LEASE);
        *SWEEPERS[self.index].lock().unwrap() = Some(sweeper);
        FREE.lock().unwrap().push_back(self.index);
    }
}

/// Flags of a manager that runs alone.
const NO_LEASE: &[&str] = &["--leader-elect=false"];

impl Exclusive {
    /// Waits for a turn, until the bed is empty and the manager is ready.
    pub async fn acquire() -> Self {
        let turn = work::aside(LEFT.acquire()).await.unwrap();
        let index = free();
        let bed = BEDS[index].get_or_init(|| start(index)).await;
        let cluster = Cluster::connect(&bed.bed.kubeconfig()).await;
        let sweeper = SWEEPERS[index].lock().unwrap().take();
        // A manager that finds its port in use exits.
        let sweeper = sweeper.map(|sweeper| match sweeper.exited() {
            None => sweeper,
            Some(_) => Manager::start(cluster.kubeconfig(), &purpose(index)),
        });
        sweep(&cluster).await;
        // The sweeper ends before the test's own manager starts.
        drop(sweeper);
        let manager = Manager::start(cluster.kubeconfig(), &purpose(index));
        Self {
            cluster,
            manager: Some(manager),
            index,
            _turn: turn,
        }
    }

    /// Returns the cluster.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Installs the kinds of Releases again, after the test has deleted their definitions.
    pub async fn install_releases(&self) {
        let bed = BEDS[self.index].get().unwrap();
        install_releases(&bed.bed).await;
    }

    /// Saves the state of the cluster. The servers are stopped for a moment.
    pub async fn snapshot(&self) -> Snapshot {
        let bed = BEDS[self.index].get().unwrap();
        bed.bed.snapshot().await.unwrap()
    }

    /// Restores the state of the cluster, as a restore from a backup of etcd does.
    pub async fn restore(&self, snapshot: &Snapshot) {
        let bed = BEDS[self.index].get().unwrap();
        bed.bed.restore(snapshot).await.unwrap();
    }

    /// Returns the manager, which must run.
    #[must_use]
    pub fn manager(&self) -> &Manager {
        match &self.manager {
            Some(manager) => manager,
            None => panic!("the manager was stopped and not started again"),
        }
    }

    /// Creates a namespace in the cluster.
    pub async fn namespace(&self, scope: Scope) -> TestNamespace {
        TestNamespace::on(self.cluster.clone(), self.manager().log().clone(), scope).await
    }

    /// Takes the manager, so that the test can end it.
    pub fn take_manager(&mut self) -> Manager {
        match self.manager.take() {
            Some(manager) => manager,
            None => panic!("the manager was stopped already"),
        }
    }

    /// Starts the manager (again) and waits until it is ready.
    pub fn start_manager(&mut self) {
        self.manager = Some(Manager::start(
            self.cluster.kubeconfig(),
            &purpose(self.index),
        ));
    }

    /// Ends the manager, and starts it again with a clock of the test.
    pub fn restart_manager_at(&mut self, clock: &ShiftedClock) {
        drop(self.take_manager());
        let kubeconfig = self.cluster.kubeconfig();
        let manager = Manager::start_at(kubeconfig, &purpose(self.index), clock);
        self.manager = Some(manager);
    }

    /// Starts the manager (again) with these flags, and does not wait until it is ready.
    pub fn spawn_manager(&mut self, flags: &[&str]) {
        let kubeconfig = self.cluster.kubeconfig();
        self.manager = Some(Manager::spawn(kubeconfig, &purpose(self.index), flags));
    }

    /// Starts the manager (again) with the rights of a service account.
    pub async fn start_manager_as(&mut self, namespace: &str, account: &str) {
        self.start_manager_as_with(namespace, account, &[]).await;
    }

    /// As [`Exclusive::start_manager_as`], with additional flags.
    pub async fn start_manager_as_with(&mut self, namespace: &str, account: &str, flags: &[&str]) {
        let token = self.cluster.token(namespace, account).await;
        let text = std::fs::read_to_string(self.cluster.kubeconfig()).unwrap();
        let mut kubeconfig: Value = serde_saphyr::from_str(&text).unwrap();
        for user in kubeconfig["users"].as_array_mut().unwrap() {
            user["user"] = json!({ "token": token });
        }
        let path = temporary("kubeconfig.yaml");
        std::fs::write(&path, serde_saphyr::to_string(&kubeconfig).unwrap()).unwrap();
        let purpose = purpose(self.index);
        self.manager = Some(Manager::start_with(&path, &purpose, flags));
        std::fs::remove_file(&path).unwrap();
    }

    /// Starts a manager with an administrator's rights that sends its requests through a fault
    /// injector. A manager that runs is ended first. Does not wait until the new one is ready.
    pub async fn manager_through(&mut self, faults: &Faults, flags: &[&str]) -> Manager {
        let home = "baton-system";
        let account = json!({ "name": "through", "namespace": home });
        for object in [
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": home } }),
            json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": account }),
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                "metadata": { "name": "through" },
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin",
                },
                "subjects": [{ "kind": "ServiceAccount", "name": "through", "namespace": home }],
            }),
        ] {
            self.cluster.apply(&object, "tests").await.unwrap();
        }
        let token = self.cluster.token(home, "through").await;
        if let Some(manager) = self.manager.take() {
            let _ = manager.terminate();
        }
        // Tests run concurrently, so the name is unique per bed.
        let purpose = format!("through-{}", self.index);
        let path = temporary(&format!("{purpose}.yaml"));
        std::fs::write(&path, faults.endpoint().kubeconfig(&token)).unwrap();
        Manager::spawn(&path, &purpose, flags)
    }
}

/// Returns the purpose of a bed's managers, which names their log.
fn purpose(index: usize) -> String {
    format!("exclusive-{index}")
}

/// Returns the index of an unused bed. A bed that was never started precedes one that was just
/// returned.
fn free() -> usize {
    static STARTED: AtomicUsize = AtomicUsize::new(0);
    let mut free = FREE.lock().unwrap();
    let next = STARTED.load(Ordering::Relaxed);
    if next < BEDS.len() {
        STARTED.store(next + 1, Ordering::Relaxed);
        return next;
    }
    free.pop_front().unwrap()
}

async fn start(index: usize) -> ExclusiveBed {
    let dirs = Dirs::from_env().unwrap();
    let name = format!("it-{}-{index}", std::process::id());
    // The guard starts before the bed, so that a bed whose start fails halfway is ended too.
    let guard = Guard::over_bed(&name);
    let bed = Bed::up(&dirs, &name.parse().unwrap(), None, Afterwards::End).await;
    let bed = bed.unwrap_or_else(|error| panic!("{error}"));
    bed.install(&dirs.crds()).await.unwrap();
    // The manager lists kinds that are not served again and again, and tests count its requests.
    install_releases(&bed).await;
    ExclusiveBed { bed, _guard: guard }
}

async fn install_releases(bed: &Bed) {
    let dirs = Dirs::from_env().unwrap();
    bed.install(&dirs.release_crds()).await.unwrap();
}

/// Removes the finalizers of objects that are being deleted. The managers that would remove them
/// ended with their tests.
async fn release(cluster: &Cluster) {
    for kind in [
        "ObjectSetPhase",
        "ClusterObjectSetPhase",
        "ObjectSet",
        "ClusterObjectSet",
    ] {
        let kind = json!({ "apiVersion": "package-operator.run/v1alpha1", "kind": kind });
        for object in cluster.list(&kind, "").await {
            let metadata = &object["metadata"];
            if metadata["deletionTimestamp"].is_string() && metadata["finalizers"].is_array() {
                let mut reference = kind.clone();
                reference["metadata"] =
                    json!({ "name": metadata["name"], "namespace": metadata["namespace"] });
                let free = json!({ "metadata": { "finalizers": null } });
                // The object may be gone by now.
                let _ = cluster.merge(&reference, &free).await;
            }
        }
    }
}

/// Deletes the Clusters that a test has joined and, because it failed, not removed.
async fn forget_clusters(cluster: &Cluster) {
    let kind = json!({ "apiVersion": "shipper.booking.com/v1alpha1", "kind": "Cluster" });
    for mut object in cluster.list(&kind, "").await {
        object["apiVersion"] = kind["apiVersion"].clone();
        object["kind"] = kind["kind"].clone();
        cluster.delete(&object, "Background").await;
    }
}

/// Waits until nothing is left of the previous test, whose namespace is removed in the background.
async fn sweep(cluster: &Cluster) {
    let namespaces = json!({ "apiVersion": "v1", "kind": "Namespace" });
    let kinds = [
        ("package-operator.run/v1alpha1", "ClusterObjectDeployment"),
        ("package-operator.run/v1alpha1", "ClusterObjectSet"),
        // Garbage collection removes phase objects later than their revisions. The writes of a
        // manager that releases one would count.
        ("package-operator.run/v1alpha1", "ClusterObjectSetPhase"),
        ("shipper.booking.com/v1alpha1", "Cluster"),
    ];
    let kinds = kinds.map(|(version, kind)| json!({ "apiVersion": version, "kind": kind }));
    let start = std::time::Instant::now();
    loop {
        let label = format!("{LABEL_TEST}=true");
        let mut left = cluster.list(&namespaces, &label).await.len();
        for kind in &kinds {
            left += cluster.list(kind, "").await.len();
        }
        if left == 0 {
            return;
        }
        release(cluster).await;
        forget_clusters(cluster).await;
        assert!(
            start.elapsed() < TIMEOUT * 2,
            "the test before has left something that does not go"
        );
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}
