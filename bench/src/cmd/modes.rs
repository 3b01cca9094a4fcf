//! `axplab modes`: in which access modes a program of the privileged machine spends its time, in the
//! layout of MONITOR MODES.

use std::io::Write;

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
    let program = program
        .with_context(|| format!("unknown program; choose among {}", PROGRAMS.join(", ")))?;
    let parameters = [program as u64, args.iterations, 0x28_0000, 8, 3, 1];
    let job = match &text {
        Some(text) => Job::procedure(&args.engine, strategy, text),
        None => Job::program(&args.engine, strategy, parameters),
    };
    let job = Job { timed: true, ..job };
    let time = machine::run(&job)?.counters.time;
    // Instructions come from a run of their own: counting changes times.
    let count = Job { timed: false, counted: true, ..job };
    let instructions = machine::run(&count)?.counters.instructions;
    let total: f64 = time.iter().map(std::time::Duration::as_secs_f64).sum();
    let mut out = std::io::stdout().lock();
    writeln!(out, "{} on {}, PROBE by {}: {total:.3} s", args.program, args.engine, args.probe)?;
    writeln!(out, "{:<21}{:>6}  {:<BAR$}{:>15}", "", "CUR", "% of one CPU", "instructions")?;
    let rows = [
        ("Interrupt State", None),
        ("MP Synchronization", None),
        ("Kernel Mode", Some(0)),
        ("Executive Mode", Some(1)),
        ("Supervisor Mode", Some(2)),
        ("User Mode", Some(3)),
        ("PALcode", Some(4)),
        ("Idle Time", None),
    ];
    for (name, index) in rows {
        let share = index.map_or(0.0, |i: usize| time[i].as_secs_f64() / total.max(1e-9));
        let bar = "*".repeat((share * BAR as f64).round() as usize);
        let retired = index.and_then(|i| instructions.get(i)).map(u64::to_string);
        let retired = retired.unwrap_or_default();
        writeln!(out, "{name:<21}{:>6.1}  {bar:<BAR$}{retired:>15}", 100.0 * share)?;
    }
    Ok(Outcome::DONE)
}
