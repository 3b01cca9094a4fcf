//! `axplab bench`: checks the call, measures rows on engines, makes the record, prints the report.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::Outcome;
use crate::catalogue::{self, Artifact, Programs, Row};
use crate::cli::BenchArgs;
use crate::engines::{self, Build, EngineSpec, Values};
use crate::measure::{Interrupt, Invocation};
use crate::plan::{self, Cell, Progress, Settings};
use crate::record::{self, Indices, Record, RowRecord};
use crate::report::{self, Format};
use crate::warning::Warning;
use crate::{fingerprint, stats, warning};

/// Seconds of sampling that a quick run of the whole table may take; start-up and slow cells come on top.
const QUICK_BUDGET: f64 = 150.0;

/// Runs the command.
pub fn bench(args: BenchArgs) -> anyhow::Result<Outcome> {
    let all_rows = catalogue::rows();
    let rows = catalogue::select(&all_rows, &args.rows)?;
    if !super::run::CPUS.contains(&args.cpu.as_str()) {
        bail!("unknown cpu `{}`; choose one of {}", args.cpu, super::run::CPUS.join(", "));
    }
    let registry = engines::registry(args.config.as_deref())?;
    let chosen = engines::select(&registry, &args.engines)?;
    let to_stdout = args.json.as_deref() == Some(Path::new("-"));
    let json = args.json.as_deref().filter(|_| !to_stdout);
    if let Some(path) = json {
        record::check_writable(path)?;
    }
    let mut warnings = Vec::new();
    let present = present(chosen, args.engines.is_empty(), &mut warnings)?;
    let lab = Lab::new(&args, present, rows.len())?;
    let interrupt = Interrupt::catch()?;
    let mut record = lab.measure(&rows, &interrupt, warnings)?;

    let interrupted = interrupt.is_set();
    if interrupted {
        let message = "interrupted: what was measured by then is kept, the rest is missing";
        record.warnings.push(Warning::general("interrupted", message));
    }
    record.indices = indices(&all_rows, &record.rows);
    if let Some(path) = json {
        record.write(path)?;
    }
    let format = if to_stdout { Format::Json } else { args.format };
    let mut out = std::io::stdout().lock();
    report::writer(format).write(&record, &mut out)?;
    out.flush()?;
    if let Some(path) = json {
        eprintln!("axplab: the record is in {}", path.display());
    }
    Ok(match () {
        () if interrupted => {
            eprintln!("axplab: interrupted; what was measured by then is kept");
            Outcome::INTERRUPTED
        }
        () if record.has_errors() => Outcome::WRONG_RESULT,
        () => Outcome::DONE,
    })
}

/// Drops the engines that cannot run here, and says so where the user would look for them.
fn present(
    chosen: Vec<EngineSpec>,
    by_default: bool,
    warnings: &mut Vec<Warning>,
) -> anyhow::Result<Vec<EngineSpec>> {
    let mut present = Vec::new();
    let mut reasons = Vec::new();
    for engine in chosen {
        match engine.missing() {
            None => present.push(engine),
            // What no build of this commit has is missed by nobody who did not ask for it.
            Some(_) if by_default && engine.in_tree => {}
            Some(why) => {
                reasons.push(format!("{}: {why}", engine.name));
                let message = format!("engine {} is missing: {why}", engine.name);
                warnings.push(Warning::engine("missing-engine", &engine.name, message));
            }
        }
    }
    if present.is_empty() {
        bail!("none of the engines can run here ({}); see `axplab list`", reasons.join("; "));
    }
    Ok(present)
}

/// All that measuring needs besides the rows.
struct Lab {
    axplab: PathBuf,
    engines: Vec<EngineSpec>,
    settings: Settings,
    programs: Programs,
    quick: bool,
    cpu: String,
}

impl Lab {
    fn new(args: &BenchArgs, engines: Vec<EngineSpec>, rows: usize) -> anyhow::Result<Self> {
        let samples = args.samples.unwrap_or(if args.quick { 5 } else { 7 });
        let cells = (rows * engines.len()).max(1) as f64;
        // Calibrating costs about as much as one sample and a half.
        let share = QUICK_BUDGET / (cells * (f64::from(samples) + 1.5));
        let target = if args.quick { share.clamp(0.05, 0.25) } else { 1.0 };
        let timeout = args.timeout.unwrap_or(if args.quick { 60.0 } else { 300.0 });
        Ok(Self {
            axplab: std::env::current_exe().context("cannot find the path of axplab itself")?,
            engines,
            settings: Settings {
                samples,
                least_samples: if args.quick { 2 } else { 3 },
                target: args.sample_time.unwrap_or(target),
                timeout: Duration::from_secs_f64(timeout),
            },
            programs: Programs::new()?,
            quick: args.quick,
            cpu: args.cpu.clone(),
        })
    }

    fn measure(
        &self,
        rows: &[Row],
        interrupt: &Interrupt,
        mut warnings: Vec<Warning>,
    ) -> anyhow::Result<Record> {
        let host = fingerprint::host();
        let build = fingerprint::build();
        warnings.extend(before(&host, &build));
        let bar = Bar::new(rows.len() * self.engines.len() * plan::steps(&self.settings) as usize);
        let mut records = Vec::new();
        for row in rows {
            if interrupt.is_set() {
                break;
            }
            bar.row(&row.name);
            let done = self.row(row, &bar, interrupt, &mut warnings)?;
            // An interrupted row is kept if there is anything in it.
            if !interrupt.is_set() || done.results.iter().any(|result| !result.samples.is_empty()) {
                records.push(done);
            }
        }
        bar.finish();
        Ok(Record {
            schema: record::SCHEMA.to_owned(),
            host,
            axplab: build,
            rows: records,
            indices: Indices::default(),
            warnings,
        })
    }

    fn row(
        &self,
        row: &Row,
        bar: &Bar,
        interrupt: &Interrupt,
        warnings: &mut Vec<Warning>,
    ) -> anyhow::Result<RowRecord> {
        let size = if self.quick { row.quick_size } else { row.size };
        let mut cells = Vec::new();
        let mut files = Vec::new();
        for engine in &self.engines {
            match self.programs.artifact(row, engine.build(), &self.cpu)? {
                Ok(file) => {
                    cells.push(Cell::new(engine.clone()));
                    files.push(file);
                }
                Err(why) => {
                    bar.done(plan::steps(&self.settings));
                    missing(row, engine, &why, warnings);
                }
            }
        }
        let stats = self.programs.folder().join("stats.json");
        let specs: Vec<EngineSpec> = cells.iter().map(|cell| cell.engine.clone()).collect();
        let command = |index: usize, reps: u64| {
            let args = [row.name.clone(), reps.to_string(), size.to_string()];
            let values = Values {
                axplab: &self.axplab,
                program: &files[index].path,
                stats: &stats,
                cpu: &self.cpu,
                args: &args,
            };
            Invocation {
                argv: specs[index].argv(&values),
                stats: stats.clone(),
                row: row.name.clone(),
                size,
                reps,
                checksum: row.expected_checksum(size).map(str::to_owned),
                timeout: self.settings.timeout,
            }
        };
        plan::measure_row(&mut cells, &self.settings, &command, bar, interrupt);
        agree(&mut cells);
        let results: Vec<_> =
            cells.iter().zip(&files).map(|(cell, file)| result::of(row, cell, file)).collect();
        for (cell, result) in cells.iter().zip(&results) {
            warnings.extend(result::warnings(&row.name, &self.settings, cell, result));
        }
        let work =
            cells.iter().find_map(|cell| Some(cell.samples.first()?.work / cell.reps as f64));
        Ok(RowRecord {
            suite: row.class_name().to_owned(),
            row: row.name.clone(),
            params: BTreeMap::from([
                ("size".to_owned(), size.into()),
                ("cpu".to_owned(), self.cpu.clone().into()),
                ("build".to_owned(), Programs::build_cpu(row, &self.cpu).into()),
            ]),
            unit: row.display_unit.clone(),
            better: row.better(),
            work: work.unwrap_or(0.0),
            comparable_to_published: size == row.size,
            results,
        })
    }
}

/// Says that an engine has no program for a row; once for the engine where it is the host's compiler that is missing.
fn missing(row: &Row, engine: &EngineSpec, why: &str, warnings: &mut Vec<Warning>) {
    if engine.build() == Build::Guest {
        warnings.push(Warning::cell("missing-build", &row.name, &engine.name, why));
        return;
    }
    let said = |w: &Warning| w.kind == "missing-engine" && w.engine.as_ref() == Some(&engine.name);
    if !warnings.iter().any(said) {
        let message = format!("engine {} is missing: {why}", engine.name);
        warnings.push(Warning::engine("missing-engine", &engine.name, message));
    }
}

/// Where the catalogue knows no checksum for a size, the engines must at least agree with the first of them.
fn agree(cells: &mut [Cell]) {
    let first = cells
        .iter()
        .find_map(|cell| Some((cell.samples.first()?.checksum.clone(), cell.engine.name.clone())));
    let Some((right, name)) = first else { return };
    for cell in cells.iter_mut().filter(|cell| cell.error.is_none()) {
        if let Some(sample) = cell.samples.iter().find(|sample| sample.checksum != right) {
            let found = &sample.checksum;
            cell.error = Some(format!("wrong result: checksum {found}, {name} has {right}"));
        }
    }
}

/// What can be said against the run before it starts.
fn before(host: &record::Host, build: &record::Build) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if build.profile == "debug" {
        let message =
            "a debug build: the in-tree engines are slower than they are; build with --release";
        warnings.push(Warning::general("debug-build", message));
    }
    if let Some(load) = host.load.filter(|&load| load > 0.5 * host.cores as f64) {
        let message = format!("the machine is busy: load {load:.2} on {} CPUs", host.cores);
        warnings.push(Warning::general("busy", message));
    }
    if let Some(governor) = host.governor.as_deref().filter(|&name| name != "performance") {
        let message = format!("frequency governor `{governor}`: clocks vary while measuring");
        warnings.push(Warning::general("governor", message));
    }
    warnings
}

/// The nbench-style indices of each engine that has a verified value in every row of one.
fn indices(all: &[Row], rows: &[RowRecord]) -> Indices {
    let mut indices = Indices::default();
    let engines: Vec<String> =
        rows.iter().flat_map(|row| &row.results).map(|result| result.engine.clone()).collect();
    for (members, index) in [
        (report::INDEX_MEMORY, &mut indices.memory),
        (report::INDEX_INTEGER, &mut indices.integer),
        (report::INDEX_FP, &mut indices.fp),
    ] {
        for engine in &engines {
            let ratios: Option<Vec<f64>> = members
                .iter()
                .map(|name| {
                    let baseline = all.iter().find(|row| row.name == *name)?.nbench?.k6;
                    let row = rows.iter().find(|row| row.row == *name)?;
                    let result = row.result(engine).filter(|result| result.verified)?;
                    Some(result.median? / baseline)
                })
                .collect();
            if let Some(value) = ratios.as_deref().and_then(stats::geometric_mean) {
                index.insert(engine.clone(), value);
            }
        }
    }
    indices
}

/// From the samples of a cell to the record's result.
mod result {
    use super::*;
    use crate::measure::Sample;
    use crate::record::{Better, Metric, ResultRecord};

    pub fn of(row: &Row, cell: &Cell, file: &Artifact) -> ResultRecord {
        let identity = ResultRecord {
            engine: cell.engine.name.clone(),
            artifact_sha256: Some(file.sha256.clone()),
            compiler: file.compiler.clone(),
            ..ResultRecord::default()
        };
        if cell.error.is_some() || cell.samples.is_empty() {
            // Never a time beside an error.
            let error = cell.error.clone().or_else(|| Some("interrupted".into()));
            return ResultRecord { error, ..identity };
        }
        let column =
            |get: &dyn Fn(&Sample) -> f64| -> Vec<f64> { cell.samples.iter().map(get).collect() };
        let values = column(&|s| row.value_of(s.work, cell.reps as f64, s.seconds));
        let summary = stats::Summary::new(&values);
        ResultRecord {
            median: summary.map(|summary| summary.median),
            min: summary.map(|summary| summary.min),
            max: summary.map(|summary| summary.max),
            samples: values,
            order: cell.order.clone(),
            verified: true,
            guest_instructions: cell.samples.iter().find_map(|sample| sample.stats.instructions),
            seconds: stats::median(&column(&|s| s.seconds)),
            cpu_user: stats::median(&column(&|s| s.cpu_user)),
            cpu_sys: stats::median(&column(&|s| s.cpu_sys)),
            max_rss: cell.samples.iter().map(|sample| sample.max_rss).max(),
            phases: phases(&cell.samples),
            metrics: metrics(cell),
            ..identity
        }
    }

    fn phases(samples: &[Sample]) -> BTreeMap<String, f64> {
        let mut all: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for (name, &seconds) in samples.iter().flat_map(|sample| &sample.stats.phases) {
            all.entry(name).or_default().push(seconds);
        }
        let medians =
            all.into_iter().filter_map(|(name, xs)| Some((name.to_owned(), stats::median(&xs)?)));
        medians.collect()
    }

    fn metrics(cell: &Cell) -> BTreeMap<String, Metric> {
        type Get<'a> = &'a dyn Fn(&Sample) -> Option<f64>;
        let reps = cell.reps as f64;
        let quantities: [(&str, &str, Get); 5] = [
            ("work_seconds", "s", &|s| Some(s.seconds)),
            ("wall", "s", &|s| Some(s.wall)),
            ("repetitions", "1", &|_| Some(reps)),
            ("code_bytes", "B", &|s| s.stats.code_bytes.map(|x| x as f64)),
            ("compiled_instructions", "1", &|s| s.stats.compiled_instructions.map(|x| x as f64)),
        ];
        let mut metrics = BTreeMap::new();
        for (name, unit, get) in quantities {
            // A quantity that an engine does not tell is absent, not zero.
            let samples: Option<Vec<f64>> = cell.samples.iter().map(get).collect();
            if let Some(samples) = samples {
                let metric = Metric { unit: unit.to_owned(), better: Better::Lower, samples };
                metrics.insert(name.to_owned(), metric);
            }
        }
        metrics
    }

    pub fn warnings(
        row: &str,
        settings: &Settings,
        cell: &Cell,
        result: &ResultRecord,
    ) -> Vec<Warning> {
        let engine = &cell.engine.name;
        let mut warnings = Vec::new();
        let Some(summary) = stats::Summary::new(&result.samples) else { return warnings };
        let count = result.samples.len();
        if count < warning::FEW_SAMPLES {
            let why = match count < settings.samples as usize {
                true => " (a sample takes long)",
                false => "",
            };
            let message = format!("only {count} samples{why}");
            warnings.push(Warning::cell("few-samples", row, engine, message));
        }
        if summary.spread() > warning::NOISE {
            let message = format!("spread {:.1} %", summary.spread() * 100.0);
            warnings.push(Warning::cell("noise", row, engine, message));
        }
        if summary.outliers > 0 && count >= warning::OUTLIER_SAMPLES {
            let message = format!("{} of {count} samples lie far off", summary.outliers);
            warnings.push(Warning::cell("outliers", row, engine, message));
        }
        warnings
    }
}

/// The progress bar; nothing at all where standard error is no terminal.
struct Bar(ProgressBar);

impl Bar {
    fn new(steps: usize) -> Self {
        let target = match std::io::stderr().is_terminal() {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(Some(steps as u64), target);
        if let Ok(style) =
            ProgressStyle::with_template("{bar:30} {percent:>3} % {prefix} {msg} ({eta} left)")
        {
            bar.set_style(style);
        }
        Self(bar)
    }

    fn row(&self, name: &str) {
        self.0.set_prefix(name.to_owned());
    }

    fn finish(&self) {
        self.0.finish_and_clear();
    }
}

impl Progress for Bar {
    fn doing(&self, engine: &str, what: &str) {
        self.0.set_message(format!("{engine}: {what}"));
    }

    fn done(&self, steps: u32) {
        self.0.inc(u64::from(steps));
    }
}
