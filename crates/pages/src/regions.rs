//! Rendered pages, in regions that are sent one by one when they change.

use std::{collections::BTreeMap, fmt::Write as _, iter, sync::Arc};

use maud::{Markup, PreEscaped};

/// The start of the place of a region. Texts of the cluster are escaped, so none contains it.
const MARK: &str = "<!--region:";

/// The regions of a page while it is rendered.
///
/// The root element of a region has the id of the region, so that the script finds it.
#[derive(Debug, Default)]
pub struct Regions(BTreeMap<String, Arc<str>>);

/// The parts of a content without its ages, which the script counts on by itself.
fn timeless(html: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = html;
    while let Some((before, age)) = rest.split_once("<time ") {
        let (attributes, after) = age.split_once('>').unwrap_or((age, ""));
        parts.extend([before, attributes]);
        rest = after.find("</time>").map_or("", |end| &after[end..]);
    }
    parts.push(rest);
    parts
}

/// True if two contents differ in more than ages.
fn differs(html: &str, other: &str) -> bool {
    html != other && timeless(html) != timeless(other)
}

impl Regions {
    /// Stores a region, and returns its place in the frame.
    pub fn add(&mut self, id: String, content: Markup) -> Markup {
        let place = format!("{MARK}{id}-->");
        self.0.insert(id, content.into_string().into());
        PreEscaped(place)
    }

    /// The page: `frame` has the places of the regions.
    pub fn page(self, title: String, frame: Markup) -> Rendered {
        let frame = frame.into_string();
        let mut parts = Vec::new();
        let mut pieces = frame.split(MARK);
        parts.push(Part::Text(pieces.next().unwrap_or_default().to_owned()));
        for piece in pieces {
            let (id, text) = piece.split_once("-->").unwrap_or((piece, ""));
            parts.push(Part::Region(id.to_owned()));
            parts.push(Part::Text(text.to_owned()));
        }
        Rendered {
            title,
            parts,
            regions: self.0,
        }
    }
}

/// A text that can be the id of an element and part of a comment: letters, digits and `-`, `_`.
pub fn id(parts: &[&str]) -> String {
    let mut id = String::new();
    for (at, part) in parts.iter().enumerate() {
        if at > 0 {
            id.push('_');
        }
        for byte in part.bytes() {
            if byte.is_ascii_alphanumeric() {
                id.push(byte.into());
            } else {
                // Writing into a string cannot fail.
                let _ = write!(id, "-{byte:02x}");
            }
        }
    }
    id
}

/// A rendered page.
#[derive(Debug)]
pub struct Rendered {
    /// The title of the page; empty for the page of no object.
    pub title: String,
    parts: Vec<Part>,
    regions: BTreeMap<String, Arc<str>>,
}

#[derive(Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Region(String),
}

impl Rendered {
    /// The whole content.
    pub fn html(&self) -> String {
        let parts = self.parts.iter();
        parts
            .map(|part| match part {
                Part::Text(text) => text,
                Part::Region(id) => self.regions.get(id).map_or("", |region| region),
            })
            .collect()
    }

    /// The title and all parts of the content without its ages. Two contents with the same parts look the
    /// same, except for their ages.
    pub fn timeless(&self) -> impl Iterator<Item = &str> {
        let parts = self.parts.iter().flat_map(|part| match part {
            Part::Text(text) => timeless(text),
            Part::Region(id) => self
                .regions
                .get(id)
                .map_or_else(Vec::new, |it| timeless(it)),
        });
        iter::once(self.title.as_str()).chain(parts)
    }

    /// The regions that differ from an earlier content; `None` if more than regions differs.
    pub fn since<'a>(&'a self, before: &Self) -> Option<BTreeMap<&'a str, &'a str>> {
        let is_same = (&self.title, &self.parts) == (&before.title, &before.parts)
            && self.regions.keys().eq(before.regions.keys());
        let changed = self.regions.iter().filter(|(id, region)| {
            let earlier = before.regions.get(*id);
            earlier.is_none_or(|earlier| differs(earlier, region))
        });
        is_same.then(|| {
            changed
                .map(|(id, region)| (id.as_str(), &**region))
                .collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use maud::html;

    use super::*;

    fn page(first: &str, second: &str, frame: &str) -> Rendered {
        let mut regions = Regions::default();
        let first = regions.add("a".to_owned(), html! { p #a { (first) } });
        let second = regions.add("b".to_owned(), html! { p #b { (second) } });
        let frame = html! { h1 { (frame) } (first) hr; (second) };
        regions.page("title".to_owned(), frame)
    }

    #[test]
    fn only_changed_regions_are_sent() {
        let before = page("1", "2", "x");
        assert_eq!(
            before.html(),
            "<h1>x</h1><p id=\"a\">1</p><hr><p id=\"b\">2</p>"
        );
        assert_eq!(before.since(&page("1", "2", "x")), Some(BTreeMap::new()));
        let after = page("1", "3", "x");
        let changed = BTreeMap::from([("b", "<p id=\"b\">3</p>")]);
        assert_eq!(after.since(&before), Some(changed));
        assert!(!after.timeless().eq(before.timeless()));
        assert_eq!(page("1", "2", "y").since(&before), None);
    }

    #[test]
    fn ages_are_no_changes() {
        let time = |at: &str, age: &str| {
            let age = PreEscaped(format!("<time datetime=\"{at}\">{age}</time>"));
            let mut regions = Regions::default();
            let region = regions.add("a".to_owned(), html! { p #a { "since " (age) "!" } });
            regions.page("title".to_owned(), region)
        };
        let before = time("1", "5s");
        let later = time("1", "6s");
        assert_eq!(later.since(&before), Some(BTreeMap::new()));
        assert!(later.timeless().eq(before.timeless()));
        let other = time("2", "5s");
        assert_eq!(other.since(&before).map(|it| it.len()), Some(1));
        assert!(!other.timeless().eq(before.timeless()));
    }

    #[test]
    fn a_text_of_the_cluster_is_no_place_of_a_region() {
        let before = page("<!--region:b-->", "-->", "<!--region:a-->");
        assert_eq!(before.html().matches("<p ").count(), 2);
    }

    #[test]
    fn different_names_have_different_ids() {
        assert_ne!(id(&["a", "b_c"]), id(&["a_b", "c"]));
        assert_ne!(id(&["a-5f"]), id(&["a_"]));
        assert!(
            id(&["ä", "--><"])
                .bytes()
                .all(|it| it.is_ascii_alphanumeric() || b"-_".contains(&it))
        );
    }
}
