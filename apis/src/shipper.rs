//! The group `shipper.booking.com`: clusters, and applications that are rolled out to them.

mod application;
mod capacity_report;
mod capacity_target;
mod cluster;
mod condition;
mod environment;
mod installation_target;
mod reading;
mod release;
mod rollout_block;
mod schema;
mod traffic_target;

pub use application::*;
pub use capacity_report::*;
pub use capacity_target::*;
pub use cluster::*;
pub use condition::*;
pub use environment::*;
pub use installation_target::*;
pub use release::*;
pub use rollout_block::*;
pub use traffic_target::*;
