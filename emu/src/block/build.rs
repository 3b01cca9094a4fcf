//! Fetches and decodes one block. Called on the first execution of an address by every engine.

use super::Dialect;
use crate::isa::{Insn, Kind, PalVariant, decode};
use crate::mem::{AddressSpace, MemFault, PAGE_SIZE};

/// Longest block, in instructions: bounds the work between two looks at the instruction limit.
pub const MAX_BLOCK: usize = 128;

/// How a block ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockEnd {
    /// At a page boundary or at its greatest length; execution goes on at this address.
    Fallthrough(u64),
    /// With its last instruction, which decides where to go on.
    Ender,
    /// Before this word, which is no instruction of the CPU model.
    Illegal(u32),
    /// The first instruction cannot be fetched; the block is empty.
    FetchFault(MemFault),
}

/// Instructions that execute one after the other: only the last may go elsewhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// Address of the first instruction.
    pub pc: u64,
    /// The instructions.
    pub insns: Box<[Insn]>,
    /// What was fetched, word by word, an illegal word at the end included.
    pub words: Box<[u32]>,
    /// What follows.
    pub end: BlockEnd,
}

impl Block {
    /// Fetches and decodes from `pc`, which is cut to a longword address.
    pub fn build(mem: &AddressSpace, pc: u64, dialect: Dialect) -> Block {
        let pc = pc & !3;
        let mut insns = Vec::with_capacity(16);
        let mut words = Vec::with_capacity(16);
        let mut at = pc;
        let end = loop {
            let word = match mem.fetch_u32(at) {
                Ok(word) => word,
                Err(fault) if insns.is_empty() => break BlockEnd::FetchFault(fault),
                // The page went away meanwhile: the fault belongs to whoever arrives there.
                Err(_) => break BlockEnd::Fallthrough(at),
            };
            words.push(word);
            let insn = match decode(word) {
                Some(insn) if dialect.has(&insn) => insn,
                _ => break BlockEnd::Illegal(word),
            };
            insns.push(insn);
            at = at.wrapping_add(4);
            if ends_block(&insn, dialect.pal) {
                break BlockEnd::Ender;
            }
            // Protection and mapping are constant within a page, so a block never spans two.
            if at.is_multiple_of(PAGE_SIZE) || insns.len() == MAX_BLOCK {
                break BlockEnd::Fallthrough(at);
            }
        };
        Block { pc, insns: insns.into(), words: words.into(), end }
    }

    /// Address after the last instruction.
    pub fn end_pc(&self) -> u64 {
        self.pc.wrapping_add(4 * self.insns.len() as u64)
    }

    /// Whether any fetched word lies in `[start, end)`.
    pub fn overlaps(&self, start: u64, end: u64) -> bool {
        let last = self.pc.wrapping_add(4 * self.words.len() as u64);
        self.pc < end && start < last
    }

    /// Whether memory still holds the words that were decoded, and they may be executed.
    pub fn is_current(&self, mem: &AddressSpace) -> bool {
        let mut at = self.pc;
        self.words.iter().all(|&word| {
            let same = mem.fetch_u32(at) == Ok(word);
            at = at.wrapping_add(4);
            same
        })
    }
}

/// CALL_PAL functions that engines perform themselves do not end a block.
fn ends_block(insn: &Insn, pal: PalVariant) -> bool {
    match insn.op.kind() {
        Kind::Pal => !pal.performs(insn.imm as u32),
        kind => kind.ends_block(),
    }
}
