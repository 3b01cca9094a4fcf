//! `axplab list`: the rows that can be measured and the engines found here.

use std::io::Write;

use comfy_table::{ContentArrangement, Table, presets};
use serde_json::json;

use crate::Outcome;
use crate::catalogue::{self, Programs, Row};
use crate::cli::ListArgs;
use crate::engines::{self, EngineSpec, Program};
use crate::record::Better;

/// Runs the command.
pub fn list(args: ListArgs) -> anyhow::Result<Outcome> {
    let rows = catalogue::rows()?;
    let engines = engines::registry(args.config.as_deref())?;
    let programs = Programs::new()?;
    let status = |engine: &EngineSpec| -> anyhow::Result<Option<String>> {
        Ok(match (engine.missing(), rows.first()) {
            (None, Some(row)) if engine.program() != Program::Guest => {
                programs.native(row, engine.program())?.err()
            }
            (missing, _) => missing,
        })
    };
    let mut out = std::io::stdout().lock();
    if args.json {
        let engines: Vec<_> = engines
            .iter()
            .map(|engine| {
                Ok(json!({
                    "name": engine.name, "about": engine.about, "missing": status(engine)?,
                    "default": engine.default,
                }))
            })
            .collect::<anyhow::Result<_>>()?;
        let rows: Vec<_> = rows.iter().map(row_json).collect();
        serde_json::to_writer_pretty(&mut out, &json!({ "rows": rows, "engines": engines }))?;
        writeln!(out)?;
        return Ok(Outcome::DONE);
    }
    let mut table = plain(["row", "class", "unit", "better", "size", "quick", "about"]);
    for row in &rows {
        table.add_row([
            row.name.clone(),
            row.class.clone(),
            row.unit.clone(),
            better(row).to_owned(),
            row.size.to_string(),
            row.quick_size.to_string(),
            row.about.clone(),
        ]);
    }
    writeln!(out, "rows\n{table}\n")?;
    let mut table = plain(["engine", "here", "about"]);
    for engine in &engines {
        let here = status(engine)?.map_or("yes".into(), |why| format!("no: {why}"));
        table.add_row([engine.name.clone(), here, engine.about.clone()]);
    }
    writeln!(out, "engines\n{table}")?;
    Ok(Outcome::DONE)
}

fn plain<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    table
}

fn better(row: &Row) -> &'static str {
    match row.better() {
        Better::Higher => "higher",
        Better::Lower => "lower",
    }
}

fn row_json(row: &Row) -> serde_json::Value {
    let checksums: serde_json::Map<_, _> = row
        .checksums
        .iter()
        .map(|(size, checksum)| (size.to_string(), format!("{checksum:016x}").into()))
        .collect();
    json!({
        "name": row.name, "class": row.class, "unit": row.unit, "better": better(row),
        "size": row.size, "quick_size": row.quick_size, "about": row.about, "checksums": checksums,
    })
}
