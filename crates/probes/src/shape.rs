//! Descriptions of values for readers who may not read the object.

use std::fmt;

use serde_json::Value;

/// Prints the kind and length of a value, and never the value: `a string of 5 bytes`.
///
/// More people read conditions, events and logs than the objects that these are about, such as
/// Secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape<'v>(pub &'v Value);

impl fmt::Display for Shape<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, length, unit) = match self.0 {
            Value::Null => return f.write_str("null"),
            Value::Bool(_) => return f.write_str("a bool"),
            Value::Number(number) if number.is_f64() => return f.write_str("a float"),
            Value::Number(_) => return f.write_str("an integer"),
            Value::String(text) => ("a string", text.len(), "byte"),
            Value::Array(items) => ("a list", items.len(), "item"),
            Value::Object(fields) => ("a map", fields.len(), "key"),
        };
        let plural = if length == 1 { "" } else { "s" };
        write!(f, "{what} of {length} {unit}{plural}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_shape_shows_only_kind_and_length() {
        for (value, expected) in [
            (json!(null), "null"),
            (json!(true), "a bool"),
            (json!(-7), "an integer"),
            (json!(1.0), "a float"),
            (json!("hunter2"), "a string of 7 bytes"),
            (json!("\u{e4}"), "a string of 2 bytes"),
            (json!([1]), "a list of 1 item"),
            (json!({}), "a map of 0 keys"),
        ] {
            assert_eq!(Shape(&value).to_string(), expected);
        }
    }
}
