//! The tasks behind `cargo dev`, and the test bed as a library.
//!
//! The bed is a real control plane on this machine: etcd, kube-apiserver, kube-controller-manager,
//! kube-scheduler and kwok, run as plain processes that listen only on the loopback interface.
//! [`bed::Bed`] starts and ends a bed; [`tools::Toolbox`] finds its binaries or builds them from
//! the Go modules in this directory, which pin their versions. [`charts::Repository`] is a
//! repository of charts. [`modules::Module`] has the files of another project. [`book::blocks`]
//! reads the code in a page of the book.

#![expect(
    clippy::missing_errors_doc,
    reason = "a module has one error, and its messages state what can fail"
)]

mod adversary;
mod archive;
pub mod bed;
pub mod book;
mod browser;
pub mod cargo;
pub mod chart;
pub mod charts;
mod check;
pub mod cli;
mod commit;
mod demo;
mod dependencies;
pub mod exec;
mod fuzz;
mod generate;
mod headlamp;
mod image;
pub mod interrupt;
pub mod kubernetes;
mod layers;
pub mod manager;
pub mod metrics;
pub mod modules;
mod monitoring;
pub mod paths;
mod pins;
mod pure;
mod record;
mod release;
mod scripts;
mod test;
mod tidy;
pub mod tools;
