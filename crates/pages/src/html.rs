//! Parts of pages: texts of the cluster, times, states, links.

use baton_apis::url::escape;
use baton_text::{output::Paint, printable::printable, time::age};
use baton_view::chain::kind::ChainKind;
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Condition, jiff::Timestamp};
use maud::{Markup, Render, html};

/// A text that any user of the cluster may have written. Control characters and changes of direction
/// are shown as escapes.
pub struct Text<'a>(pub &'a str);

impl Render for Text<'_> {
    fn render_to(&self, buffer: &mut String) {
        printable(self.0, &[]).as_ref().render_to(buffer);
    }
}

/// The class of a meaning in the style sheet.
pub fn class(paint: Option<Paint>) -> &'static str {
    match paint {
        None => "plain",
        Some(Paint::Good) => "good",
        Some(Paint::Warn) => "warn",
        Some(Paint::Bad) => "bad",
        Some(Paint::Dim) => "dim",
        Some(Paint::Strong) => "strong",
        Some(Paint::Accent) => "accent",
    }
}

/// A state in one or two words.
pub fn badge(paint: impl Into<Option<Paint>>, text: &str) -> Markup {
    html! { span.badge.(class(paint.into())) { (Text(text)) } }
}

/// The time since `then`; the script keeps it up to date.
pub fn ago(then: Option<Timestamp>, now: Timestamp) -> Markup {
    html! {
        @if let Some(then) = then {
            time datetime=(then) title=(then) { (age(Some(then), now)) }
        }
    }
}

/// A count of parts that are ready, as a bar with its numbers.
pub fn ready(ready: u64, of: u64) -> Markup {
    html! {
        @if of > 0 {
            span.count {
                progress max=(of) value=(ready) aria-hidden="true" {}
                " " (ready) "/" (of)
            }
        }
    }
}

/// The address of the page of a chain.
pub fn chain_address(base: &str, kind: ChainKind, namespace: Option<&str>, name: &str) -> String {
    let namespace = namespace.map_or_else(|| "-".into(), escape);
    format!(
        "{base}/chains/{}/{namespace}/{}",
        kind.shortest(),
        escape(name)
    )
}

/// The address of a page about a named object in a namespace; `page` is `applications` or `sites`.
pub fn address(base: &str, page: &str, namespace: &str, name: &str) -> String {
    format!("{base}/{page}/{}/{}", escape(namespace), escape(name))
}

/// A table, which scrolls by itself if it is wider than the page. `class` is a class of the style sheet,
/// and `label` the id of its heading.
pub fn table(class: &str, label: &str, headings: &[Markup], rows: &[Markup]) -> Markup {
    html! {
        div.wide tabindex="0" role="group" aria-labelledby=(label) {
            table.(class) {
                thead { tr { @for heading in headings { th scope="col" { (heading) } } } }
                tbody { @for row in rows { (row) } }
            }
        }
    }
}

/// The rows of a page of a long table.
const PAGE: usize = 100;

/// A part of a long table.
pub struct Part<'a, T> {
    /// The rows that are shown.
    pub shown: &'a [T],
    /// The number of the page, from 1 on.
    page: usize,
    pages: usize,
}

impl<'a, T> Part<'a, T> {
    /// The rows of a page of the table; the first page without a number.
    pub fn of(rows: &'a [T], page: Option<usize>) -> Self {
        let pages = rows.len().div_ceil(PAGE).max(1);
        let page = page.unwrap_or(1).clamp(1, pages);
        let end = rows.len().min(page * PAGE);
        Self {
            shown: &rows[(page - 1) * PAGE..end],
            page,
            pages,
        }
    }

    /// Links to the page before and to the next one, with the filter of the address; nothing for a
    /// single page.
    pub fn pager(&self, label: &str, filter: &[(&str, Option<&str>)]) -> Markup {
        let (page, pages) = (self.page, self.pages);
        let given = filter
            .iter()
            .filter_map(|(name, value)| Some((name, (*value)?)));
        let given = given.map(|(name, value)| format!("{name}={}", escape(value)));
        let given: Vec<String> = given.collect();
        let address = |number: usize| {
            let page = format!("page={number}");
            format!("?{}", [&given[..], &[page]].concat().join("&"))
        };
        html! {
            @if pages > 1 {
                nav.pager aria-label=(label) {
                    @if page > 1 { a href=(address(page - 1)) rel="prev" { "Previous" } }
                    " page " (page) " of " (pages) " "
                    @if page < pages { a href=(address(page + 1)) rel="next" { "Next" } }
                }
            }
        }
    }
}

/// The headings of a table, in words.
pub fn headings<const N: usize>(texts: [&str; N]) -> [Markup; N] {
    texts.map(|text| html! { (text) })
}

/// A table of conditions; nothing without conditions.
pub fn conditions(conditions: &[(String, &Condition)], now: Timestamp) -> Markup {
    let headings = headings(["Of", "Condition", "Status", "Reason", "Since", "Message"]);
    let rows: Vec<Markup> = conditions
        .iter()
        .map(|(of, condition)| {
            html! {
                tr {
                    td { (Text(of)) }
                    th scope="row" { (Text(&condition.type_)) }
                    td { (Text(&condition.status)) }
                    td { (Text(&condition.reason)) }
                    td { (ago(Some(condition.last_transition_time.0), now)) }
                    td.message { (Text(&condition.message)) }
                }
            }
        })
        .collect();
    html! {
        @if !rows.is_empty() {
            section {
                h2 #conditions { "Conditions" }
                (table("conditions", "conditions", &headings, &rows))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_and_have_no_hidden_characters() {
        let evil = "<script>alert(1)</script>\u{202e}\"'\u{0}";
        let shown = html! { (Text(evil)) }.into_string();
        assert!(!shown.contains(['<', '\u{202e}', '\u{0}', '"']), "{shown}");
    }

    #[test]
    fn long_tables_have_pages() {
        let rows: Vec<usize> = (0..250).collect();
        for (page, expected) in [
            (None, 0..100),
            (Some(0), 0..100),
            (Some(2), 100..200),
            (Some(3), 200..250),
            (Some(usize::MAX), 200..250),
        ] {
            let part = Part::of(&rows, page);
            assert_eq!(part.shown, expected.collect::<Vec<_>>(), "{page:?}");
        }
        assert!(Part::of(&rows[..0], Some(7)).shown.is_empty());
        let pager = Part::of(&rows, Some(2)).pager("Pages", &[("q", Some("a&b")), ("state", None)]);
        let pager = pager.into_string();
        assert!(
            pager.contains("?q=a%26b&amp;page=1") && pager.contains("page=3"),
            "{pager}"
        );
    }

    #[test]
    fn names_cannot_leave_their_part_of_an_address() {
        let address = address("/b", "sites", "a/../b", "x?y#z");
        assert_eq!(address.matches('/').count(), 4, "{address}");
        assert!(!address.contains(['?', '#']), "{address}");
    }
}
