//! The plain loop: a match over the opcode, one block after the other.
//!
//! Kept beside the threaded loop because it depends on nothing that the compiler might or might
//! not do; differential tests hold the two against each other.

use super::effect::{Checked, Env, Stop};
use super::step::execute;
use crate::block::{Block, BlockCache, BlockEnd};
use crate::cpu::{Cpu, Exit};
use crate::isa::Kind;
use crate::mem::AddressSpace;

/// What a run of some instructions of a block led to.
pub(super) struct Ran {
    /// Instructions retired.
    pub retired: u64,
    /// The address to go on at, or the guest event; `cpu.pc` is set in both cases.
    pub exit: Option<Exit>,
}

/// Executes the first `count` instructions of a block.
#[inline]
pub(super) fn run_block(
    cpu: &mut Cpu,
    mem: &AddressSpace,
    env: &Env,
    strict: bool,
    block: &Block,
    count: usize,
) -> Ran {
    let start = cpu.count;
    let mut pc = block.pc;
    for (i, insn) in block.insns[..count].iter().enumerate() {
        if env.counted {
            // For RPCC; nobody else looks before the end.
            cpu.count = start + i as u64;
        }
        // SAFETY: blocks are built from what `decode` made.
        let checked = unsafe { Checked::new_unchecked(insn) };
        match execute(cpu, mem, env, checked, strict, pc) {
            Ok(next) => pc = next,
            Err(stop) => {
                let retired = i as u64 + u64::from(stop.retired());
                return Ran { retired, exit: Some(finish(cpu, env, start, retired, stop, pc)) };
            }
        }
    }
    if env.counted {
        cpu.count = start + count as u64;
    }
    cpu.pc = pc;
    Ran { retired: count as u64, exit: None }
}

#[cold]
fn finish(cpu: &mut Cpu, env: &Env, start: u64, retired: u64, stop: Stop, pc: u64) -> Exit {
    if env.counted {
        cpu.count = start + retired;
    }
    stop.into_exit(cpu, pc)
}

/// The event that ends a block which has run to its end without one.
pub(super) fn end_event(block: &Block) -> Option<Exit> {
    match block.end {
        BlockEnd::Fallthrough(_) | BlockEnd::Ender => None,
        BlockEnd::Illegal(word) => Some(Exit::Illegal(word)),
        BlockEnd::FetchFault(fault) => Some(Exit::Fault(fault)),
    }
}

/// Whether the way from the block to `target` is one where a poll is due: a branch backwards or a
/// jump.
fn polls(block: &Block, target: u64) -> bool {
    match block.insns.last() {
        Some(last) if block.end == BlockEnd::Ender => match last.op.kind() {
            Kind::Jump => true,
            kind => kind.ends_block() && target < block.end_pc(),
        },
        _ => false,
    }
}

/// Runs until a guest event or until `budget` instructions have retired.
pub(super) fn run(
    cache: &mut BlockCache<()>,
    cpu: &mut Cpu,
    mem: &AddressSpace,
    env: &Env,
    strict: bool,
    mut budget: u64,
) -> Exit {
    loop {
        if budget == 0 {
            return Exit::Limit;
        }
        let pc = cpu.pc & !3;
        let Some((block, ())) = cache.get(pc) else {
            let block = Block::build(mem, pc, env.dialect);
            if let BlockEnd::FetchFault(fault) = block.end {
                cpu.pc = pc;
                return Exit::Fault(fault);
            }
            cache.insert(block, ());
            continue;
        };
        let count = (block.insns.len() as u64).min(budget) as usize;
        let ran = run_block(cpu, mem, env, strict, block, count);
        budget -= ran.retired;
        if let Some(exit) = ran.exit {
            return exit;
        }
        if count == block.insns.len() {
            if budget == 0 {
                return Exit::Limit;
            }
            if let Some(exit) = end_event(block) {
                return exit;
            }
            if polls(block, cpu.pc) && cpu.poll.load(std::sync::atomic::Ordering::Relaxed) != 0 {
                return Exit::Poll;
            }
        }
    }
}
