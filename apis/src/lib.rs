//! The custom resources that Baton serves.
//!
//! Types, schemas, condition names and well-known labels of the group
//! `package-operator.run/v1alpha1`, and the Cluster of `shipper.booking.com/v1alpha1`. No client and
//! no behaviour live here.

mod cluster;
pub mod conditions;
pub mod constants;
mod crds;
mod object_deployment;
mod object_set;
mod object_set_phase;
mod object_slice;
mod phase;
mod probe;
mod schema;

pub use cluster::*;
pub use crds::crds;
pub use object_deployment::*;
pub use object_set::*;
pub use object_set_phase::*;
pub use object_slice::*;
pub use phase::*;
pub use probe::*;
