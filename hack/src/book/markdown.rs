//! The parts of a page that are checked: headings, links and code.

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// The checked parts of one page, each with the number of its line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Page {
    /// The anchors of the headings, in the form of mdbook and most forges.
    pub(super) anchors: Vec<String>,
    /// The targets of links and images.
    pub(super) links: Vec<(usize, String)>,
    /// The texts of inline code.
    pub(super) code: Vec<(usize, String)>,
    /// Blocks of code: line, language and text.
    pub(super) blocks: Vec<(usize, String, String)>,
}

/// Reads a page.
pub(super) fn read(text: &str) -> Page {
    let mut page = Page::default();
    let mut heading: Option<String> = None;
    let mut block: Option<(usize, String, String)> = None;
    let options = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES;
    let line = |offset: usize| text[..offset].matches('\n').count() + 1;
    for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                if let Some(text) = heading.take() {
                    let anchor = unique(&anchor(&text), &page.anchors);
                    page.anchors.push(anchor);
                }
            }
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                page.links.push((line(range.start), dest_url.into_string()));
            }
            Event::Start(Tag::CodeBlock(kind)) => {
                let language = match kind {
                    CodeBlockKind::Fenced(language) => language.into_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                block = Some((line(range.start), language, String::new()));
            }
            Event::End(TagEnd::CodeBlock) => page.blocks.extend(block.take()),
            Event::Text(part) => {
                if let Some((_, _, text)) = &mut block {
                    text.push_str(&part);
                } else if let Some(text) = &mut heading {
                    text.push_str(&part);
                }
            }
            Event::Code(part) => {
                if let Some(text) = &mut heading {
                    text.push_str(&part);
                }
                page.code.push((line(range.start), part.into_string()));
            }
            _ => {}
        }
    }
    page
}

/// The anchor of a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter_map(|c| match c {
        c if c.is_alphanumeric() || c == '_' || c == '-' => Some(c.to_ascii_lowercase()),
        c if c.is_whitespace() => Some('-'),
        _ => None,
    });
    kept.collect()
}

/// The anchor, with a number if the page has the anchor already.
fn unique(anchor: &str, taken: &[String]) -> String {
    let numbered = (1..).map(|number| format!("{anchor}-{number}"));
    std::iter::once(anchor.to_owned())
        .chain(numbered)
        .find(|anchor| !taken.contains(anchor))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read() {
        let text = "# A `b` c: D!\n\nSee [x](y.md#z) and `code`.\n\n```sh\nls\n```\n\n# A b c d\n";
        let page = read(text);
        assert_eq!(page.anchors, ["a-b-c-d", "a-b-c-d-1"]);
        assert_eq!(page.links, [(3, "y.md#z".to_owned())]);
        assert_eq!(page.code, [(1, "b".to_owned()), (3, "code".to_owned())]);
        assert_eq!(page.blocks, [(5, "sh".to_owned(), "ls\n".to_owned())]);
    }
}
