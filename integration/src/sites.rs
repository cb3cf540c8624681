//! Real control planes beside the hub's control plane, for deliveries into other clusters.
//!
//! There are [`SITES`] sites, started for the first test that needs one and shared by all tests of
//! the process: etcd, kube-apiserver and kube-controller-manager, without the product's custom
//! resource definitions. By convention, tests push into site [`PUSH`], which has nodes, and let an
//! agent pull into site [`PULL`], which has none.
//!
//! ```ignore
//! let ns = TestNamespace::new(Scope::Namespaced).await;
//! let site = Site::get(PUSH).await;
//! let joined = site.join(&ns).create().await;              // a Cluster and its Secret on the hub of `ns`
//! joined.becomes("Connected", "True").await;
//! ..                                                       // a phase of the class `joined.class()`
//! ..
//! let live = site.live(&ns, &configmap("cm")).await;       // reads the object in the site
//! ```
//!
//! With [`Join::pull`] an [`Agent`](crate::agent::Agent) delivers instead of the hub's manager.
//!
//! For a network that fails, [`Join::through`] connects by a [`Proxy`](crate::proxy::Proxy), by a
//! fault injector ([`Faults`](crate::faults::Faults)), or by both in a row. For credentials,
//! [`Site::account`] creates a `ServiceAccount` whose tokens can be revoked one by one, or expire.
//!
//! A test that stops the API server of a site must be its only user: [`Site::alone`].
//!
//! # Guarantees
//!
//! - While a test has a site, no other test stops its API server.
//! - The objects of a join are removed in the background once the test's namespace is gone from the
//!   hub, so that a revision's teardown still reaches the site. The site stays in use until then.
//!
//! # Caveats
//!
//! A test must request each site once, and clone the value where it needs more than one. A second
//! request waits for any test that waits to have the site alone, and that test waits for the first
//! one.

mod account;
mod credentials;
mod join;
mod leftovers;
mod mirrors;
mod names;

use std::net::SocketAddr;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use baton_hack::bed::{Afterwards, Bed, Extent, Snapshot};
use baton_hack::paths::Dirs;
use serde_json::{Value, json};
use tokio::sync::{OnceCell, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub use baton_hack::bed::Stop;

pub use self::account::{Account, Token};
pub use self::credentials::TemporaryKubeconfig;
pub use self::join::{Join, Joined, join_hub};
pub use self::names::CLUSTERS_NAMESPACE;

use crate::cluster::Cluster;
use crate::endpoint::Endpoint;
use crate::guard::Guard;
use crate::manifest::Entry;
use crate::namespace::{LABEL_TEST, TestNamespace};
use crate::network::network;
use crate::work;

/// Number of sites. Each needs about 420 MiB of memory.
pub const SITES: usize = 2;

/// Index of the site that tests push into.
pub const PUSH: usize = 0;

/// Index of the site that an agent pulls into.
pub const PULL: usize = 1;

static BEDS: [OnceCell<SiteBed>; SITES] = [const { OnceCell::const_new() }; SITES];

static USES: [RwLock<()>; SITES] = [const { RwLock::const_new(()) }; SITES];

#[derive(Debug)]
struct SiteBed {
    bed: Bed,
    endpoint: Endpoint,
    /// A static is never dropped. The guard ends the bed together with the test process.
    _guard: Guard,
}

/// The right to use a site, shared or alone. It ends when the value is dropped.
#[derive(Debug)]
#[expect(dead_code, reason = "only its presence matters")]
enum Use {
    Shared(RwLockReadGuard<'static, ()>),
    Alone(RwLockWriteGuard<'static, ()>),
}

/// A site, which other tests may use at the same time.
#[derive(Clone, Debug)]
pub struct Site {
    bed: &'static SiteBed,
    index: usize,
    _hold: Arc<Use>,
}

/// A site that no other test uses.
///
/// Its API server can be stopped and started. If the value is dropped while the API server is
/// stopped, the server is started in the background.
#[derive(Debug)]
pub struct LoneSite {
    site: Site,
    stopped: bool,
}

impl Site {
    /// Returns a site. Waits while another test has the site alone.
    pub async fn get(index: usize) -> Self {
        let hold = Use::Shared(work::aside(USES[index].read()).await);
        Self::with(index, hold).await
    }

    /// Returns a site without other users. Waits until the tests that use the site are done.
    pub async fn alone(index: usize) -> LoneSite {
        let hold = Use::Alone(work::aside(USES[index].write()).await);
        LoneSite {
            site: Self::with(index, hold).await,
            stopped: false,
        }
    }

    async fn with(index: usize, hold: Use) -> Self {
        Self {
            bed: BEDS[index].get_or_init(|| start(index)).await,
            index,
            _hold: Arc::new(hold),
        }
    }

    /// Returns the index of the site.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the path of the administrator's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.bed.bed.kubeconfig()
    }

    /// Connects to the site as its administrator. Each test makes its own connection, because a
    /// connection belongs to the runtime that it was created on.
    pub async fn cluster(&self) -> Cluster {
        Cluster::connect(&self.kubeconfig()).await
    }

    /// Returns the API server of the site, with all its keys.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.bed.endpoint
    }

    /// Returns the address of the API server.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.endpoint().address
    }

    /// Returns the URL of the API server.
    #[must_use]
    pub fn url(&self) -> String {
        self.endpoint().url()
    }

    /// Returns the CA certificate, as PEM, that signs the certificate of the API server.
    #[must_use]
    pub fn ca(&self) -> &str {
        &self.endpoint().ca
    }

    /// Creates a namespace of this name, unless it exists.
    pub async fn namespace(&self, name: &str) {
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": { "name": name, "labels": { LABEL_TEST: "true" } },
        });
        let cluster = self.cluster().await;
        cluster.apply(&namespace, "tests").await.unwrap();
    }

    /// Deletes a namespace with its content, and does not wait for the end of the deletion.
    pub async fn forget(&self, namespace: &str) {
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace },
        });
        self.cluster().await.delete(&namespace, "Background").await;
    }

    /// Reads a delivered object. Its namespace has the name of the test's namespace unless the
    /// entry names another.
    pub async fn read(&self, ns: &TestNamespace, entry: &Entry) -> Option<Value> {
        self.cluster().await.get(&ns.reference(entry)).await
    }

    /// As [`Site::read`], but the object must exist.
    pub async fn live(&self, ns: &TestNamespace, entry: &Entry) -> Value {
        match self.read(ns, entry).await {
            Some(object) => object,
            None => panic!(
                "there is no {} {} on site {}",
                entry.kind(),
                entry.name(),
                self.index
            ),
        }
    }
}

impl LoneSite {
    /// Ends the API server and returns when it is gone.
    pub async fn stop(&mut self, how: Stop) {
        self.stopped = true;
        self.site.bed.bed.stop_api_server(how).await.unwrap();
    }

    /// Starts the API server and waits until it is ready.
    pub async fn start(&mut self) {
        let started = self.site.bed.bed.start_api_server().await;
        started.unwrap_or_else(|error| panic!("{error}"));
        self.stopped = false;
    }

    /// Saves the state of the site. Its servers are stopped for a moment.
    pub async fn snapshot(&self) -> Snapshot {
        self.site.bed.bed.snapshot().await.unwrap()
    }

    /// Restores the state of the site, as a restore from a backup of etcd does.
    pub async fn restore(&self, snapshot: &Snapshot) {
        self.site.bed.bed.restore(snapshot).await.unwrap();
    }

    /// Ends the API server and starts it again.
    pub async fn restart(&mut self, how: Stop) {
        self.stop(how).await;
        self.start().await;
    }
}

impl Deref for LoneSite {
    type Target = Site;

    fn deref(&self) -> &Site {
        &self.site
    }
}

impl Drop for LoneSite {
    fn drop(&mut self) {
        if self.stopped {
            let site = self.site.clone();
            network().spawn(async move {
                if let Err(error) = site.bed.bed.start_api_server().await {
                    eprintln!("error: {error}");
                }
            });
        }
    }
}

async fn start(index: usize) -> SiteBed {
    let dirs = Dirs::from_env().unwrap();
    let name = format!("it-{}-site-{index}", std::process::id());
    // The guard starts before the bed, so that a bed whose start fails halfway is ended too.
    let guard = Guard::over_bed(&name);
    let name = name.parse().unwrap();
    // Releases have pods, which need nodes.
    let extent = if index == PUSH {
        Extent::Full
    } else {
        Extent::ControlPlane
    };
    let bed = Bed::up_with(extent, &dirs, &name, None, Afterwards::End).await;
    let bed = bed.unwrap_or_else(|error| panic!("{error}"));
    SiteBed {
        endpoint: Endpoint::of_bed(&bed.kubeconfig()),
        bed,
        _guard: guard,
    }
}
