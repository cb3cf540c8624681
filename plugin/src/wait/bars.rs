//! Shows on standard error how the items are doing that a command waits for: a bar for each item on
//! a terminal, otherwise a line for each change.

pub(crate) mod application;
pub(crate) mod sites;

use std::{
    collections::BTreeMap,
    io::{IsTerminal as _, stderr},
    time::Duration,
};

use baton_engine::texts::collapse_whitespace;
use baton_terminal::output::report;
use baton_text::output::Output;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use unicode_width::UnicodeWidthStr as _;

/// The interval of the spinner, which shows that the command still waits.
const TICK: Duration = Duration::from_millis(120);
/// The templates of the bar of the whole wait: with a count, and without one.
const BOUNDED: &str = "{spinner} [{bar:24}] {pos}/{len} {elapsed} {wide_msg}";
const UNBOUNDED: &str = "{spinner} {elapsed} {wide_msg}";
/// The largest number of bars. Bars that do not fit garble a terminal, so further items are only
/// counted.
const MAX_BARS: usize = 12;
/// The longest name in characters; longer names are cut.
const MAX_NAME: usize = 40;

/// The state of an item that a command waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bar {
    pub(crate) name: String,
    /// Progress in percent.
    pub(crate) percent: u64,
    /// The text beside the bar.
    pub(crate) text: String,
    /// True if the item is done. If not all bars fit, those of other items are shown first.
    pub(crate) is_settled: bool,
}

/// The display of a wait. It is removed from the terminal when it is dropped.
pub(crate) struct Bars {
    terminal: Option<Terminal>,
    /// The noun for several items, as in `and 3 more NOUN`.
    noun: &'static str,
    /// The last line that was written about each item, by its name; the empty name is for the
    /// message.
    shown: BTreeMap<String, String>,
}

struct Terminal {
    all: MultiProgress,
    /// The bar with the message of the whole wait.
    message: ProgressBar,
    /// The bars of items, each with the name of its item, in order.
    bars: Vec<(String, ProgressBar)>,
    /// The line with the number of items that have no bar.
    more: ProgressBar,
}

impl Bars {
    /// A display that shows nothing yet; `noun` is the word for several items.
    pub(crate) fn new(noun: &'static str) -> Self {
        let is_terminal =
            stderr().is_terminal() && std::env::var_os("TERM").is_some_and(|term| term != "dumb");
        Self {
            terminal: is_terminal.then(Terminal::new),
            noun,
            shown: BTreeMap::new(),
        }
    }

    /// Shows the state of all items, in order, and the message of the whole wait.
    pub(crate) fn show(&mut self, bars: &[Bar], message: &str) {
        let message = collapse_whitespace(message);
        if let Some(terminal) = &mut self.terminal {
            terminal.show(bars, &message, self.noun);
            return;
        }
        for (about, line) in lines(bars, &message) {
            self.report(about, line);
        }
    }

    /// Shows a count instead of items, `done` of `of` (zero if unknown), and the first line of the
    /// message.
    pub(crate) fn count(&mut self, done: u64, of: u64, message: &str) {
        let message = message.lines().next().unwrap_or_default();
        match &self.terminal {
            Some(terminal) => terminal.count(done, of, message),
            None if of > 0 => self.report(String::new(), format!("{done}/{of} {message}")),
            None => self.report(String::new(), message.to_owned()),
        }
    }

    /// True if this message of the whole wait is the last line about it, and stays on the screen.
    pub(crate) fn is_reported(&self, message: &str) -> bool {
        self.shown.get("").is_some_and(|line| line == message)
    }

    fn report(&mut self, about: String, line: String) {
        if self.shown.get(&about) != Some(&line) {
            report(&line);
            self.shown.insert(about, line);
        }
    }
}

/// The lines to write without a terminal, each with the name of its item: first the message, with
/// an empty name, then one line per item.
pub(crate) fn lines(bars: &[Bar], message: &str) -> Vec<(String, String)> {
    let mut lines = vec![(String::new(), message.to_owned())];
    lines.extend(bars.iter().map(|bar| {
        let name = collapse_whitespace(&bar.name);
        (bar.name.clone(), format!("{name}: {}", bar.text))
    }));
    lines
}

/// The bars to draw, in order: all, or as many as fit, unfinished ones first.
fn fitting(bars: &[Bar]) -> Vec<&Bar> {
    let mut order: Vec<(usize, &Bar)> = bars.iter().enumerate().collect();
    order.sort_by_key(|(at, bar)| (bar.is_settled, *at));
    order.truncate(MAX_BARS);
    order.sort_by_key(|(at, _)| *at);
    order.into_iter().map(|(_, bar)| bar).collect()
}

impl Terminal {
    fn new() -> Self {
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        let message = all.add(ProgressBar::new_spinner());
        message.set_style(style(UNBOUNDED));
        message.enable_steady_tick(TICK);
        let more = all.add(ProgressBar::new_spinner());
        more.set_style(style("{wide_msg}"));
        Self {
            all,
            message,
            bars: Vec::new(),
            more,
        }
    }

    fn show(&mut self, bars: &[Bar], message: &str, noun: &str) {
        self.message.set_message(printable(message));
        let shown = fitting(bars);
        let names = shown.iter().map(|bar| &bar.name);
        if !names.eq(self.bars.iter().map(|(name, _)| name)) {
            self.stand_anew(&shown);
        }
        for (drawn, (_, bar)) in shown.iter().zip(&self.bars) {
            bar.set_position(drawn.percent.min(100));
            bar.set_message(printable(&drawn.text));
        }
        match bars.len() - shown.len() {
            0 => self.more.set_message(String::new()),
            hidden => self.more.set_message(format!("  and {hidden} more {noun}")),
        }
    }

    fn count(&self, done: u64, of: u64, message: &str) {
        let template = if of > 0 { BOUNDED } else { UNBOUNDED };
        self.message.set_style(style(template));
        self.message.set_length(of);
        self.message.set_position(done.min(of));
        self.message.set_message(printable(message));
    }

    /// Replaces all bars by new ones for `shown`.
    fn stand_anew(&mut self, shown: &[&Bar]) {
        for (_, bar) in self.bars.drain(..) {
            bar.finish_and_clear();
            self.all.remove(&bar);
        }
        let title =
            |bar: &&Bar| -> String { printable(&bar.name).chars().take(MAX_NAME).collect() };
        let titles: Vec<String> = shown.iter().map(title).collect();
        let widest = titles.iter().map(|title| title.width()).max().unwrap_or(0);
        for (drawn, title) in shown.iter().zip(titles) {
            let bar = self.all.insert_before(&self.more, ProgressBar::new(100));
            bar.set_style(style("  {prefix} [{bar:24}] {wide_msg}"));
            let blanks = " ".repeat(widest.saturating_sub(title.width()));
            bar.set_prefix(title + &blanks);
            self.bars.push((drawn.name.clone(), bar));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.message.finish_and_clear();
        self.more.finish_and_clear();
        for (_, bar) in &self.bars {
            bar.finish_and_clear();
        }
    }
}

fn printable(text: &str) -> String {
    Output::plain().printable(text).into_owned()
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_spinner())
        .progress_chars("=> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsettled_bars_are_shown_if_not_all_fit() {
        let bar = |number: usize| Bar {
            name: number.to_string(),
            is_settled: number < 10,
            ..Bar::default()
        };
        let bars: Vec<Bar> = (0..20).map(bar).collect();
        let names: Vec<&str> = fitting(&bars).iter().map(|bar| bar.name.as_str()).collect();
        let expected = "0 1 10 11 12 13 14 15 16 17 18 19";
        assert_eq!(names.join(" "), expected);
    }
}
