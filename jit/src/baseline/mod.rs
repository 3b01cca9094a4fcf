//! The template tier: code that is warm, compiled in one pass by dynasm on its first execution.
//!
//! [`Baseline`] is the dispatcher. The unit of compilation (`unit`) is a superblock; `emit` holds its
//! frame, the `lower*` modules the templates, `regs` says where guest registers live, `stubs` holds
//! what all units share, `links` knows who jumps to whom.

#![allow(clippy::useless_conversion, reason = "dynasm! converts all register numbers")]

mod emit;
mod links;
mod lower;
mod lower_byte;
mod lower_fp;
mod lower_int;
mod lower_mem;
mod regs;
mod saved;
mod stubs;
#[cfg(test)]
mod tests;
mod translated;
mod unit;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use axp_emu::cpu::{Cpu, Exit, Vcpu};
use axp_emu::engine::{Engine, EngineStats, Limit, Palcode};
use axp_emu::isa::{Insn, Opcode};
use dynasmrt::SimpleAssembler;

use crate::abi::{self, ExitKind, word};
use crate::analysis::Bounds;
use crate::cache::{Key, Kind, Library};
use crate::code::{Arena, ArenaError, Stack};
use crate::fault::{self, Zone};
use crate::fpu::{self, FpSites};
use crate::opt::{Mode, Opt};
use crate::profile::{self, Translating};
use crate::runtime::{Runtime, step_at_pc};
use crate::seen::Seen;
use emit::{Cold, Emitter, Parts};
use links::{Links, Site};
use saved::{Origin, Saved};
use stubs::{Enter, Stubs};
use unit::Unit;

/// Bytes of host code after which everything is thrown away and made anew.
const ARENA_SIZE: usize = 32 << 20;
/// What a counter is set to once it has run out.
const COLD_FOR_LONG: i32 = i32::MAX;
/// Heat counters that are allocated at a time.
const HEAT_CHUNK: usize = 1024;

/// An instruction that compiled code hands to the dispatcher or the interpreter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pc: u64,
    insn: Insn,
    /// Instructions of its segment behind it, which a counted run has counted already.
    after: u32,
}

/// A guest access in host code.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    /// From the unit's first byte.
    offset: u16,
    /// Number of the instruction in its unit.
    index: u16,
    after: u16,
}

/// What the host's processor offers beyond SSE2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Host {
    /// BMI2: shifts by any register, PDEP.
    pub bmi2: bool,
    /// POPCNT, LZCNT and TZCNT.
    pub counts: bool,
    /// Fused multiply and add.
    pub fma: bool,
}

impl Host {
    /// The host that this runs on.
    pub fn detect() -> Self {
        Host {
            bmi2: is_x86_feature_detected!("bmi2"),
            counts: is_x86_feature_detected!("popcnt")
                && is_x86_feature_detected!("lzcnt")
                && is_x86_feature_detected!("bmi1"),
            fma: crate::fpu::has_fma(),
        }
    }
}

/// Why [`Baseline::run_until`] returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// A guest event.
    Exit(Exit),
    /// The entry at `cpu.pc` has used up its heat; nothing of it was executed this time.
    Hot,
    /// Code that [`Baseline::install_entry`] was given faulted: `Cpu::engine` says where, as its
    /// own dispatcher would find it.
    RegionFault,
    /// Somebody has set [`Cpu::POLL_ENGINE`].
    Woken,
}

/// Compiled guest code.
#[derive(Debug)]
struct Compiled {
    space: usize,
    pc: u64,
    words: Box<[u32]>,
    /// Executable address range.
    code: Range<u64>,
    entries: Box<[u64]>,
    accesses: Box<[Access]>,
    /// Numbers of its branches in [`Links`].
    sites: Range<u32>,
}

/// The engine `baseline`.
pub struct Baseline {
    host: Host,
    arena: Arena,
    /// Regions that baseline code leads to make their guest calls here.
    stack: Stack,
    stubs: Stubs,
    spaces: Vec<(Mode, Links)>,
    /// By address of host code.
    units: Vec<Compiled>,
    places: Vec<Place>,
    asm: SimpleAssembler,
    parts: Parts,
    unit: Unit,
    runtime: Box<Runtime>,
    epoch: u64,
    pending: Option<(u64, u64)>,
    /// Executions of an entry after which it is hot.
    threshold: Option<i32>,
    counters: Vec<Box<[i32; HEAT_CHUNK]>>,
    counters_used: usize,
    heat_of: BTreeMap<(usize, u64), u64>,
    learned: BTreeMap<u64, BTreeSet<u64>>,
    /// What was ever translated, with heat only.
    seen: Seen,
    /// Where regions lie that entries were installed for.
    regions: Option<Zone>,
    /// How often everything was thrown away.
    generation: u64,
    /// What earlier runs and other threads have translated.
    library: Option<Arc<Library>>,
    /// Log host code as bytes.
    dump: bool,
    stats: EngineStats,
}

// SAFETY: raw pointers lead to what the engine itself owns and moves with it; `runtime.vcpu` is only
// followed while the processor's owner is in a call of the engine.
unsafe impl Send for Baseline {}

impl Baseline {
    /// An engine that has compiled nothing.
    pub fn new() -> Result<Self, ArenaError> {
        Baseline::for_host(Host::detect())
    }

    /// An engine that uses no more of the host than told.
    pub fn for_host(host: Host) -> Result<Self, ArenaError> {
        Baseline::with_arena(host, ARENA_SIZE)
    }

    fn with_arena(host: Host, size: usize) -> Result<Self, ArenaError> {
        fault::install();
        let mut arena = Arena::new(size)?;
        Ok(Baseline {
            host,
            stack: Stack::new()?,
            stubs: Stubs::make(&mut arena)?,
            arena,
            spaces: Vec::new(),
            units: Vec::new(),
            places: Vec::new(),
            asm: SimpleAssembler::new(),
            parts: Parts::default(),
            unit: Unit::default(),
            runtime: Box::default(),
            epoch: 0,
            pending: None,
            threshold: None,
            counters: Vec::new(),
            counters_used: 0,
            heat_of: BTreeMap::new(),
            learned: BTreeMap::new(),
            seen: Seen::default(),
            regions: None,
            generation: 0,
            library: None,
            dump: std::env::var_os("AXPLAB_JIT_DUMP").is_some(),
            stats: EngineStats::default(),
        })
    }

    /// An engine whose entries count if told a threshold, as with [`with_heat`](Self::with_heat); those for
    /// which the library has a region are hot at once.
    pub fn with_library(
        threshold: Option<i32>,
        library: Option<Arc<Library>>,
    ) -> Result<Self, ArenaError> {
        Ok(Baseline { threshold, library, ..Baseline::new()? })
    }

    /// Changes whenever all code, installed entries included, has been thrown away for want of room.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// An engine whose entries count their executions: [`Stop::Hot`] after `threshold` of them.
    pub fn with_heat(threshold: i32) -> Result<Self, ArenaError> {
        Ok(Baseline { threshold: Some(threshold), ..Baseline::new()? })
    }

    /// How `run` with this limit compiles for `vcpu` now: what installed code must have been made for.
    pub fn mode(vcpu: &Vcpu, limit: Limit) -> Mode {
        Opt::mode(vcpu, limit)
    }

    /// Targets of the indirect jump or call at `pc` that were met, with heat only.
    pub fn learned(&self, pc: u64) -> impl Iterator<Item = u64> {
        self.learned.get(&pc).into_iter().flatten().copied()
    }

    /// Whether the instruction at `pc` was ever translated, with heat only.
    pub fn has_seen(&self, pc: u64) -> bool {
        self.seen.contains(pc)
    }

    /// Makes an entry hot again after `executions` of it.
    pub fn set_heat(&mut self, mode: Mode, pc: u64, executions: i32) {
        let space = self.space(mode);
        if let Some(&counter) = self.heat_of.get(&(space, pc)) {
            // SAFETY: a counter of ours, which live as long as the engine; no code is running.
            unsafe { *(counter as *mut i32) = executions };
        }
    }

    /// Entries in `[from, to)` that count and have not been hot, the last first: pc and executions.
    pub fn counted(&self, mode: Mode, from: u64, to: u64) -> impl Iterator<Item = (u64, i32)> {
        let space = self.spaces.iter().position(|(m, _)| *m == mode).unwrap_or(usize::MAX);
        let threshold = self.threshold.unwrap_or(0);
        self.heat_of.range((space, from)..(space, to)).rev().filter_map(
            move |(&(_, pc), &counter)| {
                // SAFETY: a counter of ours, which live as long as the engine; no code is running.
                let executed = threshold - unsafe { *(counter as *const i32) };
                (executed >= 0).then_some((pc, executed))
            },
        )
    }

    /// As [`set_heat`](Self::set_heat), for an entry that is not so hot yet and has not been hot.
    pub fn warm(&mut self, mode: Mode, pc: u64, executions: i32) {
        let space = self.space(mode);
        if let Some(&counter) = self.heat_of.get(&(space, pc)) {
            let counter = counter as *mut i32;
            // SAFETY: a counter of ours, which live as long as the engine; no code is running.
            unsafe {
                if (executions..COLD_FOR_LONG / 2).contains(&*counter) {
                    *counter = executions;
                }
            }
        }
    }

    /// Where the code lies that `install_entry` is given, for faults in it.
    pub(crate) fn set_regions(&mut self, code: Option<Range<u64>>, sites: *const FpSites) {
        self.regions = code.map(|code| Zone::regions(code, sites));
    }

    /// Sends control that arrives at `pc` to a region (`abi`) compiled for the same mode.
    ///
    /// # Safety
    /// `code` is a region that stays in place, within the range given to
    /// `set_regions`, until [`remove_entry`](Self::remove_entry).
    pub unsafe fn install_entry(
        &mut self,
        mode: Mode,
        pc: u64,
        code: *const u8,
    ) -> Result<(), ArenaError> {
        let space = self.space(mode);
        // mov rax, code; jmp region
        let mut stub = [0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xe9, 0, 0, 0, 0];
        let rel = self.stubs.region.wrapping_sub(self.arena.next(16) + 15) as i32;
        stub[2..10].copy_from_slice(&(code as u64).to_le_bytes());
        stub[11..].copy_from_slice(&rel.to_le_bytes());
        let stub = self.arena.place(&stub, 16, 0)? as u64;
        self.spaces[space].1.define_instead(pc, stub, &mut self.arena);
        Ok(())
    }

    /// Takes an installed region out of use; templates take over again.
    pub fn remove_entry(&mut self, mode: Mode, pc: u64) {
        let space = self.space(mode);
        self.spaces[space].1.define_instead(pc, 0, &mut self.arena);
    }

    /// Regions of `mode` are found by this jump cache, until `forget_regions`.
    pub(crate) fn know_regions(&mut self, mode: Mode, jumps: u64) {
        self.runtime.calls.know_regions(mode, jumps);
    }

    /// There are none any more.
    pub(crate) fn forget_regions(&mut self) {
        self.runtime.calls.forget_regions();
    }

    fn space(&mut self, mode: Mode) -> usize {
        if let Some(i) = self.spaces.iter().position(|(m, _)| *m == mode) {
            return i;
        }
        self.spaces.push((mode, Links::default()));
        self.spaces.len() - 1
    }

    /// Host code for `cpu.pc`, compiled if need be; `None` where the interpreter has to step.
    fn code(&mut self, vcpu: &Vcpu, space: usize) -> Option<u64> {
        let pc = vcpu.cpu.pc;
        let code = match self.spaces[space].1.lookup(pc) {
            Some(code) => code,
            None => {
                let start = Instant::now();
                let _phase = Translating::begin();
                let code = self.compile(vcpu, space).or_else(|_| {
                    self.clear();
                    self.compile(vcpu, space)
                });
                self.stats.translate += start.elapsed();
                code.ok().flatten()?
            }
        };
        self.spaces[space].1.cache_jump(pc, code);
        Some(code)
    }

    fn compile(&mut self, vcpu: &Vcpu, space: usize) -> Result<Option<u64>, ArenaError> {
        if self.load(vcpu, space) {
            return self.place(space);
        }
        let key = self.key(vcpu, self.spaces[space].0);
        let (mode, links) = &mut self.spaces[space];
        self.unit.select(vcpu, |pc| links.has_code(pc));
        if self.unit.insns.is_empty() {
            return Ok(None);
        }
        let base = self.arena.next(16);
        let origin = Origin {
            base,
            arena: self.arena.range().start,
            place: self.places.len() as u32,
            site: links.next_site(),
        };
        let mut counters = (&mut self.counters, &mut self.counters_used, &mut self.heat_of);
        let (library, threshold) = (self.library.as_deref(), self.threshold.unwrap_or(0));
        let mut heat = |pc| counter(&mut counters, library, threshold, (space, *mode), vcpu, pc);
        Emitter {
            asm: &mut self.asm,
            parts: &mut self.parts,
            places: &mut self.places,
            unit: &self.unit,
            stubs: &self.stubs,
            mode: *mode,
            host: self.host,
            model: vcpu.model,
            links,
            heat: self.threshold.is_some().then_some(&mut heat as &mut dyn FnMut(u64) -> u64),
            base,
            index: 0,
            pc: self.unit.pc,
            after: 0,
            bounds: Bounds::UNKNOWN,
            fused: None,
            cold_kind: Cold::Step,
        }
        .unit();
        if let Some((library, key)) = library.filter(|library| library.takes_units()).zip(key) {
            let mut code = self.asm.ops.clone();
            saved::relocate(&mut code, &self.parts.relocations, origin, true, |_| 0);
            let (words, places) = (&self.unit.words, &self.places[origin.place as usize..]);
            library.add(key, &Saved::encode(self.unit.pc, words, &code, &self.parts, places));
        }
        self.stats.translations += 1;
        self.stats.translated_instructions += self.unit.insns.len() as u64;
        self.stats.code_bytes += self.asm.ops.len() as u64;
        self.place(space)
    }

    /// The key of a unit at `cpu.pc` in the library.
    fn key(&self, vcpu: &Vcpu, mode: Mode) -> Option<Key> {
        self.library.as_ref()?;
        let kind = if self.threshold.is_some() { Kind::CountingUnit } else { Kind::Unit };
        Key::new(kind, mode, vcpu, vcpu.cpu.pc)
    }

    /// Takes the unit at `cpu.pc` from the library, as if it had just been emitted.
    fn load(&mut self, vcpu: &Vcpu, space: usize) -> bool {
        let (mode, pc) = (self.spaces[space].0, vcpu.cpu.pc);
        let Some(key) = self.key(vcpu, mode) else { return false };
        let library = self.library.as_deref().into_iter();
        let mut records = library.flat_map(|library| library.find_kept(&key));
        let found = records.find_map(|record| {
            let saved = Saved::decode(pc, record)?;
            let mut there = [0; unit::MAX_UNIT];
            let there = there.get_mut(..saved.words.len())?;
            let all = vcpu.mem.fetch_words(pc, there) == there.len();
            (all && *there == *saved.words).then_some(saved)
        });
        let Some(Saved { words, mut code, parts, places }) = found else { return false };
        let origin = Origin {
            base: self.arena.next(16),
            arena: self.arena.range().start,
            place: self.places.len() as u32,
            site: self.spaces[space].1.next_site(),
        };
        let mut counters = (&mut self.counters, &mut self.counters_used, &mut self.heat_of);
        let (library, threshold) = (self.library.as_deref(), self.threshold.unwrap_or(0));
        let mut heat = |pc| counter(&mut counters, library, threshold, (space, mode), vcpu, pc);
        saved::relocate(&mut code, &parts.relocations, origin, false, &mut heat);
        self.stats.kept += 1;
        self.stats.kept_instructions += words.len() as u64;
        (self.unit.pc, self.unit.words) = (pc, words);
        (self.asm.ops, self.parts) = (code, parts);
        self.places.extend(places);
        true
    }

    /// Places what was emitted and publishes its entries.
    fn place(&mut self, space: usize) -> Result<Option<u64>, ArenaError> {
        let (mode, links) = &mut self.spaces[space];
        let start = self.arena.place(&self.asm.ops, 16, 0)? as u64;
        let first = links.next_site();
        for site in &self.parts.sites {
            let placed = Site { at: site.at + start, stub: site.stub + start, ..*site };
            links.add_site(placed, &mut self.arena);
        }
        for &(pc, offset) in &self.parts.entries {
            links.define(pc, start + u64::from(offset), &mut self.arena);
        }
        if self.dump {
            let hex: String = self.asm.ops.iter().map(|b| format!("{b:02x}")).collect();
            tracing::debug!("unit {:#x} at {start:#x}: {hex}", self.unit.pc);
        }
        profile::note("baseline", mode.space, self.unit.pc, start, &self.asm.ops, || {
            let pc = |i: usize| self.unit.pc.wrapping_add(4 * i as u64);
            self.parts.starts.iter().enumerate().map(|(i, &at)| (at, pc(i))).collect()
        });
        if self.threshold.is_some() {
            self.seen.add(self.unit.pc, self.unit.words.len());
        }
        self.units.push(Compiled {
            space,
            pc: self.unit.pc,
            words: self.unit.words.as_slice().into(),
            code: start..start + self.asm.ops.len() as u64,
            entries: self.parts.entries.iter().map(|e| e.0).collect(),
            accesses: self.parts.accesses.as_slice().into(),
            sites: first..links.next_site(),
        });
        Ok(links.lookup(self.unit.pc))
    }

    /// Throws all code away, installed entries too. Nobody is executing it: the dispatcher runs.
    fn clear(&mut self) {
        self.spaces.iter_mut().for_each(|(_, links)| links.clear());
        self.runtime.calls.forget();
        self.generation += 1;
        self.units.clear();
        self.places.clear();
        self.heat_of.clear();
        self.counters_used = 0;
        self.arena.truncate(self.stubs.size);
    }

    /// Drops units made from code in `[start, end)` that no longer reads the same, of address spaces that
    /// have changed after the epoch `since`.
    fn revalidate(&mut self, vcpu: &Vcpu, (start, end): (u64, u64), since: u64) {
        let Baseline { units, spaces, arena, .. } = self;
        let changed = spaces.iter().map(|(mode, _)| vcpu.mem.epoch_of(mode.space) > since);
        let changed: Vec<bool> = changed.collect();
        units.retain(|unit| {
            let last = unit.pc.wrapping_add(4 * unit.words.len() as u64);
            let touched = changed[unit.space] && unit.pc < end && start < last;
            let space = spaces[unit.space].0.space;
            if !touched || vcpu.mem.executes(space, unit.pc, &unit.words) {
                return true;
            }
            let links = &mut spaces[unit.space].1;
            links.drop_sites(unit.sites.clone());
            for &pc in &unit.entries {
                links.undefine(pc, &unit.code, arena);
            }
            false
        });
    }

    /// Goes back to the instruction whose host access failed in a unit. The interpreter then decides
    /// what it is: the host does not always tell the address, nor where the datum starts.
    fn find_fault(&self, vcpu: &mut Vcpu, mode: Mode) {
        let rip = vcpu.cpu.engine[word::FAULT_RIP];
        let i = self.units.partition_point(|u| u.code.end <= rip);
        let access = self.units.get(i).filter(|u| u.code.contains(&rip)).and_then(|unit| {
            let offset = (rip - unit.code.start) as u16;
            let i = unit.accesses.binary_search_by_key(&offset, |a| a.offset).ok()?;
            Some((unit.pc, unit.accesses[i]))
        });
        let Some((start, access)) = access else {
            unreachable!("compiled code faults at guest accesses only")
        };
        vcpu.cpu.pc = start.wrapping_add(4 * u64::from(access.index));
        if mode.counted {
            vcpu.cpu.count -= u64::from(access.after) + 1;
        }
    }

    /// Catches up with changed code and sets the words that compiled code reads.
    fn prepare(&mut self, vcpu: &mut Vcpu, end: u64) {
        if self.arena.renew_in_child() {
            // Without stubs there is no room for units either, and everything is interpreted.
            self.stubs = Stubs::make(&mut self.arena).unwrap_or_default();
            // Freeing would write to memory all over, which the host would have to copy for it.
            std::mem::forget(std::mem::take(&mut self.units));
            std::mem::forget(std::mem::take(&mut self.spaces));
            std::mem::forget(std::mem::take(&mut self.heat_of));
            std::mem::forget(std::mem::take(&mut self.learned));
            self.clear();
        }
        let epoch = vcpu.mem.exec_epoch();
        let mut since = 0;
        if epoch != self.epoch {
            if self.pending.is_none() {
                since = self.epoch;
            }
            self.epoch = epoch;
            let (start, end) = vcpu.mem.epoch_range();
            let (from, to) = self.pending.unwrap_or((start, end));
            self.pending = Some((from.min(start), to.max(end)));
        }
        if let Some(range) = self.pending.take() {
            self.revalidate(vcpu, range, since);
        }
        self.runtime.vcpu = vcpu;
        let engine = &mut vcpu.cpu.engine;
        engine[word::RUNTIME] = &raw mut *self.runtime as u64;
        engine[word::STACK_LIMIT] = self.stack.limit();
        engine[word::STACK_TOP] = self.stack.top();
        engine[word::COUNT_LIMIT] = end;
        engine[word::WINDOW] = vcpu.mem.limit();
        engine[word::BASE] = vcpu.mem.host_base();
        engine[word::PAL] = self.stubs.region_pal;
    }

    /// Enters compiled code and returns what it returned.
    fn enter(&self, vcpu: &mut Vcpu, space: usize, code: u64) -> u64 {
        vcpu.cpu.engine[word::JUMPS] = self.spaces[space].1.jump_cache();
        vcpu.cpu.engine[word::BASE] = vcpu.mem.host_base();
        vcpu.cpu.engine[word::PLACES] = self.places.as_ptr() as u64;
        let mode = self.spaces[space].0;
        vcpu.cpu.engine[word::MXCSR] = fpu::control(mode.unmasked);
        vcpu.cpu.engine[word::SKIPS] = u64::from(mode.precise);
        vcpu.cpu.engine[word::ALONE] = u64::from(vcpu.mem.is_alone());
        let cpu = &raw mut *vcpu.cpu;
        let own = Zone::with_unwind(self.arena.range(), self.stubs.unwind);
        match &self.regions {
            Some(regions) => fault::enter(cpu, &[own, *regions]),
            None => fault::enter(cpu, &[own]),
        }
        // SAFETY: the stub was made as a function of this type; `code` is an entry of this arena,
        // which only this engine changes and not while it runs; the engine's words are set.
        let next = unsafe {
            let enter = std::mem::transmute::<u64, Enter>(self.stubs.enter);
            enter(cpu, code as *const u8)
        };
        fault::leave();
        next
    }

    /// The guest pc of the place at which code was left.
    fn place_pc(&self, vcpu: &Vcpu) -> u64 {
        self.places[vcpu.cpu.engine[word::SITE] as usize].pc
    }

    /// Lends PALcode to the runs that follow, until `take_back`.
    ///
    /// # Safety
    /// As for [`Calls::lend`](crate::palcode::Calls::lend).
    pub(crate) unsafe fn lend(&mut self, palcode: &mut dyn Palcode) {
        // SAFETY: the caller's promise.
        unsafe { self.runtime.calls.lend(palcode) };
    }

    /// Ends the loan.
    pub(crate) fn take_back(&mut self) {
        self.runtime.calls.take_back();
    }

    /// Runs until a guest event, the limit, or something that a higher tier has to look at.
    pub fn run_until(&mut self, vcpu: &mut Vcpu, limit: Limit) -> Stop {
        let stop = self.run_units(vcpu, limit);
        self.stats.by_call += std::mem::take(&mut vcpu.cpu.engine[word::BASELINE_CALLS]);
        stop
    }

    fn run_units(&mut self, vcpu: &mut Vcpu, limit: Limit) -> Stop {
        vcpu.cpu.pc &= !3;
        fpu::reconsider(&mut vcpu.cpu);
        let mut mode = Opt::mode(vcpu, limit);
        vcpu.counted = mode.counted;
        let end = match limit {
            Limit::None => u64::MAX,
            Limit::Count(n) => vcpu.cpu.count.saturating_add(n),
        };
        self.prepare(vcpu, end);
        loop {
            // Mostly there is none, and a plain load is cheaper than an exchange.
            let poll = &vcpu.cpu.poll;
            let asked = match poll.load(Ordering::Relaxed) {
                0 => 0,
                _ => poll.swap(0, Ordering::Acquire),
            };
            match asked {
                0 => {}
                Cpu::POLL_ENGINE => return Stop::Woken,
                _ => return Stop::Exit(Exit::Poll),
            }
            if mode.counted && vcpu.cpu.count >= end {
                return Stop::Exit(Exit::Limit);
            }
            mode = Opt::mode(vcpu, limit);
            let mut space = self.space(mode);
            let Some(code) = self.code(vcpu, space) else {
                match self.step(vcpu) {
                    Ok(()) => continue,
                    Err(exit) => return Stop::Exit(exit),
                }
            };
            // Fetching the code may have shown that the kernel's is not the same everywhere.
            if mode.translated() && vcpu.mem.exec_epoch() != self.epoch {
                return Stop::Woken;
            }
            self.runtime.calls.know(mode, self.spaces[space].1.jump_cache());
            let next = self.enter(vcpu, space, code);
            // PALcode may have changed the mode meanwhile.
            if mode.space != vcpu.mem.code_space() {
                mode.space = vcpu.mem.code_space();
                space = self.space(mode);
            }
            if next & 3 == 0 {
                vcpu.cpu.pc = next;
                self.learn(vcpu, next);
                continue;
            }
            match ExitKind::from_word(vcpu.cpu.engine[word::EXIT]) {
                Some(ExitKind::Link) => {
                    let number = vcpu.cpu.engine[word::SITE];
                    if let Some(site) = self.spaces[space].1.site(number) {
                        vcpu.cpu.pc = site.target;
                    }
                }
                Some(
                    kind @ (ExitKind::Poll | ExitKind::Count | ExitKind::Hot | ExitKind::Step),
                ) => {
                    // A region sets the pc itself.
                    if vcpu.cpu.engine[word::SITE] != REGION {
                        vcpu.cpu.pc = self.place_pc(vcpu);
                    }
                    match kind {
                        ExitKind::Hot => {
                            self.set_heat(mode, vcpu.cpu.pc, COLD_FOR_LONG);
                            return Stop::Hot;
                        }
                        ExitKind::Count => {
                            while vcpu.cpu.count < end {
                                if let Err(exit) = self.step(vcpu) {
                                    return Stop::Exit(exit);
                                }
                            }
                            return Stop::Exit(Exit::Limit);
                        }
                        ExitKind::Step if !mode.counted || vcpu.cpu.count < end => {
                            if let Err(exit) = self.step(vcpu) {
                                return Stop::Exit(exit);
                            }
                        }
                        _ => {}
                    }
                }
                Some(ExitKind::Pending) => {
                    if let Some(exit) = self.runtime.pending.take() {
                        return Stop::Exit(exit);
                    }
                }
                Some(ExitKind::HostFault) => {
                    if !self.arena.range().contains(&vcpu.cpu.engine[word::FAULT_RIP]) {
                        return Stop::RegionFault;
                    }
                    self.find_fault(vcpu, mode);
                    if let Err(exit) = self.step(vcpu) {
                        return Stop::Exit(exit);
                    }
                }
                Some(ExitKind::Pal) | None => unreachable!("compiled code stops with a reason"),
            }
        }
    }

    /// Has the interpreter execute the instruction at `cpu.pc`.
    fn step(&mut self, vcpu: &mut Vcpu) -> Result<(), Exit> {
        let result = step_at_pc(vcpu);
        self.stats.by_call += u64::from(result.is_ok());
        result
    }

    /// Notes the target of an indirect jump that the jump cache did not know.
    fn learn(&mut self, vcpu: &mut Vcpu, target: u64) {
        let place = std::mem::replace(&mut vcpu.cpu.engine[word::JUMP_PLACE], 0);
        if self.threshold.is_some()
            && let Some(place) = place.checked_sub(1).and_then(|p| self.places.get(p as usize))
            && place.insn.op != Opcode::Ret
        {
            self.learned.entry(place.pc).or_default().insert(target);
        }
    }
}

/// What the stubs leave in `word::SITE` when a region has stopped.
const REGION: u64 = abi::REGION_SITE as u64;

/// Chunks of counters, how many are in use, and which is whose.
type Counters<'a> =
    (&'a mut Vec<Box<[i32; HEAT_CHUNK]>>, &'a mut usize, &'a mut BTreeMap<(usize, u64), u64>);

/// The heat counter of the entry at `pc`: what the library has a region for is hot at once.
fn counter(
    (chunks, used, heat_of): &mut Counters<'_>,
    library: Option<&Library>,
    threshold: i32,
    (space, mode): (usize, Mode),
    vcpu: &Vcpu,
    pc: u64,
) -> u64 {
    *heat_of.entry((space, pc)).or_insert_with(|| {
        let key = Key::new(Kind::Region, mode, vcpu, pc);
        let kept = key.zip(library).is_some_and(|(key, library)| library.newest(&key) != 0);
        new_counter(chunks, used, if kept { 0 } else { threshold })
    })
}

/// Address of a counter that starts at `value`.
fn new_counter(chunks: &mut Vec<Box<[i32; HEAT_CHUNK]>>, used: &mut usize, value: i32) -> u64 {
    if *used / HEAT_CHUNK == chunks.len() {
        chunks.push(Box::new([0; HEAT_CHUNK]));
    }
    let counter = &mut chunks[*used / HEAT_CHUNK][*used % HEAT_CHUNK];
    *used += 1;
    *counter = value;
    &raw mut *counter as u64
}

impl Engine for Baseline {
    fn name(&self) -> &'static str {
        "baseline"
    }

    fn run(&mut self, vcpu: &mut Vcpu, limit: Limit) -> Exit {
        let end = vcpu.cpu.count;
        let total = limit;
        let mut limit = limit;
        loop {
            match self.run_until(vcpu, limit) {
                Stop::Exit(exit) => return exit,
                // Nobody is there to make use of it.
                Stop::Hot | Stop::RegionFault | Stop::Woken => {}
            }
            if let Limit::Count(n) = total {
                limit = Limit::Count(n.saturating_sub(vcpu.cpu.count - end));
            }
        }
    }

    fn run_with(&mut self, vcpu: &mut Vcpu, palcode: &mut dyn Palcode) -> Exit {
        // SAFETY: taken back below.
        unsafe { self.lend(palcode) };
        let exit = self.run(vcpu, Limit::None);
        self.take_back();
        exit
    }

    fn invalidate(&mut self, start: u64, end: u64) {
        let (s, e) = self.pending.unwrap_or((start, end));
        self.pending = Some((s.min(start), e.max(end)));
    }

    fn stats(&self) -> EngineStats {
        self.stats
    }
}
