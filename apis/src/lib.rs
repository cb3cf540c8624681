//! The custom resources that Baton serves.
//!
//! There is one module per API group, and all types are at the root as well. Other modules have
//! condition names, well-known labels and access rights. The crate contains no client and no
//! behaviour.

pub mod baton;
pub mod conditions;
pub mod constants;
mod crds;
pub mod kinds;
pub mod limits;
mod manager_note;
pub mod metrics;
pub mod package_operator;
mod raw;
pub mod rights;
mod schema;
pub mod shipper;
pub mod url;

pub use baton::*;
pub use crds::{crds, release_crds};
pub use manager_note::ManagerNote;
pub use package_operator::*;
pub use raw::Raw;
pub use shipper::*;
