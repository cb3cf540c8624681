//! The tasks behind `cargo dev`, and the test bed as a library.
//!
//! The bed is a real control plane on this machine: etcd, kube-apiserver, kube-controller-manager,
//! kube-scheduler and kwok, run as plain processes that listen on the loopback interface only.
//! [`bed::Bed`] starts and ends one; [`tools::Toolbox`] finds or builds the binaries it runs, from
//! the Go modules beside this crate that pin them.

pub mod bed;
pub mod bench;
pub mod cargo;
pub mod check;
pub mod cli;
pub mod demo;
pub mod exec;
pub mod generate;
pub mod interrupt;
pub mod paths;
pub mod pins;
pub mod test;
pub mod tidy;
pub mod tools;
