//! Values that are kept as JSON text.

use std::{borrow::Cow, fmt, marker::PhantomData, sync::Arc};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};

/// A value that is kept as the JSON text that was read, until it is needed. Clones share the text.
///
/// The values of a text can take fifty times its memory: an item of `[0,0]` has two bytes, and 32 as
/// a value. Content that users choose and a cache holds is therefore kept as text.
///
/// # Caveats
/// - Any JSON can be deserialised. The error of content of another form is that of [`Raw::read`].
/// - Only JSON can be deserialised, not YAML.
/// - The output for debugging contains the length only, because the content may be confidential.
pub struct Raw<T> {
    text: Arc<RawValue>,
    content: PhantomData<fn() -> T>,
}

impl<T> Raw<T> {
    /// The JSON text.
    pub fn text(&self) -> &str {
        self.text.get()
    }

    fn new(text: Box<RawValue>) -> Self {
        Self {
            text: text.into(),
            content: PhantomData,
        }
    }
}

impl<T: DeserializeOwned> Raw<T> {
    /// The value.
    ///
    /// # Errors
    /// If the text is not of this form. The message may quote the text.
    pub fn read(&self) -> serde_json::Result<T> {
        serde_json::from_str(self.text())
    }
}

impl<T: Serialize> Raw<T> {
    /// The text of a value.
    ///
    /// # Errors
    /// If the value cannot be serialised.
    pub fn of(value: &T) -> serde_json::Result<Self> {
        serde_json::value::to_raw_value(value).map(Self::new)
    }
}

impl From<Value> for Raw<Value> {
    fn from(value: Value) -> Self {
        // A value can always be serialised.
        Self::of(&value).unwrap_or_default()
    }
}

impl<T: Default + Serialize> Default for Raw<T> {
    fn default() -> Self {
        Self::of(&T::default()).unwrap_or_else(|_| Self::new(RawValue::NULL.to_owned()))
    }
}

impl<T> Clone for Raw<T> {
    fn clone(&self) -> Self {
        Self {
            text: Arc::clone(&self.text),
            content: PhantomData,
        }
    }
}

impl<T> fmt::Debug for Raw<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of JSON", self.text().len())
    }
}

/// Equal values may have different texts.
impl<T: DeserializeOwned + PartialEq> PartialEq for Raw<T> {
    fn eq(&self, other: &Self) -> bool {
        let is_equal = || Some(self.read().ok()? == other.read().ok()?);
        self.text() == other.text() || is_equal() == Some(true)
    }
}

impl<T: DeserializeOwned + Eq> Eq for Raw<T> {}

impl<T> Serialize for Raw<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.text.serialize(serializer)
    }
}

impl<'de, T> Deserialize<'de> for Raw<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self::new)
    }
}

impl<T: JsonSchema> JsonSchema for Raw<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_is_kept_as_it_was_read() {
        let text = r#"{"b":1.0,"a":[0,0]}"#;
        let raw: Raw<Value> = serde_json::from_str(text).unwrap();
        assert_eq!(raw.text(), text);
        assert_eq!(serde_json::to_string(&raw).unwrap(), text);
        assert_eq!(raw.read().unwrap(), json!({"a": [0, 0], "b": 1.0}));
        assert_eq!(serde_json::to_value(&raw).unwrap()["a"], json!([0, 0]));
        assert_eq!(
            serde_json::from_value::<Raw<Value>>(json!({"a": 1}))
                .unwrap()
                .text(),
            r#"{"a":1}"#
        );
    }

    #[test]
    fn texts_of_one_value_are_equal() {
        let raw = |text| serde_json::from_str::<Raw<Value>>(text).unwrap();
        assert_eq!(raw(r#"{"a":1,"b":2}"#), raw(r#"{ "b": 2, "a": 1 }"#));
        assert_ne!(raw(r#"{"a":1}"#), raw(r#"{"a":1.5}"#));
        assert_eq!(Raw::<Value>::default(), raw("null"));
    }

    #[test]
    fn content_of_another_form_is_an_error_of_its_reader() {
        let raw: Raw<Vec<String>> = serde_json::from_str("[1]").unwrap();
        assert!(raw.read().is_err());
        assert_eq!(format!("{raw:?}"), "3 bytes of JSON");
    }
}
