//! Removes the values of a user from the messages of helm.
//!
//! Templates, schemas and parsers quote values in any form, and more people may read a condition than
//! the Application. The values are known here, so they are searched for.

use std::collections::BTreeSet;

use base64::{
    Engine as _,
    prelude::{BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD},
};
use serde_json::Value;

/// Length in bytes of the shortest value that is removed. Shorter ones are parts of many words.
const SHORTEST: usize = 4;

/// The text that replaces a value.
const REPLACEMENT: &str = "[value]";

/// A message without the values in these values, which are JSON: as they are, with escapes, and in
/// base64.
///
/// # Caveats
/// Values of less than four bytes stay, and so does everything that a template computes from values
/// in another way.
pub fn without_values(message: &str, values: &[u8]) -> String {
    let mut secrets = BTreeSet::new();
    if let Ok(values) = serde_json::from_slice(values) {
        collect(&values, &mut secrets);
    }
    let is_quoted = |secret: &String| message.contains(secret);
    let mut found: Vec<_> = secrets.into_iter().filter(is_quoted).collect();
    // A value may be a part of another one.
    found.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    let mut message = message.to_owned();
    for secret in found {
        message = message.replace(&secret, REPLACEMENT);
    }
    message
}

/// Collects the texts and numbers of a value, in all forms.
fn collect(value: &Value, secrets: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => map.values().for_each(|value| collect(value, secrets)),
        Value::Array(list) => list.iter().for_each(|value| collect(value, secrets)),
        Value::String(text) => add(text, secrets),
        Value::Number(number) => add(&number.to_string(), secrets),
        Value::Null | Value::Bool(_) => {}
    }
}

fn add(text: &str, secrets: &mut BTreeSet<String>) {
    let trimmed = text.trim();
    if trimmed.len() < SHORTEST {
        return;
    }
    let escaped = Value::from(text).to_string();
    let escaped = escaped.trim_matches('"').to_owned();
    // The end of a text in base64 depends on the text after it.
    for encoded in [
        BASE64_STANDARD_NO_PAD.encode(text),
        BASE64_URL_SAFE_NO_PAD.encode(text),
    ] {
        secrets.insert(encoded);
    }
    secrets.insert(escaped);
    // A message may quote one line.
    let lines = trimmed.lines().map(str::trim);
    secrets.extend(
        lines
            .filter(|line| line.len() >= SHORTEST)
            .map(str::to_owned),
    );
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_removed_in_all_forms() {
        let values = json!({
            "password": "hunter2", "pin": 123_456, "short": "on",
            "key": "-----BEGIN-----\nc2VjcmV0\n-----END-----\n", "odd": "a\"b\\c", "long": "hunter2hunter2",
            "list": [{"token": "t0ken/value"}],
        });
        let values = serde_json::to_vec(&values).unwrap();
        for (message, expected) in [
            ("password: hunter2 is weak", "password: [value] is weak"),
            ("hunter2hunter2 and hunter2", "[value] and [value]"),
            ("data: aHVudGVyMg==", "data: [value]=="),
            ("pin 123456 is on", "pin [value] is on"),
            ("line c2VjcmV0: no key", "line [value]: no key"),
            (r#"got "a\"b\\c""#, r#"got "[value]""#),
            (
                "at '/list/0/token': t0ken/value",
                "at '/list/0/token': [value]",
            ),
            ("nothing", "nothing"),
        ] {
            assert_eq!(without_values(message, &values), expected);
        }
        assert_eq!(without_values("hunter2", b"{}"), "hunter2");
        assert_eq!(without_values("hunter2", b"no json"), "hunter2");
    }
}
