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
    /// Blocks of code.
    pub(super) blocks: Vec<Block>,
}

/// A block of code in a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// The number of its first line.
    pub line: usize,
    /// The text of the heading above it.
    pub section: String,
    /// Its language, the first word behind the fence.
    pub language: String,
    /// The reason why no test runs it, which stands behind the fence as `norun=REASON`.
    pub norun: Option<String>,
    /// Its content.
    pub text: String,
}

impl Block {
    fn new(line: usize, section: &str, info: &str) -> Self {
        let mut words = info.split_whitespace();
        let language = words.next().unwrap_or_default().to_owned();
        let norun = words.find_map(|word| word.strip_prefix("norun="));
        Self {
            line,
            section: section.to_owned(),
            language,
            norun: norun.map(str::to_owned),
            text: String::new(),
        }
    }
}

/// Reads the blocks of code of a page, in their order.
#[must_use]
pub fn blocks(text: &str) -> Vec<Block> {
    read(text).blocks
}

/// Reads a page.
pub(super) fn read(text: &str) -> Page {
    let mut page = Page::default();
    let mut heading: Option<String> = None;
    let mut section = String::new();
    let mut block: Option<Block> = None;
    let options = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES;
    let line = |offset: usize| text[..offset].matches('\n').count() + 1;
    for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                if let Some(text) = heading.take() {
                    let anchor = unique(&anchor(&text), &page.anchors);
                    page.anchors.push(anchor);
                    section = text;
                }
            }
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                page.links.push((line(range.start), dest_url.into_string()));
            }
            Event::Start(Tag::CodeBlock(kind)) => {
                let info = match kind {
                    CodeBlockKind::Fenced(info) => info.into_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                block = Some(Block::new(line(range.start), &section, &info));
            }
            Event::End(TagEnd::CodeBlock) => page.blocks.extend(block.take()),
            Event::Text(part) => {
                if let Some(block) = &mut block {
                    block.text.push_str(&part);
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
        let text = "# A `b` c: D!\n\nSee [x](y.md#z) and `code`.\n\n```sh norun=slow\nls\n```\n\n# A b c d\n";
        let page = read(text);
        assert_eq!(page.anchors, ["a-b-c-d", "a-b-c-d-1"]);
        assert_eq!(page.links, [(3, "y.md#z".to_owned())]);
        assert_eq!(page.code, [(1, "b".to_owned()), (3, "code".to_owned())]);
        let mut block = Block::new(5, "A b c: D!", "sh norun=slow");
        block.text = "ls\n".to_owned();
        assert_eq!(
            (&*block.language, block.norun.as_deref()),
            ("sh", Some("slow"))
        );
        assert_eq!(page.blocks, [block]);
    }
}
