//! Typed objects of any cluster, as they are on the server, requests about them, and statuses that wait for a moment.

pub mod debounce;
pub mod key;
pub mod requests;
pub mod store;
pub mod stores;
