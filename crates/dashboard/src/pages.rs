//! The pages: each is a question, and the form of its answer.

pub(crate) mod applications;
pub(crate) mod chain;
pub(crate) mod clusters;
pub(crate) mod overview;
pub(crate) mod sites;

use baton_view::lists::Question;
use k8s_openapi::jiff::Timestamp;
use maud::{Markup, html};

use crate::{
    html::Text,
    regions::{Regions, Rendered},
};

/// A page about the answer to a question.
pub(crate) trait Page:
    Question<Answer: Send + Sync> + Clone + Send + Sync + 'static
{
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
        base: &str,
        notes: &[String],
        now: Timestamp,
    ) -> Rendered {
        let mut regions = Regions::new();
        let content = self.content(answer, Around { base, now }, &mut regions);
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

/// The surroundings of a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Around<'a> {
    /// The path before those of all pages.
    pub(crate) base: &'a str,
    pub(crate) now: Timestamp,
}
