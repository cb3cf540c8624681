//! The group `baton.run`: what neither Package Operator nor Shipper has a place for.

mod site_application;
mod site_assignment;
mod site_deployment;
mod site_entry;

pub use site_application::*;
pub use site_assignment::*;
pub use site_deployment::*;
pub use site_entry::*;
