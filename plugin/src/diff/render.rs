//! Differences as text: a heading per object and a unified diff of YAML below it.

use std::fmt::Write as _;

use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use super::{Pair, Section, Tone};
use crate::output::{Output, Paint};

/// Lines around a change that are shown as well.
const CONTEXT: usize = 3;

/// What the two sides are called, such as `revision 1` and `revision 2`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labels {
    /// The first side.
    pub before: String,
    /// The second side.
    pub after: String,
}

impl Labels {
    /// Two labels.
    #[must_use]
    pub fn new(before: impl Into<String>, after: impl Into<String>) -> Self {
        Self {
            before: before.into(),
            after: after.into(),
        }
    }
}

/// The text; empty when there are no sections.
#[must_use]
pub fn render(sections: &[Section], labels: &Labels, output: Output) -> String {
    let mut text = String::new();
    let mut had_diff = false;
    for section in sections {
        if had_diff {
            text.push('\n');
        }
        let title = output.paint(Paint::Strong, &section.title);
        let verdict = match section.tone {
            Tone::Added => output.paint(Paint::Good, &section.verdict),
            Tone::Changed => output.paint(Paint::Warn, &section.verdict),
            Tone::Removed | Tone::Bad => output.paint(Paint::Bad, &section.verdict),
            Tone::Same => output.paint(Paint::Dim, &section.verdict),
        };
        // Writing into a string cannot fail.
        let _ = writeln!(text, "{title}: {verdict}");
        for note in &section.notes {
            let _ = writeln!(text, "  {note}");
        }
        let diff = section
            .pair
            .as_ref()
            .map(|pair| unified(pair, labels, output));
        let diff = diff.unwrap_or_default();
        had_diff = !diff.is_empty();
        text.push_str(&diff);
    }
    text
}

/// The unified diff of two sides; empty when they are equal.
fn unified(pair: &Pair, labels: &Labels, output: Output) -> String {
    let (before, after) = (yaml(pair.before()), yaml(pair.after()));
    let diff = TextDiff::from_lines(before.as_str(), after.as_str());
    let mut text = String::new();
    let mut line = |paint: Option<Paint>, line: &str| {
        let line = line.trim_end_matches('\n');
        match paint {
            Some(paint) => text.push_str(&output.paint(paint, line)),
            None => text.push_str(line),
        }
        text.push('\n');
    };
    let label = |side: Option<&Value>, label: &str| {
        if side.is_some() { label } else { "/dev/null" }.to_owned()
    };
    for (index, hunk) in diff
        .unified_diff()
        .context_radius(CONTEXT)
        .iter_hunks()
        .enumerate()
    {
        if index == 0 {
            let (before, after) = (
                label(pair.before(), &labels.before),
                label(pair.after(), &labels.after),
            );
            line(Some(Paint::Strong), &format!("--- {before}"));
            line(Some(Paint::Strong), &format!("+++ {after}"));
        }
        line(Some(Paint::Accent), &hunk.header().to_string());
        for change in hunk.iter_changes() {
            let (sign, paint) = match change.tag() {
                ChangeTag::Delete => ('-', Some(Paint::Bad)),
                ChangeTag::Insert => ('+', Some(Paint::Good)),
                ChangeTag::Equal => (' ', None),
            };
            line(paint, &format!("{sign}{}", change.value()));
        }
    }
    text
}

/// One side as YAML; empty where the object does not exist.
///
/// Long texts are not wrapped: a word more at their beginning would change all of their lines.
#[must_use]
pub fn yaml(side: Option<&Value>) -> String {
    let Some(value) = side else {
        return String::new();
    };
    let options = serde_saphyr::ser_options! { folded_wrap_chars: usize::MAX };
    let text = serde_saphyr::to_string_with_options(value, options);
    // JSON is YAML, should the other writer refuse something.
    let mut text = text.unwrap_or_else(|_| format!("{value:#}"));
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}
