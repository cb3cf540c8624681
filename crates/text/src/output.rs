//! The form of texts on a terminal or in a pipe: colours, widths, and visible control characters.

pub mod format;
pub mod kubectl;
pub mod table;

use std::borrow::Cow;

use anstyle::{AnsiColor, Style};

use crate::printable::printable;

/// The escape sequences of all colours, and the one that ends them.
const SEQUENCES: [&str; 7] = [
    "\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m",
];

/// The smallest width in columns that is easy to read.
const NARROWEST: usize = 32;

/// The meaning of a text, which decides its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// As wanted: green.
    Good,
    /// Not yet as wanted, or unclear: yellow.
    Warn,
    /// Failed, or forbidden: red.
    Bad,
    /// Of little interest: grey.
    Dim,
    /// Of much interest: bold.
    Strong,
    /// A reference within another text, such as a name: cyan.
    Accent,
}

/// Properties of an output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// True if texts have colours.
    pub colors: bool,
    /// Number of columns of the terminal; `None` if there is no terminal, and lines may be of any
    /// length.
    pub width: Option<u16>,
    /// True if the locale is limited to ASCII.
    pub ascii: bool,
}

impl Output {
    /// The output for a pipe: without colours, and of any width.
    pub fn plain() -> Self {
        Self::default()
    }

    /// A text in the colour of its meaning.
    pub fn paint(self, paint: impl Into<Option<Paint>>, text: &str) -> String {
        let style = match paint.into() {
            _ if !self.colors || text.is_empty() => Style::new(),
            None => Style::new(),
            Some(Paint::Good) => AnsiColor::Green.on_default(),
            Some(Paint::Warn) => AnsiColor::Yellow.on_default(),
            Some(Paint::Bad) => AnsiColor::Red.on_default(),
            Some(Paint::Dim) => Style::new().dimmed(),
            Some(Paint::Strong) => Style::new().bold(),
            Some(Paint::Accent) => AnsiColor::Cyan.on_default(),
        };
        format!("{style}{text}{style:#}")
    }

    /// Wraps a text to the width of the terminal, between words.
    pub fn wrap(self, text: &str) -> String {
        match self.width {
            Some(width) => lines(text, usize::from(width)).join("\n"),
            None => text.to_owned(),
        }
    }

    /// Makes control characters visible, as `^[` for an escape: any user may have written the
    /// content of objects. Line ends and tabs stay, and so do the colours of [`Output::paint`] if they
    /// are used.
    pub fn printable(self, text: &str) -> Cow<'_, str> {
        printable(text, if self.colors { &SEQUENCES } else { &[] })
    }
}

/// Wraps a text to a width, but not below a readable one, and only between words: names stay whole,
/// hyphens included. An empty text has no lines.
pub fn lines(text: &str, width: usize) -> Vec<Cow<'_, str>> {
    if text.is_empty() {
        return Vec::new();
    }
    let options = textwrap::Options::new(width.max(NARROWEST))
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
        .break_words(false);
    textwrap::wrap(text, options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_not_broken_across_lines() {
        assert_eq!(
            lines("Scaled up the replica set cafe-55f4bfd947 from 0 to 1", 32),
            ["Scaled up the replica set", "cafe-55f4bfd947 from 0 to 1"]
        );
        assert_eq!(lines("", 40), [""; 0]);
    }

    #[test]
    fn control_characters_become_visible() {
        let evil = "a\x1b[31mb\x1b]0;title\x07\r\u{9b}2J\x7f\tc\n";
        let plain = Output::plain();
        assert_eq!(
            plain.printable(evil),
            "a^[[31mb^[]0;title^G^M\\u{9b}2J^?\tc\n"
        );
        let colors = Output {
            colors: true,
            ..plain
        };
        assert_eq!(
            colors.printable(evil),
            "a\x1b[31mb^[]0;title^G^M\\u{9b}2J^?\tc\n"
        );
        assert_eq!(
            colors.printable("\x1b[8m"),
            "^[[8m",
            "a text that cannot be seen"
        );
    }

    #[test]
    fn all_colours_stay() {
        let colors = Output {
            colors: true,
            ..Output::plain()
        };
        for paint in [
            Paint::Good,
            Paint::Warn,
            Paint::Bad,
            Paint::Dim,
            Paint::Strong,
            Paint::Accent,
        ] {
            let painted = colors.paint(paint, "a");
            assert!(painted.len() > 1);
            assert_eq!(colors.printable(&painted), painted);
        }
    }
}
