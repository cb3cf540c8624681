//! Requests to a cluster.

pub(crate) mod lists;
pub(crate) mod tree;
pub(crate) mod watches;
