//! The parts of helm's messages that are quoted: texts of the chart, and of helm.
//!
//! Templates, schemas and parsers quote values in any form, and templates change them first (`upper`,
//! `b64enc`). More people may read a condition than the Application. So nothing is quoted but:
//!
//! - paths of files of the chart, with lines and columns,
//! - expressions and names that are in the chart, at the places at which helm quotes them,
//! - texts of at least two words that are constant in a template: literals, their parts between the
//!   verbs of a format, and lines outside of actions,
//! - paths and rules of schemas,
//! - phrases of helm and of its parsers.
//!
//! This is the caller of [`baton_engine::redact`] for helm.

mod literals;
mod schema;

use std::{collections::BTreeSet, ops::Range};

use baton_engine::redact::excerpt::{Excerpt, HIDDEN, occurrences};

/// Limit in bytes of helm's messages that are reported: messages of conditions have a limit.
const MOST_CAUSE: usize = 2048;

/// The line after which a message consists of errors of schemas.
const SCHEMAS: &str = "values don't meet the specifications of the schema(s)";

/// Phrases of helm, of Go's templates, and of its parsers of YAML and JSON. They are quoted
/// wherever they occur.
const PHRASES: [&str; 76] = [
    "execution error at",
    "parse error at",
    "YAML parse error on",
    "error converting YAML to JSON",
    "error unmarshaling JSON",
    "while decoding JSON",
    "while parsing a block mapping",
    "while parsing a block collection",
    "while parsing a flow mapping",
    "while parsing a flow sequence",
    "mapping values are not allowed in this context",
    "block sequence entries are not allowed in this context",
    "could not find expected",
    "did not find expected key",
    "did not find expected node content",
    "did not find expected",
    "found character that cannot start any token",
    "found a tab character that violates indentation",
    "found unexpected end of stream",
    "found unknown escape character",
    "mapping key",
    "already defined",
    "cannot unmarshal string into Go value of type",
    "cannot unmarshal number into Go value of type",
    "cannot unmarshal bool into Go value of type",
    "cannot unmarshal array into Go value of type",
    "cannot unmarshal",
    "into Go value of type",
    "into Go struct field",
    "util.SimpleHead",
    "invalid character",
    "looking for beginning of value",
    "unexpected end of JSON input",
    "template",
    "executing",
    "error calling",
    "nil pointer evaluating interface {}",
    "nil data; no entry for key",
    "can't evaluate field",
    "in type interface {}",
    "in type string",
    "in type map[string]interface {}",
    "wrong type for value",
    "wrong number of args",
    "incompatible types for comparison",
    "invalid type for comparison",
    "range can't iterate over",
    "index out of range",
    "expected map[string]interface {}",
    "expected []interface {}",
    "expected string",
    "expected integer",
    "got map[string]interface {}",
    "got []interface {}",
    "got interface {}",
    "not defined",
    "no template",
    "associated with template",
    "cannot parse template",
    "unclosed action started at",
    "unterminated quoted string",
    "missing value for if",
    "missing value for range",
    "missing value for with",
    "unexpected {{end}}",
    "unexpected EOF",
    "undefined variable",
    "in operand",
    "in command",
    "invalid release name, must match regex",
    "release name",
    "found in Chart.yaml, but missing in charts/ directory",
    "rendering template has a nested reference name",
    "unable to execute template",
    "chart metadata is missing these dependencies",
    "an error occurred while checking for chart dependencies",
];

/// Phrases before which a word of the chart is a name: of a function, a template or a field.
const NAMES: [&str; 10] = [
    "error calling ",
    "function \"",
    "executing \"",
    "no template \"",
    "template \"",
    "nil pointer evaluating interface {}.",
    "can't evaluate field ",
    "wrong number of args for ",
    "no entry for key ",
    "missing in charts/ directory: ",
];

/// Phrases before a number of a line.
const LINES: [&str; 2] = ["yaml: line ", "line "];

/// A message of helm, and the parts of it that are public.
pub struct Message<'m> {
    excerpt: Excerpt<'m>,
    /// Expressions of templates, which are public if they are in the chart.
    expressions: Vec<Range<usize>>,
    /// Names, which are public if they are words of the chart, and the phrases before them.
    names: Vec<(usize, Range<usize>)>,
    /// Constant texts of the chart that the message contains.
    constants: BTreeSet<String>,
}

impl<'m> Message<'m> {
    /// Reads what helm wrote to its error output.
    pub fn of(words: &'m str) -> Self {
        let message = error(words);
        let mut excerpt = Excerpt::of(message);
        for phrase in PHRASES {
            excerpt.show_text(phrase);
        }
        for phrase in LINES {
            for part in occurrences(message, phrase) {
                let digits = digits(&message[part.end..]);
                if digits > 0 {
                    excerpt.show(part.start..part.end + digits);
                }
            }
        }
        // The versions are those of the chart and of helm.
        if message.starts_with("chart requires kubeVersion: ") {
            excerpt.show(0..message.len());
        }
        if message.starts_with(SCHEMAS) {
            schema::show(&mut excerpt);
        }
        let names = NAMES.iter().flat_map(|phrase| {
            occurrences(message, phrase).map(|part| {
                let name = part.end..part.end + word(&message[part.end..]);
                (part.start, name)
            })
        });
        let names = names.filter(|(_, name)| !name.is_empty()).collect();
        let expressions = occurrences(message, "at <").filter_map(|part| {
            let end = message[part.end..].find(">:")?;
            Some(part.end..part.end + end)
        });
        Self {
            expressions: expressions.collect(),
            names,
            constants: BTreeSet::new(),
            excerpt,
        }
    }

    /// Learns what is public by a file of the chart, with its path.
    pub fn learn(&mut self, path: &str, content: &str) {
        let message = self.excerpt.message();
        for part in occurrences(message, path) {
            let place = place(&message[part.end..]);
            self.excerpt.show(part.start..part.end + place);
        }
        if let Some((chart, _)) = path.rsplit_once("/templates/") {
            // Errors of schemas have a line with the name of the chart.
            let name = chart.rsplit('/').next().unwrap_or_default();
            self.excerpt.show_text(&format!("\n{name}:\n"));
        }
        let excerpt = &mut self.excerpt;
        self.expressions.retain(|part| {
            let text = &message[part.clone()];
            // Go shortens long expressions.
            let is_known = content.contains(text.strip_suffix("...").unwrap_or(text));
            if is_known {
                excerpt.show(part.start - "at <".len()..part.end + ">".len());
            }
            !is_known
        });
        self.names.retain(|(start, name)| {
            let mut found = occurrences(content, &message[name.clone()]);
            let is_known = found.next().is_some();
            if is_known {
                excerpt.show(*start..name.end);
            }
            !is_known
        });
        literals::visit(content, |text| {
            if message.contains(text) && !self.constants.contains(text) {
                self.constants.insert(text.to_owned());
            }
        });
    }

    /// The text for a condition.
    pub fn into_text(mut self) -> String {
        for text in &self.constants {
            self.excerpt.show_text(text);
        }
        if self.excerpt.message().is_empty() {
            return "helm printed no error".to_owned();
        }
        let mut text = self.excerpt.into_text();
        if text.len() > MOST_CAUSE {
            let end = text.floor_char_boundary(MOST_CAUSE);
            let rest = text.len() - end;
            text.truncate(end);
            text = format!("{text} [{rest} bytes more]");
        }
        if text.contains(HIDDEN) {
            text.push_str(" (texts that may contain values are not shown)");
        }
        text
    }
}

/// The error in helm's messages: the text after `Error:`, without advice on how to use helm by
/// hand.
fn error(words: &str) -> &str {
    let is_start = |at: &usize| *at == 0 || words[..*at].ends_with('\n');
    let mut starts = words.match_indices("Error: ").map(|(at, _)| at);
    let at = starts.find(is_start).map_or(0, |at| at + "Error: ".len());
    let error = words[at..].split("\n\nUse --debug").next();
    error.unwrap_or_default().trim()
}

/// The length of a place behind a path: `:3` or `:3:4`.
fn place(text: &str) -> usize {
    let mut length = 0;
    while let Some(rest) = text[length..].strip_prefix(':')
        && digits(rest) > 0
    {
        length += 1 + digits(rest);
    }
    length
}

/// Number of digits at the start of a text.
fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

/// The length of a name at the start of a text.
fn word(text: &str) -> usize {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-./".contains(byte);
    let word = &text[..text.bytes().take_while(is_part).count()];
    word.trim_end_matches(['.', '-', '/']).len()
}

#[cfg(test)]
mod tests;
