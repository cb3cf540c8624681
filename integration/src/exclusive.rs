//! A control plane and a manager that one test has to itself.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use baton_hack::bed::{Afterwards, Bed, Snapshot};
use baton_hack::paths::Dirs;
use serde_json::{Value, json};
use tokio::sync::{OnceCell, Semaphore, SemaphorePermit};

use crate::cluster::Cluster;
use crate::faults::Faults;
use crate::guard::Guard;
use crate::manager::Manager;
use crate::namespace::{LABEL_TEST, PATIENCE, Scope, TestNamespace};
use crate::program::temporary;
use crate::work;

/// How many tests have a bed to themselves at the same time. They mostly wait, for a manager to be idle above all.
const TURNS: usize = 3;

/// The beds, each started for the first test that gets it. There is one more than there are turns, so
/// that a manager can clear it while nobody needs it.
static BEDS: [OnceCell<ExclusiveBed>; TURNS + 1] = [const { OnceCell::const_new() }; TURNS + 1];

/// The beds that no test has, by index; the one that was given back first comes first.
static FREE: Mutex<VecDeque<usize>> = Mutex::new(VecDeque::new());

/// How many more tests may have one.
static LEFT: Semaphore = Semaphore::const_new(TURNS);

/// Clears a bed that no test has, by index.
static SWEEPERS: [Mutex<Option<Manager>>; TURNS + 1] = [const { Mutex::new(None) }; TURNS + 1];

#[derive(Debug)]
struct ExclusiveBed {
    bed: Bed,
    /// A static is never dropped: this ends the bed together with the test process.
    _guard: Guard,
}

/// The right to a bed with nobody else on it: neither another test nor another manager.
///
/// Tests that count requests or end the manager use it. A few control planes serve all tests of a
/// process, one test each at a time; the manager is started for each test.
pub struct Exclusive {
    cluster: Cluster,
    manager: Option<Manager>,
    index: usize,
    _turn: SemaphorePermit<'static>,
}

/// Leaves what the test has left to a manager of its own, which may take its time.
impl Drop for Exclusive {
    fn drop(&mut self) {
        self.manager = None;
        let sweeper = Manager::spawn(self.cluster.kubeconfig(), &purpose(self.index), NO_LEASE);
        *SWEEPERS[self.index].lock().unwrap() = Some(sweeper);
        FREE.lock().unwrap().push_back(self.index);
    }
}

/// Flags of a manager that is alone.
const NO_LEASE: &[&str] = &["--leader-elect=false"];

impl Exclusive {
    /// Waits for its turn; then the bed is empty and the manager ready.
    pub async fn acquire() -> Self {
        let turn = work::aside(LEFT.acquire()).await.unwrap();
        let index = free();
        let bed = BEDS[index].get_or_init(|| start(index)).await;
        let cluster = Cluster::connect(&bed.bed.kubeconfig()).await;
        let sweeper = SWEEPERS[index].lock().unwrap().take();
        // One that found its port taken has ended.
        let sweeper = sweeper.map(|sweeper| match sweeper.exited() {
            None => sweeper,
            Some(_) => Manager::start(cluster.kubeconfig(), &purpose(index)),
        });
        sweep(&cluster).await;
        // It ends before the test's own begins.
        drop(sweeper);
        let manager = Manager::start(cluster.kubeconfig(), &purpose(index));
        Self {
            cluster,
            manager: Some(manager),
            index,
            _turn: turn,
        }
    }

    /// The cluster.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Installs the kinds that roll applications out, which the manager takes up when they are there.
    pub async fn install_releases(&self) {
        let dirs = Dirs::from_env().unwrap();
        let bed = BEDS[self.index].get().unwrap();
        bed.bed.install(&dirs.release_crds()).await.unwrap();
    }

    /// Keeps the state of the cluster, whose servers are stopped for a moment.
    pub async fn snapshot(&self) -> Snapshot {
        let bed = BEDS[self.index].get().unwrap();
        bed.bed.snapshot().await.unwrap()
    }

    /// Brings the cluster back to a state, as a backup of its etcd does.
    pub async fn restore(&self, snapshot: &Snapshot) {
        let bed = BEDS[self.index].get().unwrap();
        bed.bed.restore(snapshot).await.unwrap();
    }

    /// The manager, which runs.
    #[must_use]
    pub fn manager(&self) -> &Manager {
        match &self.manager {
            Some(manager) => manager,
            None => panic!("the manager was stopped and not started again"),
        }
    }

    /// A namespace on it.
    pub async fn namespace(&self, scope: Scope) -> TestNamespace {
        TestNamespace::on(self.cluster.clone(), self.manager().log().clone(), scope).await
    }

    /// Takes the manager away, to be ended in a way of the test's choice.
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

    /// Starts the manager (again), with these flags, and does not wait for it.
    pub fn spawn_manager(&mut self, flags: &[&str]) {
        let kubeconfig = self.cluster.kubeconfig();
        self.manager = Some(Manager::spawn(kubeconfig, &purpose(self.index), flags));
    }

    /// Starts the manager (again) with the rights of a service account.
    pub async fn start_manager_as(&mut self, namespace: &str, account: &str) {
        self.start_manager_as_with(namespace, account, &[]).await;
    }

    /// As [`Exclusive::start_manager_as`], with further flags.
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

    /// Starts a manager, an administrator's, whose requests come through a stand-in of the API server; one that runs is
    /// ended. It is not waited for.
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
        // Tests run side by side.
        let purpose = format!("through-{}", self.index);
        let path = temporary(&format!("{purpose}.yaml"));
        std::fs::write(&path, faults.endpoint().kubeconfig(&token)).unwrap();
        Manager::spawn(&path, &purpose, flags)
    }
}

/// What the managers of a bed are for, which names their log.
fn purpose(index: usize) -> String {
    format!("exclusive-{index}")
}

/// A bed that no test has: rather one that was never started than one that was given back just now.
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
    // Before the bed is there, so that half a bed is ended too.
    let guard = Guard::over_bed(&name);
    let bed = Bed::up(&dirs, &name.parse().unwrap(), None, Afterwards::End).await;
    let bed = bed.unwrap_or_else(|error| panic!("{error}"));
    bed.install(&dirs.crds()).await.unwrap();
    ExclusiveBed { bed, _guard: guard }
}

/// Lets go of what is being deleted: the managers that would do so have ended with their tests.
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
                // It may be gone by now.
                let _ = cluster.merge(&reference, &free).await;
            }
        }
    }
}

/// Waits until nothing is left of the test before, whose namespace goes in its own time.
async fn sweep(cluster: &Cluster) {
    let namespaces = json!({ "apiVersion": "v1", "kind": "Namespace" });
    let kinds = [
        ("package-operator.run/v1alpha1", "ClusterObjectDeployment"),
        ("package-operator.run/v1alpha1", "ClusterObjectSet"),
        // Garbage collection takes them later than their revisions, and what a manager does to let one go would count.
        ("package-operator.run/v1alpha1", "ClusterObjectSetPhase"),
        ("shipper.booking.com/v1alpha1", "Cluster"),
    ];
    let kinds = kinds.map(|(version, kind)| json!({ "apiVersion": version, "kind": kind }));
    let asked = std::time::Instant::now();
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
        assert!(
            asked.elapsed() < PATIENCE * 2,
            "the test before has left something that does not go"
        );
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}
