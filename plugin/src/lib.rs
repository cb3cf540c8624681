//! `kubectl baton`: revisions of `ObjectDeployments`, seen and steered from a terminal.
//!
//! - [`cli`] is the command line; [`commands`] has one file per command: its arguments, what it
//!   does, and a pure function that renders what it shows.
//! - [`connect`] turns kubectl's flags and files into a connection, and errors into kubectl's words.
//! - [`target`] is what a user names, [`selection`] how several are chosen; [`chain`] the revisions behind the name; [`content`] the objects that
//!   they want; [`children`] those objects as they are in the cluster; [`delegates`] what stands for the phases that others run.
//! - [`rollout`] says whether a chain is rolled out, and if not, why; [`live`] follows a chain by watches.
//! - [`diff`] compares revisions, the cluster and files; [`rollback`] decides where to go back to.
//! - [`output`] and [`progress`] are the terminal: tables, colours, machine-readable formats, waits.
//!
//! What a command decides from is read first, with lists, into plain values; deciding and rendering
//! are pure.

pub mod chain;
pub mod children;
pub mod cli;
pub mod commands;
pub mod connect;
pub mod content;
pub mod delegates;
pub mod diff;
pub mod error;
pub mod live;
pub mod output;
pub mod pack;
pub mod progress;
pub mod rollback;
pub mod rollout;
pub mod screen;
pub mod selection;
pub mod target;
pub mod tree;
