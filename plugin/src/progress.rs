//! What is going on during a wait, on standard error: a bar on a terminal, else a line per change.

use std::{
    io::{self, IsTerminal as _, Write as _},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How often a bar moves by itself, so that one sees that the wait goes on.
const TICK: Duration = Duration::from_millis(120);

/// A wait that is being shown. Dropped, it leaves nothing behind on a terminal.
#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
    shown: String,
}

impl Progress {
    /// Shows nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::on(
            io::stderr().is_terminal() && std::env::var_os("TERM").is_some_and(|t| t != "dumb"),
        )
    }

    /// One that shows nothing at all, for waits whose result alone matters.
    #[must_use]
    pub fn hidden() -> Self {
        Self {
            bar: Some(ProgressBar::hidden()),
            shown: String::new(),
        }
    }

    fn on(terminal: bool) -> Self {
        let bar = terminal.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            bar.enable_steady_tick(TICK);
            bar
        });
        Self {
            bar,
            shown: String::new(),
        }
    }

    /// Shows how far it is, `done` of `of` (zero: nobody knows), and what is waited for, in one line.
    pub fn show(&mut self, done: u64, of: u64, message: &str) {
        let message = message.lines().next().unwrap_or_default();
        if let Some(bar) = &self.bar {
            bar.set_style(style(of > 0));
            bar.set_length(of);
            bar.set_position(done.min(of));
            bar.set_message(message.to_owned());
            return;
        }
        let line = if of > 0 {
            format!("{done}/{of} {message}")
        } else {
            message.to_owned()
        };
        if line != self.shown {
            // Standard error is for people; when it is closed, the wait goes on all the same.
            let _ = writeln!(io::stderr(), "{line}");
            self.shown = line;
        }
    }

    /// Writes a line that stays, above what is shown.
    pub fn note(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            None => {
                let _ = writeln!(io::stderr(), "{line}");
            }
        }
    }

    /// Takes away what is shown.
    pub fn finish(self) {
        drop(self);
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
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
