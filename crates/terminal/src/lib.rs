//! What commands share: which cluster to talk to, the values of flags, errors in one line, and what they print.

pub mod client;
pub mod connection;
pub mod error;
pub mod kubeconfig;
pub mod output;
pub mod proxy;
pub mod table;
pub mod time;
pub mod values;
