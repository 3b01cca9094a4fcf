//! `axplab import`: turns the lines that guest programs printed on another machine, or under an
//! emulator that the lab cannot start, into a record that reports read like any other.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, bail};
use axp_guests::ResultLine;

use crate::Outcome;
use crate::catalogue::{self, Row};
use crate::cli::ImportArgs;
use crate::record::{self, Host, Indices, Record, ResultRecord, RowRecord};
use crate::warning::{self, Warning};
use crate::{collect, fingerprint, stats};

/// More than a person would paste.
const MOST: u64 = 64 << 20;

/// Runs the command.
pub fn import(args: ImportArgs) -> anyhow::Result<Outcome> {
    let to_stdout = args.json == Path::new("-");
    if !to_stdout {
        record::check_writable(&args.json)?;
    }
    let mut lines = Vec::new();
    for path in &args.files {
        let text = read(path)?;
        // A carriage return comes from a console log.
        let found = text.lines().filter_map(|line| Some(line[line.find("AXPLAB1 ")?..].trim_end()));
        for line in found {
            let parsed = ResultLine::parse(line);
            lines.push(parsed.with_context(|| format!("in `{}`", path.display()))?);
        }
    }
    if lines.is_empty() {
        let files: Vec<_> = args.files.iter().map(|path| path.display().to_string()).collect();
        bail!(
            "no line that begins with AXPLAB1 in `{}`; give what a guest program of `axplab list` printed",
            files.join("`, `")
        );
    }
    let record = assemble(lines, &args.engine, &args.host)?;
    if to_stdout {
        let mut out = std::io::stdout().lock();
        serde_json::to_writer_pretty(&mut out, &record)?;
        writeln!(out)?;
    } else {
        record.write(&args.json)?;
        eprintln!("axplab: {} rows are in {}", record.rows.len(), args.json.display());
    }
    for (row, error) in errors(&record) {
        eprintln!("axplab: {row}: {error}");
    }
    Ok(if record.has_errors() { Outcome::WRONG_RESULT } else { Outcome::DONE })
}

fn read(path: &Path) -> anyhow::Result<String> {
    let hint =
        || format!("cannot read `{}`; name a file with lines of guest programs", path.display());
    let mut bytes = Vec::new();
    match path == Path::new("-") {
        true => std::io::stdin().take(MOST).read_to_end(&mut bytes),
        false => std::fs::File::open(path).and_then(|file| file.take(MOST).read_to_end(&mut bytes)),
    }
    .with_context(hint)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn errors(record: &Record) -> impl Iterator<Item = (&str, &str)> {
    let results = record.rows.iter().flat_map(|row| row.results.iter().map(move |r| (row, r)));
    results.filter_map(|(row, result)| Some((row.row.as_str(), result.error.as_deref()?)))
}

/// The lines, by row and size, in the order of the catalogue.
fn assemble(lines: Vec<ResultLine>, engine: &str, host: &str) -> anyhow::Result<Record> {
    let all = catalogue::rows();
    let mut groups: BTreeMap<(usize, u64), Vec<ResultLine>> = BTreeMap::new();
    for line in lines {
        let at = all.iter().position(|row| row.name == line.row);
        let at =
            at.with_context(|| format!("no row is named `{}`; see `axplab list`", line.row))?;
        groups.entry((at, line.size)).or_default().push(line);
    }
    let mut warnings = Vec::new();
    let mut rows: Vec<RowRecord> = Vec::new();
    for ((at, size), lines) in groups {
        let row = &all[at];
        if rows.last().is_some_and(|last: &RowRecord| last.row == row.name) {
            bail!("`{}` was run with more than one size: import one at a time", row.name);
        }
        if lines.len() < warning::FEW_SAMPLES {
            let message = format!("only {} samples", lines.len());
            warnings.push(Warning::cell("few-samples", &row.name, engine, message));
        }
        if row.expected_checksum(size).is_none() {
            let message = format!("the right result for size {size} is not known");
            warnings.push(Warning::cell("unknown-size", &row.name, engine, message));
        }
        rows.push(row_record(row, size, &lines, engine));
    }
    let mut record = Record {
        schema: record::SCHEMA.to_owned(),
        host: Host { cpu: host.to_owned(), arch: "alpha".into(), ..Host::default() },
        axplab: fingerprint::build(),
        randomised_layout: false,
        rows,
        indices: Indices::default(),
        warnings,
    };
    record.indices = collect::indices(&all, &record.rows);
    Ok(record)
}

fn row_record(row: &Row, size: u64, lines: &[ResultLine], engine: &str) -> RowRecord {
    RowRecord {
        suite: row.suite().to_owned(),
        row: row.name.clone(),
        params: BTreeMap::from([
            ("size".to_owned(), size.into()),
            ("imported".to_owned(), true.into()),
        ]),
        unit: row.display_unit.clone(),
        better: row.better(),
        work: lines.first().map_or(0.0, |line| line.work as f64 / line.reps.max(1) as f64),
        comparable_to_published: row.comparable && size == row.size,
        results: vec![result(row, size, lines, engine)],
    }
}

fn result(row: &Row, size: u64, lines: &[ResultLine], engine: &str) -> ResultRecord {
    let identity = ResultRecord { engine: engine.to_owned(), ..ResultRecord::default() };
    let error = |text: String| ResultRecord { error: Some(text), ..identity.clone() };
    if row.value == catalogue::Value::Wall {
        return error("its time is the whole process's, which its line does not tell".into());
    }
    let right = row.expected_checksum(size).unwrap_or(&lines[0].checksum);
    if let Some(line) = lines.iter().find(|line| line.checksum != right) {
        return error(format!("wrong result: checksum {} instead of {right}", line.checksum));
    }
    if lines.iter().any(|line| line.seconds <= 0.0 || line.reps == 0) {
        return error("the kernel's clock did not move".into());
    }
    let values: Vec<f64> = lines
        .iter()
        .map(|line| row.value_of(line.work as f64, line.reps as f64, line.seconds))
        .collect();
    let summary = stats::Summary::new(&values);
    let seconds: Vec<f64> = lines.iter().map(|line| line.seconds).collect();
    ResultRecord {
        median: summary.map(|summary| summary.median),
        min: summary.map(|summary| summary.min),
        max: summary.map(|summary| summary.max),
        order: (0..values.len() as u32).collect(),
        samples: values,
        verified: true,
        seconds: stats::median(&seconds),
        ..identity
    }
}
