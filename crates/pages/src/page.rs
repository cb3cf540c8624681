//! Pages: each is a question, and the form of its answer.

use baton_view::lists::Question;
use k8s_openapi::jiff::Timestamp;
use maud::{Markup, html};

use crate::{
    html::Text,
    regions::{Regions, Rendered},
};

/// A page about the answer to a question.
pub trait Page: Question<Answer: Send + Sync> + Clone + Send + Sync + 'static {
    /// The title: the name of the object that the page is about, if any.
    fn name(&self) -> String;

    /// A text that is the same for pages with the same question, and for no others.
    fn question(&self) -> String;

    /// A text that is the same for pages of a question that show its answer in the same way, and for no
    /// others.
    fn key(&self) -> String {
        String::new()
    }

    /// The content of the page.
    fn content(&self, answer: &Self::Answer, around: Around<'_>, regions: &mut Regions) -> Markup;

    /// Renders an answer; `notes` are remarks about objects that were left out.
    fn render(
        &self,
        answer: &Self::Answer,
        frame: &Frame,
        notes: &[String],
        now: Timestamp,
    ) -> Rendered {
        let mut regions = Regions::default();
        let around = Around {
            base: &frame.base,
            has_actions: frame.has_actions,
            has_reports: frame.has_reports,
            now,
        };
        let content = self.content(answer, around, &mut regions);
        let content = html! {
            (content)
            @if !notes.is_empty() {
                section aria-labelledby="notes" {
                    h2 #notes { "Notes" }
                    ul { @for note in notes { li { (Text(note)) } } }
                }
            }
        };
        regions.page(self.name(), content)
    }
}

/// The settings of a dashboard that its pages depend on.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    /// The path before those of all pages.
    pub base: String,
    /// True if the pages lead to changes of rollouts.
    pub has_actions: bool,
    /// True if the pages lead to manifests of revisions and to their differences.
    pub has_reports: bool,
}

/// The surroundings of a page.
#[derive(Clone, Copy, Debug)]
pub struct Around<'a> {
    /// The path before those of all pages.
    pub base: &'a str,
    /// True if the page leads to changes of rollouts.
    pub has_actions: bool,
    /// True if the page leads to manifests of revisions and to their differences.
    pub has_reports: bool,
    /// The time that ages and states are shown for.
    pub now: Timestamp,
}
