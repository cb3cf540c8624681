//! Pictures of chains, and judgements on them, as values: all that users see, before it becomes
//! text.
//!
//! Nothing in this crate does I/O, reads a clock or awaits. A command or a page reads lists, makes
//! pictures of them with this crate, and adds its own sentences, colours and columns.
//!
//! - [`applications`]: Shipper's Applications and Releases
//! - [`chain`]: deployments and their revisions, assembled from lists
//! - [`content`]: the objects that revisions want
//! - [`children`]: these objects as they are in the cluster
//! - [`delegates`]: the `ObjectSetPhases` of delegated phases
//! - [`diff`]: differences of objects
//! - [`lists`]: lists that were read, and questions that request them
//! - [`object`]: texts in JSON
//! - [`rollout`]: the progress of a chain, and persistent refusals
//! - [`selection`]: the chains that a command is about
//! - [`served`]: locations where kinds are served
//! - [`sites`]: deployments to sites, their applications, and the sites
//! - [`tree`]: the picture of a chain with its phases and objects

pub mod applications;
pub mod chain;
pub mod children;
pub mod content;
pub mod delegates;
pub mod diff;
pub mod events;
pub mod lists;
pub mod object;
pub mod overview;
pub mod rollout;
pub mod selection;
pub mod served;
pub mod sites;
pub mod tree;
