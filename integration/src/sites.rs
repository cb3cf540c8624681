//! Real control planes beside the hub's, for what is delivered into other clusters.
//!
//! There are [`SITES`] of them, started for the first test that asks and shared by all tests of the process: etcd,
//! kube-apiserver and kube-controller-manager, without the product's custom resource definitions. By custom, tests push
//! into site [`PUSH`], which has nodes, and let an agent pull into site [`PULL`], which has none.
//!
//! ```ignore
//! let ns = TestNamespace::new(Scope::Namespaced).await;
//! let site = Site::get(PUSH).await;
//! let joined = site.join(&ns).create().await;              // a Cluster and its Secret on the hub of `ns`
//! joined.becomes("Connected", "True").await;
//! ..                                                       // a phase of the class `joined.class()`
//! ..
//! let live = site.live(&ns, &configmap("cm")).await;       // a look at the site itself
//! ```
//!
//! With [`Join::pull`] an [`Agent`](crate::agent::Agent) delivers instead of the hub's manager.
//!
//! Through a network that fails: [`Join::through`] a [`Proxy`](crate::proxy::Proxy), or an injecting
//! [`Faults`](crate::faults::Faults), or one behind the other. Credentials: [`Site::account`] makes a
//! `ServiceAccount`, whose tokens can be revoked one by one, or expire.
//!
//! A test that stops the API server of a site needs it for itself: [`Site::alone`].
//!
//! # Guarantees
//!
//! - Nobody stops the API server of a site that a test has got.
//! - What a join has made is removed in the background once the test's namespace has gone from the hub, so
//!   that a revision's teardown still reaches the site. The site stays in use until then.
//!
//! # Caveats
//!
//! Ask for each site once in a test and clone it where more hands need it: somebody who waits to have it
//! alone is served before a second request.

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

use baton_hack::bed::{Afterwards, Bed, Extent};
use baton_hack::paths::Dirs;
use serde_json::{Value, json};
use tokio::sync::{OnceCell, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub use baton_hack::bed::Stop;

pub use self::account::{Account, Token};
pub use self::credentials::TemporaryKubeconfig;
pub use self::join::{Join, Joined};
pub use self::names::CLUSTERS_NAMESPACE;

use crate::cluster::Cluster;
use crate::endpoint::Endpoint;
use crate::guard::Guard;
use crate::manifest::Entry;
use crate::namespace::{LABEL_TEST, TestNamespace};
use crate::network::network;
use crate::work;

/// How many there are. Each takes about 420 MiB.
pub const SITES: usize = 2;

/// The site that tests push into.
pub const PUSH: usize = 0;

/// The site that an agent pulls into.
pub const PULL: usize = 1;

static BEDS: [OnceCell<SiteBed>; SITES] = [const { OnceCell::const_new() }; SITES];

static USES: [RwLock<()>; SITES] = [const { RwLock::const_new(()) }; SITES];

#[derive(Debug)]
struct SiteBed {
    bed: Bed,
    endpoint: Endpoint,
    /// A static is never dropped: this ends the bed together with the test process.
    _guard: Guard,
}

/// The right to use a site, shared or alone, for as long as it lives.
#[derive(Debug)]
#[expect(dead_code, reason = "what counts is that it is there")]
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

/// A site that nobody else uses.
///
/// Its API server can be stopped and started. Dropped while it is stopped, it is started in the background.
#[derive(Debug)]
pub struct LoneSite {
    site: Site,
    stopped: bool,
}

impl Site {
    /// A site. Waits while a test has it alone.
    pub async fn get(index: usize) -> Self {
        let hold = Use::Shared(work::aside(USES[index].read()).await);
        Self::with(index, hold).await
    }

    /// A site and nobody else on it. Waits until the tests that use it are done.
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

    /// Its number.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// The path of its administrator's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.bed.bed.kubeconfig()
    }

    /// A connection to it as its administrator. A test makes its own, because connections belong to the
    /// runtime that they were made on.
    pub async fn cluster(&self) -> Cluster {
        Cluster::connect(&self.kubeconfig()).await
    }

    /// Its API server, with all keys.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.bed.endpoint
    }

    /// The address of its API server.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.endpoint().address
    }

    /// The URL of its API server.
    #[must_use]
    pub fn url(&self) -> String {
        self.endpoint().url()
    }

    /// The certificate, as PEM, that its API server's is signed with.
    #[must_use]
    pub fn ca(&self) -> &str {
        &self.endpoint().ca
    }

    /// Makes a namespace of this name, unless there is one.
    pub async fn namespace(&self, name: &str) {
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": { "name": name, "labels": { LABEL_TEST: "true" } },
        });
        let cluster = self.cluster().await;
        cluster.apply(&namespace, "tests").await.unwrap();
    }

    /// Deletes a namespace with all that is in it, which takes its time and is not waited for.
    pub async fn forget(&self, namespace: &str) {
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace },
        });
        self.cluster().await.delete(&namespace, "Background").await;
    }

    /// Reads an object that a test delivers: in the namespace of the same name where nothing else is said.
    pub async fn read(&self, ns: &TestNamespace, entry: &Entry) -> Option<Value> {
        self.cluster().await.get(&ns.reference(entry)).await
    }

    /// As [`Site::read`], where there has to be one.
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
    /// Ends its API server and returns when it is gone.
    pub async fn stop(&mut self, how: Stop) {
        self.stopped = true;
        self.site.bed.bed.stop_api_server(how).await.unwrap();
    }

    /// Starts its API server and waits until it is ready.
    pub async fn start(&mut self) {
        let started = self.site.bed.bed.start_api_server().await;
        started.unwrap_or_else(|error| panic!("{error}"));
        self.stopped = false;
    }

    /// Ends its API server and starts it again.
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
    // Before the bed is there, so that half a bed is ended too.
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
