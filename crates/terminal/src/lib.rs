//! The common part of commands: kubeconfig, values of flags, errors in one line, and output.

pub mod client;
pub mod connection;
pub mod error;
pub mod kubeconfig;
pub mod output;
pub mod proxy;
pub mod values;
