//! Objects and names as kubectl prints them.

use std::fmt::Write as _;

use crate::printable::is_obeyed;
use baton_view::object::text_at;
use clap::ValueEnum;
use serde_json::{Value, json};

/// The format of objects for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// JSON, as the server returns the objects
    Json,
    /// YAML, as the server returns the objects
    Yaml,
    /// `KIND.GROUP/NAME`, one per line, as arguments of other commands
    Name,
}

/// The format of one value for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DocumentFormat {
    /// As JSON.
    Json,
    /// As YAML.
    Yaml,
}

impl Format {
    /// The same format for a value that is no object; `None` for names.
    pub fn document(self) -> Option<DocumentFormat> {
        match self {
            Self::Json => Some(DocumentFormat::Json),
            Self::Yaml => Some(DocumentFormat::Yaml),
            Self::Name => None,
        }
    }
}

/// Renders objects for programs. `single` prints a lone object by itself; otherwise JSON and YAML
/// wrap the objects in a `List`, as kubectl does.
pub fn objects(format: Format, objects: &[Value], single: bool) -> String {
    let Some(form) = format.document() else {
        return objects.iter().map(|object| name(object) + "\n").collect();
    };
    match objects {
        [object] if single => document(form, object),
        _ => document(
            form,
            &json!({ "apiVersion": "v1", "kind": "List", "metadata": {}, "items": objects }),
        ),
    }
}

/// Renders a value as one JSON or YAML document.
pub fn document(form: DocumentFormat, value: &Value) -> String {
    let text = match form {
        DocumentFormat::Yaml => serde_saphyr::to_string(value).ok(),
        DocumentFormat::Json => None,
    };
    // JSON is valid YAML, and is used if the YAML writer fails.
    let json = || format!("{value:#}");
    let mut text = without_obeyed(text.unwrap_or_else(json), json);
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// A text of JSON or YAML without characters that terminals obey, with the same content. If it has
/// some, the JSON is used, in which they are escaped.
pub fn without_obeyed(text: String, json: impl FnOnce() -> String) -> String {
    if !text.contains(is_obeyed) {
        return text;
    }
    let mut escaped = String::new();
    for letter in json().chars() {
        if is_obeyed(letter) {
            // All of these have four digits. Writing into a string cannot fail.
            let _ = write!(escaped, "\\u{:04x}", u32::from(letter));
        } else {
            escaped.push(letter);
        }
    }
    escaped
}

/// The name of an object: `kind.group/name`, or `kind/name` for the core group.
pub fn name(object: &Value) -> String {
    let kind = text_at(object, "/kind").to_lowercase();
    let name = text_at(object, "/metadata/name");
    match text_at(object, "/apiVersion").split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    }
}

/// The first few texts of a list, and the number of further ones: `a, b and 3 more`.
pub fn first(texts: &[String], few: usize) -> String {
    let shown = texts.get(..few).unwrap_or(texts).join(", ");
    match texts.len().saturating_sub(few) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The output is printed with visible control characters, which must not change documents.
    #[test]
    fn documents_keep_characters_that_terminals_obey() {
        let value = json!({ "a": "x\u{202e}y\u{9b}z\u{7f}\x1b\u{2028}\tä" });
        for form in [DocumentFormat::Json, DocumentFormat::Yaml] {
            let text = document(form, &value);
            assert!(!text.contains(is_obeyed), "{text:?}");
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        }
    }

    #[test]
    fn a_long_list_is_shortened() {
        let texts = ["a", "b", "c"].map(str::to_owned);
        for (count, few, expected) in [
            (0, 2, ""),
            (1, 2, "a"),
            (2, 2, "a, b"),
            (3, 2, "a, b and 1 more"),
            (3, 1, "a and 2 more"),
        ] {
            assert_eq!(first(&texts[..count], few), expected);
        }
    }

    #[test]
    fn objects_are_printed_for_programs() {
        let web =
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}});
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        let both = [web.clone(), map];
        assert_eq!(
            objects(Format::Name, &both, false),
            "deployment.apps/web\nconfigmap/a\n"
        );
        assert_eq!(
            objects(Format::Yaml, &both[..1], true),
            "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n"
        );
        let list: Value = serde_json::from_str(&objects(Format::Json, &both, false)).unwrap();
        assert_eq!((&list["kind"], &list["items"][0]), (&json!("List"), &web));
        let list: Value = serde_json::from_str(&objects(Format::Json, &[], true)).unwrap();
        assert_eq!(list["items"], json!([]));
    }
}
