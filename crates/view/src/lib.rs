//! Pictures of chains, and judgements on them, as values: all that people see.
//!
//! Nothing in here does I/O, reads a clock or awaits. A command or a page lists objects, has a picture made of them,
//! and makes its own sentences, colours and columns of that.
//!
//! - [`applications`]: Shipper's Applications and Releases
//! - [`chain`]: deployments and their revisions, put together from lists
//! - [`content`]: the objects that revisions want
//! - [`children`]: those objects as they are in the cluster
//! - [`delegates`]: the objects that stand for delegated phases
//! - [`diff`]: differences of objects
//! - [`lists`]: what was read of collections, and questions that ask for it
//! - [`object`]: texts in JSON
//! - [`rollout`]: the progress of a chain, and refusals that stand
//! - [`selection`]: which chains a command is about
//! - [`served`]: where kinds are served
//! - [`sites`]: deployments to sites, their applications, and the sites
//! - [`tree`]: the picture of a chain with its phases and objects

pub mod applications;
pub mod chain;
pub mod children;
pub mod content;
pub mod delegates;
pub mod diff;
pub mod lists;
pub mod object;
pub mod rollout;
pub mod selection;
pub mod served;
pub mod sites;
pub mod tree;
