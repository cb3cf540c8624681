//! Requests to a cluster.

pub(crate) mod lists;
pub(crate) mod watches;
