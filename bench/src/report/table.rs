//! The report for the terminal.

use std::io::Write;

use comfy_table::CellAlignment;

use super::ReportWriter;
use super::view::{self, Grid, View};
use crate::record::Record;

/// Writes aligned tables, then notes and warnings.
pub struct Table;

impl ReportWriter for Table {
    fn write(&self, records: &[Record], out: &mut dyn Write) -> anyhow::Result<()> {
        if let Some(grid) = view::hosts(records) {
            writeln!(out, "{}\n{}", grid.title, draw(&grid))?;
        }
        for (index, record) in records.iter().enumerate() {
            if records.len() > 1 {
                writeln!(out, "\nhost {}", index + 1)?;
            }
            one(record, out)?;
        }
        Ok(())
    }
}

fn one(record: &Record, out: &mut dyn Write) -> anyhow::Result<()> {
    let view = View::new(record);
    for line in &view.head {
        writeln!(out, "{line}")?;
    }
    for grid in &view.grids {
        writeln!(out, "\n{}", grid.title)?;
        writeln!(out, "{}", draw(grid))?;
    }
    for (title, lines) in
        [("notes", &view.notes), ("errors", &view.errors), ("warnings", &view.warnings)]
    {
        if !lines.is_empty() {
            writeln!(out, "\n{title}")?;
        }
        for line in lines {
            writeln!(out, "  {line}")?;
        }
    }
    Ok(())
}

fn draw(grid: &Grid) -> comfy_table::Table {
    let mut table = super::plain_table();
    table.set_header(grid.header.iter());
    for row in &grid.rows {
        table.add_row(row.iter());
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        if index >= grid.text_columns {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}
