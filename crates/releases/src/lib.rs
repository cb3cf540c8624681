//! The decisions about Shipper's Applications and Releases.
//!
//! The crate does no I/O, reads no clock and does not await. The present time is an argument, and
//! requests to a chart repository or an API server are returned as values. The controllers observe,
//! call these functions, and write.
//!
//! - [`application`]: the next Release of an Application, the clean-up of old ones, and the status
//! - [`blocks`]: the rollout blocks that apply to an object
//! - [`capacity`]: the number of pods in a cluster
//! - [`chain`]: the revisions that install a Release
//! - [`chart`]: the rules for charts, and the changes to their objects
//! - [`conditions`]: updates of conditions, and events about their changes
//! - [`event`]: events to record
//! - [`hash`]: the hash of an environment
//! - [`resolution`], [`versions`]: the version of a chart
//! - [`scheduling`]: the clusters of a Release, and the reasons that it is not scheduled
//! - [`strategy`]: the progress of a Release through its strategy
//! - [`targets`]: the status of targets and of their clusters
//! - [`texts`]: quotes of foreign text in messages
//! - [`traffic`]: the pods that get traffic in a cluster

pub mod application;
pub mod blocks;
pub mod by_agent;
pub mod capacity;
pub mod chain;
pub mod chart;
pub mod conditions;
pub mod event;
pub mod give_back;
pub mod hash;
pub mod resolution;
pub mod scheduling;
pub mod strategy;
pub mod targets;
pub mod texts;
pub mod traffic;
pub mod versions;
