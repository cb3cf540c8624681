//! The `kubectl-baton` binary, which kubectl runs for `kubectl baton`: revisions of `ObjectDeployments`, seen and
//! steered from a terminal.
//!
//! - [`cli`] is the command line; [`commands`] has one file per command; [`args`] the arguments that they share.
//! - [`connect`] turns kubectl's flags and files into a connection, and errors into kubectl's words.
//! - [`subject`] is what a user names, [`selection`] how several are chosen; [`cluster`] reads what they consist of,
//!   once or by watches.
//! - [`served`] is what a server serves; [`adopt`] how what other tools have installed becomes a revision's.
//! - [`pausing`] pauses and resumes deployments and revisions.
//! - [`events`] are those of the API, about deployments, revisions and their objects.
//! - [`wait`] is the loop of all waits, and what is shown of them.
//! - [`diff`] compares revisions, the cluster and files; [`rollback`] decides where to go back to.
//! - [`applications`] is about Shipper's Applications and Releases, whose revisions are chains over clusters.
//! - [`sites`] is about deployments to sites, which have a chain of revisions in every site.
//! - [`output`] is the terminal: tables, colours, machine-readable formats.
//!
//! What a command decides from is read first, with lists, into plain values; deciding and rendering
//! are pure.

mod adopt;
mod applications;
mod args;
mod cli;
mod cluster;
mod commands;
mod connect;
mod diff;
mod error;
mod events;
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
