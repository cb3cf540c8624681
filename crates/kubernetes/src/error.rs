//! Errors as text for people.

use std::error::Error;
use std::fmt::Write as _;

use baton_apis::conditions::MAX_MESSAGE_LENGTH;
use baton_engine::{
    redact::without_values,
    texts::{collapse_whitespace, shorten},
};

/// An error and its causes in one line, without repetitions and without values that parsers quote.
///
/// Some libraries repeat a cause in the text of the error itself and others do not, so a cause that
/// the line contains already is left out.
pub fn one_line(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        if !line.contains(&text) {
            // Writing into a string cannot fail.
            let _ = write!(line, ": {text}");
        }
        source = cause.source();
    }
    collapse_whitespace(&without_values(&line))
}

/// The text of a failed request, for logs and conditions: the message of the server without the
/// values that it quotes, or the error with its causes.
///
/// `kube::Error` prints the whole response, with all values of the object.
pub fn request_failure(error: &kube::Error) -> String {
    let kube::Error::Api(status) = error else {
        return one_line(error);
    };
    let mut text = without_values(&status.message);
    if text.is_empty() {
        text = format!("HTTP status {} {}", status.code, status.reason);
    }
    shorten(&mut text, MAX_MESSAGE_LENGTH);
    text
}

/// The last cause of an error. That of a failed connection is the one that a person can act upon; those around it name
/// layers of the client.
pub fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Step {
        text: &'static str,
        source: Option<Box<Step>>,
    }

    fn chain(texts: &[&'static str]) -> Step {
        let (text, rest) = texts.split_first().unwrap();
        Step {
            text,
            source: (!rest.is_empty()).then(|| Box::new(chain(rest))),
        }
    }

    #[test]
    fn an_error_is_one_line_and_does_not_repeat_itself() {
        for (texts, expected) in [
            (&["a"][..], "a"),
            (&["a", "b", "c"], "a: b: c"),
            (
                &["cannot read: no such file", "no such file"],
                "cannot read: no such file",
            ),
            (&["two\n  lines", "cause"], "two lines: cause"),
        ] {
            assert_eq!(one_line(&chain(texts)), expected);
        }
    }

    #[test]
    fn the_text_of_a_refused_request_has_no_values() {
        let body = serde_json::json!({
            "status": "Failure",
            "code": 422,
            "reason": "Invalid",
            "message": "ControllerRevision.apps \"a\" is invalid: data: Invalid value: {\"rule\":\"hunter2\"}: \
                        field is immutable",
            "details": {"causes": [
                {"field": "data", "message": "Invalid value: {\"rule\":\"hunter2\"}: field is immutable"},
            ]},
        });
        let status = serde_json::from_value(body).unwrap();
        let error = kube::Error::Api(Box::new(status));
        let text = request_failure(&error);
        assert!(!text.contains("hunter2"), "{text}");
        assert!(text.ends_with("field is immutable"), "{text}");
        let status = kube::core::Status::failure("", "Timeout").with_code(504);
        let text = request_failure(&kube::Error::Api(status.boxed()));
        assert_eq!(text, "HTTP status 504 Timeout");
    }

    #[test]
    fn the_innermost_cause_is_shown() {
        let inner = std::io::Error::other("refused");
        let outer = kube::Error::Service(Box::new(std::io::Error::other(inner)));
        assert_eq!(innermost(&outer), "refused");
    }
}
