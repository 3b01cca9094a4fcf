//! The driver loop of a profiled thread: makes samples of the timer's ticks wherever the guest's state is
//! exact, between engine and personality.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use axp_emu::cpu::{Exit, Vcpu};
use axp_emu::engine::{Answer, Engine, Flow, Limit, Outcome, Palcode};
use axp_jit::profile::{Phase, Sampler, find_code, set_phase, watched};

use super::stack::{self, Prologues, Spot};
use super::subject::Subject;
use super::{Frame, Names, Profiler, Sample, Stops, ThreadProfile, Tier, lock};
use crate::symbols::Symbols;

impl Profiler {
    /// The driver loop of a profiled thread.
    pub fn run<S: Subject>(
        &self,
        engine: &mut dyn Engine,
        subject: &mut S,
        vcpu: &mut Vcpu,
    ) -> anyhow::Result<Outcome> {
        if self.is_foreign() {
            return Ok(axp_emu::engine::run(engine, subject, vcpu, Limit::None));
        }
        // The first event makes this thread the guest's.
        if let Flow::Stop(outcome) = subject.handle(vcpu, Exit::Poll) {
            return Ok(outcome);
        }
        let sampler = Sampler::start(self.interval)?;
        let mut symbols = Symbols::default();
        match &self.names {
            Names::Process(sysroot) => symbols.update(&vcpu.mem, sysroot.as_deref()),
            Names::Machine(image) | Names::Kernel(image) => symbols.clone_from(image),
        }
        let thread = Collector {
            profiler: self,
            sampler,
            tid: subject.thread_id(),
            cpu: None,
            symbols,
            epoch: vcpu.mem.exec_epoch(),
            prologues: Prologues::default(),
            samples: Vec::new(),
            stops: BTreeMap::new(),
            calls: Box::new([0; CALLS]),
            call_time: Duration::ZERO,
        };
        Ok(watched(vcpu, |vcpu| self.drive(engine, subject, vcpu, thread)))
    }

    fn drive<S: Subject>(
        &self,
        engine: &mut dyn Engine,
        subject: &mut S,
        vcpu: &mut Vcpu,
        mut thread: Collector<'_>,
    ) -> Outcome {
        loop {
            set_phase(Phase::Guest);
            let exit = engine.run_with(vcpu, &mut Asked { subject, thread: &mut thread });
            set_phase(Phase::System);
            let pc = match exit {
                Exit::CallPal(_) => vcpu.cpu.pc.wrapping_sub(4),
                _ => vcpu.cpu.pc,
            };
            let spot = Spot::new(vcpu, pc, subject.mode());
            thread.drain(subject, vcpu, spot, exit);
            let start = S::IS_PROCESS.then(Instant::now);
            let flow = subject.handle(vcpu, exit);
            if S::IS_PROCESS && self.is_foreign() {
                // The timer is the parent's.
                std::mem::forget(thread);
                if let Some((start, end)) = subject.take_code_change() {
                    engine.invalidate(start, end);
                }
                return match flow {
                    Flow::Stop(outcome) => outcome,
                    Flow::Continue => axp_emu::engine::run(engine, subject, vcpu, Limit::None),
                };
            }
            match (exit, start) {
                (Exit::CallPal(code), None) => thread.calls[code as usize % CALLS] += 1,
                (_, start) => {
                    let stops = thread.stops.entry(S::reason(exit)).or_default();
                    stops.count += 1;
                    stops.time += start.map_or(Duration::ZERO, |start| start.elapsed());
                }
            }
            thread.drain(subject, vcpu, spot, exit);
            if let Some((start, end)) = subject.take_code_change() {
                engine.invalidate(start, end);
            }
            if let Flow::Stop(outcome) = flow {
                thread.finish::<S>();
                return outcome;
            }
        }
    }
}

/// Function codes of CALL_PAL that are told apart.
const CALLS: usize = 256;

/// One thread's share.
struct Collector<'a> {
    profiler: &'a Profiler,
    sampler: Sampler,
    tid: i32,
    /// CPU time at the sample before.
    cpu: Option<u64>,
    symbols: Symbols,
    epoch: u64,
    prologues: Prologues,
    samples: Vec<Sample>,
    stops: BTreeMap<&'static str, Stops>,
    /// Calls by function code, of a process only those that did not stop the engine.
    calls: Box<[u64; CALLS]>,
    /// Time of a process's calls that did not stop the engine.
    call_time: Duration,
}

/// A profiled thread's personality, in the midst of compiled code.
struct Asked<'a, 'p, S> {
    subject: &'a mut S,
    thread: &'a mut Collector<'p>,
}

impl<S: Subject> Palcode for Asked<'_, '_, S> {
    fn answer(&mut self, vcpu: &mut Vcpu, code: u32) -> Answer {
        let Asked { subject, thread } = self;
        set_phase(Phase::System);
        let spot = Spot::new(vcpu, vcpu.cpu.pc.wrapping_sub(4), subject.mode());
        // The machine's calls are short, and what is walked stays where it is: one look will do.
        if S::IS_PROCESS {
            thread.drain(*subject, vcpu, spot, Exit::CallPal(code));
        }
        let start = S::IS_PROCESS.then(coarse_time);
        let answer = subject.answer(vcpu, code);
        // A call that makes a process is not answered here.
        if answer != Answer::Leave {
            thread.calls[code as usize % CALLS] += 1;
            if let Some(start) = start {
                thread.call_time += coarse_time().saturating_sub(start);
            }
            thread.drain(*subject, vcpu, spot, Exit::CallPal(code));
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
    /// Makes samples of the ticks that have come; `spot` is where the guest was at a tick that says
    /// nothing itself, and `exit` what it asked for there.
    #[inline]
    fn drain<S: Subject>(&mut self, subject: &S, vcpu: &Vcpu, spot: Spot, exit: Exit) {
        if !self.sampler.is_empty() {
            self.take(subject, vcpu, spot, exit);
        }
    }

    #[cold]
    fn take<S: Subject>(&mut self, subject: &S, vcpu: &Vcpu, spot: Spot, exit: Exit) {
        let epoch = vcpu.mem.exec_epoch();
        if epoch != self.epoch {
            self.epoch = epoch;
            self.prologues.clear();
            if let Names::Process(sysroot) = &self.profiler.names {
                self.symbols.update(&vcpu.mem, sysroot.as_deref());
            }
        }
        let callers = stack::walk(subject, vcpu, spot, &self.symbols, &mut self.prologues);
        let here = spot.frame;
        let Collector { sampler, samples, symbols, cpu, profiler, .. } = self;
        sampler.take(|tick| {
            let begun = *lock(&profiler.begun_ns).get_or_insert(tick.at);
            let code = find_code(tick.host_pc).filter(|_| tick.phase == Phase::Guest);
            let (tier, frame) = match (tick.phase, &code) {
                (Phase::System, _) => (Tier::System, here),
                (Phase::Translate, _) => (Tier::Translation, here),
                (Phase::Guest, None) => (Tier::Interpreter, here),
                (Phase::Guest, Some(code)) => {
                    let tier = if code.tier == "opt" { Tier::Opt } else { Tier::Baseline };
                    (tier, Frame { pc: code.guest_pc(tick.host_pc), ..here })
                }
            };
            let before = cpu.replace(tick.cpu);
            let weight = before.map_or(profiler.interval, |before| tick.cpu - before);
            profiler.times[tier as usize].fetch_add(weight, Ordering::Relaxed);
            let of_mode = match tier {
                Tier::System => 4,
                Tier::Translation => 5,
                _ => frame.mode.map_or(3, |mode| (mode & 3) as usize),
            };
            profiler.mode_times[of_mode].fetch_add(weight, Ordering::Relaxed);
            let event = if tier == Tier::System { S::reason(exit) } else { "" };
            let stack = stack::under(frame, &callers, symbols).into_boxed_slice();
            let at = tick.at.saturating_sub(begun);
            let code = code.map_or(0, |code| code.start);
            samples.push(Sample { at, weight, tier, code, event, stack });
        });
    }

    fn finish<S: Subject>(self) {
        let Collector { tid, samples, mut stops, calls, call_time, profiler, symbols, .. } = self;
        for (code, &count) in calls.iter().enumerate().filter(|(_, count)| **count != 0) {
            let stops = stops.entry(S::call_name(code as u32)).or_default();
            stops.count += count;
            // Only one call of a process does not stop the engine.
            stops.time += call_time;
        }
        if !S::IS_PROCESS {
            for sample in samples.iter().filter(|s| s.tier == Tier::System) {
                let stops = stops.entry(sample.event).or_default();
                stops.time += Duration::from_nanos(sample.weight);
            }
        }
        lock(&profiler.threads).push(ThreadProfile { tid, samples, stops });
        *lock(&profiler.symbols) = symbols;
    }
}
