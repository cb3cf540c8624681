//! Visible control characters.
//!
//! Any user and any joined cluster may have written parts of the texts that are shown.

use std::{borrow::Cow, fmt::Write as _};

/// Makes characters visible that terminals obey or that hide others, as `^[` for an escape and as
/// `\u{202e}` for a change of direction. Line ends, tabs, and the given escape sequences stay.
pub fn printable<'t>(text: &'t str, sequences: &[&str]) -> Cow<'t, str> {
    if !text.contains(is_obeyed) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let sequence = sequences.iter().find(|it| rest.starts_with(**it));
        let length = sequence.map_or(letter.len_utf8(), |it| it.len());
        let (part, behind) = rest.split_at(length);
        if sequence.is_some() || !is_obeyed(letter) {
            out.push_str(part);
        } else if let Some(caret) = u8::try_from(letter).ok().filter(u8::is_ascii) {
            out.push('^');
            out.push(char::from(caret ^ 0x40));
        } else {
            // Writing into a string cannot fail.
            let _ = write!(out, "{}", letter.escape_unicode());
        }
        rest = behind;
    }
    out.into()
}

/// True for a character that [`printable`] makes visible: a control character, a change of direction,
/// or a line end other than a newline.
#[must_use]
pub fn is_obeyed(letter: char) -> bool {
    match letter {
        '\n' | '\t' => false,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            true
        }
        letter => letter.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_terminals_obey_become_visible() {
        for (evil, expected) in [
            // Colours, the title of the window, a link, a paste into the clipboard.
            ("a\x1b[31mb", "a^[[31mb"),
            ("\x1b]0;title\x07", "^[]0;title^G"),
            (
                "\x1b]8;;http://evil\x1b\\web\x1b]8;;\x1b\\",
                "^[]8;;http://evil^[\\web^[]8;;^[\\",
            ),
            ("\x1b]52;c;ZXZpbA==\x07", "^[]52;c;ZXZpbA==^G"),
            // The same by single characters, and overwritten text.
            ("\u{9b}2J\u{9d}0;t\u{9c}", "\\u{9b}2J\\u{9d}0;t\\u{9c}"),
            ("bad\rgood\x08\x7f\0", "bad^Mgood^H^?^@"),
            // Another order of the letters than that of the text.
            (
                "a\u{202e}b\u{2066}c\u{200f}",
                "a\\u{202e}b\\u{2066}c\\u{200f}",
            ),
            ("a\u{2028}b\u{85}c", "a\\u{2028}b\\u{85}c"),
            ("äöü ├─ 日本\tc\n", "äöü ├─ 日本\tc\n"),
        ] {
            assert_eq!(printable(evil, &[]), expected);
        }
    }

    #[test]
    fn only_the_given_sequences_stay() {
        let sequences = ["\x1b[31m", "\x1b[0m"];
        let printable = |text: &str| printable(text, &sequences).into_owned();
        assert_eq!(printable("\x1b[31ma\x1b[0m\r"), "\x1b[31ma\x1b[0m^M");
        // Text that cannot be seen, and a sequence without an end.
        assert_eq!(printable("\x1b[8ma\x1b[31"), "^[[8ma^[[31");
    }
}
