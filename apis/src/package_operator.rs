//! The group `package-operator.run`: revisions, their phases and slices, and deployments.

mod object_deployment;
mod object_set;
mod object_set_phase;
mod object_slice;
mod phase;
mod probe;

pub use object_deployment::*;
pub use object_set::*;
pub use object_set_phase::*;
pub use object_slice::*;
pub use phase::*;
pub use probe::*;
