//! Documents of a YAML stream, read as kubectl and helm read them, with their lines.
//!
//! `serde_saphyr`, which reads and writes YAML elsewhere, is not used: for untyped values its
//! results differ in 14 of the 102 recorded readings of kubectl (keys such as `on` and `y` are
//! truth values, merged entries have the position of the merge key, tags change the type of a
//! scalar); it reads nothing after an invalid document; and it provides neither the lines of the
//! items of a list nor those of repeated keys.

pub mod scalar;

use std::collections::{BTreeSet, HashMap};

use granit_parser::{Event, Parser, ScalarStyle, StrInput, Tag};
use serde_json::{Map, Value};

use scalar::{Scalar, float_key, resolve};

/// A document and its position.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParsedDocument {
    /// Number of the document in its stream, from 1. Empty documents count.
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

/// The reason that a document cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Number of the document, from 1.
    pub number: usize,
    /// Line of the error, from 1.
    pub line: usize,
    /// Description of the error, for people.
    pub message: String,
}

/// Limit in bytes of the values that the aliases of one document expand to: far more than manifests
/// need.
const MOST_ALIASED: usize = 16 << 20;
/// Size in bytes of a value without its content.
const VALUE: usize = size_of::<Value>();
/// Size in bytes of the first node of a map, which has room for 11 entries.
const MAP: usize = 11 * (VALUE + size_of::<String>()) + 16;
/// Size in bytes of an entry of a map, if nodes are half full.
const ENTRY: usize = MAP / 6;
/// Limit of the nesting of nodes, those behind aliases included.
const MAX_DEPTH: usize = 256;

/// Reads all documents of a stream. Documents after an unreadable one are read as well.
///
/// # Guarantees
/// A document has the same meaning as for kubectl: scalars are those of YAML 1.1, other keys than
/// strings are converted to strings, the last of equal keys counts, and merged entries have the
/// position of their merge key.
pub fn read(text: &str) -> Vec<Result<ParsedDocument, Unreadable>> {
    read_within(text, &mut Memory::new(usize::MAX))
}

/// Reads all documents of a stream, as [`read`], into values of a limited memory.
///
/// # Guarantees
/// The document whose values would take more, and all later ones, are unreadable, and take no memory.
pub fn read_within(text: &str, memory: &mut Memory) -> Vec<Result<ParsedDocument, Unreadable>> {
    // Comments are not needed, and many of them in a row would be an error.
    let options = granit_parser::options! { emit_comments: false };
    let mut parser = Parser::new_from_str_with_options(text, options);
    let mut documents = Vec::new();
    let mut number = 0;
    loop {
        let mut reader = Reader::new(&mut parser, memory);
        let document = match reader.event() {
            Ok(Event::StreamEnd) => break,
            Ok(Event::DocumentStart(..)) => reader.document(number + 1),
            Ok(_) => continue,
            Err(message) => Err(message),
        };
        number += 1;
        let line = reader.line;
        let is_broken = document.is_err();
        documents.push(document.map_err(|message| Unreadable {
            number,
            line,
            message,
        }));
        if is_broken && !matches!(parser.proceed_next_document(), Ok(true)) {
            break;
        }
    }
    documents
}

/// The memory for the values of one or several streams. The bytes are estimated from the sizes of
/// texts, lists and maps.
#[derive(Debug)]
pub struct Memory {
    /// Limit in bytes.
    most: usize,
    /// Bytes of the values so far, also of those that were dropped.
    taken: usize,
}

impl Memory {
    /// A memory of at most so many bytes, all of which are free.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { most, taken: 0 }
    }

    /// The bytes of the values that were read so far.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// Counts bytes before they are allocated.
    fn take(&mut self, bytes: usize) -> Result<(), String> {
        self.taken = self.taken.saturating_add(bytes);
        if self.taken > self.most {
            let most = self.most;
            return Err(format!("the values take more than {most} bytes of memory"));
        }
        Ok(())
    }
}

/// A complete node.
#[derive(Clone)]
struct Node {
    value: Value,
    /// Bytes of memory of its content.
    bytes: usize,
    /// Number of levels, itself included.
    depth: usize,
}

impl Node {
    fn new(value: Value) -> Self {
        let bytes = value.as_str().map_or(0, str::len);
        Self {
            value,
            bytes,
            depth: 1,
        }
    }

    /// Counts a contained node, and returns its value.
    fn take(&mut self, node: Self) -> Value {
        self.bytes += node.bytes;
        self.depth = self.depth.max(node.depth + 1);
        node.value
    }
}

/// Reads one document.
struct Reader<'p, 't> {
    parser: &'p mut Parser<'t, StrInput<'t>>,
    memory: &'p mut Memory,
    /// Line of the last event.
    line: usize,
    anchors: HashMap<usize, Node>,
    aliased: usize,
    item_lines: Vec<usize>,
    repeated_keys: Vec<(String, usize)>,
}

impl<'p, 't> Reader<'p, 't> {
    fn new(parser: &'p mut Parser<'t, StrInput<'t>>, memory: &'p mut Memory) -> Self {
        Self {
            parser,
            memory,
            line: 1,
            anchors: HashMap::new(),
            aliased: 0,
            item_lines: Vec::new(),
            repeated_keys: Vec::new(),
        }
    }

    fn event(&mut self) -> Result<Event<'t>, String> {
        match self.parser.next_event() {
            None => Ok(Event::StreamEnd),
            Some(Ok((event, span))) => {
                self.line = span.start.line();
                Ok(event)
            }
            Some(Err(error)) => {
                self.line = error.marker().line();
                Err(error.info())
            }
        }
    }

    fn document(&mut self, number: usize) -> Result<ParsedDocument, String> {
        let mut line = self.line;
        let mut value = Value::Null;
        loop {
            match self.event()? {
                Event::DocumentEnd | Event::StreamEnd => break,
                event => {
                    line = self.line;
                    value = self.node(event, 0, false)?.value;
                }
            }
        }
        Ok(ParsedDocument {
            number,
            line,
            value,
            item_lines: std::mem::take(&mut self.item_lines),
            repeated_keys: std::mem::take(&mut self.repeated_keys),
        })
    }

    /// Reads the node that begins with an event, at this level. If `is_items`, the lines of its
    /// elements are recorded.
    fn node(&mut self, event: Event<'t>, level: usize, is_items: bool) -> Result<Node, String> {
        let (node, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.memory.take(text.len())?;
                let value = scalar(&text, style, tag.as_deref())?;
                (Node::new(value), anchor)
            }
            Event::Alias(id) => {
                // The parser has seen the anchor, so the alias is inside of its own anchor's value.
                let node = self.anchors.get(&id);
                let node = node.ok_or("an alias stands for a value that contains it")?;
                self.aliased += node.bytes + VALUE;
                if self.aliased > MOST_ALIASED {
                    let message = format!("the aliases expand to more than {MOST_ALIASED} bytes");
                    return Err(message);
                }
                self.memory.take(node.bytes)?;
                (node.clone(), 0)
            }
            Event::SequenceStart(..) | Event::MappingStart(..) if level >= MAX_DEPTH => {
                return Err(too_deep());
            }
            Event::SequenceStart(_, anchor, _) => (self.sequence(level, is_items)?, anchor),
            Event::MappingStart(_, anchor, _) => (self.mapping(level)?, anchor),
            _ => return Err("a value is missing".to_owned()),
        };
        if level > 0 && level + node.depth > MAX_DEPTH {
            return Err(too_deep());
        }
        if anchor != 0 {
            self.memory.take(node.bytes + VALUE)?;
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn sequence(&mut self, level: usize, is_items: bool) -> Result<Node, String> {
        let mut node = Node::new(Value::Null);
        let mut items = Vec::new();
        loop {
            let event = self.event()?;
            if matches!(event, Event::SequenceEnd) {
                node.value = items.into();
                return Ok(node);
            }
            if is_items {
                self.item_lines.push(self.line);
            }
            let item = self.node(event, level + 1, false)?;
            // A list has room for up to twice its elements.
            self.memory.take(2 * VALUE)?;
            node.bytes += 2 * VALUE;
            items.push(node.take(item));
        }
    }

    fn mapping(&mut self, level: usize) -> Result<Node, String> {
        let mut node = Node::new(Value::Null);
        let mut entries = Map::new();
        // The keys that are written in this map, as opposed to merged ones.
        let mut written = BTreeSet::new();
        loop {
            let key = match self.event()? {
                Event::MappingEnd => {
                    node.value = entries.into();
                    return Ok(node);
                }
                Event::Scalar(text, style, _, tag)
                    if is_merge_key(&text, style, tag.as_deref()) =>
                {
                    let event = self.event()?;
                    let merged = self.node(event, level + 1, false)?;
                    merge(&mut entries, node.take(merged))?;
                    continue;
                }
                Event::SequenceStart(..) | Event::MappingStart(..) => {
                    return Err(NO_KEY.to_owned());
                }
                event => self.node(event, level + 1, false)?,
            };
            let bytes = if entries.is_empty() { MAP } else { ENTRY };
            self.memory.take(bytes)?;
            node.bytes += bytes;
            let key = key_text(node.take(key))?;
            if !written.insert(key.clone()) {
                self.repeated_keys.push((key.clone(), self.line));
            }
            let event = self.event()?;
            let value = self.node(event, level + 1, level == 0 && key == "items")?;
            entries.insert(key, node.take(value));
        }
    }
}

fn too_deep() -> String {
    format!("values are nested more than {MAX_DEPTH} levels deep")
}

const NO_KEY: &str = "a key is a list or a map, not a text";

/// The key for a value. JSON has only strings as keys.
fn key_text(value: Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text),
        Value::Bool(value) => Ok(value.to_string()),
        Value::Number(number) => Ok(match number.as_f64() {
            Some(value) if number.is_f64() => float_key(value),
            _ => number.to_string(),
        }),
        Value::Null => Err("a key is null; a key that is a text needs quotes".to_owned()),
        Value::Array(_) | Value::Object(_) => Err(NO_KEY.to_owned()),
    }
}

/// Inserts the entries of a merge key, as kubectl does: at the position of the merge key, so that
/// later keys replace merged ones. Of several maps the first one has precedence.
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
        Some(wanted) if wanted != found => Err(format!("a scalar is no !!{wanted}")),
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

    fn error(text: &str) -> (usize, usize, String) {
        let mut errors: Vec<_> = read(text).into_iter().filter_map(Result::err).collect();
        assert_eq!(errors.len(), 1, "{errors:?}");
        let error = errors.remove(0);
        (error.number, error.line, error.message)
    }

    #[test]
    fn values_are_read_as_recorded_from_kubectl() {
        let mut compared = 0;
        for line in include_str!("testdata/documents.jsonl").lines() {
            let record: Value = serde_json::from_str(line).unwrap();
            let text = record["text"].as_str().unwrap();
            let refused = record.get("error").is_some();
            match read(text).into_iter().next() {
                // YAML 1.2 allows a few escapes that kubectl refuses.
                Some(Ok(_)) if refused => {}
                Some(Ok(document)) => assert_eq!(document.value, record["value"], "{text}"),
                Some(Err(error)) => assert!(refused, "{text}: {error:?}"),
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
    fn documents_after_a_broken_one_are_read() {
        let text = "a: 1\n---\nb: [1, 2\n---\nc: 3\n---\nd: \"\n---\ne: 5\n";
        let read = read(text);
        let found: Vec<_> = read
            .iter()
            .map(|document| match document {
                Ok(document) => (document.number, Some(&document.value)),
                Err(error) => (error.number, None),
            })
            .collect();
        assert_eq!(found[0], (1, Some(&json!({"a": 1}))));
        assert_eq!(found[1], (2, None));
        assert_eq!(found[2], (3, Some(&json!({"c": 3}))));
        assert_eq!(found[3], (4, None));
        assert_eq!(found.last(), Some(&(5, Some(&json!({"e": 5})))));
    }

    #[test]
    fn errors_have_lines() {
        for (text, line, message) in [
            (
                "a: 1\nb: .inf\n",
                2,
                ".inf is a number that JSON does not have",
            ),
            (
                "a: 1\n~: 2\n",
                2,
                "a key is null; a key that is a text needs quotes",
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
            ("a: !!int x\n", 1, "a scalar is no !!int"),
            (
                "a: !!binary eA==\n",
                1,
                "the tag !!binary is not supported; leave it out",
            ),
        ] {
            assert_eq!(error(text), (1, line, message.to_owned()), "{text}");
        }
        let (_, line, message) = error("a: 1\nb:\n\tc: 1\n");
        assert_eq!(line, 3, "{message}");
    }

    #[test]
    fn items_have_lines() {
        let documents =
            read("kind: List\nitems:\n- a: 1\n\n- b\n- {c: 1,\n   d: 2}\nmore: {items: [1]}\n");
        assert_eq!(documents[0].as_ref().unwrap().item_lines, [3, 5, 6]);
    }

    #[test]
    fn repeated_keys_are_recorded_and_the_last_one_counts() {
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
        let (number, line, _) = error("a: &a 1\n---\nb: *a\n");
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
        let message = "the aliases expand to more than 16777216 bytes";
        assert_eq!(error(&bomb).2, message);
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
        let message = "values are nested more than 256 levels deep";
        assert_eq!(error(&ladder).2, message);
    }

    #[test]
    fn many_comments_are_read() {
        let text = format!("a:\n{}- 1\n", "# words\n".repeat(500));
        assert_eq!(values(&text), [json!({"a": [1]})]);
    }
}
