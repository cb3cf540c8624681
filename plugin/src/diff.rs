//! Comparisons with live objects and with the answers of a server to dry runs.
//!
//! `baton_view::diff` defines the sections and makes all decisions that need no server.
//! [`external`] shows the sections with another program.

pub(crate) mod cascading_deletion;
pub(crate) mod check;
pub(crate) mod definitions;
pub(crate) mod external;
pub(crate) mod forecast;
pub(crate) mod input;
pub(crate) mod losses;
pub(crate) mod phase_clusters;
pub(crate) mod refusals;
pub(crate) mod takeover;

use baton_text::diff::gone;
use baton_view::diff::revisions::RevisionSide;

use crate::error::Error;

/// Returns an error for a side that names missing slices.
pub(crate) fn complete(
    side: RevisionSide,
    title: impl FnOnce() -> String,
) -> Result<RevisionSide, Error> {
    match side.missing_slices().as_slice() {
        [] => Ok(side),
        missing => Err(Error::Impossible(format!(
            "{} cannot be compared: {}",
            title(),
            gone(missing)
        ))),
    }
}
