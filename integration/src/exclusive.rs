//! A control plane and a manager that one test has to itself.

use baton_hack::bed::{Afterwards, Bed};
use baton_hack::paths::Dirs;
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use crate::cluster::Cluster;
use crate::guard::Guard;
use crate::manager::{Manager, temporary};
use crate::namespace::{LABEL_TEST, PATIENCE, Scope, TestNamespace};

/// The bed, started for the first test that wants it.
static BED: OnceCell<ExclusiveBed> = OnceCell::const_new();

/// Whose turn it is.
static TURN: Mutex<()> = Mutex::const_new(());

#[derive(Debug)]
struct ExclusiveBed {
    bed: Bed,
    /// A static is never dropped: this ends the bed together with the test process.
    _guard: Guard,
}

/// The right to a bed with nobody else on it: neither another test nor another manager.
///
/// Tests that count requests or end the manager use it, one after the other. The control plane is
/// the same for all tests of a process; the manager is started for each.
pub struct Exclusive {
    cluster: Cluster,
    manager: Option<Manager>,
    _turn: MutexGuard<'static, ()>,
}

impl Exclusive {
    /// Waits for its turn; then the bed is empty and the manager ready.
    pub async fn acquire() -> Self {
        let turn = TURN.lock().await;
        let bed = BED.get_or_init(start).await;
        let cluster = Cluster::connect(&bed.bed.kubeconfig()).await;
        let manager = Manager::start(cluster.kubeconfig(), "exclusive");
        sweep(&cluster).await;
        Self {
            cluster,
            manager: Some(manager),
            _turn: turn,
        }
    }

    /// The cluster.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
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
        self.manager = Some(Manager::start(self.cluster.kubeconfig(), "exclusive"));
    }

    /// Starts the manager (again), with these flags, and does not wait for it.
    pub fn spawn_manager(&mut self, flags: &[&str]) {
        let kubeconfig = self.cluster.kubeconfig();
        self.manager = Some(Manager::spawn(kubeconfig, "exclusive", flags));
    }

    /// Starts the manager (again) with the rights of a service account.
    pub async fn start_manager_as(&mut self, namespace: &str, account: &str) {
        let token = self.cluster.token(namespace, account).await;
        let text = std::fs::read_to_string(self.cluster.kubeconfig()).unwrap();
        let mut kubeconfig: Value = serde_saphyr::from_str(&text).unwrap();
        for user in kubeconfig["users"].as_array_mut().unwrap() {
            user["user"] = json!({ "token": token });
        }
        let path = temporary("kubeconfig.yaml");
        std::fs::write(&path, serde_saphyr::to_string(&kubeconfig).unwrap()).unwrap();
        self.manager = Some(Manager::start(&path, "exclusive"));
        std::fs::remove_file(&path).unwrap();
    }
}

async fn start() -> ExclusiveBed {
    let dirs = Dirs::from_env().unwrap();
    let name = format!("it-{}", std::process::id());
    // Before the bed is there, so that half a bed is ended too.
    let guard = Guard::over_bed(&name);
    let bed = Bed::up(&dirs, &name.parse().unwrap(), None, Afterwards::End).await;
    let bed = bed.unwrap_or_else(|error| panic!("{error}"));
    bed.install(&dirs.crds()).await.unwrap();
    ExclusiveBed { bed, _guard: guard }
}

/// Waits until nothing is left of the test before, whose namespace goes in its own time.
async fn sweep(cluster: &Cluster) {
    let namespaces = json!({ "apiVersion": "v1", "kind": "Namespace" });
    let sets = json!({ "apiVersion": "package-operator.run/v1alpha1", "kind": "ClusterObjectSet" });
    let asked = std::time::Instant::now();
    loop {
        let label = format!("{LABEL_TEST}=true");
        let left =
            cluster.list(&namespaces, &label).await.len() + cluster.list(&sets, "").await.len();
        if left == 0 {
            return;
        }
        assert!(
            asked.elapsed() < PATIENCE * 2,
            "the test before has left something that does not go"
        );
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}
