//! Shipper's Applications and Releases: reading them, and comparing them with others.
//!
//! - [`read`] reads what a user names, [`follow`] does the same by watches.
//! - [`compare`] shows how two Releases differ, [`forecast`] the effect of a file on an Application.

pub(crate) mod compare;
#[cfg(test)]
pub(crate) mod fixtures;
pub(crate) mod follow;
pub(crate) mod forecast;
pub(crate) mod read;
