//! Pages that are made when they are asked for, and are not kept up to date.

pub(crate) mod diff;
pub(crate) mod revision;

use baton_pages::html::{Text, badge};
use baton_text::diff::{
    DiffPart, Labels, lines, note::note, outcome::fate, paint, title, warning::warning,
};
use baton_view::diff::Section;
use maud::{Markup, html};

/// The number of lines of a diff that are shown, of all sections.
const MAX_LINES: usize = 20_000;
/// The number of lines that are shown of a section.
const MAX_OF_SECTION: usize = 3_000;

/// A page that is made once.
pub(crate) struct Report {
    /// The title.
    pub(crate) title: String,
    /// The content.
    pub(crate) content: Markup,
}

/// The sections of a comparison.
pub(crate) fn sections(sections: &[Section], labels: &Labels) -> Markup {
    let mut left = MAX_LINES;
    let parts: Vec<Markup> = sections
        .iter()
        .map(|section| {
            let lines = section.pair.as_ref().map(|pair| lines(pair, labels));
            let lines = lines.unwrap_or_default();
            let shown = lines.len().min(MAX_OF_SECTION).min(left);
            left -= shown;
            html! {
                section.diff {
                    h2 { (Text(&title(&section.topic))) " " (badge(paint(section), &fate(&section.outcome))) }
                    @for one in &section.notes { p.note { (Text(&note(one))) } }
                    @for one in &section.warnings { p.warning { "Warning: " (Text(&warning(one))) } }
                    @if shown > 0 {
                        pre tabindex="0" {
                            @for line in &lines[..shown] {
                                span.(part(line.part)) { (Text(&line.text)) } "\n"
                            }
                        }
                    }
                    @if lines.len() > shown {
                        p.note { (lines.len() - shown) " further lines are not shown" }
                    }
                }
            }
        })
        .collect();
    html! { @for part in &parts { (part) } }
}

/// The class of a line in the style sheet.
fn part(part: DiffPart) -> &'static str {
    match part {
        DiffPart::Side => "side",
        DiffPart::Place => "place",
        DiffPart::Removed => "removed",
        DiffPart::Added => "added",
        DiffPart::Same => "same",
    }
}
