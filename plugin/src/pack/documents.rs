//! Reads the documents of a file, in YAML or JSON.

use std::{borrow::Cow, sync::Arc};

use baton_yaml::{ParsedDocument, Unreadable, scalar::of_float};
use serde::Deserialize;
use serde_json::{Deserializer, Value, value::RawValue};

use super::source_location::{InputError, SourceLocation};

/// A text to read documents from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InputText {
    pub(crate) name: Arc<str>,
    pub(crate) text: String,
}

/// The content of a source.
#[derive(Debug, Default)]
pub(crate) struct Parsed {
    /// Documents that are not empty, in order.
    pub(crate) documents: Vec<(SourceLocation, ParsedDocument)>,
    pub(crate) errors: Vec<InputError>,
    /// Remarks about probable mistakes.
    pub(crate) notes: Vec<String>,
}

/// Reads the documents of a source: a stream of JSON objects, or else YAML.
pub(crate) fn read(source: &InputText) -> Parsed {
    let text = without_marks(&source.text);
    let text = &*text;
    let is_json = std::path::Path::new(&*source.name)
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    let json = (is_json || text.trim_start().starts_with('{')).then(|| read_json(text));
    let documents = match json {
        // A map in braces without quotes is YAML.
        Some(Some(documents)) if is_json || documents.iter().all(Result::is_ok) => documents,
        _ => baton_yaml::read(text),
    };
    let lines: Vec<_> = text.lines().collect();
    let mut found = Parsed::default();
    for document in documents {
        match document {
            Ok(document) => {
                let location = SourceLocation {
                    source: Arc::clone(&source.name),
                    document: document.number,
                    line: document.line,
                    origin: origin(&lines, document.line),
                };
                for (key, line) in &document.repeated_keys {
                    let location = SourceLocation {
                        line: *line,
                        ..location.clone()
                    };
                    found.notes.push(format!(
                        "{location}: the key {key} is there twice; the last one is used"
                    ));
                }
                if !document.value.is_null() {
                    found.documents.push((location, document));
                }
            }
            Err(Unreadable {
                number,
                line,
                message,
            }) => {
                let location = SourceLocation {
                    source: Arc::clone(&source.name),
                    document: number,
                    line,
                    origin: origin(&lines, line),
                };
                found.errors.push(InputError::at(&location, message));
            }
        }
    }
    found
}

/// Removes the byte order marks before a text and before its documents: a text is often made of
/// several files.
fn without_marks(text: &str) -> Cow<'_, str> {
    const MARK: char = '\u{feff}';
    let text = text.strip_prefix(MARK).unwrap_or(text);
    if !text.contains(MARK) {
        return text.into();
    }
    let mut is_first = false;
    let lines = text.split_inclusive('\n').map(|line| {
        let bare = line.strip_prefix(MARK);
        let is_marked = is_first || bare.is_some_and(|bare| bare.starts_with("---"));
        let line = bare.filter(|_| is_marked).unwrap_or(line);
        is_first = line.starts_with("---");
        line
    });
    lines.collect()
}

/// The template from which Helm made a document, by the comment above the content.
fn origin(lines: &[&str], line: usize) -> Option<Arc<str>> {
    let above = lines.get(..line.saturating_sub(1))?.iter().rev();
    let mut document = above.take_while(|line| !line.starts_with("---"));
    document.find_map(|line| {
        line.strip_prefix("# Source: ")
            .map(|path| path.trim().into())
    })
}

/// Reads JSON objects, one after the other, up to the first one with an error.
fn read_json(text: &str) -> Option<Vec<Result<ParsedDocument, Unreadable>>> {
    let mut documents = Vec::new();
    let mut lines = Lines::new(text);
    let mut stream = Deserializer::from_str(text).into_iter::<&RawValue>();
    while let Some(next) = stream.next() {
        let number = documents.len() + 1;
        let raw = match next {
            Ok(raw) => raw.get(),
            Err(error) => {
                documents.push(Err(Unreadable {
                    number,
                    line: error.line(),
                    message: without_position(&error),
                }));
                break;
            }
        };
        let start = stream.byte_offset().saturating_sub(raw.len());
        let line = lines.at(start);
        let mut value = serde_json::from_str(raw).ok()?;
        whole_numbers(&mut value);
        let item_lines = items(raw).into_iter().map(|at| lines.at(start + at));
        documents.push(Ok(ParsedDocument {
            number,
            line,
            value,
            item_lines: item_lines.collect(),
            repeated_keys: Vec::new(),
        }));
    }
    Some(documents)
}

/// The message of a JSON error without its position, which is reported separately.
fn without_position(error: &serde_json::Error) -> String {
    let message = error.to_string();
    match message.rsplit_once(" at line ") {
        Some((message, _)) => message.to_owned(),
        None => message,
    }
}

/// Offsets of the elements of the field `items`.
fn items(object: &str) -> Vec<usize> {
    #[derive(Deserialize)]
    struct List<'t> {
        #[serde(borrow, default)]
        items: Vec<&'t RawValue>,
    }
    let list = serde_json::from_str::<List<'_>>(object);
    let items = list.map(|list| list.items).unwrap_or_default();
    // All elements are slices of the same text.
    let start = object.as_ptr() as usize;
    let offset = |item: &RawValue| item.get().as_ptr() as usize - start;
    items.into_iter().map(offset).collect()
}

/// Turns whole floats into integers, as kubectl does.
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Some(whole) = number.as_f64().and_then(of_float) {
                *number = whole;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(map) => map.values_mut().for_each(whole_numbers),
        _ => {}
    }
}

/// Counts lines while a text is read.
struct Lines<'t> {
    text: &'t str,
    offset: usize,
    line: usize,
}

impl<'t> Lines<'t> {
    fn new(text: &'t str) -> Self {
        Self {
            text,
            offset: 0,
            line: 1,
        }
    }

    /// The line of a byte. The offset must not be smaller than in the call before.
    fn at(&mut self, offset: usize) -> usize {
        let passed = self.text.as_bytes().get(self.offset..offset);
        let newlines = passed.into_iter().flatten().filter(|byte| **byte == b'\n');
        self.line += newlines.count();
        self.offset = offset.max(self.offset);
        self.line
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(name: &str, text: &str) -> Parsed {
        read(&InputText {
            name: name.into(),
            text: text.to_owned(),
        })
    }

    fn values(name: &str, text: &str) -> Vec<Value> {
        let found = found(name, text);
        assert!(found.errors.is_empty(), "{:?}", found.errors);
        let documents = found.documents.into_iter();
        documents.map(|(_, document)| document.value).collect()
    }

    #[test]
    fn json_streams_have_lines() {
        let text = "\n{\"a\": 1}\n{\"items\": [\n  {\"b\": 2.0},\n  {\"c\":\n 3}, 4\n]}{}";
        let found = found("a.json", text);
        let places: Vec<_> = found
            .documents
            .iter()
            .map(|(location, document)| (location.document, location.line, &*document.item_lines))
            .collect();
        assert_eq!(places, [(1, 2, &[][..]), (2, 3, &[4, 5, 6]), (3, 7, &[])]);
        assert_eq!(found.documents[1].1.value["items"][0], json!({"b": 2}));
    }

    #[test]
    fn json_and_yaml_are_distinguished() {
        assert_eq!(values("-", "{\"a\": \"yes\"}"), [json!({"a": "yes"})]);
        assert_eq!(values("a.yaml", "{a: yes}"), [json!({"a": true})]);
        assert_eq!(
            values("a.yaml", "{\"a\": 1}\n---\nb: 2\n"),
            [json!({"a": 1}), json!({"b": 2})]
        );
        assert_eq!(
            values("a.yaml", "\u{feff}a: 1\r\nb: |\r\n  x\r\n"),
            [json!({"a": 1, "b": "x\n"})]
        );
        assert_eq!(values("a.yaml", "---\n# nothing\n---\n"), [Value::Null; 0]);
    }

    #[test]
    fn byte_order_marks_may_be_in_front_of_each_document() {
        assert_eq!(
            values(
                "a.yaml",
                "\u{feff}a: 1\n---\r\n\u{feff}b: 2\n\u{feff}---\nc: 3\n"
            ),
            [json!({"a": 1}), json!({"b": 2}), json!({"c": 3})]
        );
        // A mark within a text stays.
        assert_eq!(
            values("a.yaml", "a: |\n  x\n  \u{feff}y\n"),
            [json!({"a": "x\n\u{feff}y\n"})]
        );
    }

    #[test]
    fn a_fraction_is_the_same_in_json_and_yaml() {
        for number in [
            "0.1234567890123456789",
            "2.0641599999999995",
            "31.245270191439438",
        ] {
            let text = format!("{{\"a\": {number}}}");
            let expected: f64 = number.parse().unwrap();
            for name in ["a.json", "a.yaml"] {
                assert_eq!(values(name, &text), [json!({"a": expected})], "{name}");
            }
        }
    }

    #[test]
    fn errors_of_json_have_lines() {
        let found = found("a.json", "{\"a\": 1}\n{\"b\":\n x}\n{}");
        let errors: Vec<_> = found.errors.iter().map(ToString::to_string).collect();
        assert_eq!(errors, ["a.json:3: document 2: expected value"]);
        assert_eq!(found.documents.len(), 1);
    }

    #[test]
    fn the_source_comment_of_helm_names_the_template() {
        let text = "---\n# Source: shop/templates/a.yaml\n# A licence\na: 1\n---\nb: 2\n# Source: no\n---\n# \
             Source: shop/templates/c.yaml\nc: {\n";
        let found = found("standard input", text);
        let places: Vec<_> = found
            .documents
            .iter()
            .map(|(location, _)| location.to_string())
            .collect();
        assert_eq!(
            places,
            [
                "standard input:4: document 1 (shop/templates/a.yaml)",
                "standard input:6: document 2"
            ]
        );
        let error = found.errors[0].to_string();
        let location = "standard input:10: document 3 (shop/templates/c.yaml): ";
        assert!(error.starts_with(location), "{error}");
    }

    #[test]
    fn repeated_keys_are_noted() {
        let found = found("a.yaml", "a: 1\nb:\n  c: 1\n  c: 2\n");
        assert_eq!(
            found.notes,
            ["a.yaml:4: document 1: the key c is there twice; the last one is used"]
        );
    }
}
