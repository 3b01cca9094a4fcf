//! The tiered engine: templates on first touch, regions for what is hot.
//!
//! [`Baseline`] runs the guest and counts how often loops and functions are entered. At the
//! threshold it stops, [`Opt`] compiles the region that starts there, and the region is installed
//! in the place of the templates.

use axp_emu::cpu::{Exit, Vcpu};
use axp_emu::engine::{Engine, EngineStats, Limit};

use crate::baseline::{Baseline, Stop};
use crate::opt::{CompileError, Mode, Opt};
use crate::runtime::step_at_pc;

/// Entries of a loop or function after which it is compiled as a region.
const THRESHOLD: i32 = 500;

/// The engine `auto`.
pub struct Auto {
    baseline: Baseline,
    opt: Opt,
    /// Regions that baseline code leads to.
    installed: Vec<(Mode, u64)>,
    /// Generation of `opt` that they belong to.
    generation: u64,
    epoch: u64,
    /// Range of guest code to be looked at again before the next run.
    changed: Option<(u64, u64)>,
}

impl Auto {
    /// An engine that has translated nothing.
    pub fn new() -> Result<Self, CompileError> {
        Auto::with_threshold(THRESHOLD)
    }

    /// An engine that compiles a region after `threshold` entries.
    pub fn with_threshold(threshold: i32) -> Result<Self, CompileError> {
        Ok(Auto {
            baseline: Baseline::with_heat(threshold)?,
            opt: Opt::new()?,
            installed: Vec::new(),
            generation: 0,
            epoch: 0,
            changed: None,
        })
    }

    /// Catches up with forks and changed code.
    fn prepare(&mut self, vcpu: &Vcpu) {
        if self.opt.renew_in_child() {
            // The templates are gone as well, and with them what was installed.
            self.installed.clear();
        }
        self.baseline.set_regions(self.opt.code_range(), self.opt.fp_sites());
        let epoch = vcpu.mem.exec_epoch();
        if epoch != self.epoch {
            self.epoch = epoch;
            self.changed = Some((0, u64::MAX));
        }
        if let Some((start, end)) = self.changed.take() {
            for (mode, pc) in self.opt.revalidate(vcpu, start, end) {
                self.baseline.remove_entry(mode, pc);
            }
        }
    }

    /// Compiles and installs the region at `cpu.pc`, which is hot.
    fn promote(&mut self, vcpu: &Vcpu, mode: Mode) {
        let pc = vcpu.cpu.pc;
        let code = self.opt.code(vcpu, mode);
        if self.opt.generation != self.generation {
            // There was no room; all regions but this one are gone.
            self.generation = self.opt.generation;
            for (mode, pc) in self.installed.drain(..) {
                self.baseline.remove_entry(mode, pc);
            }
        }
        let Some(code) = code else { return };
        // SAFETY: the region stays in place until `opt` throws its code away or revalidates it,
        // after which the entry is removed before anything runs.
        match unsafe { self.baseline.install_entry(mode, pc, code) } {
            Ok(()) => self.installed.push((mode, pc)),
            Err(error) => tracing::debug!("region at {pc:#x} is not installed: {error}"),
        }
    }
}

impl Engine for Auto {
    fn name(&self) -> &'static str {
        "auto"
    }

    fn run(&mut self, vcpu: &mut Vcpu, limit: Limit) -> Exit {
        self.prepare(vcpu);
        let start = vcpu.cpu.count;
        loop {
            let left = match limit {
                Limit::None => Limit::None,
                Limit::Count(n) => Limit::Count(n - (vcpu.cpu.count - start)),
            };
            match self.baseline.run_until(vcpu, left) {
                Stop::Exit(exit) => return exit,
                Stop::Hot => self.promote(vcpu, Baseline::mode(vcpu, limit)),
                Stop::RegionFault => {
                    let mode = Baseline::mode(vcpu, limit);
                    let fault = self.opt.find_fault(vcpu, mode);
                    if !mode.precise {
                        return fault;
                    }
                    if let Err(exit) = step_at_pc(vcpu) {
                        return exit;
                    }
                }
            }
        }
    }

    fn invalidate(&mut self, start: u64, end: u64) {
        self.baseline.invalidate(start, end);
        let (s, e) = self.changed.unwrap_or((start, end));
        self.changed = Some((s.min(start), e.max(end)));
    }

    fn stats(&self) -> EngineStats {
        let (a, b) = (self.baseline.stats(), self.opt.stats());
        EngineStats {
            translate: a.translate + b.translate,
            translated_instructions: a.translated_instructions + b.translated_instructions,
            translations: a.translations + b.translations,
            code_bytes: a.code_bytes + b.code_bytes,
        }
    }
}
