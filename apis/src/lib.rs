//! The custom resources that Baton serves.
//!
//! One module per API group, with all types at the root as well; condition names, well-known labels and access rights
//! beside them. No client and no behaviour live here.

pub mod baton;
pub mod conditions;
pub mod constants;
mod crds;
pub mod kinds;
pub mod limits;
pub mod package_operator;
pub mod rights;
mod schema;
pub mod shipper;
pub mod url;

pub use baton::*;
pub use crds::{crds, release_crds};
pub use package_operator::*;
pub use shipper::*;
