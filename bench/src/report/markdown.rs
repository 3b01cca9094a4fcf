//! The report for a README, a merge request or a CI summary.

use std::io::Write;

use super::ReportWriter;
use super::view::{self, Grid, View};
use crate::record::Record;

/// Writes Markdown tables, then notes and warnings as lists.
pub struct Markdown;

impl ReportWriter for Markdown {
    fn write(&self, records: &[Record], out: &mut dyn Write) -> anyhow::Result<()> {
        if let Some(grid) = view::hosts(records) {
            table(out, &grid)?;
        }
        for (index, record) in records.iter().enumerate() {
            if records.len() > 1 {
                writeln!(out, "\n## Host {}\n", index + 1)?;
            }
            one(record, out)?;
        }
        Ok(())
    }
}

fn one(record: &Record, out: &mut dyn Write) -> anyhow::Result<()> {
    let view = View::new(record);
    for line in &view.head {
        writeln!(out, "{line}  ")?;
    }
    for grid in &view.grids {
        table(out, grid)?;
    }
    for (title, lines) in
        [("Notes", &view.notes), ("Errors", &view.errors), ("Warnings", &view.warnings)]
    {
        if !lines.is_empty() {
            writeln!(out, "\n{title}:\n")?;
        }
        for line in lines {
            writeln!(out, "- {line}")?;
        }
    }
    Ok(())
}

fn table(out: &mut dyn Write, grid: &Grid) -> anyhow::Result<()> {
    writeln!(out, "\n### {}\n", grid.title)?;
    row(out, &grid.header)?;
    let rule = |index| if index < grid.text_columns { "---" } else { "---:" };
    row(out, &(0..grid.header.len()).map(|index| rule(index).to_owned()).collect::<Vec<_>>())?;
    for cells in &grid.rows {
        row(out, cells)?;
    }
    Ok(())
}

fn row(out: &mut dyn Write, cells: &[String]) -> std::io::Result<()> {
    let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    writeln!(out, "| {} |", cells.join(" | "))
}
