//! The controller framework: sources and triggers, queue, workers, requeue policy, metrics, health endpoints.

pub mod clock;
pub mod controller;
mod executor_turns;
pub mod exposition;
mod memory;
pub mod metrics;
pub mod outcomes;
pub mod pace;
mod process;
pub mod queue;
pub mod server;
pub mod source;
