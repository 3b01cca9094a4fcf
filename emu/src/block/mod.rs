//! Straight-line runs of decoded instructions: the unit that every engine executes or translates.
//!
//! [`Block::build`] fetches and decodes; [`BlockCache`] keeps what engines made of blocks and
//! finds out which of it is still true after the guest has changed its code.

mod build;
mod cache;

pub use build::{Block, BlockEnd, MAX_BLOCK};
pub use cache::{BlockCache, CacheStats, PcHasher, table_slot};

use crate::cpu::Vcpu;
use crate::isa::{CpuModel, Insn, PalVariant};
use crate::mem::SystemMap;

/// What decides how a word decodes besides the word itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dialect {
    /// Which instructions exist.
    pub model: CpuModel,
    /// Which CALL_PAL functions are performed without leaving the block.
    pub pal: PalVariant,
    /// Whether floating-point instructions execute (FEN).
    pub fp: bool,
}

impl Dialect {
    /// The dialect that a processor speaks.
    pub fn of(vcpu: &Vcpu) -> Self {
        let fp = vcpu.mem.system().is_none_or(SystemMap::fp_enabled);
        Dialect { model: vcpu.model, pal: vcpu.pal, fp }
    }

    /// Whether the instruction executes. A floating-point one without FEN decodes as none; the
    /// machine, which is told of an illegal word, knows better.
    #[inline]
    pub fn has(self, insn: &Insn) -> bool {
        self.model.has(insn.op.info().ext) && (self.fp || !insn.op.kind().is_floating_point())
    }
}
