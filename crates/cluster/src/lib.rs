//! Requests to a cluster in the name of a person, for the plugin and the dashboard.
//!
//! - [`Cluster`] is the connection, with the requests that all commands and pages use.
//! - [`lists`] answers a [question](baton_view::lists::Question) by one read; [`follower`] answers it
//!   again after every change, by watches.
//! - [`served`] has the kinds of a server.
//! - [`error`] has the reasons of failures, in one line for people.

pub mod error;
pub mod follower;
pub mod lists;
mod requests;
pub mod served;
mod watches;

pub use error::ClusterError;
pub use requests::{Cluster, FIELD_MANAGER, MAX_CONCURRENT, Warn, Write, connect, connect_with};
