//! A control plane without a manager, where all kinds are installed and only the test writes. For
//! made-up statuses, which a controller would correct.

use baton_hack::bed::{Afterwards, Bed};
use baton_hack::paths::Dirs;
use tokio::sync::OnceCell;

use crate::cluster::Cluster;
use crate::guard::Guard;
use crate::namespace::{Scope, TestNamespace};
use crate::program::Log;

/// The bed, which all tests of the process share.
static BED: OnceCell<UnmanagedBed> = OnceCell::const_new();

#[derive(Debug)]
struct UnmanagedBed {
    bed: Bed,
    /// A static is never dropped. The guard ends the bed together with the test process.
    _guard: Guard,
}

/// Creates a namespace that only the test writes to. The first call starts the control plane.
pub async fn namespace() -> TestNamespace {
    let bed = BED.get_or_init(start).await;
    let cluster = Cluster::connect(&bed.bed.kubeconfig()).await;
    TestNamespace::on(cluster, Log::of("unmanaged"), Scope::Namespaced).await
}

async fn start() -> UnmanagedBed {
    let dirs = Dirs::from_env().unwrap();
    let name = format!("it-{}-unmanaged", std::process::id());
    // The guard starts before the bed, so that a bed whose start fails halfway is ended too.
    let guard = Guard::over_bed(&name);
    let bed = Bed::up(&dirs, &name.parse().unwrap(), None, Afterwards::End).await;
    let bed = bed.unwrap_or_else(|error| panic!("{error}"));
    bed.install(&dirs.crds()).await.unwrap();
    bed.install(&dirs.release_crds()).await.unwrap();
    UnmanagedBed { bed, _guard: guard }
}
