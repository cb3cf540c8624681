//! Releases with faults around them. A disturbed rollout ends as an undisturbed one does, and no
//! client of the application notices.

mod edits;
mod failing_writes;
mod hub;
mod kills;
mod network;
pub(crate) mod repository;
mod serving;
mod shared;
mod shipper;
mod state;
mod watched;

use baton_integration::exclusive::Exclusive;
use baton_integration::prelude::*;

/// Number of pods of the application in each cluster.
const PODS: u32 = 4;

/// The name of the application. Each test has its own namespace.
const APP: &str = "web";

/// Returns a control plane with the definitions of Releases, and a namespace in it.
async fn bed_with_releases() -> (Exclusive, TestNamespace) {
    let bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    (bed, ns)
}
