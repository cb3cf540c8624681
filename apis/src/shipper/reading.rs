//! Deserialization of objects that other programs wrote. Every stored object has to be readable: an
//! unreadable one would prevent the read of all objects of its kind.

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value;

/// Reads `null` as the default, because Go programs write `null` for absent lists.
pub(super) fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Reads as the default a value that the schema admits and the type does not, such as an invalid
/// time zone offset.
pub(super) fn readable_or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + DeserializeOwned,
{
    let value = Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

/// For the schema only: a number that this program always writes, and that other programs may omit.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature is serde's"
)]
pub(super) fn is_zero(number: &i32) -> bool {
    *number == 0
}
