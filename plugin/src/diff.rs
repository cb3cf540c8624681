//! Comparisons with what a server has, and with what it answers to dry runs.
//!
//! The sections, and what is decided without a server, are in `baton_view::diff`. [`external`] hands them to another
//! program.

pub(crate) mod check;
pub(crate) mod external;
pub(crate) mod forecast;
pub(crate) mod going;
pub(crate) mod input;
pub(crate) mod losses;
pub(crate) mod places;
pub(crate) mod takeover;

use baton_view::diff::revisions::Side;

use crate::{error::Error, text::diff::gone};

/// Refuses a side of which parts are lost.
pub(crate) fn complete(side: Side, title: impl FnOnce() -> String) -> Result<Side, Error> {
    match side.missing_slices().as_slice() {
        [] => Ok(side),
        missing => Err(Error::Impossible(format!(
            "{} cannot be compared: {}",
            title(),
            gone(missing)
        ))),
    }
}
