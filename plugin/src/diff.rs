//! The inputs of comparisons, and their display by another program.
//!
//! `baton_steering::diff` finds the differences, and `baton_view::diff` defines them.

pub(crate) mod check;
pub(crate) mod external;
pub(crate) mod input;
pub(crate) mod phase_clusters;
