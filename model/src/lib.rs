//! Small worlds that are searched completely: the real engine against a model of a cluster.
//!
//! A world has a few revisions and objects, a user, a manager that crashes and loses answers, and a
//! server with its rules. In every state, all possible events are tried, until there are no new
//! states. Property tests draw larger worlds at random; here no state of a small world is left out.

pub mod alarm;
pub mod contents;
pub mod dialogue;
pub mod end;
pub mod engine_fault;
pub mod report;
pub mod search;
pub mod server;
pub mod state;
pub mod system;
#[cfg(test)]
mod tests;
pub mod world;
pub mod worlds;

/// A fast map with the same order in each run.
pub(crate) type Map<K, V> = std::collections::HashMap<K, V, foldhash::fast::FixedState>;
