//! Code that is not worth compiling yet: interpreted block by block, counting executions.

use axp_emu::block::{Block, BlockCache, Dialect};
use axp_emu::cpu::{Exit, Vcpu};
use axp_emu::interp;

use crate::runtime::step_at_pc;

/// Interprets cold blocks and knows which have become hot.
pub struct Cold {
    /// Blocks and how often each has been executed.
    blocks: BlockCache<u32>,
    threshold: u32,
}

impl Cold {
    /// Blocks become hot when they have been executed `threshold` times.
    pub fn new(threshold: u32) -> Self {
        Cold { blocks: BlockCache::default(), threshold }
    }

    /// Whether the block at `pc` has been executed often enough to be compiled.
    pub fn is_hot(&mut self, pc: u64) -> bool {
        self.blocks.get(pc).is_some_and(|(_, heat)| *heat >= self.threshold)
    }

    /// Catches up with changed code, after IMB or a change of mappings.
    pub fn invalidate(&mut self, vcpu: &Vcpu, start: u64, end: u64) {
        self.blocks.invalidate(&vcpu.mem, start, end);
    }

    /// Executes the block at `cpu.pc`, or what of it fits below the count `end` of a counted run.
    pub fn run(&mut self, vcpu: &mut Vcpu, end: u64) -> Result<(), Exit> {
        let pc = vcpu.cpu.pc;
        let dialect = Dialect::of(vcpu);
        self.blocks.sync(&vcpu.mem, dialect);
        if self.blocks.get(pc).is_none() {
            self.blocks.insert(Block::build(&vcpu.mem, pc, dialect), 0);
        }
        let Some((block, heat)) = self.blocks.get(pc) else { return step_at_pc(vcpu) };
        *heat += 1;
        if block.insns.is_empty() {
            return step_at_pc(vcpu);
        }
        let mut next = pc;
        for insn in &block.insns {
            if vcpu.counted && vcpu.cpu.count >= end {
                return Ok(());
            }
            let result = interp::step(vcpu, insn);
            if vcpu.counted && (result.is_ok() || vcpu.cpu.pc != next) {
                vcpu.cpu.count += 1;
            }
            result?;
            next = next.wrapping_add(4);
        }
        Ok(())
    }
}
