//! The `kubectl-baton` binary, which kubectl runs for `kubectl baton`: revisions of `ObjectDeployments`, seen and
//! steered from a terminal.
//!
//! - [`cli`] is the command line; [`commands`] has one file per command; [`args`] the arguments that they share.
//! - [`connect`] turns kubectl's flags and files into a connection, and errors into kubectl's words.
//! - [`target`] is what a user names, [`selection`] how several are chosen; [`chain`] the revisions behind the name;
//!   [`content`] the objects that they want; [`children`] those objects as they are in the cluster; [`delegates`] what
//!   stands for the phases that others run.
//! - [`served`] is what a server serves; [`adopt`] how what other tools have installed becomes a revision's.
//! - [`events`] are those of the API, about deployments, revisions and their objects.
//! - [`rollout`] says whether a chain is rolled out, and if not, why; [`live`] follows a chain by watches, [`follow`]
//!   anything else.
//! - [`diff`] compares revisions, the cluster and files; [`rollback`] decides where to go back to.
//! - [`applications`] is about Shipper's Applications and Releases, whose revisions are chains over clusters.
//! - [`sites`] is about deployments to sites, which have a chain of revisions in every site.
//! - [`output`], [`progress`] and [`bars`] are the terminal: tables, colours, machine-readable formats, waits.
//!
//! What a command decides from is read first, with lists, into plain values; deciding and rendering
//! are pure.

mod adopt;
mod applications;
mod args;
mod bars;
mod cli;
mod cluster;
mod commands;
mod connect;
mod diff;
mod error;
mod events;
mod follow;
mod live;
mod output;
mod pack;
mod progress;
mod rollback;
mod rollout;
mod screen;
mod selection;
mod served;
mod sites;
mod target;
mod text;

use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    cli::run().await
}
