//! `axplab modes`: in which access modes a program of the privileged machine spends its time, or between
//! what a Linux program divides it, in the layout of MONITOR MODES.

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;

use crate::cli::ModesArgs;
use crate::cli_debug::GuestArgs;
use crate::cmd::whole::Whole;
use crate::machine::{self, Job, PROGRAMS};
use crate::profile::{Names, Profiler};
use crate::{Outcome, cmd, guest};

/// Width of a full bar.
const BAR: usize = 40;

/// Runs the command.
pub fn modes(args: ModesArgs) -> anyhow::Result<Outcome> {
    let words = std::iter::once(OsString::from(&args.program)).chain(args.args.iter().cloned());
    if let Some(whole) = Whole::find(&words.collect::<Vec<_>>(), &args.engine)? {
        return whole_machine(&whole);
    }
    let strategy = machine::strategy(&args.probe)?;
    let named = machine::Named::find(&args.program)?;
    if named.is_none() && Path::new(&args.program).exists() {
        return linux(args);
    }
    let named = named.with_context(|| {
        let known = PROGRAMS.join(", ");
        format!(
            "unknown program `{}`; choose among {known}, or give FILE.COM or an Alpha program for Linux",
            args.program
        )
    })?;
    let job = named.job(&args.engine, strategy, args.iterations);
    let job = Job { sampler: Some(tell), ..job };
    let done = machine::run(&job)?;
    let time = done.counters.time.map(|t| t.as_secs_f64());
    // Instructions come from a run of their own: counting changes times.
    let count = Job { sampler: None, counted: true, ..job };
    let instructions = machine::run(&count)?.counters.instructions;
    let mut out = std::io::stdout().lock();
    let total: f64 = time.iter().sum();
    writeln!(out, "{} on {}, PROBE by {}: {total:.3} s", args.program, args.engine, args.probe)?;
    let times = padded(time, 0.0);
    table(&mut out, &ROWS, times, &samples(), |i| instructions.get(i).copied())?;
    writeln!(
        out,
        "published, VUPS.COM on one of three CPUs: kernel 29, executive 21, supervisor 50"
    )?;
    Ok(Outcome::DONE)
}

/// A Linux program: what the sampler of `axplab profile` finds its threads at.
fn linux(args: ModesArgs) -> anyhow::Result<Outcome> {
    let program = std::iter::once(args.program.clone().into()).chain(args.args).collect();
    let guest = GuestArgs { cpu: "ev67".into(), sysroot: args.sysroot, env: Vec::new(), program };
    let opts = cmd::run::options_for(&guest, &args.engine)?;
    let profiler = Profiler::new(SAMPLE, Names::Process(opts.sysroot.clone()));
    let ended = Arc::new(AtomicBool::new(false));
    let (watched, end) = (profiler.clone(), ended.clone());
    let watching = std::thread::spawn(move || {
        let mut before = watched.times();
        while !end.load(Ordering::Relaxed) {
            std::thread::park_timeout(INTERVAL);
            let now = watched.times();
            let spent = std::array::from_fn(|i| now[i] - before[i]);
            if spent.iter().any(|t: &Duration| !t.is_zero()) {
                keep(&LINUX, padded(spent, Duration::ZERO));
            }
            before = now;
        }
    });
    let outcome = cmd::profile::run(&profiler, &opts, &args.engine)?.1;
    if profiler.is_foreign() {
        return Ok(cmd::run::ended(guest::ended(outcome)?));
    }
    let (time, elapsed) = (profiler.times().map(|t| t.as_secs_f64()), profiler.elapsed());
    ended.store(true, Ordering::Relaxed);
    watching.thread().unpark();
    let _ = watching.join();
    // Standard output is the program's.
    let mut out = std::io::stderr().lock();
    let (total, elapsed): (f64, f64) = (time.iter().sum(), elapsed.as_secs_f64());
    writeln!(
        out,
        "{} on {}: {total:.3} s of CPU time in {elapsed:.3} s",
        args.program, args.engine
    )?;
    table(&mut out, &LINUX, padded(time, 0.0), &samples(), |_| None)?;
    Ok(cmd::run::ended(guest::ended(outcome)?))
}

/// `boot` or `machine`: what the sampler finds processors at; while it finds nothing, they sleep.
fn whole_machine(whole: &Whole) -> anyhow::Result<Outcome> {
    let profiler = Profiler::new(SAMPLE, whole.names()?);
    let rows: &'static Rows = match whole {
        Whole::Boot(_) => &KERNEL_AND_USER,
        Whole::Machine(_) => &ALL_MODES,
    };
    let processors = whole.processors() as u32;
    let times = |profiler: &Profiler| -> [Duration; KINDS] {
        let times = profiler.mode_times();
        let awake = times.iter().sum();
        let all = profiler.elapsed() * processors;
        std::array::from_fn(|i| times.get(i).copied().unwrap_or(all.saturating_sub(awake)))
    };
    let ended = AtomicBool::new(false);
    let (outcome, all) = std::thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let mut before = times(&profiler);
            while !ended.load(Ordering::Relaxed) {
                std::thread::park_timeout(INTERVAL);
                let now = times(&profiler);
                keep(rows, std::array::from_fn(|i| now[i].saturating_sub(before[i])));
                before = now;
            }
        });
        let outcome = whole.run(&profiler);
        let all = times(&profiler).map(|t| t.as_secs_f64());
        ended.store(true, Ordering::Relaxed);
        watching.thread().unpark();
        (outcome, all)
    });
    let outcome = outcome?.0;
    // Standard output is the guest's.
    let mut out = std::io::stderr().lock();
    let elapsed: f64 = all.iter().sum::<f64>() / f64::from(processors);
    let plural = if processors == 1 { "processor" } else { "processors" };
    writeln!(out, "{}: {elapsed:.3} s of {processors} {plural}", whole.name())?;
    table(&mut out, rows, all, &samples(), |_| None)?;
    Ok(outcome)
}

/// What each row shows: shares in per cent, and instructions where they are known.
fn table(
    out: &mut dyn Write,
    rows: &Rows,
    time: [f64; KINDS],
    samples: &[[f64; KINDS]],
    instructions: impl Fn(usize) -> Option<u64>,
) -> std::io::Result<()> {
    let total: f64 = time.iter().sum();
    writeln!(out, "{:<19}   CUR   AVE   MIN   MAX  {:<BAR$}{:>15}", "", "average", "instructions")?;
    for (name, index) in rows {
        let average = index.map_or(0.0, |i| 100.0 * time[i] / total.max(1e-9));
        let of = |s: &[f64; KINDS]| index.map_or(0.0, |i| s[i]);
        let current = samples.last().map_or(average, of);
        let least = samples.iter().map(of).fold(f64::INFINITY, f64::min).min(average);
        let most = samples.iter().map(of).fold(average, f64::max);
        let retired = index.and_then(&instructions).map(|n| n.to_string());
        writeln!(
            out,
            "{name:<19}{current:>6.1}{average:>6.1}{least:>6.1}{most:>6.1}  {:<BAR$}{:>15}",
            bar(average),
            retired.unwrap_or_default()
        )?;
    }
    Ok(())
}

/// Names of rows, and which time each shows.
type Rows = [(&'static str, Option<usize>)];

/// CPU time between two samples of a Linux program, in nanoseconds.
const SAMPLE: u64 = 1_000_000;
/// How often the picture changes.
const INTERVAL: Duration = Duration::from_millis(500);

/// What a Linux program divides its time between, in the order of [`Tier::ALL`](crate::profile::Tier::ALL).
const LINUX: [(&str, Option<usize>); 5] = [
    ("User, regions", Some(0)),
    ("User, templates", Some(1)),
    ("User, interpreter", Some(2)),
    ("Translation", Some(3)),
    ("System calls", Some(4)),
];

/// Kinds of time: of modes, of PALcode, of the translator, and sleep.
const KINDS: usize = 7;

/// What the processors of a booted kernel divide their time between.
const KERNEL_AND_USER: [(&str, Option<usize>); 5] = [
    ("Kernel Mode", Some(0)),
    ("User Mode", Some(3)),
    ("PALcode", Some(4)),
    ("Translation", Some(5)),
    ("Idle Time", Some(6)),
];

/// The same with all modes of the OpenVMS processor.
const ALL_MODES: [(&str, Option<usize>); 7] = [
    ("Kernel Mode", Some(0)),
    ("Executive Mode", Some(1)),
    ("Supervisor Mode", Some(2)),
    ("User Mode", Some(3)),
    ("PALcode", Some(4)),
    ("Translation", Some(5)),
    ("Idle Time", Some(6)),
];

/// The rows of MONITOR MODES, and which time each shows.
const ROWS: [(&str, Option<usize>); 8] = [
    ("Interrupt State", None),
    ("MP Synchronization", None),
    ("Kernel Mode", Some(0)),
    ("Executive Mode", Some(1)),
    ("Supervisor Mode", Some(2)),
    ("User Mode", Some(3)),
    ("PALcode", Some(4)),
    ("Idle Time", None),
];

fn bar(percent: f64) -> String {
    "*".repeat((percent / 100.0 * BAR as f64).round() as usize)
}

/// Percentages of each interval; bounded, so that a long run does not grow.
static SAMPLES: Mutex<Vec<[f64; KINDS]>> = Mutex::new(Vec::new());

fn samples() -> Vec<[f64; KINDS]> {
    SAMPLES.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Keeps an interval of the machine.
fn tell(time: [Duration; 5]) {
    keep(&ROWS, padded(time, Duration::ZERO));
}

/// Five times in the places of all kinds.
fn padded<T: Copy>(times: [T; 5], nothing: T) -> [T; KINDS] {
    std::array::from_fn(|i| times.get(i).copied().unwrap_or(nothing))
}

/// Keeps an interval, and shows it where somebody watches.
fn keep(rows: &Rows, time: [Duration; KINDS]) {
    let total: f64 = time.iter().map(Duration::as_secs_f64).sum();
    let percent = time.map(|t| 100.0 * t.as_secs_f64() / total.max(1e-9));
    let mut samples = SAMPLES.lock().unwrap_or_else(PoisonError::into_inner);
    if samples.len() < 100_000 {
        samples.push(percent);
    }
    let mut err = std::io::stderr().lock();
    // Not between what a machine writes to its console.
    let console = rows.iter().any(|row| row.1 == Some(6)) && std::io::stdout().is_terminal();
    if err.is_terminal() && !console {
        let mut text = String::new();
        for (name, index) in rows {
            let share = index.map_or(0.0, |i| percent[i]);
            text += &format!("\x1b[K{name:<19}{share:>6.1}  {}\n", bar(share));
        }
        // A terminal that is gone does not end the run.
        let _ = write!(err, "{text}\x1b[{}A", rows.len());
    }
}
