//! Expressions that select sites by their labels.
//!
//! ```text
//! system/type = edge and (region in (eu, us) or rack exists)
//! ```
//!
//! | written | the label has to |
//! |---|---|
//! | `key = value`, `key == value` | be there with this value |
//! | `key != value` | have another value, or be missing |
//! | `key in (a, b)` | be there with one of these values |
//! | `key notin (a, b)` | have none of these values, or be missing |
//! | `key exists` | be there |
//!
//! `and` and the comma have the same meaning, and bind closer than `or`; parentheses group.
//! `exists` follows its key, as the other operators do. Keys and values are those of labels. They
//! may be in single or double quotes. The words of the language have to be in quotes when they are
//! keys or values. A missing label counts as in selectors of Kubernetes.

mod parser;
pub mod record;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt};

/// Maximum nesting depth of an expression.
pub const MAX_DEPTH: usize = 64;

/// The words of the language.
const WORDS: [&str; 5] = ["and", "or", "in", "notin", "exists"];

/// An expression over the labels of a site.
///
/// # Guarantees
/// An expression that is printed and parsed again is unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression(Node);

/// The reason that a text is not an expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}, found {found} at byte {position}{before}")]
pub struct ParseError {
    /// Position of the error, in bytes from the start of the text.
    pub position: usize,
    /// Expected text at the position.
    pub expected: String,
    /// Text that was found at the position.
    pub found: String,
    /// Text before the position, as the end of a message.
    before: String,
}

/// A part of an expression. Both kinds of lists have at least two parts, and no part of their own
/// kind.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    All(Vec<Node>),
    Any(Vec<Node>),
    Label { key: String, test: Test },
}

/// A condition for a label.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Equal(String),
    NotEqual(String),
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
}

impl Expression {
    /// Parses an expression.
    ///
    /// # Errors
    /// With the position of the first error, and the expected text. Parentheses deeper than
    /// [`MAX_DEPTH`] are an error.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        parser::parse(text).map(Self)
    }

    /// True if a site with these labels is selected.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.matches(labels)
    }
}

impl Node {
    fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        match self {
            Self::All(parts) => parts.iter().all(|part| part.matches(labels)),
            Self::Any(parts) => parts.iter().any(|part| part.matches(labels)),
            Self::Label { key, test } => test.accepts(labels.get(key)),
        }
    }
}

impl Test {
    fn accepts(&self, value: Option<&String>) -> bool {
        match self {
            Self::Equal(wanted) => value == Some(wanted),
            Self::NotEqual(other) => value != Some(other),
            Self::In(wanted) => value.is_some_and(|value| wanted.contains(value)),
            Self::NotIn(others) => value.is_none_or(|value| !others.contains(value)),
            Self::Exists => value.is_some(),
        }
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (parts, word) = match self {
            Self::All(parts) => (parts, " and "),
            Self::Any(parts) => (parts, " or "),
            Self::Label { key, test } => return write!(f, "{} {test}", Literal(key)),
        };
        for (at, part) in parts.iter().enumerate() {
            if at > 0 {
                f.write_str(word)?;
            }
            match part {
                Self::Label { .. } => part.fmt(f)?,
                Self::All(_) | Self::Any(_) => write!(f, "({part})")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (operator, values) = match self {
            Self::Equal(value) => return write!(f, "= {}", Literal(value)),
            Self::NotEqual(value) => return write!(f, "!= {}", Literal(value)),
            Self::Exists => return f.write_str("exists"),
            Self::In(values) => ("in", values),
            Self::NotIn(values) => ("notin", values),
        };
        write!(f, "{operator} (")?;
        for (at, value) in values.iter().enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            write!(f, "{comma}{}", Literal(value))?;
        }
        f.write_str(")")
    }
}

/// A key or a value, in quotes if it could be mistaken for something else.
struct Literal<'a>(&'a str);

impl fmt::Display for Literal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() || WORDS.contains(&self.0) {
            write!(f, "'{}'", self.0)
        } else {
            f.write_str(self.0)
        }
    }
}
