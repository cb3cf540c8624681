//! Names in URLs.

use std::fmt::Write as _;

/// Escapes a path segment, or the value of a query parameter.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_with_a_meaning_in_paths_or_queries_are_escaped() {
        assert_eq!(escape("system:node/a b%"), "system%3Anode%2Fa%20b%25");
        assert_eq!(
            escape("package-operator.run/cache=True"),
            "package-operator.run%2Fcache%3DTrue"
        );
        assert_eq!(escape("ä"), "%C3%A4");
    }
}
