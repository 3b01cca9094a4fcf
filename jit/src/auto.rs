//! The tiered engine: templates on first touch, regions for what is hot.
//!
//! [`Baseline`] runs the guest and counts how often loops and functions are entered. At the threshold it
//! stops, and the region that starts there is selected; while the compiling thread is at work on it the
//! guest goes on in templates. What has been compiled is installed in their place when this thread is
//! in its dispatcher next, for which the compiling thread has it stop.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axp_emu::cpu::{Exit, Vcpu};
use axp_emu::engine::{Engine, EngineStats, Limit, Palcode};

use crate::baseline::{Baseline, Stop};
use crate::cache::Library;
use crate::opt::{Answer, CompileError, Mode, REGION_LIMIT, Regions, Wish};
use crate::region;

/// Entries of a loop or function after which it is compiled as a region (docs/jit.md: how it was
/// chosen).
pub const THRESHOLD: u32 = 2_000;
/// What an entry that a region contains already must be hotter by.
const COVERED: u32 = 4;

/// Instructions below which a region that only leads to an indirect jump gains less than it costs to
/// change from templates to regions and back, all registers included.
const LEAST: usize = 40;

/// What an entry that a region calls may be colder by.
const CALLED: u32 = 50;

/// Executions of an entry after which control is expected there again.
const AGAIN: i32 = 2;

/// Entries that are considered instead of one.
const CANDIDATES: usize = 8;

/// How [`Auto`] goes about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tuning {
    /// Entries of a loop or function after which it is compiled as a region; if nothing is asked for,
    /// [`THRESHOLD`], times the engines of the process that live unless they share what they compile.
    pub threshold: Option<u32>,
    /// Regions are compiled at once, in the guest's thread, so that a run repeats exactly. Counted runs
    /// do so always.
    pub sync: bool,
    /// No regions.
    pub off: bool,
}

/// Engines of this process that live.
static LIVE: AtomicU32 = AtomicU32::new(0);

/// One of them, and how many there were with it.
struct Siblings(u32);

impl Siblings {
    fn join() -> Self {
        Siblings(LIVE.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Where each thread of a guest compiles for itself: what many of them do a little of is not worth as
    /// many compilations; what each does for long is soon compiled all the same.
    fn threshold(&self) -> u32 {
        THRESHOLD.saturating_mul(self.0.max(1))
    }
}

impl Drop for Siblings {
    fn drop(&mut self) {
        LIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The engine `auto`.
pub struct Auto {
    #[expect(dead_code, reason = "counts this engine as long as it lives")]
    siblings: Siblings,
    tuning: Tuning,
    /// Entries after which code is compiled.
    threshold: u32,
    baseline: Baseline,
    regions: Regions,
    /// Regions that baseline code leads to.
    installed: Vec<(Mode, u64)>,
    /// Generation of `regions` that they belong to.
    generation: u64,
    /// Executions that were asked of entries which regions contain already.
    waited: HashMap<(Mode, u64), u32>,
    /// The compiling thread knows the poll word of the processor that runs.
    listening: bool,
    epoch: u64,
    /// Range of guest code to be looked at again before the next run.
    changed: Option<(u64, u64)>,
}

impl Auto {
    /// An engine that has translated nothing.
    pub fn new() -> Result<Self, CompileError> {
        Auto::with_tuning(Tuning::default())
    }

    /// An engine that goes about it as told.
    pub fn with_tuning(tuning: Tuning) -> Result<Self, CompileError> {
        Auto::with_library(tuning, None)
    }

    /// The same with a library, whose regions it does not wait for, and which others have its own from.
    pub fn with_library(
        tuning: Tuning,
        library: Option<Arc<Library>>,
    ) -> Result<Self, CompileError> {
        let siblings = Siblings::join();
        let alone = || if library.is_some() { THRESHOLD } else { siblings.threshold() };
        let threshold = tuning.threshold.unwrap_or_else(alone);
        let threshold = threshold.clamp(1, i32::MAX as u32);
        let heat = (!tuning.off).then_some(threshold as i32);
        let baseline = Baseline::with_library(heat, library.clone())?;
        Ok(Auto {
            siblings,
            tuning,
            threshold,
            baseline,
            regions: Regions::with_library(library),
            installed: Vec::new(),
            generation: 0,
            waited: HashMap::new(),
            listening: false,
            epoch: 0,
            changed: None,
        })
    }

    /// Catches up with forks and changed code.
    fn prepare(&mut self, vcpu: &Vcpu) {
        if self.regions.renew_in_child() {
            // The templates are gone as well, and with them what was installed.
            self.installed.clear();
            self.baseline.forget_regions();
            self.generation = self.regions.generation();
        }
        let epoch = vcpu.mem.exec_epoch();
        if epoch != self.epoch {
            self.epoch = epoch;
            let (start, end) = vcpu.mem.epoch_range();
            let (from, to) = self.changed.unwrap_or((start, end));
            self.changed = Some((from.min(start), to.max(end)));
        }
        if let Some((start, end)) = self.changed.take() {
            for (mode, pc) in self.regions.revalidate(vcpu, start, end) {
                self.baseline.remove_entry(mode, pc);
            }
        }
    }

    /// The entry at `cpu.pc` is hot: has the region that starts there compiled, if it is worth it.
    fn promote(&mut self, vcpu: &Vcpu, mode: Mode) {
        let pc = vcpu.cpu.pc;
        if self.regions.is_kept(vcpu, mode, pc) {
            // Templates may have taken it for hot at once.
            if let Some(code) = self.regions.load(vcpu, mode, pc) {
                self.drop_outdated();
                return self.install(mode, pc, code);
            }
            if !self.regions.was_hot(vcpu, mode, pc) {
                return self.baseline.set_heat(mode, pc, self.threshold as i32);
            }
        }
        let patience = self.threshold.saturating_mul(COVERED);
        let Some(needed) = self.regions.patience(mode, pc, patience) else { return };
        let waited = self.waited.entry((mode, pc)).or_default();
        if *waited < needed {
            let rest = needed - std::mem::replace(waited, needed);
            self.baseline.set_heat(mode, pc, rest.min(i32::MAX as u32) as i32);
            return;
        }
        self.waited.remove(&(mode, pc));
        let entry = if needed == 0 { self.around(vcpu, mode, pc) } else { pc };
        let later = !self.tuning.sync && !mode.counted;
        let baseline = &self.baseline;
        let seen = |pc| baseline.has_seen(pc);
        let wish = Wish { pc: entry, mode, later, least: LEAST, seen: &seen };
        let answer = self.regions.request(vcpu, wish);
        self.drop_outdated();
        if entry != pc {
            // In case control stays in the loop and does not come to that entry.
            self.baseline.set_heat(mode, pc, patience.min(i32::MAX as u32) as i32);
        }
        match answer {
            Answer::Code(code) => self.install(mode, entry, code),
            Answer::Later => self.listen(vcpu),
            Answer::Never => {}
        }
    }

    /// The entry to compile the loop at `pc` from: the function or outer loop around it, if control has
    /// come there again and again. A region that is entered at an inner loop has that loop's head for
    /// the head of the outer loop too, and registers are allocated as if both were one.
    fn around(&self, vcpu: &Vcpu, mode: Mode, pc: u64) -> u64 {
        let seen = |pc| self.baseline.has_seen(pc);
        let from = pc.saturating_sub(4 * REGION_LIMIT as u64);
        let repeated = self.baseline.counted(mode, from, pc).filter(|&(_, n)| n >= AGAIN);
        let holds = |&entry: &u64| {
            let region = region::select(vcpu, entry, REGION_LIMIT, !mode.counted, &seen);
            region.blocks.iter().any(|b| b.pc == pc && b.loop_head)
        };
        repeated.map(|(entry, _)| entry).take(CANDIDATES).filter(holds).last().unwrap_or(pc)
    }

    fn listen(&mut self, vcpu: &Vcpu) {
        self.listening = true;
        self.regions.listen(Some(&vcpu.cpu.poll));
    }

    /// Takes over what the compiling thread has done.
    fn collect(&mut self, vcpu: &Vcpu) {
        if !self.regions.waits() {
            return;
        }
        let collected = self.regions.collect(vcpu);
        self.drop_outdated();
        for (mode, pc, code) in collected {
            match code {
                Some(code) if self.regions.lookup(mode, pc) == Some(code) => {
                    self.install(mode, pc, code);
                }
                _ => self.baseline.set_heat(mode, pc, self.threshold as i32),
            }
        }
    }

    /// Forgets regions that there is no room for any more.
    fn drop_outdated(&mut self) {
        if self.regions.generation() != self.generation {
            self.generation = self.regions.generation();
            self.baseline.forget_regions();
            for (mode, pc) in self.installed.drain(..) {
                self.baseline.remove_entry(mode, pc);
            }
        }
    }

    fn install(&mut self, mode: Mode, pc: u64, code: *const u8) {
        self.baseline.set_regions(self.regions.code_range(), self.regions.fp_sites());
        // SAFETY: the region stays in place until `regions` throws its code away or revalidates it,
        // after which the entry is removed before anything runs.
        match unsafe { self.baseline.install_entry(mode, pc, code) } {
            Ok(()) => {
                self.installed.push((mode, pc));
                self.baseline.know_regions(mode, self.regions.jump_cache(mode));
            }
            Err(error) => tracing::debug!("region at {pc:#x} is not installed: {error}"),
        }
        self.warm_callees(mode, pc);
    }

    /// What a hot region calls is hot as well: where it is no region itself, the call leaves the region
    /// and templates do the rest of the round.
    fn warm_callees(&mut self, mode: Mode, pc: u64) {
        let executions = (self.threshold / CALLED) as i32;
        for &(call, callee) in self.regions.calls(mode, pc) {
            let learned: Vec<u64> = self.baseline.learned(call).collect();
            for callee in callee.into_iter().chain(learned) {
                self.baseline.warm(mode, callee, executions);
            }
        }
    }

    fn run_on(&mut self, vcpu: &mut Vcpu, limit: Limit) -> Exit {
        let start = vcpu.cpu.count;
        loop {
            if vcpu.mem.exec_epoch() != self.epoch {
                self.prepare(vcpu);
            }
            let left = match limit {
                Limit::None => Limit::None,
                Limit::Count(n) => Limit::Count(n - (vcpu.cpu.count - start)),
            };
            match self.baseline.run_until(vcpu, left) {
                Stop::Exit(exit) => return exit,
                Stop::Hot => self.promote(vcpu, Baseline::mode(vcpu, limit)),
                Stop::Woken => self.collect(vcpu),
                Stop::RegionFault => {
                    return self.regions.find_fault(vcpu, Baseline::mode(vcpu, limit));
                }
            }
        }
    }
}

impl Engine for Auto {
    fn name(&self) -> &'static str {
        "auto"
    }

    fn run(&mut self, vcpu: &mut Vcpu, limit: Limit) -> Exit {
        self.prepare(vcpu);
        self.collect(vcpu);
        if self.regions.waits() {
            self.listen(vcpu);
        }
        let exit = self.run_on(vcpu, limit);
        if std::mem::take(&mut self.listening) {
            // Between two runs the processor may go away, though nothing be on its way any more.
            self.regions.listen(None);
        }
        self.regions.count_calls(vcpu);
        exit
    }

    fn run_with(&mut self, vcpu: &mut Vcpu, palcode: &mut dyn Palcode) -> Exit {
        // SAFETY: taken back below.
        unsafe { self.baseline.lend(palcode) };
        let exit = self.run(vcpu, Limit::None);
        self.baseline.take_back();
        exit
    }

    fn invalidate(&mut self, start: u64, end: u64) {
        self.baseline.invalidate(start, end);
        let (s, e) = self.changed.unwrap_or((start, end));
        self.changed = Some((s.min(start), e.max(end)));
    }

    fn stats(&self) -> EngineStats {
        self.baseline.stats() + self.regions.stats()
    }

    fn tiers(&self) -> Vec<(&'static str, EngineStats)> {
        vec![("baseline", self.baseline.stats()), ("opt", self.regions.stats())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_engines_compile_less_eagerly_unless_told() {
        let first = Auto::new().unwrap();
        let second = Auto::new().unwrap();
        // Engines of other tests may live beside them.
        assert!(first.threshold >= THRESHOLD && first.threshold.is_multiple_of(THRESHOLD));
        assert!(second.threshold >= 2 * THRESHOLD && second.threshold.is_multiple_of(THRESHOLD));
        for asked in [7, THRESHOLD] {
            let tuning = Tuning { threshold: Some(asked), ..Tuning::default() };
            assert_eq!(Auto::with_tuning(tuning).unwrap().threshold, asked);
        }
        let shared = Some(Arc::new(Library::of_threads()));
        let third = Auto::with_library(Tuning::default(), shared).unwrap();
        assert_eq!(third.threshold, THRESHOLD);
    }
}
