//! Typed objects of any cluster, as they are on the server, and statuses of objects that wait for a moment.

pub mod debounce;
pub mod key;
pub mod store;
pub mod stores;
