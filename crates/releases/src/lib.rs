//! The decisions about Shipper's Applications and Releases.
//!
//! Nothing in here does I/O, reads a clock or awaits: the present time is an argument, and what has to be asked of a
//! chart repository or an API server is named in the answer. The controllers observe, ask and write.
//!
//! - [`application`]: what an Application needs: the next Release, a clean-up, a status
//! - [`blocks`]: which rollout blocks count for an object
//! - [`capacity`]: how many pods run in a cluster
//! - [`chain`]: the revisions that a Release is installed by
//! - [`chart`]: what a chart has to contain, and what becomes of its objects
//! - [`conditions`]: conditions being brought up to date, and what an event says of their changes
//! - [`event`]: an event to be recorded
//! - [`hash`]: the hash of an environment
//! - [`resolution`], [`versions`]: which version of a chart is meant
//! - [`scheduling`]: which clusters a Release goes to, and why it is not scheduled
//! - [`strategy`]: how far a Release goes with its strategy
//! - [`targets`]: what targets say of their clusters
//! - [`texts`]: how messages quote what others wrote
//! - [`traffic`]: which pods get traffic in a cluster

pub mod application;
pub mod blocks;
pub mod capacity;
pub mod chain;
pub mod chart;
pub mod conditions;
pub mod event;
pub mod hash;
pub mod resolution;
pub mod scheduling;
pub mod strategy;
pub mod targets;
pub mod texts;
pub mod traffic;
pub mod versions;
