//! `axplab bench`: checks the call, measures rows on engines, makes the record, prints the report.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::Outcome;
use crate::booted::{self, Kernel};
use crate::catalogue::{self, Artifact, Programs, Row};
use crate::cli::BenchArgs;
use crate::cmd::{program, resume, scratch};
use crate::config::Config;
use crate::engines::{self, Build, EngineSpec, Values};
use crate::measure::{Interrupt, Invocation};
use crate::plan::{self, Cell, Progress, Settings};
use crate::record::{self, Indices, Record, RowRecord};
use crate::report::{self, Format};
use crate::warning::{self, Warning};
use crate::{collect, fingerprint, guest, translation, vups};

/// Seconds of sampling that a quick run of the whole table may take; start-up and slow cells come on top.
const QUICK_BUDGET: f64 = 150.0;

/// The same for `--all`, which is to end within half an hour.
const ALL_BUDGET: f64 = 750.0;

/// Rows in which an engine may give nothing before it is left out.
const TIMEOUTS: u32 = 3;

/// Runs the command.
pub fn bench(args: BenchArgs) -> anyhow::Result<Outcome> {
    let to_stdout = args.json.as_deref() == Some(Path::new("-"));
    let format = if to_stdout { Format::Json } else { args.format };
    let (record, interrupted) = measured(args)?;
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
pub fn measured(mut args: BenchArgs) -> anyhow::Result<(Record, bool)> {
    let config = Config::load(args.config.as_deref())?;
    config.bench.fill(&mut args);
    let args = &args;
    let all_rows = catalogue::rows();
    if args.all && !args.rows.is_empty() {
        bail!("`--all` measures every row: name rows or give --all, not both");
    }
    // A program of the user's own or a booted kernel stands alone unless rows are asked for, too.
    let alone = !args.programs.is_empty() || args.booted;
    let mut rows = match !alone || args.all || !args.rows.is_empty() {
        true => catalogue::select(&all_rows, &args.rows, args.all)?,
        false => Vec::new(),
    };
    let programs = program::programs(args)?;
    if let Some((part, parts)) = args.shard {
        // Dealt out in turn, so that each part has some of the slow rows.
        let mut place = 0..;
        rows.retain(|_| place.next().is_some_and(|place: usize| place % parts == part - 1));
    }
    let cpu = args.cpu.as_deref().unwrap_or("ev56");
    if !super::run::CPUS.contains(&cpu) {
        bail!("unknown cpu `{cpu}`; choose one of {}", super::run::CPUS.join(", "));
    }
    super::run::tuning(&args.jit)?;
    let chosen = engines::select(&config.engines, &args.engines)?;
    let resumed = args.resume.as_deref().map(resume::Resumed::load).transpose()?;
    let to_stdout = args.json.as_deref() == Some(Path::new("-"));
    let json = args.json.as_deref().filter(|_| !to_stdout).or(args.resume.as_deref());
    if let Some(path) = json {
        record::check_writable(path)?;
    }
    let mut warnings = Vec::new();
    let present = present(chosen, args.engines.is_empty(), &mut warnings)?;
    let lab = Lab::new(args, cpu, present, &rows, programs.len())?;
    let interrupt = Interrupt::catch()?;
    let finish = |mut record: Record| {
        record.warnings.extend(collect::starved(&record.rows));
        record.indices = collect::indices(&all_rows, &record.rows);
        record
    };
    // After each row, so that not even a loss of power takes what was measured.
    let save = |record: &Record| match json {
        Some(path) => finish(record.clone()).write(path),
        None => Ok(()),
    };
    let booted = args.all || args.booted;
    let what = What { rows: &rows, programs: &programs, resumed, translation: args.all, booted };
    let mut record = lab.measure(what, &interrupt, warnings, &save)?;

    let interrupted = interrupt.is_set();
    if interrupted {
        let message = "interrupted: what was measured by then is kept, the rest is missing";
        record.warnings.push(Warning::general("interrupted", message));
    }
    let record = finish(record);
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

/// What is to be measured.
struct What<'a> {
    rows: &'a [Row],
    programs: &'a [program::Own],
    resumed: Option<resume::Resumed>,
    /// Whether rows are added that no guest program measures: on translation, and on the privileged machine.
    translation: bool,
    /// Whether rows on a booted system are.
    booted: bool,
}

/// All that measuring needs besides the rows.
pub(super) struct Lab {
    pub(super) axplab: PathBuf,
    pub(super) engines: Vec<EngineSpec>,
    pub(super) settings: Settings,
    programs: Programs,
    quick: bool,
    pub(super) cpu: String,
    scratch: scratch::Scratch,
    /// Words for `--jit` of the engine `auto`.
    jit: Vec<String>,
    /// How often each engine gave nothing within the time.
    timeouts: RefCell<BTreeMap<String, u32>>,
}

impl Lab {
    fn new(
        args: &BenchArgs,
        cpu: &str,
        engines: Vec<EngineSpec>,
        rows: &[Row],
        programs: usize,
    ) -> anyhow::Result<Self> {
        let bounded = args.quick || args.all;
        let samples = args.samples.unwrap_or(if bounded { 5 } else { 7 });
        let cells = ((rows.len() + programs) * engines.len()).max(1) as f64;
        let budget = if args.quick { QUICK_BUDGET } else { ALL_BUDGET };
        // Calibrating costs about as much as one sample and a half.
        let share = budget / (cells * (f64::from(samples) + 1.5));
        let target = match (args.quick, args.all) {
            (true, _) => share.clamp(0.05, 0.25),
            (false, true) => share.clamp(0.1, 1.0),
            (false, false) => 1.0,
        };
        let timeout = args.timeout.unwrap_or(if args.quick { 60.0 } else { 300.0 });
        Ok(Self {
            axplab: std::env::current_exe().context("cannot find the path of axplab itself")?,
            engines,
            settings: Settings {
                samples,
                least_samples: if bounded { 2 } else { 3 },
                target: args.sample_time.unwrap_or(target),
                timeout: Duration::from_secs_f64(timeout),
                alike: false,
            },
            programs: Programs::new()?,
            quick: args.quick,
            cpu: cpu.to_owned(),
            scratch: scratch::Scratch::new(args.scratch.clone()),
            jit: args.jit.clone(),
            timeouts: RefCell::default(),
        })
    }

    /// Where the files of a run lie.
    pub(super) fn folder(&self) -> &Path {
        self.programs.folder()
    }

    fn measure(
        &self,
        what: What,
        interrupt: &Interrupt,
        mut warnings: Vec<Warning>,
        save: &dyn Fn(&Record) -> anyhow::Result<()>,
    ) -> anyhow::Result<Record> {
        let host = fingerprint::host();
        let build = fingerprint::build();
        warnings.extend(before(&host, &build));
        if (self.settings.samples as usize) < warning::FEW_SAMPLES {
            let message = format!("only {} samples of each result", self.settings.samples);
            warnings.push(Warning::general("few-samples", message));
        }
        let mut resumed = what.resumed.unwrap_or_default();
        resumed.check(&host, &build)?;
        let steps = self.engines.len() * plan::steps(&self.settings) as usize;
        let bar = Bar::new((what.rows.len() + what.programs.len()) * steps);
        let mut record = Record {
            schema: record::SCHEMA.to_owned(),
            host,
            axplab: build,
            randomised_layout: true,
            rows: Vec::new(),
            indices: Indices::default(),
            warnings,
        };
        let own = what.programs.iter().map(Subject::Own);
        for subject in what.rows.iter().map(Subject::Row).chain(own) {
            if interrupt.is_set() {
                break;
            }
            bar.row(subject.name());
            let wanted = self.wanted(&subject)?;
            if let Some((row, warnings)) = resumed.take(subject.name(), &wanted) {
                bar.done(steps as u32);
                record.rows.push(row);
                record.warnings.extend(warnings);
                continue;
            }
            let done = match subject {
                Subject::Row(row) => self.row(row, &bar, interrupt, &mut record.warnings)?,
                Subject::Own(own) => {
                    program::measure(self, own, &bar, interrupt, &mut record.warnings)?
                }
            };
            // An interrupted row is kept if there is anything in it.
            let whole = !interrupt.is_set();
            if whole || done.results.iter().any(|result| !result.samples.is_empty()) {
                if !whole {
                    let message = format!("{} was not measured to its end", done.row);
                    let row = Some(done.row.clone());
                    record
                        .warnings
                        .push(Warning { row, ..Warning::general("unfinished", message) });
                }
                record.rows.push(done);
                save(&record)?;
            }
        }
        if what.translation {
            let rows = translation::rows(&record.rows);
            record.rows.extend(rows);
            if !interrupt.is_set() {
                record.rows.extend(self.on_the_machine(&bar, interrupt));
            }
        }
        if what.booted && !interrupt.is_set() {
            match Kernel::find() {
                Ok(kernel) => record.rows.extend(self.on_a_kernel(&kernel, &bar, interrupt)),
                Err(why) => record.warnings.push(Warning::general("no-kernel", why)),
            }
        }
        bar.finish();
        Ok(record)
    }

    /// Rows on a booted system; not on engines that compile for minutes what a kernel does once, and not on
    /// the interpreter's slower loop.
    fn on_a_kernel(&self, kernel: &Kernel, bar: &Bar, interrupt: &Interrupt) -> Vec<RowRecord> {
        bar.row("a booted kernel");
        let ours = self.engines.iter().filter(|engine| engine.in_tree);
        let names = ours.map(|engine| engine.name.as_str());
        let names: Vec<&str> = names
            .filter(|name| guest::engine(name).is_ok() && !matches!(*name, "opt" | "interp-match"))
            .collect();
        let Settings { samples, timeout, .. } = self.settings;
        booted::rows(kernel, &self.axplab, &names, samples, timeout, interrupt)
    }

    /// Rows of the privileged machine, on those engines that it can run on.
    fn on_the_machine(&self, bar: &Bar, interrupt: &Interrupt) -> Vec<RowRecord> {
        bar.row("vups-like");
        let ours = self.engines.iter().filter(|engine| engine.in_tree);
        let names: Vec<&str> = ours
            .map(|engine| engine.name.as_str())
            .filter(|name| guest::engine(name).is_ok())
            .collect();
        let target = Duration::from_secs_f64(self.settings.target);
        vups::rows(&names, self.settings.samples, target, interrupt)
    }

    /// What a row of an earlier run must have been measured with to stand for one of this run.
    fn wanted(&self, subject: &Subject) -> anyhow::Result<resume::Wanted> {
        let mut artifacts = Vec::new();
        for engine in &self.engines {
            let hash = match subject {
                Subject::Row(row) => self
                    .programs
                    .artifact(row, engine.build(), &self.cpu)?
                    .ok()
                    .map(|artifact| artifact.sha256),
                Subject::Own(own) => own.file(engine.build()).map(|(_, sha256)| sha256.to_owned()),
            };
            artifacts.extend(hash.map(|hash| (engine.name.clone(), hash)));
        }
        let params = match subject {
            Subject::Row(row) => self.params(row),
            Subject::Own(own) => own.params(&self.settings),
        };
        Ok(resume::Wanted { params, artifacts })
    }

    fn size(&self, row: &Row) -> u64 {
        if self.quick { row.quick_size } else { row.size }
    }

    /// What else was chosen for a row.
    fn params(&self, row: &Row) -> BTreeMap<String, serde_json::Value> {
        BTreeMap::from([
            ("size".to_owned(), self.size(row).into()),
            ("cpu".to_owned(), self.cpu.clone().into()),
            ("build".to_owned(), Programs::build_cpu(row, &self.cpu).into()),
            ("samples".to_owned(), self.settings.samples.into()),
            ("sample_time".to_owned(), self.settings.target.into()),
        ])
    }

    fn row(
        &self,
        row: &Row,
        bar: &Bar,
        interrupt: &Interrupt,
        warnings: &mut Vec<Warning>,
    ) -> anyhow::Result<RowRecord> {
        let size = self.size(row);
        let cwd = match row.scratch_mib {
            0 => None,
            mib => match self.scratch.folder(mib)? {
                Ok(folder) => Some(folder),
                Err(why) => {
                    let message = format!("{}: {why}", row.name);
                    let name = Some(row.name.clone());
                    warnings.push(Warning { row: name, ..Warning::general("no-space", message) });
                    bar.done(self.engines.len() as u32 * plan::steps(&self.settings));
                    return Ok(self.record(row, 0.0, Vec::new()));
                }
            },
        };
        let mut cells = Vec::new();
        let mut files = Vec::new();
        for engine in &self.engines {
            match self.programs.artifact(row, engine.build(), &self.cpu)? {
                Ok(file) => {
                    let mut cell = Cell::new(engine.clone());
                    cell.once = row.once;
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
            let args = [row.name.clone(), reps.to_string(), size.to_string()].map(OsString::from);
            let values = Values {
                axplab: &self.axplab,
                program: &files[index].path,
                stats: &stats,
                cpu: &self.cpu,
                args: &args,
            };
            Invocation {
                argv: with_jit(specs[index].argv(&values), &self.jit),
                stats: stats.clone(),
                row: row.name.clone(),
                size,
                reps,
                checksum: row.expected_checksum(size).map(str::to_owned),
                timeout: self.settings.timeout,
                cwd: cwd.clone(),
                whole: false,
            }
        };
        let settings = plan::Settings { alike: row.suite() == "files", ..self.settings };
        plan::measure_row(&mut cells, &settings, &command, bar, interrupt);
        self.remember_timeouts(&cells);
        agree(&mut cells);
        let mut results: Vec<_> =
            cells.iter().zip(&files).map(|(cell, file)| result(row, cell, file)).collect();
        // Where an engine runs the row's Alpha program here, its instructions are counted once, apart;
        // not those of rows on files, whose number depends on the host's answers.
        let here = |cell: &Cell| {
            cwd.is_none() && cell.engine.command.iter().any(|word| word.contains("{elf}"))
        };
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
        let mut record = self.record(row, work.unwrap_or(0.0), results);
        if let Some(engine) = collect::refused_direct(&record) {
            record.comparable_to_published = false;
            let message = "the file system refuses O_DIRECT: read after dropping the page cache";
            warnings.push(Warning::cell("o-direct-refused", &row.name, &engine, message));
        }
        Ok(record)
    }

    fn record(&self, row: &Row, work: f64, results: Vec<record::ResultRecord>) -> RowRecord {
        RowRecord {
            suite: row.suite().to_owned(),
            row: row.name.clone(),
            params: self.params(row),
            unit: row.display_unit.clone(),
            better: row.better(),
            work,
            comparable_to_published: row.comparable && self.size(row) == row.size,
            results,
        }
    }

    /// An engine that hangs on every row is left out after some.
    fn remember_timeouts(&self, cells: &[Cell]) {
        for cell in cells.iter().filter(|cell| cell.timed_out) {
            *self.timeouts.borrow_mut().entry(cell.engine.name.clone()).or_default() += 1;
        }
    }
}

fn result(row: &Row, cell: &Cell, file: &Artifact) -> record::ResultRecord {
    let subject = collect::Subject::Row(row);
    collect::result(subject, cell, &file.sha256, file.compiler.as_deref())
}

/// One thing to measure.
enum Subject<'a> {
    Row(&'a Row),
    Own(&'a program::Own),
}

impl Subject<'_> {
    fn name(&self) -> &str {
        match self {
            Self::Row(row) => &row.name,
            Self::Own(own) => &own.name,
        }
    }
}

/// A command line of an engine, which is to translate as `--jit` says if it is `auto`.
fn with_jit(mut argv: Vec<OsString>, jit: &[String]) -> Vec<OsString> {
    if !jit.is_empty()
        && let Some(at) = argv.windows(2).position(|w| w[0] == "--engine" && w[1] == "auto")
    {
        argv.splice(at..at, ["--jit".into(), jit.join(",").into()]);
    }
    argv
}

/// Says that an engine has no program for a row; once for the engine where it is the host's compiler that is missing.
fn missing(row: &Row, engine: &EngineSpec, why: &str, warnings: &mut Vec<Warning>) {
    if row.no_native(engine.build()).is_some() {
        // The same sentence for all rows of a kind is said once.
        let said =
            |w: &Warning| w.engine.as_ref() == Some(&engine.name) && w.message.ends_with(why);
        if !warnings.iter().any(said) {
            let message = format!("no {} build of {} and its like: {why}", engine.name, row.name);
            warnings.push(Warning::engine("no-native", &engine.name, message));
        }
        return;
    }
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
pub(super) fn agree(cells: &mut [Cell]) {
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
pub(super) struct Bar(ProgressBar);

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
