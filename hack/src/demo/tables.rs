//! How a picture is shown on a terminal.

use std::io::{IsTerminal as _, stdout};

use comfy_table::{ColumnConstraint, ContentArrangement, LineStyle, Table, TableStyle};

use super::picture::{Live, Picture};

/// The widths that the tables look well in.
const WIDTHS: std::ops::RangeInclusive<u16> = 80..=120;

/// Where nobody can see how wide it is.
const UNSEEN: u16 = 100;

/// What it is written on.
#[derive(Debug, Clone, Copy)]
pub struct Screen {
    width: u16,
    styled: bool,
}

impl Screen {
    /// The terminal behind the standard output, if it is one.
    #[must_use]
    pub fn detect() -> Self {
        let terminal = stdout().is_terminal();
        let size = terminal
            .then(|| rustix::termios::tcgetwinsize(stdout()).ok())
            .flatten();
        let width = size.map_or(UNSEEN, |size| size.ws_col);
        Self {
            width: width.clamp(*WIDTHS.start(), *WIDTHS.end()),
            styled: terminal && std::env::var_os("NO_COLOR").is_none(),
        }
    }

    /// A line that begins something new.
    #[must_use]
    pub fn heading(self, text: &str) -> String {
        let rule = "─".repeat(usize::from(self.width).saturating_sub(text.chars().count() + 4));
        let (bold, plain) = if self.styled {
            ("\x1b[1m", "\x1b[0m")
        } else {
            ("", "")
        };
        format!("── {bold}{text}{plain} {rule}")
    }

    /// Text in lines that fit.
    #[must_use]
    pub fn wrap(self, text: &str) -> String {
        let mut lines: Vec<String> = Vec::new();
        for word in text.split_whitespace() {
            match lines.last_mut() {
                Some(line)
                    if line.chars().count() + word.chars().count() < usize::from(self.width) =>
                {
                    line.push(' ');
                    line.push_str(word);
                }
                _ => lines.push(word.to_owned()),
            }
        }
        lines.join("\n")
    }

    /// The revisions.
    #[must_use]
    pub fn revisions(self, picture: &Picture) -> String {
        let header = [
            "revision", "no.", "status", "controls", "in words", "message",
        ];
        let mut table = self.table(header, 4);
        for revision in &picture.revisions {
            table.add_row([
                revision.name.clone(),
                revision
                    .number
                    .map_or_else(String::new, |number| number.to_string()),
                format!("{:?}", revision.phase),
                format!("{} of {}", revision.controls, revision.objects),
                revision.words(),
                revision.message().to_owned(),
            ]);
        }
        table.trim_fmt()
    }

    /// The objects, and what has become of them since `before`.
    #[must_use]
    pub fn objects(self, picture: &Picture, before: &Picture) -> String {
        let header = [
            "object",
            "exists",
            "controlled\nby",
            "also\nowned by",
            "no.",
            "content",
        ];
        let mut table = self.table(header, 5);
        for (key, live) in &picture.objects {
            let key = key.to_string();
            let exists = exists(live.as_ref(), before.object(&key)).to_owned();
            let row = match live {
                None => [
                    key,
                    exists,
                    String::new(),
                    String::new(),
                    String::new(),
                    String::new(),
                ],
                Some(live) => [
                    key,
                    exists,
                    live.controller
                        .clone()
                        .unwrap_or_else(|| "nobody".to_owned()),
                    live.owners.join("\n"),
                    live.revision.clone().unwrap_or_default(),
                    live.content.clone(),
                ],
            };
            table.add_row(row);
        }
        table.trim_fmt()
    }

    /// A table whose first `whole` columns are not broken.
    fn table<const COLUMNS: usize>(self, header: [&str; COLUMNS], whole: usize) -> Table {
        let line = LineStyle::none().fill('─');
        let mut table = Table::new();
        table
            .load_style(TableStyle::new().header_separator(line))
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(self.width)
            .set_header(header);
        for (index, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, if index + 1 < COLUMNS { 2 } else { 0 }));
            if index < whole {
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
        table
    }
}

/// Whether an object exists, and whether it is the one that was there before.
fn exists(now: Option<&Live>, before: Option<&Live>) -> &'static str {
    match (now, before) {
        (None, Some(_)) => "deleted",
        (None, None) => "no",
        (Some(_), None) => "yes, new",
        (Some(now), Some(before)) if now.uid == before.uid => "yes",
        (Some(_), Some(_)) => "re-created",
    }
}

#[cfg(test)]
mod tests {
    use super::super::picture::tests::{picture, set, settings};
    use super::*;

    const SCREEN: Screen = Screen {
        width: 80,
        styled: false,
    };

    fn row(text: &str, start: &str) -> String {
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let row = text.lines().map(words).find(|line| line.starts_with(start));
        row.unwrap_or_else(|| panic!("no row {start} in\n{text}"))
    }

    #[test]
    fn revisions_in_a_table() {
        let picture = picture(
            &[set("v1", 1, &[("Available", "False", "ProbeFailure")])],
            &[],
        );
        let table = SCREEN.revisions(&picture);
        assert!(
            table.lines().all(|line| line.chars().count() <= 80),
            "{table}"
        );
        assert!(
            row(&table, "v1").starts_with("v1 1 Available 1 of 2 not available"),
            "{table}"
        );
    }

    #[test]
    fn objects_in_a_table() {
        let now = picture(&[], &[settings("u", &[("v1", false), ("v2", true)])]);
        let table = SCREEN.objects(&now, &Picture::default());
        assert_eq!(
            row(&table, "ConfigMap/settings"),
            "ConfigMap/settings yes, new v2 v1 2 greeting=hello"
        );
        let orphaned = picture(&[], &[settings("other", &[])]);
        let table = SCREEN.objects(&orphaned, &now);
        assert!(
            row(&table, "ConfigMap").contains(" re-created nobody "),
            "{table}"
        );
    }

    #[test]
    fn what_becomes_of_objects() {
        let picture = picture(&[], &[settings("u", &[])]);
        let live = picture.object("ConfigMap/settings");
        assert_eq!(exists(live, live), "yes");
        assert_eq!(exists(None, live), "deleted");
        assert_eq!(exists(None, None), "no");
    }

    #[test]
    fn text_is_wrapped_between_words() {
        let screen = Screen {
            width: 10,
            styled: false,
        };
        assert_eq!(screen.wrap("one two three  four"), "one two\nthree four");
        assert_eq!(
            screen.wrap("incomprehensible word"),
            "incomprehensible\nword"
        );
        assert_eq!(screen.heading("ab"), "── ab ────");
    }
}
