//! Runs one guest program: builds the process and the engine, drives both to the guest's end, and
//! says how it went. Called by `cmd/run.rs`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use axp_emu::cpu::Vcpu;
use axp_emu::engine::{Engine, EngineStats, Limit, Outcome, run};
use axp_emu::interp::{Dispatch, Interpreter};
use axp_emu::isa::{CpuModel, INT_NAMES};
use axp_emu::linux::{
    BeforeExec, Linux, LinuxOptions, Process, Runner, Tracer, signal_name, signal_to_host,
};
use axp_jit::auto::{Auto, Tuning};
use axp_jit::baseline::Baseline;
use axp_jit::cache::Library;
use axp_jit::opt::Opt;
use serde::Serialize;

use crate::cache::Cache;
use crate::cmd::run::{ExitStatus, RunOptions, jit_words};
use crate::debug::{Debugger, Listener, Session};

/// What engines share with each other and with earlier runs.
pub type Shared = Option<Arc<Library>>;
/// Makes an engine that has translated nothing.
pub type Maker = fn(Tuning, Shared) -> anyhow::Result<Box<dyn Engine>>;

/// The engines of this build, by the name that `--engine` takes.
const ENGINES: &[(&str, Maker)] = &[
    ("interp", |_, _| Ok(Box::new(Interpreter::new(Dispatch::Threaded)))),
    ("interp-match", |_, _| Ok(Box::new(Interpreter::new(Dispatch::Match)))),
    ("opt", |_, shared| Ok(Box::new(Opt::with_library(shared)?))),
    ("baseline", |_, shared| Ok(Box::new(Baseline::with_library(None, shared)?))),
    ("auto", |tuning, shared| Ok(Box::new(Auto::with_library(tuning, shared)?))),
];

/// Whether `--engine name` works in this build.
pub fn is_built(name: &str) -> bool {
    ENGINES.iter().any(|(known, _)| *known == name)
}

/// What makes the engine of that name.
pub fn engine(name: &str) -> anyhow::Result<Maker> {
    Ok(recipe(name, Tuning::default(), None)?.make)
}

/// How long a run that keeps translations goes on for those that are under way.
const UNDONE_AT_END: Duration = Duration::from_secs(2);

/// How the guest's threads get their engines.
#[derive(Clone)]
struct Recipe {
    make: Maker,
    tuning: Tuning,
    shared: Shared,
}

impl Recipe {
    fn engine(&self, process: &Process) -> anyhow::Result<Box<dyn Engine>> {
        if process.is_sharing() {
            // It will execute another program after a few instructions.
            return Ok(Box::new(Interpreter::new(Dispatch::Threaded)));
        }
        (self.make)(self.tuning, self.shared.clone())
    }
}

fn recipe(name: &str, tuning: Tuning, shared: Shared) -> anyhow::Result<Recipe> {
    match ENGINES.iter().find(|(known, _)| *known == name) {
        Some((_, make)) => Ok(Recipe { make: *make, tuning, shared }),
        None => bail!("engine `{name}` is not part of this build; see `axplab list`"),
    }
}

/// What `--stats` prints and `--stats-json` holds.
#[derive(Debug, Serialize)]
struct Report {
    engine: &'static str,
    instructions: Option<u64>,
    compiled_instructions: u64,
    translations: u64,
    code_bytes: u64,
    /// With a cache: translations that came from it, and their instructions.
    kept: u64,
    kept_instructions: u64,
    /// Translations that came from another thread, and their instructions.
    shared: u64,
    shared_instructions: u64,
    /// Counted runs only: instructions that compiled code had done by a call.
    by_call: Option<u64>,
    tiers: Vec<TierReport>,
    window: &'static str,
    phases: BTreeMap<&'static str, f64>,
    unknown_calls: Vec<(String, u64)>,
}

/// What one tier has done.
#[derive(Debug, Serialize)]
struct TierReport {
    name: &'static str,
    instructions: u64,
    translations: u64,
    code_bytes: u64,
    /// Translations that came from the cache, and their instructions.
    kept: u64,
    kept_instructions: u64,
    /// Those that came from another thread.
    shared: u64,
    shared_instructions: u64,
    /// Seconds, on the guest's thread and others.
    translate: f64,
    by_call: u64,
}

impl TierReport {
    fn new((name, stats): &(&'static str, EngineStats)) -> Self {
        TierReport {
            name,
            instructions: stats.translated_instructions,
            translations: stats.translations,
            code_bytes: stats.code_bytes,
            kept: stats.kept,
            kept_instructions: stats.kept_instructions,
            shared: stats.shared,
            shared_instructions: stats.shared_instructions,
            translate: (stats.translate + stats.background).as_secs_f64(),
            by_call: stats.by_call,
        }
    }
}

/// The program's process, ready to run; `runner` takes its further threads.
pub fn load(opts: &RunOptions, runner: Option<Runner>) -> anyhow::Result<(Linux, Vcpu)> {
    load_with(opts, runner, None)
}

fn load_with(
    opts: &RunOptions,
    runner: Option<Runner>,
    cache: Option<(&Cache, BeforeExec)>,
) -> anyhow::Result<(Linux, Vcpu)> {
    let mut argv = vec![opts.argv0.clone().unwrap_or_else(|| opts.program.clone().into())];
    argv.extend(opts.args.iter().cloned());
    let options = LinuxOptions {
        sysroot: opts.sysroot.clone(),
        model: CpuModel::from_name(&opts.cpu).context("unknown CPU model")?,
        runner,
        exec_prefix: exec_prefix(opts)?,
        private: cache.as_ref().map(|(cache, _)| cache.private()).unwrap_or_default(),
        before_exec: cache.map(|(_, before)| before),
        strace: opts.strace.then(|| Arc::new(|line: &str| eprintln!("{line}")) as Tracer),
        ..LinuxOptions::default()
    };
    let environment = environment(&opts.env);
    Ok(Linux::load(&opts.program, &argv, &environment, options)?)
}

/// Runs the guest to its end.
pub fn execute(opts: RunOptions) -> anyhow::Result<ExitStatus> {
    let cache = opts.cache.as_ref().and_then(|folder| Cache::open(folder, &opts.program));
    let cache = match cache {
        // Before the guest is loaded: the process aside has no part in its memory.
        Some(cache) if opts.sandbox.is_some() => Some(cache.write_aside()?),
        other => other,
    };
    let cache = cache.map(Arc::new);
    let shared = cache.as_ref().map(|cache| cache.library());
    let shared = shared.unwrap_or_else(|| Arc::new(Library::of_threads()));
    let recipe = recipe(&opts.engine, opts.tuning, Some(shared))?;
    let listener = opts.gdb.as_deref().map(Listener::open).transpose()?;
    // Known once the program is loaded, by when there are no other threads yet.
    let debugger: Arc<OnceLock<Debugger>> = Arc::default();
    let threads_debugger = debugger.clone();
    let standard_error = StandardError::now();
    let start = Instant::now();
    let tally = Arc::new(Tally::new());
    let (threads_recipe, threads_tally) = (recipe.clone(), tally.clone());
    let runner: Runner = Arc::new(move |vcpu, linux| {
        run_thread(&threads_recipe, &threads_tally, threads_debugger.get(), vcpu, linux);
    });
    let kept = cache.as_ref().map(|shared| {
        let (cache, standard_error) = (shared.clone(), standard_error.clone());
        (&**shared, Arc::new(move || keep(&cache, &standard_error)) as BeforeExec)
    });
    let (linux, vcpu) = load_with(&opts, Some(runner), kept)?;
    if let Some(sandbox) = &opts.sandbox {
        let needed = needed(&opts, &linux);
        if let Some(cache) = &cache {
            cache.keep_from([&needed, &sandbox.read, &sandbox.write].into_iter().flatten())?;
        }
        sandbox.enter(&needed)?;
    }
    let window = vcpu.mem.kind().name();
    let process = linux.process().clone();
    let loaded = start.elapsed();
    // Counting is a mode of its own, slower and exact.
    let limit = if opts.stats { Limit::Count(u64::MAX) } else { Limit::None };
    // On this thread, the process's first: signals for the process reach it, and a forked child
    // goes on in it.
    let pid = std::process::id();
    let session = listener.map(|listener| Session::accept(listener, &linux)).transpose()?;
    if let Some(session) = &session {
        let _ = debugger.set(session.hub());
    }
    let driven = drive(&recipe, debugger.get(), vcpu, linux, limit)?;
    if let Some(session) = session {
        session.finish(driven.outcome);
    }
    let Driven { outcome, count, stats, mut tiers, name, elapsed, engine } = driven;
    // The process is about to end: freeing all that was translated would be in vain.
    std::mem::forget(engine);
    if std::process::id() != pid {
        // A child that the guest has forked: its end is the guest's business alone.
        return ended(outcome);
    }
    if let Some(cache) = &cache {
        // What was found hot and not compiled yet would be the next run's to compile.
        axp_jit::opt::wait_until_done(UNDONE_AT_END);
        keep(cache, &standard_error);
    }
    let executed = elapsed.saturating_sub(stats.translate);
    if opts.stats || opts.stats_json.is_some() {
        tally.add_to(&mut tiers);
    }
    let stats = tiers.iter().fold(EngineStats::default(), |all, tier| all + tier.1);
    let phases = BTreeMap::from([
        ("load", loaded.as_secs_f64()),
        ("translate", stats.translate.as_secs_f64()),
        ("translate-background", stats.background.as_secs_f64()),
        ("execute", executed.as_secs_f64()),
    ]);
    let report = Report {
        engine: name,
        instructions: opts.stats.then_some(count),
        compiled_instructions: stats.translated_instructions,
        translations: stats.translations,
        code_bytes: stats.code_bytes,
        kept: stats.kept,
        kept_instructions: stats.kept_instructions,
        shared: stats.shared,
        shared_instructions: stats.shared_instructions,
        by_call: opts.stats.then_some(stats.by_call),
        tiers: tiers.iter().map(TierReport::new).collect(),
        window,
        phases,
        unknown_calls: process.unknown_calls(),
    };
    if let Some(path) = &opts.stats_json {
        crate::record::write_atomically(path, |out| Ok(serde_json::to_writer(out, &report)?))?;
    }
    if !standard_error.is_unchanged() {
        return ended(outcome);
    }
    if opts.stats {
        print(&report);
    }
    if let Outcome::Signalled { signal, pc, addr } = outcome {
        eprintln!(
            "axplab: {}: {} at pc {pc:#x}, address {addr:#x}",
            opts.program.display(),
            signal_name(signal)
        );
    }
    ended(outcome)
}

/// What a confined guest reads whatever it is allowed: its own file, its interpreter or the sysroot that
/// holds it, and for programs that it executes this one.
fn needed(opts: &RunOptions, linux: &Linux) -> Vec<PathBuf> {
    let mut all = crate::sandbox::own_files();
    all.push(opts.program.clone());
    all.extend(opts.sysroot.clone());
    all.extend(linux.process().interpreter.clone());
    all
}

/// Writes new translations down.
fn keep(cache: &Cache, standard_error: &StandardError) {
    match cache.keep() {
        Err(error) if standard_error.is_unchanged() => {
            eprintln!("axplab: --cache: translations are not kept: {error:#}");
        }
        _ => {}
    }
}

/// Whether standard error is still the file that it was at the start: a guest may have closed it and
/// opened a file of its own in its place, in which nothing of ours belongs.
#[derive(Clone)]
struct StandardError(Option<(u64, u64)>);

impl StandardError {
    fn now() -> Self {
        let file = rustix::fs::fstat(std::io::stderr()).ok();
        StandardError(file.map(|file| (file.st_dev, file.st_ino)))
    }

    fn is_unchanged(&self) -> bool {
        Self::now().0 == self.0
    }
}

/// The guest's end as a status.
pub fn ended(outcome: Outcome) -> anyhow::Result<ExitStatus> {
    match outcome {
        Outcome::Exited(status) => Ok(ExitStatus::Exited(status as u8)),
        Outcome::Signalled { signal, .. } => Ok(ExitStatus::Signalled(signal_to_host(signal))),
        Outcome::LimitReached => bail!("the instruction limit was reached"),
    }
}

/// A guest thread that has ended.
struct Driven {
    outcome: Outcome,
    count: u64,
    stats: EngineStats,
    tiers: Vec<(&'static str, EngineStats)>,
    name: &'static str,
    elapsed: Duration,
    engine: Box<dyn Engine>,
}

fn drive(
    recipe: &Recipe,
    debugger: Option<&Debugger>,
    mut vcpu: Vcpu,
    mut linux: Linux,
    limit: Limit,
) -> anyhow::Result<Driven> {
    let mut engine = crate::delay::planted(recipe.engine(linux.process())?);
    let start = Instant::now();
    let outcome = match debugger {
        Some(debugger) => debugger.run(&mut *engine, &mut linux, &mut vcpu),
        None => run(&mut *engine, &mut linux, &mut vcpu, limit),
    };
    let elapsed = start.elapsed();
    if let Outcome::Signalled { .. } = outcome {
        tracing::debug!("{}", registers(&vcpu));
    }
    let (count, stats, name) = (vcpu.cpu.count, engine.stats(), engine.name());
    let tiers = engine.tiers();
    Ok(Driven { outcome, count, stats, tiers, name, elapsed, engine })
}

/// What the engines of a guest's further threads did.
struct Tally {
    /// A forked child may find the lock shut for ever, and reports nothing.
    process: u32,
    sum: Mutex<Sum>,
    changed: Condvar,
}

#[derive(Default)]
struct Sum {
    running: usize,
    tiers: Vec<(&'static str, EngineStats)>,
}

impl Sum {
    fn add(&mut self, tiers: &[(&'static str, EngineStats)]) {
        for &(name, stats) in tiers {
            match self.tiers.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum)) => *sum = *sum + stats,
                None => self.tiers.push((name, stats)),
            }
        }
    }
}

impl Tally {
    /// How long the threads of a process that ends may take to do so.
    const PATIENCE: Duration = Duration::from_millis(500);

    fn new() -> Self {
        Tally { process: std::process::id(), sum: Mutex::default(), changed: Condvar::new() }
    }

    fn change(&self, change: impl FnOnce(&mut Sum)) {
        if std::process::id() == self.process {
            change(&mut self.sum.lock().unwrap_or_else(PoisonError::into_inner));
            self.changed.notify_all();
        }
    }

    /// Adds all threads to the first one's figures.
    fn add_to(&self, tiers: &mut Vec<(&'static str, EngineStats)>) {
        let sum = self.sum.lock().unwrap_or_else(PoisonError::into_inner);
        let running = |sum: &mut Sum| sum.running != 0;
        let waited = self.changed.wait_timeout_while(sum, Self::PATIENCE, running);
        let (mut sum, _) = waited.unwrap_or_else(PoisonError::into_inner);
        sum.add(tiers);
        // The first thread's order.
        for tier in tiers {
            if let Some(sum) = sum.tiers.iter().find(|(name, _)| *name == tier.0) {
                tier.1 = sum.1;
            }
        }
    }
}

/// Runs one of the guest's further threads on the calling thread, which was made for it.
fn run_thread(
    recipe: &Recipe,
    tally: &Tally,
    debugger: Option<&Debugger>,
    vcpu: Vcpu,
    linux: Linux,
) {
    let process = linux.process().clone();
    tally.change(|sum| sum.running += 1);
    match drive(recipe, debugger, vcpu, linux, Limit::None) {
        Ok(driven) => tally.change(|sum| {
            sum.running -= 1;
            sum.add(&driven.tiers);
        }),
        Err(error) => {
            tally.change(|sum| sum.running -= 1);
            // The guest was told that its thread exists.
            eprintln!("axplab: no engine for a thread of the guest: {error:#}");
            process.end(Outcome::Exited(2));
        }
    }
}

/// This program and its options, for a guest that executes another Alpha program.
fn exec_prefix(opts: &RunOptions) -> anyhow::Result<Vec<OsString>> {
    let this = std::env::current_exe().context("cannot find this program's own file")?;
    let mut prefix: Vec<OsString> =
        vec![this.into(), "run".into(), "--engine".into(), (&opts.engine).into()];
    if opts.tuning != Tuning::default() {
        prefix.extend(["--jit".into(), jit_words(opts.tuning).into()]);
    }
    prefix.extend(["--cpu".into(), OsString::from(&opts.cpu)]);
    if opts.strace {
        prefix.push("--strace".into());
    }
    // What a sandbox holds reaches no folder of translations.
    if let Some(folder) = opts.cache.as_ref().filter(|_| opts.sandbox.is_none()) {
        prefix.extend(["--cache".into(), std::path::absolute(folder)?.into()]);
    }
    if let Some(root) = &opts.sysroot {
        prefix.extend(["-L".into(), root.into()]);
    }
    Ok(prefix)
}

/// The environment as inherited, with the changes of `-E`, as `NAME=VALUE` strings.
fn environment(changes: &[(OsString, Option<OsString>)]) -> Vec<OsString> {
    let mut all: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    for (name, value) in changes {
        all.retain(|(n, _)| n != name);
        if let Some(value) = value {
            all.push((name.clone(), value.clone()));
        }
    }
    let join = |(mut name, value): (OsString, OsString)| {
        name.push("=");
        name.push(value);
        name
    };
    all.into_iter().map(join).collect()
}

fn registers(vcpu: &Vcpu) -> String {
    let cpu = &vcpu.cpu;
    let names = INT_NAMES.iter().zip(cpu.r);
    names.map(|(name, value)| format!("{name}={value:#x} ")).collect()
}

fn print(report: &Report) {
    let seconds = |name| report.phases.get(name).copied().unwrap_or(0.0);
    let execute = seconds("execute");
    eprintln!("engine        {} ({} window)", report.engine, report.window);
    if let Some(n) = report.instructions {
        let mips = n as f64 / 1e6 / execute.max(1e-9);
        eprintln!("instructions  {n} ({mips:.0} MIPS, counted)");
    }
    eprintln!(
        "time          load {:.3} s, translate {:.3} s, execute {execute:.3} s",
        seconds("load"),
        seconds("translate")
    );
    for tier in &report.tiers {
        let per = |x: f64| match tier.instructions {
            0 => 0.0,
            n => x / n as f64,
        };
        eprintln!(
            "{:<13} {} bytes for {} instructions in {} translations: {:.1} bytes and {:.2} us each",
            tier.name,
            tier.code_bytes,
            tier.instructions,
            tier.translations,
            per(tier.code_bytes as f64),
            per(tier.translate * 1e6)
        );
        if tier.kept != 0 {
            eprintln!(
                "  from cache  {} instructions in {} translations",
                tier.kept_instructions, tier.kept
            );
        }
        if tier.shared != 0 {
            eprintln!(
                "  shared      {} instructions in {} translations",
                tier.shared_instructions, tier.shared
            );
        }
    }
    if let (Some(n), Some(calls)) = (report.instructions, report.by_call) {
        let share = 100.0 * calls as f64 / n.max(1) as f64;
        eprintln!("by a call     {calls} instructions ({share:.4} %)");
    }
    for (name, times) in &report.unknown_calls {
        eprintln!("not done      system call {name}, {times} times");
    }
}
