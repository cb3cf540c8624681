//! The `kubectl-baton` binary, which kubectl runs for `kubectl baton`: shows and steers revisions
//! of `ObjectDeployments` from a terminal.
//!
//! - [`cli`] is the command line; [`commands`] has one file per command; [`args`] has their common
//!   arguments.
//! - [`baton_cluster`] sends the requests, and reads objects once or by watches.
//! - [`subject`] parses the names of a user, [`selection`] chooses several objects.
//! - [`adopt`] makes revisions of objects that other tools have installed.
//! - [`backup`] stores the objects of a hub in a file, and creates them again.
//! - [`confirm`] asks the user before a change that is hard to undo.
//! - [`baton_steering`] pauses, rolls back and promotes, and finds the effects of changes.
//! - [`wait`] is the loop of all waits, with their display.
//! - [`diff`] reads the files of comparisons, and shows them with another program.
//! - [`applications`] is about Shipper's Applications and Releases, whose revisions are chains over
//!   clusters.
//! - [`sites`] is about deployments to sites, which have a chain of revisions at every site.
//! - [`baton_text`] has the sentences and tables, and prints them.
//!
//! A command first reads lists into plain values. Decisions and rendering are pure functions of
//! them.

mod adopt;
mod applications;
mod args;
mod backup;
mod cli;
mod commands;
mod confirm;
mod diff;
mod error;
mod installation;
mod pack;
mod screen;
mod selection;
mod sites;
mod subject;
mod wait;

use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    cli::run().await
}
