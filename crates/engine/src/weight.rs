//! The memory that manifests take as values.
//!
//! The values of a text can take a hundred times its memory, so the length of the text limits nothing.

/// Limit in bytes of the memory that the manifests of a revision take as values.
pub const MANIFESTS: usize = 64 << 20;

/// The error of manifests beyond [`MANIFESTS`].
pub const TOO_LARGE: &str = "the values of the manifests take more than 64 MiB of memory";

/// Bytes that a map takes, however few entries it has: a node of a B-tree has room for eleven.
const MAP: usize = 640;
/// Bytes that a further entry of a map takes at most: a node is at least half full.
const ENTRY: usize = 107;
/// Bytes that a list takes, however few items it has.
const LIST: usize = 128;
/// Bytes that a further item of a list takes at most, because lists double their room.
const ITEM: usize = 64;
/// Bytes that the text of a string takes at least, divided by its two quotes.
const QUOTE: usize = 12;

/// The number of bytes that the values of a JSON text take at most. The text is read once and not
/// parsed.
#[must_use]
pub fn of_json(text: &str) -> usize {
    let (mut bytes, mut is_quoted, mut is_escaped) = (text.len(), false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_quoted,
            b'"' => {
                is_quoted = !is_quoted;
                bytes += QUOTE;
            }
            _ if is_quoted => {}
            b'{' => bytes += MAP,
            b'[' => bytes += LIST,
            b':' => bytes += ENTRY,
            b',' => bytes += ITEM,
            _ => {}
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structure_counts_and_the_content_of_strings_does_not() {
        assert_eq!(of_json("0"), 1);
        assert_eq!(
            of_json(r#"{"a":[0,0]}"#),
            11 + MAP + ENTRY + LIST + ITEM + 2 * QUOTE
        );
        let strings = r#""{[:,\"{[:,\\""#;
        assert_eq!(of_json(strings), strings.len() + 2 * QUOTE);
        assert_eq!(of_json(r#"["\\",{}]"#), 9 + LIST + ITEM + MAP + 2 * QUOTE);
    }

    /// The estimate is the only bound, so it must not be below the memory that is taken.
    #[test]
    fn values_take_less_than_the_estimate() {
        let many = |piece: &str| format!("[{}]", vec![piece; 1000].join(","));
        for text in [
            many("0"),
            many("{}"),
            many(r#"{"a":0}"#),
            many("[[[[]]]]"),
            many(r#"{"a":{"b":{"c":[0]}}}"#),
        ] {
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert!(
                least(&value) <= of_json(&text),
                "{}: {}",
                least(&value),
                of_json(&text)
            );
        }
    }

    /// Bytes that a value takes at least.
    fn least(value: &serde_json::Value) -> usize {
        let own = size_of::<serde_json::Value>();
        own + match value {
            serde_json::Value::Array(items) => items.iter().map(least).sum(),
            // Room for eleven keys and values.
            serde_json::Value::Object(map) if !map.is_empty() => {
                let inner = map.values().map(|value| least(value) - own).sum::<usize>();
                11 * (own + size_of::<String>()) + inner
            }
            _ => 0,
        }
    }
}
