//! Messages of which only public parts are shown.

use std::ops::Range;

/// The text in the place of parts that are not shown.
pub const HIDDEN: &str = "…";

/// Number of characters of punctuation up to which they are shown between public parts.
const PUNCTUATION: usize = 3;

/// A message of which only those parts are shown that are known to be public.
///
/// Nothing is searched for and removed, so it does not matter how a program changes a value before
/// it quotes it.
#[derive(Clone, Debug)]
pub struct Excerpt<'m> {
    message: &'m str,
    /// For each byte, true if it is public.
    shown: Vec<bool>,
}

impl<'m> Excerpt<'m> {
    /// A message of which nothing is public.
    #[must_use]
    pub fn of(message: &'m str) -> Self {
        let shown = vec![false; message.len()];
        Self { message, shown }
    }

    /// The whole message.
    #[must_use]
    pub fn message(&self) -> &'m str {
        self.message
    }

    /// Shows a part, as a range of bytes.
    pub fn show(&mut self, part: Range<usize>) {
        if let Some(shown) = self.shown.get_mut(part) {
            shown.fill(true);
        }
    }

    /// Shows a public text wherever the message contains it as whole words.
    pub fn show_text(&mut self, public: &str) {
        for part in occurrences(self.message, public) {
            self.show(part);
        }
    }

    /// The public parts. All others are [`HIDDEN`], except a few characters of punctuation.
    #[must_use]
    pub fn into_text(self) -> String {
        let mut text = String::with_capacity(self.message.len());
        let mut hidden = String::new();
        let flush = |hidden: &mut String, text: &mut String| {
            let inner = hidden.trim();
            let is_punctuation = |inner: &str| !inner.contains(char::is_alphanumeric);
            if inner.chars().count() <= PUNCTUATION && is_punctuation(inner) {
                text.push_str(hidden);
            } else {
                let start = separators(hidden);
                let end = hidden.trim_end().len();
                text.push_str(&hidden[..start]);
                text.push_str(HIDDEN);
                text.push_str(&hidden[end..]);
            }
            hidden.clear();
        };
        for (at, character) in self.message.char_indices() {
            if self.shown[at] {
                flush(&mut hidden, &mut text);
                text.push(character);
            } else {
                hidden.push(character);
            }
        }
        flush(&mut hidden, &mut text);
        text
    }
}

/// The length of the separators at the start of a part, with blanks behind: `): ` or ` `.
fn separators(text: &str) -> usize {
    let marks = text
        .bytes()
        .take(PUNCTUATION)
        .take_while(|byte| b":),;".contains(byte))
        .count();
    let rest = text[marks..].trim_start();
    let length = text.len() - rest.len();
    if length == marks { 0 } else { length }
}

/// The ranges of bytes at which a message contains a text as whole words.
pub fn occurrences<'m>(message: &'m str, text: &'m str) -> impl Iterator<Item = Range<usize>> + 'm {
    let is_word = |character: Option<char>| character.is_some_and(char::is_alphanumeric);
    let (first, last) = (text.chars().next(), text.chars().next_back());
    let whole = move |part: &Range<usize>| {
        let before = message[..part.start].chars().next_back();
        let after = message[part.end..].chars().next();
        let is_cut = (is_word(before) && is_word(first)) || (is_word(last) && is_word(after));
        !is_cut
    };
    let found = message
        .match_indices(text)
        .filter(move |_| !text.is_empty());
    found.map(move |(at, _)| at..at + text.len()).filter(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_parts_are_shown() {
        for (message, public, expected) in [
            ("hunter2", &[][..], "…"),
            ("", &[], ""),
            ("a \"hunter2\" is weak", &["is weak"], "… is weak"),
            (
                "password hunter2: is weak",
                &["password", "is weak"],
                "password … is weak",
            ),
            (
                "at (a.yaml:3): is weak",
                &["at", "a.yaml:3", "is weak"],
                "at (a.yaml:3): is weak",
            ),
            // Only whole words are public.
            ("weaker hunter2weak", &["weak"], "…"),
            ("p: !%$§&", &["p"], "p: …"),
            ("p:!%$§&", &["p"], "p…"),
            ("ä weak ö", &["weak"], "… weak …"),
        ] {
            let mut excerpt = Excerpt::of(message);
            for text in public {
                excerpt.show_text(text);
            }
            assert_eq!(excerpt.into_text(), expected, "{message}");
        }
    }
}
