//! What is going on during a wait, on standard error: a bar on a terminal, else a line per change.

use std::{
    io::{IsTerminal as _, stderr},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::{Output, report};

/// How often a bar moves by itself, so that one sees that the wait goes on.
const TICK: Duration = Duration::from_millis(120);

/// A wait that is being shown. Dropped, it leaves nothing behind on a terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    shown: String,
}

impl Progress {
    pub(crate) fn new() -> Self {
        let terminal =
            stderr().is_terminal() && std::env::var_os("TERM").is_some_and(|term| term != "dumb");
        let bar = terminal.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr())
                .with_style(style(false));
            bar.enable_steady_tick(TICK);
            bar
        });
        Self {
            bar,
            shown: String::new(),
        }
    }

    /// Shows how far it is, `done` of `of` (zero: nobody knows), and what is waited for, in one line.
    pub(crate) fn show(&mut self, done: u64, of: u64, message: &str) {
        let message = message.lines().next().unwrap_or_default();
        if let Some(bar) = &self.bar {
            bar.set_style(style(of > 0));
            bar.set_length(of);
            bar.set_position(done.min(of));
            bar.set_message(Output::plain().printable(message).into_owned());
            return;
        }
        let line = if of > 0 {
            format!("{done}/{of} {message}")
        } else {
            message.to_owned()
        };
        if line != self.shown {
            report(&line);
            self.shown = line;
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// With a bar where the end is known, else with a spinner alone.
fn style(is_bounded: bool) -> ProgressStyle {
    let template = if is_bounded {
        "{spinner} [{bar:24}] {pos}/{len} {elapsed} {wide_msg}"
    } else {
        "{spinner} {elapsed} {wide_msg}"
    };
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_spinner())
        .progress_chars("=> ")
}
