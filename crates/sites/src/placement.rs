//! Expressions that choose sites by their labels.
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
//! `and` and the comma are the same, and bind closer than `or`; parentheses group. `exists` comes after its key, as the
//! other operators do. Keys and values are those of labels. They may stand in single or double quotes; the words of
//! the language have to, where they are meant as keys or values.
//! (Contract `sites.md`, `placement.matchSiteLabels`; a missing label counts as in selectors of Kubernetes.)

mod parser;
pub mod record;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt};

/// What an expression may not be nested deeper than.
pub const MAX_DEPTH: usize = 64;

/// The words of the language.
const WORDS: [&str; 5] = ["and", "or", "in", "notin", "exists"];

/// An expression over the labels of a site.
///
/// # Guarantees
/// Printed and parsed again it is the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression(Node);

/// Why a text is no expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}, found {found} at byte {position}{before}")]
pub struct ParseError {
    /// Where, in bytes from the beginning of the text.
    pub position: usize,
    /// What could stand there.
    pub expected: String,
    /// What stands there.
    pub found: String,
    /// What is before it, as the end of a message.
    before: String,
}

/// Part of an expression. Neither kind of list has less than two parts, or one of its own kind as a part.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    All(Vec<Node>),
    Any(Vec<Node>),
    Label { key: String, test: Test },
}

/// What a label has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Equal(String),
    NotEqual(String),
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
}

impl Expression {
    /// Reads an expression.
    ///
    /// # Errors
    /// With the place of the first mistake and what could stand there. Parentheses deeper than [`MAX_DEPTH`] are one.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        parser::parse(text).map(Self)
    }

    /// Whether a site with these labels is meant.
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

/// A key or a value, in quotes where it would be taken for something else.
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
