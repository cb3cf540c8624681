//! How what other programs wrote is read: no stored object may be unreadable, as that would keep all others of its kind
//! from being read.

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value;

/// Reads `null` as nothing, as programs in Go write lists that are not there.
pub(super) fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Reads as nothing what the schema admits and the type does not, such as an offset of a time zone that is none.
pub(super) fn readable_or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + DeserializeOwned,
{
    let value = Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

/// For the schema alone: a number that is always written, and that others may leave out.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature is serde's"
)]
pub(super) fn is_zero(number: &i32) -> bool {
    *number == 0
}
