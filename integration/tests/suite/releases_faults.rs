//! Releases with faults around them. A disturbed rollout ends as an undisturbed one does, and no
//! client of the application notices.

mod edits;
mod failing_writes;
mod kills;
mod network;
mod repository;
mod serving;
mod shared;
mod shipper;
mod state;
mod watched;

/// Number of pods of the application in each cluster.
const PODS: u32 = 4;

/// The name of the application. Each test has its own namespace.
const APP: &str = "web";
