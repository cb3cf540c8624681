//! The group `baton.run`: kinds that neither Package Operator nor Shipper has.

mod site_application;
mod site_assignment;
mod site_deployment;
mod site_entry;

pub use site_application::*;
pub use site_assignment::*;
pub use site_deployment::*;
pub use site_entry::*;
