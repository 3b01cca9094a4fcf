//! The optimising tier: regions of guest code compiled by Cranelift.
//!
//! [`Opt`] is the dispatcher: it finds or makes the code for a pc, enters it, and turns what comes
//! back into guest events. It compiles on first touch; [`Auto`](crate::auto::Auto) has it compile
//! what is hot. `emit` holds a region's frame, the `lower_*` modules the instructions.

mod compile;
mod emit;
mod idiom;
mod keep;
mod lower;
mod lower_branch;
mod lower_byte;
mod lower_fp;
mod lower_fp_direct;
mod lower_int;
mod lower_mem;

use std::collections::HashSet;
use std::ops::Range;
use std::time::Instant;

use axp_emu::cpu::{Exit, UnalignedPolicy, Vcpu};
use axp_emu::engine::{Engine, EngineStats, Limit};
use axp_emu::fp::Fpcr;
use axp_emu::fp::fpcr::DYN_SHIFT;
use axp_emu::isa::{Insn, Kind, Opcode, SINK};
use axp_emu::mem::{Access, FaultKind, MemFault, WINDOW_SIZE, WindowKind};

use crate::abi::{ExitKind, axp_jit_enter, word};
use crate::code::{Arena, CodeTable, Stack};
use crate::fault::{self, Zone};
use crate::fpu::{self, FpSites};
use crate::runtime::{Runtime, step_at_pc};

pub use compile::{CompileError, Compiler};
pub use emit::{Linker, Mode};

/// Bytes of host code after which everything is thrown away and made anew.
const ARENA_SIZE: usize = 128 << 20;

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

/// A region that has been compiled.
#[derive(Debug)]
struct Compiled {
    entry: u64,
    mode: Mode,
    /// Executable address range.
    code: (u64, u64),
    /// Guest code it was made from: start, end, hash of the words.
    ranges: Vec<(u64, u64, u64)>,
    /// Code offset ranges of guest instructions.
    pcs: Vec<(u32, u32, u64)>,
    /// Guest blocks, for counts at faults.
    blocks: Vec<(u64, u64)>,
    /// Instructions that the code hands to the interpreter.
    #[allow(clippy::vec_box, reason = "compiled code holds the addresses of the instructions")]
    _kept: Vec<Box<Insn>>,
}

/// The engine `opt`.
pub struct Opt {
    compiler: Compiler,
    arena: Arena,
    stack: Stack,
    /// Code by mode; programs rarely use more than one.
    tables: Tables,
    regions: Vec<Compiled>,
    fp_sites: Box<FpSites>,
    /// Entries of which no region can be made.
    refused: HashSet<u64>,
    runtime: Box<Runtime>,
    epoch: u64,
    /// Changes whenever all code has been thrown away for want of room.
    pub(crate) generation: u64,
    stats: EngineStats,
}

/// A table for each mode in which code was compiled, at a place that its code knows.
#[derive(Debug, Default)]
struct Tables(Vec<(Mode, Box<CodeTable>)>);

impl Tables {
    fn get(&mut self, mode: Mode) -> Option<&mut CodeTable> {
        self.0.iter_mut().find(|(m, _)| *m == mode).map(|(_, table)| &mut **table)
    }

    fn get_or_make(&mut self, mode: Mode) -> &mut CodeTable {
        let at = self.0.iter().position(|(m, _)| *m == mode).unwrap_or_else(|| {
            self.0.push((mode, Box::default()));
            self.0.len() - 1
        });
        &mut self.0[at].1
    }
}

impl Opt {
    /// The engine `opt`, with an empty code cache.
    pub fn new() -> Result<Self, CompileError> {
        fault::install();
        Ok(Opt {
            compiler: Compiler::new()?,
            arena: Arena::new(ARENA_SIZE)?,
            stack: Stack::new()?,
            tables: Tables::default(),
            regions: Vec::new(),
            fp_sites: Box::default(),
            refused: HashSet::new(),
            runtime: Box::new(Runtime { vcpu: std::ptr::null_mut(), pending: None }),
            epoch: 0,
            generation: 0,
            stats: EngineStats::default(),
        })
    }

    pub(crate) fn mode(vcpu: &Vcpu, limit: Limit) -> Mode {
        let exact_fp = vcpu.cpu.fpcr & (Fpcr::DNOD | Fpcr::DNZ).bits() != Fpcr::DNOD.bits();
        Mode {
            counted: limit != Limit::None,
            based: vcpu.mem.kind() != WindowKind::Identity,
            precise: vcpu.precise,
            strict: vcpu.unaligned == UnalignedPolicy::Trap,
            exact_fp,
            dynamic_nearest: vcpu.cpu.fpcr >> DYN_SHIFT & 3 == 2,
            unmasked: !exact_fp && fpu::wanted(&vcpu.cpu),
        }
    }

    /// Where region code lies.
    pub(crate) fn code_range(&self) -> Range<u64> {
        self.arena.range()
    }

    /// Which floating-point instructions that code does; in place as long as the engine.
    pub(crate) fn fp_sites(&self) -> *const FpSites {
        &raw const *self.fp_sites
    }

    /// In a forked child: leaves the code memory that is shared with the parent. True if so.
    pub(crate) fn renew_in_child(&mut self) -> bool {
        let renewed = self.arena.renew_in_child();
        if renewed {
            self.clear();
        }
        renewed
    }

    /// Host code for `pc`, compiled if need be; `None` where the interpreter has to step.
    pub(crate) fn code(&mut self, vcpu: &Vcpu, mode: Mode) -> Option<*const u8> {
        let pc = vcpu.cpu.pc;
        if let Some(table) = self.tables.get(mode)
            && let Some(code) = table.lookup(pc)
        {
            return Some(code);
        }
        if self.refused.contains(&pc) {
            return None;
        }
        let start = Instant::now();
        let code = self.compile(vcpu, mode);
        self.stats.translate += start.elapsed();
        match code {
            Ok(Some(code)) => Some(code),
            Ok(None) => {
                self.refused.insert(pc);
                None
            }
            Err(CompileError::Arena(_)) => {
                self.clear();
                self.generation += 1;
                self.compile(vcpu, mode).ok().flatten()
            }
            Err(error) => {
                tracing::debug!("region at {pc:#x}: {error}");
                self.refused.insert(pc);
                None
            }
        }
    }

    fn compile(&mut self, vcpu: &Vcpu, mode: Mode) -> Result<Option<*const u8>, CompileError> {
        let pc = vcpu.cpu.pc;
        let region = crate::region::select(vcpu, pc, compile::REGION_LIMIT, !mode.counted);
        if region.blocks[0].insns.is_empty() {
            return Ok(None);
        }
        let table = self.tables.get_or_make(mode);
        let code = self.compiler.compile(&region, mode, vcpu.model, table, &mut self.arena)?;
        table.install(pc, code.start as *const u8, &mut self.arena)?;
        let ranges = region.ranges();
        let hashed = ranges.iter().map(|&(s, e)| (s, e, hash_code(vcpu, s, e))).collect();
        self.stats.translations += 1;
        self.stats.translated_instructions += region.len() as u64;
        self.stats.code_bytes += code.end - code.start;
        self.fp_sites.add(code.start, code.end, code.fp_sites);
        self.regions.push(Compiled {
            entry: pc,
            mode,
            code: (code.start, code.end),
            ranges: hashed,
            pcs: code.pcs,
            blocks: region.blocks.iter().map(|b| (b.pc, b.end())).collect(),
            _kept: code.kept,
        });
        Ok(Some(code.start as *const u8))
    }

    /// Throws all code away. Nobody is executing it: the dispatcher runs.
    fn clear(&mut self) {
        self.tables.0.clear();
        self.regions.clear();
        self.fp_sites.clear();
        self.arena.clear();
    }

    /// Drops regions made from code in `[start, end)` that no longer reads the same, and says which.
    pub(crate) fn revalidate(&mut self, vcpu: &Vcpu, start: u64, end: u64) -> Vec<(Mode, u64)> {
        let mut dropped = Vec::new();
        self.refused.clear();
        for region in &mut self.regions {
            let touched = region.ranges.iter().any(|&(s, e, _)| s < end && start < e);
            let same = |&(s, e, hash): &(u64, u64, u64)| hash_code(vcpu, s, e) == hash;
            if touched && !region.ranges.iter().all(same) {
                if let Some(table) = self.tables.get(region.mode) {
                    table.remove(region.entry);
                }
                // The host code stays in place but is never entered again.
                region.ranges.clear();
                dropped.push((region.mode, region.entry));
            }
        }
        dropped
    }

    /// Goes back to the instruction whose host access failed in a region, and says what the host
    /// knows of the fault. The host does not always tell the address, nor where the datum starts.
    pub(crate) fn find_fault(&self, vcpu: &mut Vcpu, mode: Mode) -> Exit {
        let rip = vcpu.cpu.engine[word::FAULT_RIP];
        let region = self.regions.iter().find(|r| (r.code.0..r.code.1).contains(&rip));
        if let Some(region) = region {
            let offset = (rip - region.code.0) as u32;
            let at = region.pcs.partition_point(|&(_, end, _)| end <= offset);
            if let Some(&(_, _, pc)) = region.pcs.get(at).filter(|p| p.0 <= offset) {
                vcpu.cpu.pc = pc;
                if mode.counted
                    && let Some(&(_, end)) =
                        region.blocks.iter().find(|&&(s, e)| (s..e).contains(&pc))
                {
                    vcpu.cpu.count -= (end - pc) / 4;
                }
            }
        }
        let va = vcpu.cpu.engine[word::FAULT_ADDR].wrapping_sub(vcpu.mem.host_base());
        let how = vcpu.cpu.engine[word::FAULT_WRITE];
        let why = match vcpu.mem.region_at(va) {
            _ if va >= WINDOW_SIZE => FaultKind::OutOfWindow,
            Some(_) if how & 2 != 0 => FaultKind::BusError,
            Some(_) => FaultKind::Protected,
            None => FaultKind::Unmapped,
        };
        let access = if how & 1 != 0 { Access::Store } else { Access::Load };
        Exit::Fault(MemFault { va, access, why })
    }
}

/// FNV-1a over the words of a range of guest code; a fault ends it early.
fn hash_code(vcpu: &Vcpu, start: u64, end: u64) -> u64 {
    let mut words = vec![0; (end - start) as usize / 4];
    let mut done = 0;
    while done < words.len() {
        let n = vcpu.mem.fetch_words(start + 4 * done as u64, &mut words[done..]);
        if n == 0 {
            break;
        }
        done += n;
    }
    let step = |h: u64, w: &u32| (h ^ u64::from(*w)).wrapping_mul(0x100_0000_01b3);
    words[..done].iter().fold(0xcbf2_9ce4_8422_2325 ^ done as u64, step)
}

impl Engine for Opt {
    fn name(&self) -> &'static str {
        "opt"
    }

    fn run(&mut self, vcpu: &mut Vcpu, limit: Limit) -> Exit {
        fpu::reconsider(&mut vcpu.cpu);
        let mut mode = Opt::mode(vcpu, limit);
        vcpu.counted = mode.counted;
        let end = match limit {
            Limit::None => u64::MAX,
            Limit::Count(n) => vcpu.cpu.count.saturating_add(n),
        };
        self.renew_in_child();
        let epoch = vcpu.mem.exec_epoch();
        if epoch != self.epoch {
            self.epoch = epoch;
            self.revalidate(vcpu, 0, u64::MAX);
        }
        self.runtime.vcpu = vcpu;
        let engine = &mut vcpu.cpu.engine;
        engine[word::RUNTIME] = &raw mut *self.runtime as u64;
        engine[word::STACK_LIMIT] = self.stack.limit();
        engine[word::STACK_TOP] = self.stack.top();
        engine[word::COUNT_LIMIT] = end;
        engine[word::WINDOW] = WINDOW_SIZE;
        engine[word::BASE] = vcpu.mem.host_base();
        loop {
            if vcpu.cpu.take_poll() {
                return Exit::Poll;
            }
            if mode.counted && vcpu.cpu.count >= end {
                return Exit::Limit;
            }
            mode = Opt::mode(vcpu, limit);
            let Some(code) = self.code(vcpu, mode) else {
                match step_at_pc(vcpu) {
                    Ok(()) => continue,
                    Err(exit) => return exit,
                }
            };
            vcpu.cpu.engine[word::MXCSR] = fpu::control(mode.unmasked);
            let cpu = &raw mut *vcpu.cpu;
            fault::enter(cpu, &[Zone::regions(self.arena.range(), self.fp_sites())]);
            // SAFETY: `code` is a region of this arena, which only this engine changes and not
            // while it runs; the engine's words are set.
            let next = unsafe { axp_jit_enter(cpu, code) };
            fault::leave();
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
                    if let Err(exit) = step_at_pc(vcpu) {
                        return exit;
                    }
                }
                Some(ExitKind::Count) => {
                    while vcpu.cpu.count < end {
                        if let Err(exit) = step_at_pc(vcpu) {
                            return exit;
                        }
                    }
                    return Exit::Limit;
                }
                Some(ExitKind::Pending) => {
                    if let Some(exit) = self.runtime.pending.take() {
                        return exit;
                    }
                }
                Some(ExitKind::HostFault) => {
                    let fault = self.find_fault(vcpu, mode);
                    if !mode.precise {
                        return fault;
                    }
                    // With exact registers the interpreter says exactly what is wrong, or
                    // succeeds if another thread has mapped the page meanwhile.
                    if let Err(exit) = step_at_pc(vcpu) {
                        return exit;
                    }
                }
                Some(ExitKind::Link | ExitKind::Hot) | None => {
                    unreachable!("regions stop with a reason of theirs")
                }
            }
        }
    }

    fn invalidate(&mut self, start: u64, end: u64) {
        // Between two runs the processor that ran last is the one whose memory the code came from.
        // SAFETY: the pointer was taken from a live `&mut Vcpu` in `run`; `invalidate` is called
        // by the same driver loop, which still holds that processor.
        if let Some(vcpu) = unsafe { self.runtime.vcpu.as_ref() } {
            self.revalidate(vcpu, start, end);
        }
    }

    fn stats(&self) -> EngineStats {
        self.stats
    }
}
