//! How much of a revision is checked before its first write.
//!
//! What clients can observe of it: `docs/contract/phases.md`.

use baton_apis::constants::{ANNOTATION_PREFLIGHT, PREFLIGHT_ALL, PREFLIGHT_PHASE};

use crate::names::quoted;

/// How much of a revision is checked before its first write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preflight {
    /// The objects of the first phase, and those of each other one when it is reached.
    #[default]
    Phase,
    /// Those of all phases.
    All,
}

impl Preflight {
    /// Reads the annotation.
    ///
    /// # Errors
    /// What is wrong with its value: who asks for more than usual is not to get less because of a typing error.
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

/// What a deployment wants its current revision to say, which says `current`; nothing where that stays as it is.
///
/// A deployment without the annotation leaves the revision to whoever has annotated that one, but for a value that
/// means nothing: it came from the deployment, and goes with it.
pub fn wanted<'a>(own: Option<&'a str>, current: Option<&str>) -> Option<&'a str> {
    let is_refused = || Preflight::parse(current).is_err();
    own.or_else(|| is_refused().then_some(PREFLIGHT_PHASE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_can_be_taken_back() {
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
    fn a_value_that_means_nothing_is_refused() {
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
