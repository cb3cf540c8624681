//! Bytes as text.

use std::fmt::Write as _;

use ring::digest;

/// Bytes in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing into a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A hash of a sequence of texts, in 16 hexadecimal digits.
pub(crate) fn short_hash<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in parts {
        // The lengths separate the parts.
        context.update(&part.len().to_le_bytes());
        context.update(part);
    }
    hex(&context.finish().as_ref()[..8])
}
