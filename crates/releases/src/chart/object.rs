//! An object rendered from a chart.

use std::collections::BTreeMap;

use baton_probes::shape::Shape;
use serde_json::{Map, Value};

use super::Error;
use crate::texts::Quoted;

/// An object that has a kind and a name.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) value: Value,
}

impl Object {
    /// Reads a document as an object; labels and annotations have to be texts.
    pub(super) fn decode(value: Value) -> Result<Self, Error> {
        let text = |path: &str| {
            let text = value
                .pointer(path)
                .and_then(Value::as_str)
                .unwrap_or_default();
            if text.is_empty() {
                let field = path[1..].replace('/', ".");
                return Err(Error::Decode(format!(
                    "{field} is missing or not a string in {}",
                    description(&value)
                )));
            }
            Ok(text.to_owned())
        };
        let (api_version, kind) = (text("/apiVersion")?, text("/kind")?);
        let name = text("/metadata/name")?;
        let object = Self {
            api_version,
            kind,
            name,
            value,
        };
        for field in ["labels", "annotations"] {
            object.texts(&["metadata", field])?;
        }
        Ok(object)
    }

    /// Changes the name.
    pub(super) fn rename(&mut self, name: String) -> Result<(), Error> {
        self.map(&["metadata"])?
            .insert("name".to_owned(), name.clone().into());
        self.name = name;
        Ok(())
    }

    /// True if the object is of this kind.
    pub(super) fn is(&self, api_version: &str, kind: &str) -> bool {
        self.api_version == api_version && self.kind == kind
    }

    /// The API group of the object; empty for the core group.
    pub(super) fn group(&self) -> &str {
        self.api_version
            .split_once('/')
            .map_or("", |(group, _)| group)
    }

    /// The value of a field, `null` if the field is absent.
    pub(super) fn at(&self, path: &[&str]) -> &Value {
        path.iter().fold(&self.value, |value, key| {
            value.get(key).unwrap_or(&Value::Null)
        })
    }

    /// A map of texts; empty if the field is absent.
    pub(super) fn texts(&self, path: &[&str]) -> Result<BTreeMap<&str, &str>, Error> {
        match self.at(path) {
            Value::Null => Ok(BTreeMap::new()),
            Value::Object(map) => map
                .iter()
                .map(|(key, value)| match value {
                    Value::Null => Ok((key.as_str(), "")),
                    Value::String(text) => Ok((key.as_str(), text.as_str())),
                    _ => Err(self.odd(path, &format!("{} is not a string", Quoted(key)))),
                })
                .collect(),
            _ => Err(self.odd(path, "is not a map")),
        }
    }

    /// A map, which is created if the field is absent.
    pub(super) fn map(&mut self, path: &[&str]) -> Result<&mut Map<String, Value>, Error> {
        let odd = self.odd(path, "is not a map");
        let mut value = &mut self.value;
        for key in path {
            let Some(map) = as_map(value) else {
                return Err(odd);
            };
            value = map.entry(*key).or_insert(Value::Null);
        }
        as_map(value).ok_or(odd)
    }

    fn odd(&self, path: &[&str], what: &str) -> Error {
        let Self { kind, name, .. } = self;
        Error::Decode(format!(
            "{kind} {}: {}: {what}",
            Quoted(name),
            path.join(".")
        ))
    }
}

/// A value as a map; `null` becomes an empty one.
fn as_map(value: &mut Value) -> Option<&mut Map<String, Value>> {
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut()
}

/// Adds texts to a map; they take precedence.
pub(super) fn merge(map: &mut Map<String, Value>, texts: &BTreeMap<String, String>) {
    for (key, text) in texts {
        map.insert(key.clone(), Value::String(text.clone()));
    }
}

/// A document without its values: its kind and name, or its keys, by which a user can find it.
fn description(value: &Value) -> String {
    const MOST_KEYS: usize = 8;
    let text = |path: &str| value.pointer(path).and_then(Value::as_str);
    match (text("/kind"), text("/metadata/name"), value) {
        (Some(kind), Some(name), _) => format!("{} {}", Quoted(kind), Quoted(name)),
        (Some(kind), None, _) => format!("an object of the kind {}", Quoted(kind)),
        (None, Some(name), _) => format!("the object {}", Quoted(name)),
        (None, None, Value::Object(map)) if !map.is_empty() => {
            let keys: Vec<_> = map
                .keys()
                .take(MOST_KEYS)
                .map(|key| Quoted(key).to_string())
                .collect();
            format!("a map with {}", keys.join(", "))
        }
        _ => Shape(value).to_string(),
    }
}
