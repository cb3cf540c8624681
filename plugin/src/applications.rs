//! Compares the Applications and Releases of Shipper.
//!
//! [`compare`] shows the differences of two Releases, [`forecast`] shows the effect of a file on an
//! Application.

pub(crate) mod chart;
pub(crate) mod compare;
#[cfg(test)]
#[path = "../../crates/text/src/application/fixtures.rs"]
pub(crate) mod fixtures;
pub(crate) mod forecast;
