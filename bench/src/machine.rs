//! Runs a program of the executive on the privileged machine, in this process. Called by the commands
//! `probe`, `modes`, `dcl` and `profile`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use axp_emu::engine::Outcome;
use axp_emu::load;
use axp_emu::machine::{Board, Console, Counters, Disk, Machine, Settings};
use axp_emu::mem::{AddressSpace, ProbeStrategy};
use axp_jit::auto::Tuning;

use crate::guest;
use crate::profile::Profiler;

/// The programs by name, in the executive's numbering.
pub const PROGRAMS: [&str; 3] = ["getsyi", "chmk", "probe"];

/// The strategies by name.
pub const STRATEGIES: [(&str, ProbeStrategy); 4] = [
    ("walk", ProbeStrategy::Walk),
    ("inline", ProbeStrategy::Inline),
    ("cached", ProbeStrategy::Cached),
    ("elided", ProbeStrategy::Elided),
];

/// How often times by mode are told.
const INTERVAL: Duration = Duration::from_millis(100);

/// The command interpreter's number among the programs.
const DCL: u64 = 3;

/// Index of the word in which compiled code counts the probes that it answers itself.
const PROBES_WORD: usize = 17;

/// Index of the word in which it counts those that it leaves out.
const ELIDED_WORD: usize = 25;

/// A program of the executive as the command line names it.
#[derive(Debug, Clone)]
pub enum Named {
    /// One of [`PROGRAMS`].
    Program(u64),
    /// The text of a command procedure.
    Procedure(String),
}

impl Named {
    /// The program of that name, or the command procedure in that file; `None` if it is neither.
    pub fn find(name: &str) -> anyhow::Result<Option<Named>> {
        if name.to_ascii_lowercase().ends_with(".com") {
            return Ok(Some(Named::Procedure(procedure(Path::new(name))?)));
        }
        let number = PROGRAMS.iter().position(|known| *known == name);
        Ok(number.map(|number| Named::Program(number as u64)))
    }

    /// Runs it, in so many rounds if it is not a procedure.
    pub fn job<'a>(&'a self, engine: &'a str, strategy: ProbeStrategy, iterations: u64) -> Job<'a> {
        match self {
            Named::Procedure(text) => Job::procedure(engine, strategy, text),
            Named::Program(number) => {
                Job::program(engine, strategy, [*number, iterations, 0x28_0000, 8, 3, 1])
            }
        }
    }
}

/// The text of a command procedure.
pub fn procedure(path: &Path) -> anyhow::Result<String> {
    let name = path.display();
    let bytes = std::fs::read(path).with_context(|| format!("cannot read `{name}`"))?;
    let Ok(text) = String::from_utf8(bytes) else {
        bail!("`{name}` is not text");
    };
    if text.is_empty() {
        bail!("`{name}` is empty");
    }
    Ok(text)
}

/// One run.
#[derive(Debug, Clone)]
pub struct Job<'a> {
    /// An engine's name.
    pub engine: &'a str,
    /// How PROBE finds its answers.
    pub strategy: ProbeStrategy,
    /// Number of the program and its parameters: rounds, base, offset, mode, direction.
    pub parameters: [u64; 6],
    /// Take the time by mode, and tell each interval's.
    pub sampler: Option<fn([Duration; 5])>,
    /// Count instructions.
    pub counted: bool,
    /// A command procedure for the command interpreter, which then is the program.
    pub procedure: Option<&'a str>,
    /// Who samples it.
    pub profiler: Option<&'a Profiler>,
}

impl<'a> Job<'a> {
    /// A program and its parameters.
    pub fn program(engine: &'a str, strategy: ProbeStrategy, parameters: [u64; 6]) -> Self {
        Job {
            engine,
            strategy,
            parameters,
            sampler: None,
            counted: false,
            procedure: None,
            profiler: None,
        }
    }

    /// The command interpreter on a procedure.
    pub fn procedure(engine: &'a str, strategy: ProbeStrategy, text: &'a str) -> Self {
        let parameters = [DCL, 0, text.len() as u64, 0, 0, 0];
        Job { procedure: Some(text), ..Job::program(engine, strategy, parameters) }
    }
}

/// What it gave.
#[derive(Debug, Clone)]
pub struct Done {
    /// CPU time of the timed loop.
    pub loop_time: Duration,
    /// CPU time of an empty loop with as many rounds.
    pub empty_time: Duration,
    /// What the program summed up: its result.
    pub sum: u64,
    /// Bytes that PROBE asked about, by walks, the buffer and the stash, outside compiled code.
    pub bytes: [u64; 3],
    /// PROBEs that compiled code answered.
    pub inline: u64,
    /// PROBEs that compiled code left out.
    pub elided: u64,
    /// The machine's counters.
    pub counters: Counters,
    /// What it wrote to the console.
    pub output: Vec<u8>,
    /// The program's status.
    pub status: i32,
    /// The first processor's view of memory, as the program left it.
    pub memory: Arc<AddressSpace>,
}

/// The strategy of that name.
pub fn strategy(name: &str) -> anyhow::Result<ProbeStrategy> {
    match STRATEGIES.iter().find(|(known, _)| *known == name) {
        Some((_, strategy)) => Ok(*strategy),
        None => bail!("unknown strategy `{name}`; choose among walk, inline, cached, elided"),
    }
}

/// CPU time of this thread: what the host does meanwhile is not charged to the guest.
fn thread_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32)
}

/// Runs to the program's end.
pub fn run(job: &Job<'_>) -> anyhow::Result<Done> {
    let mut engine = guest::engine(job.engine)?(Tuning::default(), None)?;
    // A copy, since the parser wants an aligned header.
    let bytes = axp_guests::EXECUTIVE.to_vec();
    let image = load::parse(&bytes).context("the executive's ELF file")?;
    let disk = job.procedure.map(|text| Disk::of(text.as_bytes().to_vec())).unwrap_or_default();
    let board = Arc::new(Board::new(Console::Kept, disk, &job.parameters));
    let settings = Settings { probe: job.strategy, ..Settings::default() };
    let (mut machine, mut vcpu) = Machine::boot(&image, board.clone(), &settings)?;
    if let Some(tell) = job.sampler {
        machine.time_modes(INTERVAL, Box::new(tell));
    }
    let start = thread_time();
    let quantum = job.counted.then_some(u64::MAX);
    let outcome = match job.profiler {
        Some(profiler) => profiler.run(&mut *engine, &mut machine, &mut vcpu)?,
        None => machine.run(&mut *engine, &mut vcpu, quantum, u64::MAX),
    };
    if let Some(report) = machine.report() {
        bail!("{report}");
    }
    let total = thread_time().saturating_sub(start);
    let Outcome::Exited(status) = outcome else {
        bail!("the machine ended with {outcome:?}");
    };
    let results = board.results();
    let result = |number: u64, default: u64| {
        let found = results.iter().find(|(n, _)| *n == number);
        found.map_or(default, |(_, value)| *value)
    };
    let bytes = vcpu.mem.system().map(axp_emu::mem::SystemMap::probes).unwrap_or_default();
    Ok(Done {
        loop_time: Duration::from_nanos(result(1, total.as_nanos() as u64)),
        sum: result(2, 0),
        empty_time: Duration::from_nanos(result(3, 0)),
        bytes,
        inline: vcpu.cpu.engine[PROBES_WORD],
        elided: vcpu.cpu.engine[ELIDED_WORD],
        counters: machine.counters(),
        output: board.take_output(),
        status,
        memory: vcpu.mem.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_gives_one_result_by_every_strategy_on_every_engine() {
        for engine in ["interp-match", "interp", "baseline", "opt", "auto"] {
            for (name, strategy) in STRATEGIES {
                let parameters = [0, 3000, 0, 0, 0, 0];
                let program = Job::program(engine, strategy, parameters);
                let job = Job { counted: true, ..program };
                let done = run(&job).unwrap();
                // Status 1, length 8, and a character of the version each time.
                let text: u64 = b"V8.4-L1 ".iter().map(|&c| u64::from(c)).sum();
                assert_eq!(done.sum, 3000 * 9 + 3000 / 8 * text, "{engine} {name}");
            }
        }
    }

    #[test]
    fn probe_alone_sees_both_directions_and_missing_pages() {
        for (base, offset, write, yes) in
            [(0x28_0000, 8, 0, 1), (0x28_1ff0, 0x20, 1, 1), (0x28_7ff0, 0x20, 1, 0)]
        {
            for (name, strategy) in STRATEGIES {
                let parameters = [2, 500, base, offset, 3, write];
                let job = Job::program("auto", strategy, parameters);
                assert_eq!(run(&job).unwrap().sum, 500 * yes, "{base:#x} {name}");
            }
        }
    }
}
