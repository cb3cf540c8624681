//! The standard output: tables, colours, ages, and formats for programs.

use std::{
    borrow::Cow,
    collections::BTreeSet,
    fmt::Write as _,
    io::{self, IsTerminal as _, Write as _},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use clap::ValueEnum;
use comfy_table::{Attribute, Color, ContentArrangement, Row};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr as _;

/// Blanks between columns.
const GAP: usize = 3;
/// A last column that has fewer characters than this goes below its row.
const NARROWEST: usize = 32;
/// Blanks in front of what is below a row.
const INDENT: usize = 6;

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How objects are printed for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// As the server has them, as JSON.
    Json,
    /// As the server has them, as YAML.
    Yaml,
    /// `KIND.GROUP/NAME`, one per line: what other commands take.
    Name,
}

/// How one value is printed for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Document {
    /// As JSON.
    Json,
    /// As YAML.
    Yaml,
}

/// What a text means, which decides its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// As it should be: green.
    Good,
    /// Not yet as it should be, or unclear: yellow.
    Warn,
    /// Wrong: red.
    Bad,
    /// Of little interest: grey.
    Dim,
    /// Of much interest: bold.
    Strong,
    /// A part of something else's text that leads elsewhere, such as a name: cyan.
    Accent,
}

/// How to write to the standard output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Whether colours are used.
    pub colors: bool,
    /// How many columns the terminal has; `None` where it is none, and lines may be of any length.
    pub width: Option<u16>,
    /// Whether only ASCII may be printed: the locale admits no more.
    pub ascii: bool,
}

impl Output {
    /// The standard output of this process.
    #[must_use]
    pub fn stdout(choice: ColorChoice) -> Self {
        let terminal = io::stdout().is_terminal();
        let env = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let size = terminal.then(crossterm::terminal::size);
        let dumb = env("TERM").is_none_or(|term| term == "dumb");
        Self {
            colors: match choice {
                ColorChoice::Always => true,
                ColorChoice::Never => false,
                ColorChoice::Auto => terminal && !dumb && env("NO_COLOR").is_none(),
            },
            width: size
                .and_then(Result::ok)
                .map(|(columns, _)| columns)
                .filter(|columns| *columns > 0),
            ascii: !speaks_unicode(env),
        }
    }

    /// Without a terminal, colours and limits: what goes into a pipe.
    #[must_use]
    pub fn plain() -> Self {
        Self::default()
    }

    /// A text in the colour of its meaning.
    #[must_use]
    pub fn paint(self, paint: Paint, text: &str) -> String {
        if !self.colors || text.is_empty() {
            return text.to_owned();
        }
        let code = match paint {
            Paint::Good => "32",
            Paint::Warn => "33",
            Paint::Bad => "31",
            Paint::Dim => "2",
            Paint::Strong => "1",
            Paint::Accent => "36",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// A sentence in lines that fit, broken between words.
    #[must_use]
    pub fn wrap(self, text: &str) -> String {
        match self.width {
            Some(width) => lines(text, usize::from(width)).join("\n"),
            None => text.to_owned(),
        }
    }

    /// A text without what terminals obey: control characters become visible, as `^[` for an escape. What
    /// objects hold was written by anybody. Line ends, tabs and, where colours are used, colours stay.
    #[must_use]
    pub fn printable(self, text: &str) -> Cow<'_, str> {
        let obeyed = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\t');
        if !text.contains(obeyed) {
            return text.into();
        }
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(letter) = rest.chars().next() {
            let color = if self.colors { color(rest) } else { 0 };
            let (part, behind) = rest.split_at(color.max(letter.len_utf8()));
            if color > 0 || !obeyed(letter) {
                out.push_str(part);
            } else if let Some(caret) = u8::try_from(letter).ok().filter(u8::is_ascii) {
                out.push('^');
                out.push(char::from(caret ^ 0x40));
            } else {
                // Writing into a string cannot fail.
                let _ = write!(out, "{}", letter.escape_unicode());
            }
            rest = behind;
        }
        out.into()
    }

    /// Writes a text, with a newline at its end if it has none. Nothing is written for an empty one.
    ///
    /// # Errors
    /// The output is closed or full; see [`crate::error::Error::is_closed_pipe`].
    pub fn print(self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let text = self.printable(text);
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        if !text.ends_with('\n') {
            stdout.write_all(b"\n")?;
        }
        stdout.flush()
    }
}

/// How many bytes of a text the colour takes that it begins with; zero where it begins with something else.
fn color(text: &str) -> usize {
    let parameters = text.strip_prefix("\x1b[").unwrap_or_default();
    match parameters.find(|letter: char| !letter.is_ascii_digit() && letter != ';') {
        Some(end) if parameters[end..].starts_with('m') => "\x1b[".len() + end + "m".len(),
        _ => 0,
    }
}

/// Writes a line to the standard error, for people. Whether anybody reads it makes no difference.
pub fn tell(line: &str) {
    let line = Output::plain().printable(line);
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// As [`tell`], unless this process has told the same already.
pub fn tell_once(line: &str) {
    static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    if told.insert(line.to_owned()) {
        tell(line);
    }
}

/// A text in one line: every run of blanks and line ends becomes one blank.
#[must_use]
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A text in lines of a width, but not of less than a person can read, broken between words only: names stay in one
/// piece, hyphens and all. No lines for an empty one.
#[must_use]
pub fn lines(text: &str, width: usize) -> Vec<Cow<'_, str>> {
    if text.is_empty() {
        return Vec::new();
    }
    let options = textwrap::Options::new(width.max(NARROWEST))
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
        .break_words(false);
    textwrap::wrap(text, options)
}

/// Whether the locale admits more than ASCII, by the rules of POSIX. A locale that nobody has set says
/// nothing; terminals of today understand UTF-8.
fn speaks_unicode(env: impl Fn(&str) -> Option<String>) -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(env);
    locale.is_none_or(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

/// A text in a table, in one line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    text: String,
    paint: Option<Paint>,
}

impl Cell {
    /// A text with a meaning.
    #[must_use]
    pub fn painted(paint: Paint, text: impl Into<String>) -> Self {
        Self {
            paint: Some(paint),
            ..text.into().into()
        }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        // What is more than one line would tear the table apart, and what a terminal obeys has no width.
        let is_plain = !text.contains(char::is_control);
        let text = if is_plain {
            text
        } else {
            Output::plain().printable(&one_line(&text)).into_owned()
        };
        Self { text, paint: None }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

/// A table as kubectl prints it: upper-case headings, no lines, three blanks between columns. An empty cell
/// is printed as it is; use `<none>` where kubectl does.
#[derive(Clone, Debug)]
pub struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
    /// Widths that the columns have at least, where headings were printed already.
    continued: Option<Vec<usize>>,
}

impl Table {
    /// An empty one.
    #[must_use]
    pub fn new(headings: &[&'static str]) -> Self {
        Self {
            headings: headings.to_vec(),
            rows: Vec::new(),
            continued: None,
        }
    }

    /// One that goes on below another one, whose [`Table::widths`] are given: without headings, and with columns at
    /// least as wide.
    #[must_use]
    pub fn continued(headings: &[&'static str], widths: Vec<usize>) -> Self {
        Self {
            continued: Some(widths),
            ..Self::new(headings)
        }
    }

    /// How wide its columns are, without the gaps between them; the last one does not count.
    #[must_use]
    pub fn widths(&self) -> Vec<usize> {
        let last = self.headings.len().saturating_sub(1);
        let columns = (0..last).map(|column| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            let widest = cells.map(|cell| cell.text.width()).max().unwrap_or(0);
            let before = match &self.continued {
                Some(widths) => widths.get(column).copied().unwrap_or(0),
                None => self.headings[column].width(),
            };
            widest.max(before)
        });
        columns.collect()
    }

    /// Adds a row, with a cell per heading.
    pub fn row<C: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = C>) -> &mut Self {
        self.rows.push(cells.into_iter().map(Into::into).collect());
        self
    }

    /// Whether it has no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The text; every line ends with a newline. Where a terminal is too narrow, the last column is wrapped; where it
    /// would get too narrow for that, it goes below its row, with as many of the columns before it as do not fit.
    #[must_use]
    pub fn render(&self, output: Output) -> String {
        let beside: usize = self.widths().iter().map(|width| width + GAP).sum();
        let last = self.headings.len().saturating_sub(1);
        let cells = self.rows.iter().filter_map(|row| row.get(last));
        let widest = cells.map(|cell| cell.text.width()).max().unwrap_or(0);
        match output.width.map(usize::from) {
            Some(width) if beside + widest > width && beside + NARROWEST > width => {
                self.render_below(self.fitting(width), width, output)
            }
            width => {
                let lines = self.layout(self.headings.len(), width, output);
                lines.into_iter().map(|line| line + "\n").collect()
            }
        }
    }

    /// How many of its columns but the last fit into a width; at least one.
    fn fitting(&self, width: usize) -> usize {
        let mut end = 0;
        let ends = self.widths().into_iter().map(|own| {
            end += own + GAP;
            end - GAP
        });
        ends.take_while(|end| *end <= width).count().max(1)
    }

    /// With so many columns as they are, and the cells of the others below their rows.
    fn render_below(&self, columns: usize, width: usize, output: Output) -> String {
        let gap = " ".repeat(GAP);
        let mut text = String::new();
        let below = |texts: &[&str], paint: Option<Paint>, text: &mut String| {
            let texts: Vec<&str> = texts.iter().copied().filter(|t| !t.is_empty()).collect();
            let whole = texts.join(&gap);
            for part in lines(&whole, width.saturating_sub(INDENT)) {
                let part = match paint {
                    Some(paint) => output.paint(paint, &part),
                    None => part.into_owned(),
                };
                text.push_str(&" ".repeat(INDENT));
                text.push_str(&part);
                text.push('\n');
            }
        };
        let mut lines = self.layout(columns, None, output).into_iter();
        if self.continued.is_none() {
            text.extend(lines.next().map(|line| line + "\n"));
            // What the last column alone says needs no name.
            if columns + 1 < self.headings.len() {
                below(&self.headings[columns..], None, &mut text);
            }
        }
        for (row, line) in self.rows.iter().zip(lines) {
            text.push_str(&line);
            text.push('\n');
            let cells = row.iter().skip(columns).map(|cell| cell.text.as_str());
            below(&cells.collect::<Vec<_>>(), Some(Paint::Dim), &mut text);
        }
        text
    }

    /// The lines of the first so many columns.
    fn layout(&self, columns: usize, width: Option<usize>, output: Output) -> Vec<String> {
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::TableStyle::new());
        if self.continued.is_none() {
            table.set_header(Row::from(self.headings[..columns].to_vec()));
        }
        let widths = self.widths();
        for row in &self.rows {
            let widths = widths.iter().copied().chain(std::iter::repeat(0));
            let cells = row.iter().zip(widths).take(columns);
            table.add_row(cells.map(|(cell, width)| cell.styled(width, output)));
        }
        if output.colors {
            crossterm::style::force_color_output(true);
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        match width.and_then(|width| u16::try_from(width).ok()) {
            Some(width) => table
                .set_content_arrangement(ContentArrangement::Dynamic)
                .set_width(width),
            None => table.set_content_arrangement(ContentArrangement::Disabled),
        };
        let last = self.headings.len().saturating_sub(1);
        for (index, column) in table.column_iter_mut().enumerate() {
            let gap = if index < last { GAP } else { 0 };
            column.set_padding((0, u16::try_from(gap).unwrap_or_default()));
            if index < last {
                column.set_constraint(comfy_table::ColumnConstraint::ContentWidth);
            }
        }
        let lines = table.lines();
        lines.map(|line| line.trim_end().to_owned()).collect()
    }
}

impl Cell {
    /// Filled up with blanks to a width: columns are as wide as their widest cell.
    fn styled(&self, width: usize, output: Output) -> comfy_table::Cell {
        let missing = width.saturating_sub(self.text.width());
        let cell = comfy_table::Cell::new(format!("{}{}", self.text, " ".repeat(missing)));
        if !output.colors {
            return cell;
        }
        match self.paint {
            None => cell,
            Some(Paint::Good) => cell.fg(Color::DarkGreen),
            Some(Paint::Warn) => cell.fg(Color::DarkYellow),
            Some(Paint::Bad) => cell.fg(Color::DarkRed),
            Some(Paint::Accent) => cell.fg(Color::DarkCyan),
            Some(Paint::Dim) => cell.add_attribute(Attribute::Dim),
            Some(Paint::Strong) => cell.add_attribute(Attribute::Bold),
        }
    }
}

/// How long ago something was, as kubectl prints it: `12s`, `3m5s`, `12m`, `5h`, `2d`. Never negative.
#[must_use]
pub fn age(then: Option<Timestamp>, now: Timestamp) -> String {
    match then {
        None => "<unknown>".to_owned(),
        Some(then) => {
            let elapsed = now.duration_since(then);
            duration(Duration::try_from(elapsed).unwrap_or_default())
        }
    }
}

/// A time as kubectl prints it, with two or three significant digits.
#[must_use]
pub fn duration(time: Duration) -> String {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    const YEAR: u64 = 365 * DAY;
    let seconds = time.as_secs();
    // The whole part in one unit, and what is left in the next one, left out when it is zero.
    let pair = |unit: u64, letter: char, next: u64, small: char| {
        let (whole, rest) = (seconds / unit, seconds % unit / next);
        if rest == 0 {
            format!("{whole}{letter}")
        } else {
            format!("{whole}{letter}{rest}{small}")
        }
    };
    match seconds {
        ..=119 => format!("{seconds}s"),
        120..=599 => pair(MINUTE, 'm', 1, 's'),
        600..=10_799 => format!("{}m", seconds / MINUTE),
        10_800..=28_799 => pair(HOUR, 'h', MINUTE, 'm'),
        28_800..=172_799 => format!("{}h", seconds / HOUR),
        172_800..=691_199 => pair(DAY, 'd', HOUR, 'h'),
        _ if seconds < 2 * YEAR => format!("{}d", seconds / DAY),
        _ if seconds < 8 * YEAR => pair(YEAR, 'y', DAY, 'd'),
        _ => format!("{}y", seconds / YEAR),
    }
}

/// Objects for programs. `single` prints a lone object as itself; otherwise JSON and YAML wrap them in a
/// `List`, as kubectl does.
#[must_use]
pub fn objects(format: Format, objects: &[Value], single: bool) -> String {
    let form = match format {
        Format::Name => return objects.iter().map(|object| name(object) + "\n").collect(),
        Format::Json => Document::Json,
        Format::Yaml => Document::Yaml,
    };
    match objects {
        [object] if single => document(form, object),
        _ => document(
            form,
            &json!({ "apiVersion": "v1", "kind": "List", "metadata": {}, "items": objects }),
        ),
    }
}

/// Says on standard error that there is nothing, as kubectl does; `None` means all namespaces.
pub fn objects_none_found(namespace: Option<&str>) {
    match namespace {
        Some(namespace) => tell(&format!("No resources found in {namespace} namespace.")),
        None => tell("No resources found"),
    }
}

/// A value as one JSON or YAML document.
#[must_use]
pub fn document(form: Document, value: &Value) -> String {
    let text = match form {
        Document::Yaml => serde_saphyr::to_string(value).ok(),
        Document::Json => None,
    };
    // JSON is YAML, should the other writer refuse something.
    let mut text = text.unwrap_or_else(|| format!("{value:#}"));
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// `kind.group/name`, or `kind/name` for the core group.
#[must_use]
pub fn name(object: &Value) -> String {
    let kind = text_at(object, "/kind").to_lowercase();
    let name = text_at(object, "/metadata/name");
    match text_at(object, "/apiVersion").split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    }
}

/// The text at a JSON pointer; empty where there is none.
#[must_use]
pub fn text_at<'v>(object: &'v Value, pointer: &str) -> &'v str {
    let text = object.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_default()
}

/// The namespace, empty for cluster-scoped objects, and the name of an object.
#[must_use]
pub fn place(object: &Value) -> (String, String) {
    let text = |pointer| text_at(object, pointer).to_owned();
    (text("/metadata/namespace"), text("/metadata/name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_look_as_those_of_kubectl() {
        let mut table = Table::new(&["NAME", "STATE", "MESSAGE"]);
        table.row([
            Cell::from("web"),
            Cell::painted(Paint::Good, "Available"),
            "".into(),
        ]);
        table.row(["a-long-name", "NotReady", "one two three four"]);
        assert_eq!(
            table.render(Output::plain()),
            "NAME          STATE       MESSAGE\n\
             web           Available\n\
             a-long-name   NotReady    one two three four\n"
        );
        let narrow = |width| Output {
            width: Some(width),
            ..Output::plain()
        };
        assert_eq!(table.render(narrow(44)), table.render(Output::plain()));
        table.row(["b", "NotReady", "one two three four five six seven eight"]);
        assert_eq!(
            table.render(narrow(60)),
            "NAME          STATE       MESSAGE\n\
             web           Available\n\
             a-long-name   NotReady    one two three four\n\
             b             NotReady    one two three four five six seven\n                          eight\n"
        );
        assert_eq!(
            table.render(narrow(44)),
            "NAME          STATE\n\
             web           Available\n\
             a-long-name   NotReady\n      one two three four\n\
             b             NotReady\n      one two three four five six seven\n      eight\n"
        );
        let colors = Output {
            colors: true,
            ..Output::plain()
        };
        let text = table.render(colors);
        assert!(
            text.contains("\x1b[38;5;2m") || text.contains("\x1b[32m"),
            "{text:?}"
        );
    }

    #[test]
    fn what_does_not_fit_goes_below() {
        let mut table = Table::new(&["", "REVISION", "NAME", "CHANGE-CAUSE", "AGE"]);
        table.row(["", "1", "web-5cc68dfd98", "a first try", "3d"]);
        table.row(["*", "2", "web-67db79ffd4", "", "5s"]);
        let narrow = Output {
            width: Some(40),
            ..Output::plain()
        };
        assert_eq!(
            table.render(narrow),
            "    REVISION   NAME\n      CHANGE-CAUSE   AGE\n\
             \x20   1          web-5cc68dfd98\n      a first try   3d\n\
             *   2          web-67db79ffd4\n      5s\n"
        );
    }

    #[test]
    fn names_stay_in_one_piece() {
        assert_eq!(
            lines("Scaled up the replica set cafe-55f4bfd947 from 0 to 1", 32),
            ["Scaled up the replica set", "cafe-55f4bfd947 from 0 to 1"]
        );
        assert_eq!(lines("", 40), [""; 0]);
    }

    #[test]
    fn rows_are_one_line_each() {
        let mut table = Table::new(&["NAME", "CAUSE", "MESSAGE"]);
        table.row(["a", "one\n two", "three\r\n\tfour"]);
        table.row(["b", "", ""]);
        let whole = "NAME   CAUSE     MESSAGE\na      one two   three four\nb\n";
        assert_eq!(table.render(Output::plain()), whole);
        let narrow = Output {
            width: Some(20),
            ..Output::plain()
        };
        assert_eq!(
            table.render(narrow),
            "NAME   CAUSE\na      one two\n      three four\nb\n"
        );
    }

    #[test]
    fn terminals_obey_nobody_else() {
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
        assert_eq!(colors.printable("\x1b[1;31"), "^[[1;31");
        assert_eq!(colors.printable("äöü ├─"), "äöü ├─");
    }

    #[test]
    fn ages_are_those_of_kubectl() {
        const DAY: u64 = 86_400;
        for (seconds, expected) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (599, "9m59s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (11_100, "3h5m"),
            (28_800, "8h"),
            (2 * DAY - 1, "47h"),
            (2 * DAY, "2d"),
            (3 * DAY + 7200, "3d2h"),
            (8 * DAY, "8d"),
            (729 * DAY, "729d"),
            (730 * DAY, "2y"),
            (800 * DAY, "2y70d"),
            (3000 * DAY, "8y"),
        ] {
            assert_eq!(duration(Duration::from_secs(seconds)), expected);
        }
        let now = Timestamp::from_second(1_000).unwrap();
        assert_eq!(age(None, now), "<unknown>");
        assert_eq!(age(Timestamp::from_second(990).ok(), now), "10s");
        // Clocks differ.
        assert_eq!(age(Timestamp::from_second(1_001).ok(), now), "0s");
    }

    #[test]
    fn objects_are_printed_for_programs() {
        let web =
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}});
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        let both = [web.clone(), map];
        assert_eq!(
            objects(Format::Name, &both, false),
            "deployment.apps/web\nconfigmap/a\n"
        );
        assert_eq!(
            objects(Format::Yaml, &both[..1], true),
            "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n"
        );
        let list: Value = serde_json::from_str(&objects(Format::Json, &both, false)).unwrap();
        assert_eq!((&list["kind"], &list["items"][0]), (&json!("List"), &web));
        let list: Value = serde_json::from_str(&objects(Format::Json, &[], true)).unwrap();
        assert_eq!(list["items"], json!([]));
    }

    #[test]
    fn the_locale_decides_about_unicode() {
        let speaks = |set: &[(&str, &str)]| {
            speaks_unicode(|name| {
                let found = set.iter().find(|(key, _)| *key == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        assert!(speaks(&[]));
        assert!(speaks(&[("LANG", "en_US.UTF-8")]));
        assert!(speaks(&[("LC_ALL", "C.utf8"), ("LANG", "C")]));
        assert!(!speaks(&[("LANG", "C")]));
        assert!(!speaks(&[("LC_ALL", "POSIX"), ("LANG", "en_US.UTF-8")]));
    }
}
