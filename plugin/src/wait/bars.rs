//! A wait for several things side by side, on standard error: a bar for each on a terminal, else a line per change.

use std::{
    collections::BTreeMap,
    io::{IsTerminal as _, stderr},
    time::Duration,
};

use baton_engine::texts::collapse_whitespace;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use unicode_width::UnicodeWidthStr as _;

use crate::output::{Output, report};

/// How often the spinner moves by itself, so that one sees that the wait goes on.
const TICK: Duration = Duration::from_millis(120);
/// The templates of a bar whose length is known, and of one whose length is not.
const BOUNDED: &str = "{spinner} [{bar:24}] {pos}/{len} {elapsed} {wide_msg}";
const UNBOUNDED: &str = "{spinner} {elapsed} {wide_msg}";
/// Things beyond these are counted: bars that do not fit on a terminal tear it apart.
const MOST: usize = 12;
/// Names beyond this are cut.
const LONGEST: usize = 40;

/// One of the things that are waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bar {
    pub(crate) name: String,
    /// How full its bar is.
    pub(crate) percent: u64,
    /// What is beside the bar.
    pub(crate) text: String,
    /// Whether nothing is waited for any more: where there is no room, the others come first.
    pub(crate) is_settled: bool,
}

/// A wait that is being shown. Dropped, it leaves nothing behind on a terminal.
pub(crate) struct Bars {
    terminal: Option<Terminal>,
    /// What the things are, in the plural.
    noun: &'static str,
    /// The lines that were written last, by what they are about.
    shown: BTreeMap<String, String>,
}

struct Terminal {
    all: MultiProgress,
    /// What is waited for.
    message: ProgressBar,
    /// With the names of what they are about, in the order in which they stand.
    bars: Vec<(String, ProgressBar)>,
    /// How many have no bar.
    more: ProgressBar,
}

impl Bars {
    /// Before anything is shown; `noun` is what the things are, in the plural, where there may be several.
    pub(crate) fn new(noun: &'static str) -> Self {
        let is_terminal =
            stderr().is_terminal() && std::env::var_os("TERM").is_some_and(|term| term != "dumb");
        Self {
            terminal: is_terminal.then(Terminal::new),
            noun,
            shown: BTreeMap::new(),
        }
    }

    /// Shows how far the things are, in their order, and what is waited for.
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

    /// Shows how far the one thing is that is waited for, `done` of `of` (zero: nobody knows), and the first line of
    /// what it waits for.
    pub(crate) fn count(&mut self, done: u64, of: u64, message: &str) {
        let message = message.lines().next().unwrap_or_default();
        match &self.terminal {
            Some(terminal) => terminal.count(done, of, message),
            None if of > 0 => self.report(String::new(), format!("{done}/{of} {message}")),
            None => self.report(String::new(), message.to_owned()),
        }
    }

    fn report(&mut self, about: String, line: String) {
        if self.shown.get(&about) != Some(&line) {
            report(&line);
            self.shown.insert(about, line);
        }
    }
}

/// A line for what is waited for, and one per thing, with what each is about.
pub(crate) fn lines(bars: &[Bar], message: &str) -> Vec<(String, String)> {
    let mut lines = vec![(String::new(), message.to_owned())];
    lines.extend(bars.iter().map(|bar| {
        let name = collapse_whitespace(&bar.name);
        (bar.name.clone(), format!("{name}: {}", bar.text))
    }));
    lines
}

/// The bars that fit, in their order: where not all do, those that are waited for.
fn fitting(bars: &[Bar]) -> Vec<&Bar> {
    let mut order: Vec<(usize, &Bar)> = bars.iter().enumerate().collect();
    order.sort_by_key(|(at, bar)| (bar.is_settled, *at));
    order.truncate(MOST);
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

    /// Replaces the bars by others.
    fn stand_anew(&mut self, shown: &[&Bar]) {
        for (_, bar) in self.bars.drain(..) {
            bar.finish_and_clear();
            self.all.remove(&bar);
        }
        let title = |bar: &&Bar| -> String { printable(&bar.name).chars().take(LONGEST).collect() };
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
    fn what_is_waited_for_is_shown_where_not_all_fits() {
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
