//! `axplab list`: the rows that can be measured and the engines found here.

use std::collections::BTreeMap;
use std::io::Write;

use serde_json::json;

use crate::Outcome;
use crate::catalogue::{self, Programs, Row};
use crate::cli::ListArgs;
use crate::config::Config;
use crate::engines::{Build, EngineSpec};
use crate::record::Better;
use crate::report;

/// Runs the command.
pub fn list(args: ListArgs) -> anyhow::Result<Outcome> {
    let rows = catalogue::rows();
    let engines = Config::load(args.config.as_deref())?.engines;
    let programs = Programs::new()?;
    let status = |engine: &EngineSpec| -> anyhow::Result<Option<String>> {
        Ok(match (engine.missing(), rows.first()) {
            (None, Some(row)) if engine.build() != Build::Guest => {
                programs.artifact(row, engine.build(), "ev56")?.err()
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
    let mut table = report::plain_table();
    table.set_header(["row", "class", "unit", "better", "size", "quick", "about"]);
    for row in &rows {
        table.add_row([
            row.name.clone(),
            row.class_name().to_owned(),
            row.display_unit.clone(),
            better(row).to_owned(),
            row.size.to_string(),
            row.quick_size.to_string(),
            row.title.clone(),
        ]);
    }
    writeln!(out, "rows\n{table}\n")?;
    let mut table = report::plain_table();
    table.set_header(["engine", "here", "about"]);
    for engine in &engines {
        let here = status(engine)?.map_or("yes".into(), |why| format!("no: {why}"));
        table.add_row([engine.name.clone(), here, engine.about.clone()]);
    }
    writeln!(out, "engines\n{table}")?;
    Ok(Outcome::DONE)
}

fn better(row: &Row) -> &'static str {
    match row.better() {
        Better::Higher => "higher",
        Better::Lower => "lower",
    }
}

fn row_json(row: &Row) -> serde_json::Value {
    let checksums = BTreeMap::from([
        (row.size.to_string(), &row.checksum),
        (row.quick_size.to_string(), &row.quick_checksum),
    ]);
    json!({
        "name": row.name, "class": row.class_name(), "unit": row.display_unit, "better": better(row),
        "size": row.size, "quick_size": row.quick_size, "about": row.title, "checksums": checksums,
    })
}
