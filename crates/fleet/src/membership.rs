//! `baton cluster`: installing Baton in the hub, joining clusters to it, listing and removing them.
//!
//! The *hub* is the cluster in which the manager runs, a *target* is one that phases are delivered
//! into. Either the hub connects to the target (`Push`), or an agent in the target connects to the
//! hub (`Pull`).
//!
//! # Guarantees
//! - Errors that can be foreseen (a wrong context, a missing right, the address of another server)
//!   are reported before the first write.
//! - Objects that give the other side access are written last: the account before its token, the
//!   token before the Cluster that is used with it. An error in between lists what was written and
//!   what was not.
//! - A second run writes only differences. Fields that others have set stay.
//!
//! `manifest`, `manifests` and `spec` decide without a client which objects are needed, and how
//! they are changed; `join` and `remove` read as tables of contents.

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
mod setup;
mod spec;
mod target;
mod tenants;
mod token;

use self::args::{ClusterArgs, ClusterCommand};

/// Runs a command. Data is written to the standard output, messages to the standard error.
///
/// # Errors
/// One line that names the cluster, the cause, and the present state.
pub async fn run(args: ClusterArgs) -> Result<(), Box<dyn std::error::Error>> {
    match args.command {
        ClusterCommand::Setup(args) => setup::run(&args).await?,
        ClusterCommand::Join(args) => join::run(*args).await?,
        ClusterCommand::List(args) => list::run(&args).await?,
        ClusterCommand::Rotate(args) => join::rotate(*args).await?,
        ClusterCommand::Remove(args) => remove::run(&args).await?,
    }
    Ok(())
}
