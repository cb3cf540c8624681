//! Errors in one line of limited length.

use baton_engine::texts::collapse_whitespace;

/// The start of a text, as one line of at most `length` characters.
pub(super) fn excerpt(text: &str, length: usize) -> String {
    let line = collapse_whitespace(text);
    match line.char_indices().nth(length) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
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
}
