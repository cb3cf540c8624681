//! Shared helpers of the tests. The properties of all modules together are tested in `model`.

pub(crate) mod draw;
pub(crate) mod fixtures;
