//! `axplab bench`: checks the call, measures rows on engines, makes the record, prints the report.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::Outcome;
use crate::catalogue::{self, Programs, Row};
use crate::cli::BenchArgs;
use crate::engines::{self, Build, EngineSpec, Values};
use crate::measure::{Interrupt, Invocation};
use crate::plan::{self, Cell, Progress, Settings};
use crate::record::{self, Indices, Record, RowRecord};
use crate::report::{self, Format};
use crate::warning::{self, Warning};
use crate::{collect, fingerprint};

/// Seconds of sampling that a quick run of the whole table may take; start-up and slow cells come on top.
const QUICK_BUDGET: f64 = 150.0;

/// Rows in which an engine may give nothing before it is left out.
const TIMEOUTS: u32 = 3;

/// Runs the command.
pub fn bench(args: BenchArgs) -> anyhow::Result<Outcome> {
    let to_stdout = args.json.as_deref() == Some(Path::new("-"));
    let format = if to_stdout { Format::Json } else { args.format };
    let (record, interrupted) = measured(&args)?;
    let mut out = std::io::stdout().lock();
    report::writer(format).write(std::slice::from_ref(&record), &mut out)?;
    out.flush()?;
    Ok(match () {
        () if interrupted => Outcome::INTERRUPTED,
        () if record.has_errors() => Outcome::WRONG_RESULT,
        () => Outcome::DONE,
    })
}

/// Measures, keeps the record where the call says, and tells whether the user interrupted.
pub fn measured(args: &BenchArgs) -> anyhow::Result<(Record, bool)> {
    let all_rows = catalogue::rows();
    let mut rows = catalogue::select(&all_rows, &args.rows)?;
    if let Some((part, parts)) = args.shard {
        // Dealt out in turn, so that each part has some of the slow rows.
        let mut place = 0..;
        rows.retain(|_| place.next().is_some_and(|place: usize| place % parts == part - 1));
    }
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
    let lab = Lab::new(args, present, rows.len())?;
    let interrupt = Interrupt::catch()?;
    let mut record = lab.measure(&rows, &interrupt, warnings)?;

    let interrupted = interrupt.is_set();
    if interrupted {
        let message = "interrupted: what was measured by then is kept, the rest is missing";
        record.warnings.push(Warning::general("interrupted", message));
    }
    record.warnings.extend(collect::starved(&record.rows));
    record.indices = collect::indices(&all_rows, &record.rows);
    if let Some(path) = json {
        record.write(path)?;
    }
    if let Some(path) = json {
        eprintln!("axplab: the record is in {}", path.display());
    }
    if interrupted {
        eprintln!("axplab: interrupted; what was measured by then is kept");
    }
    Ok((record, interrupted))
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
    /// How often each engine gave nothing within the time.
    timeouts: RefCell<BTreeMap<String, u32>>,
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
            timeouts: RefCell::default(),
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
        if (self.settings.samples as usize) < warning::FEW_SAMPLES {
            let message = format!("only {} samples of each result", self.settings.samples);
            warnings.push(Warning::general("few-samples", message));
        }
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
            randomised_layout: true,
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
                    let mut cell = Cell::new(engine.clone());
                    // An engine that hangs on every row would hold the table up for as many timeouts.
                    let lost = self.timeouts.borrow().get(&engine.name).copied().unwrap_or(0);
                    if lost >= TIMEOUTS {
                        cell.error = Some(format!("not run: no result in {lost} rows before"));
                    }
                    cells.push(cell);
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
        for cell in cells.iter().filter(|cell| cell.timed_out) {
            *self.timeouts.borrow_mut().entry(cell.engine.name.clone()).or_default() += 1;
        }
        agree(&mut cells);
        let mut results: Vec<_> =
            cells.iter().zip(&files).map(|(cell, file)| collect::result(row, cell, file)).collect();
        // Where an engine runs the row's Alpha program here, its instructions are counted once, apart.
        let here = |cell: &Cell| cell.engine.command.iter().any(|word| word.contains("{elf}"));
        if let Some(elf) =
            cells.iter().zip(&files).find(|(cell, _)| here(cell)).map(|(_, file)| file)
        {
            bar.doing("auto", "counting");
            let counting = |reps: u64| {
                let args = [row.name.clone(), reps.to_string(), size.to_string()];
                let argv = crate::count::argv(&self.axplab, &stats, &self.cpu, &elf.path, &args);
                Invocation { argv, ..command(0, reps) }
            };
            if let Some(count) = crate::count::per_repetition(&counting, interrupt) {
                for (cell, result) in cells.iter().zip(&mut results) {
                    if here(cell) && result.verified {
                        result.guest_instructions =
                            result.guest_instructions.or(count.checked_mul(cell.reps));
                    }
                }
            }
        }
        for (cell, result) in cells.iter().zip(&results) {
            warnings.extend(collect::warnings(&row.name, &self.settings, cell, result));
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
