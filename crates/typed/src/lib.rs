//! Typed objects of any cluster: stores, requests, and debounced statuses.

pub mod debounce;
pub mod key;
pub mod requests;
pub mod store;
pub mod stores;
