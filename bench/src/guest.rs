//! Runs one guest program: builds the process and the engine, drives both to the guest's end, and
//! says how it went. Called by `cmd/run.rs`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use axp_emu::cpu::Vcpu;
use axp_emu::engine::{Engine, EngineStats, Limit, Outcome, run};
use axp_emu::interp::{Dispatch, Interpreter};
use axp_emu::isa::{CpuModel, INT_NAMES};
use axp_emu::linux::{Linux, LinuxOptions, signal_name, signal_to_host};
use axp_jit::auto::Auto;
use axp_jit::baseline::Baseline;
use axp_jit::opt::Opt;
use serde::Serialize;

use crate::cmd::run::{ExitStatus, RunOptions};

/// Makes an engine that has translated nothing.
type Maker = fn() -> anyhow::Result<Box<dyn Engine>>;

/// The engines of this build, by the name that `--engine` takes.
const ENGINES: &[(&str, Maker)] = &[
    ("interp", || Ok(Box::new(Interpreter::new(Dispatch::Threaded)))),
    ("interp-match", || Ok(Box::new(Interpreter::new(Dispatch::Match)))),
    ("opt", || Ok(Box::new(Opt::new()?))),
    ("baseline", || Ok(Box::new(Baseline::new()?))),
    ("auto", || Ok(Box::new(Auto::new()?))),
];

/// Whether `--engine name` works in this build.
pub fn is_built(name: &str) -> bool {
    ENGINES.iter().any(|(known, _)| *known == name)
}

fn engine(name: &str) -> anyhow::Result<Maker> {
    match ENGINES.iter().find(|(known, _)| *known == name) {
        Some((_, make)) => Ok(*make),
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
    window: &'static str,
    phases: BTreeMap<&'static str, f64>,
    unknown_calls: Vec<(String, u64)>,
}

/// Runs the guest to its end.
pub fn execute(opts: RunOptions) -> anyhow::Result<ExitStatus> {
    let make = engine(&opts.engine)?;
    let start = Instant::now();
    let mut argv = vec![opts.argv0.clone().unwrap_or_else(|| opts.program.clone().into())];
    argv.extend(opts.args.iter().cloned());
    let options = LinuxOptions {
        sysroot: opts.sysroot.clone(),
        model: CpuModel::from_name(&opts.cpu).context("unknown CPU model")?,
        runner: Some(Arc::new(move |vcpu, linux| run_thread(make, vcpu, linux))),
        exec_prefix: exec_prefix(&opts)?,
        ..LinuxOptions::default()
    };
    let environment = environment(&opts.env);
    let (linux, vcpu) = Linux::load(&opts.program, &argv, &environment, options)?;
    let window = vcpu.mem.kind().name();
    let process = linux.process().clone();
    let loaded = start.elapsed();
    // Counting is a mode of its own, slower and exact.
    let limit = if opts.stats { Limit::Count(u64::MAX) } else { Limit::None };
    // On this thread, the process's first: signals for the process reach it, and a forked child
    // goes on in it.
    let pid = std::process::id();
    let driven = drive(make, vcpu, linux, limit)?;
    let Driven { outcome, count, stats, name, elapsed } = driven;
    if std::process::id() != pid {
        // A child that the guest has forked: its end is the guest's business alone.
        return ended(outcome);
    }
    let phases = BTreeMap::from([
        ("load", loaded.as_secs_f64()),
        ("translate", stats.translate.as_secs_f64()),
        ("execute", elapsed.saturating_sub(stats.translate).as_secs_f64()),
    ]);
    let report = Report {
        engine: name,
        instructions: opts.stats.then_some(count),
        compiled_instructions: stats.translated_instructions,
        translations: stats.translations,
        code_bytes: stats.code_bytes,
        window,
        phases,
        unknown_calls: process.unknown_calls(),
    };
    if let Some(path) = &opts.stats_json {
        crate::record::write_atomically(path, |out| Ok(serde_json::to_writer(out, &report)?))?;
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

fn ended(outcome: Outcome) -> anyhow::Result<ExitStatus> {
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
    name: &'static str,
    elapsed: Duration,
}

fn drive(make: Maker, mut vcpu: Vcpu, mut linux: Linux, limit: Limit) -> anyhow::Result<Driven> {
    let mut engine = crate::delay::planted(make()?);
    let start = Instant::now();
    let outcome = run(&mut *engine, &mut linux, &mut vcpu, limit);
    let elapsed = start.elapsed();
    if let Outcome::Signalled { .. } = outcome {
        tracing::debug!("{}", registers(&vcpu));
    }
    let (count, stats, name) = (vcpu.cpu.count, engine.stats(), engine.name());
    Ok(Driven { outcome, count, stats, name, elapsed })
}

/// Runs one of the guest's further threads on the calling thread, which was made for it.
fn run_thread(make: Maker, vcpu: Vcpu, linux: Linux) {
    let process = linux.process().clone();
    if let Err(error) = drive(make, vcpu, linux, Limit::None) {
        // The guest was told that its thread exists.
        eprintln!("axplab: no engine for a thread of the guest: {error:#}");
        process.end(Outcome::Exited(2));
    }
}

/// This program and its options, for a guest that executes another Alpha program.
fn exec_prefix(opts: &RunOptions) -> anyhow::Result<Vec<OsString>> {
    let this = std::env::current_exe().context("cannot find this program's own file")?;
    let mut prefix: Vec<OsString> =
        vec![this.into(), "run".into(), "--engine".into(), (&opts.engine).into()];
    prefix.extend(["--cpu".into(), OsString::from(&opts.cpu)]);
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
    eprintln!(
        "code          {} bytes for {} instructions in {} translations",
        report.code_bytes, report.compiled_instructions, report.translations
    );
    for (name, times) in &report.unknown_calls {
        eprintln!("not done      system call {name}, {times} times");
    }
}
