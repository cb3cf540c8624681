//! Quotes of foreign text in messages. The format is that of Go, because clients compare messages.

use std::fmt::{self, Write};

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
}
