//! Tables as kubectl prints them: upper-case headings, no lines, three blanks between columns.

use comfy_table::{ContentArrangement, Row, Table, TableStyle};

/// Blanks between columns.
pub const GAP: u16 = 3;

/// An empty table, without a line of headings if `headings` is empty. Cells are not wrapped.
pub fn kubectl_table(headings: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(TableStyle::new());
    table.set_content_arrangement(ContentArrangement::Disabled);
    // Without support for terminals, the library does not look for one.
    #[cfg(not(target_family = "wasm"))]
    table.force_no_tty();
    if !headings.is_empty() {
        table.set_header(Row::from(headings.to_vec()));
    }
    table
}

/// The text of a table; every line ends with a newline, and has no blanks before it.
pub fn render(table: Table) -> String {
    let lines = lines(table, GAP).into_iter();
    lines.map(|line| line + "\n").collect()
}

/// The lines of a table with `gap` blanks between its columns.
pub fn lines(mut table: Table, gap: u16) -> Vec<String> {
    let last = table.column_count().saturating_sub(1);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if index < last { gap } else { 0 }));
    }
    let lines = table.lines();
    lines.map(|line| line.trim_end().to_owned()).collect()
}
