//! Claims for volumes that another manager has expanded.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::Value;

use super::create_only::{owned_at, remove};
use super::owned_fields;
use crate::object::text;

const STORAGE: [&str; 4] = ["spec", "resources", "requests", "storage"];

/// Removes the size from the body of an apply to a claim that another manager has made larger than
/// the manifest wants.
///
/// Volumes never shrink, so the server would refuse the apply. A size that our manager owns stays
/// in the body: the refusal of a smaller one is then reported.
pub fn with_expanded(body: &mut Value, live: &Value) {
    if text(body, "kind") != "PersistentVolumeClaim" || text(body, "apiVersion") != "v1" {
        return;
    }
    let keys = STORAGE.map(str::to_owned);
    let size = |object: &Value| {
        let mut keys = keys.iter();
        keys.try_fold(object, |value, key| value.get(key))
            .and_then(value_of)
    };
    let owned = owned_fields(live);
    let owned = owned.as_deref().and_then(Value::as_object);
    let is_ours = owned.is_some_and(|owned| owned_at(owned, &keys).is_some());
    if !is_ours
        && size(live)
            .zip(size(body))
            .is_some_and(|(live, wanted)| live > wanted)
    {
        remove(body, &keys);
    }
}

/// The value of a quantity in billionths, rounded up; `None` if it is none, or too large.
fn value_of(value: &Value) -> Option<i128> {
    let Quantity(text) = match value {
        Value::Number(number) => Quantity(number.to_string()),
        _ => serde_json::from_value(value.clone()).ok()?,
    };
    let number_end = text
        .find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '+' | '-'))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(number_end);
    let (base, exponent): (i128, i32) = match suffix {
        "n" => (10, -9),
        "u" => (10, -6),
        "m" => (10, -3),
        "" => (10, 0),
        "k" => (10, 3),
        "M" => (10, 6),
        "G" => (10, 9),
        "T" => (10, 12),
        "P" => (10, 15),
        "E" => (10, 18),
        "Ki" => (2, 10),
        "Mi" => (2, 20),
        "Gi" => (2, 30),
        "Ti" => (2, 40),
        "Pi" => (2, 50),
        "Ei" => (2, 60),
        _ => (10, suffix.strip_prefix(['e', 'E'])?.parse().ok()?),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let mantissa: i128 = format!("{whole}{fraction}").parse().ok()?;
    // The value is mantissa * base^exponent * 10^(9 - digits of the fraction).
    let tens = 9_i32.checked_sub(i32::try_from(fraction.len()).ok()?)?;
    let (twos, tens) = match base {
        2 => (exponent, tens),
        _ => (0, tens.checked_add(exponent)?),
    };
    let scaled = mantissa.checked_mul(2_i128.checked_pow(twos.try_into().ok()?)?)?;
    let power = 10_i128.checked_pow(tens.unsigned_abs())?;
    if tens < 0 {
        let rest = i128::from(scaled % power > 0);
        return Some(scaled / power + rest);
    }
    scaled.checked_mul(power)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::diff::tests::{live, yaml};

    #[test]
    fn quantities_are_compared_by_value() {
        for (one, other) in [
            ("1Gi", "1024Mi"),
            ("1Gi", "1073741824"),
            ("1G", "1e9"),
            ("1.5Gi", "1536Mi"),
            ("0.5", "500m"),
            ("1E3", "1k"),
            ("1E", "1000P"),
            ("100m", "0.1"),
            ("1n", "0.1n"),
        ] {
            assert!(value_of(&json!(one)).is_some(), "{one}");
            assert_eq!(
                value_of(&json!(one)),
                value_of(&json!(other)),
                "{one} {other}"
            );
        }
        for (less, more) in [("1G", "1Gi"), ("9Gi", "10Gi"), ("-1", "0"), ("7Ei", "8Ei")] {
            assert!(
                value_of(&json!(less)) < value_of(&json!(more)),
                "{less} {more}"
            );
        }
        assert_eq!(value_of(&json!(7)), value_of(&json!("7")));
        let not = [
            "",
            "Gi",
            "1Q",
            "1.2.3",
            "x",
            "1e99",
            "999999999999999999999999999Ei",
        ];
        for text in not {
            assert_eq!(value_of(&json!(text)), None, "{text}");
        }
        assert_eq!(value_of(&json!(["1Gi"])), None);
    }

    #[test]
    fn a_claim_that_others_expanded_keeps_its_size() {
        let claim = |size: &str| {
            yaml(&format!(
                "{{apiVersion: v1, kind: PersistentVolumeClaim, spec: {{accessModes: [x], resources: {{requests: \
                 {{storage: {size}}}}}}}}}"
            ))
        };
        let ours = "{f:spec: {f:accessModes: {}, f:resources: {f:requests: {f:storage: {}}}}}";
        let theirs = "{f:spec: {f:accessModes: {}}}";
        for (wanted, size, owned, is_left) in [
            ("1Gi", "2Gi", theirs, true),
            ("1Gi", "1025Mi", theirs, true),
            ("1Gi", "1024Mi", theirs, false),
            ("3Gi", "2Gi", theirs, false),
            // A revision that asks for less is refused.
            ("1Gi", "2Gi", ours, false),
            ("1Gi", "x", theirs, false),
        ] {
            let mut body = claim(wanted);
            with_expanded(&mut body, &live(claim(size), &yaml(owned)));
            let has_size = body.pointer("/spec/resources").is_some();
            assert_eq!(has_size, !is_left, "{wanted} {size} {owned}");
        }
        let mut other =
            yaml("{apiVersion: v1, kind: Other, spec: {resources: {requests: {storage: 1}}}}");
        let before = other.clone();
        let larger = yaml("{spec: {resources: {requests: {storage: 2}}}}");
        with_expanded(&mut other, &larger);
        assert_eq!(other, before);
    }
}
