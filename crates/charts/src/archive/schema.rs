//! The schemas of values in an archive.

use serde_json::Value;

use super::Error;

/// File of a chart with the schema of its values.
const SCHEMA: &str = "values.schema.json";

/// Paths of the drafts of JSON Schema that helm contains.
const DRAFTS: [&str; 6] = [
    "schema",
    "draft-04/schema",
    "draft-06/schema",
    "draft-07/schema",
    "draft/2019-09/schema",
    "draft/2020-12/schema",
];

/// True if helm reads a file of a chart as a schema of values: in the folder of a chart or of one of
/// its dependencies. Elsewhere, a file of this name is only content for templates.
pub(super) fn is_schema(inner: &str) -> bool {
    let mut folders = match inner.rsplit_once('/') {
        None => return inner == SCHEMA,
        Some((folders, SCHEMA)) => folders.rsplit('/'),
        Some(_) => return false,
    };
    folders.next();
    folders.next() == Some("charts")
}

/// The schema of values for helm; `None` if it refers to something outside of itself.
///
/// # Errors
/// If it is no JSON.
pub(super) fn for_helm(path: &str, content: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    // Helm skips this mark as well.
    let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content);
    let unreadable =
        |error: serde_json::Error| Error::Schema(path.to_owned(), error.line(), error.column());
    let schema: Value = serde_json::from_slice(content).map_err(unreadable)?;
    if !is_local(&schema) {
        return Ok(None);
    }
    serde_json::to_vec(&schema).map(Some).map_err(unreadable)
}

/// True if a schema has no reference outside of itself.
fn is_local(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => map.iter().all(|(key, value)| {
            let local = match (key.as_str(), value) {
                ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(text)) => {
                    text.starts_with('#')
                }
                ("$schema", Value::String(text)) => is_draft(text),
                _ => true,
            };
            local && is_local(value)
        }),
        Value::Array(list) => list.iter().all(is_local),
        _ => true,
    }
}

/// True for the URL of a draft that helm contains.
fn is_draft(url: &str) -> bool {
    let url = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"));
    let url = url.map(|url| url.strip_suffix('#').unwrap_or(url));
    let path = url.and_then(|url| url.strip_prefix("json-schema.org/"));
    path.is_some_and(|path| DRAFTS.contains(&path))
}
