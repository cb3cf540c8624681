//! Differences as text: a heading per object, followed by a unified diff in YAML.

pub mod json;
pub mod note;
pub mod outcome;
pub mod warning;

use std::fmt::Write as _;

use baton_engine::{Gvk, ObjectKey};
use baton_view::diff::{Pair, Section, Topic, outcome::Group};
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use self::{note::note, outcome::fate, warning::warning};
use crate::output::{Output, Paint};

/// Number of unchanged lines around a change.
const CONTEXT: usize = 3;

/// The names of the two sides, such as `revision 1` and `revision 2`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labels {
    /// Name of the side with removed lines.
    pub before: String,
    /// Name of the side with added lines.
    pub after: String,
}

impl Labels {
    /// The names of two sides.
    pub fn new(before: impl Into<String>, after: impl Into<String>) -> Self {
        Self {
            before: before.into(),
            after: after.into(),
        }
    }
}

/// The sections as text; empty if there are no sections.
pub fn render(sections: &[Section], labels: &Labels, output: Output) -> String {
    let mut text = String::new();
    let mut had_diff = false;
    for section in sections {
        if had_diff {
            text.push('\n');
        }
        let title = output.paint(Paint::Strong, &title(&section.topic));
        let verdict = output.paint(paint(section), &fate(&section.outcome));
        // Writing into a string cannot fail.
        let _ = writeln!(text, "{title}: {verdict}");
        for one in &section.notes {
            let _ = writeln!(text, "  {}", note(one));
        }
        for one in &section.warnings {
            let warning = output.paint(Paint::Bad, &format!("warning: {}", warning(one)));
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

/// The meaning of the outcome of a section.
pub fn paint(section: &Section) -> Paint {
    match section.outcome.group() {
        Group::Created => Paint::Good,
        Group::Changed | Group::Recreated => Paint::Warn,
        Group::Deleted | Group::Refused => Paint::Bad,
        _ => Paint::Dim,
    }
}

/// The title of a topic.
pub fn title(topic: &Topic) -> String {
    names(topic).0
}

/// The name of the files of a topic, for an external program.
pub fn file(topic: &Topic) -> String {
    names(topic).1
}

/// The title of a topic, and the name of its files.
fn names(topic: &Topic) -> (String, String) {
    let (title, file) = match topic {
        Topic::Object { gvk, key, phase } => {
            let phase = phase.as_ref().map(|phase| format!(" (phase {phase})"));
            let title = object_title(key) + &phase.unwrap_or_default();
            return (title, object_file(gvk, key));
        }
        Topic::Chain(kind, name) => {
            let title = format!("{}.{}/{name}", kind.singular(), kind.group);
            return (title.clone(), as_file(&title));
        }
        Topic::Application(kind, namespace, name) => {
            let title = format!("{} {namespace}/{name}", kind.singular());
            return (title, "application".to_owned());
        }
        Topic::Revision(number) => return (format!("revision {number}"), String::new()),
        Topic::Slices => ("slices", ""),
        Topic::Settings => ("labels, phases and probes", "revision"),
        Topic::Environment => ("chart, clusters and strategy", "environment"),
        Topic::Values => ("values", "values"),
        Topic::Manifests => ("rendered manifests", "manifests"),
        Topic::Upgrade => ("upgrade method", "upgrade"),
        Topic::Terms => ("upgrade terms", "terms"),
    };
    (title.to_owned(), file.to_owned())
}

/// The title of an object: `ConfigMap default/settings`, `Deployment.apps default/web`, `Namespace
/// prod`.
pub fn object_title(key: &ObjectKey) -> String {
    match key.namespace.as_str() {
        "" => key.to_string().replacen(" /", " ", 1),
        _ => key.to_string(),
    }
}

/// The file name of an object in the form of `kubectl diff`: `apps.v1.Deployment.default.web`.
fn object_file(gvk: &Gvk, key: &ObjectKey) -> String {
    let dot = if gvk.group.is_empty() { "" } else { "." };
    let (version, namespace) = (&gvk.version, &key.namespace);
    let name = format!(
        "{}{dot}{version}.{}.{namespace}.{}",
        gvk.group, gvk.kind, key.name
    );
    as_file(&name)
}

/// Makes a file name safe: names in a manifest can contain any character.
fn as_file(name: &str) -> String {
    name.replace(['/', '\\', '\0', ':'], "_")
}

/// An error text about slices that do not exist.
pub fn gone(slices: &[String]) -> String {
    match slices {
        [only] => format!("its slice {only} does not exist any more"),
        _ => format!("its slices {} do not exist any more", slices.join(", ")),
    }
}

/// A line of a unified diff, without its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffLine {
    /// The part of the diff.
    pub part: DiffPart,
    /// The text, with its sign.
    pub text: String,
}

/// The part of a unified diff that a line belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffPart {
    /// The name of a side.
    Side,
    /// The place of the lines that follow.
    Place,
    /// A line of the first side only.
    Removed,
    /// A line of the second side only.
    Added,
    /// A line of both sides.
    Same,
}

/// The unified diff of two sides; empty if they are equal.
pub fn lines(pair: &Pair, labels: &Labels) -> Vec<DiffLine> {
    let (before, after) = (yaml(pair.before()), yaml(pair.after()));
    let diff = TextDiff::from_lines(before.as_str(), after.as_str());
    let mut lines = Vec::new();
    let mut add = |part, text: &str| {
        let text = text.trim_end_matches('\n').to_owned();
        lines.push(DiffLine { part, text });
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
            add(DiffPart::Side, &format!("--- {before}"));
            add(DiffPart::Side, &format!("+++ {after}"));
        }
        add(DiffPart::Place, &hunk.header().to_string());
        for change in hunk.iter_changes() {
            let (sign, part) = match change.tag() {
                ChangeTag::Delete => ('-', DiffPart::Removed),
                ChangeTag::Insert => ('+', DiffPart::Added),
                ChangeTag::Equal => (' ', DiffPart::Same),
            };
            add(part, &format!("{sign}{}", change.value()));
        }
    }
    lines
}

/// The unified diff of two sides as text; empty if they are equal.
fn unified(pair: &Pair, labels: &Labels, output: Output) -> String {
    let mut text = String::new();
    for line in lines(pair, labels) {
        let paint = match line.part {
            DiffPart::Side => Some(Paint::Strong),
            DiffPart::Place => Some(Paint::Accent),
            DiffPart::Removed => Some(Paint::Bad),
            DiffPart::Added => Some(Paint::Good),
            DiffPart::Same => None,
        };
        match paint {
            Some(paint) => text.push_str(&output.paint(paint, &line.text)),
            None => text.push_str(&line.text),
        }
        text.push('\n');
    }
    text
}

/// One side as YAML; empty if the object does not exist on that side.
///
/// Long texts are not wrapped, because one more word at the beginning would change all of their
/// lines.
pub fn yaml(side: Option<&Value>) -> String {
    let Some(value) = side else {
        return String::new();
    };
    let options = serde_saphyr::ser_options! { folded_wrap_chars: usize::MAX };
    let text = serde_saphyr::to_string_with_options(value, options);
    // A fallback for errors of the writer: JSON is YAML as well.
    let mut text = text.unwrap_or_else(|_| format!("{value:#}"));
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use baton_apis::kinds;
    use baton_view::{
        chain::kind::ChainKind,
        diff::{
            note::ObjectNote,
            outcome::{DiffOutcome, RemovalTime},
            warning::Warning,
        },
    };
    use serde_json::json;

    use super::*;

    fn section(fate: DiffOutcome) -> Section {
        Section::new(object("v1", "ConfigMap", "shop", "web")).fate(fate)
    }

    fn object(version: &str, kind: &str, namespace: &str, name: &str) -> Topic {
        let gvk = Gvk::new(version, kind);
        Topic::Object {
            key: gvk.key(namespace, name),
            gvk,
            phase: None,
        }
    }

    #[test]
    fn names_of_files_are_no_paths() {
        for (topic, expected) in [
            (
                object("apps/v1", "Deployment", "shop", "web"),
                "apps.v1.Deployment.shop.web",
            ),
            (object("v1", "Namespace", "", "shop"), "v1.Namespace..shop"),
            (
                object(
                    "rbac.authorization.k8s.io/v1",
                    "ClusterRole",
                    "",
                    "system:web",
                ),
                "rbac.authorization.k8s.io.v1.ClusterRole..system_web",
            ),
            (
                object("v1", "../../x", "/etc", "pass\\wd"),
                "v1..._.._x._etc.pass_wd",
            ),
        ] {
            assert_eq!(file(&topic), expected);
        }
    }

    #[test]
    fn titles_of_topics() {
        let gvk = Gvk::new("apps/v1", "Deployment");
        let web = Topic::Object {
            key: gvk.key("shop", "web"),
            gvk,
            phase: Some("app".to_owned()),
        };
        for (topic, expected) in [
            (web, "Deployment.apps shop/web (phase app)"),
            (object("v1", "Namespace", "", "prod"), "Namespace prod"),
            (
                Topic::Chain(ChainKind::ObjectDeployment, "web".to_owned()),
                "objectdeployment.package-operator.run/web",
            ),
            (
                Topic::Application(
                    &kinds::SITE_APPLICATION,
                    "edge".to_owned(),
                    "shop".to_owned(),
                ),
                "siteapplication edge/shop",
            ),
            (Topic::Settings, "labels, phases and probes"),
        ] {
            assert_eq!(title(&topic), expected);
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
        let changed = section(DiffOutcome::Changed)
            .notes([ObjectNote::Changed {
                field: "phase",
                from: vec!["a".to_owned()],
                to: vec!["b".to_owned()],
            }])
            .pair(Pair::new(Some(object("x")), Some(object("y"))));
        let same =
            section(DiffOutcome::HandedOver).pair(Pair::new(Some(object("x")), Some(object("x"))));
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
        let note = ObjectNote::Origin("a note".to_owned());
        let mut removed = section(DiffOutcome::Deleted(RemovalTime::Available(2))).notes([note]);
        removed.warnings.push(Warning::Definition(None));
        assert_eq!(
            rendered(&[removed], false),
            "ConfigMap shop/web: deleted when revision 2 is available\n  a note\n  warning: all objects of its kind \
             are deleted with it, in all namespaces: you have no right to list them\n"
        );
    }

    #[test]
    fn objects_that_come_and_go() {
        let object = || Some(json!({"a": "b"}));
        let added = section(DiffOutcome::Added).pair(Pair::new(None, object()));
        let removed = section(DiffOutcome::Removed).pair(Pair::new(object(), None));
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
        let changed = section(DiffOutcome::Changed).pair(Pair::new(side("b"), side("c")));
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
            rendered(&[section(DiffOutcome::Refused("no".to_owned()))], true)
                .contains("\x1b[31mrefused")
        );
    }

    /// Texts of several lines are compared by line, long lines are not wrapped, and no text can
    /// pass for a line of the diff.
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
