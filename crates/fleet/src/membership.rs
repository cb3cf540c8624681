//! `baton cluster`: joining clusters to the hub, listing and removing them.
//!
//! The *hub* is the cluster in which the manager runs, a *target* is one that phases are delivered
//! into. Either the hub connects to the target (`Push`), or an agent in the target to the hub
//! (`Pull`).
//!
//! # Guarantees
//! - What can be known to fail (a wrong context, a missing right, a server that is somewhere else)
//!   fails before the first write.
//! - What the other side can use comes last: the account before its token, the token before the
//!   Cluster that is used with it. A failure in between says what is there and what is not.
//! - A second run writes nothing that is as it should be. Fields that somebody else has set stay.
//!
//! What is to be made and what is to be done about it is decided without a client, in `manifest`,
//! `manifests` and `spec`; `join` and `remove` read as tables of contents.

pub mod args;
mod error;
mod file;
mod join;
mod list;
mod manifest;
mod manifests;
mod progress;
mod remove;
mod request;
mod rights;
mod server;
mod spec;
mod target;
mod tenants;
mod token;

use self::args::{ClusterArgs, ClusterCommand};

/// Runs a command. Data goes to standard output, all else to standard error.
///
/// # Errors
/// One line that names the cluster, the cause, and what is there now.
pub async fn run(args: ClusterArgs) -> Result<(), Box<dyn std::error::Error>> {
    match args.command {
        ClusterCommand::Join(args) => join::run(*args).await?,
        ClusterCommand::List(args) => list::run(&args).await?,
        ClusterCommand::Remove(args) => remove::run(&args).await?,
    }
    Ok(())
}
