//! A control plane without a manager, with all kinds: nobody but the test writes there. For statuses that a test makes
//! up, and that a controller would correct.

use baton_hack::bed::{Afterwards, Bed};
use baton_hack::paths::Dirs;
use tokio::sync::OnceCell;

use crate::cluster::Cluster;
use crate::guard::Guard;
use crate::namespace::{Scope, TestNamespace};
use crate::program::Log;

/// Shared by all tests of the process.
static BED: OnceCell<UnmanagedBed> = OnceCell::const_new();

#[derive(Debug)]
struct UnmanagedBed {
    bed: Bed,
    /// A static is never dropped: this ends the bed together with the test process.
    _guard: Guard,
}

/// A namespace that nobody but the test writes to. The first call starts the control plane.
pub async fn namespace() -> TestNamespace {
    let bed = BED.get_or_init(start).await;
    let cluster = Cluster::connect(&bed.bed.kubeconfig()).await;
    TestNamespace::on(cluster, Log::of("unmanaged"), Scope::Namespaced).await
}

async fn start() -> UnmanagedBed {
    let dirs = Dirs::from_env().unwrap();
    let name = format!("it-{}-unmanaged", std::process::id());
    // Before the bed is there, so that half a bed is ended too.
    let guard = Guard::over_bed(&name);
    let bed = Bed::up(&dirs, &name.parse().unwrap(), None, Afterwards::End).await;
    let bed = bed.unwrap_or_else(|error| panic!("{error}"));
    bed.install(&dirs.crds()).await.unwrap();
    bed.install(&dirs.release_crds()).await.unwrap();
    UnmanagedBed { bed, _guard: guard }
}
