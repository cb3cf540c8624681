//! Documents of a YAML stream, read as kubectl reads them, with their lines.

use std::collections::{BTreeSet, HashMap};

use granit_parser::{Event, Parser, ScalarStyle, Span, Tag};
use serde_json::{Map, Value};

use super::scalar::{Scalar, float_key, resolve};

/// A document and where it was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// Number of the document in its stream, from 1. Empty ones count.
    pub number: usize,
    /// Line on which its content begins, from 1.
    pub line: usize,
    /// The content; null for an empty document.
    pub value: Value,
    /// Lines of the elements of its top-level field `items`, if that is a list.
    pub item_lines: Vec<usize>,
    /// Keys that occur again in the same map, and the lines of the later occurrence.
    pub repeated_keys: Vec<(String, usize)>,
}

/// Why a document cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Number of the document, from 1.
    pub number: usize,
    /// Line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub message: String,
}

/// Nodes that the aliases of one document may stand for: far more than manifests have, and few
/// enough to refuse those that unfold to gigabytes.
const MOST_ALIASED_NODES: usize = 1_000_000;
/// How deep nodes may be nested, those behind aliases included.
const DEEPEST: usize = 256;

/// Reads all documents of a stream. One that cannot be read does not hide the ones behind it.
///
/// # Guarantees
/// What a document means is what it means to kubectl: scalars as in YAML 1.1, keys that are not
/// texts made into texts, the last of equal keys counts, merge keys are merged in their place.
#[must_use]
pub fn read(text: &str) -> Vec<Result<Document, Unreadable>> {
    // Comments are of no use here, and many of them in a row would be an error.
    let options = granit_parser::options! { emit_comments: false };
    let mut parser = Parser::new_from_str_with_options(text, options);
    let mut documents = Vec::new();
    let mut number = 0;
    let mut builder: Option<Builder> = None;
    loop {
        let (line, message) = match parser.next_event() {
            None => break,
            Some(Ok((Event::DocumentStart(..), span))) => {
                number += 1;
                builder = Some(Builder::new(span.start.line()));
                continue;
            }
            Some(Ok((Event::DocumentEnd, _))) => {
                let document = builder.take().map(|builder| builder.finish(number));
                documents.extend(document.map(Ok));
                continue;
            }
            Some(Ok((event, span))) => match &mut builder {
                None => continue,
                Some(builder) => match builder.take_event(event, &span) {
                    Ok(()) => continue,
                    Err(message) => (span.start.line(), message),
                },
            },
            Some(Err(error)) => (error.marker().line(), error.info()),
        };
        if builder.take().is_none() {
            number += 1;
        }
        documents.push(Err(Unreadable {
            number,
            line,
            message,
        }));
        if !matches!(parser.proceed_next_document(), Ok(true)) {
            break;
        }
    }
    documents
}

/// A complete node.
#[derive(Clone)]
struct Node {
    value: Value,
    /// Nodes in it, itself included.
    size: usize,
    /// Levels in it, itself included.
    depth: usize,
}

impl Node {
    fn leaf(value: Value) -> Self {
        Self {
            value,
            size: 1,
            depth: 1,
        }
    }
}

/// A collection that is being read.
struct Frame {
    collection: Collection,
    anchor: usize,
    size: usize,
    depth: usize,
}

enum Collection {
    Sequence {
        items: Vec<Value>,
        /// Whether lines of the items are to be remembered.
        is_items: bool,
    },
    Mapping {
        entries: Map<String, Value>,
        /// The keys that are written in this map, in contrast to those merged into it.
        written: BTreeSet<String>,
        key: Option<Key>,
    },
}

enum Key {
    Name(String),
    Merge,
}

struct Builder {
    marker_line: usize,
    frames: Vec<Frame>,
    root: Option<(Value, usize)>,
    anchors: HashMap<usize, Node>,
    aliased: usize,
    item_lines: Vec<usize>,
    repeated_keys: Vec<(String, usize)>,
    root_line: Option<usize>,
}

impl Builder {
    fn new(marker_line: usize) -> Self {
        Self {
            marker_line,
            frames: Vec::new(),
            root: None,
            anchors: HashMap::new(),
            aliased: 0,
            item_lines: Vec::new(),
            repeated_keys: Vec::new(),
            root_line: None,
        }
    }

    fn finish(self, number: usize) -> Document {
        let (value, line) = self.root.unwrap_or((Value::Null, self.marker_line));
        Document {
            number,
            line,
            value,
            item_lines: self.item_lines,
            repeated_keys: self.repeated_keys,
        }
    }

    fn take_event(&mut self, event: Event<'_>, span: &Span) -> Result<(), String> {
        let line = span.start.line();
        if self.root_line.is_none() {
            self.root_line = Some(line);
        }
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let tag = tag.as_deref();
                if self.awaits_key() && is_merge_key(&text, style, tag) {
                    self.set_key(Key::Merge);
                    return Ok(());
                }
                let value = scalar(&text, style, tag)?;
                self.put(Node::leaf(value), anchor, line)
            }
            Event::SequenceStart(_, anchor, _) => {
                let is_items = matches!(
                    self.frames.as_slice(),
                    [Frame { collection: Collection::Mapping { key: Some(Key::Name(key)), .. }, .. }]
                        if key == "items"
                );
                let items = Vec::new();
                self.open(Collection::Sequence { items, is_items }, anchor, line)
            }
            Event::MappingStart(_, anchor, _) => {
                let mapping = Collection::Mapping {
                    entries: Map::new(),
                    written: BTreeSet::new(),
                    key: None,
                };
                self.open(mapping, anchor, line)
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(line),
            Event::Alias(id) => {
                // The parser knows the anchor, so the alias is inside of what it stands for.
                let node = self.anchors.get(&id).cloned();
                let node = node.ok_or("an alias stands for a value that contains it")?;
                self.aliased += node.size;
                if self.aliased > MOST_ALIASED_NODES {
                    return Err("the aliases unfold to too much".to_owned());
                }
                self.put(node, 0, line)
            }
            _ => Ok(()),
        }
    }

    fn awaits_key(&self) -> bool {
        matches!(
            self.frames.last(),
            Some(Frame {
                collection: Collection::Mapping { key: None, .. },
                ..
            })
        )
    }

    fn set_key(&mut self, name: Key) {
        if let Some(Frame {
            collection: Collection::Mapping { key, .. },
            ..
        }) = self.frames.last_mut()
        {
            *key = Some(name);
        }
    }

    fn open(&mut self, collection: Collection, anchor: usize, line: usize) -> Result<(), String> {
        if self.awaits_key() {
            return Err("a key is a list or a map, not a text".to_owned());
        }
        if self.frames.len() >= DEEPEST {
            return Err("nested too deeply".to_owned());
        }
        self.note_item(line);
        self.frames.push(Frame {
            collection,
            anchor,
            size: 1,
            depth: 1,
        });
        Ok(())
    }

    fn close(&mut self, line: usize) -> Result<(), String> {
        let Some(frame) = self.frames.pop() else {
            return Ok(());
        };
        let value = match frame.collection {
            Collection::Sequence { items, .. } => Value::Array(items),
            Collection::Mapping { entries, .. } => Value::Object(entries),
        };
        let node = Node {
            value,
            size: frame.size,
            depth: frame.depth,
        };
        self.attach(node, frame.anchor, line)
    }

    /// Adds a node that has no frame of its own.
    fn put(&mut self, node: Node, anchor: usize, line: usize) -> Result<(), String> {
        self.note_item(line);
        self.attach(node, anchor, line)
    }

    fn note_item(&mut self, line: usize) {
        if let Some(Frame {
            collection: Collection::Sequence { is_items: true, .. },
            ..
        }) = self.frames.last()
        {
            self.item_lines.push(line);
        }
    }

    fn attach(&mut self, node: Node, anchor: usize, line: usize) -> Result<(), String> {
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        let deep = self.frames.len() + node.depth > DEEPEST;
        let Some(frame) = self.frames.last_mut() else {
            self.root = Some((node.value, self.root_line.unwrap_or(line)));
            return Ok(());
        };
        if deep {
            return Err("nested too deeply".to_owned());
        }
        frame.size += node.size;
        frame.depth = frame.depth.max(node.depth + 1);
        match &mut frame.collection {
            Collection::Sequence { items, .. } => items.push(node.value),
            Collection::Mapping {
                entries,
                written,
                key,
            } => match key.take() {
                None => *key = Some(Key::Name(key_text(node.value)?)),
                Some(Key::Merge) => merge(entries, node.value)?,
                Some(Key::Name(name)) => {
                    if !written.insert(name.clone()) {
                        self.repeated_keys.push((name.clone(), line));
                    }
                    entries.insert(name, node.value);
                }
            },
        }
        Ok(())
    }
}

/// The key that a node is. JSON has texts only.
fn key_text(value: Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text),
        Value::Bool(value) => Ok(value.to_string()),
        Value::Number(number) => Ok(match number.as_f64() {
            Some(value) if number.is_f64() => float_key(value),
            _ => number.to_string(),
        }),
        Value::Null => Err("a key is empty; the text of that name needs quotes".to_owned()),
        Value::Array(_) | Value::Object(_) => {
            Err("a key is a list or a map, not a text".to_owned())
        }
    }
}

/// Merges maps into one, as kubectl does: in the place of the merge key, so that what is written
/// below it wins; of several maps the first one wins.
fn merge(entries: &mut Map<String, Value>, merged: Value) -> Result<(), String> {
    match merged {
        Value::Object(map) => entries.extend(map),
        Value::Array(maps) => {
            for map in maps.into_iter().rev() {
                let Value::Object(map) = map else {
                    return Err(NO_MERGE.to_owned());
                };
                entries.extend(map);
            }
        }
        _ => return Err(NO_MERGE.to_owned()),
    }
    Ok(())
}

const NO_MERGE: &str = "the merge key << takes a map or a list of maps";

const YAML_TAGS: &str = "tag:yaml.org,2002:";

fn is_merge_key(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> bool {
    text == "<<"
        && match tag {
            None => style == ScalarStyle::Plain,
            Some(tag) => tag.suffix_in_namespace(YAML_TAGS).as_deref() == Some("merge"),
        }
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, String> {
    let wanted = match tag {
        None if style == ScalarStyle::Plain => None,
        None => return Ok(text.into()),
        Some(tag) => match tag.suffix_in_namespace(YAML_TAGS).as_deref() {
            Some("binary") => {
                return Err("the tag !!binary is not supported; leave it out".to_owned());
            }
            Some(core @ ("bool" | "int" | "float" | "null")) => Some(core.to_owned()),
            _ => return Ok(text.into()),
        },
    };
    let (found, value) = match resolve(text) {
        Scalar::Null => ("null", Value::Null),
        Scalar::Bool(value) => ("bool", value.into()),
        Scalar::Number(number) if wanted.as_deref() == Some("float") => ("float", number.into()),
        Scalar::Number(number) if number.is_f64() => ("float", number.into()),
        Scalar::Number(number) => ("int", number.into()),
        Scalar::NotFinite => {
            return Err(format!("{text} is a number that JSON does not have"));
        }
        Scalar::Text => ("str", text.into()),
    };
    match wanted {
        Some(wanted) if wanted != found => Err(format!("`{text}` is no !!{wanted}")),
        _ => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn values(text: &str) -> Vec<Value> {
        let documents = read(text);
        documents
            .into_iter()
            .map(|document| document.unwrap().value)
            .collect()
    }

    fn fault(text: &str) -> (usize, usize, String) {
        let mut faults: Vec<_> = read(text).into_iter().filter_map(Result::err).collect();
        assert_eq!(faults.len(), 1, "{faults:?}");
        let fault = faults.remove(0);
        (fault.number, fault.line, fault.message)
    }

    #[test]
    fn recorded_readings_of_kubectl() {
        let mut compared = 0;
        for line in include_str!("testdata/documents.jsonl").lines() {
            let record: Value = serde_json::from_str(line).unwrap();
            let text = record["text"].as_str().unwrap();
            let refused = record.get("error").is_some();
            match read(text).into_iter().next() {
                // YAML 1.2 admits a few escapes that kubectl does not know.
                Some(Ok(_)) if refused => {}
                Some(Ok(document)) => assert_eq!(document.value, record["value"], "{text}"),
                Some(Err(fault)) => assert!(refused, "{text}: {fault:?}"),
                None => assert_eq!(record["value"], Value::Null, "{text}"),
            }
            compared += 1;
        }
        assert!(compared > 50, "{compared}");
    }

    #[test]
    fn documents_are_numbered_and_have_lines() {
        let text =
            "# a licence\n---\na: 1\n---\n# nothing\n---\n\n# words\nb:\n  c: 2\n...\n---\n- d\n";
        let places: Vec<_> = read(text)
            .into_iter()
            .map(|document| document.unwrap())
            .map(|document| (document.number, document.line, document.value))
            .collect();
        assert_eq!(
            places,
            [
                (1, 3, json!({"a": 1})),
                (2, 4, json!(null)),
                (3, 9, json!({"b": {"c": 2}})),
                (4, 13, json!(["d"])),
            ]
        );
        assert_eq!(read(""), []);
    }

    #[test]
    fn a_broken_document_does_not_hide_the_next_ones() {
        let text = "a: 1\n---\nb: [1, 2\n---\nc: 3\n---\nd: \"\n---\ne: 5\n";
        let read = read(text);
        let found: Vec<_> = read
            .iter()
            .map(|document| match document {
                Ok(document) => (document.number, Some(&document.value)),
                Err(fault) => (fault.number, None),
            })
            .collect();
        assert_eq!(found[0], (1, Some(&json!({"a": 1}))));
        assert_eq!(found[1], (2, None));
        assert_eq!(found[2], (3, Some(&json!({"c": 3}))));
        assert_eq!(found[3], (4, None));
        assert_eq!(found.last(), Some(&(5, Some(&json!({"e": 5})))));
    }

    #[test]
    fn faults_have_lines() {
        for (text, line, message) in [
            (
                "a: 1\nb: .inf\n",
                2,
                ".inf is a number that JSON does not have",
            ),
            (
                "a: 1\n~: 2\n",
                2,
                "a key is empty; the text of that name needs quotes",
            ),
            (
                "a: 1\n? [b]\n: 2\n",
                2,
                "a key is a list or a map, not a text",
            ),
            (
                "a: &a\n  b: *a\n",
                2,
                "an alias stands for a value that contains it",
            ),
            (
                "a: 1\n<<: 2\n",
                2,
                "the merge key << takes a map or a list of maps",
            ),
            ("a: !!int x\n", 1, "`x` is no !!int"),
            (
                "a: !!binary eA==\n",
                1,
                "the tag !!binary is not supported; leave it out",
            ),
        ] {
            assert_eq!(fault(text), (1, line, message.to_owned()), "{text}");
        }
        let (_, line, message) = fault("a: 1\nb:\n\tc: 1\n");
        assert_eq!(line, 3, "{message}");
    }

    #[test]
    fn items_have_lines() {
        let documents =
            read("kind: List\nitems:\n- a: 1\n\n- b\n- {c: 1,\n   d: 2}\nmore: {items: [1]}\n");
        assert_eq!(documents[0].as_ref().unwrap().item_lines, [3, 5, 6]);
    }

    #[test]
    fn repeated_keys_are_noted_and_the_last_one_counts() {
        let documents = read("a:\n  b: 1\n  c: 2\n  b: 3\n");
        let document = documents[0].as_ref().unwrap();
        assert_eq!(document.value, json!({"a": {"b": 3, "c": 2}}));
        assert_eq!(document.repeated_keys, [("b".to_owned(), 4)]);
        let documents = read("x: &x {a: 1}\ny:\n  <<: *x\n  a: 2\n");
        assert!(documents[0].as_ref().unwrap().repeated_keys.is_empty());
    }

    #[test]
    fn anchors_belong_to_their_document() {
        assert_eq!(values("a: &a [1]\nb: *a\n")[0], json!({"a": [1], "b": [1]}));
        let (number, line, _) = fault("a: &a 1\n---\nb: *a\n");
        assert_eq!((number, line), (2, 3));
    }

    #[test]
    fn no_input_is_too_much() {
        use std::fmt::Write as _;
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..9 {
            let list = vec![format!("*a{}", level - 1); 10].join(", ");
            writeln!(bomb, "a{level}: &a{level} [{list}]").unwrap();
        }
        assert_eq!(fault(&bomb).2, "the aliases unfold to too much");
        for text in [
            "[".repeat(100_000),
            "- ".repeat(100_000),
            "a: {".repeat(1_000),
        ] {
            assert!(read(&text).iter().all(Result::is_err));
        }
        let mut ladder = "a0: &a0 [x]\n".to_owned();
        for level in 1..600 {
            writeln!(ladder, "a{level}: &a{level} [*a{}]", level - 1).unwrap();
        }
        assert_eq!(fault(&ladder).2, "nested too deeply");
    }

    #[test]
    fn many_comments_are_no_fault() {
        let text = format!("a:\n{}- 1\n", "# words\n".repeat(500));
        assert_eq!(values(&text), [json!({"a": [1]})]);
    }
}
