//! Compares Shipper's Applications and Releases.
//!
//! [`compare`] shows the differences of two Releases, [`forecast`] the effect of a file on an
//! Application.

pub(crate) mod compare;
#[cfg(test)]
pub(crate) mod fixtures;
pub(crate) mod forecast;
