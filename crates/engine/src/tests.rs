//! What the tests of all modules share. The properties that hold for all of them together are in `model`.

pub(crate) mod draw;
pub(crate) mod fixtures;
