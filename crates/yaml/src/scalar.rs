//! The meaning of a plain scalar for kubectl, which reads YAML 1.1: `yes` is true and `0644` is
//! 420.

use serde_json::Number;

/// The meaning of a scalar without quotes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scalar {
    Null,
    Bool(bool),
    /// A number that JSON can express.
    Number(Number),
    /// An infinity, or not a number, which JSON cannot express.
    NotFinite,
    Text,
}

/// Up to this limit every whole number is exact as a float.
const MOST_EXACT: f64 = 9_007_199_254_740_992.0;

/// Resolves a plain scalar by the rules of kubectl.
///
/// # Guarantees
/// Two texts that kubectl reads as the same value are the same value here: a test compares the
/// results with the recorded readings in `testdata`.
pub(crate) fn resolve(text: &str) -> Scalar {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Scalar::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Scalar::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Scalar::Bool(false)
        }
        ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF"
        | "-.inf" | "-.Inf" | "-.INF" => Scalar::NotFinite,
        _ => number(text).map_or(Scalar::Text, Scalar::Number),
    }
}

fn number(text: &str) -> Option<Number> {
    match text.bytes().next()? {
        b'.' => float(text),
        b'0'..=b'9' | b'+' | b'-' => {
            let plain = text.replace('_', "");
            integer(&plain).or_else(|| float(&plain))
        }
        _ => None,
    }
}

/// Parses an integer as Go does without a given base: a leading zero alone means octal.
fn integer(text: &str) -> Option<Number> {
    let (sign, unsigned) = match text.as_bytes() {
        [sign @ (b'+' | b'-'), ..] => (Some(*sign), &text[1..]),
        _ => (None, text),
    };
    let (radix, digits) = match unsigned.as_bytes() {
        [b'0', b'x' | b'X', _, ..] => (16, &unsigned[2..]),
        [b'0', b'o' | b'O', _, ..] => (8, &unsigned[2..]),
        [b'0', b'b' | b'B', _, ..] => (2, &unsigned[2..]),
        [b'0'] => (10, unsigned),
        [b'0', ..] => (8, &unsigned[1..]),
        _ => (10, unsigned),
    };
    // The standard library would accept a second sign.
    if !digits.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    match sign {
        Some(b'-') => 0_i64.checked_sub_unsigned(magnitude).map(Number::from),
        Some(_) => i64::try_from(magnitude).ok().map(Number::from),
        None => Some(magnitude.into()),
    }
}

fn float(text: &str) -> Option<Number> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let well_formed =
        digits(whole) && digits(fraction) && !(whole.is_empty() && fraction.is_empty());
    let exponent_well_formed = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    if !well_formed || !exponent_well_formed {
        return None;
    }
    let value: f64 = text.parse().ok()?;
    value.is_finite().then(|| of_float(value)).flatten()
}

/// The JSON number for a float. A whole float becomes an integer, as for kubectl: servers refuse
/// `3.0` for an integer. `None` for a value that JSON cannot express.
pub fn of_float(value: f64) -> Option<Number> {
    if value.fract() == 0.0 && value.abs() <= MOST_EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "whole and small enough")]
        return Some(Number::from(value as i64));
    }
    Number::from_f64(value)
}

/// The text of a float as the key of a map, as kubectl writes it.
pub(crate) fn float_key(value: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "kubectl does so as well")]
    let text = format!("{:e}", value as f32);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        #[expect(clippy::cast_possible_truncation, reason = "as above")]
        return (value as f32).to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn value(text: &str) -> Option<Value> {
        match resolve(text) {
            Scalar::Null => Some(Value::Null),
            Scalar::Bool(value) => Some(value.into()),
            Scalar::Number(number) => Some(number.into()),
            Scalar::NotFinite => None,
            Scalar::Text => Some(text.into()),
        }
    }

    #[test]
    fn values_are_read_as_recorded_from_kubectl() {
        let mut compared = 0;
        for line in include_str!("testdata/scalars.jsonl").lines() {
            let record: Value = serde_json::from_str(line).unwrap();
            let text = record["text"].as_str().unwrap();
            let expected = (record.get("error").is_none()).then(|| record["value"].clone());
            // Go prints large floats without an exponent.
            match (&expected, value(text)) {
                (Some(Value::Number(expected)), Some(Value::Number(found))) if found.is_f64() => {
                    assert_eq!(found.as_f64(), expected.as_f64(), "{text}");
                }
                (expected, found) => assert_eq!(&found, expected, "{text}"),
            }
            compared += 1;
        }
        assert!(compared > 150, "{compared}");
    }

    #[test]
    fn plain_scalars_are_those_of_yaml_1_1() {
        for (text, expected) in [
            ("0644", json!(420)),
            ("yes", json!(true)),
            ("1e3", json!(1000)),
            ("3.0", json!(3)),
            ("1_000", json!(1000)),
            ("08", json!(8)),
            ("2024-01-01", json!("2024-01-01")),
            ("1:30", json!("1:30")),
            ("1.2.3", json!("1.2.3")),
        ] {
            assert_eq!(value(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn float_keys_are_those_of_kubectl() {
        for (value, text) in [
            (1.0, "1"),
            (1.25, "1.25"),
            (100_000.0, "100000"),
            (1_234_567.5, "1.2345675e+06"),
            (0.0001, "0.0001"),
            (0.000_01, "1e-05"),
            (1e30, "1e+30"),
        ] {
            assert_eq!(float_key(value), text);
        }
    }
}
