//! What is told of errors: one line, not too long, and the cause that a person can act upon.

use std::error::Error;

/// The beginning of a text, as one line of at most `length` characters.
pub(super) fn excerpt(text: &str, length: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(length) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

/// The last cause of an error. That of a failed connection is the one that says why; those above it
/// name layers of the client.
pub(super) fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_one_line_and_ends_at_a_character() {
        for (text, expected) in [
            ("a b", "a b"),
            (" a\n\n b ", "a b"),
            ("abcdef", "abcde..."),
            ("äöüßéä", "äöüßé..."),
            ("äöüßé", "äöüßé"),
        ] {
            assert_eq!(excerpt(text, 5), expected);
        }
    }

    #[test]
    fn the_innermost_cause_is_told() {
        let inner = std::io::Error::other("refused");
        let outer = kube::Error::Service(Box::new(std::io::Error::other(inner)));
        assert_eq!(innermost(&outer), "refused");
    }
}
