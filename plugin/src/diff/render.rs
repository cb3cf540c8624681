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
pub(crate) struct Labels {
    pub(crate) before: String,
    pub(crate) after: String,
}

impl Labels {
    pub(crate) fn new(before: impl Into<String>, after: impl Into<String>) -> Self {
        Self {
            before: before.into(),
            after: after.into(),
        }
    }
}

/// The text; empty when there are no sections.
pub(crate) fn render(sections: &[Section], labels: &Labels, output: Output) -> String {
    let mut text = String::new();
    let mut had_diff = false;
    for section in sections {
        if had_diff {
            text.push('\n');
        }
        let title = output.paint(Paint::Strong, &section.title);
        let paint = match section.tone() {
            Tone::Added => Paint::Good,
            Tone::Changed => Paint::Warn,
            Tone::Removed | Tone::Bad => Paint::Bad,
            Tone::Same => Paint::Dim,
        };
        let verdict = output.paint(paint, &section.fate.to_string());
        // Writing into a string cannot fail.
        let _ = writeln!(text, "{title}: {verdict}");
        for note in &section.notes {
            let _ = writeln!(text, "  {note}");
        }
        for warning in &section.warnings {
            let warning = output.paint(Paint::Bad, &format!("warning: {warning}"));
            let _ = writeln!(text, "  {warning}");
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
pub(crate) fn yaml(side: Option<&Value>) -> String {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::fate::Fate, *};

    fn section(fate: Fate) -> Section {
        Section {
            file: String::new(),
            title: "ConfigMap shop/web".to_owned(),
            fate,
            notes: Vec::new(),
            warnings: Vec::new(),
            pair: None,
        }
    }

    fn rendered(sections: &[Section], colors: bool) -> String {
        let output = Output {
            colors,
            ..Output::plain()
        };
        render(sections, &Labels::new("revision 1", "revision 2"), output)
    }

    #[test]
    fn a_change_with_what_is_around_it() {
        let object = |value: &str| {
            json!({"a": "1", "b": "2", "c": "3", "d": value, "e": "5", "f": "6", "g": "7",
            "h": "8"})
        };
        let changed = section(Fate::Changed)
            .note("phase: a -> b")
            .pair(Pair::new(Some(object("x")), Some(object("y"))));
        let same = section(Fate::HandedOver).pair(Pair::new(Some(object("x")), Some(object("x"))));
        assert_eq!(
            rendered(&[same.clone(), changed, same.clone(), same], false),
            "\
ConfigMap shop/web: handed over unchanged
ConfigMap shop/web: changed
  phase: a -> b
--- revision 1
+++ revision 2
@@ -1,7 +1,7 @@
 a: \"1\"
 b: \"2\"
 c: \"3\"
-d: x
+d: \"y\"
 e: \"5\"
 f: \"6\"
 g: \"7\"

ConfigMap shop/web: handed over unchanged
ConfigMap shop/web: handed over unchanged
"
        );
        assert_eq!(rendered(&[], false), "");
    }

    #[test]
    fn warnings_follow_the_notes() {
        let mut removed = section(Fate::Deleted("later".to_owned())).note("a note");
        removed.warnings.push("its data goes along".to_owned());
        assert_eq!(
            rendered(&[removed], false),
            "ConfigMap shop/web: deleted later\n  a note\n  warning: its data goes along\n"
        );
    }

    #[test]
    fn objects_that_come_and_go() {
        let object = || Some(json!({"a": "b"}));
        let added = section(Fate::Added).pair(Pair::new(None, object()));
        let removed = section(Fate::Removed).pair(Pair::new(object(), None));
        assert_eq!(
            rendered(&[added, removed], false),
            "\
ConfigMap shop/web: added
--- /dev/null
+++ revision 2
@@ -0,0 +1 @@
+a: b

ConfigMap shop/web: removed
--- revision 1
+++ /dev/null
@@ -1 +0,0 @@
-a: b
"
        );
    }

    #[test]
    fn verdicts_and_lines_are_coloured() {
        let side = |value: &str| Some(json!({ "a": value }));
        let changed = section(Fate::Changed).pair(Pair::new(side("b"), side("c")));
        assert_eq!(
            rendered(&[changed], true),
            "\
\x1b[1mConfigMap shop/web\x1b[0m: \x1b[33mchanged\x1b[0m
\x1b[1m--- revision 1\x1b[0m
\x1b[1m+++ revision 2\x1b[0m
\x1b[36m@@ -1 +1 @@\x1b[0m
\x1b[31m-a: b\x1b[0m
\x1b[32m+a: c\x1b[0m
"
        );
        assert!(
            rendered(&[section(Fate::Refused("no".to_owned()))], true).contains("\x1b[31mrefused")
        );
    }

    /// Texts of several lines are compared by line, long ones are not wrapped, and what a text holds
    /// cannot pass for a line of the diff.
    #[test]
    fn long_lines_stay_whole() {
        let words = "word ".repeat(60);
        let text = yaml(Some(
            &json!({ "long": words.trim_end(), "lines": "one\ntwo\n+three\n" }),
        ));
        assert_eq!(text.lines().count(), 5, "{text}");
        assert!(text.contains("  one\n  two\n  +three\n"), "{text}");
        let parsed: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(parsed["long"], words.trim_end());
        assert_eq!(yaml(None), "");
    }
}
