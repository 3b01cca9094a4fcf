//! The store of regions: has them compiled, at once or on the compiling thread, places their code, finds
//! and drops it. [`Opt`](super::Opt) and [`Auto`](crate::auto::Auto) own one each.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Instant;

use axp_emu::cpu::{Exit, Vcpu};
use axp_emu::engine::EngineStats;
use axp_emu::isa::Insn;
use axp_emu::mem::{Access, FaultKind, MemFault, WINDOW_SIZE};

use super::background::{Done, Inbox, Service};
use super::compile::{CompileError, Compiler, Job, Output, REGION_LIMIT, Shared};
use super::cover::Cover;
use super::emit::Mode;
use super::merged::Merged;
use super::saved::{self, Saved, Shape};
use super::symbols::{Relocation, Symbol};
use crate::abi::word;
use crate::cache::{Key, Kind, Library, Record};
use crate::code::{Arena, CodeTable, forks};
use crate::fpu::FpSites;
use crate::profile::{self, Translating};
use crate::region;
use crate::runtime::step_at_pc;

/// Bytes of host code after which everything is thrown away and made anew.
const ARENA_SIZE: usize = 128 << 20;

/// A region that has been compiled.
#[derive(Debug)]
struct Compiled {
    mode: Mode,
    shape: Shape,
    /// Executable address range.
    code: Range<u64>,
    /// Guest code it was made from: start, end, hash of the words. Empty once it has been dropped.
    ranges: Vec<(u64, u64, u64)>,
    /// Code offset ranges of guest instructions.
    pcs: Vec<(u32, u32, u64)>,
    /// Host accesses that do the work of several.
    merged: Vec<Merged>,
    /// Instructions that the code hands to the interpreter.
    _kept: Box<[Insn]>,
}

/// What is known of one mode, at a place that its code knows; programs rarely use more than one.
#[derive(Debug)]
struct Space {
    mode: Mode,
    table: Box<CodeTable>,
    cover: Cover,
    /// Entries of which no region can be made.
    refused: HashSet<u64>,
    /// Entries that the compiling thread is at work on.
    pending: HashSet<u64>,
    /// Entries for which the library has regions of other code, with the newest that is known.
    misfits: HashMap<u64, u64>,
}

/// What became of the wish for a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Here it is.
    Code(*const u8),
    /// It will arrive.
    Later,
    /// There is none.
    Never,
}

/// How a region is asked for.
pub struct Wish<'a> {
    /// Where it is to start.
    pub pc: u64,
    /// How it is to behave.
    pub mode: Mode,
    /// It may be compiled on the compiling thread.
    pub later: bool,
    /// Instructions below which a mere link between two jumps is not worth entering.
    pub least: usize,
    /// Which code has been executed: the region keeps to it.
    pub seen: &'a dyn Fn(u64) -> bool,
}

/// All regions of one engine.
pub struct Regions {
    compiler: Option<Compiler>,
    /// Made for the first region.
    arena: Option<Arena>,
    spaces: Vec<Space>,
    /// By address of host code.
    all: Vec<Compiled>,
    /// Which floating-point instructions the code does, at a place that stays.
    fp_sites: Box<FpSites>,
    /// What earlier runs and other threads have compiled.
    library: Option<Arc<Library>>,
    service: Option<Arc<Service>>,
    inbox: Arc<Inbox>,
    /// Jobs ordered that have not been taken back.
    ordered: usize,
    forks: u64,
    /// How often all code has been thrown away.
    generation: u64,
    stats: EngineStats,
}

impl Default for Regions {
    fn default() -> Self {
        Regions {
            compiler: None,
            arena: None,
            spaces: Vec::new(),
            all: Vec::new(),
            fp_sites: Box::default(),
            library: None,
            service: None,
            inbox: Arc::default(),
            ordered: 0,
            forks: forks(),
            generation: 0,
            stats: EngineStats::default(),
        }
    }
}

impl Regions {
    /// No regions but those of a library, which takes further ones.
    pub fn with_library(library: Option<Arc<Library>>) -> Self {
        let mut regions = Regions::default();
        regions.library = library;
        regions
    }

    /// Where region code lies, if there is any.
    pub fn code_range(&self) -> Option<Range<u64>> {
        self.arena.as_ref().map(Arena::range)
    }

    /// Which floating-point instructions that code does; in place as long as the engine.
    pub fn fp_sites(&self) -> *const FpSites {
        &raw const *self.fp_sites
    }

    /// Changes whenever all code has been thrown away.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// What has been compiled, and how long the guest's thread was busy with it.
    pub fn stats(&self) -> EngineStats {
        self.stats
    }

    /// Has the interpreter execute the instruction at `cpu.pc`, which no region could.
    pub fn step(&mut self, vcpu: &mut Vcpu) -> Result<(), Exit> {
        let result = step_at_pc(vcpu);
        self.stats.by_call += u64::from(result.is_ok());
        result
    }

    /// Adds up what regions had done by calls.
    pub fn count_calls(&mut self, vcpu: &mut Vcpu) {
        self.stats.by_call += std::mem::take(&mut vcpu.cpu.engine[word::CALLS]);
    }

    /// In a forked child: leaves the code memory that is shared with the parent, and the compiling
    /// thread, which stayed there. True if so.
    pub fn renew_in_child(&mut self) -> bool {
        if self.forks == forks() {
            return false;
        }
        self.forks = forks();
        self.leave_parent();
        // Freeing would write to memory all over, which the host would have to copy for it.
        std::mem::forget(std::mem::take(&mut self.spaces));
        std::mem::forget(std::mem::take(&mut self.all));
        if let Some(arena) = &mut self.arena {
            arena.renew_in_child();
        }
        self.clear();
        true
    }

    /// Leaves the parent's compiling thread alone: a thread that does not exist here may hold locks.
    fn leave_parent(&mut self) {
        std::mem::forget(std::mem::take(&mut self.inbox));
        std::mem::forget(self.service.take());
        self.ordered = 0;
    }

    fn space(&mut self, mode: Mode) -> usize {
        if let Some(at) = self.spaces.iter().position(|s| s.mode == mode) {
            return at;
        }
        let (table, cover) = (Box::default(), Cover::default());
        let (refused, pending, misfits) = (HashSet::new(), HashSet::new(), HashMap::new());
        self.spaces.push(Space { mode, table, cover, refused, pending, misfits });
        self.spaces.len() - 1
    }

    /// Host code for `pc`, if it has been compiled.
    pub fn lookup(&self, mode: Mode, pc: u64) -> Option<*const u8> {
        let space = self.spaces.iter().find(|s| s.mode == mode)?;
        space.table.lookup(pc)
    }

    /// As `lookup`; from now on jumps of compiled code find it, too.
    pub fn find(&mut self, mode: Mode, pc: u64) -> Option<*const u8> {
        let space = self.spaces.iter_mut().find(|s| s.mode == mode)?;
        let code = space.table.lookup(pc)?;
        space.table.cache_jump(pc, code);
        Some(code)
    }

    /// Address of the jump cache of a mode's regions, in place while the generation is the same.
    pub fn jump_cache(&mut self, mode: Mode) -> u64 {
        let space = self.space(mode);
        self.spaces[space].table.jump_cache() as u64
    }

    /// Calls that the region at `pc` makes of other code: their pcs, and where those lead that say so.
    pub fn calls(&self, mode: Mode, pc: u64) -> &[(u64, Option<u64>)] {
        let code = self.lookup(mode, pc).map_or(0, |code| code as u64);
        let at = self.all.partition_point(|r| r.code.end <= code);
        self.all.get(at).filter(|r| r.code.start == code).map_or(&[], |r| &r.shape.calls)
    }

    /// How often `pc` must be arrived at before a region is worth while, where that is `patience` for a
    /// pc that one region contains; `None` if none can be made.
    pub fn patience(&mut self, mode: Mode, pc: u64, patience: u32) -> Option<u32> {
        let space = self.space(mode);
        let space = &self.spaces[space];
        (!space.refused.contains(&pc)).then(|| space.cover.patience(pc, patience))
    }

    /// Makes a region.
    pub fn request(&mut self, vcpu: &Vcpu, wish: Wish<'_>) -> Answer {
        let Wish { pc, mode, .. } = wish;
        if let Some(code) = self.lookup(mode, pc) {
            return Answer::Code(code);
        }
        let space = self.space(mode);
        if self.spaces[space].refused.contains(&pc) {
            return Answer::Never;
        }
        if self.spaces[space].pending.contains(&pc) {
            return Answer::Later;
        }
        if let Some(code) = self.load(vcpu, mode, pc) {
            return Answer::Code(code);
        }
        let start = Instant::now();
        let _phase = Translating::begin();
        let answer = self.make(vcpu, &wish).unwrap_or_else(|error| {
            if let CompileError::Arena(_) = error {
                self.clear();
            }
            self.make(vcpu, &Wish { later: false, ..wish }).unwrap_or_else(|error| {
                self.refuse(mode, pc, &error);
                Answer::Never
            })
        });
        self.stats.translate += start.elapsed();
        answer
    }

    fn refuse(&mut self, mode: Mode, pc: u64, error: &CompileError) {
        tracing::debug!("region at {pc:#x}: {error}");
        let space = self.space(mode);
        self.spaces[space].refused.insert(pc);
    }

    fn make(&mut self, vcpu: &Vcpu, wish: &Wish<'_>) -> Result<Answer, CompileError> {
        let &Wish { pc, mode, later, least, seen } = wish;
        let region = region::select(vcpu, pc, REGION_LIMIT, !mode.counted, seen);
        let space = self.space(mode);
        if region.blocks[0].insns.is_empty() || region.is_link() && region.len() < least {
            self.spaces[space].refused.insert(pc);
            return Ok(Answer::Never);
        }
        let ranges = region.ranges();
        let shared = self.library.as_ref().and_then(|library| {
            let key = Key::new(Kind::Region, mode, vcpu, pc)?;
            let tried = library.newest(&key);
            let words = saved::words_of(vcpu, &region)?;
            Some(Shared { library: library.clone(), key, words, tried })
        });
        let hashed = match &shared {
            Some(shared) => hashes(&shared.words),
            None => {
                ranges.iter().map(|&(s, e)| (s, e, hash_code(vcpu, mode.space, s, e))).collect()
            }
        };
        let (model, generation) = (vcpu.model, self.generation);
        let mut job = Job { region, ranges: hashed, generation, mode, model, shared };
        // From now on: other entries of the same code are not to be compiled meanwhile.
        let covered = Cover::of(&job.region);
        self.spaces[space].cover.add(&covered);
        if later && self.order(&mut job) {
            self.spaces[space].pending.insert(pc);
            return Ok(Answer::Later);
        }
        let placed = self.compile(&job).and_then(|output| {
            job.share(&output);
            self.finish(job, output)
        });
        if placed.is_err() {
            self.spaces[space].cover.remove(&covered);
        }
        placed.map(Answer::Code)
    }

    /// Hands a job to the compiling thread; false if there is none.
    fn order(&mut self, job: &mut Job) -> bool {
        if self.service.is_none() {
            self.service = Service::get().inspect_err(|error| tracing::debug!("{error}")).ok();
        }
        let Some(service) = &self.service else { return false };
        let region = region::Region { blocks: Vec::new() };
        let empty = Job { region, ranges: Vec::new(), shared: None, ..*job };
        service.order(std::mem::replace(job, empty), &self.inbox);
        self.ordered += 1;
        true
    }

    fn compile(&mut self, job: &Job) -> Result<Output, CompileError> {
        let compiler = match &mut self.compiler {
            Some(compiler) => compiler,
            none => none.insert(Compiler::new()?),
        };
        compiler.compile(job)
    }

    /// Whether [`load`](Self::load) may find a region.
    pub fn is_kept(&mut self, vcpu: &Vcpu, mode: Mode, pc: u64) -> bool {
        let newest = self.newest(vcpu, mode, pc);
        newest != 0 && {
            let space = self.space(mode);
            self.spaces[space].misfits.get(&pc).is_none_or(|&known| known < newest)
        }
    }

    /// Whether somebody in this process has found the code at `pc` hot.
    pub fn was_hot(&self, vcpu: &Vcpu, mode: Mode, pc: u64) -> bool {
        self.newest(vcpu, mode, pc) > 1
    }

    /// As [`Library::newest`].
    fn newest(&self, vcpu: &Vcpu, mode: Mode, pc: u64) -> u64 {
        let key = Key::new(Kind::Region, mode, vcpu, pc);
        let library = self.library.as_ref().zip(key);
        library.map_or(0, |(library, key)| library.newest(&key))
    }

    /// The region at `pc` that an earlier run or another thread has compiled from the same code.
    pub fn load(&mut self, vcpu: &Vcpu, mode: Mode, pc: u64) -> Option<*const u8> {
        if !self.is_kept(vcpu, mode, pc) {
            return None;
        }
        let start = Instant::now();
        let library = self.library.clone()?;
        let key = Key::new(Kind::Region, mode, vcpu, pc)?;
        // Before they are looked at: what is added meanwhile is looked at the next time.
        let newest = library.newest(&key);
        let found = library.find(&key).find_map(|record| {
            let saved = Saved::fitting(&record, mode, vcpu)?;
            (saved.shape.entry == pc).then_some((saved, matches!(record, Record::Shared(_))))
        });
        let code = found.and_then(|(Saved { words, shape, output }, shared)| {
            let (len, covered) = (shape.len(), shape.covered());
            let code = self.install(mode, hashes(&words), shape, output).ok()?;
            let stats = &mut self.stats;
            let (regions, instructions) = match shared {
                true => (&mut stats.shared, &mut stats.shared_instructions),
                false => (&mut stats.kept, &mut stats.kept_instructions),
            };
            (*regions, *instructions) = (*regions + 1, *instructions + len);
            let space = self.space(mode);
            self.spaces[space].cover.add(&covered);
            Some(code)
        });
        if code.is_none() {
            let space = self.space(mode);
            self.spaces[space].misfits.insert(pc, newest);
        }
        self.stats.translate += start.elapsed();
        code
    }

    /// Places what was compiled.
    fn finish(&mut self, job: Job, output: Output) -> Result<*const u8, CompileError> {
        let Job { region, ranges, mode, .. } = job;
        let shape = Shape::of(&region);
        self.stats.translations += 1;
        self.stats.translated_instructions += shape.len();
        self.stats.code_bytes += output.bytes.len() as u64;
        self.install(mode, ranges, shape, output)
    }

    /// Places code and lets control reach it.
    fn install(
        &mut self,
        mode: Mode,
        ranges: Vec<(u64, u64, u64)>,
        shape: Shape,
        mut output: Output,
    ) -> Result<*const u8, CompileError> {
        let space = self.space(mode);
        let arena = match &mut self.arena {
            Some(arena) => arena,
            none => none.insert(Arena::new(ARENA_SIZE)?),
        };
        relocate(&mut output, &mut self.spaces[space].table, arena)?;
        let start = arena.place(&output.bytes, output.align, output.anchor)?;
        let entry = shape.entry;
        profile::note("opt", mode.space, entry, start as u64, &output.bytes, || {
            output.pcs.iter().map(|&(at, _, pc)| (at, pc)).collect()
        });
        let space = &mut self.spaces[space];
        space.table.install(entry, start, arena)?;
        space.table.stock(arena)?;
        let end = start as u64 + output.bytes.len() as u64;
        self.fp_sites.add(start as u64, end, output.fp_sites);
        self.all.push(Compiled {
            mode,
            shape,
            code: start as u64..start as u64 + output.bytes.len() as u64,
            ranges,
            pcs: output.pcs,
            merged: output.merged,
            _kept: output.kept,
        });
        Ok(start)
    }

    /// Whether the compiling thread has jobs of this engine.
    pub fn waits(&self) -> bool {
        self.ordered != 0
    }

    /// As [`Inbox::listen`].
    pub fn listen(&self, poll: Option<&AtomicU32>) {
        self.inbox.listen(poll);
    }

    /// Places what the compiling thread has done: gives entries and their code, or none where there is
    /// no region after all, since the guest's code is another by now.
    pub fn collect(&mut self, vcpu: &Vcpu) -> Vec<(Mode, u64, Option<*const u8>)> {
        let start = Instant::now();
        let done = self.inbox.take();
        let mut installed = Vec::with_capacity(done.len());
        for Done { job, result, elapsed } in done {
            self.ordered -= 1;
            self.stats.background += elapsed;
            let (mode, entry, job_generation) = (job.mode, job.region.entry(), job.generation);
            let space = self.space(mode);
            // If all code has been thrown away meanwhile, it begins anew.
            if job.generation != self.generation {
                continue;
            }
            self.spaces[space].pending.remove(&entry);
            let covered = Cover::of(&job.region);
            let code = match result {
                _ if !job.ranges.iter().all(|r| is_same(vcpu, mode.space, r)) => None,
                None => {
                    self.spaces[space].cover.remove(&covered);
                    installed.push((mode, entry, self.load(vcpu, mode, entry)));
                    continue;
                }
                Some(Ok(output)) => self.finish(job, output).map_err(|_| self.clear()).ok(),
                Some(Err(error)) => {
                    self.refuse(mode, entry, &error);
                    None
                }
            };
            if code.is_none() && job_generation == self.generation {
                self.spaces[space].cover.remove(&covered);
            }
            installed.push((mode, entry, code));
        }
        self.stats.translate += start.elapsed();
        installed
    }

    /// Throws all code away. Nobody is executing it: the dispatcher runs.
    fn clear(&mut self) {
        self.generation += 1;
        self.spaces.clear();
        self.all.clear();
        self.fp_sites.clear();
        if let Some(arena) = &mut self.arena {
            arena.clear();
        }
    }

    /// Drops regions made from code in `[start, end)` that no longer reads the same, and says which.
    pub fn revalidate(&mut self, vcpu: &Vcpu, start: u64, end: u64) -> Vec<(Mode, u64)> {
        let mut dropped = Vec::new();
        for space in &mut self.spaces {
            space.refused.retain(|&pc| !(start..end).contains(&pc));
            // What a kept region was made from may have changed anywhere.
            space.misfits.clear();
        }
        for region in &mut self.all {
            let touched = region.ranges.iter().any(|&(s, e, _)| s < end && start < e);
            let space = region.mode.space;
            if touched && !region.ranges.iter().all(|r| is_same(vcpu, space, r)) {
                if let Some(space) = self.spaces.iter_mut().find(|s| s.mode == region.mode) {
                    space.table.remove(region.shape.entry);
                    space.cover.remove(&region.shape.covered());
                }
                // The host code stays in place but is never entered again.
                region.ranges.clear();
                dropped.push((region.mode, region.shape.entry));
            }
        }
        dropped
    }

    /// Goes back to the instruction whose host access failed in a region that is not precise, and says what
    /// the host knows of the fault. The host does not always tell the address, nor where the datum starts.
    pub fn find_fault(&self, vcpu: &mut Vcpu, mode: Mode) -> Exit {
        let rip = vcpu.cpu.engine[word::FAULT_RIP];
        let at = self.all.partition_point(|r| r.code.end <= rip);
        let region = self.all.get(at).filter(|r| r.code.contains(&rip));
        if let Some(region) = region {
            let offset = (rip - region.code.start) as u32;
            let at = region.pcs.partition_point(|&(_, end, _)| end <= offset);
            if let Some(&(_, _, pc)) = region.pcs.get(at).filter(|p| p.0 <= offset) {
                vcpu.cpu.pc = pc;
                if mode.counted
                    && let Some(&(_, end, _)) =
                        region.shape.blocks.iter().find(|&&(s, e, _)| (s..e).contains(&pc))
                {
                    vcpu.cpu.count -= (end - pc) / 4;
                }
            }
        }
        let va = vcpu.cpu.engine[word::FAULT_ADDR].wrapping_sub(vcpu.mem.host_base());
        let start = vcpu.cpu.engine[word::FAULT_START].wrapping_sub(vcpu.mem.host_base());
        let how = vcpu.cpu.engine[word::FAULT_WRITE];
        let is = |m: &&Merged| m.is(vcpu.cpu.pc, (how >> 8) as u8);
        let merged = region.and_then(|r| r.merged.iter().find(is));
        if let Some(merged) = merged {
            let distance = va.wrapping_sub(start);
            vcpu.cpu.pc = merged.faulting(distance);
            if how & 1 != 0 && (8..16).contains(&distance) {
                // The first of two stores was done, and the host has done neither. It can fail only where
                // somebody has taken the page away meanwhile.
                let _ = vcpu.mem.store_u64(start, vcpu.cpu.engine[word::FAULT_VALUE]);
            }
        }
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

impl Drop for Regions {
    fn drop(&mut self) {
        if self.forks == forks() {
            // After a panic the engine may not have done it.
            self.listen(None);
        } else {
            self.leave_parent();
        }
    }
}

/// Fills in the addresses that code refers to.
fn relocate(
    output: &mut Output,
    table: &mut CodeTable,
    arena: &mut Arena,
) -> Result<(), CompileError> {
    for &Relocation { at, symbol, addend } in &output.relocations {
        let address = match symbol {
            Symbol::JumpCache => table.jump_cache() as u64,
            Symbol::Table => &raw mut *table as u64,
            Symbol::Slot(pc) => table.slot(pc, arena)? as u64,
            Symbol::Kept(number) => &raw const output.kept[number as usize] as u64,
            Symbol::HostFn(function) => {
                function.address().ok_or(CompileError::Function(function))?
            }
        };
        let place = &mut output.bytes[at as usize..at as usize + 8];
        place.copy_from_slice(&(address + u64::from(addend)).to_le_bytes());
    }
    Ok(())
}

fn is_same(vcpu: &Vcpu, space: u32, &(start, end, hash): &(u64, u64, u64)) -> bool {
    hash_code(vcpu, space, start, end) == hash
}

/// Reads words of a program's code; says how many there are before the first fault.
pub fn fetch(vcpu: &Vcpu, start: u64, words: &mut [u32]) -> usize {
    let mut done = 0;
    while done < words.len() {
        let n = vcpu.mem.fetch_words(start + 4 * done as u64, &mut words[done..]);
        if n == 0 {
            break;
        }
        done += n;
    }
    done
}

fn hash_code(vcpu: &Vcpu, space: u32, start: u64, end: u64) -> u64 {
    let mut words = vec![0; (end - start) as usize / 4];
    let done = vcpu.mem.code_in(space, start, &mut words);
    hash(&words[..done])
}

/// The ranges of code that was fetched, as a region's.
fn hashes(words: &saved::Words) -> Vec<(u64, u64, u64)> {
    words
        .iter()
        .map(|(start, words)| (*start, start + 4 * words.len() as u64, hash(words)))
        .collect()
}

/// FNV-1a over guest code.
fn hash(words: &[u32]) -> u64 {
    let step = |h: u64, w: &u32| (h ^ u64::from(*w)).wrapping_mul(0x100_0000_01b3);
    words.iter().fold(0xcbf2_9ce4_8422_2325 ^ words.len() as u64, step)
}
