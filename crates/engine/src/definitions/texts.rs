//! Sentences about changes of definitions.

use std::fmt;

use baton_apis::constants::{ALLOW_DATA_LOSS, ANNOTATION_ALLOW_DATA_LOSS};

use super::{Affected, Cause, FieldStep, Loss, Note, Question};
use crate::names::for_message;

/// Number of changes that a message names.
const MAX_NAMED: usize = 5;
/// Number of characters of a rule that a message shows.
const MAX_RULE: usize = 80;

/// The text of a refusal; `by` is the question and its answer, if there was one.
pub(super) fn refusal(losses: &[Loss], by: Option<(&Question, &Affected)>) -> String {
    let mut named: Vec<String> = losses
        .iter()
        .take(MAX_NAMED)
        .map(ToString::to_string)
        .collect();
    if losses.len() > MAX_NAMED {
        named.push(format!("{} more", losses.len() - MAX_NAMED));
    }
    let version = losses.first().map_or("", |loss| loss.version.as_str());
    let place = if version.is_empty() {
        String::new()
    } else {
        format!("version {version}: ")
    };
    let affected = match by {
        Some((question, Affected::Object(namespace, name, _))) => {
            let (kind, namespace) = (&question.kind, for_message(namespace));
            let name = for_message(name);
            format!(" (it affects {kind} {namespace}/{name})")
        }
        Some((question, Affected::Unknown(cause))) => format!(
            " (the objects of kind {} cannot be listed, so they count as affected: {cause})",
            question.kind
        ),
        _ => String::new(),
    };
    format!(
        "the change would lose data of stored objects: {place}{}{affected}; with the annotation \
             {ANNOTATION_ALLOW_DATA_LOSS}={ALLOW_DATA_LOSS} on the CustomResourceDefinition, it is made nevertheless",
        named.join(", ")
    )
}

/// A path as `.spec.list[].name`; `.*` stands for all values of a map.
pub(super) fn path(steps: &[FieldStep]) -> String {
    let mut text = String::new();
    for step in steps {
        match step {
            FieldStep::Field(name) => {
                text.push('.');
                text.push_str(&for_message(name));
            }
            FieldStep::Items => text.push_str("[]"),
            FieldStep::Values => text.push_str(".*"),
        }
    }
    if text.is_empty() {
        text.push('.');
    }
    text
}

/// Prints the change without the name of the version.
impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = path(&self.path);
        match &self.cause {
            Cause::VersionRemoved => {
                f.write_str("the version is removed, and objects are stored in it")
            }
            Cause::Moved(field, from, to) => {
                let (from, to) = (for_message(from), for_message(to));
                write!(f, "{field} changes from {from} to {to}")
            }
            Cause::Removed(_) => write!(f, "{path} is removed"),
            Cause::UnknownRemoved(_) => write!(f, "{path} keeps no unknown fields any more"),
            Cause::Required(name) => {
                let (path, name) = (path.trim_end_matches('.'), for_message(name));
                write!(f, "{path}.{name} becomes required, and has no default")
            }
            Cause::Type(from, to) => {
                let (from, to) = (for_message(from), for_message(to));
                write!(f, "the type of {path} changes from {from} to {to}")
            }
            Cause::NotNullable => write!(f, "{path} may not be null any more"),
            Cause::Narrower(keyword) => write!(f, "{path} has a narrower {keyword}"),
            Cause::Default(_) => write!(f, "the default of {path} changes"),
            Cause::TooDeep => write!(f, "{path} is nested too deeply to be compared"),
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::VersionRemoved(version) => write!(f, "version {version} is removed"),
            Self::NotServed(version) => write!(f, "version {version} is not served any more"),
            Self::Rule(version, steps, rule) => {
                let short: String = rule.chars().take(MAX_RULE).collect();
                let dots = if short.len() < rule.len() { "..." } else { "" };
                write!(
                    f,
                    "version {version}: {} has a new rule: {short}{dots}",
                    path(steps)
                )
            }
        }
    }
}
