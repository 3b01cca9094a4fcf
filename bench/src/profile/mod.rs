//! Where guest time goes: samples by a timer on CPU time, each with the guest's stack. Called by
//! `cmd/profile.rs`.
//!
//! The timer's signal notes the host program counter and asks for a poll. In compiled code the host
//! address says exactly which guest instruction it was; the registers, and with them the stack, are
//! exact at the poll, which follows within a loop or a call. The interpreter's samples are of the poll.
//!
//! * `subject`: what is profiled. `collect`: its driver loop, from ticks to samples. `stack`: callers of
//!   a guest program counter.
//! * `report`: tables. `blocks`: listings. `export`: files for other tools.

mod blocks;
mod collect;
pub mod export;
pub mod report;
mod stack;
mod subject;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axp_emu::machine::{MODES, Mode};

pub use subject::Subject;

use crate::symbols::Symbols;

/// What executed a sampled instruction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Tier {
    /// Regions of the optimising tier.
    Opt,
    /// Templates.
    Baseline,
    /// The interpreter, a dispatcher, or what compiled code calls.
    Interpreter,
    /// The compiler, on the guest's thread.
    Translation,
    /// A system call, a signal, a fault; on the machine: PALcode.
    System,
}

impl Tier {
    /// All of them.
    pub const ALL: [Tier; 5] =
        [Tier::Opt, Tier::Baseline, Tier::Interpreter, Tier::Translation, Tier::System];

    /// Heading of a column.
    pub fn name(self) -> &'static str {
        match self {
            Tier::Opt => "opt",
            Tier::Baseline => "baseline",
            Tier::Interpreter => "interp",
            Tier::Translation => "translate",
            Tier::System => "system",
        }
    }
}

/// One sample.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Nanoseconds since the profile began.
    pub at: u64,
    /// CPU time since the sample before, in nanoseconds: what it stands for.
    pub weight: u64,
    /// What executed.
    pub tier: Tier,
    /// Host address at which the translation begins that executed; 0 if none did.
    pub code: u64,
    /// What a sample of [`Tier::System`] carried out.
    pub event: &'static str,
    /// Innermost first; callers by the instruction that called.
    pub stack: Box<[Frame]>,
}

/// An instruction on a stack.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Frame {
    /// Its address.
    pub pc: u64,
    /// The access mode that it runs in; none for a Linux program.
    pub mode: Option<Mode>,
}

/// Name of a mode, empty where there is none.
pub fn mode_name(mode: Option<Mode>) -> &'static str {
    mode.map_or("", |mode| MODES[(mode & 3) as usize])
}

/// Events of one kind that made the engine stop.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stops {
    /// How many.
    pub count: u64,
    /// Wall time until the guest went on.
    pub time: Duration,
}

/// Where names of the guest's code come from.
#[derive(Clone, Debug)]
pub enum Names {
    /// From the files that a Linux program maps, looked for in this directory, too.
    Process(Option<PathBuf>),
    /// From the one image of the privileged machine.
    Machine(Symbols),
    /// From the kernel of a machine with kernel and user mode.
    Kernel(Symbols),
}

/// What one thread did.
#[derive(Clone, Debug)]
pub struct ThreadProfile {
    /// Its id.
    pub tid: i32,
    /// Its samples, in order.
    pub samples: Vec<Sample>,
    /// Why its engine stopped.
    pub stops: BTreeMap<&'static str, Stops>,
}

/// What has been collected of all threads, when they have ended.
#[derive(Debug)]
pub struct Profile {
    /// The threads.
    pub threads: Vec<ThreadProfile>,
    /// Names of their code.
    pub symbols: Symbols,
    /// They are processors of the privileged machine: with modes, and with PALcode for a system.
    pub machine: bool,
    /// These have kernel and user mode only.
    pub two_modes: bool,
}

impl Profile {
    /// Heading of a tier's column.
    pub fn tier_name(&self, tier: Tier) -> &'static str {
        match tier {
            Tier::System if self.machine => "PALcode",
            tier => tier.name(),
        }
    }

    /// All threads' samples.
    pub fn samples(&self) -> impl Iterator<Item = &Sample> {
        self.threads.iter().flat_map(|t| &t.samples)
    }
}

/// Collects of all threads.
#[derive(Debug)]
pub struct Profiler {
    begun: Instant,
    begun_ns: Mutex<Option<u64>>,
    interval: u64,
    names: Names,
    pid: u32,
    threads: Mutex<Vec<ThreadProfile>>,
    symbols: Mutex<Symbols>,
    /// CPU time of each tier so far, in nanoseconds.
    times: [AtomicU64; 5],
    /// The same of each access mode, of PALcode and of the translator.
    mode_times: [AtomicU64; 6],
}

impl Profiler {
    /// A profiler that takes a sample after every `interval` nanoseconds of CPU time of each thread.
    pub fn new(interval: u64, names: Names) -> Arc<Profiler> {
        axp_jit::profile::keep_code();
        Arc::new(Profiler {
            begun: Instant::now(),
            begun_ns: Mutex::default(),
            interval,
            names,
            pid: std::process::id(),
            threads: Mutex::default(),
            symbols: Mutex::default(),
            times: Default::default(),
            mode_times: Default::default(),
        })
    }

    /// CPU time of each tier so far, in the order of [`Tier::ALL`], on all threads.
    pub fn times(&self) -> [Duration; 5] {
        std::array::from_fn(|i| Duration::from_nanos(self.times[i].load(Ordering::Relaxed)))
    }

    /// CPU time of each access mode so far, then of PALcode and of the translator, on all processors.
    pub fn mode_times(&self) -> [Duration; 6] {
        std::array::from_fn(|i| Duration::from_nanos(self.mode_times[i].load(Ordering::Relaxed)))
    }

    /// Whether this is a process that the guest has forked off, which nobody profiles.
    pub fn is_foreign(&self) -> bool {
        std::process::id() != self.pid
    }

    /// Wall time since the profile began.
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// What has been collected, when all threads have ended.
    pub fn finish(&self) -> Profile {
        let threads = std::mem::take(&mut *lock(&self.threads));
        let two_modes = matches!(self.names, Names::Kernel(_));
        let machine = two_modes || matches!(self.names, Names::Machine(_));
        Profile { threads, symbols: lock(&self.symbols).clone(), machine, two_modes }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
