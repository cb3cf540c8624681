//! The tasks behind `cargo dev`, and the test bed as a library.
//!
//! The bed is a real control plane on this machine: etcd, kube-apiserver, kube-controller-manager,
//! kube-scheduler and kwok, run as plain processes that listen on the loopback interface only.
//! [`bed::Bed`] starts and ends one; [`tools::Toolbox`] finds or builds the binaries it runs, from
//! the Go modules beside this crate that pin them. [`charts::Repository`] is a repository of charts.

#![expect(
    clippy::missing_errors_doc,
    reason = "a module has one error, and its messages state what can fail"
)]

pub mod bed;
mod book;
pub mod cargo;
pub mod charts;
mod check;
pub mod cli;
mod demo;
pub mod exec;
mod fuzz;
mod generate;
pub mod interrupt;
mod layers;
pub mod manager;
pub mod metrics;
mod monitoring;
pub mod paths;
mod pins;
mod pure;
mod record;
mod test;
mod tidy;
pub mod tools;
