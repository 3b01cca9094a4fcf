//! `axplab modes`: in which access modes a program of the privileged machine spends its time, in the
//! layout of MONITOR MODES.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;

use crate::Outcome;
use crate::cli::ModesArgs;
use crate::machine::{self, Job, PROGRAMS};

/// Width of a full bar.
const BAR: usize = 40;

/// Runs the command.
pub fn modes(args: ModesArgs) -> anyhow::Result<Outcome> {
    let strategy = machine::strategy(&args.probe)?;
    let text = match args.program.to_ascii_lowercase().ends_with(".com") {
        true => Some(
            std::fs::read_to_string(&args.program)
                .with_context(|| format!("cannot read `{}`", args.program))?,
        ),
        false => None,
    };
    let program = match &text {
        Some(_) => Some(0),
        None => PROGRAMS.iter().position(|name| *name == args.program),
    };
    let program = program.with_context(|| {
        let known = PROGRAMS.join(", ");
        format!("unknown program `{}`; choose among {known}, or give FILE.COM", args.program)
    })?;
    let parameters = [program as u64, args.iterations, 0x28_0000, 8, 3, 1];
    let job = match &text {
        Some(text) => Job::procedure(&args.engine, strategy, text),
        None => Job::program(&args.engine, strategy, parameters),
    };
    let job = Job { sampler: Some(tell), ..job };
    let done = machine::run(&job)?;
    let time = done.counters.time;
    // Instructions come from a run of their own: counting changes times.
    let count = Job { sampler: None, counted: true, ..job };
    let instructions = machine::run(&count)?.counters.instructions;
    let total: f64 = time.iter().map(Duration::as_secs_f64).sum();
    let samples = samples();
    let mut out = std::io::stdout().lock();
    writeln!(out, "{} on {}, PROBE by {}: {total:.3} s", args.program, args.engine, args.probe)?;
    writeln!(out, "{:<19}   CUR   AVE   MIN   MAX  {:<BAR$}{:>15}", "", "average", "instructions")?;
    for (name, index) in ROWS {
        let average = index.map_or(0.0, |i| 100.0 * time[i].as_secs_f64() / total.max(1e-9));
        let of = |s: &[f64; 5]| index.map_or(0.0, |i| s[i]);
        let current = samples.last().map_or(average, of);
        let least = samples.iter().map(of).fold(f64::INFINITY, f64::min).min(average);
        let most = samples.iter().map(of).fold(average, f64::max);
        let retired = index.and_then(|i| instructions.get(i)).map(u64::to_string);
        writeln!(
            out,
            "{name:<19}{current:>6.1}{average:>6.1}{least:>6.1}{most:>6.1}  {:<BAR$}{:>15}",
            bar(average),
            retired.unwrap_or_default()
        )?;
    }
    writeln!(
        out,
        "published, VUPS.COM on one of three CPUs: kernel 29, executive 21, supervisor 50"
    )?;
    Ok(Outcome::DONE)
}

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
static SAMPLES: Mutex<Vec<[f64; 5]>> = Mutex::new(Vec::new());

fn samples() -> Vec<[f64; 5]> {
    SAMPLES.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Keeps an interval, and shows it where somebody watches.
fn tell(time: [Duration; 5]) {
    let total: f64 = time.iter().map(Duration::as_secs_f64).sum();
    let percent = time.map(|t| 100.0 * t.as_secs_f64() / total.max(1e-9));
    let mut samples = SAMPLES.lock().unwrap_or_else(PoisonError::into_inner);
    if samples.len() < 100_000 {
        samples.push(percent);
    }
    let mut err = std::io::stderr().lock();
    if err.is_terminal() {
        let mut text = String::new();
        for (name, index) in ROWS {
            let share = index.map_or(0.0, |i| percent[i]);
            text += &format!("\x1b[K{name:<19}{share:>6.1}  {}\n", bar(share));
        }
        // A terminal that is gone does not end the run.
        let _ = write!(err, "{text}\x1b[{}A", ROWS.len());
    }
}
