//! Failures of watches, for the log.

use super::Event;

/// Remembers that a watch fails, so that this is logged once and not at every attempt.
///
/// The attempts fail with different texts: the end of a connection, a refused one, no answer.
#[derive(Debug, Default)]
pub struct Failing(Option<FailureKind>);

/// The kinds of failures that are logged separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FailureKind {
    /// There is no complete answer, or an error of the server.
    Failed,
    /// The server refuses access.
    Forbidden,
}

impl Failing {
    /// The cause of a failure; `None` if the last attempt failed in the same way.
    pub fn begins<'a>(&mut self, event: &Event<'a>) -> Option<&'a str> {
        let Some(cause) = event.failure() else {
            // A list has only begun.
            if !matches!(event, Event::ListStarted | Event::Listed(_)) {
                self.0 = None;
            }
            return None;
        };
        let kind = match event {
            Event::Forbidden(_) => FailureKind::Forbidden,
            _ => FailureKind::Failed,
        };
        let before = self.0.replace(kind);
        (before != Some(kind)).then_some(cause)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    #[test]
    fn a_failure_is_reported_once() {
        let object = RawValue::from_string("{}".to_owned()).unwrap();
        let mut failing = Failing::default();
        for (event, expected) in [
            (Event::Failed("refused"), Some("refused")),
            (Event::ListStarted, None),
            (Event::Listed(&object), None),
            (Event::Failed("refused"), None),
            (Event::Failed("no answer"), None),
            (Event::Forbidden("no right"), Some("no right")),
            (Event::Forbidden("no right"), None),
            (Event::Bookmark(7), None),
            (Event::Forbidden("no right"), Some("no right")),
            (Event::Failed("refused"), Some("refused")),
        ] {
            assert_eq!(failing.begins(&event), expected, "{event:?}");
        }
    }
}
