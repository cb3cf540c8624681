//! Quotes of foreign text in messages, and parse errors. The format is that of Go, because clients
//! compare messages.

use std::num::IntErrorKind;

pub use baton_engine::quoted::Quoted;

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
