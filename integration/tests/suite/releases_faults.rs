//! Releases in a world that fails: however a rollout is disturbed, it ends as an undisturbed one does, and nobody who
//! is served notices.

mod edits;
mod failing_writes;
mod kills;
mod network;
mod repository;
mod serving;
mod shared;
mod state;
mod watched;

/// Pods of the application in each cluster.
const PODS: u32 = 4;

/// The name of the application. Each test has a namespace for it.
const APP: &str = "web";
