//! The interpreter: the reference for every engine, the single-stepper, and the way to execute what
//! a translator leaves out.
//!
//! `effect` holds what each kind of instruction does, once. Two loops execute it:
//! `loop_threaded`, the fast one, and `loop_match`, the plain one. [`step`] executes a single
//! instruction for other engines.

mod clock;
mod effect;
mod loop_match;
mod loop_threaded;
mod memory;
mod rows;
mod step;
#[cfg(test)]
mod tests;

use std::ptr;
use std::time::{Duration, Instant};

pub use clock::{CYCLES_PER_SECOND, rpcc};
pub use step::step;

use crate::block::{Block, BlockCache, BlockEnd, CacheStats, Dialect};
use crate::cpu::{Exit, UnalignedPolicy, Vcpu};
use crate::engine::{Engine, EngineStats, Limit};
use crate::mem::AddressSpace;
use effect::Env;
use loop_threaded::{CodeBox, JumpTable, Outcome, Run};

/// How the interpreter gets from one instruction to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Dispatch {
    /// By tail calls through handler addresses in the translated block.
    #[default]
    Threaded,
    /// By a match over the opcode.
    Match,
}

/// Translations of either loop.
enum Code {
    Threaded { cache: BlockCache<CodeBox>, jumps: Box<JumpTable> },
    Match(BlockCache<()>),
}

impl Code {
    fn new(dispatch: Dispatch) -> Self {
        match dispatch {
            Dispatch::Threaded => {
                Code::Threaded { cache: BlockCache::default(), jumps: Box::new(JumpTable::new()) }
            }
            Dispatch::Match => Code::Match(BlockCache::default()),
        }
    }

    fn stats(&self) -> CacheStats {
        match self {
            Code::Threaded { cache, .. } => cache.stats(),
            Code::Match(cache) => cache.stats(),
        }
    }

    fn dispatch(&self) -> Dispatch {
        match self {
            Code::Threaded { .. } => Dispatch::Threaded,
            Code::Match(_) => Dispatch::Match,
        }
    }
}

/// An [`Engine`] that interprets.
pub struct Interpreter {
    code: Code,
    /// The code space that `code` belongs to, and the code of the others that were met.
    space: u32,
    others: Vec<(u32, Code)>,
    strict: bool,
    /// Range whose code may have changed, to be looked at when memory is at hand.
    pending: Option<(u64, u64)>,
    translate: Duration,
}

// SAFETY: the raw pointers in translations lead to other translations of the same interpreter,
// which move with it; nothing is tied to a thread.
unsafe impl Send for Interpreter {}

impl Interpreter {
    /// An interpreter with nothing translated.
    pub fn new(dispatch: Dispatch) -> Self {
        Interpreter {
            code: Code::new(dispatch),
            space: 0,
            others: Vec::new(),
            strict: false,
            pending: None,
            translate: Duration::ZERO,
        }
    }

    /// What the block cache has seen.
    pub fn cache_stats(&self) -> CacheStats {
        let mut sum = self.code.stats();
        for (_, code) in &self.others {
            let stats = code.stats();
            sum.built += stats.built;
            sum.instructions += stats.instructions;
        }
        sum
    }

    /// Makes the code of `space` the current one. Code of other spaces is as it was; whether it is
    /// still true shows by the epoch, or it is dropped where a range was invalidated.
    #[cold]
    fn change_space(&mut self, space: u32) {
        let at = self.others.iter().position(|(s, _)| *s == space);
        let code = match at {
            Some(at) => self.others.swap_remove(at).1,
            None => Code::new(self.code.dispatch()),
        };
        let old = std::mem::replace(&mut self.code, code);
        self.others.push((std::mem::replace(&mut self.space, space), old));
    }
}

/// Drops what is no longer true; says whether anything was.
fn catch_up<T>(
    cache: &mut BlockCache<T>,
    mem: &AddressSpace,
    dialect: Dialect,
    pending: Option<(u64, u64)>,
) -> bool {
    let synced = cache.sync(mem, dialect);
    let dropped = pending.is_some_and(|(start, end)| cache.invalidate(mem, start, end));
    synced || dropped
}

/// Cuts every link between translations, some of which have been dropped.
fn unlink(cache: &mut BlockCache<CodeBox>, jumps: &mut JumpTable) {
    cache.data_mut().for_each(CodeBox::unlink);
    jumps.clear();
}

impl Engine for Interpreter {
    fn name(&self) -> &'static str {
        match self.code {
            Code::Threaded { .. } => "interp",
            Code::Match(_) => "interp-match",
        }
    }

    fn run(&mut self, vcpu: &mut Vcpu, limit: Limit) -> Exit {
        vcpu.counted = limit != Limit::None;
        vcpu.cpu.pc &= !3;
        let dialect = Dialect::of(vcpu);
        let env = Env { dialect, counted: vcpu.counted };
        let strict = vcpu.unaligned == UnalignedPolicy::Trap;
        let budget = match limit {
            Limit::None => i64::MAX as u64,
            Limit::Count(n) => n.min(i64::MAX as u64),
        };
        let space = vcpu.mem.code_space();
        if space != self.space {
            self.change_space(space);
        }
        let pending = self.pending.take();
        if pending.is_some() {
            self.others.clear();
        }
        let translate = &mut self.translate;
        match &mut self.code {
            Code::Threaded { cache, jumps } => {
                if self.strict != strict {
                    // The handlers of loads and stores differ.
                    cache.clear();
                    jumps.clear();
                }
                self.strict = strict;
                if catch_up(cache, &vcpu.mem, dialect, pending) {
                    unlink(cache, jumps);
                }
                run_threaded(cache, jumps, vcpu, &env, strict, budget as i64, translate)
            }
            Code::Match(cache) => {
                catch_up(cache, &vcpu.mem, dialect, pending);
                loop_match::run(cache, &mut vcpu.cpu, &vcpu.mem, &env, strict, budget)
            }
        }
    }

    fn invalidate(&mut self, start: u64, end: u64) {
        let (s, e) = self.pending.unwrap_or((start, end));
        self.pending = Some((s.min(start), e.max(end)));
    }

    fn stats(&self) -> EngineStats {
        let stats = self.cache_stats();
        EngineStats {
            translate: self.translate,
            translated_instructions: stats.instructions,
            translations: stats.built,
            ..EngineStats::default()
        }
    }
}

/// Runs until a guest event or until `budget` instructions have retired.
fn run_threaded(
    cache: &mut BlockCache<CodeBox>,
    jumps: &mut JumpTable,
    vcpu: &mut Vcpu,
    env: &Env,
    strict: bool,
    budget: i64,
    translate: &mut Duration,
) -> Exit {
    let cpu = &mut *vcpu.cpu;
    let mem = &*vcpu.mem;
    let mut run = Run {
        env,
        strict,
        jumps: ptr::null_mut(),
        goal: cpu.count.wrapping_add(budget as u64),
        outcome: Outcome::Leave,
        pc: cpu.pc,
        budget,
        link: ptr::null_mut(),
    };
    let exit = loop {
        cpu.pc = run.pc;
        if run.budget == 0 {
            break Exit::Limit;
        }
        let Some((block, code)) = cache.get(run.pc) else {
            let start = Instant::now();
            let block = Block::build(mem, run.pc, env.dialect);
            if let BlockEnd::FetchFault(fault) = block.end {
                break Exit::Fault(fault);
            }
            let code = loop_threaded::translate(&block, strict);
            cache.insert(block, code);
            *translate += start.elapsed();
            continue;
        };
        let link = code.entry();
        // SAFETY: the run's link is of a block in the cache, from which nothing is removed here.
        unsafe { loop_threaded::connect(&mut run, link) };
        jumps.insert(run.pc, link);
        run.jumps = jumps;
        if run.budget < block.insns.len() as i64 {
            // The limit lies in this block, before its last instruction.
            if env.counted {
                cpu.count = run.goal.wrapping_sub(run.budget as u64);
            }
            let count = run.budget as usize;
            let ran = loop_match::run_block(cpu, mem, env, strict, block, count);
            return ran.exit.unwrap_or(Exit::Limit);
        }
        // SAFETY: `link` is of a block in the cache, and all links are cut when one is dropped.
        unsafe { loop_threaded::enter(cpu, mem, link, run.budget, &mut run) };
        cpu.pc = run.pc;
        match run.outcome {
            Outcome::Leave => {}
            Outcome::Poll => break Exit::Poll,
            Outcome::Illegal(_) if run.budget == 0 => break Exit::Limit,
            Outcome::Illegal(word) => break Exit::Illegal(word),
            Outcome::Stop(stop) => break stop.into_exit(cpu, run.pc),
        }
    };
    if env.counted {
        cpu.count = run.goal.wrapping_sub(run.budget as u64);
    }
    exit
}
