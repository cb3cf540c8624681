//! The `kubectl-baton` binary, which kubectl runs for `kubectl baton`: shows and steers revisions
//! of `ObjectDeployments` from a terminal.
//!
//! - [`cli`] is the command line; [`commands`] has one file per command; [`args`] has their common
//!   arguments.
//! - [`connect`] makes a connection from kubectl's flags and files, and errors in kubectl's words.
//! - [`subject`] parses the names of a user, [`selection`] chooses several objects; [`cluster`]
//!   reads their parts, once or by watches.
//! - [`served`] has the kinds of a server; [`adopt`] makes revisions of objects that other tools
//!   have installed.
//! - [`backup`] stores the objects of a hub in a file, and creates them again.
//! - [`confirm`] asks the user before a change that is hard to undo.
//! - [`pausing`] pauses and resumes deployments and revisions.
//! - [`events`] reads events of the API about deployments, revisions and their objects.
//! - [`wait`] is the loop of all waits, with their display.
//! - [`diff`] compares revisions, the cluster and files; [`rollback`] chooses the revision for a
//!   rollback.
//! - [`applications`] is about Shipper's Applications and Releases, whose revisions are chains over
//!   clusters.
//! - [`sites`] is about deployments to sites, which have a chain of revisions at every site.
//! - [`output`] is the terminal: tables, colours, machine-readable formats.
//!
//! A command first reads lists into plain values. Decisions and rendering are pure functions of
//! them.

mod adopt;
mod applications;
mod args;
mod backup;
mod cli;
mod cluster;
mod commands;
mod confirm;
mod connect;
mod diff;
mod error;
mod events;
mod installation;
mod output;
mod pack;
mod pausing;
mod rollback;
mod screen;
mod selection;
mod served;
mod sites;
mod subject;
mod text;
mod wait;

use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    cli::run().await
}
