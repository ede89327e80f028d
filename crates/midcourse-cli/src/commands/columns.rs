//! Tables for people: plain columns, no lines around them.

use std::io::Write;

use anyhow::Result;
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, Table};

/// A table with these headings.
pub(super) fn table<'a>(headings: impl IntoIterator<Item = &'a str>) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(headings);
    table
}

/// Prints a table with its numbers, which stand in these columns, to the right.
pub(super) fn print(
    out: &mut impl Write,
    mut table: Table,
    numbers: impl IntoIterator<Item = usize>,
) -> Result<()> {
    for column in numbers {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for line in table.lines() {
        writeln!(out, "{}", line.strip_prefix(' ').unwrap_or(&line).trim_end())?;
    }
    Ok(())
}
