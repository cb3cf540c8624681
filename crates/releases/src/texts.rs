//! Quotes of foreign text in messages, and parse errors. The format is that of Go, because clients
//! compare messages.

use std::fmt::{self, Write};
use std::num::IntErrorKind;

/// Prints a text in double quotes, and escapes characters that are not printable as Go's `%q` does.
#[derive(Clone, Copy, Debug)]
pub struct Quoted<'a>(pub &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for char in self.0.chars() {
            match char {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                '\u{7}' => f.write_str("\\a")?,
                '\u{8}' => f.write_str("\\b")?,
                '\u{b}' => f.write_str("\\v")?,
                '\u{c}' => f.write_str("\\f")?,
                _ if is_printable(char) => f.write_char(char)?,
                '\0'..='\u{7f}' => write!(f, "\\x{:02x}", u32::from(char))?,
                '\u{80}'..='\u{ffff}' => write!(f, "\\u{:04x}", u32::from(char))?,
                _ => write!(f, "\\U{:08x}", u32::from(char))?,
            }
        }
        f.write_char('"')
    }
}

/// True if Go prints a character unchanged: letters, marks, numbers, punctuation and symbols, but
/// only the ASCII space.
///
/// `Debug` uses the same categories, but would escape a mark at the start of a text.
fn is_printable(char: char) -> bool {
    let text = String::from_iter(['a', char]);
    char == ' ' || char.is_ascii_graphic() || text.escape_debug().eq(text.chars())
}

/// The reason that a text is not a decimal integer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("strconv.Atoi: parsing {}: {why}", Quoted(.text))]
pub struct NotANumber {
    text: String,
    why: &'static str,
}

/// Parses a decimal integer.
///
/// # Errors
/// If the text is not a decimal integer; the error contains the text.
pub fn parse_number(text: &str) -> Result<i64, NotANumber> {
    text.parse().map_err(|error: std::num::ParseIntError| {
        let why = match error.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        let text = text.to_owned();
        NotANumber { text, why }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted_as_go_does() {
        for (text, expected) in [
            ("", r#""""#),
            ("a b", r#""a b""#),
            ("say \"hi\" \\", r#""say \"hi\" \\""#),
            ("\n\r\t\u{7}\u{8}\u{b}\u{c}", r#""\n\r\t\a\b\v\f""#),
            ("\0\u{1b}\u{7f}", r#""\x00\x1b\x7f""#),
            (
                "\u{80}\u{a0}\u{ad}\u{2028}\u{feff}",
                r#""\u0080\u00a0\u00ad\u2028\ufeff""#,
            ),
            ("\u{e0001}", r#""\U000e0001""#),
            ("é 世界 🎉 '", r#""é 世界 🎉 '""#),
            ("e\u{301}\u{301}", "\"e\u{301}\u{301}\""),
        ] {
            assert_eq!(Quoted(text).to_string(), expected);
        }
    }

    #[test]
    fn numbers_are_read_as_go_does() {
        for (text, expected) in [
            ("0", Ok(0)),
            ("-7", Ok(-7)),
            ("+07", Ok(7)),
            ("", Err(r#"strconv.Atoi: parsing "": invalid syntax"#)),
            ("1.0", Err(r#"strconv.Atoi: parsing "1.0": invalid syntax"#)),
            ("a\"", Err(r#"strconv.Atoi: parsing "a\"": invalid syntax"#)),
            (
                "9223372036854775808",
                Err(r#"strconv.Atoi: parsing "9223372036854775808": value out of range"#),
            ),
        ] {
            let found = parse_number(text).map_err(|error| error.to_string());
            assert_eq!(found, expected.map_err(str::to_owned));
        }
    }
}
