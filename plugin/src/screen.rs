//! A text that is redrawn in place on a terminal, line by line, without flicker.

use std::io::{self, Stdout, Write as _, stdout};

use crossterm::{
    cursor::{Hide, MoveToColumn, MoveUp, Show},
    queue,
    style::Print,
    terminal::{
        BeginSynchronizedUpdate, Clear, ClearType, DisableLineWrap, EnableLineWrap,
        EndSynchronizedUpdate, size,
    },
};
use textwrap::core::display_width;

/// The place of the text. When it is dropped, the text stays and the cursor is shown again.
#[derive(Debug)]
pub(crate) struct Screen {
    out: Stdout,
    /// Widths of the lines on the screen.
    drawn: Vec<usize>,
}

impl Screen {
    /// A screen below the present content of the terminal.
    pub(crate) fn new() -> Self {
        Self {
            out: stdout(),
            drawn: Vec::new(),
        }
    }

    /// True if a text fits on the terminal.
    pub(crate) fn has_room_for(text: &str) -> bool {
        size().is_ok_and(|(_, rows)| text.lines().count() <= room(usize::from(rows)))
    }

    /// Replaces the text. Lines that do not fit are cut off and counted.
    pub(crate) fn draw(&mut self, text: &str) -> io::Result<()> {
        let (columns, rows) = size()?;
        let lines = fit(text, usize::from(rows));
        let up = height(&self.drawn, usize::from(columns));
        queue!(
            self.out,
            BeginSynchronizedUpdate,
            Hide,
            DisableLineWrap,
            MoveToColumn(0)
        )?;
        if up > 0 {
            queue!(self.out, MoveUp(u16::try_from(up).unwrap_or(u16::MAX)))?;
        }
        for line in &lines {
            queue!(
                self.out,
                Print(line),
                Clear(ClearType::UntilNewLine),
                Print("\r\n")
            )?;
        }
        queue!(
            self.out,
            Clear(ClearType::FromCursorDown),
            EnableLineWrap,
            EndSynchronizedUpdate
        )?;
        self.drawn = lines.iter().map(|line| display_width(line)).collect();
        self.out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = queue!(self.out, EnableLineWrap, Show);
        let _ = self.out.flush();
    }
}

/// The lines of a text that fit above the line of the cursor.
fn fit(text: &str, rows: usize) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let room = room(rows);
    if lines.len() <= room {
        return lines.into_iter().map(str::to_owned).collect();
    }
    let hidden = lines.len() - (room - 1);
    let mut fitting: Vec<String> = lines
        .into_iter()
        .take(room - 1)
        .map(str::to_owned)
        .collect();
    fitting.push(format!("... {hidden} more lines do not fit"));
    fitting
}

/// The number of lines that fit above the line of the cursor.
fn room(rows: usize) -> usize {
    rows.saturating_sub(1).max(2)
}

/// The number of rows that drawn lines take on a terminal that has become narrower and wraps them.
fn height(drawn: &[usize], columns: usize) -> usize {
    let columns = columns.max(1);
    drawn
        .iter()
        .map(|width| width.div_ceil(columns).max(1))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_lines_are_counted() {
        assert_eq!(fit("a\nb\n", 3), ["a", "b"]);
        assert_eq!(
            fit("a\nb\nc\nd\n", 4),
            ["a", "b", "... 2 more lines do not fit"]
        );
    }

    #[test]
    fn broken_lines_take_more_rows() {
        assert_eq!(height(&[0, 10, 25], 10), 5);
        assert_eq!(height(&[], 10), 0);
    }
}
