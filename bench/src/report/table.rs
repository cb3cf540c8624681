//! The layout of tables.

use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};

use crate::served::{Count, Served};

/// A table of numbers with names in the first column.
pub(super) fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = plain(header, rows);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

pub(super) fn of_texts(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    plain(header, rows).trim_fmt()
}

fn plain(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> Table {
    let mut table = Table::new();
    let line = LineStyle::none().fill('─');
    table
        .load_style(TableStyle::new().header_separator(line))
        .set_header(header.to_vec());
    for mut row in rows {
        row.resize(header.len(), String::new());
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table
}

/// Requests as API servers counted them, by resource and verb. If there is more than one side, its
/// name is in a column.
pub(super) fn served(sides: &[(&str, &Served)], shown: impl Fn(u64) -> String) -> String {
    let all = sides
        .iter()
        .fold(Served::default(), |sum, (_, side)| sum.plus(side));
    let verbs = all.verbs();
    let mut header = vec!["resource"];
    header.extend((sides.len() > 1).then_some("at"));
    header.extend(&verbs);
    header.extend(["all", "refused"]);
    let cell = |number: u64| match number {
        0 => String::new(),
        number => shown(number),
    };
    let row = |at: &str, side: &Served, resource: &str| {
        let Count { sent, refused } = side.about(resource);
        let mut row = vec![resource.to_owned()];
        row.extend((sides.len() > 1).then(|| at.to_owned()));
        row.extend(verbs.iter().map(|verb| cell(side.of(resource, verb).sent)));
        row.extend([cell(sent), cell(refused)]);
        row
    };
    let rows = sides.iter().flat_map(|(at, side)| {
        let resources = side.resources();
        resources.map(|resource| row(at, side, resource))
    });
    table(&header, rows)
}

pub(super) fn fixed(number: f64, digits: usize) -> String {
    format!("{number:.digits$}")
}

pub(super) fn or_empty(number: Option<f64>, digits: usize) -> String {
    number.map_or_else(String::new, |number| fixed(number, digits))
}
