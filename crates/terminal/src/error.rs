//! Errors of requests as one line for people.

use std::{error::Error, io};

use baton_engine::texts::collapse_whitespace;
use baton_kubernetes::error;
use kube::core::Status;

/// An error, its cause, the cause of the cause, and so on.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    fn next<'a>(error: &&'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
        let error = *error;
        match error.downcast_ref::<io::Error>() {
            // `source` of an I/O error skips the inner error.
            Some(io) => io.get_ref().map(|inner| inner as _),
            None => error.source(),
        }
    }
    std::iter::successors(Some(error), next)
}

/// True if one of the causes is an I/O error of this kind.
pub fn is_io(error: &(dyn Error + 'static), kind: io::ErrorKind) -> bool {
    causes(error)
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|io| io.kind() == kind)
}

/// The last cause in one line. A time-out has the same text in all layers of the client.
pub fn innermost(error: &(dyn Error + 'static)) -> String {
    if is_io(error, io::ErrorKind::TimedOut) {
        return "no answer in time".to_owned();
    }
    collapse_whitespace(&error::innermost(error))
}

/// The message of a server that refused a request; the code if there is no message, as from
/// proxies.
pub fn refusal(status: &Status) -> String {
    if status.message.trim().is_empty() {
        format!("{} {}", status.code, status.reason)
    } else {
        collapse_whitespace(&status.message)
    }
}

/// True if the server serves the kind, but the object does not exist. For an unknown path, the
/// details of the status contain no name.
pub fn is_absent(status: &Status) -> bool {
    let details = status.details.as_ref();
    status.code == 404 && details.is_some_and(|details| !details.name.is_empty())
}

/// True if the server does not serve the path, for any object.
pub fn is_not_served(status: &Status) -> bool {
    status.code == 404 && !is_absent(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_of_nested_causes_is_found() {
        let inner = io::Error::new(io::ErrorKind::InvalidData, "a bad\ncertificate");
        let outer = kube::Error::ReadEvents(io::Error::other(inner));
        assert_eq!(innermost(&outer), "a bad certificate");
        assert!(is_io(&outer, io::ErrorKind::InvalidData));
        let late = kube::Error::ReadEvents(io::Error::new(io::ErrorKind::TimedOut, "x"));
        assert_eq!(innermost(&late), "no answer in time");
    }

    #[test]
    fn an_unknown_path_differs_from_a_missing_object() {
        let named = r#"{"code":404,"reason":"NotFound","details":{"name":"web"}}"#;
        let unnamed = r#"{"code":404,"reason":"NotFound","details":{}}"#;
        for (text, absent) in [(named, true), (unnamed, false), (r#"{"code":404}"#, false)] {
            let status: Status = serde_json::from_str(text).unwrap();
            assert_eq!(is_absent(&status), absent, "{text}");
            assert_eq!(is_not_served(&status), !absent, "{text}");
        }
    }
}
