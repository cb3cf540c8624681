//! Tables as kubectl prints them: upper-case headings, no lines, three blanks between columns.

use baton_engine::texts::collapse_whitespace;
use comfy_table::{ColumnConstraint::LowerBoundary, Width};
use unicode_width::UnicodeWidthStr as _;

use super::{
    NARROWEST, Output, Paint,
    kubectl::{self, GAP, kubectl_table},
    lines,
};

/// The indent of lines below the row of a table.
const INDENT: &str = "      ";

/// A text of a table in one line, in parts with a meaning each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell(Vec<(Option<Paint>, String)>);

impl Cell {
    /// A cell with one part.
    pub fn painted(paint: Paint, text: impl Into<String>) -> Self {
        Self::default().and(paint, text)
    }

    /// Adds a text before the cell.
    #[must_use]
    pub fn behind(mut self, text: &str) -> Self {
        self.0.insert(0, (None, text.to_owned()));
        self
    }

    /// Adds a part to the cell.
    #[must_use]
    pub fn and(mut self, paint: impl Into<Option<Paint>>, text: impl Into<String>) -> Self {
        let text = text.into();
        // Several lines would garble the table, and control characters have no width.
        let text = if text.contains(char::is_control) {
            Output::plain()
                .printable(&collapse_whitespace(&text))
                .into_owned()
        } else {
            text
        };
        self.0.push((paint.into(), text));
        self
    }

    fn text(&self) -> String {
        self.0.iter().map(|(_, text)| text.as_str()).collect()
    }

    fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| text.width()).sum()
    }

    fn paint(&self) -> Option<Paint> {
        self.0.first().and_then(|(paint, _)| *paint)
    }

    fn to_text(&self, output: Output) -> String {
        let parts = self.0.iter();
        parts
            .map(|(paint, text)| output.paint(*paint, text))
            .collect()
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::default().and(None, text)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

#[derive(Clone, Debug)]
struct Row {
    cells: Vec<Cell>,
    /// Printed before lines that continue the row of a tree.
    branch: Option<String>,
}

/// A table. Empty cells are printed empty; use `<none>` as kubectl does.
#[derive(Clone, Debug)]
pub struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Row>,
    /// The smallest widths of the columns; `None` if headings are printed.
    continued: Option<Vec<usize>>,
}

impl Table {
    /// A table without rows.
    pub fn new(headings: &[&'static str]) -> Self {
        Self {
            headings: headings.to_vec(),
            rows: Vec::new(),
            continued: None,
        }
    }

    /// A table that continues another one with these [`Table::widths`]: without headings, and with
    /// columns at least as wide.
    pub fn continued(headings: &[&'static str], widths: Vec<usize>) -> Self {
        Self {
            continued: Some(widths),
            ..Self::new(headings)
        }
    }

    /// Widths of all columns but the last, without the gaps between them.
    pub fn widths(&self) -> Vec<usize> {
        let columns = (0..self.last()).map(|column| {
            let before = match &self.continued {
                Some(widths) => widths.get(column).copied().unwrap_or(0),
                None => self.headings[column].width(),
            };
            self.widest(column).max(before)
        });
        columns.collect()
    }

    /// Adds a row, with a cell per heading.
    pub fn row<C: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = C>) {
        let cells = cells.into_iter().map(Into::into).collect();
        let branch = None;
        self.rows.push(Row { cells, branch });
    }

    /// Adds a row of a tree. `branch` is printed before lines that continue the row.
    pub fn branch(&mut self, cells: impl Into<Vec<Cell>>, branch: String) {
        let (cells, branch) = (cells.into(), Some(branch));
        self.rows.push(Row { cells, branch });
    }

    /// Renders the table; every line ends with a newline. On a narrow terminal, the last column is
    /// wrapped. If that column is too narrow for that, it is printed below its row, together with
    /// other columns that do not fit.
    pub fn render(&self, output: Output) -> String {
        let beside: usize = self
            .widths()
            .iter()
            .map(|width| width + usize::from(GAP))
            .sum();
        let needed = beside + self.widest(self.last());
        let columns = self.headings.len();
        let lines = match output.width.map(usize::from) {
            Some(width) if needed > width && beside + NARROWEST > width => {
                self.below(width, output)
            }
            Some(width) if needed > width => self.grid(columns, GAP, Some(width - beside), output),
            _ => self.grid(columns, GAP, None, output),
        };
        lines.into_iter().map(|line| line + "\n").collect()
    }

    fn last(&self) -> usize {
        self.headings.len().saturating_sub(1)
    }

    fn widest(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.cells.get(column));
        cells.map(Cell::width).max().unwrap_or(0)
    }

    /// The lines of the first `columns` columns; `wrap` is the width of the last one of the table.
    fn grid(&self, columns: usize, gap: u16, wrap: Option<usize>, output: Output) -> Vec<String> {
        let headings = match self.continued {
            None => &self.headings[..columns],
            Some(_) => &[],
        };
        let mut table = kubectl_table(headings);
        for row in &self.rows {
            let cells = row.cells.iter().take(columns);
            let mut cells: Vec<String> = cells.map(|cell| cell.to_text(output)).collect();
            if let (Some(width), Some(cell)) = (wrap, row.cells.get(self.last())) {
                let text = cell.text();
                let parts = lines(&text, width);
                let branch = row.branch.as_deref().unwrap_or_default();
                cells[0] += &format!("\n{branch}").repeat(parts.len().saturating_sub(1));
                let parts: Vec<_> = parts
                    .iter()
                    .map(|part| output.paint(cell.paint(), part))
                    .collect();
                cells[self.last()] = parts.join("\n");
            }
            table.add_row(cells);
        }
        for (column, width) in table.column_iter_mut().zip(self.widths()) {
            let whole = u16::try_from(width).unwrap_or(u16::MAX);
            column.set_constraint(LowerBoundary(Width::Fixed(whole.saturating_add(gap))));
        }
        kubectl::lines(table, gap)
    }

    /// Renders the columns that fit, and the other cells below their rows. A tree keeps its first
    /// two columns.
    fn below(&self, width: usize, output: Output) -> Vec<String> {
        let is_tree = self.rows.iter().any(|row| row.branch.is_some());
        let is_crowded = is_tree && self.fitting(width, GAP) < self.last();
        let gap = if is_crowded { 1 } else { GAP };
        let columns = self.fitting(width, gap).max(if is_tree { 2 } else { 1 });
        let put = |text: &mut Vec<String>, whole: &str, indent: &str, paint| {
            for part in lines(whole, width.saturating_sub(indent.width())) {
                text.push(format!("{indent}{}", output.paint(paint, &part)));
            }
        };
        let between = " ".repeat(GAP.into());
        let mut grid = self.grid(columns, gap, None, output).into_iter();
        let mut text = Vec::new();
        if self.continued.is_none() {
            text.extend(grid.next());
            // The last column alone needs no heading.
            if columns < self.last() && !is_tree {
                put(
                    &mut text,
                    &self.headings[columns..].join(&between),
                    INDENT,
                    None,
                );
            }
        }
        for (row, line) in self.rows.iter().zip(grid) {
            text.push(line);
            let cells = row.cells.iter().zip(&self.headings).skip(columns);
            let Some(branch) = &row.branch else {
                let texts = cells.map(|(cell, _)| cell.text());
                let texts: Vec<_> = texts.filter(|text| !text.is_empty()).collect();
                put(&mut text, &texts.join(&between), INDENT, Some(Paint::Dim));
                continue;
            };
            for (cell, heading) in cells {
                if *heading == self.headings[self.last()] {
                    put(&mut text, &cell.text(), branch, Some(Paint::Dim));
                } else if cell.paint().is_some() {
                    // A cell without a colour is as expected, and is left out.
                    let named = format!("{}: {}", heading.to_lowercase(), cell.text());
                    put(&mut text, &named, branch, Some(Paint::Dim));
                }
            }
        }
        text
    }

    /// The number of columns, without the last, that fit into a width.
    fn fitting(&self, width: usize, gap: u16) -> usize {
        let gap = usize::from(gap);
        let ends = self.widths().into_iter().scan(0, |end, own| {
            *end += own + gap;
            Some(*end - gap)
        });
        ends.take_while(|end| *end <= width).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_the_format_of_kubectl() {
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
    fn cells_that_do_not_fit_are_below_their_row() {
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
}
