//! Web pages of chains, Applications and sites.
//!
//! ```text
//! browser ── page, then events ──► Dashboard ──► Feed ── follows a question ──► API server
//! ```
//!
//! A page is a [question](baton_view::lists::Question) and the form of its answer. A feed follows
//! the question as long as somebody looks at the page, and renders each answer once for all of them.
//! Events have the parts that have changed. Pages work without a script: it only keeps them up to
//! date.
//!
//! # Guarantees
//! - Requests to the cluster have the credentials of a viewer, so a page shows what the viewer may read.
//!   Viewers share a feed if the API server has granted them, in the last minute, the rights to all lists
//!   of its answer.
//! - Nothing is changed unless changes are switched on. A change needs a form of this dashboard, names its
//!   object, and is refused if the object is not in the state that was shown.
//! - Texts of the cluster are escaped, and the browser runs no script and no style but those of this
//!   crate.

mod actions;
mod app;
mod assets;
mod credentials;
mod entry;
mod events;
mod failure;
mod feed;
mod feeds;
mod guard;
mod hex;
mod layout;
mod login;
mod reports;
mod rights;
mod subject;
mod token;
mod viewer;

pub use app::{Counts, Dashboard, Settings};
pub use guard::Key;
