//! Small worlds, searched whole: the real engine against a model of a cluster.
//!
//! A few revisions and objects, a user, a manager that dies and loses answers, a server with its rules. Whatever can
//! happen next is tried in every state, until no new state turns up. Property tests draw such worlds at random and
//! larger; here none of the small ones is left out.

pub mod alarm;
pub mod contents;
pub mod end;
pub mod report;
pub mod sabotage;
pub mod search;
pub mod server;
pub mod state;
pub mod system;
pub mod talk;
#[cfg(test)]
mod tests;
pub mod world;
pub mod worlds;

/// A map that is fast and the same in each run.
pub(crate) type Map<K, V> = std::collections::HashMap<K, V, foldhash::fast::FixedState>;
