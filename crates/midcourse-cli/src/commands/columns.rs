//! Tables for human readers: aligned columns without borders.

use std::io::Write;

use anyhow::Result;
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, Table};

pub(super) fn table<'a>(headings: impl IntoIterator<Item = &'a str>) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(headings);
    table
}

/// Prints a table. `numeric` lists the columns, counted from 0, that are aligned to the right.
pub(super) fn print(
    out: &mut impl Write,
    mut table: Table,
    numeric: impl IntoIterator<Item = usize>,
) -> Result<()> {
    for index in numeric {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for line in table.lines() {
        writeln!(out, "{}", line.strip_prefix(' ').unwrap_or(&line).trim_end())?;
    }
    Ok(())
}
