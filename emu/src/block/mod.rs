//! Straight-line runs of decoded instructions: the unit that every engine executes or translates.
//!
//! [`Block::build`] fetches and decodes; [`BlockCache`] keeps what engines made of blocks and
//! finds out which of it is still true after the guest has changed its code.

mod build;
mod cache;

pub use build::{Block, BlockEnd, MAX_BLOCK};
pub use cache::{BlockCache, CacheStats, PcHasher, table_slot};

use crate::cpu::Vcpu;
use crate::isa::{CpuModel, PalVariant};

/// What decides how a word decodes besides the word itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dialect {
    /// Which instructions exist.
    pub model: CpuModel,
    /// Which CALL_PAL functions are performed without leaving the block.
    pub pal: PalVariant,
}

impl Dialect {
    /// The dialect that a processor speaks.
    pub fn of(vcpu: &Vcpu) -> Self {
        Dialect { model: vcpu.model, pal: vcpu.pal }
    }
}
