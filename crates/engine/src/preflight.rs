//! The extent of the checks before the first write of a revision.
//!
//! Observable behaviour: `docs/contract/phases.md`.

use baton_apis::constants::{ANNOTATION_PREFLIGHT, PREFLIGHT_ALL, PREFLIGHT_PHASE};

use crate::names::quoted;

/// The extent of the checks before the first write of a revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preflight {
    /// The objects of the first phase; those of each later phase are checked when it is reached.
    #[default]
    Phase,
    /// The objects of all phases.
    All,
}

impl Preflight {
    /// Reads the annotation.
    ///
    /// # Errors
    /// If the value is invalid; the error is a text for people. An invalid value is not ignored,
    /// because a typing error would then skip the checks that the user requests.
    pub fn parse(annotation: Option<&str>) -> Result<Self, String> {
        match annotation {
            None | Some(PREFLIGHT_PHASE) => Ok(Self::Phase),
            Some(PREFLIGHT_ALL) => Ok(Self::All),
            Some(other) => Err(format!(
                "the annotation {ANNOTATION_PREFLIGHT} must be {PREFLIGHT_ALL} or {PREFLIGHT_PHASE}, not {}",
                quoted(other)
            )),
        }
    }
}

/// Returns the value that a deployment writes into the annotation of its current revision; `None`
/// if the annotation stays as it is. `own` is the annotation of the deployment, and `current` that
/// of the revision.
///
/// A deployment without the annotation replaces only an invalid value of the revision, because the
/// deployment has written this value. It does not change a valid value that a user has set.
pub fn wanted<'a>(own: Option<&'a str>, current: Option<&str>) -> Option<&'a str> {
    let is_refused = || Preflight::parse(current).is_err();
    own.or_else(|| is_refused().then_some(PREFLIGHT_PHASE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_value_can_be_corrected_in_the_deployment() {
        for (own, current, expected) in [
            (Some("All"), None, Some("All")),
            (Some("all"), Some("All"), Some("all")),
            (None, Some("all"), Some("Phase")),
            (None, Some("All"), None),
            (None, None, None),
        ] {
            assert_eq!(wanted(own, current), expected, "{own:?} {current:?}");
        }
    }

    #[test]
    fn unknown_values_of_the_preflight_annotation_are_refused() {
        assert_eq!(Preflight::parse(None), Ok(Preflight::Phase));
        assert_eq!(Preflight::parse(Some("Phase")), Ok(Preflight::Phase));
        assert_eq!(Preflight::parse(Some("All")), Ok(Preflight::All));
        for value in ["", "all", "true", "All "] {
            let text = Preflight::parse(Some(value)).unwrap_err();
            let expected = "the annotation baton.run/preflight must be All or Phase, not ";
            assert_eq!(text, format!("{expected}\"{value}\""));
        }
    }
}
