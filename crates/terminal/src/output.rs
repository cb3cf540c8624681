//! Data on the standard output, messages on the standard error.
//!
//! Any user and any joined cluster may have written parts of these texts.

use std::{
    borrow::Cow,
    fmt::Write as _,
    io::{self, ErrorKind, Write as _},
};

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

/// Writes data to the standard output, as it is.
///
/// # Errors
/// For instance, if the output is full, or its reader is gone.
pub fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Writes a text for people to the standard output, with [visible](printable) control characters.
/// It is no error if the reader is gone.
///
/// # Errors
/// For instance, if the output is full.
pub fn print(text: &str) -> io::Result<()> {
    match write(&printable(text, &[])) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// Writes a line to the standard error, with [visible](printable) control characters. Failures are
/// ignored.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{}", printable(line, &[]));
}

/// Runs `work`, and shows on the standard error that it runs, and if it succeeded.
///
/// # Errors
/// The error of `work`.
pub async fn task<T, E>(doing: &str, work: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let mut out = io::stderr();
    // A closed standard error does not stop the work.
    let _ = write!(out, "{}... ", printable(doing, &[])).and_then(|()| out.flush());
    let result = work.await;
    say(if result.is_ok() { "done" } else { "failed" });
    result
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
