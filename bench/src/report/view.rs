//! What every textual report shows, as strings in grids: built once from a record, drawn by each format.

use std::collections::BTreeMap;

use super::{INDEX_FP, INDEX_INTEGER, INDEX_MEMORY};
use crate::catalogue::{self, Published};
use crate::record::{Indices, Record, ResultRecord, RowRecord};
use crate::stats;

/// One table.
pub struct Grid {
    /// What it shows.
    pub title: String,
    /// Column titles.
    pub header: Vec<String>,
    /// Cells, as many in each row as in the header.
    pub rows: Vec<Vec<String>>,
    /// How many columns on the left are words; the others are figures.
    pub text_columns: usize,
}

/// The whole report.
pub struct View {
    /// What was measured, where.
    pub head: Vec<String>,
    /// The tables.
    pub grids: Vec<Grid>,
    /// How to read them.
    pub notes: Vec<String>,
    /// What went wrong, cell by cell.
    pub errors: Vec<String>,
    /// What to keep in mind.
    pub warnings: Vec<String>,
}

pub(super) const NONE: &str = "-";

/// Indices that the original nbench 2.2.3 (gcc -O3) reached on hosts of known kind: our *nbench-style* indices may stand
/// beside published ones only where they come near.
struct Calibration {
    cpu: &'static str,
    memory: f64,
    integer: f64,
    fp: f64,
}

const CALIBRATIONS: &[Calibration] = &[
    Calibration { cpu: "GenuineIntel family 6 model 143 ", memory: 67.8, integer: 51.7, fp: 168.8 },
    Calibration { cpu: "GenuineIntel family 6 model 207 ", memory: 67.8, integer: 51.7, fp: 168.8 },
];
const CALIBRATION_TOLERANCE: f64 = 0.20;

impl View {
    /// Looks at a record.
    pub fn new(record: &Record) -> Self {
        let columns = Columns::new(record);
        let mut notes = Vec::new();
        let mut grids = vec![main(record, &columns, &mut notes)];
        grids.extend(indices(record, &columns, &mut notes));
        if let Some((grid, note)) = super::references::grid(record) {
            grids.push(grid);
            notes.push(note);
        }
        grids.extend(means(record, &columns));
        grids.extend(mips(record, &columns));
        Self {
            head: head(record),
            grids,
            notes,
            errors: errors(record),
            warnings: warnings(record),
        }
    }
}

/// The engines as columns: measured ones, then those that were asked for and are missing.
struct Columns<'a> {
    measured: Vec<&'a str>,
    missing: Vec<&'a str>,
    ratios: Vec<&'a str>,
}

impl<'a> Columns<'a> {
    fn new(record: &'a Record) -> Self {
        let measured = record.engines();
        let mut missing: Vec<&str> = Vec::new();
        for warning in record.warnings.iter().filter(|warning| warning.kind == "missing-engine") {
            let name = warning.engine.as_deref().unwrap_or_default();
            if !name.is_empty() && !measured.contains(&name) && !missing.contains(&name) {
                missing.push(name);
            }
        }
        Self { ratios: ratios(&measured), measured, missing }
    }
}

/// The engines whose distance to native is shown: the two compilers that matter, or else whatever there is.
fn ratios<'a>(measured: &[&'a str]) -> Vec<&'a str> {
    if !measured.contains(&"native") {
        return Vec::new();
    }
    let pick = |names: &[&str]| -> Vec<&'a str> {
        measured.iter().copied().filter(|name| names.contains(name)).collect()
    };
    let main = pick(&["opt", "auto"]);
    if !main.is_empty() {
        return main;
    }
    let others = pick(&["baseline", "interp"]);
    match others.last() {
        Some(&engine) => vec![engine],
        None => {
            measured.iter().copied().filter(|name| !name.starts_with("native")).take(2).collect()
        }
    }
}

fn head(record: &Record) -> Vec<String> {
    let (host, build) = (&record.host, &record.axplab);
    vec![
        format!(
            "axplab {} (commit {}, {} build, {})",
            build.version, build.commit, build.profile, build.rustc
        ),
        format!(
            "{} ({}), {} CPUs, {} {}",
            host.cpu, host.cpu_id, host.cores, host.kernel, host.arch
        ),
    ]
}

fn main(record: &Record, columns: &Columns, notes: &mut Vec<String>) -> Grid {
    let published: BTreeMap<&str, Published> = catalogue::published();
    let published = |row: &RowRecord| match row.comparable_to_published {
        true => published.get(row.row.as_str()).copied().unwrap_or_default(),
        false => Published::default(),
    };
    let with_published = record.rows.iter().any(|row| published(row) != Published::default());
    let mut header = vec!["row".to_owned(), "unit".to_owned()];
    header.extend(columns.measured.iter().chain(&columns.missing).map(|name| name.to_string()));
    header.extend(columns.ratios.iter().map(|name| format!("{name}/native")));
    if with_published {
        header.extend(SYSTEMS.map(str::to_owned));
    }
    let mut rows = Vec::new();
    for row in &record.rows {
        let star = if row.comparable_to_published { "" } else { "*" };
        let mut cells = vec![format!("{}{star}", row.label()), row.unit.clone()];
        cells.extend(columns.measured.iter().map(|name| cell(row.result(name))));
        cells.extend(columns.missing.iter().map(|_| "missing".to_owned()));
        cells.extend(columns.ratios.iter().map(|name| ratio(row.time_ratio(name, "native"))));
        if with_published {
            cells.extend(figures(published(row)));
        }
        rows.push(cells);
    }
    if !columns.ratios.is_empty() {
        notes.push("x/native: how many times as long as native for the same work".into());
    }
    notes.push("each cell: median and spread (scaled median absolute deviation)".into());
    if record.rows.iter().any(|row| !row.comparable_to_published) {
        notes.push(
            "* a smaller input than the published one, or measured in another way: not set beside published figures".into(),
        );
    }
    if with_published {
        notes.push(PUBLISHED_NOTE.into());
    }
    Grid { title: "rows by engines".into(), header, rows, text_columns: 2 }
}

const SYSTEMS: [&str; 3] = ["DS10", "ES47", "AlphaVM"];
const PUBLISHED_NOTE: &str = "DS10, ES47, AlphaVM: published figures of an AlphaServer DS10 6/466, an ES47 1.15 GHz and \
    AlphaVM-Pro 1.4.11 on a Xeon E3-1270v3; not measured here";

fn figures(published: Published) -> [String; 3] {
    [published.ds10, published.es47, published.alphavm]
        .map(|value| value.map_or(NONE.to_owned(), number))
}

fn cell(result: Option<&ResultRecord>) -> String {
    let Some(result) = result else { return NONE.into() };
    match (result.median, &result.error) {
        (Some(median), None) if result.verified => {
            let spread =
                stats::Summary::new(&result.samples).map_or(0.0, |summary| summary.spread());
            format!("{} ±{:.1}%", number(median), spread * 100.0)
        }
        _ => "error".into(),
    }
}

fn indices(record: &Record, columns: &Columns, notes: &mut Vec<String>) -> Option<Grid> {
    let Indices { memory, integer, fp } = &record.indices;
    if memory.is_empty() && integer.is_empty() && fp.is_empty() {
        return None;
    }
    let beside = may_stand_beside_published(record, notes);
    let mut header = vec!["index".to_owned()];
    header.extend(columns.measured.iter().map(|name| name.to_string()));
    if beside {
        header.extend(SYSTEMS.map(str::to_owned));
    }
    let published = catalogue::published_indices();
    let rows = [("memory", memory), ("integer", integer), ("floating point", fp)]
        .into_iter()
        .zip(published)
        .map(|((name, values), published)| {
            let mut cells = vec![name.to_owned()];
            let value = |engine: &&str| values.get(*engine).map_or(NONE.to_owned(), |&x| number(x));
            cells.extend(columns.measured.iter().map(value));
            if beside {
                cells.extend(figures(published));
            }
            cells
        })
        .collect();
    let title = "nbench-style indices (AMD K6/233 = 1; higher is better)".into();
    Some(Grid { title, header, rows, text_columns: 1 })
}

/// Published nbench indices stand beside ours only if ours mean the same.
fn may_stand_beside_published(record: &Record, notes: &mut Vec<String>) -> bool {
    let members = [INDEX_MEMORY, INDEX_INTEGER, INDEX_FP].concat();
    let scaled =
        |row: &RowRecord| members.contains(&row.row.as_str()) && !row.comparable_to_published;
    if record.rows.iter().any(scaled) {
        notes.push("indices over smaller inputs: not set beside published ones".into());
        return false;
    }
    let known = CALIBRATIONS.iter().find(|known| record.host.cpu_id.starts_with(known.cpu));
    let native = |values: &BTreeMap<String, f64>| values.get("native").copied();
    let Indices { memory, integer, fp } = &record.indices;
    let (Some(known), Some(memory), Some(integer), Some(fp)) =
        (known, native(memory), native(integer), native(fp))
    else {
        notes.push(
            "nbench-style indices are not calibrated against the original nbench on this host: not set \
             beside published ones"
                .into(),
        );
        return false;
    };
    let off: Vec<String> = [
        ("memory", memory, known.memory),
        ("integer", integer, known.integer),
        ("floating point", fp, known.fp),
    ]
    .into_iter()
    .filter(|(_, ours, original)| (ours / original - 1.0).abs() > CALIBRATION_TOLERANCE)
    .map(|(name, ours, original)| format!("{name} {} (nbench: {})", number(ours), number(original)))
    .collect();
    if off.is_empty() {
        notes.push(
            "native nbench-style indices lie within 20 % of the original nbench's on such a host"
                .into(),
        );
        return true;
    }
    let disturbed = |kind: &str| kind == "busy" || kind == "starved";
    if record.warnings.iter().any(|warning| disturbed(&warning.kind)) {
        notes.push(
            "the machine was busy, which alone may move the indices: measure again on a quiet one"
                .into(),
        );
    }
    notes.push(format!(
        "native nbench-style indices are more than 20 % off the original nbench's on such a host ({}): \
         published indices are not shown",
        off.join(", ")
    ));
    false
}

/// Geometric means of time ratios, by class and over all.
fn means(record: &Record, columns: &Columns) -> Option<Grid> {
    let main = if columns.measured.contains(&"auto") { "auto" } else { columns.ratios.first()? };
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for engine in columns.ratios.iter().copied().chain([main]) {
        if !pairs.contains(&(engine, "native")) {
            pairs.push((engine, "native"));
        }
    }
    if main != "qemu-alpha" {
        pairs.push(("qemu-alpha", main));
    }
    pairs.retain(|(a, b)| columns.measured.contains(a) && columns.measured.contains(b));
    if pairs.is_empty() {
        return None;
    }
    let mut suites: Vec<&str> = Vec::new();
    for row in &record.rows {
        if !suites.contains(&row.suite.as_str()) {
            suites.push(&row.suite);
        }
    }
    let line = |name: &str, wanted: &dyn Fn(&RowRecord) -> bool| {
        let mut cells = vec![name.to_owned()];
        for (engine, base) in &pairs {
            let ratios: Vec<f64> = record
                .rows
                .iter()
                .filter(|row| wanted(row))
                .filter_map(|row| row.time_ratio(engine, base))
                .collect();
            cells.push(ratio(stats::geometric_mean(&ratios)));
        }
        cells
    };
    let mut rows: Vec<Vec<String>> =
        suites.iter().map(|suite| line(suite, &|row| row.suite == *suite)).collect();
    // Over kernels: a mean of these and of disks says nothing.
    let kernels: Vec<&str> =
        suites.iter().copied().filter(|suite| catalogue::is_kernels(suite)).collect();
    if kernels.len() > 1 {
        let name = if kernels.len() == suites.len() { "all" } else { "all kernels" };
        rows.push(line(name, &|row| kernels.contains(&row.suite.as_str())));
    }
    let mut header = vec!["class".to_owned()];
    header.extend(pairs.iter().map(|(engine, base)| format!("{engine}/{base}")));
    let title = "geometric means of the time for the same work".into();
    Some(Grid { title, header, rows, text_columns: 1 })
}

/// Guest instructions by time of the work loop.
fn mips(record: &Record, columns: &Columns) -> Option<Grid> {
    let of = |result: &ResultRecord| {
        let count = result.guest_instructions.filter(|_| result.verified)?;
        Some(count as f64 / 1e6 / result.seconds.filter(|&seconds| seconds > 0.0)?)
    };
    let known = |name: &str| record.rows.iter().any(|row| row.result(name).and_then(of).is_some());
    let engines: Vec<&str> = columns.measured.iter().copied().filter(|name| known(name)).collect();
    let line = |row: &RowRecord| {
        let value = |name: &&str| row.result(name).and_then(of).map_or(NONE.to_owned(), number);
        std::iter::once(row.row.clone()).chain(engines.iter().map(value)).collect()
    };
    let mut header = vec!["row".to_owned()];
    header.extend(engines.iter().map(|name| name.to_string()));
    let title = "million guest instructions per second".into();
    let rows = record.rows.iter().map(line).collect();
    (!engines.is_empty()).then_some(Grid { title, header, rows, text_columns: 1 })
}

/// Where an engine's time went and how much code it made, for the reports that have the room.
pub fn tiers(record: &Record) -> Option<Grid> {
    let header = [
        "row",
        "engine",
        "load s",
        "translate s",
        "execute s",
        "host code B",
        "guest instructions compiled",
    ];
    let mut rows = Vec::new();
    for row in &record.rows {
        for result in row.results.iter().filter(|result| !result.phases.is_empty()) {
            let phase = |name: &str| result.phases.get(name).map_or(NONE.into(), |&x| number(x));
            let metric = |name: &str| {
                let samples = result.metrics.get(name).map(|metric| metric.samples.as_slice());
                samples.and_then(stats::median).map_or(NONE.into(), number)
            };
            rows.push(vec![
                row.row.clone(),
                result.engine.clone(),
                phase("load"),
                phase("translate"),
                phase("execute"),
                metric("code_bytes"),
                metric("compiled_instructions"),
            ]);
        }
    }
    let header = header.map(str::to_owned).to_vec();
    let title = "where the time of a sample went, and what was compiled".into();
    (!rows.is_empty()).then_some(Grid { title, header, rows, text_columns: 2 })
}

fn errors(record: &Record) -> Vec<String> {
    let mut lines = Vec::new();
    for row in &record.rows {
        for result in &row.results {
            if let Some(error) = &result.error {
                lines.push(format!("{} on {}: {error}", row.row, result.engine));
            }
        }
    }
    lines
}

/// Cells that a warning lists.
const LISTED: usize = 6;

/// One line for each kind of cell warning, so that a noisy machine does not bury the rest.
fn warnings(record: &Record) -> Vec<String> {
    let mut lines = Vec::new();
    let mut cells: Vec<(&str, Vec<String>)> = Vec::new();
    for warning in &record.warnings {
        let (Some(row), Some(engine)) = (&warning.row, &warning.engine) else {
            lines.push(warning.message.clone());
            continue;
        };
        let text = format!("{row} on {engine}: {}", warning.message);
        match cells.iter_mut().find(|(kind, _)| *kind == warning.kind) {
            Some((_, texts)) => texts.push(text),
            None => cells.push((&warning.kind, vec![text])),
        }
    }
    for (kind, mut texts) in cells {
        let more = texts.len().saturating_sub(LISTED);
        texts.truncate(LISTED);
        if more > 0 {
            texts.push(format!("and {more} more (all are in the record)"));
        }
        lines.push(format!("{kind}: {}", texts.join("; ")));
    }
    lines
}

fn ratio(value: Option<f64>) -> String {
    value.map_or(NONE.into(), |value| format!("{}x", number(value)))
}

/// Cells of several hosts beside each other, for records that are not of one host.
pub fn hosts(records: &[Record]) -> Option<Grid> {
    if records.len() < 2 {
        return None;
    }
    let mut header = vec!["row".to_owned(), "unit".to_owned()];
    let mut names: Vec<(String, &str)> = Vec::new();
    for (index, record) in records.iter().enumerate() {
        header.extend(record.engines().iter().map(|name| format!("{}: {name}", index + 1)));
        for row in &record.rows {
            if !names.iter().any(|(name, _)| *name == row.label()) {
                names.push((row.label(), &row.unit));
            }
        }
    }
    let line = |(name, unit): &(String, &str)| {
        let mut cells = vec![name.to_string(), unit.to_string()];
        for record in records {
            let row = record.rows.iter().find(|row| row.label() == *name && row.unit == *unit);
            cells.extend(
                record.engines().iter().map(|engine| cell(row.and_then(|r| r.result(engine)))),
            );
        }
        cells
    };
    let rows = names.iter().map(line).collect();
    let title = "hosts side by side, numbered as below".into();
    Some(Grid { title, header, rows, text_columns: 2 })
}

/// Four significant digits, or whole numbers up to ten million, then millions.
pub fn number(value: f64) -> String {
    match value.abs() {
        x if !x.is_finite() => "?".into(),
        0.0 => "0".into(),
        x if x >= 1e10 => format!("{:.1}G", value / 1e9),
        x if x >= 1e7 => format!("{:.1}M", value / 1e6),
        x => {
            let decimals = (3 - x.log10().floor() as i32).clamp(0, 9) as usize;
            format!("{value:.decimals$}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Better, SCHEMA};
    use crate::warning::Warning;

    fn result(engine: &str, value: f64) -> ResultRecord {
        ResultRecord {
            engine: engine.into(),
            median: Some(value),
            samples: vec![value * 0.99, value, value * 1.01],
            verified: true,
            ..ResultRecord::default()
        }
    }

    fn row(name: &str, better: Better, results: Vec<ResultRecord>) -> RowRecord {
        RowRecord {
            suite: "crypto".into(),
            row: name.into(),
            params: BTreeMap::new(),
            unit: "kB/s".into(),
            better,
            work: 1.0,
            comparable_to_published: true,
            results,
        }
    }

    fn record(rows: Vec<RowRecord>) -> Record {
        Record {
            schema: SCHEMA.into(),
            host: Default::default(),
            axplab: Default::default(),
            randomised_layout: true,
            rows,
            indices: Indices::default(),
            warnings: Vec::new(),
        }
    }

    fn text(record: &Record, format: super::super::Format) -> String {
        let mut out = Vec::new();
        super::super::writer(format).write(std::slice::from_ref(record), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn an_error_is_never_a_time_and_takes_no_part_in_ratios() {
        let mut wrong = result("auto", 50.0);
        wrong.verified = false;
        wrong.error = Some("wrong result: checksum".into());
        let record =
            record(vec![row("md5-8192", Better::Higher, vec![result("native", 100.0), wrong])]);
        let view = View::new(&record);
        let cells = &view.grids[0].rows[0];
        assert_eq!((cells[3].as_str(), cells[4].as_str()), ("error", NONE));
        assert_eq!(view.errors, ["md5-8192 on auto: wrong result: checksum"]);
        assert!(!text(&record, super::super::Format::Table).contains("50.0"));
    }

    #[test]
    fn ratios_are_times_whichever_way_is_better() {
        let rates = row("a", Better::Higher, vec![result("native", 100.0), result("auto", 50.0)]);
        let times = row("b", Better::Lower, vec![result("native", 2.0), result("auto", 4.0)]);
        let view = View::new(&record(vec![rates, times]));
        assert!(view.grids[0].rows.iter().all(|cells| cells[4] == "2.000x"));
        assert_eq!(view.grids[1].rows[0], ["crypto", "2.000x"]);
    }

    #[test]
    fn a_scaled_row_is_marked_and_has_no_published_figures() {
        let mut scaled = row("md5-8192", Better::Higher, vec![result("native", 1.0)]);
        let full = View::new(&record(vec![scaled.clone()]));
        assert!(full.grids[0].header.contains(&"DS10".to_owned()));
        scaled.comparable_to_published = false;
        let view = View::new(&record(vec![scaled]));
        assert_eq!(view.grids[0].rows[0][0], "md5-8192*");
        assert!(!view.grids[0].header.contains(&"DS10".to_owned()));
    }

    #[test]
    fn published_indices_are_shown_only_beside_calibrated_ones() {
        let mut record = record(vec![row("idea", Better::Higher, vec![result("native", 1.0)])]);
        let set = |value| BTreeMap::from([("native".to_owned(), value)]);
        record.host.cpu_id = "GenuineIntel family 6 model 207 stepping 2".into();
        record.indices = Indices { memory: set(60.0), integer: set(50.0), fp: set(170.0) };
        assert!(View::new(&record).grids[1].header.contains(&"ES47".to_owned()));
        record.indices.memory = set(40.0);
        let view = View::new(&record);
        assert!(!view.grids[1].header.contains(&"ES47".to_owned()));
        assert!(view.notes.iter().any(|note| note.contains("memory 40.00 (nbench: 67.80)")));
        record.indices.memory = set(60.0);
        record.host.cpu_id = "AuthenticAMD family 25 model 1 stepping 1".into();
        let view = View::new(&record);
        assert!(!view.grids[1].header.contains(&"ES47".to_owned()));
        assert!(view.notes.iter().any(|note| note.contains("not calibrated")));
    }

    #[test]
    fn a_missing_engine_keeps_its_column_and_warnings_are_gathered() {
        let mut record = record(vec![row("a", Better::Higher, vec![result("native", 1.0)])]);
        record.warnings = vec![
            Warning::engine(
                "missing-engine",
                "qemu-alpha",
                "engine qemu-alpha is missing: not on PATH",
            ),
            Warning::cell("noise", "a", "native", "spread 9.0 %"),
            Warning::cell("noise", "b", "native", "spread 8.0 %"),
        ];
        let view = View::new(&record);
        assert_eq!(view.grids[0].rows[0][3], "missing");
        assert_eq!(view.warnings[1], "noise: a on native: spread 9.0 %; b on native: spread 8.0 %");
        let markdown = text(&record, super::super::Format::Markdown);
        assert!(markdown.contains("| row | unit | native | qemu-alpha |"), "{markdown}");
    }

    #[test]
    fn numbers_keep_four_digits() {
        let shown = [0.0, 0.0123456, 1.5, 14.3, 961.12, 234_367.4, 7.52e8, 2e11].map(number);
        assert_eq!(
            shown,
            ["0", "0.01235", "1.500", "14.30", "961.1", "234367", "752.0M", "200.0G"]
        );
    }
}
