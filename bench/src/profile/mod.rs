//! Where guest time goes: samples by a timer on CPU time, each with the guest's stack. Called by
//! `cmd/profile.rs`.
//!
//! The timer's signal notes the host program counter and asks for a poll. In compiled code the host
//! address says exactly which guest instruction it was; the registers, and with them the stack, are
//! exact at the poll, which follows within a loop or a call. The interpreter's samples are of the poll.
//!
//! * `stack`: callers of a guest program counter. `report`: tables and listings. `export`: files for
//!   other tools.

pub mod export;
pub mod report;
mod stack;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axp_emu::cpu::{Exit, Vcpu};
use axp_emu::engine::{Answer, Engine, Environment, Flow, Limit, Outcome, Palcode};
use axp_emu::isa::Osf;
use axp_emu::linux::Linux;
use axp_jit::profile::{Phase, Sampler, find_code, set_phase};

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
    /// A system call, a signal, a fault.
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
    /// Program counters, innermost first; callers by the instruction that called.
    pub stack: Box<[u64]>,
}

/// Events of one kind that made the engine stop.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stops {
    /// How many.
    pub count: u64,
    /// Wall time until the guest went on.
    pub time: Duration,
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

/// What has been collected of all threads.
#[derive(Debug)]
pub struct Profiler {
    begun: Instant,
    begun_ns: Mutex<Option<u64>>,
    interval: u64,
    sysroot: Option<PathBuf>,
    pid: u32,
    threads: Mutex<Vec<ThreadProfile>>,
    symbols: Mutex<Symbols>,
    /// CPU time of each tier so far, in nanoseconds.
    times: [AtomicU64; 5],
}

impl Profiler {
    /// A profiler that takes a sample after every `interval` nanoseconds of CPU time of each thread.
    pub fn new(interval: u64, sysroot: Option<PathBuf>) -> Arc<Profiler> {
        axp_jit::profile::keep_code();
        Arc::new(Profiler {
            begun: Instant::now(),
            begun_ns: Mutex::default(),
            interval,
            sysroot,
            pid: std::process::id(),
            threads: Mutex::default(),
            symbols: Mutex::default(),
            times: Default::default(),
        })
    }

    /// CPU time of each tier so far, in the order of [`Tier::ALL`], on all threads.
    pub fn times(&self) -> [Duration; 5] {
        std::array::from_fn(|i| Duration::from_nanos(self.times[i].load(Ordering::Relaxed)))
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
    pub fn finish(&self) -> (Vec<ThreadProfile>, Symbols) {
        let threads = std::mem::take(&mut *lock(&self.threads));
        (threads, lock(&self.symbols).clone())
    }

    /// The driver loop of a profiled thread.
    pub fn run(
        &self,
        engine: &mut dyn Engine,
        linux: &mut Linux,
        vcpu: &mut Vcpu,
    ) -> anyhow::Result<Outcome> {
        if self.is_foreign() {
            return Ok(axp_emu::engine::run(engine, linux, vcpu, Limit::None));
        }
        // The first event makes this thread the guest's: the timer's signal needs its stack.
        let flow = linux.handle(vcpu, Exit::Poll);
        if let Flow::Stop(outcome) = flow {
            return Ok(outcome);
        }
        let sampler = Sampler::start(self.interval)?;
        let mut thread = Collector {
            profiler: self,
            sampler,
            tid: linux.thread_id(),
            cpu: None,
            symbols: Symbols::of(&vcpu.mem, self.sysroot.as_deref()),
            epoch: vcpu.mem.exec_epoch(),
            samples: Vec::new(),
            stops: BTreeMap::new(),
            calls: Stops::default(),
        };
        loop {
            set_phase(Phase::Guest);
            let exit = engine.run_with(vcpu, &mut Asked { linux, thread: &mut thread });
            set_phase(Phase::System);
            thread.drain(vcpu, vcpu.cpu.pc);
            let at = match exit {
                Exit::CallPal(_) => vcpu.cpu.pc.wrapping_sub(4),
                _ => vcpu.cpu.pc,
            };
            let start = Instant::now();
            let flow = linux.handle(vcpu, exit);
            if self.is_foreign() {
                // The timer is the parent's.
                std::mem::forget(thread);
                if let Some((start, end)) = linux.take_code_change() {
                    engine.invalidate(start, end);
                }
                return Ok(match flow {
                    Flow::Stop(outcome) => outcome,
                    Flow::Continue => axp_emu::engine::run(engine, linux, vcpu, Limit::None),
                });
            }
            let stops = thread.stops.entry(kind(exit)).or_default();
            stops.count += 1;
            stops.time += start.elapsed();
            thread.drain(vcpu, at);
            if let Some((start, end)) = linux.take_code_change() {
                engine.invalidate(start, end);
            }
            if let Flow::Stop(outcome) = flow {
                thread.finish();
                return Ok(outcome);
            }
        }
    }
}

fn kind(exit: Exit) -> &'static str {
    match exit {
        Exit::Poll => "poll (samples, signals)",
        Exit::Limit => "limit",
        Exit::CallPal(code) => match Osf::from_code(code) {
            Some(Osf::Callsys) => "system call",
            Some(Osf::Imb) => "imb",
            Some(Osf::Bpt | Osf::Bugchk | Osf::Gentrap) => "trap instruction",
            _ => "other PALcode",
        },
        Exit::Fault(_) => "memory fault",
        Exit::Unaligned(_) => "unaligned access",
        Exit::Arith(_) => "arithmetic trap",
        Exit::Illegal(_) => "illegal instruction",
        Exit::FpDisabled => "floating point disabled",
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One thread's share.
struct Collector<'a> {
    profiler: &'a Profiler,
    sampler: Sampler,
    tid: i32,
    /// CPU time at the sample before.
    cpu: Option<u64>,
    symbols: Symbols,
    epoch: u64,
    samples: Vec<Sample>,
    stops: BTreeMap<&'static str, Stops>,
    /// System calls that did not stop the engine.
    calls: Stops,
}

/// A profiled thread's personality, in the midst of compiled code.
struct Asked<'a, 'p> {
    linux: &'a mut Linux,
    thread: &'a mut Collector<'p>,
}

impl Palcode for Asked<'_, '_> {
    fn answer(&mut self, vcpu: &mut Vcpu, code: u32) -> Answer {
        set_phase(Phase::System);
        let at = vcpu.cpu.pc.wrapping_sub(4);
        self.thread.drain(vcpu, at);
        let start = coarse_time();
        let answer = self.linux.answer(vcpu, code);
        // A call that makes a process is not answered here.
        if answer != Answer::Leave {
            self.thread.calls.count += 1;
            self.thread.calls.time += coarse_time().saturating_sub(start);
            self.thread.drain(vcpu, at);
        }
        set_phase(Phase::Guest);
        answer
    }
}

/// The time as of the kernel's last tick: a short call cannot bear a clock that is read exactly, and the
/// ticks that fall into many calls make the same sum.
fn coarse_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

impl Collector<'_> {
    /// Makes samples of the ticks that have come; `at` is where the guest was at a tick that says
    /// nothing itself.
    fn drain(&mut self, vcpu: &Vcpu, at: u64) {
        if self.sampler.is_empty() {
            return;
        }
        let epoch = vcpu.mem.exec_epoch();
        if epoch != self.epoch {
            self.epoch = epoch;
            self.symbols.update(&vcpu.mem, self.profiler.sysroot.as_deref());
        }
        let callers = stack::walk(vcpu, at, &self.symbols);
        let Collector { sampler, samples, symbols, cpu, profiler, .. } = self;
        sampler.take(|tick| {
            let begun = *lock(&profiler.begun_ns).get_or_insert(tick.at);
            let code = find_code(tick.host_pc).filter(|_| tick.phase == Phase::Guest);
            let (tier, pc) = match (tick.phase, &code) {
                (Phase::System, _) => (Tier::System, at),
                (Phase::Translate, _) => (Tier::Translation, at),
                (Phase::Guest, None) => (Tier::Interpreter, at),
                (Phase::Guest, Some(code)) => {
                    let tier = if code.tier == "opt" { Tier::Opt } else { Tier::Baseline };
                    (tier, code.guest_pc(tick.host_pc))
                }
            };
            let before = cpu.replace(tick.cpu);
            let weight = before.map_or(profiler.interval, |before| tick.cpu - before);
            profiler.times[tier as usize].fetch_add(weight, Ordering::Relaxed);
            let stack = stack::under(pc, &callers, symbols).into_boxed_slice();
            let at = tick.at.saturating_sub(begun);
            samples.push(Sample { at, weight, tier, stack });
        });
    }

    fn finish(self) {
        let Collector { tid, samples, mut stops, calls, profiler, symbols, .. } = self;
        if calls.count != 0 {
            let stops: &mut Stops = stops.entry("system call").or_default();
            stops.count += calls.count;
            stops.time += calls.time;
        }
        lock(&profiler.threads).push(ThreadProfile { tid, samples, stops });
        *lock(&profiler.symbols) = symbols;
    }
}
