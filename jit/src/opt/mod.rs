//! The optimising tier: regions of guest code compiled by Cranelift.
//!
//! [`Opt`] is the dispatcher of the engine `opt`: it finds or makes the code for a pc, enters it, and
//! turns what comes back into guest events. What is not hot it interprets;
//! [`Auto`](crate::auto::Auto) has compiled what is hot. `regions` is the store of both, `compile` and
//! `background` do the work, `emit` holds a region's frame, the `lower_*` modules the instructions.

mod background;
mod compile;
mod cover;
mod emit;
mod host_calls;
mod idiom;
mod keep;
mod lazy;
mod lower;
mod lower_branch;
mod lower_byte;
mod lower_divide;
mod lower_field;
mod lower_fp;
mod lower_fp_chopped;
mod lower_fp_direct;
mod lower_fpcr;
mod lower_int;
mod lower_lock;
mod lower_mem;
mod merged;
mod origins;
mod pairs;
mod precise;
mod products;
mod regions;
mod reuse;
mod saved;
mod symbols;
mod translated;

use std::collections::HashMap;
use std::sync::Arc;

use axp_emu::cpu::{Exit, UnalignedPolicy, Vcpu};
use axp_emu::engine::{Engine, EngineStats, Limit, Palcode};
use axp_emu::fp::Fpcr;
use axp_emu::fp::fpcr::DYN_SHIFT;
use axp_emu::isa::{Insn, Kind, Opcode, SINK};
use axp_emu::mem::{SystemMap, WindowKind};

use crate::abi::{ExitKind, axp_jit_enter, axp_jit_pal, word};
use crate::cache::Library;
use crate::code::Stack;
use crate::fault::{self, Zone};
use crate::fpu;
use crate::profile::Translating;
use crate::runtime::Runtime;
use crate::seen::Seen;

pub use background::wait_until_done;
pub use compile::{CompileError, Compiler, REGION_LIMIT};
pub use emit::Mode;
pub(crate) use regions::{Answer, Regions, Wish};

/// Arrivals at a pc that one region contains after which it becomes an entry of its own. Until then
/// the interpreter goes on to the next entry.
const PATIENCE: u32 = 500;
/// One that no region contains has to wait for this part of it.
const FRESH: u32 = 10;

/// Whether compiled code performs this access itself, so that its success proves the address.
pub(crate) fn is_access(insn: &Insn) -> bool {
    match insn.op.kind() {
        Kind::Load | Kind::LoadUnaligned | Kind::Fload => {
            insn.a != SINK && !matches!(insn.op, Opcode::Ldf | Opcode::Ldg)
        }
        Kind::Store | Kind::StoreUnaligned | Kind::Fstore => {
            !matches!(insn.op, Opcode::Stf | Opcode::Stg)
        }
        _ => false,
    }
}

/// The engine `opt`.
pub struct Opt {
    regions: Regions,
    stack: Stack,
    /// What the interpreter has executed.
    seen: Seen,
    /// Arrivals at entries that were not worth a region.
    arrivals: HashMap<(Mode, u64), u32>,
    patience: u32,
    runtime: Box<Runtime>,
    epoch: u64,
    /// Generation of `regions` that CALL_PAL knows.
    generation: u64,
}

impl Opt {
    /// The engine `opt`, with an empty code cache.
    pub fn new() -> Result<Self, CompileError> {
        Self::with_patience(PATIENCE)
    }

    /// An engine that makes a region of what one contains already after this many arrivals, and of what
    /// none contains after a tenth; with 0 it executes nothing but regions, where it can.
    pub fn with_patience(patience: u32) -> Result<Self, CompileError> {
        Self::with(patience, None)
    }

    /// The engine `opt`, which uses what it finds in a library and adds to it.
    pub fn with_library(library: Option<Arc<Library>>) -> Result<Self, CompileError> {
        Self::with(PATIENCE, library)
    }

    fn with(patience: u32, library: Option<Arc<Library>>) -> Result<Self, CompileError> {
        fault::install();
        Ok(Opt {
            regions: Regions::with_library(library),
            stack: Stack::new()?,
            seen: Seen::default(),
            arrivals: HashMap::new(),
            patience,
            runtime: Box::default(),
            epoch: 0,
            generation: 0,
        })
    }

    pub(crate) fn mode(vcpu: &Vcpu, limit: Limit) -> Mode {
        let exact_fp = vcpu.cpu.fpcr & (Fpcr::DNOD | Fpcr::DNZ).bits() != Fpcr::DNOD.bits();
        Mode {
            counted: limit != Limit::None,
            based: vcpu.mem.kind() != WindowKind::Identity,
            precise: vcpu.precise,
            observed: limit != Limit::None || vcpu.precise || vcpu.observed,
            strict: vcpu.unaligned == UnalignedPolicy::Trap,
            exact_fp,
            dynamic_nearest: vcpu.cpu.fpcr >> DYN_SHIFT & 3 == 2,
            space: vcpu.mem.code_space(),
            inline_probe: vcpu.mem.system().is_some_and(SystemMap::probes_inline),
            elide_probe: vcpu.mem.system().is_some_and(SystemMap::elides_probes),
            unmasked: !exact_fp && fpu::wanted(&vcpu.cpu),
        }
    }

    /// Host code for `cpu.pc`, compiled if it is worth it; `None` where the interpreter has to step.
    /// `arrived` says that control has not come from the instruction before.
    fn code(&mut self, vcpu: &Vcpu, mode: Mode, arrived: bool) -> Option<*const u8> {
        let pc = vcpu.cpu.pc;
        if let Some(code) = self.regions.find(mode, pc) {
            return Some(code);
        }
        if arrived && let Some(code) = self.regions.load(vcpu, mode, pc) {
            return Some(code);
        }
        let patience = self.regions.patience(mode, pc, self.patience)?.max(self.patience / FRESH);
        if patience != 0 {
            if !arrived {
                return None;
            }
            let arrivals = self.arrivals.entry((mode, pc)).or_default();
            *arrivals += 1;
            if *arrivals < patience {
                return None;
            }
            *arrivals = 0;
        }
        let _phase = Translating::begin();
        let seen = |pc| self.patience == 0 || self.seen.contains(pc);
        match self.regions.request(vcpu, Wish { pc, mode, later: false, least: 0, seen: &seen }) {
            Answer::Code(code) => Some(code),
            Answer::Later | Answer::Never => None,
        }
    }

    /// Lets CALL_PAL go on in regions of this mode.
    fn know_regions(&mut self, mode: Mode) {
        if self.generation != self.regions.generation() {
            self.generation = self.regions.generation();
            self.runtime.calls.forget();
        }
        let jumps = self.regions.jump_cache(mode);
        self.runtime.calls.know(mode, jumps);
        self.runtime.calls.know_regions(mode, jumps);
    }

    fn run_regions(&mut self, vcpu: &mut Vcpu, limit: Limit) -> Exit {
        fpu::reconsider(&mut vcpu.cpu);
        let mut mode = Opt::mode(vcpu, limit);
        vcpu.counted = mode.counted;
        let end = match limit {
            Limit::None => u64::MAX,
            Limit::Count(n) => vcpu.cpu.count.saturating_add(n),
        };
        self.regions.renew_in_child();
        self.runtime.vcpu = vcpu;
        let engine = &mut vcpu.cpu.engine;
        engine[word::RUNTIME] = &raw mut *self.runtime as u64;
        engine[word::STACK_LIMIT] = self.stack.limit();
        engine[word::STACK_TOP] = self.stack.top();
        engine[word::COUNT_LIMIT] = end;
        engine[word::WINDOW] = vcpu.mem.limit();
        engine[word::PAL] = axp_jit_pal as *const () as u64;
        let mut arrived = true;
        loop {
            if vcpu.cpu.take_poll() {
                return Exit::Poll;
            }
            if mode.counted && vcpu.cpu.count >= end {
                return Exit::Limit;
            }
            let epoch = vcpu.mem.exec_epoch();
            if epoch != self.epoch {
                self.epoch = epoch;
                let (start, end) = vcpu.mem.epoch_range();
                self.regions.revalidate(vcpu, start, end);
            }
            mode = Opt::mode(vcpu, limit);
            let Some(code) = self.code(vcpu, mode, arrived) else {
                let next = vcpu.cpu.pc.wrapping_add(4);
                self.seen.add(vcpu.cpu.pc, 1);
                match self.regions.step(vcpu) {
                    Ok(()) => arrived = vcpu.cpu.pc != next,
                    Err(exit) => return exit,
                }
                continue;
            };
            arrived = true;
            // Fetching the code may have shown that the kernel's is not the same everywhere.
            if mode.translated() && vcpu.mem.exec_epoch() != self.epoch {
                continue;
            }
            self.know_regions(mode);
            vcpu.cpu.engine[word::MXCSR] = fpu::control(mode.unmasked);
            vcpu.cpu.engine[word::SKIPS] = u64::from(mode.precise);
            vcpu.cpu.engine[word::ALONE] = u64::from(vcpu.mem.is_alone());
            vcpu.cpu.engine[word::BASE] = vcpu.mem.host_base();
            let cpu = &raw mut *vcpu.cpu;
            fault::enter(
                cpu,
                &[Zone::regions(
                    self.regions.code_range().unwrap_or_default(),
                    self.regions.fp_sites(),
                )],
            );
            // SAFETY: `code` is a region of this arena, which only this engine changes and not
            // while it runs; the engine's words are set.
            let next = unsafe { axp_jit_enter(cpu, code) };
            fault::leave();
            // PALcode may have changed it meanwhile.
            mode.space = vcpu.mem.code_space();
            if next & 3 == 0 {
                vcpu.cpu.pc = next;
                continue;
            }
            match ExitKind::from_word(vcpu.cpu.engine[word::EXIT]) {
                Some(ExitKind::Poll) => {}
                Some(ExitKind::Step) => {
                    if mode.counted && vcpu.cpu.count >= end {
                        return Exit::Limit;
                    }
                    if let Err(exit) = self.regions.step(vcpu) {
                        return exit;
                    }
                }
                Some(ExitKind::Count) => {
                    while vcpu.cpu.count < end {
                        if let Err(exit) = self.regions.step(vcpu) {
                            return exit;
                        }
                    }
                    return Exit::Limit;
                }
                Some(ExitKind::Pal) => {
                    let code = vcpu.cpu.engine[word::RESULT] as u32;
                    if let Err(exit) = self.runtime.calls.ask(vcpu, code) {
                        return exit;
                    }
                }
                Some(ExitKind::Pending) => {
                    if let Some(exit) = self.runtime.pending.take() {
                        return exit;
                    }
                }
                Some(ExitKind::HostFault) => return self.regions.find_fault(vcpu, mode),
                Some(ExitKind::Link | ExitKind::Hot) | None => {
                    unreachable!("regions stop with a reason of theirs")
                }
            }
        }
    }
}

impl Engine for Opt {
    fn name(&self) -> &'static str {
        "opt"
    }

    fn run(&mut self, vcpu: &mut Vcpu, limit: Limit) -> Exit {
        let exit = self.run_regions(vcpu, limit);
        self.regions.count_calls(vcpu);
        exit
    }

    fn run_with(&mut self, vcpu: &mut Vcpu, palcode: &mut dyn Palcode) -> Exit {
        // SAFETY: taken back below.
        unsafe { self.runtime.calls.lend(palcode) };
        let exit = self.run(vcpu, Limit::None);
        self.runtime.calls.take_back();
        exit
    }

    fn invalidate(&mut self, start: u64, end: u64) {
        // Between two runs the processor that ran last is the one whose memory the code came from.
        // SAFETY: the pointer was taken from a live `&mut Vcpu` in `run`; `invalidate` is called
        // by the same driver loop, which still holds that processor.
        if let Some(vcpu) = unsafe { self.runtime.vcpu.as_ref() } {
            self.regions.revalidate(vcpu, start, end);
        }
    }

    fn stats(&self) -> EngineStats {
        self.regions.stats()
    }
}
