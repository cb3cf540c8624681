//! The group `baton.run`: what neither Package Operator nor Shipper has a place for.

mod site_assignment;

pub use site_assignment::*;
