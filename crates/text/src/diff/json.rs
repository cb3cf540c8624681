//! Differences as a value for programs.

use baton_view::diff::{Section, outcome::Group};
use serde_json::{Value, json};

use super::{note::note, outcome::fate, title, warning::warning};

/// The sections as a value.
pub fn value(sections: &[Section]) -> Value {
    json!({
        "differs": sections.iter().any(Section::differs),
        "refused": sections.iter().any(Section::is_refused),
        "sections": sections.iter().map(section).collect::<Vec<_>>(),
    })
}

fn section(section: &Section) -> Value {
    let pair = section.pair.as_ref();
    json!({
        "subject": title(&section.topic),
        "change": group(section.outcome.group()),
        "message": fate(&section.outcome),
        "notes": section.notes.iter().map(note).collect::<Vec<_>>(),
        "warnings": section.warnings.iter().map(warning).collect::<Vec<_>>(),
        "before": pair.and_then(|pair| pair.before()),
        "after": pair.and_then(|pair| pair.after()),
    })
}

fn group(group: Group) -> &'static str {
    match group {
        Group::Created => "Created",
        Group::Adopted => "Adopted",
        Group::Changed => "Changed",
        Group::Recreated => "Recreated",
        Group::HandedOver => "HandedOver",
        Group::Left => "Unchanged",
        Group::NotCompared => "NotCompared",
        Group::Kept => "Kept",
        Group::Deleted => "Deleted",
        Group::Refused => "Refused",
    }
}

#[cfg(test)]
mod tests {
    use baton_view::diff::{Pair, Topic, outcome::DiffOutcome};

    use super::*;

    #[test]
    fn a_section_has_both_sides_and_its_change() {
        let pair = Pair::new(Some(json!({"a": 1})), Some(json!({"a": 2})));
        let changed = Section::new(Topic::Settings).fate(DiffOutcome::Changed);
        let refused = Section::new(Topic::Slices).fate(DiffOutcome::Twice);
        let value = value(&[changed.pair(pair), refused]);
        assert_eq!(
            (&value["differs"], &value["refused"]),
            (&json!(true), &json!(true))
        );
        let [changed, refused] = [0, 1].map(|at| &value["sections"][at]);
        assert_eq!(
            (&changed["change"], &changed["after"]),
            (&json!("Changed"), &json!({"a": 2}))
        );
        assert_eq!(
            (&refused["change"], &refused["before"]),
            (&json!("Refused"), &Value::Null)
        );
        assert_eq!(refused["message"], "refused: it is in the revision already");
    }
}
